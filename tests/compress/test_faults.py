"""Faults: the bits that the list says, no others; in constants and between nodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compress.networks import assert_compiled
from tests.rewrite.checks import graph_of, infer, outputs_of
from tests.turns import examples
from weft.compress import fault_nodes, faults
from weft.compress.faults import (
    Fault,
    FaultParameters,
    NoiseParameters,
    activation_faults,
    weight_faults,
)
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ir.verify import verify
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.rewrite.recipe import Recipe, apply_recipe

FAULT_WEIGHTS, NOISE_WEIGHTS = faults.RECIPES
FAULT_ACTIVATIONS, NOISE_ACTIVATIONS = fault_nodes.RECIPES
# Shared weights, several outputs, ReLU6, several consumers.
NET = """(%x: f32[N,4,6,6]) -> (%y, %q) {
    const %w: f32[4,4,3,3]
    const %b: f32[4]
    %p: f32[N,4,6,6] = Conv(%x, %w, %b) {pads=(1,1,1,1)}
    %q: f32[N,4,6,6] = Clip(%p) {min=0.0, max=6.0}
    %r: f32[N,4,6,6] = Conv(%q, %w) {pads=(1,1,1,1)}
    %y: f32[N,4,6,6] = Add(%r, %q)
}"""
QUANTIZED = """(%x: f32[1,3,5,5]) -> (%y) {
    const %xs: f32[] = [0.02]
    const %xz: u8[] = [128]
    const %ws: f32[] = [0.01]
    const %wz: i8[] = [0]
    const %w: i8[4,3,3,3]
    const %ys: f32[] = [0.05]
    %q: u8[1,3,5,5] = QuantizeLinear(%x, %xs, %xz)
    %c: u8[1,4,3,3] = QLinearConv(%q, %xs, %xz, %w, %ws, %wz, %ys, %xz)
    %y: f32[1,4,3,3] = DequantizeLinear(%c, %ys, %xz)
}"""


def wrong_bits(before: np.ndarray, after: np.ndarray) -> list[tuple[int, int]]:
    """Element and bit of every difference."""
    size = before.dtype.itemsize
    unsigned = np.dtype(f"u{size}")
    apart = before.reshape(-1).view(unsigned) ^ after.reshape(-1).view(unsigned)
    return [
        (int(element), bit)
        for element in np.flatnonzero(apart)
        for bit in range(8 * size)
        if int(apart[element]) >> bit & 1
    ]


@settings(max_examples=examples(40), deadline=None)
@given(
    rate=st.sampled_from([0.001, 0.01, 0.3, 1.0]),
    seed=st.integers(0, 50),
    bits=st.sampled_from([(), (31,), (0, 7, 23)]),
)
def test_the_list_says_which_bits_flip(rate: float, seed: int, bits: tuple[int, ...]) -> None:
    graph = graph_of(NET)
    parameters = FaultParameters(rate=rate, seed=seed, bits=bits)
    listed = weight_faults(graph, parameters)
    done = faults.fault_weights(graph, parameters)
    for name, array in graph.constants.items():
        expected = sorted((f.element, f.bit) for f in listed if f.tensor == name)
        assert wrong_bits(array, done.constants[name]) == expected
    assert all(not bits or fault.bit in bits for fault in listed)
    assert weight_faults(graph, parameters) == listed
    if rate == 1.0:
        assert len(listed) == 148 * len(bits or range(32))


def test_the_rate_is_kept() -> None:
    graph = graph_of(
        "(%x: f32[1,64]) -> (%y) { const %w: f32[64,64]\n %y: f32[1,64] = MatMul(%x, %w) }"
    )
    found = len(weight_faults(graph, FaultParameters(rate=0.01, seed=3)))
    expected = 64 * 64 * 32 * 0.01
    assert abs(found - expected) < 5 * np.sqrt(expected)


@pytest.mark.parametrize("text", [NET, QUANTIZED])
def test_so_many(text: str) -> None:
    graph = graph_of(text)
    listed = weight_faults(graph, FaultParameters(count=17, seed=1))
    assert len(set(listed)) == 17
    everything = sum(8 * array.nbytes for array in graph.constants.values())
    if text is NET:
        assert len(weight_faults(graph, FaultParameters(count=everything))) == everything
    else:
        # Zero points are integers too, but not what is counted as a stored number.
        assert {fault.tensor for fault in listed} <= {"xs", "ws", "ys", "w"}


@pytest.mark.parametrize("kind", ["stuck0", "stuck1"])
def test_stuck_bits(kind: str) -> None:
    graph = graph_of(NET)
    done = apply_recipe(graph, FAULT_WEIGHTS, {"kind": kind, "rate": 1.0, "bits": (31,)})
    for name, array in graph.constants.items():
        expected = np.abs(array) if kind == "stuck0" else -np.abs(array)
        np.testing.assert_array_equal(done.constants[name], expected)


def test_given_bits_of_integers_and_floats() -> None:
    graph = graph_of(QUANTIZED)
    done = apply_recipe(graph, FAULT_WEIGHTS, {"at": "w[5].7,ws[0].31"})
    assert done.constants["ws"] == -graph.constants["ws"]
    w = graph.constants["w"].copy()
    w.reshape(-1)[5] ^= -128
    np.testing.assert_array_equal(done.constants["w"], w)
    assert str(Fault("w", 5, 7)) == "w[5].7"
    assert_compiled(done)


def test_a_shared_weight_is_damaged_once_for_all() -> None:
    graph = graph_of(NET)
    done = apply_recipe(graph, FAULT_WEIGHTS, {"at": "w[0].31"})
    assert [node.inputs for node in done.nodes] == [node.inputs for node in graph.nodes]
    assert_compiled(done)


@pytest.mark.parametrize("kind", ["flip", "stuck0", "stuck1"])
@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.F16, DType.BF16, DType.I8, DType.U8])
def test_bits_of_values(dtype: DType, kind: str) -> None:
    """What comes out differs from what went in by the listed bits only."""
    builder = GraphBuilder(OPS)
    x = builder.input("x", TensorType(dtype, (2, 3)))
    graph = builder.graph([builder.op("Identity", x, output="y")])
    parameters = FaultParameters(kind=kind, rate=0.2, seed=2, tensors=("y",))  # type: ignore[arg-type]
    listed = activation_faults(graph, parameters)
    assert listed
    done = fault_nodes.fault_activations(graph, parameters)
    verify(done, infer)
    x_array = np.random.default_rng(0).integers(-9, 9, (2, 3)).astype(dtype.numpy)
    y = evaluate(done, {"x": x_array}, OPS)["y"]
    named = {(fault.element, fault.bit) for fault in listed}
    unsigned = faults.UNSIGNED[dtype.bytes].numpy
    for element, bit in wrong_bits(x_array, y):
        assert (element, bit) in named
    for element, bit in named:
        found = int(y.reshape(-1).view(unsigned)[element]) >> bit & 1
        was = int(x_array.reshape(-1).view(unsigned)[element]) >> bit & 1
        assert found == {"flip": 1 - was, "stuck0": 0, "stuck1": 1}[kind]


def test_flipped_signs_through_compiled_c() -> None:
    graph = graph_of(NET)
    done = apply_recipe(
        graph, FAULT_ACTIVATIONS, {"rate": 0.3, "bits": "31,22", "tensors": "p,q,x,y"}
    )
    verify(done, infer)
    assert done.outputs == graph.outputs
    assert {node.op for node in done.nodes} >= {"BitCast", "BitwiseXor"}
    assert_compiled(done)


def test_every_sample_has_the_same_damage() -> None:
    graph = graph_of("(%x: f32[N,4]) -> (%y) { %y: f32[N,4] = Relu(%x) }")
    done = apply_recipe(graph, FAULT_ACTIVATIONS, {"at": "y[2].31"})
    x = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
    y = evaluate(done, {"x": x}, OPS)["y"]
    np.testing.assert_array_equal(y, x * np.float32([1, 1, -1, 1]))


def test_quantized_values_are_damaged_without_casts() -> None:
    graph = graph_of(QUANTIZED)
    done = apply_recipe(graph, FAULT_ACTIVATIONS, {"count": 20, "tensors": "c"})
    assert "BitCast" not in {node.op for node in done.nodes}
    apart = outputs_of(done)["y"] - outputs_of(graph)["y"]
    assert np.abs(apart).max() > 0
    assert_compiled(done)


def test_no_faults_leave_the_graph() -> None:
    graph = graph_of(NET)
    for recipe in (FAULT_WEIGHTS, FAULT_ACTIVATIONS):
        assert apply_recipe(graph, recipe, {"rate": 1e-12}) is graph


def test_noise_on_weights_has_the_spread_asked_for() -> None:
    text = "(%x: f32[1,64]) -> (%y) { const %w: f32[64,64]\n %y: f32[1,64] = MatMul(%x, %w) }"
    graph = graph_of(text, w=np.random.default_rng(0).normal(0, 3, (64, 64)).astype(np.float32))
    done = NOISE_WEIGHTS.apply(graph, NoiseParameters(0.1, seed=4))
    apart = done.constants["w"] - graph.constants["w"]
    assert 0.27 < apart.std() < 0.33
    assert abs(apart.mean()) < 0.02
    again = NOISE_WEIGHTS.apply(graph, NoiseParameters(0.1, seed=4))
    np.testing.assert_array_equal(again.constants["w"], done.constants["w"])


def test_noise_on_integers_is_rounded_and_held() -> None:
    graph = graph_of(QUANTIZED, w=np.full((4, 3, 3, 3), 127, np.int8))
    w = graph.constants["w"].copy()
    w.reshape(-1)[::2] = -128
    graph = graph_of(QUANTIZED, w=w)
    done = apply_recipe(graph, NOISE_WEIGHTS, {"sigma": 0.05, "tensors": "w"})
    found = done.constants["w"].astype(int)
    assert found.max() == 127
    assert found.min() == -128
    assert len(np.unique(found)) > 4


def test_noise_on_values() -> None:
    graph = graph_of(NET)
    done = apply_recipe(graph, NOISE_ACTIVATIONS, {"sigma": 0.5, "tensors": "y"})
    apart = outputs_of(done)["y"] - outputs_of(graph)["y"]
    np.testing.assert_allclose(apart, np.broadcast_to(apart[:1], apart.shape), atol=1e-4)
    assert 0.4 < apart[0].std() < 0.6
    assert_compiled(done)


@pytest.mark.parametrize(
    ("recipe", "values", "message"),
    [
        (
            FAULT_WEIGHTS,
            {},
            "fault-weights: exactly one of rate, count and at must be given; got rate=0 count=0 "
            "at=",
        ),
        (FAULT_WEIGHTS, {"rate": 2}, "fault-weights: rate must be within [0, 1]; got 2"),
        (
            FAULT_WEIGHTS,
            {"rate": 0.5, "bits": (40,)},
            "fault-weights: bits of f32 are 0 to 31, 0 being the lowest; got bits=40",
        ),
        (
            FAULT_ACTIVATIONS,
            {"rate": 0.5, "bits": (3, -1)},
            "fault-activations: bits of f32 are 0 to 31, 0 being the lowest; got bits=3,-1",
        ),
        (
            FAULT_WEIGHTS,
            {"at": "w[0].3", "bits": (2,)},
            "fault-weights: bits restricts random bits; at already names them; got bits=2",
        ),
        (
            NOISE_WEIGHTS,
            {"sigma": 0},
            "noise-weights: sigma must be a finite number above 0; got 0",
        ),
        (
            NOISE_WEIGHTS,
            {"sigma": "inf"},
            "noise-weights: sigma must be a finite number above 0; got inf",
        ),
        (
            FAULT_WEIGHTS,
            {"at": "w[144].0"},
            "fault-weights: w is f32[4,4,3,3], with 144 elements of 32 bits; got w[144].0",
        ),
        (
            FAULT_WEIGHTS,
            {"at": "w 3"},
            "fault-weights: a bit is written TENSOR[ELEMENT].BIT; got w 3",
        ),
        (
            FAULT_WEIGHTS,
            {"count": 10**6},
            "fault-weights: count exceeds the number of bits; got 1000000",
        ),
        (
            NOISE_WEIGHTS,
            {"sigma": -1},
            "noise-weights: sigma must be a finite number above 0; got -1",
        ),
        (
            FAULT_ACTIVATIONS,
            {"rate": 0.1, "tensors": "conv"},
            "fault-activations: there is no layer or weight conv. There are: x, p, q, r, y.",
        ),
        (FAULT_ACTIVATIONS, {"rate": 0.1, "seed": -1}, "faults: seed must not be negative; got -1"),
    ],
)
def test_wrong_parameters(recipe: Recipe, values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        apply_recipe(graph_of(NET), recipe, values)
    assert str(caught.value) == message


def test_a_graph_of_indices_has_nothing_to_damage() -> None:
    text = "(%x: i64[3]) -> (%y) { %y: i64[3] = Neg(%x) }"
    graph: Graph = graph_of(text)
    for recipe in (FAULT_WEIGHTS, FAULT_ACTIVATIONS):
        with pytest.raises(UserError) as caught:
            apply_recipe(graph, recipe, {"rate": 0.1})
        assert str(caught.value) == (f"{recipe.name}: the graph has no tensor of numbers to damage")
