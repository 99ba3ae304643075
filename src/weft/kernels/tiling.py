"""Shapes of register tiles: blocks of lanes, tiles of positions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.kernels.contraction import Contraction
from weft.kernels.guards import Guard
from weft.loops.nodes import Binary, Expr
from weft.loops.walk import free_vars, loads, walk
from weft.records import dataclass
from weft.targets.target import Target

FEW_REGISTERS = 16
"""With no more, the shape of a tile is a matter of what is left over."""
WIDE = 4
"""Vectors of the widest tile of many positions."""
_FUSED_VECTORS = (2, 3, 4, 1)
_PLAIN_VECTORS = (6, 4, 3, 2, 1)
"""Vectors at every position, the best first; more of them need fewer shuffles of scalars."""


@dataclass(frozen=True, slots=True)
class LaneBlock:
    """Lanes computed together: ``count`` blocks of vectors of these widths.

    With a ``depth``, every vector holds so many parts of the sum of each lane.  The weights of
    a block lie in so many ``streams``, one after another, each of as many of its lanes.
    """

    start: int
    count: int
    widths: tuple[int, ...]
    depth: int = 1
    streams: int = 1

    @property
    def width(self) -> int:
        """Lanes in one block."""
        return sum(self.widths)

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Number, first lane within the block and width of every vector."""
        offset = 0
        for piece, width in enumerate(self.widths):
            yield piece, offset, width
            offset += width


def blocks_of(extent: int, lanes: int, vectors: int) -> list[LaneBlock]:
    """Cuts an axis into full blocks and a rest of ever narrower vectors."""
    width = lanes * vectors
    full = extent // width
    found = [LaneBlock(0, full, (lanes,) * vectors)] if full else []
    rest = extent - full * width
    widths: list[int] = []
    step = lanes
    while rest:
        while rest >= step:
            widths.append(step)
            rest -= step
        step //= 2
    if widths:
        found.append(LaneBlock(full * width, 1, tuple(widths)))
    return found


def whole_vectors(blocks: Sequence[LaneBlock], lanes: int, least: int) -> list[LaneBlock]:
    """The blocks, a rest of narrow vectors in one vector, whose last lanes are idle.

    It is whole, or a part that holds them, of no fewer lanes than are executed at once.
    """
    found: list[LaneBlock] = []
    for block in blocks:
        wide = tuple(width for width in block.widths if width == lanes)
        left, rest = block.width - sum(wide), least
        while rest < left:
            rest *= 2
        found.append(replace(block, widths=(*wide, rest) if left else wide))
    return found


def in_streams(block: LaneBlock, streams: int) -> LaneBlock:
    """A block in so many streams, if its vectors are alike and share them evenly."""
    even = len({*block.widths}) == 1 and len(block.widths) % streams == 0
    return replace(block, streams=streams) if even else block


def streams_of(target: Target, size: int, vectors: int) -> int:
    """In how many streams, of as many vectors each, a core reads weights once.

    Args:
        target: the machine.
        size: of all weights in bytes; those that a cache of its own holds are one stream.
        vectors: of a block of lanes.
    """
    if not target.caches or size <= target.caches[-1]:
        return 1
    most = min(target.memories[-1].streams, vectors)
    return max(each for each in range(1, most + 1) if vectors % each == 0)


