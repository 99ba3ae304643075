"""How a task's register tiles are cut and ordered, and how they read weights."""

from __future__ import annotations

from enum import Enum
from math import prod

from weft.kernels.contraction import Contraction
from weft.kernels.products.prefetch import prefetches
from weft.kernels.products.reduction_lanes import deep_blocks, vectors_of
from weft.kernels.tiling import (
    FEW_REGISTERS,
    LaneBlock,
    blocks_of,
    in_streams,
    is_product,
    slender,
    streams_of,
    tile_shape,
)
from weft.loops.walk import dtype_of
from weft.records import dataclass

MOST_DEEP = 6
"""Deep vectors at every position: more leave too few positions that share their weights."""
TOO_MANY = {True: 2.0, False: 0.75}
"""A core's caches from which on these are too small for all positions, with few registers or more.

With more, 800x768x768, 580x768x2304 and 580x768x3072 on an Emerald Rapids, which fill 2.46 and
1.78 MB of 2, are 1.05 to 1.07 times as fast in groups, and 400x768x3072 as fast.  With few that
was not measured.
"""
GROUPED = 4
"""A group of positions takes a quarter of a core's caches: the rest is for weights and outputs.

1576x768x768 on an Emerald Rapids is 1.1 times as fast as in groups of a half.  Where there are 16
registers it stays a half: a quarter was not measured there, and reads the weights twice as often.
"""
FROM_MEMORY = 2
"""Bytes of positions that come in the time of one of weights.

Another layer has just written the positions, so a shared cache has them; weights come from
memory, for each group anew where they are many.  Measured with 16 registers only, so others count
both alike.
"""


class Order(Enum):
    """Where the loop over blocks of lanes stands."""

    OUTERMOST = "outermost"
    """Around everything: weights are streamed once."""
    ROWS = "rows"
    """Around the tiles of a row, inside the other loops."""
    TILES = "tiles"
    """Around a register tile: what it reads of the input is read from afar once."""


@dataclass(frozen=True, slots=True)
class TileForm:
    """How the loops of a task are cut and ordered.

    Attributes:
        positions: of a register tile; vectors: that it has at every position.
        order: of the loop over blocks of lanes.
        ahead: whether the next block's weights are fetched while one is used.
        streams: in how many the weights of a block of lanes lie (`LaneBlock`).
        depth: parts of a sum in vectors of lanes that do not fill one
            (``weft.kernels.products.reduction_lanes``).
        group: so many positions go through all blocks before the next ones, so that what they
            read stays in cache; 0 for all of them.
    """

    positions: int
    vectors: int
    order: Order = Order.OUTERMOST
    ahead: bool = False
    depth: int = 1
    group: int = 0
    streams: int = 1

    @property
    def name(self) -> str:
        """What the alternative is called: ``tiled-14x2-tiles-ahead``, ``tiled-28x1d2``."""
        depth = f"d{self.depth}" if self.depth > 1 else ""
        order = "" if self.order is Order.OUTERMOST else f"-{self.order.value}"
        ahead = "-ahead" if self.ahead else ""
        group = f"-by{self.group}" if self.group else ""
        streams = f"-in{self.streams}" if self.streams > 1 else ""
        return f"tiled-{self.positions}x{self.vectors}{depth}{order}{group}{streams}{ahead}"


def lane_count(parts: Contraction) -> int:
    """Elements of a vector of accumulators."""
    if parts.lanes is None:
        return 1
    target = parts.task.target
    dtype = dtype_of(parts.reduce.value) if parts.reduce else parts.task.output.dtype
    return target.lanes(dtype)


def form_blocks(parts: Contraction, form: TileForm) -> list[LaneBlock]:
    """The blocks of lanes of a form."""
    if parts.lanes is None:
        return [LaneBlock(0, 1, (1,))]
    lanes, extent = lane_count(parts), parts.lanes.extent
    deep = deep_blocks(extent, lanes, form.depth, MOST_DEEP) if form.depth > 1 else []
    if deep:
        extent -= sum(block.width for block in deep)
    found = slender(blocks_of(extent, lanes, form.vectors), form.vectors)
    return [in_streams(block, form.streams) for block in found] + deep


