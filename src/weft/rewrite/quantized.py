"""Layers between DequantizeLinear and QuantizeLinear as layers of integers."""

from __future__ import annotations

from typing import Literal

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.records import dataclass
from weft.rewrite import litert, quantized_moves
from weft.rewrite.byte_tables import AS_FLOATS
from weft.rewrite.cleanups import by_rules
from weft.rewrite.dequantized import (
    MOVES,
    bias_maker,
    bounded,
    layer_rules,
    not_conv,
    not_product,
    product_as_conv,
    target,
)
from weft.rewrite.quantized_values import PRODUCTS
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.rule import Exactness, Rule


def _zero(match: Match, builder: GraphBuilder, name: str, type: TensorType, of: DType) -> str:
    """A zero point, 0 where none is given."""
    if match.has(name):
        return match[name]
    return builder.constant(np.zeros(type.dims, of.numpy), f"{name}_zero_point")


def _quantized_inputs(match: Match, builder: GraphBuilder, x: str, w: str) -> list[str]:
    """The inputs of a QLinearConv."""
    data, weight, output = (match.type(name) for name in ("x", "w", "ys"))
    inputs = [
        *(x, match["xs"], _zero(match, builder, "xz", match.type("xs"), data.dtype)),
        *(w, match["ws"], _zero(match, builder, "wz", match.type("ws"), weight.dtype)),
        *(match["ys"], _zero(match, builder, "yz", output, target(match))),
    ]
    found = _bias(match)
    if found is None:
        return inputs
    name, array = found
    if array.dtype != np.int32:
        name = builder.constant(array.astype(np.int32), name)
    return [*inputs, name]


def _bias(match: Match) -> tuple[str, np.ndarray] | None:
    """The integers that are added to the products, if any are."""
    maker = bias_maker(match)
    return None if maker is None else (maker.inputs[0], match.view.constants[maker.inputs[0]])


def _not_conv(match: Match) -> str | None:
    return not_conv(match) or _bias_problem(match)


def _not_product(match: Match) -> str | None:
    return not_product(match) or _bias_problem(match)


def _bias_problem(match: Match) -> str | None:
    found = _bias(match)
    ends = np.iinfo(np.int32)
    if found is not None and ((found[1] < ends.min) | (found[1] > ends.max)).any():
        return "the bias does not fit i32"
    return None


def _conv(match: Match, builder: GraphBuilder) -> str:
    inputs = _quantized_inputs(match, builder, match["x"], match["w"])
    layer = match.node("c")
    made = builder.op(f"QLinear{layer.op}", *inputs, attributes=layer.attributes)
    return bounded(match, builder, made, _steps)


def _product(match: Match, builder: GraphBuilder) -> str:
    def conv(image: str, kernel: str) -> str:
        inputs = _quantized_inputs(match, builder, image, kernel)
        return builder.op("QLinearConv", *inputs, attributes=ConvAttributes())

    return bounded(match, builder, product_as_conv(match, builder, conv), _steps)


def _steps(value: float, scale: np.float32) -> float:
    return float(np.rint(np.float32(value) / scale))


_DOC = (
    " between DequantizeLinear and QuantizeLinear is one layer of integers, the sum requantized by "
    "the product of the scales (ONNX's QLinearConv); an activation is its saturation, or bounds in "
    "steps. The bias must be i32 of the products' scale."
)

RULES: tuple[Rule, ...] = (
    *layer_rules("quantized", (_not_conv, _conv), (_not_product, _product), _DOC),
    *PRODUCTS,
    AS_FLOATS,
    *MOVES,
    *quantized_moves.RULES,
)


@dataclass(frozen=True)
class IntegersParameters:
    """Parameters of ``integers``."""

    rounding: Literal["onnx", "litert"] = parameter(
        "how sums are requantized: `onnx` by a scale in float, halves to even, as QLinearConv; "
        "`litert` in fixed point, as LiteRT's reference kernels",
        "onnx",
    )


_BY_ROUNDING = {"onnx": by_rules(RULES), "litert": by_rules(litert.RULES)}


def _apply(graph: Graph, parameters: IntegersParameters) -> Graph:
    return _BY_ROUNDING[parameters.rounding](graph, parameters)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "integers",
        "Layers between DequantizeLinear and QuantizeLinear become layers of integers: "
        "convolutions and matrix products, and ops that only move elements; with `rounding=litert` "
        "sums, average pools, softmax and requantization, too, each with the bits of LiteRT's "
        "reference kernel. Sums of products are then exact, and what is rounded is their product "
        "with one scale, so outputs may differ from those of the graph in floats by a step. All "
        "else stays in floats.",
        Exactness.APPROXIMATE,
        _apply,
        IntegersParameters,
    ),
)
