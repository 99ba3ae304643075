"""Products of a matrix and a vector whose weights come from memory: in fewer bits.

Every weight is used once, so such a product takes as long as memory takes to bring the
weights: fewer bytes are faster, as long as taking them apart is (``weft.plan.fewer_bits`` says
how eight weights become seven words)::

    for block of lanes:
      acc[lane] = 0
      for group of eight weights:
        for row of seven:
          acc[lane] += x[row] * weight(word[row][lane])
          rest[lane] = rest[lane] >> 4 | word[row][lane] & SPARE
        acc[lane] += x[8th] * weight(rest[lane])
      for chunk of fixes:   acc[lane] += x[place[chunk][lane]] * change[chunk][lane]
      out[lane] = epilogue(acc[lane])

Weights are what they were, and the sum has the order that it has in other loops: without fixes
it is the same to the last bit.  A weight ``w`` outside of the window is the sum of the window's
least number and of a change, which is rounded: by less than ``2 ** -39`` of the largest weight,
where the sum's own rounding is ``2 ** -24`` of its largest terms.  Where ``x`` is infinite, it
may be NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.microkernel import Microkernel
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of, slender
from weft.kernels.writer import LANE, for_range, integer, plus, times, with_locals
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Bits,
    Buffer,
    Cast,
    Const,
    Expr,
    Kernel,
    Load,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import free_vars, substitute
from weft.plan.fewer_bits import (
    FRACTION,
    GROUP,
    KEPT,
    SIGN,
    SIZE,
    SPARE,
    EncodedPart,
    EncodedWindow,
    FewerBits,
    window_of,
    word_rows,
)
from weft.plan.implementation import Implementation, Operand

FIXES = 256
"""At most one weight of a lane in so many is outside of the window: each costs as much time as
many others save."""
OPERATIONS = 5
"""On a vector of weights, besides loading it: two that make it, one that uses it, and two that
collect what the eighth of a group is made of."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix by a vector.

    Attributes:
        parts: of the task.
        axis: of the sum.
        scale: what the weight is multiplied by.
        window: of the weights' exponents.
    """

    parts: Contraction
    axis: Axis
    scale: Expr
    window: EncodedWindow


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """Vectors of weights in fewer bits."""
    product = product_of(task)
    if isinstance(product, Refusal):
        return product
    sums = Sums("packed") if product.window.most else Sums("tiled", (1,))
    usual = usual_vectors(product)
    return tuple(
        Alternative(
            f"packed-1x{vectors}",
            cost(product, vectors, usual),
            sums,
            partial(write, product, vectors),
            always,
        )
        for vectors in sorted({usual, max(1, usual // 2)}, reverse=True)
    )


def product_of(task: Task) -> Product | Refusal:
    """The product that a task is, or why these loops do not compute it."""
    return task.fact(_recognized)


def _recognized(task: Task) -> Product | Refusal:
    target = task.target
    if not target.caches or target.lanes(DType.F32) == 1 or not target.fused:
        return Refusal("the target lacks caches, vectors, or what multiplies and adds at once")
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    found = _plain(parts)
    if found is None:
        return Refusal("it is no product of a constant f32 matrix and one vector")
    axis, scale, dimension = found
    array = task.arrays.get(parts.weight or "")
    if array is None:
        return Refusal("the weights are not known yet")
    if axis.extent < GROUP:
        return Refusal(f"the sums have fewer than {GROUP} terms")
    shape = next(each.shape for each in task.inputs if each.name == parts.weight)
    window = window_of(array, shape, dimension)
    if window is None:
        return Refusal("the weights are all zero, or some are not finite")
    if window.most * FIXES > axis.extent:
        return Refusal(
            f"up to {window.most} of {axis.extent} weights of a sum are too small beside the "
            "largest of all"
        )
    if window.most and task.exact:
        return Refusal("some weights are the sums of two numbers, and exact kernels were asked for")
    return Product(parts, axis, scale, window)


def _plain(parts: Contraction) -> tuple[Axis, Expr, int] | None:
    """The sum's axis, what weights are multiplied by, and the dimension of the lanes."""
    reduce, lanes, value = parts.reduce, parts.lanes, parts.value
    if reduce is None or lanes is None or parts.weight is None or parts.tile or parts.guards:
        return None
    if reduce.op != "sum" or len(reduce.axes) != 1:
        return None
    (axis,) = reduce.axes
    index = parts.weight_index()
    if sorted(index, key=repr) != sorted((Var(axis.var), Var(lanes.var)), key=repr):
        return None
    match value:
        case Binary("mul", Load(parts.weight, _, DType.F32), scale):
            pass
        case Binary("mul", scale, Load(parts.weight, _, DType.F32)):
            pass
        case _:
            return None
    alone = lanes.var not in free_vars(scale)
    return (axis, scale, index.index(Var(lanes.var))) if alone else None


