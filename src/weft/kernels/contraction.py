"""The analysis of a contraction: its reduction, the roles of its axes, and its windows.

A contraction reduces at most once: convolutions, matrix products, pooling, sums.  All generators
of such loops, those of plugins too, read this one analysis, which is made once for a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.analyzed import Analyzed
from weft.kernels.guards import Guard, unguarded
from weft.kernels.paired_factors import PairedFactors
from weft.kernels.refusal import Refusal
from weft.kernels.sliding import Slide, slide
from weft.kernels.task import Task
from weft.loops.affine import affine
from weft.loops.nodes import Axis, Binary, Cast, Expr, Load, Reduce, Var
from weft.loops.walk import free_vars, loads, map_expr, reduces, walk
from weft.ops.expr import add, binary, mul
from weft.records import dataclass

MAX_STATIC_TAPS = 16
"""Taps along the tiled axis that are written out; more are looped over."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A dimension of an image that is read at ``stride * out + dilation * tap - before``.

    Attributes:
        size: of the dimension; step: elements from one place to the next.
        out: the axis of outputs; tap: the reduction axis, if there is one.
    """

    size: int
    step: int
    out: Axis
    tap: Axis | None
    stride: int
    dilation: int
    before: int

    @property
    def taps(self) -> int:
        """How many places an output reads."""
        return self.tap.extent if self.tap else 1

    @property
    def behind(self) -> int:
        """How far the last window reaches past the image."""
        last = (self.out.extent - 1) * self.stride + (self.taps - 1) * self.dilation
        return last - self.before + 1 - self.size

    @property
    def whole(self) -> bool:
        """Whether outputs are the image's places, one by one."""
        plain = self.tap is None and self.stride == 1 and self.before == 0
        return plain and self.size == self.out.extent

    def reach(self, outs: int, taps: int = 0) -> int:
        """Places from the first to the last that so many outputs read."""
        return (outs - 1) * self.stride + ((taps or self.taps) - 1) * self.dilation + 1

    def place(self, out: Expr, tap: Expr) -> Expr:
        """What an output reads at a tap, counted from the first place of output 0."""
        return add(mul(out, self.stride), mul(tap, self.dilation))

    def places(self, origin: Expr, outs: int) -> tuple[Expr, Expr]:
        """Of the places that outputs from ``origin`` on read, the first of the image and the end.

        Places are counted from the first that ``origin`` reads.
        """
        first = mul(origin, self.stride)
        start, end = (binary("sub", each, first) for each in (self.before, self.before + self.size))
        return binary("max", 0, start), binary("min", self.reach(outs), end)

    def inside(self, out: int, tap: int) -> bool:
        """Whether a tap of an output lies on the image."""
        return 0 <= out * self.stride + tap * self.dilation - self.before < self.size


def sliding_window(
    part: Expr, size: int, step: int, taps: Mapping[str, Axis], outs: Mapping[str, Axis]
) -> SlidingWindow | None:
    """The window that an index moves, with or without a tap."""
    form = affine(part)
    factors = {atom.name: count for atom, count in form.terms.items() if isinstance(atom, Var)}
    along = [name for name in factors if name in outs]
    inside = [name for name in factors if name in taps]
    plain = len(factors) == len(form.terms) == len(along) + len(inside)
    if not plain or len(along) != 1 or len(inside) > 1 or min(factors.values()) < 1:
        return None
    tap = taps[inside[0]] if inside else None
    dilation = factors[inside[0]] if inside else 1
    out = outs[along[0]]
    return SlidingWindow(size, step, out, tap, factors[out.var], dilation, -form.const)


