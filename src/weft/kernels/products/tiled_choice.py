"""Register tiles and orders of loops worth trying, and about what they cost.

The estimate counts, per register tile and step of the reduction, multiply-adds (whether all
their lanes are used or not), loads (one for every vector and one for every position), and at
least the latency of one multiply-add; then what has to come from the second cache and from
beyond it because the loops come back to it too late. How many there are in a cycle, and how
many bytes come, is the target's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

from weft.kernels.alternatives import Alternative, Sums
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.guards import Guard
from weft.kernels.integer.sums import BYTES
from weft.kernels.products import tiled
from weft.kernels.products.reduction_lanes import deep_axis, deep_blocks, single_lane, vectors_of
from weft.kernels.products.stretches import refusal_of as refusal_of_stretches
from weft.kernels.products.tile_form import (
    MOST_DEEP,
    Order,
    TileForm,
    fetches_ahead,
    form_blocks,
    lane_count,
    positions_of,
    usual_form,
    weight_reads,
)
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of, even_size, is_product, most_positions
from weft.loops.nodes import Buffer, Operation
from weft.loops.walk import dtype_of, free_vars, loads, walk
from weft.targets.target import Target

MOST_TAPS = 64
"""So many taps of a window are looked at to know how many lie inside."""


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The usual form and others, those that look best first."""
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return _of_one_filter(task) or parts
    if not tiled.applies(parts):
        refusal = Refusal("the output's fastest axis is not contiguous")
        return _of_one_filter(task) or refusal
    usual = usual_form(parts)
    if parts.reduce is None:
        return (replace(_alternative(parts, usual, 0.0), name="tiled"),)
    each = _operations(parts)
    costs = {form: each * cycles(parts, form) for form in (usual, *forms(parts))}
    # The usual form comes from measurements that the estimate does not know of; next to
    # other algorithms, which are estimated alike, only its multiply-adds count, unless these
    # are not what takes its time.
    shallow = min(costs.values())
    if refusal_of_stretches(parts):
        costs[usual] = min(shallow, each * products(parts, usual))
    for form in deep_forms(parts):
        cost = each * cycles(parts, form)
        costs[form] = min(cost, costs[usual] * cost / shallow)
    return tuple(
        _alternative(parts, form, cost)
        for form, cost in sorted(costs.items(), key=lambda pair: pair[1])
    )


def _operations(parts: Contraction) -> int:
    """Instructions for a step of a sum: bytes are widened, and their zero points subtracted."""
    read = loads(parts.value) if parts.value else ()
    if parts.value is None or all(load.dtype not in BYTES for load in read):
        return 1
    return sum(isinstance(node, Operation) for node in walk(parts.value))


def _alternative(parts: Contraction, form: TileForm, cost: float) -> Alternative:
    """A form; whatever its tiles, every lane adds in the order of the loops."""
    sums = Sums("tiled", (form.depth,))
    make, known = partial(tiled.write, parts, form), partial(tiled.fits, parts, form)
    return Alternative(form.name, cost, sums, make, known)


def _of_one_filter(task: Task) -> tuple[Alternative, ...]:
    """Deep vectors for a sum that has no axis of filters."""
    wider = single_lane(task)
    parts = contraction_of(wider) if wider else None
    if not isinstance(parts, Contraction) or not tiled.applies(parts):
        return ()
    costs = {form: cycles(parts, form) for form in deep_forms(parts)}
    return tuple(
        _alternative(parts, form, cost)
        for form, cost in sorted(
            costs.items(), key=lambda pair: (pair[1], arithmetic(parts, pair[0]))
        )
    )


