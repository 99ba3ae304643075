"""Fused contrib ops, which onnxruntime's optimizer creates from several standard ops.

They are expanded again; Weft applies its own fusion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from weft.frontends.onnx.microsoft.body import Body, Writer

_PARAMETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Elu": ("alpha",),
        "HardSigmoid": ("alpha", "beta"),
        "LeakyRelu": ("alpha",),
        "Relu": (),
        "Selu": ("alpha", "gamma"),
        "Sigmoid": (),
        "Softplus": (),
        "Softsign": (),
        "Tanh": (),
        "ThresholdedRelu": ("alpha",),
    }
)
"""Activations, and the attributes of each that parameters stand for, in order."""
_WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


# --- activations --------------------------------------------------------------------------------


def _gelu(approximate: str = "none") -> Writer:
    """GELU of an input, and of a bias added to it where there is one."""

    def write(body: Body) -> None:
        x, bias = body.taken(0), body.taken(1)
        whole = body.op("Add", x, bias) if bias else x
        body.op("Gelu", whole, approximate=approximate, output=body.outputs[0])

    return write


def _quick_gelu(body: Body) -> None:
    alpha = body.given.get("alpha", 1.702)
    body.op("Swish", body.taken(0), alpha=alpha, output=body.outputs[0])


def _activated(body: Body, x: str, name: str, parameters: Sequence[float]) -> None:
    """An activation of a value as the output.

    Args:
        body: of the call.
        x: the value.
        name: of the activation; empty for none.
        parameters: of it, in order.
    """
    if not name:
        body.passed(x, 0)
    elif name == "Clip":
        limits = [body.scalar(each, x) for each in parameters]
        body.op("Clip", x, *limits, output=body.outputs[0])
    elif name in _PARAMETERS:
        given = dict(zip(_PARAMETERS[name], parameters, strict=False))
        body.op(name, x, output=body.outputs[0], **given)
    else:
        raise body.refuse(f"with activation = {name}")


# --- products -----------------------------------------------------------------------------------


def _matmul(body: Body) -> None:
    factors = [_turned(body, place, letter) for place, letter in enumerate("AB")]
    alpha = body.given.get("alpha", 1.0)
    made = body.op("MatMul", *factors, output="" if alpha != 1 else body.outputs[0])
    if alpha != 1:
        body.op("Mul", made, body.scalar(alpha, made), output=body.outputs[0])


def _turned(body: Body, place: int, letter: str) -> str:
    """A factor of a product, transposed as attributes ask."""
    batch, matrix = (body.given.get(f"{name}{letter}", 0) for name in ("transBatch", "trans"))
    rank = body.rank(place) if batch or matrix else 0
    if rank < 2:  # a vector is the same either way
        return body.taken(place)
    order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
    if matrix:
        order[-2:] = order[:-3:-1]
    return body.op("Transpose", body.taken(place), perm=order)


def _gemm(body: Body) -> None:
    given = body.chosen("alpha", "beta", "transA", "transB")
    made = body.op("Gemm", *(body.taken(place) for place in range(3)), **given)
    name = body.text("activation")
    names = [f"activation_{each}" for each in _PARAMETERS.get(name, ())]
    parameters = [body.given[each] for each in names if each in body.given]
    _activated(body, made, name, parameters)


def _conv(body: Body) -> None:
    made = body.op("Conv", *(body.taken(place) for place in range(3)), **body.chosen(*_WINDOW))
    if body.taken(3):
        made = body.op("Add", made, body.taken(3))
    _activated(body, made, body.text("activation"), body.given.get("activation_params", []))


# --- normalization ------------------------------------------------------------------------------


def _skip_norm(op: str, places: tuple[int, ...], bias: int) -> Writer:
    """A normalized sum.

    Args:
        op: that normalizes.
        places: inputs of what it takes beside the sum.
        bias: the input that is added, too.
    """

    def write(body: Body) -> None:
        total = body.op("Add", body.taken(0), body.taken(1))
        if body.taken(bias):
            total = body.op("Add", total, body.taken(bias))
        epsilon = body.given.get("epsilon", 1e-12)
        if body.asked(1) or body.asked(2):
            raise body.refuse("with the mean or the deviation as output")
        factors = (body.taken(place) for place in places)
        body.op(op, total, *factors, axis=-1, epsilon=epsilon, output=body.outputs[0])
        body.passed(total, 3)

    return write


def _simplified_norm(body: Body) -> None:
    if body.asked(1):
        raise body.refuse("with the deviation as output")
    given = {"epsilon": 1e-5, **body.chosen("axis", "epsilon", "stash_type")}
    body.op("RMSNormalization", body.taken(0), body.taken(1), output=body.outputs[0], **given)


def _embedding(body: Body) -> None:
    ids, segments, words, positions, kinds, gamma, beta, mask, places = (
        body.taken(place) for place in range(9)
    )
    _embedded(body, (ids, segments, places), (words, positions, kinds), (gamma, beta), mask)


def _quantized_embedding(body: Body) -> None:
    ids, segments = body.taken(0), body.taken(1)
    tables = [_restored(body, place, 8 + at, 13 + at) for at, place in enumerate((2, 3, 4))]
    factors = [_restored(body, place, 11 + at, 16 + at) for at, place in enumerate((5, 6))]
    _embedded(body, (ids, segments, ""), tables, factors, body.taken(7))


def _restored(body: Body, x: int, scale: int, zero: int) -> str:
    """Inputs, integers, scale and zero point, as numbers; empty where they are absent."""
    names = [body.taken(place) for place in (x, scale, zero)]
    return body.op("DequantizeLinear", *names) if names[0] else ""


def _embedded(
    body: Body, ids: Sequence[str], tables: Sequence[str], factors: Sequence[str], mask: str
) -> None:
    """The normalized sum of a word's, a place's and a segment's row of their tables.

    Args:
        body: of the call.
        ids: of words, of segments, and of places, which are in order if they are not given.
        tables: of these.
        factors: of the normalization.
        mask: 1 for a word, 0 for what fills up.
    """
    words, segments, places = ids
    total = body.op("Gather", tables[0], words)
    if not places:
        places = body.axes(body.counted(body.extent(words, 1)), 0)
    total = body.op("Add", total, body.op("Gather", tables[1], places))
    if segments and tables[2]:
        total = body.op("Add", total, body.op("Gather", tables[2], segments))
    epsilon = body.given.get("epsilon", 1e-12)
    body.op("LayerNormalization", total, *factors, axis=-1, epsilon=epsilon, output=body.outputs[0])
    if body.asked(1):
        counted = mask or body.op("Sub", words, words)
        body.op("ReduceSum", counted, body.constant(1), keepdims=0, output=body.outputs[1])
    body.passed(total, 2)


# --- ops with a standard equivalent -------------------------------------------------------------


def _same(op: str, *attributes: str) -> Writer:
    """An op of the standard under this name."""

    def write(body: Body) -> None:
        body.op(op, *body.inputs, output=body.outputs[0], **body.chosen(*attributes))

    return write


def _expand(body: Body) -> None:
    body.op("Unsqueeze", body.taken(0), body.constant(body.number(1, "axis")), output="out0")


def _pad(body: Body) -> None:
    flat = body.reshaped(body.taken(1), -1)
    value = body.reshaped(body.taken(2)) if body.taken(2) else ""
    body.op("Pad", body.taken(0), flat, value, output="out0", **body.chosen("mode"))


def _range(body: Body) -> None:
    start, end = (body.reshaped(body.taken(place)) for place in (0, 1))
    one = body.op("CastLike", body.array(np.array(1, np.int64)), start)
    step = body.reshaped(body.taken(2)) if body.taken(2) else one
    body.op("Range", start, end, step, output="out0")


def _grid_sample(body: Body) -> None:
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    mode = body.text("mode", "bilinear")
    given = body.chosen("align_corners", "padding_mode")
    inputs = body.inputs[:2]
    body.op("GridSample", *inputs, mode=modes.get(mode, mode), output="out0", **given)


def _distance(body: Body) -> None:
    """Distances of the rows of two matrices, by their differences."""
    a, b = body.axes(body.taken(0), 1), body.axes(body.taken(1), 0)
    apart = body.op("Sub", a, b)
    kind = body.text("metric", "sqeuclidean")
    if kind not in ("sqeuclidean", "euclidean"):
        raise body.refuse(f"with metric = {kind}")
    op = "ReduceSumSquare" if kind == "sqeuclidean" else "ReduceL2"
    body.op(op, apart, body.constant(-1), keepdims=0, output="out0")


def _max_pool(body: Body) -> None:
    body.last(body.rank(0))
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides")
    made = body.op("MaxPool", body.first(body.taken(0), True), **body.chosen(*names))
    body.back(made, True, "out0")


FUSED: Mapping[str, Writer] = MappingProxyType(
    {
        "BiasGelu": _gelu(),
        "CDist": _distance,
        "EmbedLayerNormalization": _embedding,
        "ExpandDims": _expand,
        "FastGelu": _gelu("tanh"),
        "FusedConv": _conv,
        "FusedGemm": _gemm,
        "FusedMatMul": _matmul,
        "GatherND": _same("GatherND"),
        "Gelu": _gelu(),
        "GridSample": _grid_sample,
        "NhwcMaxPool": _max_pool,
        "Pad": _pad,
        "QEmbedLayerNormalization": _quantized_embedding,
        "QuickGelu": _quick_gelu,
        "Range": _range,
        "SimplifiedLayerNormalization": _simplified_norm,
        "SkipLayerNormalization": _skip_norm("LayerNormalization", (2, 3), 4),
        "SkipSimplifiedLayerNormalization": _skip_norm("RMSNormalization", (2,), 3),
        "TransposeMatMul": _matmul,
        "Trilu": _same("Trilu", "upper"),
    }
)
"""The function that writes the body of a call, by op name."""
