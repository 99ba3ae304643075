"""Graphs of QuantizeLinear and DequantizeLinear in the form in which layers compute in integers."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.ordering import TransposeAttributes
from weft.ops.quantization import DequantizeAttributes, is_single
from weft.rewrite import activations, constants
from weft.rewrite.affine import batch_norm, per_channel
from weft.rewrite.cleanups import by_rules
from weft.rewrite.recipe import Recipe
from weft.rewrite.rule import Exactness, Rule

LARGEST_BIAS = 1 << 30
"""A bias is at most so many steps of the products: half of what i32 holds."""
LEAST_SCALE = 2.0**-24
"""A channel's scale is at least this part of the largest one."""

_PARAMETERS = "const scale, const shift, const mean, const variance"
_NAMES = ("scale", "shift", "mean", "variance")


def output_axis(layer: Node) -> int | None:
    """The axis of a layer's weights that counts its outputs; ``None`` if there is none."""
    given = layer.attributes
    if layer.op == "ConvTranspose":
        return 1 if given.groups == 1 else None
    if layer.op == "Gemm":
        return None if given.transA or (given.alpha, given.beta) != (1, 1) else 1 - given.transB
    return 1 if layer.op == "MatMul" else 0


def _scales_problem(match: Match) -> str | None:
    """Why the scales of weights ``w`` are not one in all or one for each output."""
    axis, scales = output_axis(match.node("c")), match.type("s")
    if axis is None:
        return "the weights have no axis of outputs alone"
    if match.type("w").dtype is not DType.I8:
        return "the weights are not i8"
    if is_single(scales):
        return None
    given = match.attributes("d")
    rank = len(match.type("w").shape)
    if len(scales.shape) != 1 or given.block_size or given.axis % rank != axis:
        return "the weights' scales are not one for each output"
    return None


def _channels(match: Match) -> int:
    axis = output_axis(match.node("c"))
    assert axis is not None
    return match.type("w").dims[axis]


def _scales(match: Match) -> np.ndarray:
    """A scale for each output, f64."""
    scales = match.array("s").astype(np.float64).reshape(-1)
    return np.broadcast_to(scales, (_channels(match),))


def _bias(match: Match) -> np.ndarray | None:
    """A number for each output, f64, if the layer adds constants."""
    name = match.values.get("b", "")
    array = match.view.constants.get(name)
    if array is None:
        return None
    type = match.type("c")
    axis = 1 if match.node("c").op in ("Conv", "ConvTranspose") else len(type.shape) - 1
    if match.node("c").op in ("Conv", "ConvTranspose"):
        return array.astype(np.float64)
    return per_channel(array, type, axis)


def _integers(match: Match, builder: GraphBuilder, whole: np.ndarray, scales: np.ndarray) -> str:
    """Weights from integers and a scale for each output."""
    axis = output_axis(match.node("c"))
    assert axis is not None
    stored = builder.constant(np.ascontiguousarray(whole.astype(np.int8)), match["w"])
    scale = builder.constant(scales.astype(np.float32), match["s"])
    attributes = DequantizeAttributes(axis=axis)
    return builder.op("DequantizeLinear", stored, scale, attributes=attributes)


def _spread(match: Match, values: np.ndarray) -> np.ndarray:
    """A number for each output, as it broadcasts against the weights."""
    axis = output_axis(match.node("c"))
    return values.reshape([-1 if place == axis else 1 for place in range(match.array("w").ndim)])


# --- batch normalization ----------------------------------------------------------------------


def _normalized_problem(match: Match) -> str | None:
    if problem := _scales_problem(match):
        return problem
    if match.values.get("b") and _bias(match) is None:
        return "the bias is not one constant for each output"
    affine = batch_norm(match, "y", *_NAMES)
    if not affine.is_finite or affine.factor is None:
        return "a factor or shift is not a finite number"
    lowest = match.array("w").astype(np.int32).min(initial=0)
    if lowest == -128 and (affine.factor < 0).any():
        return "a factor is negative, and -128 has no counterpart"
    return None