def positions_of(parts: Contraction, form: TileForm, block: LaneBlock) -> int:
    """Positions of the tiles of a block: of deep vectors as many as registers hold."""
    if block.depth == 1 or parts.tile is None:
        return form.positions
    vectors = vectors_of(block, lane_count(parts))
    most = max(1, (parts.task.target.registers - 2 - vectors) // vectors)
    return -(-parts.tile.extent // -(-parts.tile.extent // most))


def usual_form(parts: Contraction) -> TileForm:
    """How the loops are cut and ordered if nobody measured anything better."""
    positions, vectors = tile_shape(parts, lane_count(parts))
    # Large weights are streamed once; small ones stay in cache over all rows.
    order = Order.OUTERMOST if parts.weight else Order.ROWS
    order = Order.TILES if parts.weight and slides_afar(parts) else order
    ahead, streams = weight_reads(parts, positions, vectors)
    group = row_group(parts, positions, vectors)
    return TileForm(positions, vectors, order, ahead, group=group, streams=streams)


def weight_reads(parts: Contraction, positions: int, vectors: int) -> tuple[bool, int]:
    """Whether the weights are fetched ahead, and in how many streams they are read.

    Hints for one stream do not make it as fast as several are: 16 GB/s and 25 on a Zen 3.  With
    more registers that was not measured, and what can be fetched ahead is.
    """
    ahead, streams = fetches_ahead(parts, vectors), 1
    if positions == 1 and parts.weight and not (parts.pairs or parts.slide):
        weight = next(each for each in parts.task.inputs if each.name == parts.weight)
        size = weight.dtype.bytes * prod(weight.shape)
        streams = streams_of(parts.task.target, size, vectors)
    if streams > 1 and parts.task.target.registers <= FEW_REGISTERS:
        ahead = False
    return ahead, 1 if ahead else streams


def slides_afar(parts: Contraction) -> bool:
    """Whether a window for every lane slides along one axis of an image from beyond the caches.

    Block by block of lanes a line of every position would come from there, which no prefetcher
    of a processor follows.  In images of two dimensions rows are read again for the next ones.
    """
    target, image = parts.task.target, parts.image
    if parts.outer or not (parts.slide and image and target.caches):
        return False
    source = next(each for each in parts.task.inputs if each.name == image.buffer)
    return source.dtype.bytes * prod(source.shape) > target.caches[-1] // 2


def row_group(parts: Contraction, positions: int, vectors: int) -> int:
    """Of a product with one matrix the positions that a core's caches hold; 0 for all of them.

    With all positions in one group every block of lanes reads them from far away; with several
    groups each of these reads all weights.
    """
    tile, target = parts.tile, parts.task.target
    if not (parts.weight and tile and parts.reduce and target.caches and is_product(parts)):
        return 0
    row = dtype_of(parts.reduce.value).bytes * prod(axis.extent for axis in parts.reduce.axes)
    if not row:
        return 0
    few = target.registers <= FEW_REGISTERS
    held = target.caches[-1] // (2 if few else GROUPED)
    group = max(1, held // row // positions) * positions
    blocks = parts.lane_extent / (vectors * lane_count(parts))
    weights = row * parts.lane_extent * tile.extent / group
    several = row * tile.extent >= TOO_MANY[few] * target.caches[-1] and not parts.tile_guards
    weigh = FROM_MEMORY if few else 1
    pays = weigh * weights < row * tile.extent * blocks
    return group if several and blocks > 1 and pays else 0


def fetches_ahead(parts: Contraction, vectors: int) -> bool:
    """Whether the weights come from so far away that they are fetched ahead."""
    if not parts.weight:
        return False
    if not parts.task.target.fused and parts.tile is not None:
        # Many tiles take so long over a block that hints cost more than its first reading.
        return False
    weight = next(b for b in parts.task.inputs if b.name == parts.weight)
    block = blocks_of(parts.lane_extent, lane_count(parts), vectors)[0]
    slab = weight.dtype.bytes * prod(weight.shape) * block.width // parts.lane_extent
    if parts.slide:
        return block.count > 1
    return prefetches(parts.task.target, slab, slab * block.count)
