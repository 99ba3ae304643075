"""What is recognized between DequantizeLinear and QuantizeLinear, whatever its rounding will be.

Patterns name the quantized data ``x`` with the scale ``xs`` and the zero point ``xz``, weights
``w``, ``ws``, ``wz``, the layer ``c``, what is added to its products ``k``, an activation ``r``,
and the quantized output ``y`` with ``ys`` and ``yz``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Node
from weft.match.view import Match
from weft.ops.arithmetic import ClipAttributes
from weft.ops.build import GraphBuilder
from weft.ops.quantization import QuantizeAttributes, is_single
from weft.ops.shape import ReshapeAttributes
from weft.rewrite.rule import After, Exactness, Rule, Where

BYTES = (DType.I8, DType.U8)
BIAS_TOLERANCE = 1e-5
"""How far the scale of a bias may be from that of the products, relative: it is theirs, rounded."""

DATA = "DequantizeLinear(x, const xs, xz?)"
WEIGHTS = "DequantizeLinear(const w, const ws, wz?)"
REST = "const ys, yz?"
ACTIVATION = "(r: Relu | r: Clip)?"
CONV = f"""
    c = Conv({DATA}, {WEIGHTS}, _?) [users=1] | ConvChannelsLast({DATA}, {WEIGHTS}, _?) [users=1]
    y = QuantizeLinear(c -> {ACTIVATION}, {REST})
"""
PRODUCT = f"""
    c = MatMul({DATA}, {WEIGHTS}) [users=1] | Gemm({DATA}, {WEIGHTS}, _?) [users=1]
    y = QuantizeLinear(c -> {ACTIVATION}, {REST})
"""
PRODUCT_PLUS = f"""
    c = MatMul({DATA}, {WEIGHTS}) [users=1]
    a = Add{{c, k}} [users=1]
    y = QuantizeLinear(a -> {ACTIVATION}, {REST})
