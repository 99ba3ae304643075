"""Matrix products by seven products of halves instead of eight (Strassen, in Winograd's form).

Rows, sums and lanes are cut in two: ``A`` is ``[[a, b], [c, d]]``, the constant ``B`` is
``[[e, f], [g, h]]``.  Sums of quarters of ``A`` are made once, those of ``B`` for a block of
lanes while that is in cache; the products of a block stay near until they are combined::

    for row:                                                                 (parallel)
      sums[0..3] = c + d, c + d - a, a - c, b - (c + d - a)
    for block of lanes in the left half, and the same in the right one:      (parallel)
      turned[0..3] = f - e, h - f + e, h - f, h - f + e - g
      product[0..6] = a e, b g, sums[3] h, d turned[3], sums[0] turned[0],
                      sums[1] turned[1], sums[2] turned[2]
      for row:
        out = epilogue(sums of products)                                     (four rows' pieces)

An odd row in the middle has no partner below, which counts as zero.  The result is not the
direct sum's to the last bit: sums and differences round too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative
from weft.kernels.arithmetic import integer, plus, times
from weft.kernels.cell import LANE, Cell, replaced
from weft.kernels.parts import Parts, take_apart
from weft.kernels.prefetch import following, prefetches
from weft.kernels.task import Task
from weft.kernels.tiling import Block, blocks_of, tile_shape, tiles_of
from weft.loops.affine import affine
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Kind,
    Load,
    Local,
    Prefetch,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import free_vars, substitute, substitute_stmts
from weft.plan.implementation import Implementation, Operand, Packing

_F32 = DType.F32
_VECTORS = 2
"""Vectors in a block of lanes."""
_MARGIN = 0.96
"""A kernel that rounds more must at least win so much."""
_SUM_CYCLES, _TURN_CYCLES, _COMBINE_CYCLES = 12, 10, 45
"""Cycles for a vector of every quarter: the sums of both factors, and the combined results."""


@dataclass(frozen=True)
class Product:
    """A task that is a matrix product by a constant, cut in halves.

    Attributes:
        parts: of the task.
        rows: the axis of the first factor's rows; depth: that of the sums; lanes: columns.
        image: the load of the first factor.
    """

    parts: Parts
    rows: Axis
    depth: Axis
    lanes: Axis
    image: Load

    @property
    def width(self) -> int:
        """Lanes in a block."""
        return _VECTORS * self.parts.task.target.lanes(_F32)

    @property
    def top(self) -> int:
        """Rows in the upper half."""
        return -(-self.rows.extent // 2)

    @property
    def bottom(self) -> int:
        """Rows in the lower half: as many, or one less."""
        return self.rows.extent // 2

    @property
    def half(self) -> int:
        """Terms of half a sum."""
        return self.depth.extent // 2

    @property
    def blocks(self) -> int:
        """Blocks of lanes in each half."""
        return self.lanes.extent // 2 // self.width


def recognise(task: Task) -> Product | None:
    """The matrix product that a task is, if it can be cut in halves."""
    parts = take_apart(task)
    if parts is None or parts.outer or parts.guards or not parts.weight:
        return None
    reduce, rows, lanes = parts.reduce, parts.tile, parts.lanes
    if reduce is None or rows is None or lanes is None or len(reduce.axes) != 1:
        return None
    depth = reduce.axes[0]
    match parts.value:
        case Binary("mul", Load() as lhs, Load() as rhs):
            image, weight = (lhs, rhs) if rhs.buffer == parts.weight else (rhs, lhs)
        case _:
            return None
    found = Product(parts, rows, depth, lanes, image)
    plain = sorted(map(repr, weight.index)) == sorted((repr(Var(depth.var)), repr(Var(lanes.var))))
    even = depth.extent % 2 == 0 and lanes.extent % (2 * found.width) == 0
    fits = reduce.op == "sum" and image.dtype is weight.dtype is _F32 and plain and even
    return found if fits and rows.extent > 1 and _side_by_side(found) else None


def _side_by_side(product: Product) -> bool:
    """Whether the first factor is indexed by rows and depth alone, terms lying in a run."""
    image = product.image
    if free_vars(image) != frozenset((product.rows.var, product.depth.var)):
        return False
    source = next(b for b in product.parts.task.inputs if b.name == image.buffer)
    step = 0
    for part, stride in zip(image.index, source.steps, strict=True):
        form = affine(part)
        if any(not isinstance(atom, Var) for atom in form.terms):
            return False
        step += form.terms.get(Var(product.depth.var), 0) * stride
    return step == 1


def cycles(product: Product) -> float:
    """About how many cycles it takes on one core."""
    lanes = product.parts.task.target.lanes(_F32)
    rows, depth, columns = product.top, product.half / lanes, product.lanes.extent / 2 / lanes
    multiply = 7 * rows * product.half * columns / 2
    sums = rows * depth * _SUM_CYCLES + product.half * columns * _TURN_CYCLES
    threads = product.parts.task.threads
    idle = -(-product.blocks // threads) * threads / product.blocks
    return (multiply + sums + rows * columns * _COMBINE_CYCLES) * idle


def propose(task: Task) -> tuple[Alternative, ...]:
    """Seven products of halves, where rounding more is allowed.

    Not among the generators: rows that are zero come out as the rounding errors of other
    rows, which networks that divide by norms (Swin v2's padded windows) make large.
    """
    if task.exact or not task.target.caches or task.target.lanes(_F32) == 1:
        return ()
    product = recognise(task)
    if product is None:
        return ()
    cost = cycles(product) / _MARGIN
    return (Alternative("strassen", cost, lambda: write(product)),)


def write(product: Product) -> Implementation:
    """The kernel."""
    return _Writer(product).implementation()


@dataclass
class _Cell(Cell):
    """A register tile that fetches something else beside its own work.

    Attributes:
        fetches: at every step of the sums.
    """

    fetches: tuple[Stmt, ...] = ()

    def prefetches(self, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """What is fetched, whatever the taps."""
        del taps
        return self.fetches


@dataclass
class _Writer:
    product: Product

    def __post_init__(self) -> None:
        product = self.product
        task = product.parts.task
        self.lane_count = task.target.lanes(_F32)
        # A little more than there is: what is used together must not share cache sets.
        self.sums = Buffer(
            "sums", _F32, (4, product.top + 1, product.half + self.lane_count), Access.LOCAL
        )
        self.turned = Buffer("turned", _F32, (4, product.half + 1, product.width), Access.LOCAL)
        self.products = Buffer("product", _F32, (7, product.top + 1, product.width), Access.LOCAL)

    def implementation(self) -> Implementation:
        product = self.product
        parts, task = product.parts, product.parts.task
        weight = next(b for b in task.inputs if b.name == parts.weight)
        others = tuple(b for b in task.inputs if b.name != parts.weight)
        axis = parts.weight_index().index(Var(product.lanes.var))
        blocks, width = 2 * product.blocks, product.width
        packing = Packing(weight.shape, axis, parts.weight_order(), 0, blocks, width)
        packed = Buffer(weight.name, _F32, (blocks, product.depth.extent, width))
        body = (Local(self.sums, (*self.sum_rows(), *self.blocks())),)
        kernel = Kernel(task.name, (*others, packed, task.output), body)
        operands = [Operand(task.value_of(buffer.name)) for buffer in others]
        operands.append(Operand(task.value_of(weight.name), packing))
        return Implementation(simplify_kernel(kernel), tuple(operands), "strassen")

    # --- the first factor -------------------------------------------------------------

    def quarter(self, down: int, right: int, row: Expr, term: Expr) -> Load:
        """An element of a quarter of the first factor."""
        product = self.product
        at = {
            product.rows.var: plus(row, down * product.top),
            product.depth.var: plus(term, right * product.half),
        }
        index = tuple(substitute(part, at) for part in product.image.index)
        return Load(product.image.buffer, index, _F32)

    def sum_rows(self) -> tuple[Stmt, ...]:
        """The sums of quarters of the first factor."""
        product = self.product
        row = Var("row")
        body = self.sum_row(row, True)
        if product.top > product.bottom:
            # In one loop with the others, or threads would wait for it.
            paired = Binary("lt", row, integer(product.bottom))
            body = (If(paired, body, self.sum_row(row, False)),)
        return (For("row", integer(0), integer(product.top), body, Kind.PARALLEL),)

    def sum_row(self, row: Expr, paired: bool) -> tuple[Stmt, ...]:
        """Those of a row, a vector at a time."""
        found: list[Stmt] = []
        for group in blocks_of(self.product.half, self.lane_count, 1):
            start: Expr = integer(group.start)
            if group.count > 1:
                start = plus(times(Var("slice"), group.width), group.start)
                inner = tuple(self.sum_vector(row, start, group.width, paired))
                found.append(For("slice", integer(0), integer(group.count), inner))
                continue
            for width in group.widths:
                found += self.sum_vector(row, start, width, paired)
                start = plus(start, width)
        return tuple(found)

    def sum_vector(self, row: Expr, first: Expr, width: int, paired: bool) -> list[Stmt]:
        term = plus(first, Var(LANE))
        a, b = self.quarter(0, 0, row, term), self.quarter(0, 1, row, term)
        values: tuple[Expr, ...] = (Const(0.0, _F32), Binary("sub", Const(0.0, _F32), a), a)
        values = (*values, Binary("add", b, a))
        if paired:
            c, d = self.quarter(1, 0, row, term), self.quarter(1, 1, row, term)
            lower = Binary("add", c, d)
            less = Binary("sub", lower, a)
            values = (lower, less, Binary("sub", a, c), Binary("sub", b, less))
        return [
            _vector(width, Store("sums", (integer(number), row, term), value))
            for number, value in enumerate(values)
        ]

    # --- blocks of lanes --------------------------------------------------------------

    def blocks(self) -> tuple[Stmt, ...]:
        """Everything else, block by block."""
        product = self.product
        block = Var("block") if product.blocks > 1 else integer(0)
        body: tuple[Stmt, ...] = (*self.turn(block), *self.multiply(block), *self.combine(block))
        body = (Local(self.turned, (Local(self.products, body),)),)
        if product.blocks == 1:
            return body
        return (For("block", integer(0), integer(product.blocks), body, Kind.PARALLEL),)

    def turn(self, block: Expr) -> tuple[Stmt, ...]:
        """The sums of quarters of the constant factor, for a block."""
        product = self.product
        name, right = str(product.parts.weight), plus(block, product.blocks)
        term, body = Var("point"), list[Stmt]()
        for start in range(0, product.width, self.lane_count):
            lane = plus(Var(LANE), start)
            e, g, f, h = (
                Load(name, (column, plus(term, down), lane), _F32)
                for column in (block, right)
                for down in (0, product.half)
            )
            upper = Binary("sub", f, e)
            both = Binary("sub", h, upper)
            values = (upper, both, Binary("sub", h, f), Binary("sub", both, g))
            body += [
                _vector(self.lane_count, Store("turned", (integer(number), term, lane), value))
                for number, value in enumerate(values)
            ]
        return (For("point", integer(0), integer(product.half), tuple(body)),)

    def multiply(self, block: Expr) -> tuple[Stmt, ...]:
        """The seven products of a block."""
        product = self.product
        top, bottom, half = product.top, product.bottom, product.half
        name, right = str(product.parts.weight), plus(block, product.blocks)
        row, term = Var("spot"), Var(product.depth.var)
        a, b = self.quarter(0, 0, row, term), self.quarter(0, 1, row, term)
        d = self.quarter(1, 1, row, term)
        sums = [Load("sums", (integer(number), row, term), _F32) for number in range(4)]
        turned = [(integer(number), "turned", 0) for number in range(4)]
        products = [
            (a, top, (block, name, 0)),
            (b, top, (block, name, half)),
            (sums[3], top, (right, name, half)),
            (d, bottom, turned[3]),
            *((sums[number], top, turned[number]) for number in range(3)),
        ]
        # What the next block begins with is fetched last, or it would be gone by then.
        fetched = [(column, down) for column in (block, right) for down in (0, half)]
        ahead = [(), (), (), *map(self.ahead, fetched)]
        return tuple(
            stmt
            for number, (left, rows, second) in enumerate(products)
            for stmt in self.one(number, left, rows, ahead[number], *second)
        )

    def one(
        self,
        place: int,
        left: Expr,
        rows: int,
        ahead: tuple[Stmt, ...],
        number: Expr,
        weight: str,
        shift: int,
    ) -> tuple[Stmt, ...]:
        """A product of halves: ``product[place][row][lane] = sum of left * weight[number]``."""
        product = self.product
        tile, lane = Axis("spot", rows), Axis("wide", product.width)
        right = Load("filter", (plus(Var(product.depth.var), shift), Var(lane.var)), _F32)
        value = Binary("mul", left, right)
        reduce = Reduce("sum", (Axis(product.depth.var, product.half),), value)
        task = replace(
            product.parts.task,
            compute=Compute((Axis("column", 7), tile, lane), reduce),
            inputs=(Buffer("filter", _F32, (product.depth.extent, product.width)),),
            output=self.products,
        )
        parts = Parts(task, reduce, value, (), lane, tile, (), "filter")
        positions, _ = tile_shape(parts, self.lane_count)
        block = Block(0, 1, (self.lane_count,) * _VECTORS)
        found: list[Stmt] = []
        for cut in tiles_of(rows, positions, (), {}, 1):
            origin = plus(times(Var("tile"), cut.size), cut.start)
            if cut.count == 1:
                origin = integer(cut.start)
            cell = _Cell(parts, block, integer(0), number, weight, origin, cut.size, fetches=ahead)
            stmts = substitute_stmts(cell.statements(), {"column": integer(place)})
            if cut.count == 1:
                found += stmts
            else:
                found.append(For("tile", integer(0), integer(cut.count), stmts))
        return tuple(found)

    def ahead(self, quarter: tuple[Expr, int]) -> tuple[Stmt, ...]:
        """Fetches a quarter of the constant for the next block, a row at every step."""
        product = self.product
        slab = product.half * product.width * _F32.bytes
        if not prefetches(product.parts.task.target, slab, 4 * slab * product.blocks):
            return ()
        number, down = quarter
        term = plus(Var(product.depth.var), down)
        index = (following(number, 2 * product.blocks), term)
        return tuple(
            Prefetch(str(product.parts.weight), (*index, integer(start)))
            for start in range(0, product.width, self.lane_count)
        )

    # --- results ----------------------------------------------------------------------

    def combine(self, block: Expr) -> tuple[Stmt, ...]:
        """All rows of a block and of its partner."""
        product = self.product
        first = times(block, product.width)
        body = self.results(first, Var("row"), True)
        found: tuple[Stmt, ...] = (For("row", integer(0), integer(product.bottom), body),)
        if product.top > product.bottom:
            found += self.results(first, integer(product.bottom), False)
        return found

    def results(self, first: Expr, row: Expr, paired: bool) -> tuple[Stmt, ...]:
        """Up to four pieces of rows."""
        found: list[Stmt] = []
        for start in range(0, self.product.width, self.lane_count):
            lane = plus(Var(LANE), start)
            p = [Load("product", (integer(number), row, lane), _F32) for number in range(7)]
            two = Binary("add", p[0], p[5])
            three = Binary("add", two, p[6])
            values = {
                (0, 0): Binary("add", p[0], p[1]),
                (0, 1): Binary("add", Binary("add", two, p[4]), p[2]),
            }
            if paired:
                values[1, 0] = Binary("sub", three, p[3])
                values[1, 1] = Binary("add", three, p[4])
            found += [
                self.result(value, down, right, row, plus(first, lane))
                for (down, right), value in values.items()
            ]
        return tuple(found)

    def result(self, value: Expr, down: int, right: int, row: Expr, lane: Expr) -> Stmt:
        """``out = epilogue(value)`` for the lanes of a vector."""
        product = self.product
        parts, task = product.parts, product.parts.task
        assert parts.reduce is not None
        at = {
            product.rows.var: plus(row, down * product.top),
            product.lanes.var: plus(lane, right * product.lanes.extent // 2),
        }
        done = substitute(replaced(task.compute.value, parts.reduce, Var("column")), at)
        done = replaced(done, Var("column"), value)
        index = tuple(at[axis.var] for axis in task.compute.axes)
        return _vector(self.lane_count, Store(task.output.name, index, done))


def _vector(width: int, store: Stmt) -> Stmt:
    """A store for all lanes of a vector."""
    return For(LANE, integer(0), integer(width), (store,), Kind.VECTOR)
