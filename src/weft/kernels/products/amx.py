"""Contractions of bfloat16 by AMX's tiles: 2x2 of them, 16 positions by 16 channels each.

::

    for block of channels, share of the lines:                                     (parallel)
      configure the tiles
      for line, tile of positions:
        sums[position][channel] = lines * weights              (tdpbf16ps, all of the reduction)
        out = epilogue(sums)
      release the tiles

Large inputs are cut into shares first, and each goes through all blocks of channels; so do bands of
rows that are copied.
Tiles are a thread's own, so each share configures them; a share takes many times as long. They are
released behind it: a core that holds none has less to save when threads change.

The second tile of positions is the first one's continuation, or what lies in the next row of
outputs: of an image of few columns more rows of tiles are then used.

While a block of channels is used the next one's weights are fetched, some lines in each step, so
that tiles do not wait for memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from math import gcd
from typing import TypeAlias

from weft.dtypes import DType
from weft.kernels.products.amx_forms import (
    Form,
    Pace,
    Pair,
    channel_blocks,
    halves_of,
    is_single,
    name_of,
    pairs_along,
    through_of,
)
from weft.kernels.products.amx_lines import LANES, PAIR, Lines, filled, flat
from weft.kernels.products.prefetch import following, prefetches
from weft.kernels.products.tiled_choice import operand_bytes
from weft.kernels.tiling import LaneBlock, Tile, even_tiles
from weft.kernels.writer import (
    LANE,
    block_origin,
    for_lanes,
    for_range,
    integer,
    nested,
    plus,
    times,
    with_locals,
)
from weft.loops.instruction import member
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Expr,
    For,
    Instruct,
    Kernel,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import map_expr, substitute
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass

_F32, _U8 = DType.F32, DType.U8
_SUMS, _TILES = "sums", "tiles"
_BLOCKS = 4
"""Blocks of channels of a thread with which threads need not share positions, too."""
_MOST_PARTS = 1 << 30
"""Positions times rows of weights up to which their parts are counted: numbers of an ``int``."""
_Loops: TypeAlias = tuple[LaneBlock, Sequence[tuple[Stmt, Stmt]]]
"""A block of channels, configurations for it, and the loop that uses each."""


@dataclass
class _Writer:
    """Writes the loops."""

    lines: Lines
    form: Form
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])
    weights: list[str] = field(default_factory=list[str])

    def kernel(self) -> Kernel:
        lines, task = self.lines, self.lines.parts.task
        read = lines.runs.joined()[0] if lines.runs else lines.buffer
        for each in task.inputs:
            if each.name != lines.parts.weight:
                self.params.append(read if each.name == read.name else each)
                self.operands.append(Operand(task.value_of(each.name)))
        blocks = channel_blocks(lines)
        for block in blocks:
            self.pack(block)
        loops = self.copied(blocks) if lines.runs else self.in_place(blocks)
        return simplify_kernel(Kernel(task.name, (*self.params, task.output), loops))

    def pack(self, block: LaneBlock) -> None:
        """Makes the parameter that holds the weights of a block."""
        lines, weight = self.lines, self.lines.parts.weight
        assert weight
        name = f"{weight}_{len(self.weights)}" if self.weights else weight
        halves = halves_of(block)
        count, width = block.count * halves, block.width // halves
        shape = (count, lines.taps, lines.steps * lines.pairs, width, PAIR)
        self.params.append(Buffer(name, DType.BF16, shape))
        packing = lines.packing(block.start, count, width)
        self.operands.append(Operand(lines.parts.task.value_of(weight), packing))
        self.weights.append(name)

    # --- loops ----------------------------------------------------------------------------------

    def in_place(self, blocks: Sequence[LaneBlock]) -> tuple[Stmt, ...]:
        """Block after block of channels, each of which threads share; or share after share."""
        outer, found = self.lines.outer, list[Stmt]()
        if self.form.inside:
            for share in self.shares(blocks, self.weights):
                found += nested(outer, (share,), LoopKind.PARALLEL)
            return tuple(found)
        for block, weight in zip(blocks, self.weights, strict=True):
            shares = tuple(self.shares([block], [weight]))
            # Weights that the caches do not hold are then read once, not for each kind of share.
            once = self.lines.far_weights and block.count >= _BLOCKS * self.lines.parts.task.threads
            for group in (shares,) if once else ((share,) for share in shares):
                inner = nested(outer, group, LoopKind.PARALLEL)
                found += over(block, inner, LoopKind.PARALLEL)
        return tuple(found)

    def shares(self, blocks: Sequence[LaneBlock], weights: Sequence[str]) -> Iterator[Stmt]:
        """Loops over the shares of all lines, for some blocks of channels."""
        lines, form = self.lines, self.form
        if lines.height:
            for band in even_tiles(lines.rows, form.share, form.unit):
                each = [
                    (block, self.rows(block, weight, share_of(band), band.size))
                    for block, weight in zip(blocks, weights, strict=True)
                ]
                inner = self.configured(each, inside=form.inside)
                yield for_range("share", band.count, inner, LoopKind.PARALLEL)
            return
        for tile, pair in pairs_along(lines, form):
            for part in even_tiles(tile.count, form.share):
                at = plus(times(Var("share"), part.size), part.start)
                origin = plus(times(plus(at, Var("tile")), tile.size), tile.start)
                each: list[_Loops] = []
                for block, weight in zip(blocks, weights, strict=True):
                    inside = times(Var("tile"), tile.size) if form.inside else origin
                    number = part.size * tile.size if form.inside else lines.width.extent
                    pace = Pace(inside, number)
                    body = self.product(block, weight, pair, integer(0), origin, pace)
                    loop = for_range("tile", part.size, body)
                    each.append((block, [(self.configure(block, pair), loop)]))
                inner = self.configured(each, inside=form.inside)
                yield for_range("share", part.count, inner, LoopKind.PARALLEL)

    def copied(self, blocks: Sequence[LaneBlock]) -> tuple[Stmt, ...]:
        """Bands of rows that are copied; of a single one, blocks of channels are shared."""
        lines, runs = self.lines, self.lines.runs
        assert runs
        found: list[Stmt] = []
        bands = even_tiles(lines.rows, self.form.share, self.form.unit)
        single = is_single(lines, bands)
        for band in bands:
            wide = runs.wide(band.size)
            each = [
                (block, self.rows(block, weight, share_of(band), band.size))
                for block, weight in zip(blocks, self.weights, strict=True)
            ]
            if single:
                body = tuple(
                    stmt
                    for block, loops in each
                    for stmt in over(
                        block, self.configured([(block, loops)], inside=False), LoopKind.PARALLEL
                    )
                )
            else:
                body = self.configured(each, inside=True)
            fill = filled(runs.filled(share_of(band), band.size, wide.shape[0]), wide)
            loops = with_locals((flat(wide),), (fill, *body))
            share = for_range("share", band.count, loops, LoopKind.PARALLEL)
            found += (share,) if band.count > 1 else loops
        return nested(lines.outer, tuple(found), LoopKind.PARALLEL)

    def rows(
        self, block: LaneBlock, weight: str, first: Expr, count: int
    ) -> list[tuple[Stmt, Stmt]]:
        """Of so many rows of outputs from one on, configurations and the loops that use them.

        Copies begin at the first of the rows.
        """
        if self.form.through:
            return [self.through(block, weight, first, count)]
        unit, found = self.form.unit, list[tuple[Stmt, Stmt]]()
        whole, rest = divmod(count, unit)
        extent = self.lines.width.extent
        own = self.form.inside or self.lines.runs is not None
        for tile, pair in pairs_along(self.lines, self.form):
            alone = Pair(pair.first, 0, apart=False)
            for start, lines, used in ((0, whole, pair), (whole * unit, rest, alone)):
                if lines:
                    row = plus(times(Var("line"), unit), start)
                    origin = plus(times(Var("tile"), tile.size), tile.start)
                    # Before a tile come the rows above, and those beside it of as many rows.
                    line = row if own else plus(first, row)
                    done = plus(times(line, extent), times(origin, 2 if used.apart else 1))
                    pace = Pace(done, (count if own else self.lines.rows) * extent)
                    body = self.product(block, weight, used, row, origin, pace, first)
                    loop = for_range("line", lines, (for_range("tile", tile.count, body),))
                    found.append((self.configure(block, used), loop))
        return found

    def through(self, block: LaneBlock, weight: str, first: Expr, count: int) -> tuple[Stmt, Stmt]:
        """The same for tiles that go through all the rows."""
        tiles = through_of(self.lines, count)
        start = times(Var("tile"), tiles.pair.size)
        if tiles.count * tiles.pair.size > tiles.positions:
            start = Binary("min", start, integer(tiles.positions - tiles.pair.size))
        pace = Pace(times(Var("tile"), tiles.pair.size), tiles.count * tiles.pair.size)
        product = self.sums(block, weight, tiles.pair, integer(0), start, pace, start)
        at = plus(times(Var("line"), tiles.line), Var("p"))
        end = self.end(block, self.lines.width.extent, at, plus(first, Var("line")), Var("p"))
        body = (for_range("tile", tiles.count, (product,)), for_range("line", count, (end,)))
        sums = Buffer(_SUMS, _F32, (tiles.positions, block.width), Access.LOCAL)
        return self.configure(block, tiles.pair), Local(sums, body)

    # --- tiles ----------------------------------------------------------------------------------

    @staticmethod
    def configured(each: Sequence[_Loops], *, inside: bool) -> tuple[Stmt, ...]:
        """Configurations and the loops that use them; tiles are released behind them.

        Args:
            each: by block of channels.
            inside: whether the loops over blocks are in here.
        """
        body: list[Stmt] = []
        for block, loops in each:
            for configure, loop in loops:
                body += (configure, *(over(block, (loop,)) if inside else (loop,)))
        tiles = Buffer(_TILES, _U8, (64,), Access.LOCAL)
        return with_locals((tiles,), (*body, Instruct("tilerelease", (_tiles(),))))

    def configure(self, block: LaneBlock, pair: Pair) -> Stmt:
        """Configures the tiles of a block of channels."""
        bytes = [_F32.bytes * width for width in (min(block.width, LANES), block.width - LANES)]
        sizes = (pair.first, pair.second, self.lines.pairs, bytes[0], max(0, bytes[1]))
        return Instruct(member("ldtilecfg", *sizes), (_tiles(),))

    def product(
        self,
        block: LaneBlock,
        weight: str,
        pair: Pair,
        row: Expr,
        origin: Expr,
        pace: Pace,
        first: Expr | None = None,
    ) -> tuple[Stmt, ...]:
        """The outputs of two tiles of positions.

        Args:
            block: of channels.
            weight: the parameter of its weights.
            pair: the positions.
            row: of outputs, counted from ``first``.
            origin: the first position.
            pace: how far the block is.
            first: row of outputs of the share.
        """
        whole = row if first is None else plus(first, row)
        read = row if self.lines.runs else whole
        product = self.sums(block, weight, pair, read, origin, pace)
        sums = Buffer(_SUMS, _F32, (pair.size, block.width), Access.LOCAL)
        return with_locals((sums,), (product, *self.ends(block, pair, whole, origin)))

    def sums(
        self,
        block: LaneBlock,
        weight: str,
        pair: Pair,
        row: Expr,
        origin: Expr,
        pace: Pace,
        start: Expr | None = None,
    ) -> Stmt:
        """The sums of two tiles of positions.

        Args:
            block: of channels.
            weight: the parameter of its weights.
            pair: the positions.
            row: of outputs, as what is read counts them.
            origin: the first position.
            pace: how far the block is.
            start: where the sums begin in their buffer, if not at its beginning.
        """
        lines = self.lines
        step = lines.place[0]
        apart = pair.apart and pair.second > 0
        down, across = (lines.row[0] if apart else 0), (0 if apart else pair.first * step)
        across = across if pair.second else 0
        run = PAIR * lines.pairs * lines.steps
        length = ((pair.first if apart else pair.size) - 1) * step + run
        length += (lines.taps - 1 + down) * lines.pitch
        halves = halves_of(block)
        pitch = PAIR * block.width // halves
        sizes = (pair.size, pair.first, step, down, across, block.width)
        sizes += (min(block.width, LANES), lines.steps * lines.pairs * pitch, pitch)
        sizes += (lines.taps, lines.steps, lines.pairs, run // PAIR)
        sizes += (lines.pitch, length, block.width)
        read = plus(times(row, lines.row[0]), lines.row[1])
        place = plus(times(read, lines.pitch), plus(times(origin, step), lines.place[1]))
        image = Load(lines.buffer.name, (*lines.index, place), DType.BF16)
        factors = self.factors(block, weight, halves)
        each, ahead = self.ahead(block, weight, pair, pace)
        name = member("tdpbf16ps", *sizes, each, max(1, each * lines.taps * lines.steps))
        sums = Load(_SUMS, (start or integer(0), integer(0)), _F32)
        return Instruct(name, (sums, image, *factors, ahead or factors[0], _tiles()))

    @staticmethod
    def factors(block: LaneBlock, weight: str, halves: int) -> tuple[Load, Load]:
        """The first weights of both tiles of channels."""
        number = Var("block") if block.count > 1 else integer(0)
        lane = LANES if halves == 1 and block.width > LANES else 0
        one, other = times(number, halves), plus(times(number, halves), halves - 1)
        rows = (integer(0), integer(0))
        return (
            Load(weight, (one, *rows, integer(0), integer(0)), DType.BF16),
            Load(weight, (other, *rows, integer(lane), integer(0)), DType.BF16),
        )

    def ahead(
        self, block: LaneBlock, weight: str, pair: Pair, pace: Pace
    ) -> tuple[int, Load | None]:
        """Rows of pairs of the next block that each step of a tile fetches, and the first one."""
        lines = self.lines
        halves, steps = halves_of(block), lines.taps * lines.steps
        rows = steps * lines.pairs * halves
        slab = rows * block.width // halves * PAIR * DType.BF16.bytes
        total = int(lines.parts.fact(operand_bytes)[1])
        if block.count == 1 or not prefetches(lines.parts.task.target, slab, total):
            return 0, None
        # Each position has its part. Where positions are very many, weights hardly matter.
        share = rows // gcd(rows, pace.positions)
        whole = pace.positions // gcd(rows, pace.positions)
        if pace.positions * share > _MOST_PARTS:
            return 0, None
        each = -(-pair.size * share // (whole * steps))
        begin = Binary("floordiv", times(pace.done, share), integer(whole))
        first = Binary("min", begin, integer(rows - each * steps))
        number = times(following(Var("block"), block.count), halves)
        index = (number, integer(0), first, *(integer(0),) * 2)
        return each, Load(weight, index, DType.BF16)

    def ends(self, block: LaneBlock, pair: Pair, row: Expr, origin: Expr) -> tuple[Stmt, ...]:
        """Writes what is made of the sums."""
        if not pair.apart:
            return (self.end(block, pair.size, Var("p"), row, plus(origin, Var("p"))),)
        at = plus(times(Var("q"), pair.first), Var("p"))
        each = self.end(block, pair.first, at, plus(row, Var("q")), plus(origin, Var("p")))
        return (for_range("q", 2, (each,)),)

    def end(self, block: LaneBlock, count: int, at: Expr, row: Expr, place: Expr) -> For:
        """Writes positions side by side."""
        lines = self.lines
        parts, compute = lines.parts, lines.parts.task.compute
        assert parts.lanes
        found: list[Stmt] = []
        for _, offset, width in block.pieces():
            lane = plus(plus(block_origin(block, "block"), offset), Var(LANE))
            bound = {parts.lanes.var: lane, lines.width.var: place}
            if lines.height:
                bound[lines.height.var] = row
            sum = Load(_SUMS, (at, plus(integer(offset), Var(LANE))), _F32)
            value = map_expr(
                compute.value, lambda node, by=sum: by if node == parts.reduce else node
            )
            index = tuple(bound.get(axis.var, Var(axis.var)) for axis in compute.axes)
            store = Store(parts.task.output.name, index, substitute(value, bound))
            found.append(for_lanes(width, store))
        return for_range("p", count, tuple(found))


def _tiles() -> Load:
    return Load(_TILES, (integer(0),), _U8)


def share_of(band: Tile) -> Expr:
    """The first row of outputs of a share."""
    return plus(times(Var("share"), band.size) if band.count > 1 else integer(0), band.start)


def over(
    block: LaneBlock, body: tuple[Stmt, ...], kind: LoopKind = LoopKind.SERIAL
) -> tuple[Stmt, ...]:
    """Statements for every block of channels."""
    return (for_range("block", block.count, body, kind),) if block.count > 1 else body


def write(lines: Lines, form: Form) -> Implementation:
    """The kernel."""
    writer = _Writer(lines, form)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), name_of(lines, form))
