"""Products of matrices by seven products of quarters instead of eight.

Strassen's algorithm in Winograd's form, one level of it.  Positions of the output are cut into
tiles of two times so many, the summed axis and the output channels into halves::

    for tile of positions:                                                   (parallel)
      data = sums and differences of the quarters ``a`` of what the tile reads
      for group of channels of one half, the same of the other half beside it:
        for each of three quarters: product = quarter * weights
        for each of four sums: product = sum * weights
        for position of one half, and the same of the other half:
          out11 = epilogue(p1 + p2)        p1 = a11 * b11, p2 = a12 * b21, p3 = -a22 * t4
          two   = p1 + p5                  p4 = s1 * t1    with s1 = a21 + a22
          three = two + p6                 p5 = s2 * t2         s2 = s1 - a11
          out21 = epilogue(three + p3)     p6 = s3 * t3         s3 = a11 - a21
          out22 = epilogue(three + p4)     p7 = s4 * b22        s4 = a12 - s2
          out12 = epilogue(two + p4 + p7)

The sums ``t`` of weights are computed when the code is generated.  Products of a group stay in
the nearest cache.  All of them are sums in blocks (``weft.kernels.products.sum_blocks``); the
result is not the direct sum's to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from weft.dtypes import DType
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.products.prefetch import following, prefetches
from weft.kernels.products.quarters import DATA, HALVES, PRODUCTS, Product, parts_of, sums_of
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
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Expr,
    If,
    Kernel,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import substitute
from weft.plan.implementation import Implementation, Operand, QuarterSums
from weft.records import dataclass

_F32 = DType.F32
_QUARTERS = len(PRODUCTS) - DATA
"""The first products: of quarters themselves, a11, a12 and a22."""
_TILES_A_THREAD = 8
"""With fewer the last tiles would keep one thread busy while others wait."""


@dataclass
class _Cell(Microkernel):
    """A register tile of one product."""

    def into(self, buffer: str, number: Expr) -> tuple[Stmt, ...]:
        """The sums, stored in a part of a buffer."""
        place, lane = (self.position, Var(LANE)), Var(LANE)
        found = tuple(
            self.vector(
                width,
                Store(
                    buffer,
                    (number, self.position, plus(lane, offset)),
                    Load(f"{self.sums}{piece}", place, _F32),
                ),
            )
            for piece, offset, width in self.block.pieces()
        )
        body = (*self.starts(), *self.reduction(), *self.positions(found))
        return with_locals(self.accumulators(), body)

    def turns(self, size: int) -> list[tuple[int, int, int]]:
        """All positions end their blocks together."""
        return [(0, self.size, size)]


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
        shape = (product.groups * len(PRODUCTS), product.terms, product.width)
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
        body = (Local(sums_of(self.product, tile.pairs), inner),)
        return _over("tile", count, body, LoopKind.PARALLEL)

    def stages(self, start: int, size: int, count: int) -> tuple[Stmt, ...]:
        """The same for few tiles: threads share their sums, and then their groups of channels."""
        quarters = _place("tile", DATA, count)
        tile = _Tile(_place("tile", size, count, start), size, quarters)
        stages = (self.sums(tile, LoopKind.PARALLEL), self.groups(tile, LoopKind.PARALLEL))
        body = [_over("tile", count, stage, LoopKind.PARALLEL) for stage in stages]
        return (Local(sums_of(self.product, tile.pairs, count), (*body[0], *body[1])),)

    def groups(self, tile: _Tile, kind: LoopKind) -> tuple[Stmt, ...]:
        """The outputs of a tile."""
        return _over("group", self.product.groups, self.group(tile), kind)

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
        held = [Buffer(f"s{number}", _F32, (lanes,), Access.LOCAL) for number in range(1, 5)]
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

    def group(self, tile: _Tile) -> tuple[Stmt, ...]:
        """The outputs of a tile for a group of channels of each half."""
        product, pairs = self.product, tile.pairs
        sums = Buffer("sums", _F32, (len(PRODUCTS), pairs, product.width), Access.LOCAL)
        ends = [
            self.end(plus(first, Var("spot")), half, f"of{row + 1}{half + 1}_")
            for row, first in enumerate((tile.first, tile.second))
            for half in range(HALVES)
        ]
        hints = tuple(hint for end in ends for hint in end.last_hints())
        body: list[Stmt] = [for_range("spot", pairs, hints)] if hints else []
        for read, first, count in (
            (self.straight(tile), 0, _QUARTERS),
            (self.summed(tile), _QUARTERS, DATA),
        ):
            inner = self.cell(tile, read, first).into(sums.name, plus(Var("product"), first))
            body.append(for_range("product", count, inner))
        body.append(for_range("spot", pairs, self.outputs(ends, 2 * pairs > tile.size)))
        return with_locals([sums], tuple(body))

    def outputs(self, ends: Sequence[Microkernel], common: bool) -> tuple[Stmt, ...]:
        """The outputs at a position of one half and at that of the other one.

        Args:
            ends: of the four quarters.
            common: whether the last position of one half is the first one of the other, whose
                outputs must not be computed again where they replace what is added to them.
        """
        pieces = list(ends[0].block.pieces())
        body = list[Stmt]()
        held = [
            Buffer(f"{name}{piece}", _F32, (1, width), Access.LOCAL)
            for piece, _, width in pieces
            for name in ("two", "three", *(end.sums for end in ends))
        ]
        for piece, offset, width in pieces:
            p1, p2, p3, p4, p5, p6, p7 = (
                Load("sums", (integer(number), Var("spot"), plus(Var(LANE), offset)), _F32)
                for number in range(len(PRODUCTS))
            )
            two, three = (
                Load(f"{name}{piece}", (integer(0), Var(LANE)), _F32) for name in ("two", "three")
            )
            of11, of12, of21, of22 = (f"{end.sums}{piece}" for end in ends)
            for name, lhs, rhs in (
                (two.buffer, p1, p5),
                (three.buffer, two, p6),
                (of11, p1, p2),
                (of21, three, p3),
                (of22, three, p4),
                (of12, Binary("add", two, p4), p7),
            ):
                store = Store(name, (integer(0), Var(LANE)), Binary("add", lhs, rhs))
                body.append(for_lanes(width, store))
        first, second = (
            tuple(stmt for end in half for stmt in end.stores(end.sums))
            for half in (ends[:HALVES], ends[HALVES:])
        )
        if common:
            second = (If(Binary("gt", Var("spot"), integer(0)), second),)
        return with_locals(held, (*body, *first, *second))

    def straight(self, tile: _Tile) -> Load:
        """What the products of quarters themselves read: a11, a12 and a22."""
        number, image, product = Var("product"), self.product.image, self.product
        below = Binary("floordiv", number, integer(2))
        right = Binary("min", number, integer(1))
        row = plus(plus(tile.first, times(below, tile.size - tile.pairs)), Var("spot"))
        channel = plus(Var(product.channel.var), times(right, product.terms))
        at = {product.tile.var: row, product.channel.var: channel}
        return replace(image, index=tuple(substitute(part, at) for part in image.index))

    def summed(self, tile: _Tile) -> Load:
        """What the products of sums read."""
        number, channel = plus(tile.quarters, Var("product")), Var(self.product.channel.var)
        return Load("data", (number, Var("spot"), channel), _F32)

    def cell(self, tile: _Tile, image: Load, first: int) -> _Cell:
        """The register tile of one of the products from the first one on."""
        product, number = self.product, plus(Var("product"), first)
        parts = parts_of(product, image, tile.pairs, product.width)
        if product.groups > 1:
            number = plus(times(Var("group"), len(PRODUCTS)), number)
        block = product.block
        slab = product.terms * product.width * _F32.bytes
        count = len(PRODUCTS) * product.groups
        far = prefetches(product.target, slab, slab * count)
        ahead = {0: following(number, count)} if far else {}
        weight = str(product.parts.weight)
        return _Cell(parts, block, integer(0), number, weight, integer(0), tile.pairs, ahead=ahead)

    def end(self, row: Expr, half: int, sums: str) -> Microkernel:
        """The end of the sums of a quarter at one position."""
        product = self.product
        counter: Expr = Var("group") if product.groups > 1 else integer(0)
        channel = plus(times(counter, product.width), half * product.groups * product.width)
        block = product.block
        return Microkernel(product.parts, block, channel, integer(0), "", row, 1, sums=sums)


def write(product: Product) -> Implementation:
    """The kernel of a product."""
    writer = _Writer(product)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), product.name)
