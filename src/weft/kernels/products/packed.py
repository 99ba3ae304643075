"""Products of a constant matrix and a vector, with encoded weights.

Every weight is used once, so where the weights come from memory such a product takes as long
as memory takes to bring them: fewer bytes are faster, as long as decoding them is.  Encodings
(``weft.kernels.encodings``) that are lossless are alternatives beside other loops, by cost.
Where the user asks for an encoding, it is taken wherever it applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import partial

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.encodings.known import ENCODINGS, EncodingRow
from weft.kernels.encodings.reading import EncodedBlock, Encoding
from weft.kernels.generator import Generator
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.products.tiled_choice import rate
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import FEW_REGISTERS, LaneBlock, blocks_of, in_streams, slender, streams_of
from weft.kernels.watched import found_of
from weft.kernels.writer import for_range, plus, times, with_locals
from weft.loops.nodes import Axis, Binary, Buffer, Expr, Kernel, Load, LoopKind, Stmt, Var
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import free_vars
from weft.plan.implementation import Encoded, Implementation, Operand, Packing
from weft.records import dataclass

_COMPACT = 0.5
"""Encodings of at most this share of the bytes also pay off in a shared cache."""


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix by a vector.

    Attributes:
        parts: of the task.
        axis: of the sum.
        scale: what the weight is multiplied by.
        dimension: of the weight that the lanes are.
    """

    parts: Contraction
    axis: Axis
    scale: Expr
    dimension: int


@dataclass(frozen=True, slots=True)
class EncodedProduct:
    """A product with its weights in an encoding, of a row of the table."""

    product: Product
    row: EncodingRow
    encoding: Encoding


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """Encoded weights, in blocks of as many vectors as registers hold, or half as many."""
    found = encoded_products(task)
    if isinstance(found, Refusal):
        return found
    return tuple(each for one in found for each in _alternatives(one))


