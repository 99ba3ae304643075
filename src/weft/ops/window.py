"""Windows that slide over spatial axes: what convolution and pooling share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from weft.ir.types import Dim, TensorType
from weft.loops.guards import conjunction
from weft.loops.nodes import Axis, Expr, Select
from weft.ops.expr import add, binary, mul
from weft.ops.record import Call, Implied
from weft.records import dataclass

SPATIAL = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}
TAPS = {1: ("i",), 2: ("i", "j"), 3: ("h", "i", "j")}


def described(call: Call, *names: str) -> str:
    """The inputs' names and types, for errors: ``x f32[1,4,8,8], w f32[8,3,3,3]``."""
    pairs = zip(names, call.inputs, strict=False)
    return ", ".join(f"{name} {type}" for name, type in pairs if type is not None)


def implied_window(weight: int | None = None) -> dict[str, Implied]:
    """What strides, dilations and pads are that were not given, and the kernel of a weight.

    Args:
        weight: the position of the weight, if there is one.
    """

    def rank(call: Call) -> int:
        return len(call.type(0).shape) - 2

    found: dict[str, Implied] = {
        "strides": lambda call: (1,) * rank(call),
        "dilations": lambda call: (1,) * rank(call),
        "pads": lambda call: (0,) * (2 * rank(call)),
    }
    if weight is not None:
        found["kernel"] = lambda call: call.type(weight).shape[2:]
    return found


def spatial_axes(extents: Sequence[int]) -> tuple[Axis, ...]:
    """Output axes ``y, x`` (or as many as there are)."""
    names = SPATIAL.get(len(extents)) or tuple(f"y{place}" for place in range(len(extents)))
    return tuple(Axis(name, extent) for name, extent in zip(names, extents, strict=True))


def tap_axes(kernel: Sequence[int]) -> tuple[Axis, ...]:
    """Axes ``i, j`` over the taps of the window (or as many as there are)."""
    names = TAPS.get(len(kernel)) or tuple(f"t{place}" for place in range(len(kernel)))
    return tuple(Axis(name, extent) for name, extent in zip(names, kernel, strict=True))


