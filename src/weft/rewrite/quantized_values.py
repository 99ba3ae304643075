"""Products of two quantized values, neither of them a weight."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.quantization import QuantizeAttributes, is_single
from weft.rewrite.dequantized import (
    ACTIVATION,
    BYTES,
    DATA,
    REST,
    bounded,
    scale_of,
    target,
    zero_of,
    zeros_problem,
)
from weft.rewrite.rule import Exactness, Rule

_OTHER = "DequantizeLinear(b, const bs, bz?)"


def _not_product(match: Match) -> str | None:
    types = [match.type(name) for name in ("x", "b", "y")]
    if any(type.dtype not in BYTES for type in types):
        return "it is not in 8 bits"
    if not all(is_single(match.type(name)) for name in ("xs", "bs", "ys")):
        return "there are several scales"
    if any(match.type(name).dtype is not DType.F32 for name in ("xs", "bs", "ys")):
        return "a scale is not f32"
    given = match.attributes("y")
    if not isinstance(given, QuantizeAttributes) or given.block_size:
        return "the output is quantized in blocks"
    return zeros_problem(match, "xz", "bz", "yz")


def _product(match: Match, builder: GraphBuilder) -> str:
    inputs: list[str] = []
    for value, scale, zero in (("x", "xs", "xz"), ("b", "bs", "bz")):
        inputs += [match[value], *_single(match, builder, scale, zero, match.type(value).dtype)]
    inputs += _single(match, builder, "ys", "yz", target(match))
    return bounded(match, builder, builder.op("QLinearMatMul", *inputs), _steps)


def _single(match: Match, builder: GraphBuilder, scale: str, zero: str, of: DType) -> list[str]:
    """A scale and a zero point as scalars."""
    numbers = (np.asarray(scale_of(match, scale)), np.array(zero_of(match, zero), of.numpy))
    names = (scale, f"{scale}_zero_point")
    return [builder.constant(array, name) for array, name in zip(numbers, names, strict=True)]


def _steps(value: float, scale: np.float32) -> float:
    return float(np.rint(np.float32(value) / scale))


PRODUCTS: tuple[Rule, ...] = (
    Rule(
        name="quantized-product-of-values",
        before=f"""
            c = MatMul({DATA}, {_OTHER}) [users=1]
            y = QuantizeLinear(c -> {ACTIVATION}, {REST})
        """,
        where=_not_product,
        after=_product,
        exactness=Exactness.APPROXIMATE,
        doc="The product of two quantized values, such as queries and keys, between "
        "DequantizeLinear and QuantizeLinear is ONNX's QLinearMatMul.",
    ),
)