@dataclass(frozen=True)
class Contraction(Analyzed):
    """A task with at most one reduction, taken apart.

    Attributes:
        reduce: the one reduction, if there is one; value: without its guards.
        lanes: the vector axis, if the output has one; tile: the axis of positions.
        outer: the other output axes, slowest first.
        weight: the constant input that is packed, if there is one.
        slide: how a window moves along the tiled axis, if one does.
        pairs: what is multiplied two by two, or four by four, if that is so: the packed weight
            then holds a pair for every lane, and ``reduce`` and ``value`` count pairs.
    """

    task: Task
    reduce: Reduce | None
    value: Expr | None
    guards: tuple[Guard, ...]
    lanes: Axis | None
    tile: Axis | None
    outer: tuple[Axis, ...]
    weight: str | None
    slide: Slide | None = None
    pairs: PairedFactors | None = None

    @cached_property
    def image(self) -> Load | None:
        """The load of the input in ``input * filter``, in ``f32``."""
        return self._beside_weight(self.value, DType.F32)

    @cached_property
    def narrow_image(self) -> Load | None:
        """The same where input and filter are ``bf16``, read as ``f32``."""
        match self.value:
            case Binary("mul", Cast(DType.F32, lhs), Cast(DType.F32, rhs)):
                return self._beside_weight(Binary("mul", lhs, rhs), DType.BF16)
            case _:
                return None

    def _beside_weight(self, value: Expr | None, dtype: DType) -> Load | None:
        match value:
            case Binary("mul", Load() as lhs, Load() as rhs):
                pair = (lhs, rhs) if rhs.buffer == self.weight else (rhs, lhs)
                same = pair[0].buffer == self.weight or pair[1].buffer != self.weight
                return None if same or pair[0].dtype is not dtype else pair[0]
            case _:
                return None

    @cached_property
    def windows(self) -> tuple[SlidingWindow | None, ...]:
        """For each dimension of the image how outputs move along it, where that is by a window."""
        return self.windows_of(self.image) if self.image else ()

    def windows_of(self, image: Load) -> tuple[SlidingWindow | None, ...]:
        """The same for each dimension of an input that the reduction reads."""
        buffer = next(each for each in self.task.inputs if each.name == image.buffer)
        taps = {axis.var: axis for axis in self.reduce.axes} if self.reduce else {}
        outs = {axis.var: axis for axis in self.task.compute.axes}
        return tuple(
            sliding_window(part, size, step, taps, outs)
            for part, size, step in zip(image.index, buffer.shape, buffer.steps, strict=True)
        )

    def channels(self, image: Load | None = None) -> list[tuple[int, Axis]]:
        """The dimensions of an input that a reduction axis walks plainly, and these axes.

        Args:
            image: the input's load; by default ``image``.
        """
        image = image or self.image
        if image is None or self.reduce is None:
            return []
        taps = {axis.var: axis for axis in self.reduce.axes}
        index = enumerate(image.index)
        return [
            (place, taps[part.name])
            for place, part in index
            if isinstance(part, Var) and part.name in taps
        ]

    def guarded_by_borders(self, windows: Sequence[SlidingWindow]) -> bool:
        """Whether all guards hold exactly where windows lie on the image.

        Args:
            windows: those with a tap; each guard must be of one of them.
        """
        named = {window.tap.var: window for window in windows if window.tap}
        for guard in self.guards:
            if guard.tap not in named or not guard.is_along(named[guard.tap].out.var):
                return False
        for name, window in named.items():
            guards = [guard for guard in self.guards if guard.tap == name]
            for out in range(window.out.extent):
                for tap in range(window.taps):
                    if window.inside(out, tap) != all(guard.holds(out, tap) for guard in guards):
                        return False
        return True

    @property
    def tile_guards(self) -> tuple[Guard, ...]:
        """Guards that stand on the tiled axis."""
        return tuple(g for g in self.guards if self.tile and g.is_along(self.tile.var))

    @property
    def lane_extent(self) -> int:
        """How many lanes there are in all."""
        return self.lanes.extent if self.lanes else 1

    @property
    def terms(self) -> int:
        """How many terms all sums of the task have together."""
        taps = self.reduce.axes if self.reduce else ()
        return prod(axis.extent for axis in (*self.task.compute.axes, *taps))

    def loop_order(self) -> list[str]:
        """Reduction axes in the order of their loops: guarded taps, then the others."""
        reduce = self.reduce
        if reduce is None:
            return []
        guarded = {guard.tap for guard in self.guards}
        static = {guard.tap for guard in self.tile_guards}
        axes = [axis.var for axis in reduce.axes]
        order = [a for a in axes if a in guarded and a not in static]
        order += [a for a in axes if a in static]
        # Taps before channels: what a tap reads of neighbouring positions is contiguous.
        rest = [axis for axis in reduce.axes if axis.var not in guarded]
        rest.sort(key=lambda axis: axis.extent)
        order += [axis.var for axis in rest]
        if self.slide:
            order.remove(self.slide.tap)
            order.append(self.slide.tap)
        if self.pairs:
            order.remove(self.pairs.axis)
            order.append(self.pairs.axis)
        return order

    def weight_index(self) -> tuple[Expr, ...]:
        """Where the packed weight is read."""
        for load in loads(self.value) if self.value else ():
            if load.buffer == self.weight:
                return load.index
        return ()

    def weight_order(self) -> tuple[int, ...]:
        """Dimensions of the packed weight but the lanes', outermost first, as loops read it."""
        loops = self.loop_order()
        lanes = Var(self.lanes.var) if self.lanes else None

        def depth(part: Expr) -> int:
            return max((loops.index(var) for var in free_vars(part) if var in loops), default=-1)

        index = self.weight_index()
        rest = [axis for axis, part in enumerate(index) if part != lanes]
        return tuple(sorted(rest, key=lambda axis: depth(index[axis])))

    def packed_index(self, block: Expr, lane: Expr) -> tuple[Expr, ...]:
        """Where the packed weight is read."""
        index = self.weight_index()
        return (block, *(index[axis] for axis in self.weight_order()), lane)

    def with_packed(self, value: Expr, name: str, block: Expr, lane: Expr) -> Expr:
        """Reads the packed weight of a block in place of the weight itself."""
        order = self.weight_order()

        def swap(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer == self.weight:
                others = tuple(node.index[axis] for axis in order)
                return Load(name, (block, *others, lane), node.dtype)
            return node

        return map_expr(value, swap)


def contraction_of(task: Task) -> Contraction | Refusal:
    """The contraction that a task is, or why it is none; analyzed once for each task."""
    return task.fact(_analyzed)


def _analyzed(task: Task) -> Contraction | Refusal:
    reductions = {node for node in walk(task.compute.value) if isinstance(node, Reduce)}
    if len(reductions) > 1:
        return Refusal(f"it has {len(reductions)} reductions")
    reduce = reductions.pop() if reductions else None
    axes = task.compute.axes
    names = frozenset(axis.var for axis in axes)
    value, guards = None, ()
    if reduce is not None:
        if not names <= free_vars(reduce):
            return Refusal("what is reduced is the same along an axis of the output")
        if reduces(reduce.value):
            return Refusal("what is reduced holds a reduction itself")
        bare = unguarded(reduce)
        if bare is None:
            return Refusal("a condition in the reduction is no border of a window")
        value, guards = bare
    lanes = axes[-1] if axes and task.output.steps[-1] == 1 else None
    if lanes and any(lanes.var in guard.outs for guard in guards):
        return Refusal("the window's borders lie along the output's fastest axis")
    if lanes and not _streams(task, value, lanes.var):
        return Refusal(
            "what the reduction reads is neither contiguous nor one along the fastest axis"
        )
    rest = axes[:-1] if lanes else axes
    tile = _tile(value, rest, lanes)
    if tile and reduce and not _static(reduce, guards, tile):
        tile = None
    outer = tuple(axis for axis in rest if axis is not tile)
    if value is not None and tile and not task.exact:
        value = _scaled_weights(value, tile.var)
    weight = _packable(task, value, lanes) if reduce else None
    move = slide(reduce, value, guards, lanes, tile) if reduce and value else None
    return Contraction(task, reduce, value, guards, lanes, tile, outer, weight, move)


def _scaled_weights(value: Expr, tile: str) -> Expr:
    """``(x * factor) * weight`` as ``x * (factor * weight)``, which is one for all positions."""
    match value:
        case Binary("mul", Binary("mul", lhs, rhs), other) if tile not in free_vars(other):
            here = tile in free_vars(lhs), tile in free_vars(rhs)
            if here == (True, False):
                return Binary("mul", lhs, Binary("mul", rhs, other))
            if here == (False, True):
                return Binary("mul", rhs, Binary("mul", lhs, other))
            return value
        case _:
            return value


def _tile(value: Expr | None, axes: tuple[Axis, ...], lanes: Axis | None) -> Axis | None:
    """The fastest axis that shares no operand with the lanes, else the fastest."""
    if value is not None and lanes is not None:
        beside = frozenset[str]().union(
            *(free_vars(load) for load in loads(value) if lanes.var in free_vars(load))
        )
        for axis in reversed(axes):
            if axis.var not in beside:
                return axis
    return axes[-1] if axes else None


def _static(reduce: Reduce, guards: tuple[Guard, ...], tile: Axis) -> bool:
    """Whether the taps that are guarded along the tile are few and guarded by it alone."""
    static = {guard.tap for guard in guards if tile.var in guard.outs}
    taps = prod(axis.extent for axis in reduce.axes if axis.var in static)
    alone = all(guard.is_along(tile.var) for guard in guards if guard.tap in static)
    return taps <= MAX_STATIC_TAPS and alone


def _streams(task: Task, value: Expr | None, lane: str) -> bool:
    """Whether all that is read in the reduction is a vector or one number for all lanes."""
    if value is None:
        return True
    buffers = {buffer.name: buffer for buffer in task.inputs}
    for load in loads(value):
        step = 0
        for part, stride in zip(load.index, buffers[load.buffer].steps, strict=True):
            form = affine(part)
            step += form.terms.get(Var(lane), 0) * stride
            if any(not isinstance(a, Var) and lane in free_vars(a) for a in form.terms):
                return False
        packed = load.buffer in task.constants and Var(lane) in load.index
        if step not in (0, 1) and not packed:
            return False
    return True


def _packable(task: Task, value: Expr | None, lanes: Axis | None) -> str | None:
    """The constant that is read at one place, one of whose dimensions is the lanes'."""
    if value is None or lanes is None:
        return None
    places: dict[str, set[tuple[Expr, ...]]] = {}
    for load in loads(task.compute.value):
        places.setdefault(load.buffer, set()).add(load.index)
    for load in loads(value):
        moving = [part for part in load.index if lanes.var in free_vars(part)]
        once = load.buffer in task.constants and len(places[load.buffer]) == 1
        if once and moving == [Var(lanes.var)] and len(load.index) > 1:
            return load.buffer
    return None
