"""Recipes that write out what ops do on the side: transposes, casts and quantizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as changed

import numpy as np

from weft.dtypes import DType
from weft.ir.edit import replace_all
from weft.ir.graph import Graph, Node
from weft.match.view import Match
from weft.ops import activation, arithmetic, convolution, linear, pooling, reduction
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.ordering import TransposeAttributes
from weft.ops.quantization import DequantizeAttributes, QuantizeAttributes
from weft.ops.record import Define
from weft.rewrite.adapt import in_types
from weft.rewrite.cleanups import by_rules, everywhere
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness, Rule

# --- transposes -------------------------------------------------------------------------------


def transposed(builder: GraphBuilder, value: str, perm: tuple[int, ...]) -> str:
    """A value with its axes in another order; of a constant, a constant."""
    array = builder.constants.get(value)
    if array is not None:
        return builder.constant(np.ascontiguousarray(array.transpose(perm)), value)
    return builder.op("Transpose", value, attributes=TransposeAttributes(perm))


def _no_flags(match: Match) -> str | None:
    flags = match.attributes("y")
    return None if flags.transA or flags.transB else ""


def _gemm(match: Match, builder: GraphBuilder) -> str:
    node = match.root
    a, b, *rest = node.inputs
    a = transposed(builder, a, (1, 0)) if node.attributes.transA else a
    b = transposed(builder, b, (1, 0)) if node.attributes.transB else b
    attributes = changed(node.attributes, transA=0, transB=0)
    return builder.op("Gemm", a, b, *rest, attributes=attributes)


_STATES = (5, 6)
"""Where a recurrent layer's first states stand."""
_SWAPPED = (1, 0, 2)


def _recurrent(match: Match, builder: GraphBuilder) -> tuple[str, ...]:
    node = match.root
    inputs = [
        transposed(builder, value, _SWAPPED)
        if value and (place == 0 or place in _STATES)
        else value
        for place, value in enumerate(node.inputs)
    ]
    made = builder.nodes_of(
        node.op,
        inputs,
        changed(node.attributes, layout=0),
        outputs=[f"{value}_time_first" if value else "" for value in node.outputs],
    )
    perms = ((2, 0, 1, 3), _SWAPPED, _SWAPPED)
    return tuple(
        transposed(builder, value, perm) if value else ""
        for value, perm in zip(made, perms, strict=False)
    )


_TRANSPOSES: tuple[Rule, ...] = (
    Rule(
        name="transpose-beside-gemm",
        before="y = Gemm(a, b, ...)",
        where=_no_flags,
        after=_gemm,
        exactness=Exactness.BIT_EXACT,
        doc="What Gemm transposes on the side is a Transpose.",
    ),
    Rule(
        name="transpose-beside-recurrent",
        before="y, ... = LSTM(x, ...) | GRU(x, ...) | RNN(x, ...)",
        where=lambda match: None if match.root.attributes.layout else "",
        after=_recurrent,
        exactness=Exactness.BIT_EXACT,
        doc="A recurrent layer that has the batch first is one that has time first, transposed.",
    ),
)


# --- casts ------------------------------------------------------------------------------------


def _cast(match: Match, builder: GraphBuilder) -> str:
    to = match.type("y").dtype
    return builder.op("Cast", match["x"], attributes=CastAttributes(to))


_CAST_LIKE = Rule(
    name="cast-like-to-cast",
    before="y = CastLike(x, _)",
    after=_cast,
    exactness=Exactness.BIT_EXACT,
    doc="The type to cast to is known.",
)
_WIDER: Mapping[DType, DType] = {DType.F16: DType.F32, DType.BF16: DType.F32}
_COMPUTING = frozenset(
    op.name
    for family in (activation, arithmetic, convolution, linear, pooling, reduction)
    for op in family.OPS
    if isinstance(op.compute, Define) and op.name not in ("MaxPool", "ReduceMax", "ReduceMin")
)
"""Ops that compute half precision in f32 and round what they store."""


def _is_half(graph: Graph, node: Node) -> bool:
    return node.op in _COMPUTING and graph.types[node.outputs[0]].dtype in _WIDER


def _explicit_casts(graph: Graph, _: object) -> Graph:
    graph = by_rules((_CAST_LIKE,))(graph, None)

    def change(each: Graph) -> Graph:
        found = [
            in_types(each, node, _WIDER, "explicit-casts")
            for node in each.nodes
            if _is_half(each, node)
        ]
        return replace_all(each, found) if found else each

    return everywhere(graph, change)


# --- quantizers -------------------------------------------------------------------------------


def _float_scale(match: Match) -> str | None:
    scales = [match.view.types[match.root.inputs[place]].dtype for place in (1, 4, 6)]
    return None if set(scales) == {DType.F32} else "the scales are not f32"


def _dequantized(builder: GraphBuilder, value: str, scale: str, zero: str, axis: int) -> str:
    return builder.op("DequantizeLinear", value, scale, zero, attributes=DequantizeAttributes(axis))


def _quantized_layer(match: Match, builder: GraphBuilder) -> str:
    node = match.root
    left, left_scale, left_zero, right, right_scale, right_zero, scale, zero = node.inputs[:8]
    conv = node.op == "QLinearConv"
    ranks = [len(match.view.types[value].shape) for value in (left, right)]
    x = _dequantized(builder, left, left_scale, left_zero, 1 if conv else ranks[0] - 2)
    w = _dequantized(builder, right, right_scale, right_zero, 0 if conv else ranks[1] - 1)
    inputs = [x, w]
    if len(node.inputs) > 8 and node.inputs[8]:
        inputs.append(_bias(builder, node.inputs[8], left_scale, right_scale))
    made = builder.op("Conv" if conv else "MatMul", *inputs, attributes=node.attributes)
    return builder.op("QuantizeLinear", made, scale, zero, attributes=QuantizeAttributes())


def _bias(builder: GraphBuilder, bias: str, left: str, right: str) -> str:
    wide = builder.op("Cast", bias, attributes=CastAttributes(DType.F32))
    return builder.op("Mul", wide, builder.op("Mul", left, right))


_QUANTIZERS: tuple[Rule, ...] = (
    Rule(
        name="quantizers-beside-layer",
        before="y = QLinearConv(...) | QLinearMatMul(...)",
        where=_float_scale,
        after=_quantized_layer,
        exactness=Exactness.REASSOCIATING,
        doc="A quantized layer is one of floats between DequantizeLinear and QuantizeLinear.",
    ),
)

RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "explicit-transposes",
        "What Gemm and recurrent layers transpose on the side (`transA`, `transB`, `layout`) "
        "becomes Transpose; constants are transposed now.",
        Exactness.BIT_EXACT,
        by_rules(_TRANSPOSES),
    ),
    Recipe(
        "explicit-casts",
        "Layers in half precision (f16, bf16), which compute in f32 and round once, become "
        "layers of f32 between casts; CastLike becomes Cast.",
        Exactness.BIT_EXACT,
        _explicit_casts,
    ),
    Recipe(
        "explicit-quantizers",
        "Quantized layers (QLinearConv, QLinearMatMul) become layers of floats between "
        "DequantizeLinear and QuantizeLinear: the form that other tools read. Sums of floats "
        "round, so an output may be one step off.",
        Exactness.REASSOCIATING,
        by_rules(_QUANTIZERS),
    ),
)
