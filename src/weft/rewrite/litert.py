"""Quantized layers in fixed point, with the bits of LiteRT's reference kernels.

Multipliers and shifts are computed from the scales as LiteRT does when it prepares a model: in
doubles, except that fully connected layers and those of ``u8`` first multiply two scales in
``f32``.
"""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.channels_last import LAST
from weft.ops.convolution import ConvAttributes
from weft.ops.fixed_point import FixedPointAddAttributes, FixedPointSoftmaxAttributes
from weft.ops.gemmlowp import DIFFERENCE_BITS, softmax_table
from weft.ops.pooling import PoolAttributes
from weft.ops.quantization import is_single
from weft.ops.requantization import fixed_point
from weft.rewrite import litert_int16, litert_resize, litert_values, quantized_moves
from weft.rewrite.byte_tables import AS_LITERT
from weft.rewrite.dequantized import (
    ACTIVATION,
    DATA,
    MOVES,
    REST,
    WEIGHTS,
    bias_maker,
    bounded,
    layer_problem,
    layer_rules,
    not_conv,
    not_product,
    other_scale,
    product_as_conv,
    scale_of,
    target,
    zero_of,
)
from weft.rewrite.fixed_point import (
    LEFT_SHIFT,
    centred,
    not_fixed,
    not_rescaled,
    requantized,
    rescaled,
    steps,
)
from weft.rewrite.litert_int16 import (
    int16_conv,
    int16_softmax,
    int16_transposed,
    is_int16,
    not_int16_softmax,
)
from weft.rewrite.rule import Exactness, Rule

_ADDED = "DequantizeLinear(b, const bs, bz?)"
# --- convolutions and products ------------------------------------------------------------------


def _factors(match: Match, *, narrow: bool) -> np.ndarray:
    """What sums are multiplied by: one factor, or one for each channel."""
    x, w, y = (np.asarray(match.array(name)).reshape(-1) for name in ("xs", "ws", "ys"))
    if narrow:
        return (x * w).astype(np.float64) / y.astype(np.float64)
    return x.astype(np.float64) * w.astype(np.float64) / y.astype(np.float64)


def _sum(
    match: Match, builder: GraphBuilder, op: str, x: str, w: str, attributes: ConvAttributes
) -> str:
    """The sum of products and the bias, ``i32``."""
    zeros = [match[name] if match.has(name) else "" for name in ("xz", "wz")]
    while zeros and not zeros[-1]:
        zeros.pop()
    layer = match.node("c")
    wish = {"name": f"{layer.name}_sums", "output": f"{layer.outputs[0]}_sums"}
    made = builder.op(op, x, w, *zeros, attributes=attributes, **wish)
    maker = bias_maker(match)
    if maker is None:
        return made
    bias = match.view.constants[maker.inputs[0]]
    if op not in LAST.values():
        rank = len(builder.types[made].shape)
        bias = bias.reshape(-1, *(1,) * (rank - 2))
    given = builder.constant(bias, maker.inputs[0])
    return builder.op("Add", made, given, name=f"{layer.name}_biased")


def _conv(match: Match, builder: GraphBuilder) -> str:
    layer = match.node("c")
    if is_int16(match):
        return int16_conv(
            match, builder, match["x"], match["w"], layer.attributes, _factors(match, narrow=False)
        )
    op = layer.op.replace("Conv", "ConvInteger")
    sums = _sum(match, builder, op, match["x"], match["w"], layer.attributes)
    factors = _factors(match, narrow=match.type("x").dtype is DType.U8)
    return requantized(match, builder, sums, factors, -1 if op in LAST.values() else 1)


def _product(match: Match, builder: GraphBuilder) -> str:
    factors = _factors(match, narrow=is_single(match.type("ws")))

    def conv(image: str, kernel: str) -> str:
        plain = ConvAttributes()
        if is_int16(match):
            return int16_conv(match, builder, image, kernel, plain, factors, last=False)
        sums = _sum(match, builder, "ConvInteger", image, kernel, plain)
        return requantized(match, builder, sums, factors, 1)

    return product_as_conv(match, builder, conv)


def _not_transposed(match: Match) -> str | None:
    if match.attributes("c").groups != 1:
        return "it has several groups"
    return layer_problem(match, 1)


def _transposed(match: Match, builder: GraphBuilder) -> str:
    """A transposed convolution in ``i32``, less zero points."""
    layer = match.node("c")
    if is_int16(match):
        return int16_transposed(match, builder, _factors(match, narrow=False))
    x, w = (centred(builder, match[name], zero_of(match, f"{name}z")) for name in ("x", "w"))
    maker = bias_maker(match)
    bias = (maker.inputs[0],) if maker is not None else ()
    sums = builder.op(layer.op, x, w, *bias, attributes=layer.attributes)
    axis = -1 if layer.op in LAST.values() else 1
    return requantized(match, builder, sums, _factors(match, narrow=False), axis)


# --- sums of two, pools, softmax ----------------------------------------------------------------


def _not_added(match: Match) -> str | None:
    return not_fixed(match, "x", "b")


def _added(match: Match, builder: GraphBuilder) -> str:
    left = LEFT_SHIFT[target(match)]
    a, b, y = (float(scale_of(match, name)) for name in ("xs", "bs", "ys"))
    twice = 2 * max(a, b)
    found = [fixed_point(each) for each in (a / twice, b / twice, twice / ((1 << left) * y))]
    attributes = FixedPointAddAttributes(
        tuple(zero_of(match, name) for name in ("xz", "bz", "yz")),
        tuple(multiplier for multiplier, _ in found),
        tuple(shift for _, shift in found),
        left,
        int(match.node("a").op == "Sub"),
    )
    made = builder.op("FixedPointAdd", match["x"], match["b"], attributes=attributes)
    return bounded(match, builder, made, steps)


