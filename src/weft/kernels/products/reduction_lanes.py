"""Few lanes: vectors that hold several parts of the sum of each.

Where an output has three channels, or a last vector of them is half empty, lanes that would
do nothing take other steps of the reduction.  With ``depth`` parts a vector reads as many
neighbours along the innermost reduction axis at once::

    deep[position][depth * lane + part] += x[position][depth * k + part] * w[k][lane][part]

In the end the parts of each sum are added up.  Vectors of two positions are folded into one,
two of these into another one, so that there are no idle lanes in that either::

    fold[i][lane] = pair(lane, 0) + pair(lane, 1)
    pair(lane, odd) = deep[2 * i + (lane >= half)][(2 * lane + odd) % lanes]

What is left of the axis is added to the folded sums as in other tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.task import LOOP_NAMES, Task
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import LANE, integer, plus, times, with_locals
from weft.loops.affine import affine
from weft.loops.definition import COMBINE, Compute, neutral
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    Load,
    Reduce,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import (
    FreshNames,
    bound_vars,
    dtype_of,
    free_vars,
    loads,
    map_expr,
    substitute,
    walk,
)
from weft.records import dataclass


def deep_axis(parts: Contraction) -> Axis | None:
    """The reduction axis along which vectors can hold several parts, if there is one.

    It is the innermost one, and all that is read along it lies side by side.
    """
    return parts.fact(_deep_axis)


def _deep_axis(parts: Contraction) -> Axis | None:
    reduce, value = parts.reduce, parts.value
    if reduce is None or value is None or parts.lanes is None or not parts.weight:
        return None
    if parts.task.target.flavour != "gnu":
        return None  # Plain C has no shuffles to fold with.
    if reduce.op != "sum" or dtype_of(value) is not DType.F32 or parts.slide:
        return None
    order, weight = parts.loop_order(), parts.weight_order()
    if not order or not weight or parts.weight_index()[weight[-1]] != Var(order[-1]):
        return None
    axis = next(each for each in reduce.axes if each.var == order[-1])
    if any(guard.tap == axis.var for guard in parts.guards):
        return None
    return axis if _lies_along(parts, value, axis.var) else None


def _lies_along(parts: Contraction, value: Expr, axis: str) -> bool:
    """Whether all operands but the weight are read by neighbours along an axis, in all lanes."""
    assert parts.lanes is not None
    buffers = {buffer.name: buffer for buffer in parts.task.inputs}
    for load in loads(value):
        if load.dtype is not DType.F32:
            return False
        if load.buffer == parts.weight:
            if sum(axis in free_vars(part) for part in load.index) != 1:
                return False
            continue
        step = 0
        for part, stride in zip(load.index, buffers[load.buffer].steps, strict=True):
            form = affine(part)
            if any(axis in free_vars(atom) and atom != Var(axis) for atom in form.terms):
                return False
            step += form.terms.get(Var(axis), 0) * stride
        if step != 1 or parts.lanes.var in free_vars(load):
            return False
    return True


def single_lane(task: Task) -> Task | None:
    """The task with one more axis, of one element, for its only filter.

    A convolution with one filter has no axis of channels, so vectors would run along pixels,
    which lie apart.  With that axis the same loops serve that serve a few filters.
    """
    reduces = {node for node in walk(task.compute.value) if isinstance(node, Reduce)}
    if len(reduces) != 1 or not task.compute.axes:
        return None
    axes = {axis.var for axis in task.compute.axes}
    found = {load for load in loads(reduces.pop().value) if load.buffer in task.constants}
    if len(found) != 1:
        return None
    weight = found.pop()
    if free_vars(weight) & axes or sum(each.buffer == weight.buffer for each in _loads(task)) > 1:
        return None
    lane = Axis(FreshNames(axes | bound_vars(task.compute.value) | LOOP_NAMES)("only"), 1)
    wider = replace(weight, index=(Var(lane.var), *weight.index))
    value = map_expr(task.compute.value, lambda node: wider if node == weight else node)
    inputs = tuple(
        replace(each, shape=(1, *each.shape), strides=(prod(each.shape), *each.steps))
        if each.name == weight.buffer
        else each
        for each in task.inputs
    )
    output = replace(task.output, shape=(*task.output.shape, 1), strides=(*task.output.steps, 1))
    return replace(
        task, compute=Compute((*task.compute.axes, lane), value), inputs=inputs, output=output
    )


def _loads(task: Task) -> set[Load]:
    return set(loads(task.compute.value))


def deep_blocks(extent: int, lanes: int, depth: int, most: int) -> list[LaneBlock]:
    """Blocks of the lanes that fill no vector, at most so many deep vectors in each.

    A single full vector before them is made deep, too: alone it would need a load for every
    product.  Nothing is found where vectors of one part are no more.
    """
    width = lanes // depth
    rest = extent % lanes
    if rest and extent <= min(most * width, 2 * lanes):
        rest = extent
    vectors = -(-rest // width)
    if vectors >= depth * len(powers(rest, lanes)):
        return []
    small, larger = divmod(vectors, -(-vectors // most))
    found: list[LaneBlock] = []
    start = extent - rest
    while start < extent:
        count = min(width * (small + (len(found) < larger)), extent - start)
        found.append(LaneBlock(start, 1, powers(count, width), depth))
        start += count
    return found


def vectors_of(block: LaneBlock, lanes: int) -> int:
    """How many vectors of products a block has at every position."""
    return len(block.widths) if block.depth == 1 else -(-block.width * block.depth // lanes)


def powers(extent: int, most: int) -> tuple[int, ...]:
    """Powers of two that add up to an extent."""
    found: list[int] = []
    while extent:
        width = min(most, 1 << (extent.bit_length() - 1))
        found.append(width)
        extent -= width
    return tuple(found)


@dataclass
class Deep(Microkernel):
    """The statements of one register tile of deep vectors.

    Attributes:
        rest: the packed parameter for what is left of the axis, if anything is.
    """

    rest: str = ""

    def statements(self) -> tuple[Stmt, ...]:
        """Accumulate, fold, add what is left, store."""
        axis = deep_axis(self.parts)
        assert axis is not None
        whole = axis.extent // self.block.depth
        parts = replace(self, spans={axis.var: (0, whole)})
        left = Microkernel(
            self.parts,
            replace(self.block, depth=1),
            self.first,
            self.number,
            self.rest,
            self.origin,
            self.size,
            self.clear,
            spans={axis.var: (whole * self.block.depth, axis.extent)},
        )
        after = left.reduction() if self.rest else ()
        body = (*self.starts(), *parts.reduction(), *self.folds(), *after, *left.stores())
        locals = (*self.accumulators(), *self.stages(), *left.accumulators())
        return with_locals(locals, body)

    @property
    def lanes(self) -> int:
        """Of a vector."""
        return self.parts.task.target.lanes(self.dtype)

    @property
    def vectors(self) -> range:
        """Numbers of the deep vectors of a position; the last one may have idle lanes."""
        return range(vectors_of(self.block, self.lanes))

    @property
    def dtype(self) -> DType:
        """Of the sums."""
        assert self.parts.reduce is not None
        return dtype_of(self.parts.reduce.value)

    def accumulators(self) -> tuple[Buffer, ...]:
        """The deep vectors of every position."""
        return tuple(
            Buffer(f"deep{vector}", self.dtype, (self.size, self.lanes), Access.LOCAL)
            for vector in self.vectors
        )

    def rows(self) -> list[int]:
        """How many vectors are left of one of every position after each stage of folding."""
        return halves(self.size, self.block.depth)

    def stages(self) -> tuple[Buffer, ...]:
        """What folding makes."""
        return tuple(
            Buffer(f"fold{vector}_{stage}", self.dtype, (count, self.lanes), Access.LOCAL)
            for vector in self.vectors
            for stage, count in enumerate(self.rows()[1:], 1)
        )

    def starts(self, span: tuple[int, int] | None = None) -> tuple[Stmt, ...]:
        """Clears the vectors, all or those of a span of positions."""
        assert self.parts.reduce is not None
        start, place = neutral(self.parts.reduce.op, self.dtype), (self.position, Var(LANE))
        found = (
            self.vector(self.lanes, Store(f"deep{vector}", place, start)) for vector in self.vectors
        )
        return self.spanned(tuple(found), span)

    def update(self, position: Expr, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """``deep = deep + value`` for all parts of a position."""
        axis = deep_axis(self.parts)
        assert axis is not None
        assert self.parts.value is not None
        depth = self.block.depth
        place = (position, Var(LANE))
        part = Var(LANE) if depth == self.lanes else _mod(Var(LANE), depth)
        value = self.along(axis.var, plus(times(Var(axis.var), depth), part))
        at = {**taps, **self.bound(position, 0)}
        found: list[Stmt] = []
        for vector in self.vectors:
            lane = plus(integer(vector * self.lanes), Var(LANE))
            packed = self.parts.with_packed(value, self.weight, self.number, lane)
            old = Load(f"deep{vector}", place, self.dtype)
            sum = Binary(COMBINE["sum"], old, substitute(packed, at))
            found.append(self.vector(self.lanes, Store(f"deep{vector}", place, sum)))
        return tuple(found)

    def along(self, axis: str, place: Expr) -> Expr:
        """What is summed, with all operands but the weight read at a place of an axis."""
        assert self.parts.value is not None

        def moved(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer != self.parts.weight:
                return substitute(node, {axis: place})
            return node

        return map_expr(self.parts.value, moved)

    def folds(self) -> Iterator[Stmt]:
        """Adds up the parts of each sum."""
        counts = self.rows()
        last = len(counts) - 1
        for vector in self.vectors:
            for stage, count in enumerate(counts[1:], 1):
                old = f"fold{vector}_{stage - 1}" if stage > 1 else f"deep{vector}"
                for row in range(count):
                    sum = self.pairs(old, 2 * row, min(2 * row + 1, counts[stage - 1] - 1))
                    place = (integer(row), Var(LANE))
                    yield self.vector(self.lanes, Store(f"fold{vector}_{stage}", place, sum))
        for piece, offset, width in self.block.pieces():
            held = self.lanes // self.block.depth
            vector, first = divmod(offset, held)
            for place in range(self.size):
                row, at = divmod(place, 1 << last)
                index = (integer(row), plus(integer(at * held + first), Var(LANE)))
                done = Load(f"fold{vector}_{last}", index, self.dtype)
                yield self.vector(width, Store(f"acc{piece}", (integer(place), Var(LANE)), done))

    def pairs(self, name: str, row: int, other: int) -> Expr:
        """Sums of pairs of lanes of two vectors, which may be one."""
        lanes = self.lanes
        sides: list[Expr] = []
        for odd in (0, 1):
            lane = plus(_mod(times(Var(LANE), 2), lanes), odd)
            found = [Load(name, (integer(each), lane), self.dtype) for each in (row, other)]
            low = Binary("lt", Var(LANE), integer(lanes // 2))
            sides.append(found[0] if row == other else Select(low, *found))
        return Binary(COMBINE["sum"], *sides)


def halves(vectors: int, depth: int) -> list[int]:
    """Vectors of so many parts, then one for two of those before, until each part is added."""
    found = [vectors]
    for _ in range(depth.bit_length() - 1):
        found.append(-(-found[-1] // 2))
    return found


def _mod(value: Expr, divisor: int) -> Expr:
    return Binary("mod", value, integer(divisor))
