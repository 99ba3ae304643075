"""Products of matrices by seven products of quarters instead of eight.

Strassen's algorithm in Winograd's form, one level of it.  Positions of the output are cut into
tiles of two times so many, the summed axis and the output channels into halves::

    for tile of positions:                                                   (parallel)
      data = sums and differences of the quarters ``a`` of what the tile reads
      for group of channels of one half, the same of the other half beside it:
        one   = a11 * b11
        out11 = epilogue(one + a12 * b21)
        two   = one + s2 * t2              with s1 = a21 + a22, s2 = s1 - a11,
        three = two + s3 * t3                   s3 = a11 - a21, s4 = a12 - s2
        out21 = epilogue(three - a22 * t4)
        five  = s1 * t1
        out22 = epilogue(five + three)
        out12 = epilogue(five + two + s4 * b22)

The sums ``t`` of weights are computed when the code is generated.  Sums of sums stay in the
nearest cache, for no product leaves its register tile.  All products are sums in blocks
(``weft.kernels.products.sum_blocks``); the result is not the direct sum's to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.products.prefetch import following, prefetches
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import (
    LANE,
    for_lanes,
    for_range,
    integer,
    nested,
    plus,
    times,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    Kernel,
    Load,
    Local,
    LoopKind,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import substitute
from weft.plan.implementation import Implementation, Operand, QuarterSums
from weft.targets.target import Target

_F32 = DType.F32
HALVES = 2
PRODUCTS = (
    (1.0, 0.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (1.0, -1.0, 0.0, 1.0),
    (0.0, -1.0, 0.0, 1.0),
    (-1.0, 1.0, 1.0, -1.0),
    (-1.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
)
"""For each product, in their order, what it takes of the quarters b11, b12, b21, b22."""
DATA = 4
"""Quarters of data that are sums."""
_KEPT = 3
"""Sums that are read again."""
_TILES_A_THREAD = 8
"""With fewer the last tiles would keep one thread busy while others wait."""


@dataclass(frozen=True)
class Product:
    """A product of two matrices, one of constants.

    Attributes:
        parts: of the task.
        image: the load of the other one; channel: the summed axis.
        positions, vectors: of a register tile.
    """

    parts: Contraction
    image: Load
    channel: Axis
    positions: int
    vectors: int

    @property
    def target(self) -> Target:
        """The machine."""
        return self.parts.task.target

    @property
    def tile(self) -> Axis:
        """The axis of positions."""
        assert self.parts.tile
        return self.parts.tile

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return self.target.lanes(_F32)

    @property
    def width(self) -> int:
        """Channels of a register tile."""
        return self.vectors * self.lanes

    @property
    def terms(self) -> int:
        """Of a half of a sum."""
        return self.channel.extent // HALVES

    @property
    def groups(self) -> int:
        """Register tiles that hold half of the channels."""
        return self.parts.lane_extent // (HALVES * self.width)

    @property
    def name(self) -> str:
        """What the alternative is called."""
        return f"strassen-{self.positions}x{self.vectors}"

    def cuts(self) -> Iterator[tuple[int, int, int]]:
        """First position, positions and number of all tiles, those of one size at a time."""
        whole, rest = divmod(self.tile.extent, HALVES * self.positions)
        if whole:
            yield 0, HALVES * self.positions, whole
        if rest:
            yield self.tile.extent - rest, rest, 1


def parts_of(product: Product, point: int, image: Load, size: int, width: int) -> Contraction:
    """One of the products of quarters, taken apart."""
    terms = Axis(product.channel.var, product.terms)
    factor = Load("filter", (integer(point), Var(terms.var), Var("wide")), _F32)
    value = Binary("mul", image, factor)
    reduce = Reduce("sum", (terms,), value)
    weight = Buffer("filter", _F32, (len(PRODUCTS), terms.extent, width))
    spot, lane = Axis("spot", size), Axis("wide", width)
    task = replace(
        product.parts.task,
        compute=Compute((spot, lane), reduce),
        inputs=(_data(product, size), weight, *product.parts.task.inputs),
        output=Buffer("product", _F32, (size, width), Access.LOCAL),
    )
    return Contraction(task, reduce, value, (), lane, spot, (), "filter")


def _data(product: Product, size: int, tiles: int = 1) -> Buffer:
    """The sums of quarters of tiles.  Rows must not fall onto the same cache sets."""
    return Buffer("data", _F32, (tiles * DATA, size, product.terms + product.lanes), Access.LOCAL)


@dataclass
class _Cell(Microkernel):
    """A register tile whose sums go on in other products, and end at some of the positions.

    Attributes:
        skipped: so many of the first positions are not stored.
    """

    skipped: int = 0

    def summed(self) -> tuple[Stmt, ...]:
        """The sums of this product alone."""
        return (*self.starts(), *self.reduction())

    def turns(self, size: int) -> list[tuple[int, int, int]]:
        """All positions end their blocks together: two loops for each of seven products would
        double a long text, and what compiling it takes.
        """
        return [(0, self.size, size)]

    def positions(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements for those positions that count."""
        if self.skipped == 0:
            return super().positions(body)
        return (self.over(self.skipped, self.size, body),) if self.skipped < self.size else ()


