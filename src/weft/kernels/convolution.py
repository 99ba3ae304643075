"""Convolutions by a square window, recognised in a task."""

from __future__ import annotations

from dataclasses import dataclass

from weft.dtypes import DType
from weft.kernels.parts import Parts, parts_or_why
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.toom_cook import most_outputs
from weft.loops.affine import affine
from weft.loops.nodes import Axis, Binary, Buffer, Expr, Load, Var
from weft.loops.walk import free_vars


@dataclass(frozen=True)
class Convolution:
    """A convolution of so many taps and strides along both sides, as the task spells it.

    Attributes:
        parts: the task taken apart.
        rows, columns: the output axes that the window slides along.
        channel: the reduction axis of input channels.
        image: the load of the input; its dimensions for rows, columns and channels.
        before: how far the window reaches above and to the left.
        taps: the filter's dimensions for rows and columns of the window, and for channels.
        size: taps along each side of the window.
        stride: steps from one output to the next.
    """

    parts: Parts
    rows: Axis
    columns: Axis
    channel: Axis
    image: Load
    places: tuple[int, int, int]
    before: tuple[int, int]
    taps: tuple[int, int, int]
    size: int
    stride: int

    @property
    def source(self) -> Buffer:
        """The input."""
        return next(b for b in self.parts.task.inputs if b.name == self.image.buffer)

    @property
    def filter(self) -> Buffer:
        """The filter."""
        return next(b for b in self.parts.task.inputs if b.name == self.parts.weight)

    @property
    def outer(self) -> tuple[Axis, ...]:
        """Output axes that are neither pixels nor channels."""
        inside = (self.rows, self.columns)
        axes = (*self.parts.outer, *((self.parts.tile,) if self.parts.tile else ()))
        return tuple(axis for axis in axes if axis not in inside)


def recognise(task: Task) -> Convolution | None:
    """The convolution that a task is, if these loops can compute it."""
    found = convolution_or_why(task)
    return found if isinstance(found, Convolution) else None


NOT_SQUARE = "it is no convolution of an image by a square window over all channels"


def convolution_or_why(task: Task) -> Convolution | Refusal:
    """The convolution that a task is, or why these loops cannot compute it."""
    parts = parts_or_why(task)
    if isinstance(parts, Refusal):
        return parts
    if parts.reduce is None or parts.lanes is None or parts.weight is None:
        return Refusal("it is no sum of products with constant filters, output channels fastest")
    axes = {axis.var: axis for axis in parts.reduce.axes}
    image = image_of(parts)
    if image is None or parts.reduce.op != "sum" or len(axes) != 3:
        return Refusal(NOT_SQUARE)
    found = [_slide(part, axes) for part in image.index]
    slides = [(place, *slide) for place, slide in enumerate(found) if slide]
    channels = [
        (place, axes[part.name])
        for place, part in enumerate(image.index)
        if isinstance(part, Var) and part.name in axes
    ]
    if len(slides) != 2 or len(channels) != 1:
        return Refusal(NOT_SQUARE)
    (first, tap_y, y, stride, before_y), (second, tap_x, x, stride_x, before_x) = slides
    size = axes[tap_y].extent
    channel_place, channel = channels[0]
    out = {axis.var: axis for axis in task.compute.axes}
    weight = parts.weight_index()
    wanted = [Var(tap_y), Var(tap_x), Var(channel.var)]
    fixed = [part for place, part in enumerate(image.index) if not found[place]]
    if axes[tap_x].extent != size or stride_x != stride:
        return Refusal(
            f"its window is {size}x{axes[tap_x].extent} by strides {stride} and {stride_x}"
        )
    if stride >= min(size, 3) or most_outputs(size, stride) < 2:
        # Hardly an input that outputs share, or so many points that rounding is poor.
        return Refusal(f"nothing is saved for a window of {size}x{size} by strides of {stride}")
    if (
        sorted(map(str, weight)) != sorted(map(str, [*wanted, Var(parts.lanes.var)]))
        or any({y, x, parts.lanes.var} & free_vars(part) for part in fixed)
        or y not in out
        or x not in out
    ):
        return Refusal(NOT_SQUARE)
    taps = (weight.index(wanted[0]), weight.index(wanted[1]), weight.index(wanted[2]))
    whole = Convolution(
        parts,
        out[y],
        out[x],
        channel,
        image,
        (first, second, channel_place),
        (before_y, before_x),
        taps,
        size,
        stride,
    )
    if not _guards_are_borders(whole, (tap_y, tap_x)):
        return Refusal("its conditions are not those of an image's borders")
    return whole


def image_of(parts: Parts) -> Load | None:
    """The load of the input in ``input * filter``."""
    match parts.value:
        case Binary("mul", Load() as lhs, Load() as rhs):
            pair = (lhs, rhs) if rhs.buffer == parts.weight else (rhs, lhs)
            same = pair[0].buffer == parts.weight or pair[1].buffer != parts.weight
            return None if same or pair[0].dtype is not DType.F32 else pair[0]
        case _:
            return None


def _slide(part: Expr, taps: dict[str, Axis]) -> tuple[str, str, int, int] | None:
    """Tap, output axis, stride and reach of ``stride * axis + tap - reach``."""
    form = affine(part)
    steps = {atom.name: step for atom, step in form.terms.items() if isinstance(atom, Var)}
    inside = [name for name in steps if name in taps]
    if len(steps) != 2 or len(form.terms) != 2 or len(inside) != 1 or steps[inside[0]] != 1:
        return None
    axis = next(name for name in steps if name != inside[0])
    return None if steps[axis] < 1 else (inside[0], axis, steps[axis], -form.const)


def _guards_are_borders(conv: Convolution, taps: tuple[str, str]) -> bool:
    """Whether the guards hold exactly where the window lies on the input."""
    for tap, axis, place, before in zip(
        taps, (conv.rows, conv.columns), conv.places[:2], conv.before, strict=True
    ):
        guards = [guard for guard in conv.parts.guards if guard.tap == tap]
        if not all(guard.is_along(axis.var) for guard in guards):
            return False
        extent = conv.source.shape[place]
        for out in range(axis.extent):
            for step in range(conv.size):
                inside = 0 <= out * conv.stride + step - before < extent
                if inside != all(guard.holds(out, step) for guard in guards):
                    return False
    return all(guard.tap in taps for guard in conv.parts.guards)