def _alternatives(made: EncodedProduct) -> Iterator[Alternative]:
    sums = Sums("tiled", (1,)) if made.encoding.in_order else Sums(f"packed{made.row.label}")
    usual = usual_vectors(made)
    for vectors in sorted({usual, max(_least(made), usual // 2)}, reverse=True):
        yield Alternative(
            _name(made, vectors),
            cost(made, vectors, usual),
            sums,
            partial(write, made, vectors),
            always,
        )


def _name(made: EncodedProduct, vectors: int) -> str:
    several = streams(made, vectors)
    return f"packed{made.row.label}-1x{vectors}" + (f"-in{several}" if several > 1 else "")


def encoded_products(task: Task) -> tuple[EncodedProduct, ...] | Refusal:
    """The product that a task is in each encoding that applies, or why none does."""
    return task.fact(_encoded)


def _encoded(task: Task) -> tuple[EncodedProduct, ...] | Refusal:
    product = _recognized(task)
    if isinstance(product, Refusal):
        return product
    parts = product.parts
    if parts.weight is None or parts.weight not in task.arrays:
        return Refusal("the weights are not known yet")
    shape = next(each.shape for each in task.inputs if each.name == parts.weight)
    found: list[EncodedProduct] = []
    reasons: list[Refusal] = []
    for row in ENCODINGS:
        if task.encoding not in ("", row.name):
            continue
        made = found_of(task, parts.weight, row.fit, shape, product.dimension, bool(task.encoding))
        if isinstance(made, Refusal):
            reasons.append(made)
        elif task.exact and not (made.exact and made.in_order):
            reasons.append(
                Refusal(f"{row.name} changes the rounding, and exact kernels were requested")
            )
        else:
            found.append(EncodedProduct(product, row, made.for_target(task.target)))
    return tuple(found) or reasons[0]


def _recognized(task: Task) -> Product | Refusal:
    target = task.target
    slow = not target.caches or target.lanes(DType.F32) == 1 or not target.fused
    if slow and not task.encoding:
        return Refusal("the target lacks caches, vectors, or what multiplies and adds at once")
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    return _plain(parts) or Refusal("it is no product of a constant f32 matrix and one vector")


def _plain(parts: Contraction) -> Product | None:
    """The product, if nothing else is reduced."""
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
    return Product(parts, axis, scale, index.index(Var(lanes.var))) if alone else None


def usual_vectors(made: EncodedProduct) -> int:
    """Vectors of a block: what decoding them takes stays in registers.

    Where these are few, some of it does not: `int8` with four vectors was 1.6 times as fast as with
    two on a Zen 3, `float28` 1.2 times, others as fast.
    """
    parts = made.product.parts
    target = parts.task.target
    count = parts.lane_extent // target.lanes(DType.F32)
    others = 4 if target.registers <= FEW_REGISTERS else 8
    return max(_least(made), min(count, (target.registers - others) // made.encoding.registers))


def streams(made: EncodedProduct, vectors: int) -> int:
    """In how many streams a block of weights is read.

    With more registers, where that was not measured, weights are fetched ahead.
    """
    parts, least = made.product.parts, _least(made)
    if parts.task.target.registers > FEW_REGISTERS or vectors % least:
        return 1
    size = made.product.axis.extent * parts.lane_extent * made.encoding.bits / 8
    return streams_of(parts.task.target, int(size), vectors // least)


def _least(made: EncodedProduct) -> int:
    """Vectors of a block: where they share bytes in pairs, two."""
    return 2 if made.encoding.bits < 8 * DType.U8.bytes else 1


def cost(made: EncodedProduct, vectors: int, usual: int) -> float:
    """About how many cycles it takes on one core.

    Beside other loops, which are estimated by their multiply-adds, what comes from memory
    counts as what is left of these.
    """
    product, encoding = made.product, made.encoding
    target = product.parts.task.target
    lanes = target.lanes(DType.F32)
    weights = product.axis.extent * product.parts.lane_extent
    share = encoding.bits / (8 * DType.F32.bytes)
    size = weights * DType.F32.bytes * share
    form = 1 if vectors == usual else 1.01
    if not target.caches:
        return weights / lanes * encoding.operations(target) / target.operations * form
    # A core's share of a shared cache is less, and other layers' weights were there since.
    steps = weights / lanes * encoding.operations(target) / target.operations
    whole = weights * DType.F32.bytes
    if size >= target.cached or (share <= _COMPACT and whole > target.caches[-1]):
        taken = max(steps, size / rate(size, target))
        return weights / lanes / target.multiply_adds * taken * rate(whole, target) / whole * form
    return max(steps, size / target.memory) * form


def write(made: EncodedProduct, vectors: int) -> Implementation:
    """The kernel."""
    return _Writer(made, vectors).implementation()


@dataclass
class _Writer:
    """Writes the loops of one product."""

    made: EncodedProduct
    vectors: int
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])

    def implementation(self) -> Implementation:
        parts = self.made.product.parts
        task = parts.task
        for buffer in task.inputs:
            if buffer.name != parts.weight:
                self.params.append(buffer)
                self.operands.append(Operand(task.value_of(buffer.name)))
        lanes = task.target.lanes(DType.F32)
        blocks = slender(blocks_of(parts.lane_extent, lanes, self.vectors), self.vectors)
        body = [
            self.block(in_streams(block, streams(self.made, len(block.widths)))) for block in blocks
        ]
        params = (*self.params, task.output)
        kernel = simplify_kernel(Kernel(task.name, params, tuple(body)))
        return Implementation(kernel, tuple(self.operands), _name(self.made, self.vectors))

    def store(self, block: LaneBlock) -> dict[str, Buffer]:
        """Parameters for what is stored of a block's weights."""
        product, encoding = self.made.product, self.made.encoding
        task = product.parts.task
        weight = next(each for each in task.inputs if each.name == product.parts.weight)
        axis = product.dimension
        count, width = block.count * block.streams, block.width // block.streams
        widths = block.widths[: len(block.widths) // block.streams]
        packing = Packing(weight.shape, axis, (1 - axis,), block.start, count, width)
        found: dict[str, Buffer] = {}
        for part in encoding.parts(packing, widths):
            buffer = Buffer(f"{part.name}_{len(self.params)}", part.dtype, part.shape)
            found[part.name] = buffer
            packed = Encoded(encoding, part.name, packing, widths)
            self.params.append(buffer)
            self.operands.append(Operand(task.value_of(weight.name), packed))
        return found

    def block(self, block: LaneBlock) -> Stmt:
        """All outputs of blocks of some lanes."""
        product = self.made.product
        number = Var("block")
        first = plus(times(number, block.width), block.start)
        cell = Microkernel(product.parts, block, first, number, "", None, 1)
        reader = EncodedBlock(
            block,
            number,
            product.axis.extent,
            product.axis.var,
            product.scale,
            product.parts.task.target,
            self.store(block),
        )
        body = (*cell.starts(), *self.made.encoding.read(reader), *cell.stores())
        body = with_locals(cell.accumulators(), body)
        return for_range("block", block.count, body, LoopKind.PARALLEL)


GENERATOR = Generator(
    "packed",
    "Products of a matrix and one vector with encoded weights, decoded in registers: in 28 bits "
    "a weight, nothing lost, as fast as memory brings them; or in the encoding asked for.",
    (
        "a sum of products of one f32 vector and a constant f32 matrix",
        "an encoding that applies, lossless if none is asked for: in 28 bits weights that are "
        "finite and not all zero, at least eight in a sum, at most one in 256 of which is smaller "
        "than 2^-15 of the largest of all, and none where exact kernels are asked for; as a "
        "palette at most 256 distinct values; as codes, weights that are integers times a scale of "
        "their group, unless exact kernels are requested",
        "if no encoding is asked for, the target has caches, vectors, and multiplies and adds at "
        "once",
    ),
    propose,
    any_threads=True,
)
