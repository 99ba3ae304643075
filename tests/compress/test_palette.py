"""Palettes: few values, near the weights; dense or looked up, the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.compress.networks import assert_compiled
from tests.rewrite.checks import assert_same, check_refused, graph_of, infer, outputs_of
from tests.turns import a_few, examples
from weft.api import Net, load
from weft.compress.palette import RECIPES, cluster, distinct, nearest_of, packed, paletted
from weft.errors import UserError
from weft.frontends.onnx.writing import save
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.plan.report import report
from weft.rewrite import constants
from weft.rewrite.recipe import apply_recipe
from weft.rewrite.recipes import simplify
from weft.rewrite.rule import Exactness

(PALETTE,) = RECIPES
# A weight that two layers read, a transposed matrix, ReLU6, two outputs.
NET = """(%x: f32[1,8,6,6]) -> (%y, %r) {
    const %w: f32[16,8,3,3]
    const %b: f32[16]
    const %v: f32[16,16,3,3]
    const %m: f32[12,16]
    %a: f32[1,16,6,6] = Conv(%x, %w, %b) {pads=(1,1,1,1)}
    %r: f32[1,16,6,6] = Clip(%a) {min=0.0, max=6.0}
    %c: f32[1,16,6,6] = Conv(%r, %v) {pads=(1,1,1,1)}
    %d: f32[1,16,6,6] = Conv(%c, %v) {pads=(1,1,1,1)}
    %g: f32[1,16,1,1] = GlobalAveragePool(%d)
    %h: f32[1,16] = Flatten(%g)
    %y: f32[1,12] = Gemm(%h, %m) {transB=1}
}"""
WEIGHTS = ("w", "v", "m")


def network() -> Graph:
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 8, 3, 3), "v": (16, 16, 3, 3), "m": (12, 16)}
    arrays = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    return graph_of(NET, **arrays)


@pytest.mark.parametrize("k", a_few([2, 16, 256], 1))
def test_so_many_values(k: int) -> None:
    graph = network()
    done = apply_recipe(graph, PALETTE, {"k": k})
    assert all(count <= k for count in distinct(done, WEIGHTS).values())
    assert distinct(done, WEIGHTS)["v"] == k
    np.testing.assert_array_equal(done.constants["b"], graph.constants["b"])
    assert [node.op for node in done.nodes] == [node.op for node in graph.nodes]
    assert_compiled(done)


def test_more_values_are_nearer() -> None:
    graph = network()
    errors = [
        float(
            np.abs(
                apply_recipe(graph, PALETTE, {"k": k}).constants["v"] - graph.constants["v"]
            ).mean()
        )
        for k in (2, 4, 16, 64, 256)
    ]
    assert errors == sorted(errors, reverse=True)
    # Within half a step of evenly spaced values, on average far less.
    span = float(np.ptp(graph.constants["v"]))
    assert errors[-1] < span / 256 / 2


@settings(max_examples=examples(60), deadline=None)
@given(
    values=st.lists(st.integers(-20, 20), min_size=1, max_size=60),
    k=st.integers(2, 8),
)
@example(values=[0, -2, 4, 9, 9, -9], k=2)  # 0 lies between two centres
def test_clusters_are_fixed_points(values: list[int], k: int) -> None:
    array = np.array(values, np.float32)
    centres = cluster(array, k, zero=False)
    assert len(centres) <= k
    assert (np.diff(centres) > 0).all() or len(set(values)) > k
    own = nearest_of(centres, array)
    for number, centre in enumerate(centres):
        members = array[own == number]
        if len(members):
            np.testing.assert_allclose(centre, members.astype(np.float64).mean(), atol=1e-9)
    if len(set(values)) <= k:
        np.testing.assert_array_equal(centres[own], array)


def test_few_values_stay_as_they_are() -> None:
    w = np.random.default_rng(1).choice(np.float32([-0.3, 0.0, 0.7]), (16, 8, 3, 3))
    graph = graph_of(NET, w=w)
    for keep in (False, True):
        done = apply_recipe(graph, PALETTE, {"k": 4, "keep": keep, "layers": "w"})
        assert_same(graph, done, Exactness.BIT_EXACT)


@pytest.mark.parametrize("channels", [0, 1, 3, 16])
def test_groups_of_channels(channels: int) -> None:
    graph = network()
    done = apply_recipe(graph, PALETTE, {"k": 4, "channels": channels})
    for name, axis in (("w", 0), ("v", 0), ("m", 0)):
        rows = np.moveaxis(done.constants[name], axis, 0)
        size = channels or len(rows)
        for start in range(0, len(rows), size):
            assert len(np.unique(rows[start : start + size])) <= 4
    errors = np.abs(done.constants["v"] - graph.constants["v"]).mean()
    whole = apply_recipe(graph, PALETTE, {"k": 4}).constants["v"]
    assert errors <= np.abs(whole - graph.constants["v"]).mean() * 1.001


def test_channels_of_matrices_are_columns_or_rows() -> None:
    text = """(%x: f32[1,6]) -> (%y) {
        const %w: f32[6,4]
        const %l: f32[1,2,4,3]
        %p: f32[1,4] = MatMul(%x, %w)
        %i: f32[1,1,1,4] = Reshape(%p) {shape=(1,1,1,4)}
        %y: f32[1,2,1,3] = MatMul(%i, %l)
    }"""
    graph = graph_of(text)
    done = apply_recipe(graph, PALETTE, {"k": 2, "channels": 1, "layers": "w"})
    assert all(len(np.unique(column)) == 2 for column in done.constants["w"].T)


@pytest.mark.parametrize("channels", [0, 4])
def test_looked_up_is_dense(channels: int) -> None:
    graph = network()
    dense = apply_recipe(graph, PALETTE, {"k": 16, "channels": channels})
    kept = apply_recipe(graph, PALETTE, {"k": 16, "channels": channels, "keep": True})
    verify(kept, infer)
    assert_same(dense, kept, Exactness.BIT_EXACT)
    # A shared weight is looked up once for both its layers.
    assert kept.by_name["c"].inputs[1] == kept.by_name["d"].inputs[1] == "v"
    assert sum(node.op == "Gather" for node in kept.nodes) == 3
    assert_compiled(kept)


@pytest.mark.parametrize("channels", [0, 4])
def test_what_is_looked_up_stays_small(channels: int, tmp_path: Path) -> None:
    """Neither folding nor a file in between makes the weights dense again."""
    graph = network()
    values = {"k": 16, "channels": channels, "keep": True}
    kept = apply_recipe(graph, PALETTE, values)
    simple, _ = simplify(kept)
    assert sum(node.op == "Gather" for node in simple.nodes) == 3
    dense_bytes = report(Net(graph).plan()).weight_bytes
    kept_bytes = report(Net(kept).plan()).weight_bytes
    assert kept_bytes < 0.35 * dense_bytes
    save(kept, tmp_path / "kept.onnx")
    again = load(tmp_path / "kept.onnx")
    # Reading computes what has 256 elements at most, as a shape may have.
    small = graph.constants["m"].nbytes
    assert kept_bytes <= report(again.plan()).weight_bytes <= kept_bytes + small


def test_zeros_stay() -> None:
    graph = network()
    w = np.where(np.abs(graph.constants["w"]) < 0.15, 0, graph.constants["w"]).astype(np.float32)
    graph = graph_of(NET, w=w)
    for keep in (False, True):
        done = apply_recipe(graph, PALETTE, {"k": 8, "zero": True, "layers": "w", "keep": keep})
        found = outputs_of(done)  # it runs
        assert set(found) == {"y", "r"}
    dense = apply_recipe(graph, PALETTE, {"k": 8, "zero": True, "layers": "w"}).constants["w"]
    np.testing.assert_array_equal(dense == 0, w == 0)
    assert len(np.unique(dense)) == 8


def test_numbers_are_bytes() -> None:
    array = np.random.default_rng(3).normal(0, 1, (40, 30)).astype(np.float32)
    found = paletted(array, 0, 7, 256, zero=False)
    assert found.indices.dtype == np.uint8
    assert found.palettes.shape == (6, 210)
    np.testing.assert_array_equal(found.dense(), array)


@pytest.mark.parametrize(("k", "bits"), [(2, 1), (3, 2), (4, 2), (5, 4), (16, 4), (17, 8)])
@pytest.mark.parametrize("rows", [121, 128])
def test_numbers_are_as_narrow_as_they_can_be(k: int, bits: int, rows: int) -> None:
    w = np.random.default_rng(5).normal(0, 0.1, (rows, 485)).astype(np.float32)
    graph = graph_of(
        f"""(%x: f32[2,{rows}]) -> (%y) {{
            const %w: f32[{rows},485]
            %y: f32[2,485] = MatMul(%x, %w)
        }}""",
        w=w,
    )
    dense = apply_recipe(graph, PALETTE, {"k": k})
    kept = apply_recipe(graph, PALETTE, {"k": k, "keep": True})
    verify(kept, infer)
    assert_same(dense, kept, Exactness.BIT_EXACT)
    assert kept.constants["w_numbers"].nbytes == -(-w.size * bits // 8)
    simple, _ = simplify(kept)
    assert simple.constants.keys() == {"w_numbers", "w_palette"}
    assert_compiled(kept)


def test_small_weights_have_no_table() -> None:
    found = paletted(np.random.default_rng(6).normal(0, 1, (30, 40)), 0, 0, 16, zero=False)
    assert packed(found) is None
    groups = paletted(np.random.default_rng(6).normal(0, 1, (300, 400)), 0, 30, 16, zero=False)
    assert packed(groups) is None


def test_lstm_weights_are_looked_up() -> None:
    graph = graph_of("""(%x: f32[4,1,16]) -> (%h) {
        const %w: f32[1,64,16]
        const %r: f32[1,64,16]
        const %b: f32[1,128]
        %h: f32[4,1,1,16] = LSTM(%x, %w, %r, %b) {hidden_size=16}
    }""")
    done = apply_recipe(graph, PALETTE, {"k": 8, "keep": True})
    assert sum(node.op == "Gather" for node in done.nodes) == 2
    assert_compiled(done)


def test_the_rule_that_leaves_palettes_alone() -> None:
    check_refused(
        constants.RULES,
        """(%x: f32[2,3]) -> (%y) {
            const %n: u8[3,4] = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0]
            const %p: f32[2] = [1.5, -2.0]
            %i: i32[3,4] = Cast(%n) {to=i32}
            %w: f32[3,4] = Gather(%p, %i)
            %y: f32[2,4] = MatMul(%x, %w)
        }""",
        [
            "fold-constants at i was not applied: a palette and its numbers are smaller than what "
            "they stand for"
        ],
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": 1}, "palette: k must be within [2, 256]; got 1"),
        ({"k": 300}, "palette: k must be within [2, 256]; got 300"),
        ({"channels": -1}, "palette: channels must not be negative; got -1"),
        (
            {"layers": "conv1"},
            "palette: there is no layer or weight conv1. There are: w, a, v, c, d, m, y.",
        ),
    ],
)
def test_wrong_parameters(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        apply_recipe(network(), PALETTE, values)
    assert str(caught.value) == message
