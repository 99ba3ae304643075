"""Convolutions for Helium by lines: what instructions make at a time, and what ends their sums."""

from __future__ import annotations

import numpy as np

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.bytes.dual.depthwise import MOST_BYTES
from weft.kernels.bytes.helium.addend import line_sum
from weft.kernels.bytes.helium.function import byte_table
from weft.kernels.bytes.lines import Lines
from weft.kernels.bytes.scaling import ROW, RequantizedRow, Scaling
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.contraction import SlidingWindow
from weft.kernels.integer.output import IntegerOutput
from weft.kernels.integer.sums import constants_of
from weft.loops.walk import dtype_of
from weft.records import dataclass

VECTOR = 16
_PAIR, _SINGLE = 4, 8
_BYTE_SHIFT = 24


@dataclass(frozen=True)
class Shape:
    """A convolution by lines: what an instruction makes at a time.

    Attributes:
        window: the convolution.
        patched: whether what a window reads is put side by side first.
    """

    window: ByteWindow
    patched: bool

    @cached_property
    def lines(self) -> Lines:
        """The image as lines."""
        return Lines(self.window)

    @property
    def down(self) -> SlidingWindow | None:
        """The window along rows."""
        return self.window.rows[1] if self.window.rows else None

    @property
    def across(self) -> SlidingWindow | None:
        """The window along columns."""
        return self.window.columns[1] if self.window.columns else None

    @property
    def taps(self) -> int:
        """Rows of a window."""
        return self.down.taps if self.down else 1

    @property
    def run(self) -> int:
        """Bytes of a row of a window."""
        return self.lines.depth * (self.across.taps if self.across else 1)

    @property
    def step(self) -> int:
        """Bytes of a line from a position to the next."""
        return self.lines.depth * (self.across.stride if self.across else 1)

    @property
    def bordered(self) -> bool:
        """Whether windows leave the image."""
        both = (self.down, self.across)
        return any(each is not None and (each.before > 0 or each.behind > 0) for each in both)

    @property
    def length(self) -> int:
        """Bytes of a line that positions read."""
        return self.step * (self.lines.width - 1) + self.run

    @property
    def height(self) -> int:
        """Rows of outputs."""
        return self.down.out.extent if self.down else 1

    @cached_property
    def output(self) -> IntegerOutput:
        """What becomes of sums."""
        return IntegerOutput(self.window.found, self.window.found.bias)

    @cached_property
    def rounding(self) -> RequantizedRow:
        """How they become bytes."""
        return RequantizedRow(self.output, wide=False)

    @property
    def whole(self) -> bool:
        """Whether an instruction makes outputs, not only what they are computed from."""
        return self.rounding.made is not None and self.rounding.whole

    @cached_property
    def added(self) -> bool:
        """Whether an instruction adds other bytes, too."""
        if self.patched or self.across is None:
            return False
        return line_sum(self.rounding, self.output.value) is not None

    @cached_property
    def table(self) -> np.ndarray | None:
        """What outputs are for each requantized byte, if they depend on that alone."""
        if self.rounding.made is None or self.whole or dtype_of(self.output.value) is not DType.I8:
            return None
        return byte_table(self.output.value, ROW, constants_of(self.window.found.task))

    @cached_property
    def flat(self) -> bool:
        """Whether positions go on from row to row."""
        down, across, task = self.down, self.across, self.window.found.task
        if down is None or across is None or self.bordered or self.patched or not self.whole:
            return False
        axes = task.compute.axes
        steps = [task.output.steps[axes.index(each.out)] for each in (down, across)]
        return (
            down.whole
            and across.whole
            and down.step == across.size * self.lines.depth
            and steps[0] == steps[1] * across.out.extent
        )

    @cached_property
    def strip(self) -> int:
        """Rows of outputs whose inputs, or patches, are copied at a time."""
        if not (self.bordered or self.patched):
            return self.height
        down = self.down
        most = self.height
        if down is not None and self.bordered:
            fit = MOST_BYTES // self.length
            most = min(most, (fit - down.taps) // down.stride + 1)
        if self.patched:
            each = max(self.window.found.weights.shape)
            most = min(most, MOST_BYTES // (self.lines.width * each))
        strips = -(-self.height // max(1, most))
        return -(-self.height // strips)

    @property
    def positions(self) -> int:
        """Of a line."""
        lines = self.strip if self.patched else self.height if self.flat else 1
        return self.lines.width * lines

    @property
    def group(self) -> int:
        """Channels whose sums are made at a time."""
        return _PAIR if self.positions > 1 else _SINGLE

    @property
    def vectors(self) -> int:
        """Of a window."""
        if self.patched:
            return -(-self.window.found.weights.shape[1] // VECTOR)
        return self.taps * -(-self.run // VECTOR)


class HeliumOutput:
    """The end of sums, by the family of instructions that makes it.

    Attributes:
        family: the family; sizes: of a member beside those of all families.
        operands: constants, in order.
        rounding: the definition of outputs.
    """

    def __init__(self, output: IntegerOutput, group: int) -> None:
        self.output, self.rounding = output, RequantizedRow(output, wide=False)
        made = self.rounding.made
        self.group = group
        start = output.arrays.pop("start")
        self.family, self.sizes = "mve_sums", ()
        arrays = {"start": self.grouped(start)}
        if made is not None:
            added = self.rounding.add.arrays if self.rounding.add else ()
            for name in (*made.arrays, *added):
                del output.arrays[name]
            self.family, self.sizes, arrays = self._of(made, start)
        output.arrays.update(arrays)
        self.operands = tuple(arrays)

    def _of(
        self, made: Scaling, start: np.ndarray
    ) -> tuple[str, tuple[int, ...], dict[str, np.ndarray]]:
        if made.family == "scale_i32":
            multiplier, term, shift = made.arrays["factors"].T
            factors = [start, multiplier, term, _BYTE_SHIFT - shift]
            stacked = np.stack([self.grouped(each) for each in factors], axis=1)
            return "mve_i32", made.sizes[1:], {"factors": stacked}
        scales = np.broadcast_to(made.arrays["scales"], start.shape)
        arrays = {"start": self.grouped(start), "scales": self.grouped(scales)}
        return "mve_f32", (), {**arrays, "zero": made.arrays["zero"]}

    def grouped(self, values: np.ndarray) -> np.ndarray:
        """Numbers of channels by groups, zeros for channels that there are not."""
        values = np.pad(values, (0, -len(values) % self.group))
        return np.ascontiguousarray(values.reshape(-1, self.group))

    @property
    def whole(self) -> bool:
        """Whether an output is what the instruction makes."""
        return self.rounding.made is not None and self.rounding.whole