def most_positions(parts: Contraction, vectors: int) -> int:
    """Positions of a register tile of so many vectors, beside a scalar and weights."""
    pairs, registers = parts.pairs, parts.task.target.registers
    weights, unit = (pairs.vectors, pairs.positions) if pairs else (1, 1)
    most = max(1, (registers - 1 - weights * vectors) // vectors)
    return max(unit, most - most % unit)


def even_size(parts: Contraction, positions: int, most: int) -> int:
    """Positions of tiles of at most a size that are as like as can be."""
    unit = parts.pairs.positions if parts.pairs else 1
    even = -(-positions // -(-positions // most))
    return min(positions, even + -even % unit)


def tile_shape(parts: Contraction, lanes: int, *, alone: bool = True) -> tuple[int, int]:
    """Positions and vectors of a register tile for the target.

    Args:
        parts: of the product.
        lanes: elements of a vector.
        alone: whether its weights are all that tiles after it read, and not one of several
            products that are read in turn.
    """
    registers = parts.task.target.registers
    count = -(-parts.lanes.extent // lanes) if parts.lanes else 1
    positions = parts.tile.extent if parts.tile else 1
    if parts.reduce is None:
        return 1, min(count, 1)
    if positions == 1:
        return 1, min(count, 8)
    if parts.slide:
        most = max(1, registers // 2)
        return -(-positions // -(-positions // most)), 1
    if not is_product(parts):
        return min(positions, max(1, registers // 4)), 1
    if registers <= FEW_REGISTERS:
        return _small_shape(parts, positions, count)
    if count % 3 == 0 and count % 2 and count > 1:
        vectors = 3
    elif count % WIDE == 0 and (positions <= registers // 5 or (alone and _suits_wide(parts))):
        vectors = WIDE
    else:
        vectors = min(2, count)
    most = most_positions(parts, vectors)
    if vectors == 1:
        most = min(most, registers // 2)
    return even_size(parts, positions, most), vectors


def _suits_wide(parts: Contraction) -> bool:
    """Whether tiles of few rows and many vectors suit a product with a matrix.

    Fewer rows are read at once, which share the sets of the first cache and its prefetchers, but
    the weights of a block are read for more tiles: from a core's caches, which have time for it
    where registers are executed in turns.
    """
    target = parts.task.target
    if parts.pairs or not (parts.weight and parts.reduce and target.caches):
        return False
    if parts.tile_guards or len(parts.reduce.axes) > 1 or target.vectors.share == 1:
        return False
    step = target.vectors.bytes * WIDE
    held = step * prod(axis.extent for axis in parts.reduce.axes) <= target.caches[-1] // 2
    cycles = most_positions(parts, WIDE) * WIDE / target.multiply_adds
    return held and step / cycles <= target.near / 2


def _small_shape(parts: Contraction, positions: int, count: int) -> tuple[int, int]:
    """The tile that takes the fewest cycles, rests included, where registers are few."""
    target = parts.task.target
    held = _FUSED_VECTORS if target.fused else _PLAIN_VECTORS
    shapes: dict[tuple[int, int], float] = {}
    for vectors in held:
        if vectors <= count:
            # What is left holds operands and, without fused multiply-adds, products.
            most = max(1, (target.registers - 4) // vectors)
            if vectors == 1:
                most = min(most, target.registers // 2)
            even = -(-positions // -(-positions // most))
            shapes[even, vectors] = _cycles(parts, positions, count, even, vectors)
    return min(shapes, key=lambda shape: shapes[shape])


def _cycles(parts: Contraction, positions: int, count: int, size: int, vectors: int) -> float:
    """Of one step of the reduction in all tiles.

    On x86, where it was measured, loads count too, and multiplications of weights by a factor of
    the step.  Without fused multiply-adds a scalar takes the place of two additions, by its
    shuffle and by what that delays.
    """
    assert parts.value is not None
    target, total = parts.task.target, 0.0
    measured = target.architecture == "x86_64"
    factors = max(0, sum(map(_multiplies, walk(parts.value))) - 1) if measured else 0
    for tile, tiles in ((size, positions // size), (positions % size, 1)):
        for width, blocks in ((vectors, count // vectors), (count % vectors, 1)):
            sums = tile * width
            operations = sums + factors * width + (0 if target.fused else tile)
            loaded = (tile + width) / target.loads if measured else 0.0
            step = max(operations / target.multiply_adds, loaded, target.issue.latency)
            total += tiles * blocks * step if sums else 0
    return total


def _multiplies(node: Expr) -> bool:
    """Whether it is a product of elements, not one in an index."""
    return isinstance(node, Binary) and node.op == "mul" and any(loads(node))


def waiting(target: Target, positions: int, vectors: float, steps: float) -> float:
    """How many times as long as its multiply-adds a register tile takes, as sums wait for sums.

    Meanwhile the core begins the next tiles, as many as it looks ahead.

    Args:
        target: the machine.
        positions: of the tile.
        vectors: at each position, as whole ones.
        steps: terms of each sum.
    """
    sums = positions * vectors
    ahead = (target.issue.window - 1) / (steps * (sums + positions + vectors))
    return max(1.0, target.issue.latency * target.multiply_adds / (sums * (1 + ahead)))


def is_product(parts: Contraction) -> bool:
    """Whether lanes and positions come from different operands, so that a tile reuses both."""
    if parts.value is None or parts.lanes is None or parts.tile is None:
        return False
    both = {parts.lanes.var, parts.tile.var}
    return all(not both <= free_vars(load) for load in loads(parts.value))


def slender(blocks: Sequence[LaneBlock], vectors: int) -> list[LaneBlock]:
    """The blocks, a rest of more vectors than a tile has registers for in several."""
    found: list[LaneBlock] = []
    for block in blocks:
        start = block.start
        for first in range(0, len(block.widths), vectors):
            widths = block.widths[first : first + vectors]
            found.append(LaneBlock(start, block.count, widths))
            start += sum(widths)
    return found


@dataclass(frozen=True, slots=True)
class Tile:
    """Positions ``[start, start + size)``, ``count`` times one after another.

    Where ``count`` is 1 the start is a constant and guards are decided; where it is more
    all guards hold.
    """

    start: int
    size: int
    count: int


def tiles_of(
    extent: int,
    size: int,
    guards: tuple[Guard, ...],
    taps: Mapping[str, int],
    most: int,
    unit: int = 1,
) -> list[Tile]:
    """Cuts the tiled axis so that looped tiles need no guard; stops past ``most`` tiles."""
    if not guards:
        return even_tiles(extent, size, unit)

    def free(position: int) -> bool:
        return all(
            guard.holds(position, tap)
            for guard in guards
            for tap in (0, max(0, taps.get(guard.tap, 1) - 1))
        )

    def clear(place: int, length: int) -> bool:
        return free(place) and free(place + length - 1)

    found: list[Tile] = []
    place = 0
    while place < extent and len(found) <= most:
        length = min(size, extent - place)
        count = 1
        if clear(place, length):
            # Guards hold on an interval, so a search finds where it ends.
            whole = range(1, (extent - place) // length)
            count += bisect_left(whole, True, key=lambda k: not clear(place + k * length, length))
        found.append(Tile(place, length, count))
        place += count * length
    return found


def even_tiles(extent: int, size: int, unit: int = 1) -> list[Tile]:
    """The fewest tiles of at most a size, as like as can be: a thin last one wastes time.

    All but the last have whole units of positions.
    """
    units = -(-extent // unit)
    count = -(-units // max(1, size // unit))
    small, larger = divmod(units, count)
    found = [
        Tile(0, (small + 1) * unit, larger),
        Tile(larger * (small + 1) * unit, small * unit, count - larger),
    ]
    found = [tile for tile in found if tile.count]
    over = units * unit - extent
    if not over:
        return found
    *before, last = found
    rest = Tile(extent - last.size + over, last.size - over, 1)
    return [*before, *([replace(last, count=last.count - 1)] * (last.count > 1)), rest]
