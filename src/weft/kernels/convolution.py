"""Convolutions by a square window, recognized in a contraction."""

from __future__ import annotations

from dataclasses import dataclass

from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.toom_cook import most_outputs
from weft.loops.nodes import Axis, Buffer, Load, Var
from weft.loops.walk import free_vars


@dataclass(frozen=True)
class Convolution:
    """A convolution of so many taps and strides along both sides, as the task spells it.

    Attributes:
        parts: the task taken apart.
        rows, columns: the output axes that the window slides along.
        channel: the reduction axis of input channels.
        image: the load of the input, ``f32``, or ``bf16`` that is read so; places: its
            dimensions for rows, columns and channels.
        before: how far the window reaches above and to the left.
        taps: the filter's dimensions for rows and columns of the window, and for channels.
        size: taps along each side of the window.
        stride: steps from one output to the next.
        dilation: steps from one tap to the next.
    """

    parts: Contraction
    rows: Axis
    columns: Axis
    channel: Axis
    image: Load
    places: tuple[int, int, int]
    before: tuple[int, int]
    taps: tuple[int, int, int]
    size: int
    stride: int
    dilation: int

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

    def tiles_along(self, axis: Axis, outputs: int) -> int:
        """Tiles of so many outputs along a side; those of a tile are ``dilation`` apart."""
        phases = min(self.dilation, axis.extent)
        return phases * -(-axis.extent // (outputs * self.dilation))


NOT_SQUARE = Refusal("it is no convolution of an image by a square window over all channels")


def square_convolution(task: Task) -> Convolution | Refusal:
    """The convolution by a square window that a task is, or why it is none."""
    return task.fact(_recognized)


def _recognized(task: Task) -> Convolution | Refusal:
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    if parts.reduce is None or parts.lanes is None or parts.weight is None:
        return Refusal("it is no sum of products with constant filters, output channels fastest")
    image = parts.image or parts.narrow_image
    if image is None or parts.reduce.op != "sum" or len(parts.reduce.axes) != 3:
        return NOT_SQUARE
    windows, channels = parts.windows_of(image), parts.channels(image)
    slides = [(place, each, each.tap) for place, each in enumerate(windows) if each and each.tap]
    if len(slides) != 2 or len(channels) != 1:
        return NOT_SQUARE
    (first, down, tap_y), (second, across, tap_x) = slides
    size, stride = down.taps, down.stride
    channel_place, channel = channels[0]
    if across.taps != size or across.stride != stride:
        return Refusal(
            f"its window is {size}x{across.taps} by strides {stride} and {across.stride}"
        )
    dilation = down.dilation
    if across.dilation != dilation or (dilation > 1 and stride > 1):
        dilations = f"{dilation} and {across.dilation}"
        return Refusal(f"its taps are {dilations} apart, and its strides {stride}")
    if stride >= min(size, 3) or most_outputs(size, stride) < 2:
        # Hardly an input that outputs share, or so many points that rounding is poor.
        return Refusal(f"nothing is saved for a window of {size}x{size} by strides of {stride}")
    weight = parts.weight_index()
    wanted = [Var(tap_y.var), Var(tap_x.var), Var(channel.var)]
    fixed = [part for place, part in enumerate(image.index) if place not in (first, second)]
    moving = {down.out.var, across.out.var, parts.lanes.var}
    read = sorted(map(str, [*wanted, Var(parts.lanes.var)]))
    if sorted(map(str, weight)) != read or any(moving & free_vars(part) for part in fixed):
        return NOT_SQUARE
    if not parts.guarded_by_borders((down, across)):
        return Refusal("its conditions are not those of an image's borders")
    return Convolution(
        parts,
        down.out,
        across.out,
        channel,
        image,
        (first, second, channel_place),
        (down.before, across.before),
        (weight.index(wanted[0]), weight.index(wanted[1]), weight.index(wanted[2])),
        size,
        stride,
        dilation,
    )
