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

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from math import prod
from typing import TypeAlias

from weft.kernels.contraction import Contraction
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.products.pair_cells import PairCell
from weft.kernels.products.prefetch import following
from weft.kernels.products.reduction_lanes import Deep, deep_axis, vectors_of
from weft.kernels.products.tile_form import (
    Order,
    TileForm,
    form_blocks,
    lane_count,
    positions_of,
)
from weft.kernels.tiling import (
    LaneBlock,
    Tile,
    tiles_of,
)
from weft.kernels.writer import block_origin, for_range, integer, nested, plus, times
from weft.loops.nodes import Axis, Binary, Buffer, Expr, For, If, Kernel, LoopKind, Stmt, Var
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation, Operand, Packing
from weft.records import dataclass

MOST_TILES = 256
"""Tiles that are written out one by one; an axis that needs more is not tiled."""
FEW_TILES = 8
"""Tiles of two sizes that are one loop, for threads to share; those with weights always are."""

_Share: TypeAlias = tuple[Expr, int]
"""Which of how many tiles that use the same weights one is."""
_Inside: TypeAlias = Callable[[Expr | None, int, bool, _Share], tuple[Stmt, ...]]
"""``inside(origin, size, clear, share)``: the statements of a register tile."""
_Weight: TypeAlias = tuple[str, str]
"""Packed parameters: of a block, and of what its deep vectors leave over."""
ALONE: _Share = (integer(0), 1)
"""No other tile uses the same weights."""


