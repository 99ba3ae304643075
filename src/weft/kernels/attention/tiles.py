"""Attention of bfloat16 by AMX's tiles: 32 queries by 32 keys, or elements of values, at a time.

All products have one shape, so that tiles are configured once for each head.  A block with fewer
queries computes all 32 rows; rows without a query hold old data, and their sums are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.attention.pair_panels import PairPanels
from weft.kernels.attention.paired import QUERIES, WEIGHTS, Paired
from weft.kernels.attention.panels import Chunk
from weft.kernels.attention.query_blocks import OUT, SCORES, TOTALS
from weft.kernels.products.amx_lines import LANES, PAIR, ROWS
from weft.kernels.products.microkernel import replaced
from weft.kernels.tiling import LaneBlock, blocks_of
from weft.kernels.writer import (
    LANE,
    block_origin,
    for_range,
    integer,
    plus,
    vector,
    with_locals,
)
from weft.loops.instruction import member
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Expr,
    Instruct,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import substitute
from weft.plan.attention import TOTAL
from weft.records import dataclass

_F32, _BF16 = DType.F32, DType.BF16
_SUMS, _TILES = "sums", "tiles"
_TILES_HELD = Load(_TILES, (integer(0),), DType.U8)
MOST = 2 * ROWS
"""Queries of a block."""


@dataclass
class Tiles(Paired):
    """Writes the loops for up to 32 queries at a time."""

    @property
    def held(self) -> int:
        """Queries that products are made for."""
        return ROWS if self.rows <= ROWS else MOST

    @property
    def wide(self) -> int:
        """Lanes of a panel: of two tiles, unless one holds all elements of a value."""
        return LANES if self.found.column.extent <= LANES else 2 * LANES

    @cached_property
    def step_pairs(self) -> int:
        """Pairs of a step: as many as a tile holds, or fewer where steps are then alike."""
        pairs = -(-self.found.width.extent // PAIR)
        return -(-pairs // -(-pairs // ROWS))

    def padded(self, extent: int) -> int:
        """Numbers of whole steps."""
        step = PAIR * self.step_pairs
        return -(-extent // step) * step

    @cached_property
    def depth(self) -> int:
        """Elements of a query, padded to whole steps."""
        return self.padded(self.found.width.extent)

    @cached_property
    def length(self) -> int:
        """Weights of a query, padded to whole steps."""
        return self.padded(self.found.key.extent)

    def panel_blocks(self, extent: int) -> list[LaneBlock]:
        """Panels of whole tiles."""
        whole, rest = divmod(extent, self.wide)
        widths = (LANES,) * (self.wide // LANES)
        found = [LaneBlock(0, whole, widths)] if whole else []
        return [*found, *[LaneBlock(extent - rest, 1, widths)] * bool(rest)]

    @cached_property
    def key_blocks(self) -> list[LaneBlock]:
        """Panels of keys."""
        return self.panel_blocks(self.found.key.extent)

    @cached_property
    def column_blocks(self) -> list[LaneBlock]:
        """Panels of the elements of values."""
        return self.panel_blocks(self.found.column.extent)

    # --- loops ----------------------------------------------------------------------------

    def with_panels(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loops over queries, between the configuration of the tiles and their release."""
        bytes = (_F32.bytes * LANES, _F32.bytes * (self.wide - LANES))
        sizes = (ROWS, self.held - ROWS, self.step_pairs, *bytes)
        configure = Instruct(member("ldtilecfg", *sizes), (_TILES_HELD,))
        body = (configure, *body, Instruct("tilerelease", (_TILES_HELD,)))
        held = with_locals((Buffer(_TILES, DType.U8, (64,), Access.LOCAL),), body)
        return super().with_panels(held)

    def product(self, image: str, panels: PairPanels, number: int, sums: Load, apart: int) -> Stmt:
        """The sums of all rows and one panel.

        Args:
            image: the buffer of rows.
            panels: the other factor.
            number: of its block.
            sums: the first of them.
            apart: from one row of sums to the next.
        """
        run, block = PAIR * panels.pairs, panels.blocks[number]
        steps, total = panels.pairs // self.step_pairs, self.held * run
        second = ROWS * run if self.held > ROWS else 0
        row = PAIR * self.wide
        sizes = (self.held, ROWS, run, 0, second, self.wide, LANES, panels.pairs * row, row)
        sizes += (1, steps, self.step_pairs, panels.pairs, total, total, apart)
        name = member("tdpbf16ps", *sizes, 0, 1)
        group, zero = Var("group") if block.count > 1 else integer(0), integer(0)
        factors = [
            Load(panels.buffer(number).name, (group, zero, integer(lane), zero), _BF16)
            for lane in (0, LANES if self.wide > LANES else 0)
        ]
        read = Load(image, (zero, zero), _BF16)
        return Instruct(name, (sums, read, *factors, factors[0], _TILES_HELD))

    def products(self, scores: Buffer, first: Expr | None, chunk: Chunk) -> Iterator[Stmt]:
        """``scores = queries * keys``."""
        for number, _, block in chunk.pieces:
            place = (integer(0), block_origin(block, "group"))
            sums = Load(SCORES, place, _F32)
            body = self.product(QUERIES, self.keys, number, sums, scores.shape[1])
            yield for_range("group", block.count, (body,)) if block.count > 1 else body

    # --- means of values ------------------------------------------------------------------

    def mixtures(self, scores: Buffer, first: Expr | None, chunk: Chunk) -> Iterator[Stmt]:
        """``out = weights * values``, times the reciprocals of the sums of weights."""
        size, values = scores.shape[0], self.values
        sums = Buffer(_SUMS, _F32, (self.held, self.wide), Access.LOCAL)
        for number, block in enumerate(values.blocks):
            begin = Load(_SUMS, (integer(0), integer(0)), _F32)
            product = self.product(WEIGHTS, values, number, begin, self.wide)
            end = for_range("spot", size, tuple(self.ends(block, first)))
            body = with_locals((sums,), (product, end))
            yield from (for_range("group", block.count, body),) if block.count > 1 else body

    def ends(self, block: LaneBlock, first: Expr | None) -> Iterator[Stmt]:
        """Writes the elements of a query in a panel."""
        found, compute, spot = self.found, self.task.compute, Var("spot")
        own = min(block.width, found.column.extent - block.start)
        offset = 0
        for piece in blocks_of(own, self.lanes, 1):
            for width in piece.widths * piece.count:
                lane = plus(integer(offset), Var(LANE))
                sum = Load(_SUMS, (spot, lane), _F32)
                mean = Binary("mul", sum, Load(TOTALS, (spot,), _F32))
                at = {found.column.var: plus(block_origin(block, "group"), lane)}
                at |= self.query(first, spot)
                value = substitute(replaced(compute.value, found.mixed, TOTAL), at)
                index = tuple(at.get(axis.var, Var(axis.var)) for axis in compute.axes)
                yield vector(width, Store(OUT, index, replaced(value, TOTAL, mean)))
                offset += width