def usual_vectors(product: Product) -> int:
    """Vectors of a block: a sum and a rest of each stay in registers."""
    target = product.parts.task.target
    count = product.parts.lane_extent // target.lanes(DType.F32)
    return max(1, min(count, (target.registers - 8) // 3))


def cost(product: Product, vectors: int, usual: int) -> float:
    """About how many cycles it takes on one core.

    Beside other loops, which are estimated by their multiply-adds, what comes from memory
    counts as what is left of these.
    """
    parts = product.parts
    target = parts.task.target
    lanes = target.lanes(DType.F32)
    weights = product.axis.extent * parts.lane_extent
    size = weights * DType.F32.bytes * (GROUP - 1) / GROUP
    # A core's share of a shared cache is less, and other layers' weights were there since.
    if size >= target.cached:
        return (
            weights
            / lanes
            / target.multiply_adds
            * (GROUP - 1)
            / GROUP
            * (1 if vectors == usual else 1.01)
        )
    steps = weights / lanes * OPERATIONS / target.operations
    return max(steps, size / target.memory) * (1 if vectors == usual else 1.01)


def write(product: Product, vectors: int) -> Implementation:
    """The kernel."""
    return _Writer(product, vectors).implementation()


def word(value: int) -> Const:
    """A word that is the same for all lanes."""
    return Const(value, DType.U32)


@dataclass
class _Writer:
    """Writes the loops of one product."""

    product: Product
    vectors: int
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])

    def implementation(self) -> Implementation:
        parts = self.product.parts
        task = parts.task
        for buffer in task.inputs:
            if buffer.name != parts.weight:
                self.params.append(buffer)
                self.operands.append(Operand(task.value_of(buffer.name)))
        lanes = task.target.lanes(DType.F32)
        blocks = blocks_of(parts.lane_extent, lanes, self.vectors)
        body = [self.block(block) for block in slender(blocks, self.vectors)]
        params = (*self.params, task.output)
        kernel = simplify_kernel(Kernel(task.name, params, tuple(body)))
        return Implementation(kernel, tuple(self.operands), f"packed-1x{self.vectors}")

    def pack(self, block: LaneBlock, part: EncodedPart, rows: int, dtype: DType) -> Buffer:
        """A parameter made of the weights of a block."""
        parts = self.product.parts
        weight = next(each for each in parts.task.inputs if each.name == parts.weight)
        buffer = Buffer(f"{part.value}_{len(self.params)}", dtype, (block.count, rows, block.width))
        lanes = parts.lanes
        assert lanes
        height, width = weight.shape
        packing = FewerBits(
            (height, width),
            parts.weight_index().index(Var(lanes.var)),
            block.start,
            block.count,
            block.width,
            self.product.window,
            part,
        )
        self.params.append(buffer)
        self.operands.append(Operand(parts.task.value_of(weight.name), packing))
        return buffer

    def block(self, block: LaneBlock) -> Stmt:
        """All outputs of blocks of some lanes."""
        rows, most = self.product.axis.extent, self.product.window.most
        number = Var("block")
        first = plus(times(number, block.width), block.start)
        words = self.pack(block, EncodedPart.WORDS, word_rows(rows), DType.U32)
        loops = _Block(
            self.product,
            block,
            number,
            words,
            Microkernel(self.product.parts, block, first, number, "", None, 1),
        )
        fixes: tuple[Stmt, ...] = ()
        if most:
            places = self.pack(block, EncodedPart.PLACES, most, DType.U32)
            changes = self.pack(block, EncodedPart.CHANGES, most, DType.F32)
            fixes = (loops.fixes(places, changes),)
        body = (*loops.cell.starts(), loops.groups(), *loops.left(), *fixes, *loops.cell.stores())
        body = with_locals(loops.cell.accumulators(), body)
        return for_range("block", block.count, body, LoopKind.PARALLEL)