def forms(parts: Contraction) -> Iterator[TileForm]:
    """All forms worth trying."""
    usual = usual_form(parts)
    count = -(-parts.lane_extent // lane_count(parts))
    for positions, vectors in shapes(parts, count):
        ahead, streams = weight_reads(parts, positions, vectors)
        form = replace(usual, positions=positions, vectors=vectors, ahead=ahead, streams=streams)
        yield form
        if streams > 1:
            yield replace(form, streams=1)
        several = blocks_of(parts.lane_extent, lane_count(parts), vectors)[0].count > 1
        if not parts.weight or not several:
            continue
        yield replace(form, ahead=not ahead, streams=1)
        if parts.tile is not None:
            yield replace(form, order=Order.TILES, group=0)
            if parts.outer:
                yield replace(form, order=Order.ROWS, group=0)


def deep_forms(parts: Contraction) -> Iterator[TileForm]:
    """Forms whose last vectors hold several parts of sums in lanes that would be idle."""
    axis, lanes = deep_axis(parts), lane_count(parts)
    if axis is None or (parts.tile is not None and not is_product(parts)):
        return
    usual = replace(usual_form(parts), group=0, streams=1)
    for depth in dict.fromkeys((2, lanes)):
        if not 1 < depth <= min(lanes, axis.extent):
            continue
        deep = deep_blocks(parts.lane_extent, lanes, depth, MOST_DEEP)
        if not deep:
            continue
        if deep[0].start == 0:
            only = replace(usual, vectors=vectors_of(deep[0], lanes), ahead=False, depth=depth)
            yield replace(only, positions=positions_of(parts, only, deep[0]))
            continue
        for positions, vectors in shapes(parts, parts.lane_extent // lanes):
            form = replace(usual, positions=positions, vectors=vectors, depth=depth)
            yield replace(form, ahead=fetches_ahead(parts, vectors))
            fits = all(positions <= positions_of(parts, form, block) for block in deep)
            if fits and parts.tile is not None:
                yield replace(form, order=Order.TILES, ahead=False)


def shapes(parts: Contraction, count: int) -> list[tuple[int, int]]:
    """Positions and vectors of register tiles whose accumulators fit the registers.

    Args:
        parts: the task.
        count: of vectors that hold all lanes.
    """
    registers = parts.task.target.registers
    positions = parts.tile.extent if parts.tile else 1
    if positions == 1:
        return [(1, vectors) for vectors in (1, 2, 4, 8) if vectors <= count]
    if not is_product(parts):
        most = max(1, registers // (2 if parts.slide else 4))
        sizes = {min(positions, size) for size in (most, most // 2, 2 * most) if size}
        return [(size, 1) for size in sorted(sizes)]
    found: list[tuple[int, int]] = []
    for vectors in range(1, min(count, 6) + 1):
        most = most_positions(parts, vectors)
        # Tiles of one size: the last one is not smaller for nothing.
        even = even_size(parts, positions, most)
        found += [(size, vectors) for size in dict.fromkeys((even, min(most, positions)))]
    return found


def cycles(parts: Contraction, form: TileForm) -> float:
    """About how many cycles a form takes on one core."""
    return max(arithmetic(parts, form), traffic(parts, form))


def products(parts: Contraction, form: TileForm) -> float:
    """Cycles for the multiply-adds alone, of those taps that lie inside."""
    axes = (*parts.outer, *((parts.tile,) if parts.tile else ()))
    vectors = sum(block.count * _vectors(parts, block) for block in form_blocks(parts, form))
    return reduction(parts) * vectors * prod(axis.extent for axis in axes) / products_a_cycle(parts)


def products_a_cycle(parts: Contraction) -> float:
    """Steps of the reduction for a vector of lanes that take a cycle."""
    target, pairs = parts.task.target, parts.pairs
    if pairs is None:
        return target.multiply_adds
    return target.multiply_adds * pairs.positions / target.cycles(pairs.rows[lane_count(parts)])


def arithmetic(parts: Contraction, form: TileForm) -> float:
    """Cycles for multiply-adds and loads from the first cache."""
    total = 0.0
    for block in form_blocks(parts, form):
        size = form.positions if form.order is Order.TILES else positions_of(parts, form, block)
        for positions, often in _cut(parts.tile.extent if parts.tile else 1, size):
            total += often * block.count * _tile(parts, block, positions)
    return total * prod(axis.extent for axis in parts.outer)


def _tile(parts: Contraction, block: LaneBlock, positions: int) -> float:
    """Cycles of one register tile."""
    vectors = _vectors(parts, block)
    target = parts.task.target
    weights = vectors
    if parts.pairs:
        positions += -positions % parts.pairs.positions
        weights *= parts.pairs.vectors
    loaded = (positions + weights) / target.loads
    # Where no instruction loads one element into all lanes, shuffles take turns with additions.
    shuffles = 0 if target.fused or block.depth == lane_count(parts) else positions
    products = (positions * vectors + shuffles) / products_a_cycle(parts)
    step = max(products, loaded, target.issue.latency)
    steps = reduction(parts)
    # Vectors are stored, or folded while others are multiplied.
    ends = target.costs.tile + positions * vectors / target.vectors.share
    axis = deep_axis(parts)
    if block.depth > 1 and axis is not None:
        whole, rest = divmod(axis.extent, block.depth)
        steps *= (whole + rest) / axis.extent
    return steps * step + ends


def _vectors(parts: Contraction, block: LaneBlock) -> float:
    """Whole vectors that take as long as those of a block.

    Half of one alone takes as long as one: every product waits for the load of a scalar.
    """
    if block.depth > 1 or parts.lanes is None:
        return vectors_of(block, lane_count(parts))
    assert parts.reduce is not None
    dtype = dtype_of(parts.reduce.value)
    return max(1.0, sum(parts.task.target.whole(width, dtype) for width in block.widths))


def reduction(parts: Contraction) -> float:
    """Steps of the reduction for one output, of those taps that lie inside, on average."""
    return parts.fact(_reduction)


def _reduction(parts: Contraction) -> float:
    assert parts.reduce is not None
    steps = 1.0
    extents = {axis.var: axis.extent for axis in parts.task.compute.axes}
    for axis in parts.reduce.axes:
        steps *= axis.extent
        guards = [guard for guard in parts.guards if guard.tap == axis.var]
        along = next((out for guard in guards for out in sorted(guard.outs)), "")
        if along and all(guard.is_along(along) for guard in guards):
            steps *= inside(guards, extents[along], axis.extent)
    return steps


def inside(guards: Sequence[Guard], outs: int, taps: int) -> float:
    """The part of all pairs of output and tap for which guards along an axis hold.

    Of very many taps some stand for all.
    """
    chosen = range(0, taps, max(1, taps // MOST_TAPS))
    total = 0.0
    for tap in chosen:
        bounds = [guard.outs_inside(tap) for guard in guards]
        first = max(0, *(low for low, _ in bounds))
        last = min(outs - 1, *(high for _, high in bounds))
        total += max(0, last - first + 1)
    return total / (outs * len(chosen))


def _cut(extent: int, size: int) -> list[tuple[int, int]]:
    """Sizes of tiles and how often they come."""
    whole, rest = divmod(extent, size)
    return [(size, whole), (rest, 1)] if rest else [(size, whole)]


def traffic(parts: Contraction, form: TileForm) -> float:
    """Cycles for what comes from beyond the first cache, again and again."""
    target = parts.task.target
    if not target.caches:
        return 0.0
    image, filter = parts.fact(operand_bytes)
    width = form.vectors * lane_count(parts)
    blocks = -(-parts.lane_extent // width)
    rows = prod(axis.extent for axis in parts.outer)
    tiles = rows * -(-(parts.tile.extent if parts.tile else 1) // form.positions)
    # Of groups of channels each has weights of its own.
    own = {var for part in parts.weight_index() for var in free_vars(part)}
    groups = prod(axis.extent for axis in parts.outer if axis.var in own)
    slab = filter / blocks / groups
    match form.order:
        case Order.OUTERMOST:
            reads = [(filter, 1, filter), (slab, tiles * blocks, slab), (image, blocks, image)]
            if groups > 1:
                reads.append((filter, rows // groups - 1, filter))
        case Order.ROWS:
            reads = [(filter, rows, filter), (slab, tiles * blocks, slab), (image, 1, image)]
            reads.append((image / rows, blocks * rows, image / rows))
        case Order.TILES:
            reads = [(filter, tiles, filter), (image, 1, image)]
    return sum(often * size / rate(again, target) for size, often, again in reads)


def rate(size: float, target: Target) -> float:
    """Bytes per cycle of what is read again after so many bytes."""
    if size <= target.caches[0] / 2:
        return 1e9  # counted with the arithmetic
    return target.near if size <= target.caches[-1] / 2 else target.far


def operand_bytes(parts: Contraction) -> tuple[float, float]:
    """Of what the positions read, and of what the lanes read."""
    assert parts.value is not None
    used = {load.buffer for load in loads(parts.value)}
    image, filter = 0.0, 0.0
    for buffer in parts.task.inputs:
        if buffer.name == parts.weight:
            filter += _size(buffer)
        elif buffer.name in used:
            image += _size(buffer)
    return image, filter


def _size(buffer: Buffer) -> int:
    return buffer.dtype.bytes * prod(buffer.shape)


GENERATOR = Generator(
    "tiled",
    "Register tiles of positions and vectors of output channels, filters packed: "
    "convolutions, products of matrices, windows, sums.",
    (
        "at most one reduction, which holds no other and differs along each axis of the output",
        "conditions in the reduction are borders of a window, not along the output's fastest axis",
        "the output's fastest axis is contiguous; what the reduction reads is "
        "contiguous along it, the same for it, or a constant that can be packed",
    ),
    propose,
    any_threads=True,
)
