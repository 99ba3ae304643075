"""Zeros in weights: their number, their places, and the network around them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rewrite.checks import assert_same, graph_of, outputs_of
from tests.turns import examples
from weft.compress.sparsity import RECIPES, SparseParameters, StructuredParameters
from weft.errors import UserError
from weft.rewrite.recipe import apply_recipe
from weft.rewrite.rule import Exactness

SPARSIFY, N_M = RECIPES
# One weight that two layers read, a ReLU6, several outputs.
NET = """(%x: f32[1,4,6,6]) -> (%y, %z) {
    const %w: f32[4,4,3,3]
    const %b: f32[4]
    const %v: f32[5,4,1,1]
    %p: f32[1,4,6,6] = Conv(%x, %w, %b) {pads=(1,1,1,1)}
    %q: f32[1,4,6,6] = Clip(%p) {min=0.0, max=6.0}
    %y: f32[1,4,6,6] = Conv(%q, %w) {pads=(1,1,1,1)}
    %z: f32[1,5,6,6] = Conv(%q, %v)
}"""
TIED = """(%x: f32[2,3]) -> (%y) {
    const %w: f32[3,3]
    %p: f32[2,3] = Gemm(%x, %w) {transB=1}
    %y: f32[2,3] = MatMul(%p, %w)
}"""


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"w": (4, 4, 3, 3), "v": (5, 4, 1, 1)}
    return {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("scope", ["layer", "global"])
@pytest.mark.parametrize("ratio", [0.3, 0.5, 1.0])
def test_exactly_the_smallest_go(scope: str, ratio: float) -> None:
    graph = graph_of(NET, **arrays())
    done = apply_recipe(graph, SPARSIFY, {"ratio": ratio, "scope": scope})
    sets = [["w", "v"]] if scope == "global" else [["w"], ["v"]]
    for names in sets:
        old = np.concatenate([graph.constants[name].reshape(-1) for name in names])
        new = np.concatenate([done.constants[name].reshape(-1) for name in names])
        assert np.count_nonzero(new == 0) == round(ratio * old.size)
        np.testing.assert_array_equal(new[new != 0], old[new != 0])
        if (new == 0).any() and (new != 0).any():
            assert np.abs(old[new == 0]).max() <= np.abs(new[new != 0]).min()
    np.testing.assert_array_equal(done.constants["b"], graph.constants["b"])


def test_equals_go_in_order() -> None:
    text = """(%x: f32[1,4]) -> (%y) {
        const %w: f32[4,2] = [1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]
        %y: f32[1,2] = MatMul(%x, %w)
    }"""
    done = SPARSIFY.apply(graph_of(text), SparseParameters(0.25))
    assert done.constants["w"].reshape(-1).tolist() == [0, 0, 1, 1, 1, 1, 1, 2]


def test_nothing_is_lost_where_nothing_goes() -> None:
    graph = graph_of(NET, **arrays())
    assert_same(graph, SPARSIFY.apply(graph, SparseParameters(1e-9)), Exactness.BIT_EXACT)


@settings(max_examples=examples(60), deadline=None)
@given(
    extent=st.integers(1, 9),
    outputs=st.integers(1, 3),
    m=st.integers(2, 5),
    seed=st.integers(0, 99),
    transposed=st.booleans(),
    data=st.data(),
)
def test_n_of_m(
    extent: int, outputs: int, m: int, seed: int, transposed: bool, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, m - 1))
    shape = (outputs, extent) if transposed else (extent, outputs)
    w = np.random.default_rng(seed).choice(np.float32([-2, -1, 1, 2, 3]), shape)
    text = f"""(%x: f32[2,{extent}]) -> (%y) {{
        const %w: f32[{shape[0]},{shape[1]}]
        %y: f32[2,{outputs}] = Gemm(%x, %w) {{transB={int(transposed)}}}
    }}"""
    graph = graph_of(text, w=w)
    done = N_M.apply(graph, StructuredParameters(n, m))
    old, new = (
        each.constants["w"] if transposed else each.constants["w"].T for each in (graph, done)
    )
    for row_old, row_new in zip(old, new, strict=True):
        for start in range(0, extent, m):
            group_old, group_new = row_old[start : start + m], row_new[start : start + m]
            kept = group_new != 0
            assert np.count_nonzero(kept) == min(n, len(group_old))
            np.testing.assert_array_equal(group_new[kept], group_old[kept])
            if not kept.all():
                assert np.abs(group_old[~kept]).max() <= np.abs(group_old[kept]).min()
    assert outputs_of(done)["y"].shape == (2, outputs)


def test_layers_are_chosen_by_name_of_node_or_weight() -> None:
    graph = graph_of(NET, **arrays())
    for name in ("z", "v", "[vz]"):
        done = SPARSIFY.apply(graph, SparseParameters(0.5, layers=(name,)))
        assert np.count_nonzero(done.constants["w"]) == 144
        assert np.count_nonzero(done.constants["v"]) == 10


@pytest.mark.parametrize(
    ("recipe", "values", "message"),
    [
        (SPARSIFY, {"ratio": 0}, "sparsify: ratio must be above 0 and at most 1; got 0"),
        (
            N_M,
            {"n": 4, "m": 4},
            "sparsify-n-m: n must be at least 1 and less than m; got n=4 m=4",
        ),
        (SPARSIFY, {"ratio": 1.5}, "sparsify: ratio must be above 0 and at most 1; got 1.5"),
        (
            N_M,
            {"n": 3, "m": 2},
            "sparsify-n-m: n must be at least 1 and less than m; got n=3 m=2",
        ),
        (
            SPARSIFY,
            {"layers": "zz"},
            "sparsify: there is no layer or weight zz. Did you mean z?",
        ),
    ],
)
def test_wrong_parameters(recipe: object, values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        apply_recipe(graph_of(NET, **arrays()), recipe, values)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_weight_summed_along_two_axes_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        N_M.apply(graph_of(TIED), StructuredParameters())
    assert str(caught.value) == (
        "sparsify-n-m: weight w must be summed along one axis by all its layers; got p along "
        "axis 1, y along axis 0. Exclude it with `layers`, or give the layers separate weights."
    )


def test_a_graph_without_weights_is_refused() -> None:
    text = "(%x: f32[2]) -> (%y) { %y: f32[2] = Relu(%x) }"
    with pytest.raises(UserError, match=r"^sparsify: graph g has no layer with constant weights$"):
        SPARSIFY.apply(graph_of(text), SparseParameters())
