"""Low ranks: the same numbers at full rank, the nearest ones below, and fewer MACs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compress.networks import assert_compiled
from tests.compress.random_networks import networks
from tests.rewrite.checks import assert_same, graph_of, infer, outputs_of
from tests.turns import examples, in_turn
from weft.compress.lowrank import RECIPES, Factors, LowRankParameters, low_rank, ranks
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.table import OPS
from weft.plan.stats import stats
from weft.rewrite.recipe import apply_recipe
from weft.rewrite.rule import Exactness

(LOW_RANK,) = RECIPES
# One weight that two layers read, two outputs, ReLU6, strides and uneven pads.
NET = """(%x: f32[1,6,9,8]) -> (%y, %r) {
    const %w: f32[8,6,3,5]
    const %b: f32[8]
    const %v: f32[8,8,3,3]
    const %f: f32[8,10]
    const %m: f32[12,10]
    %a: f32[1,8,5,3] = Conv(%x, %w, %b) {strides=(2,2), pads=(1,0,2,1)}
    %r: f32[1,8,5,3] = Clip(%a) {min=0.0, max=6.0}
    %c: f32[1,8,5,3] = Conv(%r, %v) {pads=(2,2,2,2), dilations=(2,2)}
    %d: f32[1,8,5,3] = Conv(%c, %v) {pads=(1,1,1,1)}
    %g: f32[1,8,1,1] = GlobalAveragePool(%d)
    %h: f32[1,8] = Flatten(%g)
    %e: f32[1,10] = MatMul(%h, %f)
    %y: f32[1,12] = Gemm(%e, %m) {transB=1, alpha=0.5}
}"""


def arrays(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"w": (8, 6, 3, 5), "v": (8, 8, 3, 3), "f": (8, 10), "m": (12, 10)}
    return {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("convolution", ["channel", "spatial"])
def test_the_full_rank_is_the_same_network(convolution: str) -> None:
    graph = graph_of(NET, **arrays())
    done = apply_recipe(graph, LOW_RANK, {"rank": 999, "always": True, "convolution": convolution})
    verify(done, infer)
    assert len(done.nodes) == len(graph.nodes) + 5
    assert_same(graph, done, Exactness.REASSOCIATING)
    # Both layers of v read the same two factors.
    assert done.by_name["c"].inputs[1] == done.by_name["d"].inputs[1]
    assert_compiled(done)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=networks(), convolution=st.sampled_from(["channel", "spatial"]))
def test_random_networks_at_full_rank(graph: Graph, convolution: str) -> None:
    parameters = LowRankParameters(rank=999, always=True, convolution=convolution)  # type: ignore[arg-type]
    done = low_rank(graph, parameters)
    verify(done, infer)
    expected, found = outputs_of(graph), outputs_of(done)
    for name, array in expected.items():
        span = max(1.0, float(np.abs(array).max(initial=0)))
        np.testing.assert_allclose(found[name] / span, array / span, atol=1e-10)


def test_the_nearest_matrix_of_a_rank() -> None:
    w = np.random.default_rng(1).normal(0, 1, (32, 24)).astype(np.float32)
    text = """(%x: f32[2,32]) -> (%y) {
        const %w: f32[32,24]
        %y: f32[2,24] = MatMul(%x, %w)
    }"""
    done = low_rank(graph_of(text, w=w), LowRankParameters(rank=5))
    first, second = (done.constants[node.inputs[1]] for node in done.nodes)
    assert first.shape == (32, 5)
    assert second.shape == (5, 24)
    values = np.linalg.svd(w.astype(np.float64))[1]
    error = np.linalg.norm(w - first @ second)
    # Eckart and Young: nothing of that rank is nearer.
    np.testing.assert_allclose(error, np.sqrt((values[5:] ** 2).sum()), rtol=1e-5)


@pytest.mark.parametrize(
    ("share", "convolution"), in_turn([(0.3,), (0.5,), (0.9,)], ["channel", "spatial"])
)
def test_a_budget_of_macs(convolution: str, share: float) -> None:
    graph = graph_of(NET, **arrays())
    parameters = LowRankParameters(macs=share, convolution=convolution)  # type: ignore[arg-type]
    chosen = ranks(graph, parameters, Factors())
    done = low_rank(graph, parameters)
    verify(done, infer)
    before = {layer.name: layer.macs for layer in stats(graph, OPS).layers}
    after = {layer.name: layer.macs for layer in stats(done, OPS).layers}
    assert chosen
    for name, (form, rank) in chosen.items():
        # What is counted here is what the definitions say.
        assert form.macs == before[name]
        assert rank * form.macs_each == after[name] + after[f"{name}_first"]
        assert rank * form.macs_each <= share * form.macs < (rank + 1) * form.macs_each
    assert all(after[name] == before[name] for name in before if name not in chosen)
    assert_compiled(done)


def test_energy_finds_the_rank_that_is_there() -> None:
    rng = np.random.default_rng(2)
    w = (rng.normal(0, 1, (40, 3)) @ rng.normal(0, 1, (3, 30))).astype(np.float32)
    text = """(%x: f32[2,40]) -> (%y) {
        const %w: f32[40,30]
        %y: f32[2,30] = MatMul(%x, %w)
    }"""
    graph = graph_of(text, w=w)
    done = low_rank(graph, LowRankParameters(energy=0.99999))
    assert done.constants["w_first"].shape == (40, 3)
    assert_same(graph, done, Exactness.REASSOCIATING)
    least = low_rank(graph, LowRankParameters(energy=1e-9))
    assert least.constants["w_first"].shape == (40, 1)


def test_layers_that_would_grow_stay() -> None:
    graph = graph_of(NET, **arrays())
    chosen = ranks(graph, LowRankParameters(rank=8, always=True), Factors())
    form, rank = chosen["e"]
    assert (rank * form.macs_each, form.macs) == (144, 80)
    assert "e" not in ranks(graph, LowRankParameters(rank=8), Factors())
    assert low_rank(graph, LowRankParameters(rank=8, layers=("e",))) is graph


def test_layers_that_cannot_be_split_stay() -> None:
    text = """(%x: f32[1,4,6,6], %k: f32[4,4,3,3]) -> (%y, %z, %u) {
        const %w: f32[4,1,3,3]
        const %t: f32[4,4,3,3]
        const %l: f32[6,6]
        %y: f32[1,4,4,4] = Conv(%x, %w) {groups=4}
        %z: f32[1,4,8,8] = ConvTranspose(%x, %t)
        %u: f32[1,4,6,6] = MatMul(%l, %x)
    }"""
    graph = graph_of(text)
    assert low_rank(graph, LowRankParameters(rank=1)) is graph
    assert list(ranks(graph, LowRankParameters(rank=1, always=True), Factors())) == ["y"]


GROUPED = """(%x: f32[1,6,9,8]) -> (%y, %z) {
    const %w: f32[8,3,3,3]
    const %b: f32[8]
    const %d: f32[8,1,5,3]
    %c: f32[1,8,9,8] = Conv(%x, %w, %b) {groups=2, pads=(1,1,1,1)}
    %y: f32[1,8,9,8] = Clip(%c) {min=0.0, max=6.0}
    %z: f32[1,8,3,4] = Conv(%y, %d) {groups=8, strides=(2,2), pads=(0,1,0,1)}
}"""


@pytest.mark.parametrize("convolution", ["channel", "spatial"])
def test_groups_are_split_apart(convolution: str) -> None:
    graph = graph_of(GROUPED)
    full = LowRankParameters(rank=99, always=True, convolution=convolution)  # type: ignore[arg-type]
    whole = low_rank(graph, full)
    assert_same(graph, whole, Exactness.REASSOCIATING)
    assert [node.attributes.groups for node in whole.nodes if node.op == "Conv"] == [2, 2, 8, 8]
    few = LowRankParameters(rank=1, convolution=convolution)  # type: ignore[arg-type]
    chosen = ranks(graph, few, Factors())
    done = low_rank(graph, few)
    after = {layer.name: layer.macs for layer in stats(done, OPS).layers}
    # One number is left of a channel that has a group of its own, but a column and a row are.
    assert list(chosen) == (["c", "z"] if convolution == "spatial" else ["c"])
    for name, (form, rank) in chosen.items():
        assert rank == 1
        assert form.macs_each == after[name] + after[f"{name}_first"] < form.macs
    assert_compiled(done)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_read_less(op: str, gates: int) -> None:
    rows = gates * 5
    graph = graph_of(f"""(%x: f32[3,2,20]) -> (%y, %h) {{
        const %w: f32[2,{rows},20]
        const %r: f32[2,{rows},5]
        const %b: f32[2,{2 * rows}]
        %y: f32[3,2,2,5], %h: f32[2,2,5] = {op}(%x, %w, %r, %b) {{
            hidden_size=5, direction="bidirectional"}}
    }}""")
    full = low_rank(graph, LowRankParameters(rank=99, always=True))
    assert_same(graph, full, Exactness.REASSOCIATING)
    done = low_rank(graph, LowRankParameters(rank=2))
    assert [node.op for node in done.nodes] == ["MatMul", op]
    assert done.constants["w_first"].shape == (20, 2)
    assert done.constants["w_second"].shape == (2, rows, 2)
    ((form, rank),) = ranks(graph, LowRankParameters(rank=2), Factors()).values()
    assert (form.macs, rank * form.macs_each) == (2 * 40 * rows, 2 * 2 * (20 + 2 * rows))
    assert_compiled(done)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {},
            "low-rank: exactly one of rank, energy and macs must be given; got rank=0 energy=0 "
            "macs=0",
        ),
        (
            {"rank": 2, "macs": 0.5},
            "low-rank: exactly one of rank, energy and macs must be given; got rank=2 energy=0 "
            "macs=0.5",
        ),
        ({"rank": -2}, "low-rank: rank must not be negative; got -2"),
        ({"energy": 1.5}, "low-rank: energy must be within [0, 1]; got 1.5"),
        ({"macs": -1}, "low-rank: macs must be within [0, 1]; got -1"),
        (
            {"rank": 2, "layers": "conv"},
            "low-rank: there is no layer or weight conv. There are: w, a, v, c, d, f, e, m, y.",
        ),
    ],
)
def test_wrong_parameters(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        apply_recipe(graph_of(NET, **arrays()), LOW_RANK, values)
    assert str(caught.value) == message
