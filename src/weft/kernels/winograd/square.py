"""Winograd convolution: square filters by fewer multiplications.

The image is cut into tiles of ``m`` by ``m`` outputs; a block of tiles at a time goes
through three stages while it stays in cache::

    for block of tiles:                                                      (parallel)
      for tile, slice of input channels:
        data[point][tile][channel] = B^T patch B
      for group of output channels:
        for point:                                (for 3x3: (m+2)^2 small matrix products)
          product[point][tile][lane] = sum over channels of data * filter
        for tile:
          out = epilogue(A^T product A)

A window along one axis, as of sounds, has tiles of ``m`` outputs, transformed once: ``B^T patch``
and ``A^T product``.  Where the window is dilated, the outputs of a tile are as far apart as its
taps.  A window that reaches over several frames of a volume sums over channels of all of them:
the products have so many times as many terms, the transforms back are as many as before.

The filters are transformed when the code is generated.  The result is not the direct
sum's to the last bit: the transforms round too (``weft.kernels.winograd.toom_cook``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.paired_factors import PairedFactors, depth_of
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.products.pair_cells import PairCell
from weft.kernels.products.pairs import rows_of
from weft.kernels.products.prefetch import following, prefetches
from weft.kernels.products.sum_blocks import BLOCK
from weft.kernels.tiling import LaneBlock, blocks_of, tile_shape, whole_vectors
from weft.kernels.winograd.convolution import Convolution
from weft.kernels.winograd.image import ImageTransform, as_f32
from weft.kernels.winograd.outputs import TileOutputs
from weft.kernels.winograd.pooling import Pooling
from weft.kernels.winograd.toom_cook import Filtering
from weft.kernels.writer import (
    for_range,
    integer,
    nested,
    plus,
    times,
)
from weft.loops.definition import Compute
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    For,
    Kernel,
    Load,
    Local,
    LoopKind,
    Reduce,
    Stmt,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import FilterTransform, Implementation, Operand, Packing
from weft.records import dataclass

_F32 = DType.F32
_BLOCK = 24
"""About as many channels are added up by themselves (``weft.kernels.products.sum_blocks``).