def _not_pooled(match: Match) -> str | None:
    given = match.attributes("p")
    if getattr(given, "count_include_pad", 0) and any(given.pads):
        return "it counts padding"
    if not match.type("x").is_static:
        return "the size of the windows is not known"
    return not_fixed(match, "x") or other_scale(match)


def _pooled(match: Match, builder: GraphBuilder) -> str:
    pool = match.node("p")
    given = pool.attributes
    name = "IntegerAveragePool" + "ChannelsLast" * pool.op.endswith("ChannelsLast")
    if pool.op.startswith("Global"):
        dims = match.type("x").dims
        kernel = dims[1:-1] if pool.op.endswith("ChannelsLast") else dims[2:]
        attributes = PoolAttributes(tuple(kernel))
    else:
        attributes = PoolAttributes(
            given.kernel, given.strides, given.dilations, given.pads, given.ceil_mode
        )
    made = builder.op(name, match["x"], attributes=attributes)
    return bounded(match, builder, made, steps)


def _not_softmax(match: Match) -> str | None:
    if is_int16(match):
        return not_int16_softmax(match)
    if problem := not_fixed(match, "x"):
        return problem
    if match.has("beta") and match.array("beta").size != 1:
        return "its input is scaled by several numbers"
    if scale_of(match, "ys") != 1 / 256 or zero_of(match, "yz") != target(match).limits[0]:
        return "its output does not count from 0 in steps of 1/256"
    return None if _softmax_factor(match)[1] >= 0 else "its input has steps that are too small"


def _softmax_factor(match: Match) -> tuple[int, int]:
    scale = float(scale_of(match, "xs"))
    if match.has("beta"):
        scale *= float(match.array("beta").item())
    return fixed_point(min(scale * (1 << (31 - DIFFERENCE_BITS)), (1 << 31) - 1.0))


def _softmax(match: Match, builder: GraphBuilder) -> str:
    if is_int16(match):
        return int16_softmax(match, builder)
    table = builder.constant(softmax_table(*_softmax_factor(match)), "powers")
    attributes = FixedPointSoftmaxAttributes(match.attributes("s").axis)
    return builder.op("FixedPointSoftmax", match["x"], table, attributes=attributes)


_DOC = (
    " between DequantizeLinear and QuantizeLinear becomes sums of products in i32, the bias and "
    "Requantize; an activation is its saturation, or bounds in steps. The bias must be i32 of the "
    "products' scale."
)

RULES: tuple[Rule, ...] = (
    *layer_rules("fixed-point", (not_conv, _conv), (not_product, _product), _DOC),
    Rule(
        name="fixed-point-conv-transpose",
        before=f"""
            c = ConvTranspose({DATA}, {WEIGHTS}, _?) [users=1]
              | ConvTransposeChannelsLast({DATA}, {WEIGHTS}, _?) [users=1]
            y = QuantizeLinear(c -> {ACTIVATION}, {REST})
        """,
        where=_not_transposed,
        after=_transposed,
        exactness=Exactness.APPROXIMATE,
        doc=f"A transposed convolution{_DOC}",
    ),
    Rule(
        name="fixed-point-add",
        before=f"""
            a = Add({DATA}, {_ADDED}) [users=1] | Sub({DATA}, {_ADDED}) [users=1]
            y = QuantizeLinear(a -> {ACTIVATION}, {REST})
        """,
        where=_not_added,
        after=_added,
        exactness=Exactness.APPROXIMATE,
        doc="The sum or difference of two quantized tensors, quantized, is FixedPointAdd.",
    ),
    Rule(
        name="fixed-point-average-pool",
        before=f"""
            p = AveragePool({DATA}) [users=1] | AveragePoolChannelsLast({DATA}) [users=1]
              | GlobalAveragePool({DATA}) [users=1]
              | GlobalAveragePoolChannelsLast({DATA}) [users=1]
            y = QuantizeLinear(p -> {ACTIVATION}, {REST})
        """,
        where=_not_pooled,
        after=_pooled,
        exactness=Exactness.APPROXIMATE,
        doc="An average pool between DequantizeLinear and QuantizeLinear of the same scale is one "
        "of the integers.",
    ),
    Rule(
        name="fixed-point-softmax",
        before=f"s = Softmax({DATA}) [users=1]\ny = QuantizeLinear(s, {REST})",
        where=_not_softmax,
        after=_softmax,
        exactness=Exactness.APPROXIMATE,
        doc="Softmax between DequantizeLinear and QuantizeLinear is FixedPointSoftmax; its output "
        "must count in steps of 1/256.",
    ),
    Rule(
        name="fixed-point-softmax-of-product",
        before=f"""
            k = Mul{{{DATA}, const beta}} [users=1]
            s = Softmax(k) [users=1]
            y = QuantizeLinear(s, {REST})
        """,
        where=_not_softmax,
        after=_softmax,
        exactness=Exactness.APPROXIMATE,
        doc="The same of a product with one number, LiteRT's beta.",
    ),
    AS_LITERT,
    *litert_int16.RULES,
    *litert_values.RULES,
    *litert_resize.RULES,
    *MOVES,
    *quantized_moves.RULES,
    Rule(
        name="fixed-point-rescale",
        before=f"y = QuantizeLinear({DATA} -> {ACTIVATION}, {REST})",
        where=not_rescaled,
        after=rescaled,
        exactness=Exactness.APPROXIMATE,
        doc="QuantizeLinear after DequantizeLinear of another scale, with or without activation, "
        "is Requantize.",
    ),
)
