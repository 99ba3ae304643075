"""Pruning: what is left computes what the masked network does, on everything that ties channels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compress.networks import assert_compiled
from tests.compress.random_networks import networks
from tests.rewrite.checks import graph_of, infer, outputs_of
from tests.turns import examples
from weft.compress.families import analyse
from weft.compress.pruning import RECIPES, PruneParameters, prune, pruning
from weft.compress.shrink import masked, shrunk
from weft.errors import UserError
from weft.ir.compose import bind_symbols
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.rewrite.recipe import apply_recipe

(PRUNE,) = RECIPES


def weights(graph: Graph) -> int:
    return sum(array.size for array in graph.constants.values())


def bound(graph: Graph) -> Graph:
    """The graph with a batch of 2."""
    return bind_symbols(graph, {"N": 2}) if not graph.types["x"].is_static else graph


def assert_equal_to_twin(graph: Graph, parameters: PruneParameters) -> Graph:
    """The smaller network, its types and its numbers being right."""
    removal, report = pruning(graph, parameters)
    small, twin = shrunk(removal), masked(removal)
    for each in (small, twin):
        verify(each, infer)
        assert each.inputs == graph.inputs
        assert each.outputs == graph.outputs
    for seed in range(2):
        expected, found = outputs_of(bound(twin), seed), outputs_of(bound(small), seed)
        for name, array in expected.items():
            assert found[name].shape == array.shape
            span = max(1.0, float(np.abs(array).max(initial=0)))
            atol = 1e-11 if array.dtype == np.float64 else 1e-5
            np.testing.assert_allclose(found[name] / span, array / span, atol=atol)
    gone = sum(each.gone for each in report)
    assert (weights(small) < weights(graph)) == (gone > 0)
    return small


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    graph=networks(),
    ratio=st.sampled_from([0.2, 0.5, 0.9]),
    scope=st.sampled_from(["layer", "global"]),
    criterion=st.sampled_from(["l1", "l2", "random"]),
    multiple=st.sampled_from([1, 2, 4]),
)
def test_random_networks(
    graph: Graph, ratio: float, scope: str, criterion: str, multiple: int
) -> None:
    parameters = PruneParameters(ratio, criterion, scope, multiple=multiple)  # type: ignore[arg-type]
    if all(family.reason for family in analyse(graph).families):
        with pytest.raises(UserError, match="there are no channels or heads that can go"):
            pruning(graph, parameters)
    else:
        assert_equal_to_twin(graph, parameters)


RESIDUAL = """(%x: f32[N,3,6,6]) -> (%y, %e) {
    const %w: f32[8,3,3,3]
    const %b: f32[8]
    const %v: f32[8,8,3,3]
    const %s: f32[8]
    const %f: f32[10,8]
    %a: f32[N,8,6,6] = Conv(%x, %w, %b) {pads=(1,1,1,1)}
    %r: f32[N,8,6,6] = Clip(%a) {min=0.0, max=6.0}
    %c: f32[N,8,6,6] = Conv(%r, %v) {pads=(1,1,1,1)}
    %d: f32[N,8,6,6] = Add(%c, %r)
    %n: f32[N,8,6,6] = BatchNormalization(%d, %s, %s, %s, %s)
    %g: f32[N,8,1,1] = GlobalAveragePool(%n)
    %h: f32[N,8] = Flatten(%g)
    %y: f32[N,10] = Gemm(%h, %f) {transB=1}
    %e: f32[N,1,6,6] = ReduceL2(%d) {axes=(1)}
}"""


def test_residual_additions_tie_layers() -> None:
    graph = graph_of(RESIDUAL)
    small = assert_equal_to_twin(graph, PruneParameters(0.5))
    assert small.constants["w"].shape == (4, 3, 3, 3)
    assert small.constants["v"].shape == (4, 4, 3, 3)
    assert small.constants["f"].shape == (10, 4)
    # One vector stood for all four; it goes in four copies, or it would still be one.
    assert {small.constants[v].shape for v in small.by_name["n"].inputs[1:]} == {(4,)}
    assert_compiled(small)
    assert_compiled(prune(graph, PruneParameters(0.5, masked=True)))


def test_what_goes_is_what_is_smallest() -> None:
    w = np.ones((8, 3, 3, 3), np.float32)
    v = np.ones((8, 8, 3, 3), np.float32)
    for small in (1, 6):
        w[small] = v[small] = 0.1
    graph = graph_of(RESIDUAL, w=w, v=v)
    removal, report = pruning(graph, PruneParameters(0.25))
    assert removal.kept("r")[1].tolist() == [place not in (1, 6) for place in range(8)]
    assert [(each.layers, each.count, each.gone) for each in report] == [
        (("a", "c"), 8, 2),
        (("y",), 10, 0),
    ]
    assert report[1].reason == "it is graph output y"


def test_scores_take_the_place_of_norms() -> None:
    graph = graph_of(RESIDUAL)
    scores = {"w": np.arange(8), "v": np.zeros(8)}
    removal, _ = pruning(graph, PruneParameters(0.5), scores)
    assert removal.kept("a")[1].tolist() == [False] * 4 + [True] * 4
    with pytest.raises(UserError) as caught:
        pruning(graph, PruneParameters(0.5), {"w": np.zeros(3)})
    assert str(caught.value) == (
        "prune: scores of w must be 8 numbers, one for each slice along axis 0; got [3]"
    )


def test_a_weight_that_two_layers_read_shrinks_once() -> None:
    text = """(%x: f32[1,4,5,5]) -> (%y) {
        const %u: f32[6,4,1,1]
        const %w: f32[6,6,3,3]
        const %v: f32[2,6,1,1]
        %a: f32[1,6,5,5] = Conv(%x, %u)
        %b: f32[1,6,5,5] = Conv(%a, %w) {pads=(1,1,1,1)}
        %c: f32[1,6,5,5] = Relu(%b)
        %d: f32[1,6,5,5] = Conv(%c, %w) {pads=(1,1,1,1)}
        %y: f32[1,2,5,5] = Conv(%d, %v)
    }"""
    small = assert_equal_to_twin(graph_of(text), PruneParameters(0.5))
    assert small.constants["w"].shape == (3, 3, 3, 3)
    assert small.constants["u"].shape == (3, 4, 1, 1)
    assert_compiled(small)


def test_channels_of_a_flattened_image() -> None:
    text = """(%x: f32[1,1,4,4]) -> (%y) {
        const %w: f32[6,1,3,3]
        const %f: f32[24,3]
        %a: f32[1,6,2,2] = Conv(%x, %w)
        %b: f32[1,24] = Reshape(%a) {shape=(1,-1)}
        %y: f32[1,3] = MatMul(%b, %f)
    }"""
    small = assert_equal_to_twin(graph_of(text), PruneParameters(0.5))
    assert small.constants["f"].shape == (12, 3)
    assert small.by_name["b"].attributes.shape == (1, 12)


def test_multiples() -> None:
    small = assert_equal_to_twin(graph_of(RESIDUAL), PruneParameters(0.4, multiple=4))
    assert small.constants["w"].shape[0] == 8
    small = assert_equal_to_twin(graph_of(RESIDUAL), PruneParameters(0.6, multiple=4))
    assert small.constants["w"].shape[0] == 4


def test_one_channel_always_stays() -> None:
    small = assert_equal_to_twin(graph_of(RESIDUAL), PruneParameters(1.0))
    assert small.constants["w"].shape[0] == 1


def test_nothing_to_do_leaves_the_graph() -> None:
    graph = graph_of(RESIDUAL)
    assert prune(graph, PruneParameters(1e-6)) is graph


# --- attention and recurrent layers -----------------------------------------------------------

ATTENTION = """(%x: f32[1,5,8]) -> (%y) {
    const %g: f32[8]
    const %q: f32[8,8]
    const %k: f32[8,8]
    const %v: f32[8,8]
    const %o: f32[8,8]
    const %up: f32[8,12]
    const %down: f32[12,8]
    %n: f32[1,5,8] = LayerNormalization(%x, %g)
    %qs: f32[1,5,8] = MatMul(%n, %q)
    %ks: f32[1,5,8] = MatMul(%n, %k)
    %vs: f32[1,5,8] = MatMul(%n, %v)
    %qr: f32[1,5,4,2] = Reshape(%qs) {shape=(1,5,4,2)}
    %kr: f32[1,5,4,2] = Reshape(%ks) {shape=(1,5,4,2)}
    %vr: f32[1,5,4,2] = Reshape(%vs) {shape=(1,5,4,2)}
    %qt: f32[1,4,5,2] = Transpose(%qr) {perm=(0,2,1,3)}
    %kt: f32[1,4,2,5] = Transpose(%kr) {perm=(0,2,3,1)}
    %vt: f32[1,4,5,2] = Transpose(%vr) {perm=(0,2,1,3)}
    %s: f32[1,4,5,5] = MatMul(%qt, %kt)
    %p: f32[1,4,5,5] = Softmax(%s)
    %c: f32[1,4,5,2] = MatMul(%p, %vt)
    %ct: f32[1,5,4,2] = Transpose(%c) {perm=(0,2,1,3)}
    %cr: f32[1,5,8] = Reshape(%ct) {shape=(1,5,8)}
    %h: f32[1,5,8] = MatMul(%cr, %o)
    %r: f32[1,5,8] = Add(%h, %x)
    %l: f32[1,5,8] = LayerNormalization(%r, %g)
    %u: f32[1,5,12] = MatMul(%l, %up)
    %t: f32[1,5,12] = Gelu(%u)
    %d: f32[1,5,8] = MatMul(%t, %down)
    %y: f32[1,5,8] = Add(%d, %r)
}"""


def test_heads_and_hidden_layers_of_a_transformer() -> None:
    graph = graph_of(ATTENTION)
    small = assert_equal_to_twin(graph, PruneParameters(0.5))
    # Two heads of two are left, and six of twelve hidden channels; the rest is the residual's.
    assert small.types["s"].shape == (1, 2, 5, 5)
    assert small.constants["q"].shape == (8, 4)
    assert small.constants["o"].shape == (4, 8)
    assert small.constants["up"].shape == (8, 6)
    assert_compiled(small)
    _, report = pruning(graph, PruneParameters(0.5))
    heads = [each for each in report if each.is_heads]
    assert [(each.layers, each.count, each.gone) for each in heads] == [(("qs", "ks", "vs"), 4, 2)]


def test_heads_alone_or_channels_alone() -> None:
    graph = graph_of(ATTENTION)
    heads = assert_equal_to_twin(graph, PruneParameters(0.5, kind="heads"))
    assert heads.constants["q"].shape == (8, 4)
    assert heads.constants["up"].shape == (8, 12)
    channels = assert_equal_to_twin(graph, PruneParameters(0.5, kind="channels"))
    assert channels.constants["q"].shape == (8, 8)
    assert channels.constants["up"].shape == (8, 6)


def test_protected_and_chosen_layers() -> None:
    graph = graph_of(ATTENTION)
    kept = assert_equal_to_twin(graph, PruneParameters(0.5, protect=("vs",)))
    assert kept.constants["q"].shape == (8, 8)
    assert kept.constants["up"].shape == (8, 6)
    chosen = assert_equal_to_twin(graph, PruneParameters(0.5, layers=("q",)))
    assert chosen.constants["q"].shape == (8, 4)
    assert chosen.constants["up"].shape == (8, 12)


@pytest.mark.parametrize("packed", [True, False])
def test_heads_of_the_op(packed: bool) -> None:
    """Four heads of queries read two of keys and values, so they go by twos."""
    shapes = (
        ""
        if packed
        else """
        %q4: f32[1,5,4,2] = Reshape(%qs) {shape=(1,5,4,2)}
        %k4: f32[1,5,2,2] = Reshape(%ks) {shape=(1,5,2,2)}
        %v4: f32[1,5,2,2] = Reshape(%vs) {shape=(1,5,2,2)}
        %qt: f32[1,4,5,2] = Transpose(%q4) {perm=(0,2,1,3)}
        %kt: f32[1,2,5,2] = Transpose(%k4) {perm=(0,2,1,3)}
        %vt: f32[1,2,5,2] = Transpose(%v4) {perm=(0,2,1,3)}
        %at: f32[1,4,5,2] = Attention(%qt, %kt, %vt)
        %ar: f32[1,5,4,2] = Transpose(%at) {perm=(0,2,1,3)}
        %a: f32[1,5,8] = Reshape(%ar) {shape=(1,5,8)}"""
    )
    op = "%a: f32[1,5,8] = Attention(%qs, %ks, %vs) {q_num_heads=4, kv_num_heads=2}"
    graph = graph_of(f"""(%x: f32[1,5,6]) -> (%y) {{
        const %q: f32[6,8]
        const %k: f32[6,4]
        const %v: f32[6,4]
        const %o: f32[8,6]
        %qs: f32[1,5,8] = MatMul(%x, %q)
        %ks: f32[1,5,4] = MatMul(%x, %k)
        %vs: f32[1,5,4] = MatMul(%x, %v)
        {op if packed else shapes}
        %y: f32[1,5,6] = MatMul(%a, %o)
    }}""")
    small = assert_equal_to_twin(graph, PruneParameters(0.5))
    assert small.constants["q"].shape == (6, 4)
    assert small.constants["k"].shape == (6, 2)
    assert small.constants["o"].shape == (4, 6)
    if packed:
        assert small.by_name["a"].attributes.q_num_heads == 2
        assert small.by_name["a"].attributes.kv_num_heads == 1
    assert_compiled(small)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_hidden_states(op: str, gates: int, directions: int) -> None:
    direction = '"bidirectional"' if directions == 2 else '"forward"'
    graph = graph_of(f"""(%x: f32[6,1,3]) -> (%y, %z) {{
        const %w: f32[{directions},{8 * gates},3]
        const %r: f32[{directions},{8 * gates},8]
        const %b: f32[{directions},{16 * gates}]
        const %f: f32[{8 * directions},4]
        const %l: f32[8,2]
        %h: f32[6,{directions},1,8], %last: f32[{directions},1,8] = {op}(%x, %w, %r, %b)
            {{hidden_size=8, direction={direction}}}
        %t: f32[6,1,{directions},8] = Transpose(%h) {{perm=(0,2,1,3)}}
        %s: f32[6,1,{8 * directions}] = Reshape(%t) {{shape=(6,1,{8 * directions})}}
        %y: f32[6,1,4] = MatMul(%s, %f)
        %z: f32[{directions},1,2] = MatMul(%last, %l)
    }}""")
    small = assert_equal_to_twin(graph, PruneParameters(0.5))
    assert small.constants["r"].shape == (directions, 4 * gates, 4)
    assert small.by_name["h"].attributes.hidden_size == 4
    assert_compiled(small)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            """(%x: f32[1,4]) -> (%y) {
                const %w: f32[4,3]
                %y: f32[1,3] = MatMul(%x, %w)
            }""",
            "prune: there are no channels or heads that can go; got y: it is graph output y",
        ),
        (
            """(%x: f32[1,4]) -> (%y) {
                const %w: f32[4,6]
                const %v: f32[6,2]
                %a: f32[1,6] = MatMul(%x, %w)
                %b: f32[1,6] = Softmax(%a)
                %y: f32[1,2] = MatMul(%b, %v)
            }""",
            "prune: there are no channels or heads that can go; got a: Softmax b combines what is "
            "along it; y: it is graph output y",
        ),
        (
            """(%x: f32[2,4]) -> (%y) {
                const %w: f32[4,6]
                %a: f32[2,6] = MatMul(%x, %w)
                %v: f32[2,3], %i: i64[2,3] = TopK(%a) {k=3}
                %y: f32[2,1] = ReduceSum(%v) {axes=(1)}
            }""",
            "prune: there are no channels or heads that can go; got a: TopK v cannot do with fewer "
            "positions",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        prune(graph_of(text), PruneParameters(0.5))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ratio": 0}, "prune: ratio must be above 0 and at most 1; got 0"),
        ({"seed": 3}, "prune: seed has no effect on criterion=l1; got seed=3"),
        (
            {"seed": -3, "criterion": "random"},
            "prune: seed must not be negative; got -3",
        ),
        ({"ratio": 2}, "prune: ratio must be above 0 and at most 1; got 2"),
        ({"multiple": 0}, "prune: multiple must be at least 1; got 0"),
        ({"protect": "w1"}, "prune: there is no layer or weight w1. Did you mean w?"),
        (
            {"kind": "heads"},
            "prune: there are no heads that can go; got none",
        ),
    ],
)
def test_wrong_parameters(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        apply_recipe(graph_of(RESIDUAL), PRUNE, values)
    assert str(caught.value) == message
