"""Convolutions that oneDNN can compute, recognized in a contraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from weft.dtypes import DType
from weft.kernels.contraction import Contraction, SlidingWindow, contraction_of
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.nodes import Axis, Binary, Buffer, Const, Expr, Load, Reduce, Var
from weft.loops.walk import reduces
from weft.plan.implementation import Blocking

MOST_AFTER = 4
"""As in ``weft_onednn.h``."""
_SIDES = 2
_MATRIX = 2
_CHANNELS = 1


@dataclass(frozen=True, slots=True)
class Tensor:
    """Sizes and steps, in elements: of batch, channels, rows and columns, or of a matrix."""

    dims: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class After:
    """What is done to the sums.

    Attributes:
        kind: a ReLU, a clip to ``low`` and ``high``, or the sum with a tensor.
        tensor: that is added.
    """

    kind: Literal["relu", "clip", "add"]
    low: float = 0.0
    high: float = 0.0
    tensor: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A convolution, or a product of matrices, as oneDNN is asked for it.

    Attributes:
        source: the image, or the left matrix.
        filter: sizes: output channels, input channels, rows and columns; or of the right
            matrix, which tells products, for which the four below are empty.
        dilations: one less than usual, as oneDNN counts.
        before: padding in front of rows and columns; behind: after them.
        bias: whether one is added to the sums first.
        after: what is done then.
        threads: to run on.
    """

    source: Tensor
    filter: tuple[int, ...]
    target: Tensor
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    bias: bool
    after: tuple[After, ...]
    threads: int

    @property
    def is_product(self) -> bool:
        """Whether it is one of matrices."""
        return len(self.filter) == _MATRIX


@dataclass(frozen=True, slots=True)
class Recognized:
    """A convolution in a task.

    Attributes:
        asked: what oneDNN computes.
        image, filter: the buffers; bias: of the sums, if there is one.
        added: the buffers that are added then, in order.
        seen: the filter's dimensions in the task.
        axes: these in oneDNN's order, those that it has.
    """

    asked: Asked
    image: str
    filter: str
    bias: str
    added: tuple[str, ...]
    seen: tuple[int, ...]
    axes: tuple[int, ...]

    def blocking(self, order: Sequence[int], blocks: Sequence[tuple[int, int]]) -> Blocking:
        """The filter laid out as oneDNN wants it."""
        return Blocking(self.seen, self.axes, self.asked.filter, tuple(order), tuple(blocks))


_NOTHING = SlidingWindow(1, 0, Axis("", 1), None, 1, 1, 0)


def recognize(task: Task) -> Recognized | Refusal:
    """The convolution that a task is, or why oneDNN is not asked for it."""
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    image = parts.image
    if image is None or parts.reduce is None or parts.lanes is None or parts.weight is None:
        return Refusal("it is no sum of products with constant filters, output channels fastest")
    buffers = {buffer.name: buffer for buffer in task.inputs}
    if parts.reduce.op != "sum" or any(each.dtype is not DType.F32 for each in task.inputs):
        return Refusal("it is no sum in f32")
    found = _sides(parts, buffers[image.buffer])
    if isinstance(found, Refusal):
        return found
    channel, channel_step, batch, sides = found
    axes = _filter_axes(parts, channel, sides)
    if axes is None:
        return Refusal("it is no convolution over all channels")
    outs = {batch.out.var, *(side.out.var for side in sides), parts.lanes.var, ""}
    if {axis.var for axis in task.compute.axes} - outs:
        return Refusal("the output has axes other than N, H, W, C")
    order = (batch.out.var, parts.lanes.var, *(side.out.var for side in sides))
    after = _after(task, parts, order)
    if isinstance(after, Refusal):
        return after
    bias, added, done = after
    lanes = parts.lanes.extent
    extents = (batch.out.extent, lanes, *(side.out.extent for side in sides))
    asked = Asked(
        _tensor(
            (batch.size, channel.extent, *(side.size for side in sides)),
            (batch.step, channel_step, *(side.step for side in sides)),
        ),
        (lanes, channel.extent, *(side.taps for side in sides)),
        _tensor(extents, _steps(task.output, [axis.var for axis in task.compute.axes], order)),
        tuple(side.stride for side in sides),
        tuple(side.dilation - 1 for side in sides),
        tuple(side.before for side in sides),
        tuple(side.behind for side in sides),
        bool(bias),
        done,
        task.threads,
    )
    seen = buffers[parts.weight].shape
    return Recognized(asked, image.buffer, parts.weight, bias, added, seen, axes)


def as_product(known: Recognized) -> Recognized | None:
    """A convolution of single pixels, which lie in one row, as a product of matrices."""
    asked = known.asked
    pixels = [axis for axis, size in enumerate(asked.source.dims) if axis != _CHANNELS and size > 1]
    window = (*asked.filter[2:], *asked.strides)
    if len(pixels) > 1 or set(window) != {1} or any((*asked.before, *asked.behind)):
        return None
    rows = pixels[0] if pixels else 0

    def matrix(tensor: Tensor) -> Tensor:
        axes = (rows, _CHANNELS)
        dims, steps = (tuple(of[axis] for axis in axes) for of in (tensor.dims, tensor.steps))
        return Tensor(dims, steps)

    after = tuple(
        replace(each, tensor=matrix(each.tensor)) if each.tensor else each for each in asked.after
    )
    return replace(
        known,
        asked=Asked(
            matrix(asked.source),
            (asked.filter[1], asked.filter[0]),
            matrix(asked.target),
            (),
            (),
            (),
            (),
            asked.bias,
            after,
            asked.threads,
        ),
        axes=(known.axes[1], known.axes[0]),
    )