def _normalized(match: Match, builder: GraphBuilder) -> str:
    affine = batch_norm(match, "y", *_NAMES)
    assert affine.factor is not None
    assert affine.shift is not None
    layer, bias = match.node("c"), _bias(match)
    signs = _spread(match, np.sign(affine.factor).astype(np.int32))
    # A scale is above zero, also where all weights become zero.
    scales = np.maximum(_scales(match) * np.abs(affine.factor), np.finfo(np.float32).tiny)
    weights = _integers(match, builder, match.array("w").astype(np.int32) * signs, scales)
    shift = affine.shift if bias is None else affine.shift + affine.factor * bias
    added = builder.constant(shift.astype(np.float32), match["shift"])
    return builder.op(layer.op, match["x"], weights, added, attributes=layer.attributes)


# --- biases -----------------------------------------------------------------------------------


def _bias_problem(match: Match) -> str | None:
    if problem := _scales_problem(match):
        return problem
    bias = _bias(match)
    if bias is None or match.type("b").dtype is not DType.F32:
        return "the bias is not one f32 for each output"
    if not np.isfinite(bias).all():
        return "the bias is not finite"
    if not is_single(match.type("xs")) or match.type("x").dtype not in (DType.I8, DType.U8):
        return "the input is not in 8 bits with one scale"
    return None


def _whole_bias(match: Match, builder: GraphBuilder) -> str:
    bias, scales, step = _bias(match), _scales(match), float(match.array("xs").item())
    assert bias is not None
    layer = match.node("c")
    whole = match.array("w").astype(np.int32)
    # Of a channel whose weights are almost nothing beside its bias.
    least = np.maximum(np.abs(bias) / (step * LARGEST_BIAS), scales.max() * LEAST_SCALE)
    new = np.maximum(scales, least).astype(np.float32)
    weights = match.node("c").inputs[1]
    if (new != scales.astype(np.float32)).any():
        shrunk = np.rint(whole * _spread(match, scales / new.astype(np.float64)))
        weights = _integers(match, builder, shrunk, new)
    elif is_single(match.type("s")):
        new = match.array("s").astype(np.float32).reshape(-1)
    products = np.float32(step) * new
    rounded = np.rint(bias / products.astype(np.float64))
    stored = builder.constant(rounded.astype(np.int32), match["b"])
    if products.size == 1:
        products = products.reshape(())
    scale = builder.constant(products, f"{match['b']}_scale")
    attributes = DequantizeAttributes(axis=0)
    added = builder.op("DequantizeLinear", stored, scale, attributes=attributes)
    if layer.op != "MatMul":
        inputs = (layer.inputs[0], weights, added)
        return builder.op(layer.op, *inputs, attributes=layer.attributes)
    made = builder.op(layer.op, layer.inputs[0], weights, attributes=layer.attributes)
    return builder.op("Add", made, added)


# --- what moves elements ----------------------------------------------------------------------


def _transposed_problem(match: Match) -> str | None:
    if is_single(match.type("s")):
        return None
    given = match.attributes("d")
    return "the scales are in blocks" if given.block_size else None


def _transposed(match: Match, builder: GraphBuilder) -> str:
    given, array = match.attributes("d"), match.array("w")
    attributes = match.attributes("y")
    assert isinstance(attributes, TransposeAttributes)
    perm = attributes.perm or tuple(range(array.ndim))[::-1]
    stored = builder.constant(np.ascontiguousarray(array.transpose(perm)), match["w"])
    rest = [match["z"]] if match.has("z") else []
    axis = perm.index(given.axis % array.ndim)
    moved = changed(given, axis=axis)
    return builder.op("DequantizeLinear", stored, match["s"], *rest, attributes=moved)


def _moved_problem(match: Match) -> str | None:
    maker = match.view.producers.get(match["x"])
    if maker is not None and maker.op == "DequantizeLinear":
        return ""
    return None if is_single(match.type("s")) else "there are several scales"