"""


# --- what stands in the way -------------------------------------------------------------------


def not_conv(match: Match) -> str | None:
    """Why a convolution (``CONV``) is not one of integers."""
    return layer_problem(match, 0)


def not_product(match: Match) -> str | None:
    """Why a matrix product (``PRODUCT``) is not one of integers."""
    product = match.node("c")
    if len(match.type("w").shape) != 2:
        return "the weights are no matrix"
    if not match.type("c").is_static or len(match.type("c").shape) < 2:
        return "the size of the product is not known"
    if product.op == "MatMul":
        return layer_problem(match, 1)
    given = product.attributes
    if given.transA or (given.alpha, given.beta) != (1, 1):
        return "the product is scaled or transposed"
    return layer_problem(match, 0 if given.transB else 1)


def layer_problem(match: Match, axis: int) -> str | None:
    """Why a layer, whose weights have their outputs along an axis, is not one of integers."""
    if problem := _types_problem(match):
        return problem
    quantize = match.attributes("y")
    if not (is_single(match.type("xs")) and is_single(match.type("ys"))):
        return "an activation has several scales"
    if quantize.block_size or quantize.precision not in (None, match.type("ys").dtype):
        return "the output is quantized in blocks or with another precision"
    scales = match.type("ws")
    maker = match.view.producers[match.node("c").inputs[1]]
    if not is_single(scales):
        given = maker.attributes
        if given.block_size or len(scales.shape) != 1:
            return "the weights are quantized in blocks"
        if given.axis % len(match.type("w").shape) != axis:
            return "the weights' scales are not one for each output"
    if any(match.type(name).dtype is not DType.F32 for name in ("xs", "ws", "ys")):
        return "a scale is not f32"
    return zeros_problem(match, "xz", "wz", "yz") or _bias_problem(match)


def _types_problem(match: Match) -> str | None:
    x, w = (match.type(name).dtype for name in ("x", "w"))
    if x is DType.I16:
        if (w, target(match)) != (DType.I8, DType.I16):
            return "its weights are not i8, or its output is not i16"
        names = [name for name in ("xz", "wz", "yz") if match.has(name)]
        known = [match.constant(name) for name in names]
        return "a zero point is not 0" if any(z is None or z.any() for z in known) else None
    if x not in BYTES or w not in BYTES:
        return "it is not in 8 bits"
    return None if target(match) in BYTES else "its output is not in 8 bits"


def zeros_problem(match: Match, *names: str) -> str | None:
    """Why zero points of these names are not known."""
    given = (name for name in names if match.has(name))
    return next(("a zero point is no constant" for z in given if match.constant(z) is None), None)


def target(match: Match) -> DType:
    """The type of the quantized output."""
    return match.type("y").dtype


def bias(match: Match) -> str:
    """The value that is added to the products; empty for none."""
    if match.has("k"):
        return match["k"]
    layer = match.node("c")
    return layer.inputs[2] if len(layer.inputs) > 2 else ""


def bias_maker(match: Match) -> Node | None:
    """What dequantizes the bias, if there is one."""
    return match.view.producers.get(bias(match))


def _bias_problem(match: Match) -> str | None:
    if not bias(match):
        return None
    if match.has("k") and len(match.node("c").inputs) > 2 and match.node("c").inputs[2]:
        return "two numbers are added"
    maker = bias_maker(match)
    if maker is None or maker.op != "DequantizeLinear":
        return "the bias is not quantized"
    whole, scale, *zero = maker.inputs
    constants = match.view.constants
    if whole not in constants or scale not in constants:
        return "the bias is no constant"
    allowed = (np.int32, np.int64) if match.type("x").dtype is DType.I16 else (np.int32,)
    if constants[whole].dtype not in allowed or constants[whole].ndim != 1:
        return "the bias is not one i32 for each output"
    if any(name and constants.get(name, np.ones(1)).any() for name in zero):
        return "the bias has a zero point"
    products = match.array("xs").reshape(-1) * match.array("ws").reshape(-1)
    if not np.allclose(constants[scale].reshape(-1), products, rtol=BIAS_TOLERANCE, atol=0):
        return "the bias has a scale of its own"
    return None


# --- numbers in steps --------------------------------------------------------------------------


def zero_of(match: Match, name: str) -> int:
    """A zero point, 0 where none is given."""
    return int(match.array(name).item()) if match.has(name) else 0


def scale_of(match: Match, name: str) -> np.float32:
    """A single scale."""
    return np.float32(match.array(name).item())


def product_weights(match: Match) -> np.ndarray:
    """The weights of a matrix product, ``[columns, depth]``."""
    weights = match.array("w")
    layer = match.node("c")
    transposed = layer.op != "MatMul" and layer.attributes.transB
    return np.ascontiguousarray(weights if transposed else weights.T)


Steps = Callable[[float, np.float32], float]


def product_as_conv(match: Match, builder: GraphBuilder, conv: Callable[[str, str], str]) -> str:
    """A product of rows with a matrix, as a convolution of images of one pixel.

    Args:
        match: of ``PRODUCT`` or ``PRODUCT_PLUS``.
        builder: of the new nodes.
        conv: the convolution of images and filters.
    """
    weights, dims = product_weights(match), match.type("c").dims
    columns, depth = weights.shape
    image = builder.op("Reshape", match["x"], attributes=ReshapeAttributes((-1, depth, 1, 1)))
    made = conv(image, builder.constant(weights.reshape(columns, depth, 1, 1), match["w"]))
    return builder.op("Reshape", made, attributes=ReshapeAttributes((*dims[:-1], columns)))


def bounds(match: Match, steps: Steps) -> tuple[int, int]:
    """What an activation leaves of quantized outputs, the limits of their type at most.

    Args:
        match: the layer, whose activation is ``r`` if it has one.
        steps: a number in whole steps of a scale: rounding never changes the order, so bounds may
            be rounded, too.
    """
    limits = target(match).limits
    if "r" not in match.named:
        return limits
    found = match.node("r")
    ends = (0.0, None) if found.op == "Relu" else (found.attributes.min, found.attributes.max)
    scale, zero = scale_of(match, "ys"), zero_of(match, "yz")
    low, high = (
        limit if end is None else int(np.clip(steps(end, scale) + zero, *limits))
        for end, limit in zip(ends, limits, strict=True)
    )
    return low, high


def bounded(match: Match, builder: GraphBuilder, value: str, steps: Steps) -> str:
    """A quantized value held within the bounds; itself where saturation does as much."""
    low, high = bounds(match, steps)
    if (low, high) == target(match).limits:
        return value
    return builder.op("Clip", value, attributes=ClipAttributes(low, high))


# --- what moves elements ----------------------------------------------------------------------


def other_scale(match: Match) -> str | None:
    """Why the output does not have the scale and zero point of the data."""
    given = match.attributes("y")
    if not isinstance(given, QuantizeAttributes) or match.type("x").dtype is not target(match):
        return "it is quantized to another type"
    if not (is_single(match.type("xs")) and is_single(match.type("ys"))):
        return "there are several scales"
    if match.array("xs").reshape(()) != match.array("ys").reshape(()):
        return "it is quantized by another scale"
    if problem := zeros_problem(match, "xz", "yz"):
        return problem
    same = zero_of(match, "xz") == zero_of(match, "yz")
    return None if same else "it is quantized to another zero point"


def _moved(match: Match, builder: GraphBuilder) -> str:
    mover = match.node("v")
    return builder.op(mover.op, match["x"], *mover.inputs[1:], attributes=mover.attributes)


MOVES: tuple[Rule, ...] = (
    Rule(
        name="quantized-move",
        before=f"""
            v = Reshape(d) [users=1] | Flatten(d) [users=1] | Transpose(d) [users=1]
              | Squeeze(d) [users=1] | Unsqueeze(d) [users=1] | Slice(d) [users=1]
              | MaxPool(d) [users=1] | MaxPoolChannelsLast(d) [users=1]
            d = {DATA}
            y = QuantizeLinear(v, {REST})
        """,
        where=other_scale,
        after=_moved,
        exactness=Exactness.BIT_EXACT,
        doc="What only moves elements, or takes the largest, between DequantizeLinear and "
        "QuantizeLinear of the same scale does so to the integers.",
    ),
    Rule(
        name="requantize-nothing",
        before=f"y = QuantizeLinear({DATA}, {REST})",
        where=other_scale,
        after=lambda match, _: match["x"],
        exactness=Exactness.BIT_EXACT,
        doc="QuantizeLinear after DequantizeLinear of the same scale gives the integers again.",
    ),
)


def layer_rules(
    prefix: str, conv: tuple[Where, After], product: tuple[Where, After], doc: str
) -> tuple[Rule, ...]:
    """The rules of one rounding for convolutions and matrix products.

    Args:
        prefix: of their names.
        conv: why a convolution (``CONV``) is left alone, and what becomes of it.
        product: the same of a matrix product (``PRODUCT``, ``PRODUCT_PLUS``).
        doc: what the descriptions say after the name of the layer.
    """
    rows = (
        ("conv", CONV, conv, "A convolution"),
        ("matmul", PRODUCT, product, "A matrix product"),
        ("matmul-add", PRODUCT_PLUS, product, "A matrix product plus a bias"),
    )
    return tuple(
        Rule(
            name=f"{prefix}-{name}",
            before=before,
            where=where,
            after=after,
            exactness=Exactness.APPROXIMATE,
            doc=f"{layer}{doc}",
        )
        for name, before, (where, after), layer in rows
    )