def _tensor(dims: tuple[int, ...], steps: tuple[int, ...]) -> Tensor:
    """A tensor; steps of dimensions of one element are past all others."""
    past = max(size * step for size, step in zip(dims, steps, strict=True))
    pairs = zip(dims, steps, strict=True)
    return Tensor(dims, tuple(step if size > 1 else past for size, step in pairs))


def _sides(
    parts: Contraction, source: Buffer
) -> tuple[Axis, int, SlidingWindow, tuple[SlidingWindow, ...]] | Refusal:
    """The axis of channels and its step, the batch, and rows and columns."""
    channels = parts.channels()
    places = {place for place, _ in channels}
    found = [each for place, each in enumerate(parts.windows) if place not in places]
    sides = [each for each in found if each is not None and each.before >= 0]
    if len(sides) < len(found):
        return Refusal("its window moves in a way that oneDNN cannot express")
    if len(channels) != 1:
        return Refusal("it is no convolution over one dimension of channels")
    sides.sort(key=lambda side: -side.step)
    batch = _NOTHING
    if len(sides) > _SIDES and sides[0].whole:
        batch = sides.pop(0)
    if len(sides) > _SIDES:
        return Refusal("it has more than two spatial dimensions")
    sides = [_NOTHING] * (_SIDES - len(sides)) + sides
    bare = (side for side in sides if not side.tap)
    if not parts.guarded_by_borders(sides) or any(side.before or side.behind > 0 for side in bare):
        return Refusal("its conditions are not those of an image's borders")
    ((place, channel),) = channels
    return channel, source.steps[place], batch, tuple(sides)


def _filter_axes(
    parts: Contraction, channel: Axis, sides: Sequence[SlidingWindow]
) -> tuple[int, ...] | None:
    """The filter's dimensions for output channels, input channels, rows and columns."""
    assert parts.lanes is not None
    assert parts.reduce is not None
    wanted = [parts.lanes.var, channel.var, *(side.tap.var for side in sides if side.tap)]
    index = [part.name if isinstance(part, Var) else "" for part in parts.weight_index()]
    if sorted(index) != sorted(wanted) or len(wanted) != len(parts.reduce.axes) + 1:
        return None
    return tuple(index.index(name) for name in wanted)


def _steps(buffer: Buffer, names: Sequence[str], order: Sequence[str]) -> tuple[int, ...]:
    """The steps of a buffer along axes, those that it has."""
    steps = dict(zip(names, buffer.steps, strict=True))
    return tuple(steps.get(name, 0) for name in order)


# --- what is done to the sums ---------------------------------------------------------------


_MORE = Refusal("what follows the sum is more than biases, residuals, a ReLU or a clip")


def _after(
    task: Task, parts: Contraction, order: Sequence[str]
) -> tuple[str, tuple[str, ...], tuple[After, ...]] | Refusal:
    """The bias, the buffers that are added then, and what is done to the sums, in order."""
    assert parts.lanes is not None
    extents = {axis.var: axis.extent for axis in task.compute.axes}
    buffers = {buffer.name: buffer for buffer in task.inputs}
    whole = tuple(extents.get(name, 1) for name in order)
    found: list[tuple[After, str]] = []
    value = task.compute.value
    while not isinstance(value, Reduce):
        peeled = _peeled(value)
        if peeled is None:
            return _MORE
        after, load, value = peeled
        if load is not None:
            names = [part.name if isinstance(part, Var) else "" for part in load.index]
            if len(set(names)) < len(names) or not set(names) <= set(order) - {""}:
                return _MORE
            dims = tuple(extents[name] if name in names else 1 for name in order)
            if dims != whole and names != [parts.lanes.var]:
                return _MORE
            steps = _steps(buffers[load.buffer], names, order)
            after = replace(after, tensor=_tensor(dims, steps))
        found.append((after, load.buffer if load else ""))
    found.reverse()
    bias = _bias(found)
    rest = found[1:] if bias else found
    if len(rest) > MOST_AFTER:
        return _MORE
    added = tuple(name for after, name in rest if after.kind == "add")
    return bias, added, tuple(after for after, _ in rest)


def _bias(found: Sequence[tuple[After, str]]) -> str:
    """The buffer of one number for each channel that is added first, if there is one."""
    first = found[0][0].tensor if found else None
    plain = first is not None and prod(first.dims) == first.dims[1] and first.steps[1] == 1
    return found[0][1] if plain else ""


def _peeled(value: Expr) -> tuple[After, Load | None, Expr] | None:
    """The last thing that is done to a value, what it reads, and the value before."""
    match value:
        case Binary("min", Binary("max", inner, Const(low)), Const(high)) if low <= high:
            return After("clip", float(low), float(high)), None, inner
        case Binary("max", inner, Const(value=0)):
            return After("relu"), None, inner
        case Binary("add", lhs, rhs):
            inner, other = (lhs, rhs) if reduces(lhs) else (rhs, lhs)
            return (After("add"), other, inner) if isinstance(other, Load) else None
        case _:
            return None