@dataclass(frozen=True)
class _Tile:
    """Some positions; of an odd number the two halves have one in common.

    Attributes:
        first: of them.
        size: how many.
        quarters: where its sums of quarters begin.
    """

    first: Expr
    size: int
    quarters: Expr

    @property
    def pairs(self) -> int:
        """Positions of a half."""
        return -(-self.size // HALVES)

    def quarter(self, number: int) -> Expr:
        """Where one of its sums of quarters is."""
        return plus(self.quarters, number)

    @property
    def second(self) -> Expr:
        """The first position of the other half."""
        return plus(self.first, self.size - self.pairs)


def _place(var: str, size: int, count: int, start: int = 0) -> Expr:
    """Where one of several parts of a size begins."""
    return plus(times(Var(var), size), start) if count > 1 else integer(start)


def _over(var: str, count: int, body: tuple[Stmt, ...], kind: LoopKind) -> tuple[Stmt, ...]:
    """A loop, if there is more than one turn."""
    return (for_range(var, count, body, kind),) if count > 1 else body


@dataclass
class _Writer:
    """Writes the loops."""

    product: Product
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])

    def kernel(self) -> Kernel:
        """The kernel, its weights packed."""
        product = self.product
        parts, task = product.parts, product.parts.task
        weight = next(each for each in task.inputs if each.name == parts.weight)
        for buffer in task.inputs:
            if buffer != weight:
                self.params.append(buffer)
                self.operands.append(Operand(task.value_of(buffer.name)))
        shape = (product.groups, len(PRODUCTS), product.terms, product.width)
        self.params.append(Buffer(weight.name, _F32, shape))
        assert parts.lanes
        lane = parts.weight_index().index(Var(parts.lanes.var))
        sums = QuarterSums(weight.shape, lane, product.width, PRODUCTS)
        self.operands.append(Operand(task.value_of(weight.name), sums))
        body: list[Stmt] = []
        for start, size, count in product.cuts():
            shared = task.threads > 1 and count < _TILES_A_THREAD * task.threads
            body += (self.stages if shared else self.tiles)(start, size, count)
        found = nested(parts.outer, tuple(body), LoopKind.PARALLEL)
        return simplify_kernel(Kernel(task.name, (*self.params, task.output), found))

    def tiles(self, start: int, size: int, count: int) -> tuple[Stmt, ...]:
        """The outputs of tiles of so many positions, tile by tile."""
        tile = _Tile(_place("tile", size, count, start), size, integer(0))
        inner = (*self.sums(tile, LoopKind.SERIAL), *self.groups(tile, LoopKind.SERIAL))
        body = (Local(_data(self.product, tile.pairs), inner),)
        return _over("tile", count, body, LoopKind.PARALLEL)

    def stages(self, start: int, size: int, count: int) -> tuple[Stmt, ...]:
        """The same for few tiles: threads share their sums, and then their groups of channels."""
        quarters = _place("tile", DATA, count)
        tile = _Tile(_place("tile", size, count, start), size, quarters)
        stages = (self.sums(tile, LoopKind.PARALLEL), self.groups(tile, LoopKind.PARALLEL))
        body = [_over("tile", count, stage, LoopKind.PARALLEL) for stage in stages]
        return (Local(_data(self.product, tile.pairs, count), (*body[0], *body[1])),)

    def groups(self, tile: _Tile, kind: LoopKind) -> tuple[Stmt, ...]:
        """The outputs of a tile."""
        return _over("group", self.product.groups, tuple(self.group(tile)), kind)

    def quarter(self, row: Expr, half: int, channel: Expr) -> Load:
        """What is read of a quarter of the image at a position and a channel."""
        image, product = self.product.image, self.product
        at = {
            product.tile.var: row,
            product.channel.var: plus(channel, half * product.terms),
        }
        return replace(image, index=tuple(substitute(part, at) for part in image.index))

    def sums(self, tile: _Tile, kind: LoopKind) -> tuple[Stmt, ...]:
        """The sums of quarters of what a tile reads."""
        lanes, lane = self.product.lanes, Var(LANE)
        channel = plus(times(Var("chunk"), lanes), lane)
        rows = [plus(row, Var("spot")) for row in (tile.first, tile.second)]
        a11, a12, a21, a22 = (
            self.quarter(row, half, channel) for row in rows for half in range(HALVES)
        )
        held = [Buffer(f"s{number}", _F32, (lanes,), Access.LOCAL) for number in range(DATA)]
        s1, s2, s3, s4 = (Load(buffer.name, (lane,), _F32) for buffer in held)
        values = (
            Binary("add", a21, a22),
            Binary("sub", s1, a11),
            Binary("sub", a11, a21),
            Binary("sub", a12, s2),
        )
        body: list[Stmt] = [
            for_lanes(lanes, Store(buffer.name, (lane,), value))
            for buffer, value in zip(held, values, strict=True)
        ]
        body += [
            for_lanes(
                lanes, Store("data", (plus(tile.quarters, number), Var("spot"), channel), value)
            )
            for number, value in enumerate((s1, s2, s3, s4))
        ]
        chunks = self.product.terms // lanes
        inner = for_range("chunk", chunks, with_locals(held, tuple(body)))
        return (for_range("spot", tile.pairs, (inner,), kind),)

    def group(self, tile: _Tile) -> Iterator[Stmt]:
        """The outputs of a tile for a group of channels of each half."""
        product, spot = self.product, Var("spot")
        channel = Var(product.channel.var)
        a11, a12 = (self.quarter(plus(tile.first, spot), half, channel) for half in range(HALVES))
        a22 = self.quarter(plus(tile.second, spot), 1, channel)
        s1, s2, s3, s4 = (
            Load("data", (plus(tile.quarters, number), spot, channel), _F32)
            for number in range(DATA)
        )
        read = (a11, a12, s2, s3, a22, s1, s4)
        cells = [self.cell(number, image, tile.pairs) for number, image in enumerate(read)]
        ends = [
            self.end(row, half, tile.pairs, skipped)
            for row, skipped in ((tile.first, 0), (tile.second, 2 * tile.pairs - tile.size))
            for half in range(HALVES)
        ]
        (hints11, end11), (hints12, end12), (hints21, end21), (hints22, end22) = ends
        one, two, three = (f"kept{number}_" for number in range(_KEPT))
        move = cells[0].moved
        body: list[Stmt] = [*hints11, *cells[0].summed(), *move(one, "acc")]
        body += (*cells[1].summed(), *move("acc", "acc", one), *end11)
        body += (*hints21, *cells[2].summed(), *move("acc", "acc", one), *move(two, "acc"))
        body += (*cells[3].summed(), *move("acc", "acc", two), *move(three, "acc"))
        body += (*cells[4].summed(), *move("acc", "acc", three), *end21)
        body += (*hints22, *cells[5].summed(), *move(two, "acc", two), *move("acc", "acc", three))
        body += (*end22, *hints12)
        body += (*cells[6].summed(), *move("acc", "acc", two), *end12)
        held = [replace(cells[0], sums=name).accumulators() for name in ("acc", one, two, three)]
        yield from with_locals([buffer for each in held for buffer in each], tuple(body))

    def cell(self, number: int, image: Load, pairs: int) -> _Cell:
        """The register tile of one product."""
        product = self.product
        parts = parts_of(product, number, image, pairs, product.width)
        counter: Expr = Var("group") if product.groups > 1 else integer(0)
        block = LaneBlock(0, 1, (product.lanes,) * product.vectors)
        slab = product.terms * product.width * _F32.bytes
        ahead: dict[int, Expr] = {}
        if prefetches(product.target, slab, slab * len(PRODUCTS) * product.groups):
            last = number == len(PRODUCTS) - 1
            group = following(counter, product.groups) if last else counter
            ahead = {0: group, 1: integer(0 if last else number + 1)}
        weight = str(product.parts.weight)
        return _Cell(parts, block, integer(0), counter, weight, integer(0), pairs, ahead=ahead)

    def end(
        self, row: Expr, half: int, pairs: int, skipped: int
    ) -> tuple[tuple[Stmt, ...], tuple[Stmt, ...]]:
        """Hints for what the end of a quarter reads from far away, and the end."""
        product = self.product
        counter: Expr = Var("group") if product.groups > 1 else integer(0)
        channel = plus(times(counter, product.width), half * product.groups * product.width)
        block = LaneBlock(0, 1, (product.lanes,) * product.vectors)
        cell = _Cell(product.parts, block, channel, integer(0), "", row, pairs, skipped=skipped)
        return cell.last_hints(), cell.stores()


def write(product: Product) -> Implementation:
    """The kernel of a product."""
    writer = _Writer(product)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), product.name)