@dataclass(frozen=True, slots=True)
class _Block:
    """The loops of one block of lanes.

    Attributes:
        product: what is computed.
        block: its lanes; number: the variable that counts the blocks.
        words: the packed weights.
        cell: for what is the same as in other tiles.
    """

    product: Product
    block: LaneBlock
    number: Expr
    words: Buffer
    cell: Microkernel

    @property
    def whole(self) -> int:
        """How many groups there are."""
        return self.product.axis.extent // GROUP

    def groups(self) -> Stmt:
        """The loop over groups of eight weights."""
        body: list[Stmt] = []
        for piece, _, width in self.block.pieces():
            clear = Store(f"rest{piece}", (Var(LANE),), word(0))
            body.append(self.cell.vector(width, clear))
        body.append(for_range("row", GROUP - 1, self.row()))
        for piece, _, width in self.block.pieces():
            rest = self.rest(piece)
            sign = Binary("and", Binary("shl", rest, word(1)), word(SIGN))
            size = Binary("and", Binary("shr", rest, word(3)), word(SIZE))
            last = self.weight(Binary("or", sign, size))
            at = plus(times(Var("group"), GROUP), GROUP - 1)
            body.append(self.add(piece, width, at, last))
        rests = [
            Buffer(f"rest{piece}", DType.U32, (width,), Access.LOCAL)
            for piece, _, width in self.block.pieces()
        ]
        return for_range("group", self.whole, with_locals(rests[::-1], tuple(body)))

    def row(self) -> tuple[Stmt, ...]:
        """One row of words: a weight of each lane, and a part of the group's last one."""
        found = self.fetches()
        row = plus(times(Var("group"), GROUP - 1), Var("row"))
        at = plus(times(Var("group"), GROUP), Var("row"))
        for piece, offset, width in self.block.pieces():
            words = self.words_of(row, offset)
            found.append(self.add(piece, width, at, self.weight(Binary("and", words, word(KEPT)))))
            shifted = Binary("shr", self.rest(piece), word(4))
            rest = Binary("or", shifted, Binary("and", words, word(SPARE)))
            found.append(self.cell.vector(width, Store(f"rest{piece}", (Var(LANE),), rest)))
        return tuple(found)

    def left(self) -> tuple[Stmt, ...]:
        """What is left over of the axis, in words of its own."""
        found: list[Stmt] = []
        for row in range(self.whole * GROUP, self.product.axis.extent):
            for piece, offset, width in self.block.pieces():
                words = self.words_of(integer(row - self.whole), offset)
                found.append(self.add(piece, width, integer(row), Bits(DType.F32, words)))
        return tuple(found)

    def fixes(self, places: Buffer, changes: Buffer) -> Stmt:
        """The loop over the weights outside of the window."""
        body: list[Stmt] = []
        last = Const(self.product.axis.extent - 1, DType.U32)
        for piece, offset, width in self.block.pieces():
            at = (self.number, Var("chunk"), plus(integer(offset), Var(LANE)))
            place = Binary("min", Load(places.name, at, DType.U32), last)
            change = Load(changes.name, at, DType.F32)
            body.append(self.add(piece, width, Cast(DType.I64, place), change))
        return for_range("chunk", places.shape[1], tuple(body))

    def words_of(self, row: Expr, offset: int) -> Expr:
        """The words of a row for a vector."""
        at = (self.number, row, plus(integer(offset), Var(LANE)))
        return Load(self.words.name, at, DType.U32)

    def rest(self, piece: int) -> Expr:
        """What was collected of the last weights of a group."""
        return Load(f"rest{piece}", (Var(LANE),), DType.U32)

    def weight(self, code: Expr) -> Expr:
        """The weights whose parts are at their places, exponents from zero."""
        first = word(self.product.window.first << FRACTION)
        return Bits(DType.F32, Binary("add", code, first))

    def add(self, piece: int, width: int, row: Expr, weight: Expr) -> Stmt:
        """``acc = acc + x * weight``."""
        at = (integer(0), Var(LANE))
        scale = substitute(self.product.scale, {self.product.axis.var: row})
        total = Load(f"acc{piece}", at, DType.F32)
        sum = Binary("add", total, Binary("mul", scale, weight))
        return self.cell.vector(width, Store(f"acc{piece}", at, sum))

    def fetches(self) -> list[Stmt]:
        """Hints for the words that come some groups later."""
        target = self.product.parts.task.target
        size = self.block.width * DType.U32.bytes
        far = max(1, round(target.costs.ahead / (size * (GROUP - 1))))
        if self.whole <= far:
            return []
        later = Binary("min", plus(Var("group"), far), integer(self.whole - 1))
        at = plus(times(later, GROUP - 1), Var("row"))
        step = target.line // DType.U32.bytes
        return [
            Prefetch(self.words.name, (self.number, at, integer(lane)))
            for lane in range(0, self.block.width, step)
        ]


GENERATOR = Generator(
    "packed",
    "Products of a matrix and one vector, as fast as memory brings the weights: in 28 "
    "bits, nothing lost, and taken apart in registers.",
    (
        "a sum of products of one f32 vector and a constant f32 matrix",
        "weights that are finite and not all zero; at most one of a sum in 256 is "
        "smaller than 2^-15 of the largest of all, and none where exact kernels are asked for",
        "at least eight terms in a sum",
        "the target has caches, vectors, and multiplies and adds at once",
    ),
    propose,
    any_threads=True,
)