@dataclass(frozen=True, slots=True)
class Window:
    """Where a sliding window reads, one entry for each spatial axis.

    Attributes:
        kernel: taps.
        strides: steps between outputs.
        dilations: steps between taps.
        begins: padding before the first element.
        ends: padding after the last element.
        ceil_mode: a last window that sticks out past the padding counts too.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    ceil_mode: bool = False

    @property
    def spans(self) -> tuple[int, ...]:
        """Input elements from the first to the last tap."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return tuple((taps - 1) * dilation + 1 for taps, dilation in pairs)

    def outputs(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Output sizes for these input sizes; not positive where the window does not fit."""
        return tuple(self._output(axis, extent) for axis, extent in enumerate(extents))

    def _output(self, axis: int, extent: int) -> int:
        stride, begin = self.strides[axis], self.begins[axis]
        free = extent + begin + self.ends[axis] - self.spans[axis]
        if free < 0 or not self.ceil_mode:
            return free // stride + 1
        count = -(-free // stride) + 1
        # The last window must start inside the input or the leading padding.
        return count - 1 if (count - 1) * stride >= extent + begin else count

    def positions(self, points: Sequence[Expr], taps: Sequence[Expr]) -> tuple[Expr, ...]:
        """Input coordinates of taps of the windows at output points."""
        return tuple(
            add(add(mul(point, stride), mul(tap, dilation)), -begin)
            for point, tap, stride, dilation, begin in zip(
                points, taps, self.strides, self.dilations, self.begins, strict=True
            )
        )

    def conditions(
        self, positions: Sequence[Expr], extents: Sequence[int], outputs: Sequence[int]
    ) -> list[Expr]:
        """What must hold for positions to be inside; only what can be false."""
        found: list[Expr] = []
        for axis, (position, extent) in enumerate(zip(positions, extents, strict=True)):
            if self.begins[axis] > 0:
                found.append(binary("le", 0, position))
            last = (outputs[axis] - 1) * self.strides[axis] + self.spans[axis] - 1
            if last - self.begins[axis] >= extent:
                found.append(binary("lt", position, extent))
        return found

    def slices(self, outputs: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Every tap in row-major order and what it reads of a ``padded`` array."""
        for tap in product(*(range(extent) for extent in self.kernel)):
            starts = (place * dilation for place, dilation in zip(tap, self.dilations, strict=True))
            yield (
                tap,
                tuple(
                    slice(start, start + (count - 1) * stride + 1, stride)
                    for start, count, stride in zip(starts, outputs, self.strides, strict=True)
                ),
            )

    def padded(self, x: np.ndarray, outputs: Sequence[int], value: float | int) -> np.ndarray:
        """``x`` (``[n, c, spatial...]``) with all that any window reads, padding included."""
        for axis, extent in enumerate(x.shape[2:]):
            last = (outputs[axis] - 1) * self.strides[axis] + self.spans[axis]
            before = self.begins[axis]
            after = max(0, last - before - extent)
            x = np.delete(x, range(max(0, -before)), axis + 2) if before < 0 else x
            widths = [(0, 0)] * x.ndim
            widths[axis + 2] = (max(0, before), after)
            if max(widths[axis + 2]) > 0:
                x = np.pad(x, widths, constant_values=x.dtype.type(value))
        return x


def guarded(conditions: Sequence[Expr], value: Expr, otherwise: Expr) -> Expr:
    """``value`` where all conditions hold; itself when there are none."""
    return Select(conjunction(conditions), value, otherwise) if conditions else value


def window_of(
    call: Call,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    ceil_mode: bool = False,
) -> Window:
    """The window of attributes in which ``()`` stands for ones or, for pads, zeros."""
    rank = len(kernel)
    strides = strides or (1,) * rank
    dilations = dilations or (1,) * rank
    pads = pads or (0,) * (2 * rank)
    for name, values, count in (
        ("strides", strides, rank),
        ("dilations", dilations, rank),
        ("pads", pads, 2 * rank),
    ):
        if len(values) != count:
            raise call.error(
                f"{name} must have {count} numbers for a kernel of {rank} axes",
                got=f"{name} {list(values)}, kernel {list(kernel)}",
            )
    for name, values in (("kernel", kernel), ("strides", strides), ("dilations", dilations)):
        if min(values, default=1) < 1:
            raise call.error(f"{name} must be at least 1", got=f"{name} {list(values)}")
    return Window(kernel, strides, dilations, pads[:rank], pads[rank:], bool(ceil_mode))


def spatial_dims(call: Call, x: TensorType) -> tuple[int, ...]:
    """Known spatial sizes of an activation ``[n, c, spatial...]``."""
    if len(x.shape) < 3:
        raise call.error("input must be [batch, channels, spatial...]", got=f"x {x}")
    dims = tuple(dim for dim in x.shape[1:] if isinstance(dim, int))
    if len(dims) < len(x.shape) - 1:
        raise call.error("sizes other than the batch must be known", got=f"x {x}")
    return dims[1:]


def window_shape(call: Call, x: TensorType, channels: Dim, window: Window) -> tuple[Dim, ...]:
    """The output's shape, or the error that the window does not fit."""
    extents = spatial_dims(call, x)
    if len(extents) != len(window.kernel):
        raise call.error(
            f"kernel has {len(window.kernel)} axes, input has {len(extents)} spatial axes",
            got=f"x {x}, kernel {list(window.kernel)}",
        )
    outputs = window.outputs(extents)
    if min(outputs) < 1:
        pads = [*window.begins, *window.ends]
        raise call.error(
            f"window of {list(window.spans)} does not fit into the padded input",
            got=f"x {x}, pads {pads}",
        )
    return (x.shape[0], channels, *outputs)
