"""Products of matrices whose sums are long, a stretch of their terms at a time.

What the positions of a product read is larger than a core's caches where they and the terms of
sums are many: every block of lanes would read it from far away.  What some of them read of a
stretch of terms stays near::

    for group of positions:                                         (parallel)
      for share of the blocks of lanes:                             (parallel)
        for stretch of terms:
          for block of lanes:
            for tile of positions:
              acc[position][lane] = sum over the terms of the stretch
              if not the first:  acc += totals[position][lane]
              if not the last:   totals[position][lane] = acc
              otherwise:         out[position][lane] = epilogue(acc)

Sums that wait for the next stretch cost a load, an addition and a store.  The order of loops is
that of K. Goto and R. van de Geijn, *Anatomy of High-Performance Matrix Multiplication*, 2008,
with weights packed beforehand.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import log

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.products.microkernel import Microkernel, replaced
from weft.kernels.products.prefetch import following
from weft.kernels.products.tile_form import TileForm
from weft.kernels.products.tiled import ALONE, TileWriter
from weft.kernels.refusal import Refusal
from weft.kernels.tiling import LaneBlock, is_product
from weft.kernels.writer import LANE, block_origin, for_range, integer, plus, times
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    For,
    If,
    Load,
    Local,
    LoopKind,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import dtype_of, free_vars, loads, map_expr, substitute
from weft.plan.implementation import Implementation
from weft.records import dataclass

_F32 = DType.F32
_STRETCH = Var("stretch")
_TOTALS = "totals"
"""Sums that wait for the next stretch."""

_TERMS = 256
"""About how many terms a stretch has: what a stretch costs beside them is little."""
_RANGE = 2
"""A stretch has at most so many times as many, and at least such a part of them."""

NOT_A_PRODUCT = Refusal("it is no product of a matrix and one of constants")


@dataclass(frozen=True, slots=True)
class Stretches:
    """How a product is cut.

    Attributes:
        form: of its register tiles.
        terms: of a stretch, a divisor of those of a sum.
        groups: of positions.
        share: blocks of lanes that go through all stretches before the next ones do.
    """

    form: TileForm
    terms: int
    groups: int
    share: int

    @property
    def name(self) -> str:
        """What the alternative is called; ``share`` follows from the rest."""
        form, ahead = self.form, "-ahead" if self.form.ahead else ""
        return f"stretches-{form.positions}x{form.vectors}-by{self.terms}-in{self.groups}{ahead}"


def refusal_of(parts: Contraction) -> Refusal | None:
    """Why the sums of a product are not taken in stretches."""
    target, reduce, tile = parts.task.target, parts.reduce, parts.tile
    if not target.caches or parts.task.optimize != "speed":
        return Refusal("the target has no caches, or the code is to be small")
    if not target.fused:
        return Refusal(
            "without an instruction that multiplies and adds, sums take longer than memory"
        )
    plain = parts.weight and not (parts.guards or parts.slide or parts.pairs or parts.outer)
    if not (plain and reduce and tile and is_product(parts) and len(reduce.axes) == 1):
        return NOT_A_PRODUCT
    if reduce.op != "sum" or dtype_of(reduce.value) is not _F32:
        return Refusal("it is no sum in f32")
    axis = reduce.axes[0]
    if Var(axis.var) not in parts.weight_index():
        return Refusal("its constants are not read term by term")
    matrix = matrix_of(parts)
    if matrix is None:
        return NOT_A_PRODUCT
    if matrix[0].dtype.bytes * tile.extent * axis.extent <= target.caches[-1] // 2:
        return Refusal("a core's caches hold the matrix")
    if not terms_of(axis.extent):
        return Refusal("its sums are short, or no equal stretches make them up")
    return None


def matrix_of(parts: Contraction) -> tuple[Load, Buffer] | None:
    """The load of what differs by position and term, and its buffer."""
    assert parts.reduce
    assert parts.value
    assert parts.tile
    both = {parts.tile.var, parts.reduce.axes[0].var}
    buffers = {each.name: each for each in parts.task.inputs}
    found = (load for load in loads(parts.value) if both <= free_vars(load))
    return next(((load, buffers[load.buffer]) for load in found), None)


def terms_of(extent: int) -> list[int]:
    """Terms of a stretch for sums of so many, the best first; none where sums are short."""
    if extent < 2 * _RANGE * _TERMS:
        return []
    sizes = range(_TERMS // _RANGE, _RANGE * _TERMS + 1)
    found = [size for size in sizes if extent % size == 0]
    return sorted(found, key=lambda size: abs(log(size / _TERMS)))


def stretch_of(parts: Contraction, terms: int) -> Contraction:
    """One stretch of a product: so many terms are summed, the variable ``stretch`` counts them."""
    reduce, weight = parts.reduce, parts.weight
    assert reduce
    assert parts.value
    axis, index = reduce.axes[0], parts.weight_index()
    place = index.index(Var(axis.var))
    term = plus(times(_STRETCH, terms), Var(axis.var))

    def moved(node: Expr) -> Expr:
        if not isinstance(node, Load):
            return node
        if node.buffer == weight:
            return replace(node, index=(*index[:place], _STRETCH, *index[place:]))
        return replace(node, index=tuple(substitute(part, {axis.var: term}) for part in node.index))

    def cut(buffer: Buffer) -> Buffer:
        if buffer.name != weight:
            return buffer
        shape = buffer.shape
        shape = (*shape[:place], axis.extent // terms, terms, *shape[place + 1 :])
        return Buffer(buffer.name, buffer.dtype, shape)

    task = parts.task
    sums = Reduce(reduce.op, (Axis(axis.var, terms),), map_expr(reduce.value, moved))
    compute = replace(task.compute, value=replaced(task.compute.value, reduce, sums))
    task = replace(task, compute=compute, inputs=tuple(map(cut, task.inputs)))
    return replace(parts, task=task, reduce=sums, value=map_expr(parts.value, moved))


@dataclass
class _Cell(Microkernel):
    """The register tile of a stretch.

    Attributes:
        stretches: how many there are.
        row: of the totals, for the first position; lane: of the totals, for the first lane.
    """

    stretches: int = field(kw_only=True)
    row: Expr = field(kw_only=True)
    lane: Expr = field(kw_only=True)

    def last_hints(self) -> tuple[Stmt, ...]:
        """Hints for what the end of a tile reads, which only the last stretch does."""
        found = super().last_hints()
        return (If(self.ends_sums, found),) if found else ()

    def ends(self) -> tuple[Stmt, ...]:
        """Adds what waits; then lets the sums wait, or finishes them."""
        add: list[Stmt] = []
        keep: list[Stmt] = []
        for piece, offset, width in self.block.pieces():
            name, at = f"{self.sums}{piece}", (self.position, Var(LANE))
            row, lane = plus(self.row, self.position), plus(self.lane, offset)
            place = row, plus(lane, Var(LANE))
            sum, before = Load(name, at, _F32), Load(_TOTALS, place, _F32)
            add.append(self.vector(width, Store(name, at, Binary("add", sum, before))))
            keep.append(self.vector(width, Store(_TOTALS, place, sum)))
        return (
            If(Binary("gt", _STRETCH, integer(0)), self.positions(tuple(add))),
            If(self.ends_sums, self.stores(), self.positions(tuple(keep))),
        )

    @property
    def ends_sums(self) -> Expr:
        """Whether this is the last stretch."""
        return Binary("ge", _STRETCH, integer(self.stretches - 1))


@dataclass
class _Writer(TileWriter):
    """Writes the loops of a product, of which ``parts`` is one stretch."""

    way: Stretches = field(kw_only=True)
    stretches: int = field(kw_only=True)

    def block(self, block: LaneBlock, weight: tuple[str, str]) -> tuple[Stmt, ...]:
        """All outputs of the lanes of some blocks."""
        tile, size = self.parts.tile, self.form.positions
        assert tile
        count, rest = divmod(tile.extent, size)
        each = max(1, -(-count // self.way.groups))
        groups = max(1, -(-count // each))
        first = times(Var("group"), each)
        inner: list[Stmt] = []
        if count:
            row = times(Binary("sub", Var("tile"), first), size)
            turn = Binary("sub", Var("tile"), first), each
            body = self.cell(block, weight, times(Var("tile"), size), size, row, turn)
            stop = Binary("min", plus(first, each), integer(count))
            inner.append(For("tile", first, stop, body))
        if rest:
            row = times(Binary("sub", integer(count), first), size)
            body = self.cell(block, weight, integer(count * size), rest, row, ALONE)
            inner.append(If(Binary("ge", Var("group"), integer(groups - 1)), body))
        found = self.shares(block, each * size + rest, tuple(inner))
        return (for_range("group", groups, (found,), LoopKind.PARALLEL),)

    def share(self, block: LaneBlock) -> int:
        """How many of the blocks go through all stretches together."""
        return min(self.way.share, block.count)

    def shares(self, block: LaneBlock, rows: int, inner: tuple[Stmt, ...]) -> Stmt:
        """The loops over blocks of lanes and over stretches."""
        share = self.share(block)
        first = times(Var("share"), share)
        stop = Binary("min", plus(first, share), integer(block.count))
        blocks = For("block", first, stop, inner)
        stretches = for_range(_STRETCH.name, self.stretches, (blocks,))
        totals = Buffer(_TOTALS, _F32, (rows, share * block.width), Access.LOCAL)
        body = (Local(totals, (stretches,)),)
        return for_range("share", -(-block.count // share), body, LoopKind.PARALLEL)

    def cell(
        self,
        block: LaneBlock,
        weight: tuple[str, str],
        origin: Expr,
        size: int,
        row: Expr,
        turn: tuple[Expr, int],
    ) -> tuple[Stmt, ...]:
        """A register tile of so many positions from ``origin`` on, in a row of the totals."""
        number, ahead = Var("block"), dict[int, Expr]()
        if self.form.ahead and block.count > 1:
            ahead = {0: following(number, block.count), 1: _STRETCH}
        lane = times(Binary("sub", number, times(Var("share"), self.share(block))), block.width)
        first = block_origin(block, "block")
        cell = _Cell(
            *(self.parts, block, first, number, weight[0], origin, size, True, ahead, turn),
            stretches=self.stretches,
            row=row,
            lane=lane,
        )
        return cell.statements()


def write(parts: Contraction, cut: Stretches) -> Implementation:
    """The kernel of a product."""
    assert parts.reduce
    stretches = parts.reduce.axes[0].extent // cut.terms
    writer = _Writer(stretch_of(parts, cut.terms), cut.form, way=cut, stretches=stretches)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), cut.name)
