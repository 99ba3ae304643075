"""Per-channel factors and shifts, and layers that can take them into their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any, cast

import ml_dtypes
import numpy as np

from weft.ir.types import TensorType
from weft.ir.unknown import all_finite, contiguous, is_known
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.linear import GemmAttributes
from weft.records import dataclass

LAST = "ChannelsLast"
"""How the names of ops end whose channels are the last axis."""
LAYERS = (
    "Conv(x, const w, b?) {c} | ConvTranspose(x, const w, b?) {c}"
    " | ConvChannelsLast(x, const w, b?) {c} | ConvTransposeChannelsLast(x, const w, b?) {c}"
    " | Gemm(x, const w, b?) {c} | MatMul(x, const w) {c}"
)


def layers(condition: str) -> str:
    """Pattern of every layer with constant weights, under a condition."""
    return LAYERS.replace("{c}", condition)


@dataclass(frozen=True, eq=False)
class ChannelAffine:
    """``value * factor + shift``, one of each for every channel, in float64.

    Attributes:
        factor: ``None`` for ones.
        shift: ``None`` for zeros.
    """

    factor: np.ndarray | None
    shift: np.ndarray | None

    @property
    def is_finite(self) -> bool:
        """Whether all of it are finite numbers; of parameters that is taken for granted."""
        return all(each is None or all_finite(each) for each in (self.factor, self.shift))


def per_channel(array: np.ndarray, type: TensorType, axis: int) -> np.ndarray | None:
    """A constant as one number per channel, if it varies along that axis only.

    Args:
        array: what is broadcast against a value.
        type: of the value.
        axis: of the channels.
    """
    rank, channels = len(type.shape), type.shape[axis]
    shape = (1,) * (rank - array.ndim) + array.shape
    only = all(dim == 1 for place, dim in enumerate(shape) if place != axis % rank)
    if array.ndim > rank or not only or not isinstance(channels, int):
        return None
    if shape[axis] not in (1, channels):
        return None
    return contiguous(np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,)))


def batch_norm(match: Match, node: str, *names: str) -> ChannelAffine:
    """What a BatchNormalization with constant parameters does to its channels."""
    scale, shift, mean, variance = (match.array(name).astype(np.float64) for name in names)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + match.attributes(node).epsilon)
        return ChannelAffine(factor, shift - mean * factor)


def channel_axis(op: str, rank: int) -> int:
    """The axis of a layer's input and output that its weights give and take."""
    return 1 if op in ("Conv", "ConvTranspose") else rank - 1


# --- weights --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of a layer as ``[group, output, input, taps...]`` in float64, and the way back.

    Attributes:
        array: the weights.
        restore: puts them into the layer's own layout.
    """

    array: np.ndarray
    restore: Callable[[np.ndarray], np.ndarray]

    def scaled_outputs(self, factor: np.ndarray) -> np.ndarray:
        """Weights that give ``factor`` times the output, in the layer's layout."""
        groups, outputs = self.array.shape[:2]
        shaped = factor.reshape(groups, outputs, *[1] * (self.array.ndim - 2))
        return self.restore(self.array * shaped)

    def scaled_inputs(self, factor: np.ndarray) -> np.ndarray:
        """Weights that do for the input what they did for ``factor`` times the input."""
        groups, _, inputs = self.array.shape[:3]
        shaped = factor.reshape(groups, 1, inputs, *[1] * (self.array.ndim - 3))
        return self.restore(self.array * shaped)

    def response(self, shift: np.ndarray) -> np.ndarray:
        """What the layer makes, away from padding, of an input that is ``shift`` all over."""
        groups, _, inputs = self.array.shape[:3]
        taps = self.array.sum(axis=tuple(range(3, self.array.ndim)))
        return (taps @ shift.reshape(groups, inputs, 1)).reshape(-1)


def weights_of(op: str, attributes: Any, w: np.ndarray) -> Weights:
    """The weights of a layer."""
    op = op.removesuffix(LAST)
    wide = w.astype(np.float64)
    if op == "Conv":
        grouped = wide.reshape(attributes.groups, -1, *w.shape[1:])
        return Weights(grouped, lambda array: array.reshape(w.shape))
    if op == "ConvTranspose":
        split = wide.reshape(attributes.groups, -1, *w.shape[1:]).swapaxes(1, 2)
        return Weights(split, lambda array: array.swapaxes(1, 2).reshape(w.shape))
    if op == "Gemm" and attributes.transB:
        return Weights(wide[None], lambda array: array[0])
    return Weights(wide.T[None], lambda array: array[0].T)


