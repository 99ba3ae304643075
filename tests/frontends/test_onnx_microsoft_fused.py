"""Fused, attention, block and recurrent ops of onnxruntime's own operator set, against it.

Single nodes, and files that onnxruntime saves: graphs that it has optimized, quantized weights.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

import weft
from tests.exact_sessions import WEIGHT
from tests.turns import a_few
from weft.errors import UserError
from weft.frontends.onnx.microsoft.contrib_ops import BODIES

ROOT = Path(__file__).parents[2]
B, S, H, D = 2, 6, 4, 8
"""Batch, sequence, heads, and the size of one."""
N = H * D


@dataclass
class Call:
    """A node and what it is given.

    Attributes:
        op: of the node.
        inputs: in order; ``None`` for one that is left out.
        data: places of those that are inputs of the network; the others are constants.
        attributes: of the node.
        outputs: which are compared.
        label: tells it from others of the op.
        domain: of the op.
        off: how far results may be from onnxruntime's.
        has: an op that the network must have.
        held: rows of each batch entry's caches that are compared; the others hold anything.
    """

    op: str
    inputs: Sequence[np.ndarray | None]
    data: Sequence[int] = (0,)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[int] = (0,)
    label: str = ""
    domain: str = "com.microsoft"
    off: float = 2e-5
    has: str = ""
    held: Sequence[int] = ()

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


def floats(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, dtype: type = np.int32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def model(call: Call, results: Sequence[np.ndarray] | None = None) -> onnx.ModelProto:
    def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, kind, array.shape)

    names = [f"i{place}" if each is not None else "" for place, each in enumerate(call.inputs)]
    outs = ["" if at not in call.outputs else f"o{at}" for at in range(max(call.outputs) + 1)]
    node = helper.make_node(call.op, names, outs, domain=call.domain, **call.attributes)
    given = {names[at]: each for at, each in enumerate(call.inputs) if each is not None}
    data = [names[at] for at in call.data]
    inputs = [info(name, given[name]) for name in data]
    constants = [
        numpy_helper.from_array(each, name) for name, each in given.items() if name not in data
    ]
    shown = [name for name in outs if name]
    made = [helper.make_empty_tensor_value_info(name) for name in shown]
    if results is not None:
        made = [info(name, each) for name, each in zip(shown, results, strict=True)]
    graph = helper.make_graph([node], "g", inputs, made, constants)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def fused() -> Iterator[Call]:
    x, bias = floats(B, S, N), floats(N, seed=1)
    yield Call("Gelu", [x], has="Gelu")
    yield Call("FastGelu", [x, bias], has="Gelu")
    yield Call("FastGelu", [x], label="plain", has="Gelu")
    yield Call("BiasGelu", [x, bias], has="Gelu")
    yield Call("QuickGelu", [x], attributes={"alpha": 1.5}, has="Swish")
    a, b = floats(3, S, D), floats(3, D, N, seed=2)
    turned = np.ascontiguousarray
    yield Call("FusedMatMul", [a, b], (0, 1), {"alpha": 0.25})
    yield Call("TransposeMatMul", [turned(a.mT), b], (0, 1), {"transA": 1})
    yield Call("FusedMatMul", [a, turned(b.mT)], (0, 1), {"transB": 1}, label="b")
    rows = turned(a.transpose(1, 0, 2))
    yield Call("FusedMatMul", [rows, b], (0, 1), {"transBatchA": 1}, label="batch")
    both = turned(b.transpose(2, 0, 1))
    given = {"transBatchB": 1, "transB": 1}
    yield Call("FusedMatMul", [a, both], (0, 1), given, label="batch-b")
    gemm = [floats(S, N), floats(N, D, seed=3), floats(D, seed=4)]
    for name, extra in (
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.3}),
        ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}),
        ("Tanh", {}),
    ):
        yield Call("FusedGemm", gemm, (0,), {"activation": name, **extra, "alpha": 0.5}, label=name)
    image, filters, add = floats(1, 3, 8, 8), floats(5, 3, 3, 3, seed=5), floats(1, 5, 8, 8, seed=6)
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    conv = [image, filters, floats(5, seed=7)]
    for name, parameters in (("Relu", ()), ("LeakyRelu", (0.2,)), ("Clip", (-0.5, 0.7))):
        given = {"activation": name, **window}
        if parameters:
            given["activation_params"] = list(parameters)
        yield Call("FusedConv", conv, (0,), given, label=name)
    yield Call("FusedConv", [*conv, add], (0, 3), {"activation": "Relu", **window}, label="sum")
    skip, gamma, beta = floats(B, S, N, seed=8), floats(N, seed=9), floats(N, seed=10)
    norm = [x, skip, gamma, beta]
    yield Call("SkipLayerNormalization", norm, (0, 1), {"epsilon": 1e-5}, has="LayerNormalization")
    yield Call("SkipLayerNormalization", [*norm, bias], (0, 1), outputs=(0, 3), label="sum")
    same = [x, skip[:1], gamma]
    yield Call("SkipLayerNormalization", same, (0, 1), label="broadcast")
    simple = [x, skip, gamma, bias]
    yield Call("SkipSimplifiedLayerNormalization", simple, (0, 1), outputs=(0, 3))
    given = {"axis": -1, "epsilon": 1e-6}
    yield Call("SimplifiedLayerNormalization", [x, gamma], (0,), given, domain="")
    ids, kinds = integers(0, 20, B, S), integers(0, 2, B, S, seed=1)
    tables = [floats(20, N), floats(9, N, seed=1), floats(2, N, seed=2)]
    mask = (np.arange(S) < np.array([[4], [6]])).astype(np.int32)
    inputs = [ids, kinds, *tables, gamma, beta, mask]
    yield Call("EmbedLayerNormalization", inputs, (0, 1, 7), outputs=(0, 1, 2))
    plain = [ids, None, *tables[:2], None, gamma, beta, None, integers(0, 9, B, S, seed=3)]
    yield Call("EmbedLayerNormalization", plain, (0, 8), outputs=(0, 1), label="places")


def renamed() -> Iterator[Call]:
    x, one = floats(3, 4, 5), np.array(1, np.int64)
    yield Call("Trilu", [x, one], (0,), {"upper": 0})
    yield Call("Pad", [x, np.array([0, 1, 0, 0, 0, 2], np.int64), np.array([7], np.float32)])
    yield Call("ExpandDims", [x, np.array(1, np.int32)])
    yield Call("GatherND", [x, np.array([[0, 1], [2, 3]], np.int64)])
    ends = [np.array(each, np.float32) for each in (1, 9, 2.5)]
    yield Call("Range", ends, ())
    grid = np.random.default_rng(3).uniform(-1.2, 1.2, (1, 5, 6, 2)).astype(np.float32)
    given = {"mode": "bilinear", "padding_mode": "border", "align_corners": 1}
    yield Call("GridSample", [floats(1, 2, 8, 8), grid], (0, 1), given)
    for metric in ("sqeuclidean", "euclidean"):
        rows = [floats(6, 8), floats(5, 8, seed=1)]
        yield Call("CDist", rows, (0, 1), {"metric": metric}, label=metric, off=1e-4)
    image = integers(-128, 128, 1, 8, 8, 4, dtype=np.int8)
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Call("NhwcMaxPool", [image], (0,), window, off=0)


def quantized() -> Iterator[Call]:
    numbers = [integers(0, 256, count, N, dtype=np.uint8, seed=count) for count in (20, 9, 2)]
    factors = [integers(0, 256, N, dtype=np.uint8, seed=seed) for seed in (4, 5)]
    scales = [np.array(each, np.float32) for each in (0.02, 0.01, 0.03, 0.004, 0.005)]
    zeros = [np.array(each, np.uint8) for each in (128, 100, 120, 90, 128)]
    ids, kinds = integers(0, 20, B, S), integers(0, 2, B, S, seed=1)
    mask = (np.arange(S) < np.array([[4], [6]])).astype(np.int32)
    inputs = [ids, kinds, *numbers, *factors, mask, *scales, *zeros]
    yield Call("QEmbedLayerNormalization", inputs, (0, 1, 7), outputs=(0, 1))


def attention() -> Iterator[Call]:
    x, weights, bias = floats(B, S, 20), floats(20, 3 * N, seed=1, scale=0.3), floats(3 * N, seed=2)
    base = [x, weights, bias]
    heads = {"num_heads": H}
    lengths = np.array([4, 6], np.int32)
    left = np.array([6, 5, 1, 0], np.int32)
    mask = (np.arange(S) < lengths[:, None]).astype(np.int32)
    past = floats(2, B, H, 3, D, seed=3)
    yield Call("Attention", base, (0,), heads, has="Attention")
    yield Call(
        "Attention", base, (0,), {**heads, "unidirectional": 1, "scale": 0.2}, label="causal"
    )
    yield Call("Attention", [*base, lengths], (0, 3), heads, label="lengths")
    yield Call("Attention", [*base, left], (0, 3), heads, label="ends")
    yield Call("Attention", [*base, mask], (0, 3), heads, label="mask")
    full = np.repeat(mask[:, None], S, 1)
    yield Call("Attention", [*base, full], (0, 3), heads, label="mask-3")
    causal = {**heads, "unidirectional": 1}
    yield Call("Attention", [*base, None, past], (0, 4), causal, (0, 1), "past", has="Attention")
    scores = floats(1, H, S, S, seed=4)
    yield Call("Attention", [*base, None, None, scores], (0, 5), heads, label="bias")
    uneven = [x, floats(20, 2 * N + 16, seed=5, scale=0.3), floats(2 * N + 16, seed=6)]
    sizes = {**heads, "qkv_hidden_sizes": [N, N, 16]}
    yield Call("Attention", uneven, (0,), sizes, label="uneven")
    whole = integers(0, 256, B, S, 20, dtype=np.uint8)
    narrow = integers(-WEIGHT, WEIGHT + 1, 20, 3 * N, dtype=np.int8)
    rates = np.array(0.02, np.float32), np.array(0.005, np.float32)
    zeros = np.array(128, np.uint8), np.array(0, np.int8)
    quantized = [whole, narrow, bias, *rates, None, *zeros]
    yield Call("QAttention", quantized, (0,), heads, has="MatMulInteger")
    masked = [*quantized[:5], lengths, *zeros]
    yield Call("QAttention", masked, (0, 5), heads, label="mask")
    q, k, v = floats(B, S, N), floats(B, 7, N, seed=1), floats(B, 7, N, seed=2)
    yield Call("MultiHeadAttention", [q, k, v], (0, 1, 2), heads, has="Attention")
    yield Call("MultiHeadAttention", [q, k, v, bias], (0, 1, 2), heads, label="bias")
    seven = (np.arange(7) < np.array([[5], [7]])).astype(np.int32)
    yield Call("MultiHeadAttention", [q, k, v, None, seven], (0, 1, 2, 4), heads, label="mask")
    own = [q, floats(B, S, N, seed=1), floats(B, S, N, seed=2)]
    caches = [past[0], past[1]]
    longer = [*own, None, None, floats(B, H, S, S + 3, seed=8), *caches]
    yield Call("MultiHeadAttention", longer, (0, 1, 2, 5, 6, 7), heads, (0, 1, 2), "past")
    crossed = [q, floats(B, H, 7, D, seed=3), floats(B, H, 7, D, seed=4)]
    yield Call("MultiHeadAttention", crossed, (0, 1, 2), heads, label="heads")


def rotary() -> Iterator[Call]:
    angles = np.random.default_rng(1).uniform(0, 6, (16, D // 2))
    caches = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    x, places = floats(B, S, N), integers(0, 16, B, S, dtype=np.int64)
    first = np.array([5], np.int64)
    yield Call("RotaryEmbedding", [x, places, *caches], (0, 1), has="RotaryEmbedding")
    yield Call("RotaryEmbedding", [x, first, *caches], (0, 1), {"interleaved": 1}, label="first")
    apart = floats(B, H, S, D)
    yield Call("RotaryEmbedding", [apart, first, *caches], (0, 1), label="heads")
    half = [each[:, : D // 4] for each in caches]
    given = {"num_heads": H, "rotary_embedding_dim": D // 2}
    yield Call("RotaryEmbedding", [x, places, *half], (0, 1), given, label="part")


def grouped() -> Iterator[Call]:
    groups, head = 2, 16
    given = {"num_heads": H, "kv_num_heads": groups}
    angles = np.random.default_rng(1).uniform(0, 6, (32, head // 2))
    caches = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]

    def call(
        label: str, new: int, past: int, total: int, lengths: Sequence[int], **more: Any
    ) -> Call:
        batch = len(lengths)
        parts: list[np.ndarray | None] = [
            floats(batch, new, H * head),
            floats(batch, new, groups * head, seed=1),
            floats(batch, new, groups * head, seed=2),
        ]
        if more.pop("packed", False):
            parts = [np.concatenate([np.asarray(each) for each in parts], 2), None, None]
        held = [floats(batch, groups, past, head, seed=seed) for seed in (3, 4)]
        last = np.array(lengths, np.int32)
        inputs = [*parts, *held, last, np.array(total, np.int32), *caches]
        places = [at for at in (0, 1, 2, 3, 4, 5) if inputs[at] is not None]
        return Call(
            "GroupQueryAttention",
            inputs,
            places,
            {**given, **more},
            (0, 1, 2),
            label,
            held=[each + 1 for each in lengths],
        )

    yield call("decode", 1, 5, 6, [5, 5])
    yield call("ragged", 1, 5, 6, [5, 3], do_rotary=1)
    yield call("packed", 1, 5, 6, [5], do_rotary=1, packed=True)
    yield call("interleaved", 1, 5, 6, [5], do_rotary=1, rotary_interleaved=1, scale=0.3)
    yield call("room", 1, 12, 7, [6])
    yield call("window", 1, 9, 10, [9], local_window_size=4)
    yield call("softcap", 1, 5, 6, [5], softcap=2.0)
    yield call("chunk", 4, 5, 9, [8], do_rotary=1)
    prompt = call("prompt", 6, 6, 6, [5, 5], do_rotary=1)
    yield prompt


def blocks() -> Iterator[Call]:
    rows, columns, size = 96, 24, 32
    x = floats(3, rows)
    scales = np.abs(floats(columns, 3, seed=1, scale=0.1))
    four = integers(0, 256, columns, 3, size // 2, dtype=np.uint8)
    given = {"K": rows, "N": columns, "bits": 4, "block_size": size}
    yield Call("MatMulNBits", [x, four, scales], (0,), given, off=2e-4)
    points = integers(0, 256, columns, 2, dtype=np.uint8, seed=2)
    yield Call("MatMulNBits", [x, four, scales, points], (0,), given, label="zeros", off=2e-4)
    flat = [x, four, scales.reshape(-1), points.reshape(-1)]
    yield Call("MatMulNBits", flat, (0,), given, label="flat", off=2e-4)
    real = [x, four, scales, floats(columns, 3, seed=3, scale=4), None, floats(columns, seed=4)]
    yield Call("MatMulNBits", real, (0,), given, label="bias", off=2e-4)
    eight = integers(0, 256, columns, 3, size, dtype=np.uint8)
    yield Call("MatMulNBits", [x, eight, scales], (0,), {**given, "bits": 8}, label="8", off=4e-3)
    two = integers(0, 256, columns, 3, size // 4, dtype=np.uint8)
    pairs = integers(0, 256, columns, 1, dtype=np.uint8, seed=2)
    yield Call("MatMulNBits", [x, two, scales, pairs], (0,), {**given, "bits": 2}, label="2")
    short = {**given, "K": 80}
    yield Call("MatMulNBits", [x[:, :80], four, scales], (0,), short, label="rest", off=2e-4)
    for kind in (0, 1):
        packed = integers(0, 256, rows * columns // 2, dtype=np.uint8)
        most = np.abs(floats(rows * columns // size, seed=5))
        table = {"K": rows, "N": columns, "quant_type": kind, "block_size": size}
        yield Call("MatMulBnb4", [x, packed, most], (0,), table, label=str(kind), off=1e-4)
    ids = integers(0, 20, 2, 5, dtype=np.int64)
    table = integers(0, 256, 20, 32, dtype=np.uint8)
    rates, zeros = floats(20, 2, seed=6), integers(0, 256, 20, 1, dtype=np.uint8)
    given = {"bits": 4, "block_size": 32, "gather_axis": 0, "quantize_axis": 1}
    yield Call("GatherBlockQuantized", [table, ids, rates], (1,), given)
    yield Call("GatherBlockQuantized", [table, ids, rates, zeros], (1,), given, label="zeros")
    wide = {**given, "bits": 8, "block_size": 16}
    yield Call("GatherBlockQuantized", [table, ids, rates], (1,), wide, label="8")


def recurrent() -> Iterator[Call]:
    hidden, width = 16, 12
    for label, count, kind in (
        ("", 1, "forward"),
        ("back", 1, "reverse"),
        ("both", 2, "bidirectional"),
    ):
        limits = -WEIGHT, WEIGHT + 1
        weights = integers(*limits, count, width, 4 * hidden, dtype=np.int8)
        turned = integers(*limits, count, hidden, 4 * hidden, dtype=np.int8, seed=1)
        rates = [np.full(count, each, np.float32) for each in (0.004, 0.005)]
        zeros = [np.zeros(count, np.int8)] * 2
        bias = floats(count, 8 * hidden, seed=2, scale=0.2)
        inputs = [floats(7, 1, width), weights, turned, bias, *[None] * 4]
        inputs += [rates[0], zeros[0], rates[1], zeros[1]]
        given = {"hidden_size": hidden, "direction": kind}
        yield Call("DynamicQuantizeLSTM", inputs, (0,), given, (0, 1, 2), label, off=2e-3)
    states = [floats(1, 1, hidden, seed=seed) for seed in (5, 6)]
    peepholes = floats(1, 3 * hidden, seed=7, scale=0.2)
    wide = [np.full((1, 4 * hidden), each, np.float32) for each in (0.004, 0.005)]
    none = [np.zeros((1, 4 * hidden), np.int8)] * 2
    inputs = [floats(7, 1, width), weights[:1], turned[:1], bias[:1], None, *states, peepholes]
    inputs += [wide[0], none[0], wide[1], none[1]]
    given = {"hidden_size": hidden, "clip": 1.5}
    yield Call("DynamicQuantizeLSTM", inputs, (0, 5, 6), given, (0, 1, 2), "states", off=2e-3)


CALLS = [
    *fused(),
    *renamed(),
    *quantized(),
    *attention(),
    *rotary(),
    *grouped(),
    *blocks(),
    *recurrent(),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_same_as_onnxruntime(call: Call, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model(call).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = {f"i{place}": np.asarray(call.inputs[place]) for place in call.data}
    expected = [np.asarray(each) for each in session.run(None, given)]
    path = tmp_path / "net.onnx"
    onnx.save(model(call, expected), path)
    net = weft.load(path)
    assert not call.has or call.has in {node.op for node in net.graph.nodes}
    for found, wanted in zip(net.reference(given), expected, strict=True):
        found = np.asarray(found)
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        off = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
        if found.ndim == 4:
            for entry, rows in enumerate(call.held):
                off[entry, :, rows:] = 0
        assert off.max() <= call.off


@pytest.mark.parametrize("label", a_few(["", "zeros", "8", "rest"]))
def test_codes_stay_codes_in_products_with_a_vector(label: str, tmp_path: Path) -> None:
    (call,) = [each for each in blocks() if each.op == "MatMulNBits" and each.label == label]
    x = np.asarray(call.inputs[0])[:1]
    single = replace(call, inputs=[x, *call.inputs[1:]])
    path = tmp_path / "net.onnx"
    onnx.save(model(single, [floats(1, call.attributes["N"])]), path)
    net = weft.load(path)
    text = str(net.plan("x86-avx512", encoding="quantized"))
    assert " as quantized, " in text
    (wanted,) = net.reference({"i0": x})
    found = net.compile(encoding="quantized", threads=1)(x)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-4, atol=1e-3)


SAVED = {
    "conv": (
        ("FusedConv",),
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1,3,8,8] x, float[4,3,3,3] w, float[4] b, float[4,2] m, float[2] c)
            => (float[1,2] y)
        {
            conv = Conv <kernel_shape = [3, 3]> (x, w, b)
            low = Relu (conv)
            pooled = GlobalAveragePool (low)
            flat = Flatten (pooled)
            out = Gemm (flat, m, c)
            y = Relu (out)
        }
        """,
    ),
    "block": (
        ("FusedMatMul", "SkipLayerNormalization", "Gelu"),
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[2,6,32] x, float[32,32] q, float[32,32] k, float[32,32] w, float[32] s,
           float[32] b)
            => (float[2,6,32] y)
        {
            queries = MatMul (x, q)
            keys = MatMul (x, k)
            turned = Transpose <perm = [0, 2, 1]> (keys)
            products = MatMul (queries, turned)
            eighth = Constant <value = float {0.125}> ()
            scores = Mul (products, eighth)
            shares = Softmax <axis = -1> (scores)
            mixed = MatMul (shares, x)
            total = Add (x, mixed)
            normal = LayerNormalization <axis = -1, epsilon = 1e-5> (total, s, b)
            inner = MatMul (normal, w)
            root = Constant <value = float {1.4142135}> ()
            one = Constant <value = float {1.0}> ()
            half = Constant <value = float {0.5}> ()
            ratio = Div (inner, root)
            erf = Erf (ratio)
            raised = Add (erf, one)
            scaled = Mul (inner, raised)
            active = Mul (scaled, half)
            after = Add (normal, active)
            y = LayerNormalization <axis = -1, epsilon = 1e-5> (after, s, b)
        }
        """,
    ),
}
"""Ops that onnxruntime puts into a graph, and the graph."""


@pytest.mark.parametrize("name", SAVED)
def test_what_onnxruntime_saves(name: str, tmp_path: Path) -> None:
    ops, text = SAVED[name]
    proto = parser.parse_model(text)
    data = {
        each.name: floats(*(dim.dim_value for dim in each.type.tensor_type.shape.dim), seed=at)
        for at, each in enumerate(proto.graph.input)
    }
    x = {"x": data.pop("x")}
    kept = [each for each in proto.graph.input if each.name == "x"]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    proto.graph.initializer.extend(
        numpy_helper.from_array(each, word) for word, each in data.items()
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    path = tmp_path / "saved.onnx"
    options.optimized_model_filepath = str(path)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    saved = {node.op_type for node in onnx.load(path).graph.node if node.domain}
    assert saved >= set(ops)
    (expected,) = session.run(None, x)
    found = weft.load(path).compile(threads=1)(*x.values())
    assert np.abs(np.asarray(found) - np.asarray(expected)).max() < 2e-5


def test_the_page_names_every_op() -> None:
    text = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    table = text.split("| ops | supported |\n")[1].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[1:]]
    named = [name.strip() for cell in cells for name in cell.split(",")]
    assert sorted(named) == sorted(BODIES)


def refused(call: Call, tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    proto = model(call, [floats(1)] * len(call.outputs))
    onnx.save(proto, path)
    with pytest.raises(UserError) as error:
        weft.load(path)
    return str(error.value)


def test_a_use_without_a_body_is_refused(tmp_path: Path) -> None:
    heads = {"num_heads": H}
    base = [floats(B, S, 20), floats(20, 3 * N), floats(3 * N)]
    turned = Call("Attention", base, (0,), {**heads, "do_rotary": 1})
    assert "Attention with do_rotary = 1 is not supported" in refused(turned, tmp_path)
    packed = Call("MultiHeadAttention", [floats(B, S, H, 3, D), None, None], (0,), heads)
    assert "queries, keys and values in one tensor" in refused(packed, tmp_path)
    masked = Call("Attention", [*base, integers(0, 2, 7)], (0, 3), heads)
    assert "a mask of 7 numbers for a batch of 2" in refused(masked, tmp_path)
    other = Call("FusedConv", [floats(1, 3, 8, 8), floats(5, 3, 3, 3)], (0,), {"activation": "Foo"})
    assert "FusedConv with activation = Foo is not supported" in refused(other, tmp_path)
    picked = Call("DynamicQuantizeLSTM", [None], (), {"activations": ["Relu"] * 3})
    assert "activations" in refused(picked, tmp_path)


MALFORMED = (0, -1, 3, 7, 1 << 40, 0.5, "x", [], [0, -3], ["Tanh"])


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_malformed_calls_are_refused_whole(call: Call, tmp_path: Path) -> None:
    draw = random.Random(str(call))
    path = tmp_path / "net.onnx"
    for _ in range(12):
        parts = list(call.inputs)
        changed = replace(call, inputs=parts, attributes=dict(call.attributes))
        kind = draw.choice(("attribute", "absent", "shape", "type", "left out"))
        at = draw.randrange(len(call.inputs))
        given = call.inputs[at]
        if kind == "attribute" and changed.attributes:
            changed.attributes[draw.choice(list(changed.attributes))] = draw.choice(MALFORMED)
        elif kind == "absent" and changed.attributes:
            del changed.attributes[draw.choice(list(changed.attributes))]
        elif kind == "shape" and given is not None:
            parts[at] = draw.choice((given.reshape(-1), given[None], given.reshape(-1)[:1]))
        elif kind == "type" and given is not None:
            parts[at] = given.astype(draw.choice((np.float32, np.int64, np.uint8)))
        elif at not in call.data:
            parts[at] = None
        results = [floats(1)] * len(call.outputs)
        try:
            path.write_bytes(model(changed, results).SerializeToString())
        except (TypeError, ValueError):  # no file can be so
            continue
        with contextlib.suppress(UserError):
            weft.load(path)


def test_the_length_of_a_cache_must_be_known(tmp_path: Path) -> None:
    (call,) = [each for each in grouped() if each.label == "decode"]
    open_ = Call(call.op, call.inputs, (*call.data, 6), call.attributes)
    text = refused(open_, tmp_path)
    assert "GroupQueryAttention needs a constant total_sequence_length" in text
    assert "--constant" in text


def test_a_layout_of_one_machine_is_refused_with_advice(tmp_path: Path) -> None:
    call = Call("Conv", [floats(1, 16, 8, 8)], (0,), domain="com.microsoft.nchwc")
    proto = model(call, [floats(1)])
    proto.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    path = tmp_path / "net.onnx"
    onnx.save(proto, path)
    with pytest.raises(UserError, match="ORT_ENABLE_EXTENDED"):
        weft.load(path)
