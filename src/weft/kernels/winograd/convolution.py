"""Convolutions by square windows, several in depth, or windows along one axis, recognized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.kernels.contraction import Contraction, SlidingWindow, contraction_of
from weft.kernels.guards import Guard
from weft.kernels.refusal import Refusal
from weft.kernels.task import LOOP_NAMES, Task
from weft.kernels.winograd.toom_cook import most_outputs
from weft.loops.affine import AffineForm
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Binary, Buffer, Expr, Load, Reduce, Var
from weft.loops.walk import FreshNames, bound_vars, free_vars, loads, map_expr
from weft.ops.expr import index, mul
from weft.records import dataclass

NO_PLACE = -1
"""The dimension for rows of an image that has none."""


@dataclass(frozen=True)
class Convolution:
    """A convolution of so many taps and strides along its sides, as the task spells it.

    Attributes:
        parts: the task taken apart.
        rows, columns: the output axes that the window slides along.  A window along one axis,
            as of sounds, slides along ``columns``; ``rows`` is then an axis of one element.
        channel: the reduction axis of input channels.
        image: the load of the input, ``f32``, or ``bf16`` that is read so; places: its
            dimensions for rows, columns and channels; that of rows is ``NO_PLACE`` without them.
        before: how far the window reaches above and to the left.
        taps: the filter's dimensions for rows and columns of the window, and for what is summed
            at each of their places: channels, before which the taps in depth stand.  Without
            rows the first is the one for columns.
        size: taps along each side of the window.
        stride: steps from one output to the next.
        dilation: steps from one tap to the next.
        depth: how the window moves through the frames of a volume, if there are any.
        group: the output axis of groups of channels, each convolved for itself, if there are
            any; it is the filter's first dimension.
    """

    parts: Contraction
    rows: Axis
    columns: Axis
    channel: Axis
    image: Load
    places: tuple[int, int, int]
    before: tuple[int, int]
    taps: tuple[int, ...]
    size: int
    stride: int
    dilation: int
    depth: SlidingWindow | None = None
    group: Axis | None = None

    @property
    def sides(self) -> int:
        """How many axes the window slides along, depth not counted."""
        return 1 if self.places[0] == NO_PLACE else 2

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
        inside = (self.rows.var, self.columns.var)
        axes = (*self.parts.outer, *((self.parts.tile,) if self.parts.tile else ()))
        return tuple(axis for axis in axes if axis.var not in inside)

    @property
    def steps(self) -> int:
        """What is summed at each place of the window: channels, of all taps in depth."""
        return self.channel.extent * (self.depth.taps if self.depth else 1)

    @property
    def steps_inside(self) -> float:
        """The same of those taps in depth that lie inside, on average."""
        if self.depth is None:
            return self.steps
        outs, taps = self.depth.out.extent, self.depth.taps
        pairs = [(out, tap) for out in range(outs) for tap in range(taps)]
        return self.channel.extent * sum(self.depth.inside(*pair) for pair in pairs) / outs

    def depth_taps(self) -> tuple[Expr, Expr]:
        """Bounds of the taps in depth that lie inside."""
        window = self.depth
        assert window is not None
        first = mul(Var(window.out.var), window.stride)
        start, stop = index(0), index(window.taps)
        if window.before > 0:
            start = Binary("max", start, Binary("sub", index(window.before), first))
        if window.behind > 0:
            end = Binary("sub", index(window.size + window.before), first)
            stop = Binary("min", stop, end)
        return start, stop

    def depth_guards(self, steps: int) -> tuple[Guard, ...]:
        """The same as conditions on ``channel``, of which a tap has so many steps."""
        window, found = self.depth, list[Guard]()
        if window is None:
            return ()
        out = Var(window.out.var)
        if window.before > 0:
            form = AffineForm({out: steps * window.stride}, -steps * window.before)
            found.append(Guard(form, self.channel.var, 1))
        if window.behind > 0:
            last = steps * (window.size + window.before) - 1
            found.append(
                Guard(AffineForm({out: -steps * window.stride}, last), self.channel.var, -1)
            )
        return tuple(found)

    def tiles_along(self, axis: Axis, outputs: int) -> int:
        """Tiles of so many outputs along a side; those of a tile are ``dilation`` apart."""
        phases = min(self.dilation, axis.extent)
        return phases * -(-axis.extent // (outputs * self.dilation))


NOT_SQUARE = Refusal(
    "it is no convolution of an image by a square window, or one along one axis, over all channels "
    "of a group"
)


def square_convolution(task: Task) -> Convolution | Refusal:
    """The convolution by a square window, or one along one axis, that a task is, or why not."""
    return task.fact(_recognized)


def _recognized(task: Task) -> Convolution | Refusal:
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    if parts.reduce is None or parts.lanes is None or parts.weight is None:
        return Refusal("it is no sum of products with constant filters, output channels fastest")
    image = parts.image or parts.narrow_image
    if image is None or parts.reduce.op != "sum":
        return NOT_SQUARE
    parts, image, group = _with_channels(parts, image)
    assert parts.reduce is not None
    assert parts.lanes is not None
    windows, channels = parts.windows_of(image), parts.channels(image)
    slides = [(place, each, each.tap) for place, each in enumerate(windows) if each and each.tap]
    if len(slides) not in (1, 2, 3) or len(channels) != 1:
        return NOT_SQUARE
    if len(parts.reduce.axes) != len(slides) + 1:
        return NOT_SQUARE
    deep, sides = slides[:-2], slides[-2:]
    down, across = sides[0][1], sides[-1][1]
    channel_place, channel = channels[0]
    refusal = _unsuited(down, across, [each for _, each, _ in deep])
    if refusal:
        return refusal
    weight = list(parts.weight_index())
    if group and weight[0] != Var(group.var):
        return NOT_SQUARE
    wanted = [Var(tap.var) for _, _, tap in (*sides, *deep)] + [Var(channel.var)]
    places = [place for place, _, _ in sides]
    fixed = [part for place, part in enumerate(image.index) if place not in places]
    moving = {down.out.var, across.out.var, parts.lanes.var}
    read = sorted(map(str, [*wanted, Var(parts.lanes.var), *([weight[0]] if group else [])]))
    if sorted(map(str, weight)) != read or any(moving & free_vars(part) for part in fixed):
        return NOT_SQUARE
    if not parts.guarded_by_borders([each for _, each, _ in slides]):
        return Refusal("its conditions are not those of an image's borders")
    both = len(sides) == 2
    return Convolution(
        parts,
        down.out if both else Axis("line", 1),
        across.out,
        channel,
        image,
        (places[0] if both else NO_PLACE, places[-1], channel_place),
        (down.before if both else 0, across.before),
        tuple(weight.index(each) for each in wanted),
        down.taps,
        down.stride,
        down.dilation,
        deep[0][1] if deep else None,
        group,
    )


def _with_channels(parts: Contraction, image: Load) -> tuple[Contraction, Load, Axis | None]:
    """The same where one dimension of the image is that of input channels; groups, if there are."""
    if parts.channels(image):
        return parts, image, None
    task, group = _with_groups(parts, image) or (_with_channel(parts, image), None)
    deeper = contraction_of(task)
    task.forget()
    assert isinstance(deeper, Contraction)
    found = deeper.image or deeper.narrow_image
    return (deeper, found, group) if found else (parts, image, None)


def _with_groups(parts: Contraction, image: Load) -> tuple[Task, Axis] | None:
    """The task with two dimensions of channels, groups and those of each, and the groups' axis.

    Nothing where there are none, or where something else reads the image.
    """
    task = parts.task
    groups = [
        (place, each)
        for place, each in enumerate(parts.windows_of(image))
        if each and each.tap and each.taps == each.stride and each.before == 0 == each.behind
    ]
    if len(groups) != 1:
        return None
    ((place, window),) = groups
    if window.dilation != 1 or window.out not in parts.outer or window.tap is None:
        return None
    if any(each.buffer == image.buffer and each != image for each in loads(task.compute.value)):
        return None
    pair = Var(window.out.var), Var(window.tap.var)

    def split(node: Expr) -> Expr:
        if node == image:
            return replace(image, index=(*image.index[:place], *pair, *image.index[place + 1 :]))
        return node

    def cut(buffer: Buffer) -> Buffer:
        if buffer.name != image.buffer:
            return buffer
        shape, steps = buffer.shape, buffer.steps
        extents = window.out.extent, window.taps
        each = steps[place] * window.taps, steps[place]
        return replace(
            buffer,
            shape=(*shape[:place], *extents, *shape[place + 1 :]),
            strides=(*steps[:place], *each, *steps[place + 1 :]),
        )

    value = map_expr(task.compute.value, split)
    compute = Compute(task.compute.axes, value)
    return replace(task, compute=compute, inputs=tuple(map(cut, task.inputs))), window.out


def _with_channel(parts: Contraction, image: Load) -> Task:
    """The task with an axis of one input channel, which definitions do not keep."""
    task, old = parts.task, parts.reduce
    assert old is not None
    axes = {axis.var for axis in task.compute.axes}
    channel = Axis(FreshNames(axes | bound_vars(task.compute.value) | LOOP_NAMES)("k"), 1)
    names = {image.buffer, parts.weight}
    inside = {each for each in loads(old.value) if each.buffer in names}

    def deeper(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in names:
            place = Var(channel.var) if node in inside else index(0)
            return replace(node, index=(*node.index, place))
        return node

    sum = map_expr(old, deeper)
    assert isinstance(sum, Reduce)
    wider = replace(sum, axes=(*sum.axes, channel))
    value = map_expr(
        map_expr(task.compute.value, deeper), lambda node: wider if node == sum else node
    )
    inputs = tuple(
        replace(each, shape=(*each.shape, 1), strides=(*each.steps, 1))
        if each.name in names
        else each
        for each in task.inputs
    )
    return replace(task, compute=Compute(task.compute.axes, value), inputs=inputs)


def _unsuited(
    down: SlidingWindow, across: SlidingWindow, deep: Sequence[SlidingWindow]
) -> Refusal | None:
    """Why a window is not square, or saves nothing."""
    size, stride, dilation = down.taps, down.stride, down.dilation
    if across.taps != size or across.stride != stride:
        return Refusal(
            f"its window is {size}x{across.taps} by strides {stride} and {across.stride}"
        )
    if across.dilation != dilation or (dilation > 1 and stride > 1):
        dilations = f"{dilation} and {across.dilation}"
        return Refusal(f"its taps are {dilations} apart, and its strides {stride}")
    if stride >= min(size, 3) or most_outputs(size, stride) < 2:
        # Hardly an input that outputs share, or so many points that rounding is poor.
        window = f"{size}" if across is down else f"{size}x{size}"
        return Refusal(f"nothing is saved for a window of {window} by strides of {stride}")
    if any(each.dilation > 1 for each in deep):
        return Refusal(f"its taps in depth are {deep[0].dilation} apart")
    return None