# --- layers ---------------------------------------------------------------------------------


def layer_problem(
    match: Match, affine: ChannelAffine | None, *, at_input: bool = False
) -> str | None:
    """Why a layer ``c`` of a match cannot take an affine map of its channels in."""
    node, type = match.node("c"), match.type("c")
    if affine is None:
        return "the constant is not one number per channel"
    if not affine.is_finite or not type.dtype.is_float:
        return "a factor or shift is not a finite number"
    if node.op == "MatMul" and match.array("w").ndim != 2:
        return "the weights of the product are not one matrix"
    if _overflows(match.array("w"), affine.factor):
        return f"the weights would not fit {type.dtype.value}"
    if at_input:
        return _input_problem(match, affine)
    return _bias_problem(match, affine.shift is not None)


def _input_problem(match: Match, affine: ChannelAffine) -> str | None:
    node = match.node("c")
    if node.op == "Gemm" and node.attributes.transA:
        return "the product transposes its input"
    if affine.shift is None:
        return None
    op = node.op.removesuffix(LAST)
    if op == "ConvTranspose":
        return "a transposed convolution sums fewer taps at the border"
    if op == "Conv" and any(node.attributes.pads):
        return "the convolution pads with zeros, which must not be shifted"
    return _bias_problem(match, True)


def _bias_problem(match: Match, shifted: bool) -> str | None:
    if shifted and match.node("c").op == "MatMul" and len(match.type("c").shape) != 2:
        return "a product of more than two dimensions has no bias"
    if match.values.get("b") and bias_of(match) is None:
        return "the bias is not one constant for each channel"
    return None


def _overflows(w: np.ndarray, factor: np.ndarray | None) -> bool:
    if factor is None or not w.size or not (is_known(w) and is_known(factor)):
        return False
    largest = float(np.abs(w).max()) * float(np.abs(factor).max())
    limits = cast(Any, ml_dtypes.finfo)(w.dtype)
    return not largest < float(limits.max)


def bias_of(match: Match) -> np.ndarray | None:
    """What a layer ``c`` adds to each channel, in float64, if it adds a constant."""
    node = match.node("c")
    array = match.view.constants.get(match.values.get("b", ""))
    if array is None or node.op != "Gemm":
        return None if array is None else array.astype(np.float64)
    found = per_channel(array, match.type("c"), 1)
    return None if found is None else found * node.attributes.beta


def absorb_at_output(match: Match, builder: GraphBuilder, affine: ChannelAffine) -> str:
    """The layer ``c`` with an affine map of its output taken in."""
    node, bias = match.node("c"), bias_of(match)
    w = match.array("w")
    if affine.factor is not None:
        w = weights_of(node.op, node.attributes, w).scaled_outputs(affine.factor)
        bias = None if bias is None else bias * affine.factor
    if affine.shift is not None:
        bias = affine.shift if bias is None else bias + affine.shift
    return _layer(match, builder, match["x"], w, bias)


def absorb_at_input(match: Match, builder: GraphBuilder, affine: ChannelAffine, x: str = "") -> str:
    """The layer ``c`` of ``x`` (by default the match's) with an affine map before it taken in."""
    node, bias = match.node("c"), bias_of(match)
    x = x or match["x"]
    w = match.array("w")
    weights = weights_of(node.op, node.attributes, w)
    if affine.factor is not None:
        w = weights.scaled_inputs(affine.factor)
    if affine.shift is None:
        return _layer(match, builder, x, w, None, keep_bias=True)
    alpha = node.attributes.alpha if node.op == "Gemm" else 1.0
    response = weights.response(affine.shift) * alpha
    return _layer(match, builder, x, w, response if bias is None else bias + response)


def _layer(
    match: Match,
    builder: GraphBuilder,
    x: str,
    w: np.ndarray,
    bias: np.ndarray | None,
    *,
    keep_bias: bool = False,
) -> str:
    node, dtype = match.node("c"), match.type("c").dtype.numpy
    inputs = [x, builder.constant(contiguous(w, dtype), match["w"])]
    op, attributes = node.op, node.attributes
    if keep_bias:
        inputs += [value for value in node.inputs[2:] if value]
    elif bias is not None:
        inputs.append(builder.constant(bias.astype(dtype), match.values.get("b") or "bias"))
        if op == "MatMul":
            op, attributes = "Gemm", GemmAttributes()
        elif op == "Gemm":
            attributes = changed(attributes, beta=1.0)
    return builder.op(op, *inputs, attributes=attributes)
