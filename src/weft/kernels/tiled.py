"""Register-tiled loops for definitions with at most one reduction.

The output's fastest axis becomes vectors (*lanes*), the next one a *tile* of positions;
the accumulators of a tile live in registers while the reduction runs::

    for block of lanes:                     (weights packed so that a block is one stream)
      for outer axes:
        for tile of positions:
          acc[position][lane] = neutral
          for taps, channels:  acc[position][lane] += x[position] * w[lane]
          out[position][lane] = epilogue(acc[position][lane])

Windows that reach over a border are not padded.  Along the tiled axis the first and last
tiles have constant positions, so taps that fall outside are left out when the kernel is
generated; along other axes the loop over taps gets bounds.  Without a reduction the same
loops compute plain elementwise definitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from weft.kernels.arithmetic import integer, plus, times
from weft.kernels.cell import Cell
from weft.kernels.parts import Parts, take_apart
from weft.kernels.prefetch import following, prefetches
from weft.kernels.task import Task
from weft.kernels.tiling import Block, blocks_of, tile_shape, tiles_of
from weft.loops.nodes import Buffer, Expr, For, Kernel, Kind, Stmt, Var
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import dtype_of
from weft.plan.implementation import Implementation, Operand, Packing

MOST_TILES = 256
"""Tiles that are written out one by one; an axis that needs more is not tiled."""


@dataclass
class _Writer:
    """Writes the loops of one task."""

    parts: Parts
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])
    packed: dict[int, str] = field(default_factory=dict[int, str])

    def __post_init__(self) -> None:
        for buffer in self.parts.task.inputs:
            if buffer.name != self.parts.weight:
                self.params.append(buffer)
                self.operands.append(Operand(self.parts.task.value_of(buffer.name)))

    def pack(self, block: Block) -> str:
        """The parameter that holds the weights of a block, lanes innermost."""
        parts = self.parts
        assert parts.weight
        assert parts.lanes
        name = f"{parts.weight}_{len(self.packed)}" if self.packed else parts.weight
        index = parts.weight_index()
        order = parts.weight_order()
        weight = next(b for b in parts.task.inputs if b.name == parts.weight)
        axis = index.index(Var(parts.lanes.var))
        packing = Packing(weight.shape, axis, order, block.start, block.count, block.width)
        shape = (block.count, *(weight.shape[a] for a in order), block.width)
        self.params.append(Buffer(name, weight.dtype, shape))
        self.operands.append(Operand(parts.task.value_of(parts.weight), packing))
        self.packed[block.start] = name
        return name

    def kernel(self) -> Kernel:
        parts = self.parts
        lanes = self.lane_count()
        positions, vectors = tile_shape(parts, lanes)
        blocks = (
            blocks_of(parts.lanes.extent, lanes, vectors) if parts.lanes else [Block(0, 1, (1,))]
        )
        body: list[Stmt] = []
        for block in blocks:
            weight = self.pack(block) if parts.weight else ""
            body.extend(self.block(block, weight, positions))
        params = (*self.params, parts.task.output)
        return simplify_kernel(Kernel(parts.task.name, params, tuple(body)))

    def lane_count(self) -> int:
        parts = self.parts
        if parts.lanes is None:
            return 1
        target = parts.task.target
        dtype = dtype_of(parts.reduce.value) if parts.reduce else parts.task.output.dtype
        return target.lanes(dtype)

    def block(self, block: Block, weight: str, positions: int) -> tuple[Stmt, ...]:
        """All outputs of the lanes of a block."""
        counter = Var("block")
        one = block.count == 1
        start = integer(block.start)
        first = start if one else plus(times(counter, block.width), block.start)
        number: Expr = integer(0) if one else counter
        inner = self.tiles(block, first, number, weight, positions)
        loops: list[tuple[str, int]] = [(axis.var, axis.extent) for axis in self.parts.outer]
        if not one:
            # Large weights are streamed once; small ones stay in cache over all rows.
            place = 0 if self.parts.weight else len(loops)
            loops.insert(place, ("block", block.count))
        for var, extent in reversed(loops):
            inner = (For(var, integer(0), integer(extent), inner, Kind.PARALLEL),)
        return inner

    def tiles(
        self, block: Block, first: Expr, number: Expr, weight: str, positions: int
    ) -> tuple[Stmt, ...]:
        axis = self.parts.tile
        if axis is None:
            return self.tile(block, first, number, weight, None, 1, True)
        reduce = self.parts.reduce
        taps = {each.var: each.extent for each in reduce.axes} if reduce else {}
        found: list[Stmt] = []
        tiles = tiles_of(axis.extent, positions, self.parts.tile_guards, taps, MOST_TILES)
        if len(tiles) > MOST_TILES:
            raise _TooManyTiles
        for tile in tiles:
            if tile.count == 1:
                origin: Expr = integer(tile.start)
                found += self.tile(block, first, number, weight, origin, tile.size, False)
            else:
                origin = plus(times(Var("tile"), tile.size), tile.start)
                inner = self.tile(block, first, number, weight, origin, tile.size, True)
                count = integer(tile.count)
                found.append(For("tile", integer(0), count, inner, Kind.PARALLEL))
        return tuple(found)

    def tile(
        self,
        block: Block,
        first: Expr,
        number: Expr,
        weight: str,
        origin: Expr | None,
        size: int,
        clear: bool,
    ) -> tuple[Stmt, ...]:
        """One register tile: accumulate, then store."""
        ahead = self.ahead(block, number) if weight else {}
        cell = Cell(self.parts, block, first, number, weight, origin, size, clear, ahead)
        return cell.statements()

    def ahead(self, block: Block, number: Expr) -> dict[int, Expr]:
        """Leads to the next block of the weights where they come from far away."""
        weight = next(b for b in self.parts.task.inputs if b.name == self.parts.weight)
        slab = weight.dtype.bytes * prod(weight.shape) * block.width // self.parts.lane_extent
        if not prefetches(self.parts.task.target, slab, slab * block.count):
            return {}
        return {0: following(number, block.count)}


class _TooManyTiles(Exception):
    """Padding so wide that the code of its tiles would go on and on."""


def generate(task: Task) -> Implementation | None:
    """The kernel of a task, or ``None`` where these loops do not apply."""
    parts = take_apart(task)
    if parts is None:
        return None
    if parts.lanes is None and parts.reduce is not None:
        return None
    writer = _Writer(parts)
    try:
        kernel = writer.kernel()
    except _TooManyTiles:
        return None
    return Implementation(kernel, tuple(writer.operands), "tiled")