def _quantized_first(match: Match, builder: GraphBuilder) -> str:
    mover, quantize = match.node("v"), match.node("y")
    parameters = [value for value in quantize.inputs[1:] if value]
    x = match["x"]
    if "r" in match.named:
        bound = match.node("r")
        x = builder.op(bound.op, x, attributes=bound.attributes)
    whole = builder.op("QuantizeLinear", x, *parameters, attributes=quantize.attributes)
    attributes = DequantizeAttributes()
    back = builder.op("DequantizeLinear", whole, *parameters, attributes=attributes)
    moved = builder.op(mover.op, back, *mover.inputs[1:], attributes=mover.attributes)
    return builder.op("QuantizeLinear", moved, *parameters, attributes=quantize.attributes)


_WEIGHTS = "d = DequantizeLinear(const w, const s)"

FORM: tuple[Rule, ...] = (
    Rule(
        name="transpose-quantized",
        before="d = DequantizeLinear(const w, const s, z?)\ny = Transpose(d)",
        where=_transposed_problem,
        after=_transposed,
        exactness=Exactness.BIT_EXACT,
        doc="Weights that are integers are stored in the order in which a layer reads them.",
    ),
    Rule(
        name="scale-by-batch-norm",
        before=f"""
            {_WEIGHTS}
            c = Conv(x, d, b?) [users=1] | ConvTranspose(x, d, b?) [users=1]
              | Gemm(x, d, b?) [users=1]
            y = BatchNormalization(c, {_PARAMETERS}) [training_mode=0]
        """,
        where=_normalized_problem,
        after=_normalized,
        exactness=Exactness.REASSOCIATING,
        doc="Batch normalization after a layer whose weights are integers goes into their scales "
        "and the bias; where a factor is negative, the integers change their sign.",
    ),
    Rule(
        name="quantize-before-move",
        before="""
            v = Reshape(x) [users=1] | Flatten(x) [users=1] | Transpose(x) [users=1]
              | Squeeze(x) [users=1] | Unsqueeze(x) [users=1] | Slice(x) [users=1]
              | MaxPool(x) [users=1]
            y = QuantizeLinear(v -> (r: Clip)?, const s, const z?)
        """,
        where=_moved_problem,
        after=_quantized_first,
        exactness=Exactness.BIT_EXACT,
        doc="What is quantized after it only moved, or the largest of it was taken, is quantized "
        "before: the layer that makes it then gives integers.",
    ),
    *(rule for rule in activations.RULES if rule.name == "merge-bounds"),
)

BIASES: tuple[Rule, ...] = (
    Rule(
        name="quantize-bias",
        before=f"""
            {_WEIGHTS}
            q = DequantizeLinear(x, const xs, _?)
            c = Conv(q, d, const b) | Gemm(q, d, const b)
        """,
        where=_bias_problem,
        after=_whole_bias,
        exactness=Exactness.APPROXIMATE,
        doc="The bias of a layer of integers is i32, of the scale of the products.",
    ),
    Rule(
        name="quantize-added-bias",
        before=f"""
            {_WEIGHTS}
            q = DequantizeLinear(x, const xs, _?)
            c = MatMul(q, d) [users=1]
            y = Add{{c, const b}}
        """,
        where=_bias_problem,
        after=_whole_bias,
        exactness=Exactness.APPROXIMATE,
        doc="What is added to a product of integers is i32, of the scale of the products.",
    ),
)

RULES: tuple[Rule, ...] = (*FORM, *BIASES)


def _formed(graph: Graph, _: object) -> Graph:
    share = tuple(rule for rule in constants.RULES if rule.name == "share-equal-nodes")
    graph = constants.share_constants(graph)
    for rules in (share, FORM, BIASES):
        graph = by_rules(rules)(graph, None)
    return constants.share_constants(graph)


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "quantized-form",
        "A graph of QuantizeLinear and DequantizeLinear in the form that integers want: batch "
        "normalization goes into the scales of the weights, biases become i32, and what only "
        "moves elements does so to integers.",
        Exactness.APPROXIMATE,
        _formed,
    ),
)