Fewer than elsewhere: the last transform makes the rounding of these sums larger, along two axes.
"""
_WORTH_A_BLOCK = 8
"""One part in so many of a layer may be computed twice, so that all blocks have one size."""


@dataclass
class _Writer:
    """Writes the loops for one size of tiles."""

    conv: Convolution
    form: Filtering
    tiles: int
    pool: Pooling | None = None

    def __post_init__(self) -> None:
        task = self.conv.parts.task
        self.lanes = task.target.lanes(_F32)
        self.rows = pair_rows(self.conv)
        self.held, _ = stored_types(self.conv)
        self.image = ImageTransform(self.conv, self.form, self.held)
        self.points = self.form.size**self.conv.sides
        self.outputs = TileOutputs(self.conv, self.form, self.image, self.pool)
        self.across = self.conv.tiles_along(self.conv.columns, self.form.outputs)
        self.down = self.conv.tiles_along(self.conv.rows, self.form.outputs)
        self.params = [b for b in task.inputs if b.name != self.conv.parts.weight]
        self.operands = [Operand(task.value_of(buffer.name)) for buffer in self.params]

    def kernel(self) -> Kernel:
        task, conv = self.conv.parts.task, self.conv
        lanes = conv.parts.lanes
        assert lanes is not None
        # Products of few lanes at a time stay near; shuffles of scalars cost more than that.
        width = 2 * self.lanes if task.target.fused else lanes.extent
        _, vectors = tile_shape(self.product_parts(self.tiles, width), self.lanes)
        # Instructions for pairs are of whole vectors.
        least = self.lanes if self.rows else task.target.lanes_at_once(_F32)
        blocks = blocks_of(lanes.extent, self.lanes, vectors)
        groups = whole_vectors(blocks, self.lanes, least)
        names = [self.pack(group, number) for number, group in enumerate(groups)]
        total = self.down * self.across
        count = -(-total // self.tiles)
        if (count * self.tiles - total) * _WORTH_A_BLOCK > total:
            count = total // self.tiles
        rest = max(0, total - count * self.tiles)
        body = [
            *self.blocks(0, count, self.tiles, groups, names),
            *self.blocks(count * self.tiles, 1, rest, groups, names),
        ]
        found = nested(conv.outer, tuple(body), LoopKind.PARALLEL)
        params = (*self.params, (self.pool.task if self.pool else task).output)
        return simplify_kernel(Kernel(task.name, params, found))

    def pack(self, group: LaneBlock, number: int) -> str:
        """The parameter that holds the transformed filters of a group of output channels."""
        conv = self.conv
        name = f"{conv.parts.weight}_{number}" if number else str(conv.parts.weight)
        filter, groups = conv.filter, conv.group.extent if conv.group else 1
        # Of groups of channels each has filters of its own.
        skipped = 1 if conv.group else 0
        size, taps = filter.shape[skipped:], tuple(each - skipped for each in conv.taps)
        lane = next(a for a in range(len(size)) if a not in taps)
        matrix = tuple(tuple(float(value) for value in row) for row in self.form.filter)
        apart = bool(self.rows)
        depth = depth_of(self.rows) if apart else 1
        packing = Packing(
            *(size, lane, taps, group.start, group.count, group.width),
            *(depth, apart),
            joined=len(conv.taps) - conv.sides,
        )
        steps = conv.steps // depth
        shape = (groups * group.count, self.points, steps, group.width, *(depth,) * apart)
        self.params.append(Buffer(name, filter.dtype, shape))
        self.operands.append(
            Operand(
                conv.parts.task.value_of(filter.name),
                FilterTransform(packing, matrix, groups=groups),
            )
        )
        return name

    # --- a block of tiles -------------------------------------------------------------

    def blocks(
        self, start: int, count: int, tiles: int, groups: Sequence[LaneBlock], names: Sequence[str]
    ) -> Iterator[Stmt]:
        """``count`` blocks of so many tiles, from the tile ``start`` on.

        The last one may have less; then it transforms its last tile several times.  A single
        block is cut inside: its tiles first, and then the output channels.
        """
        if count == 0 or tiles == 0:
            return
        kind = LoopKind.PARALLEL if count == 1 else LoopKind.SERIAL
        first = plus(times(Var("block"), tiles), start) if count > 1 else integer(start)
        data = self.data(tiles)
        inner: list[Stmt] = [self.each_tile(integer(tiles), first, self.image.analysis, kind)]
        for group, name in zip(groups, names, strict=True):
            inner.append(self.group(group, name, tiles, first, kind))
        body: tuple[Stmt, ...] = (Local(data, tuple(inner)),)
        if count == 1:
            yield from body
        else:
            yield for_range("block", count, body, LoopKind.PARALLEL)

    def data(self, tiles: int) -> Buffer:
        """The transformed image of a block."""
        row, line = self.conv.steps, self.conv.parts.task.target.line
        if row * self.held.bytes > line:
            # A little more than the channels: rows must not fall onto the same cache sets.
            row += self.lanes * _F32.bytes // self.held.bytes
        return Buffer("data", self.held, (self.points, tiles, row), Access.LOCAL)

    def each_tile(
        self,
        tiles: Expr,
        first: Expr,
        body: Callable[[Expr, Expr], tuple[Stmt, ...]],
        kind: LoopKind = LoopKind.SERIAL,
    ) -> Stmt:
        """A loop over tiles; the body is told its rows and columns."""
        number = Binary("min", plus(first, Var("patch")), integer(self.down * self.across - 1))
        row = Binary("floordiv", number, integer(self.across))
        column = Binary("mod", number, integer(self.across))
        inner = body(self.image.origin(row), self.image.origin(column))
        return For("patch", integer(0), tiles, inner, kind)

    # --- products and output transform ------------------------------------------------

    def group(self, group: LaneBlock, name: str, tiles: int, first: Expr, kind: LoopKind) -> Stmt:
        """The outputs of a block of tiles for one or several groups of channels."""
        counter: Expr = Var("group") if group.count > 1 else integer(0)
        channel = plus(times(counter, group.width), group.start)
        product = Buffer("product", _F32, (self.points, tiles, group.width), Access.LOCAL)
        multiply = for_range("point", self.points, self.multiply(group, name, counter, tiles))
        synthesis = partial(self.outputs.synthesis, group, channel)
        left = plus(integer(self.down * self.across), times(first, -1))
        stop = Binary("min", integer(tiles), left)
        body: tuple[Stmt, ...] = (
            Local(product, (multiply, self.each_tile(stop, first, synthesis))),
        )
        if group.count == 1:
            return body[0]
        return for_range("group", group.count, body, kind)

    def product_parts(self, tiles: int, width: int) -> Contraction:
        """``product[point][tile][lane] = sum over channels``, taken apart."""
        conv = self.conv
        assert conv.parts.lanes is not None
        size, filter, channel = self.points, conv.filter.dtype, conv.channel
        data, steps = self.data(tiles), Var(channel.var)
        depth = depth_of(self.rows) if self.rows else 1
        guards = conv.depth_guards(channel.extent // depth)
        channel = replace(channel, extent=conv.steps // depth)
        image = Load("data", (Var("point"), Var("spot"), times(steps, depth)), self.held)
        weight = Buffer("filter", filter, (size, channel.extent, width))
        tile, lane = Axis("spot", tiles), Axis("wide", width)
        factor = Load("filter", (Var("point"), steps, Var(lane.var)), filter)
        value = Binary("mul", as_f32(image), as_f32(factor))
        reduce = Reduce("sum", (channel,), value)
        output = Buffer("product", _F32, (size, tiles, width), Access.LOCAL)
        task = replace(
            conv.parts.task,
            compute=Compute((Axis("point", size), tile, lane), reduce),
            inputs=(data, weight),
            output=output,
        )
        pairs = PairedFactors(channel.var, image, self.rows) if self.rows else None
        return Contraction(task, reduce, value, guards, lane, tile, (), "filter", pairs=pairs)

    def multiply(self, group: LaneBlock, name: str, counter: Expr, tiles: int) -> tuple[Stmt, ...]:
        """The matrix product of one point, for one group of output channels."""
        parts = self.product_parts(tiles, group.width)
        positions, _ = tile_shape(parts, self.lanes)
        whole, count = LaneBlock(0, 1, group.widths), group.count
        if self.conv.group:
            counter = plus(times(Var(self.conv.group.var), count), counter)
            count *= self.conv.group.extent
        slab = self.conv.steps * group.width * self.conv.filter.dtype.bytes
        far = prefetches(self.conv.parts.task.target, slab, slab * self.points * count)
        ahead: dict[int, Expr] = {}
        if far:  # After the last point of a group comes the first one of the next.
            number = plus(times(counter, self.points), Var("point"))
            ahead = {0: integer(0), 1: following(number, self.points * count)}
        found: list[Stmt] = []
        full, rest = divmod(tiles, positions)
        turns = full + (rest > 0)

        def cell(turn: Expr, origin: Expr, size: int) -> tuple[Stmt, ...]:
            share = (turn, turns)
            kind = PairCell if parts.pairs else Microkernel
            return kind(
                parts,
                whole,
                integer(0),
                counter,
                name,
                origin,
                size,
                ahead=ahead,
                share=share,
                block_terms=_BLOCK if self.conv.sides > 1 else BLOCK,
            ).statements()

        if full == 1:
            found += cell(integer(0), integer(0), positions)
        elif full:
            inner = cell(Var("tile"), times(Var("tile"), positions), positions)
            found.append(for_range("tile", full, inner))
        if rest:
            found += cell(integer(full), integer(full * positions), rest)
        return tuple(found)


def pair_rows(conv: Convolution) -> Mapping[int, Instruction]:
    """The instructions that multiply pairs of its input channels; none if that cannot be."""
    if {conv.image.dtype, conv.filter.dtype} != {DType.BF16}:
        return {}
    known = rows_of(conv.parts.task.target, conv.parts.task.exact)
    none: Mapping[int, Instruction] = {}
    return next((rows for rows in known if conv.channel.extent % depth_of(rows) == 0), none)


def stored_types(conv: Convolution) -> tuple[DType, DType]:
    """In which the transformed image and the transformed filters are stored."""
    return (DType.BF16 if pair_rows(conv) else _F32), conv.filter.dtype


def write(
    conv: Convolution, form: Filtering, tiles: int, pool: Pooling | None = None
) -> Implementation:
    """The kernel of a convolution, ``tiles`` tiles at a time, and of pooling after it."""
    writer = _Writer(pool.trimmed(conv) if pool else conv, form, tiles, pool)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), f"winograd-f{form.outputs}-{tiles}")
