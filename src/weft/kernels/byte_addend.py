"""What is added to requantized bytes, by an instruction for lines of both (Helium)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.dtypes import DType
from weft.kernels.byte_add import ByteAdd
from weft.kernels.byte_scaling import ROW
from weft.kernels.integer_output import IntegerOutput
from weft.kernels.writer import integer
from weft.loops.instruction import member
from weft.loops.nodes import Axis, Buffer, Const, Expr, Instruct, Load, Var

_I8, _I32 = DType.I8, DType.I32
TABLE, NUMBERS = "table", "numbers"
_BYTE_SHIFT = 24


@dataclass(frozen=True)
class Addend:
    """Bytes that are added, by lines.

    Attributes:
        sum: what it makes with a row of bytes.
        buffer: theirs: other dimensions, rows, positions, channels.
        kept: where they are along the other dimensions.
    """

    sum: ByteAdd
    buffer: Buffer
    kept: tuple[Expr, ...]

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The table, and the factor, the multiplier, the term and the last shift."""
        shift, right, _ = self.sum.sizes
        multiplier, term = self.sum.arrays["adds"].tolist()
        # The sums of the table are doubled, which the instruction does itself.
        numbers = [1 << (shift - 1), multiplier, term, _BYTE_SHIFT - right]
        return {TABLE: self.sum.arrays["table"] // 2, NUMBERS: np.array(numbers, np.int32)}

    def add(self, out: Load, step: int, row: Load, place: Expr | None, positions: int) -> Instruct:
        """Adds to a row of bytes, and stores the sum.

        Args:
            out: where.
            step: from a position of the output to the next.
            row: the bytes, channels of a position after those of another.
            place: the row of the addend, if it has rows.
            positions: how many.
        """
        zero, rows = integer(0), () if place is None else (place,)
        other = Load(self.buffer.name, (*self.kept, *rows, zero, zero), _I8)
        pair = [other if each.buffer == other.buffer else row for each in self.loads]
        channels = self.buffer.shape[-1]
        steps = [self.buffer.steps[-2] if each is other else channels for each in pair]
        name = member("mve_add", positions, channels, step, *steps, self.sum.sizes[-1])
        table, numbers = (Load(each, (zero,), _I32) for each in (TABLE, NUMBERS))
        return Instruct(name, (out, *pair, table, numbers))

    @property
    def loads(self) -> tuple[Load, Load]:
        """Both bytes of a sum."""
        return self.sum.y, self.sum.x


def addend(sum: ByteAdd, output: IntegerOutput, axes: Sequence[Axis], image: str) -> Addend | None:
    """What is added to requantized bytes.

    Args:
        sum: of both.
        output: its definition reads the bytes; it gets the constants of the sum.
        axes: of the output that an addend has: rows (if there are any), positions, channels.
        image: a buffer that the addend must not be.
    """
    (other,) = [each for each in (sum.x, sum.y) if each.buffer != ROW]
    (source,) = [each for each in output.inputs if each.name == other.buffer]
    if other.buffer == image:
        return None
    wanted = [Var(axis.var) for axis in axes]
    places = [other.index.index(each) for each in wanted if each in other.index]
    rest = [at for at in range(len(other.index)) if at not in places]
    plain = all(isinstance(other.index[at], Var | Const) for at in rest)
    if len(places) < len(wanted) or not plain or source.steps[places[-1]] != 1:
        return None
    order = (*rest, *places)
    shape, steps = (tuple(each[at] for at in order) for each in (source.shape, source.steps))
    buffer = Buffer(other.buffer, _I8, shape, source.access, steps)
    found = Addend(sum, buffer, tuple(other.index[at] for at in rest))
    output.arrays = {**found.arrays, **output.arrays}
    return found