@dataclass
class TileWriter:
    """Writes the loops of one task."""

    parts: Contraction
    form: TileForm
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])
    packed: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        for buffer in self.parts.task.inputs:
            if buffer.name != self.parts.weight:
                self.params.append(buffer)
                self.operands.append(Operand(self.parts.task.value_of(buffer.name)))

    def pack(self, block: LaneBlock) -> str:
        """The parameter that holds the weights of a block, lanes innermost."""
        weight = self.parts.weight
        assert weight
        name = f"{weight}_{len(self.packed)}" if self.packed else weight
        buffer, operand = packed_weight(self.parts, block, name)
        self.params.append(buffer)
        self.operands.append(operand)
        self.packed.add(name)
        return name

    def pack_rest(self, block: LaneBlock) -> str:
        """The parameter for what deep vectors leave over of their axis, if they do."""
        axis = deep_axis(self.parts)
        over = axis is not None and block.depth > 1 and axis.extent % block.depth
        return self.pack(replace(block, depth=1)) if over else ""

    def kernel(self) -> Kernel:
        """The kernel, all weights packed."""
        task, body = self.parts.task, self.body()
        return simplify_kernel(Kernel(task.name, (*self.params, task.output), body))

    def body(self) -> tuple[Stmt, ...]:
        """All loops."""
        parts, form = self.parts, self.form
        blocks = form_blocks(parts, form)
        weights = [
            (self.pack(block), self.pack_rest(block)) if parts.weight else ("", "")
            for block in blocks
        ]
        body: list[Stmt] = []
        if form.order is Order.TILES:
            inside = partial(self.blocks, blocks, weights)
            body += self.outer(self.tiles(inside, form.positions))
        else:
            for block, weight in zip(blocks, weights, strict=True):
                body += self.block(block, weight)
        return tuple(body)

    def outer(self, inner: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loops over the output's other axes."""
        return nested(self.parts.outer, inner, LoopKind.PARALLEL)

    def block(self, block: LaneBlock, weight: _Weight) -> tuple[Stmt, ...]:
        """All outputs of the lanes of a block, one block after another."""
        first, number = _place(block)
        positions = positions_of(self.parts, self.form, block)
        several = block.count > 1
        inside = partial(self.tile, block, first, number, weight)
        if several and self.form.group:
            return self.outer(self.groups(block, inside, positions))
        around = self.parts.outer if self.form.order is Order.OUTERMOST else ()
        inner = self.tiles(inside, positions, around, several)
        if block.count == 1:
            return self.outer(inner)
        if self.form.order is Order.ROWS:
            return self.outer((_over(block, inner),))
        if not self.parts.outer:
            # Loops of their own, which threads can share as one each.
            return tuple(_over(block, (each,)) for each in inner)
        return (_over(block, self.outer(inner)),)

    def groups(self, block: LaneBlock, inside: _Inside, positions: int) -> tuple[Stmt, ...]:
        """Tiles in groups, each of which goes through all blocks; the last one has the rest."""
        assert self.parts.tile
        first, *others = _tiles(self.parts, self.parts.tile, positions)
        count = max(1, first.count // max(1, self.form.group // positions))
        each = first.count // count
        place = plus(times(Var("group"), each), Var("tile"))
        found: list[Stmt] = []
        if count > 1:
            origin = plus(times(place, first.size), first.start)
            inner = inside(origin, first.size, True, (Var("tile"), each))
            tiles = for_range("tile", each, inner, LoopKind.PARALLEL)
            inner = (_over(block, (tiles,)),)
            found.append(for_range("group", count - 1, inner, LoopKind.PARALLEL))
        done = (count - 1) * each
        rest = Tile(first.start + done * first.size, first.size, first.count - done)
        found.append(_over(block, self.cut([rest, *others], inside)))
        return tuple(found)

    def blocks(
        self,
        blocks: Sequence[LaneBlock],
        weights: Sequence[_Weight],
        origin: Expr | None,
        size: int,
        clear: bool,
        share: _Share,
    ) -> tuple[Stmt, ...]:
        """One tile of positions for all lanes; so no other one uses weights right after it."""
        del share
        found: list[Stmt] = []
        for block, weight in zip(blocks, weights, strict=True):
            first, number = _place(block)
            inner = self.tile(block, first, number, weight, origin, size, clear, ALONE)
            found += inner if block.count == 1 else (_over(block, inner),)
        return tuple(found)

    def tiles(
        self,
        inside: _Inside,
        positions: int,
        around: Sequence[Axis] = (),
        one: bool = False,
    ) -> tuple[Stmt, ...]:
        """All tiles of so many positions.

        Args:
            inside: writes one.
            positions: of a tile.
            around: loops around the tiles in which the same weights are used.
            one: asks for one loop, so that weights come once for tiles of both sizes.
        """
        axis = self.parts.tile
        if axis is None:
            return inside(None, 1, True, _share(integer(0), 1, around))
        tiles = _tiles(self.parts, axis, positions)
        total = sum(tile.count for tile in tiles)
        joins = one and len(tiles) == 2 and not self.parts.tile_guards
        if joins and (self.parts.weight or total <= FEW_TILES):
            large, small = tiles
            return (_one_loop(inside, large, small, around),)
        return self.cut(tiles, inside, around)

    @staticmethod
    def cut(
        tiles: Sequence[Tile], inside: _Inside, around: Sequence[Axis] = ()
    ) -> tuple[Stmt, ...]:
        """Tiles one after another."""
        found: list[Stmt] = []
        total, done = sum(tile.count for tile in tiles), 0
        for tile in tiles:
            if tile.count == 1:
                share = _share(integer(done), total, around)
                found += inside(integer(tile.start), tile.size, False, share)
            else:
                origin = plus(times(Var("tile"), tile.size), tile.start)
                share = _share(plus(Var("tile"), done), total, around)
                inner = inside(origin, tile.size, True, share)
                count = integer(tile.count)
                found.append(For("tile", integer(0), count, inner, LoopKind.PARALLEL))
            done += tile.count
        return tuple(found)

    def tile(
        self,
        block: LaneBlock,
        first: Expr,
        number: Expr,
        weights: _Weight,
        origin: Expr | None,
        size: int,
        clear: bool,
        share: _Share,
    ) -> tuple[Stmt, ...]:
        """One register tile: accumulate, then store."""
        weight, rest = weights
        if block.depth > 1:
            deep = Deep(self.parts, block, first, number, weight, origin, size, clear, rest=rest)
            return deep.statements()
        fetches = self.form.ahead and weight and block.count > 1
        ahead = {0: following(number, block.count)} if fetches else {}
        kind = PairCell if self.parts.pairs else Microkernel
        cell = kind(self.parts, block, first, number, weight, origin, size, clear, ahead, share)
        return cell.statements()


def packed_weight(parts: Contraction, block: LaneBlock, name: str) -> tuple[Buffer, Operand]:
    """The parameter, under a name, that holds the weights of a block, and what is given for it."""
    assert parts.weight
    assert parts.lanes
    index = parts.weight_index()
    order = parts.weight_order()
    weight = next(b for b in parts.task.inputs if b.name == parts.weight)
    axis = index.index(Var(parts.lanes.var))
    depth, others = block.depth, [weight.shape[a] for a in order]
    lanes = lane_count(parts)
    width = block.width if depth == 1 else vectors_of(block, lanes) * lanes // depth
    pairs = parts.pairs is not None
    depth = parts.pairs.depth if parts.pairs else depth
    count, width = block.count * block.streams, width // block.streams
    packing = Packing(weight.shape, axis, order, block.start, count, width, depth, pairs)
    others[-1] //= depth
    shape = (count, *others, *((width, depth) if pairs else (width * depth,)))
    buffer = Buffer(name, weight.dtype, shape)
    return buffer, Operand(parts.task.value_of(parts.weight), packing)


def _place(block: LaneBlock) -> tuple[Expr, Expr]:
    """The first lane and the number of a block."""
    return block_origin(block, "block"), Var("block") if block.count > 1 else integer(0)


def _tiles(parts: Contraction, axis: Axis, positions: int) -> list[Tile]:
    """Tiles of so many positions of an axis."""
    taps = {each.var: each.extent for each in parts.reduce.axes} if parts.reduce else {}
    unit = parts.pairs.positions if parts.pairs else 1
    return tiles_of(axis.extent, positions, parts.tile_guards, taps, MOST_TILES, unit)


def _share(place: Expr, total: int, around: Sequence[Axis]) -> _Share:
    """Which of all tiles one is, those of the loops around it counted."""
    before: Expr = integer(0)
    for axis in around:
        before = plus(times(before, axis.extent), Var(axis.var))
    return plus(times(before, total), place), total * prod(axis.extent for axis in around)


def _one_loop(inside: _Inside, large: Tile, small: Tile, around: Sequence[Axis]) -> Stmt:
    """Tiles of two sizes in one loop, so that threads can share few blocks of lanes evenly."""
    count = large.count + small.count
    share = _share(Var("tile"), count, around)
    bodies = [
        inside(
            plus(times(Var("tile"), each.size), each.start - before * each.size),
            each.size,
            True,
            share,
        )
        for each, before in ((large, 0), (small, large.count))
    ]
    body = If(Binary("lt", Var("tile"), integer(large.count)), *bodies)
    return For("tile", integer(0), integer(count), (body,), LoopKind.PARALLEL)


def _over(block: LaneBlock, body: tuple[Stmt, ...]) -> Stmt:
    return for_range("block", block.count, body, LoopKind.PARALLEL)


def applies(parts: Contraction) -> bool:
    """Whether these loops can compute a task."""
    return parts.lanes is not None or parts.reduce is None


def fits(parts: Contraction, form: TileForm) -> bool:
    """Whether the tiles are few: with very wide padding their code would go on and on."""
    axis = parts.tile
    if axis is None:
        return True
    sizes = {form.positions}
    if form.order is not Order.TILES:
        sizes = {positions_of(parts, form, block) for block in form_blocks(parts, form)}
    return all(len(_tiles(parts, axis, size)) <= MOST_TILES for size in sizes)


def write(parts: Contraction, form: TileForm, name: str = "") -> Implementation | None:
    """The kernel of a task that was taken apart; ``None`` if its code would go on and on."""
    if not fits(parts, form):
        return None
    writer = TileWriter(parts, form)
    kernel = writer.kernel()
    name = name or (form.name if parts.reduce else "tiled")
    return Implementation(kernel, tuple(writer.operands), name)
