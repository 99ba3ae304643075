"""Every recipe on four small networks as compiled C: what it promises is kept.

All that recipes make of one network is compiled as one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.plan.nets import Net as HandMade
from tests.rewrite.checks import graph_of
from tests.turns import in_turn
from weft.api import Net
from weft.errors import UserError
from weft.ir.compose import merge
from weft.ir.edit import rename_nodes
from weft.ir.graph import Graph
from weft.plan import order
from weft.recipes import RECIPES, apply, recipe_named
from weft.rewrite.recipe import parameters_of
from weft.rewrite.rule import Exactness

LEFT_OUT = {each.name for each in RECIPES if each.exactness is Exactness.APPROXIMATE}
"""Recipes that change what is computed; they have tests of their own."""
VARIANTS: tuple[tuple[str, Mapping[str, object]], ...] = (
    *((each.name, {}) for each in RECIPES if each.name not in LEFT_OUT),
    ("simplify", {}),
    ("tile-conv", {"axis": 2, "parts": 3}),
    ("tile-conv", {"axis": 3, "size": 3}),
    ("tile-conv", {"axis": "out", "parts": 3}),
    ("tile-conv", {"axis": "in", "parts": 2}),
    ("tile-matmul", {"axis": "rows", "parts": 2}),
    ("tile-matmul", {"axis": "columns", "parts": 3}),
    ("tile-matmul", {"axis": "inner", "parts": 2}),
    ("tile-chain", {"first": "first", "last": "last", "axes": 2, "parts": 2}),
    ("tile-chain", {"first": "first", "last": "last", "axes": 1, "parts": 2}),
    ("adapt-types", {"dtypes": "f64"}),
)


def _normalized(net: HandMade, x: str) -> str:
    count = net.shape(x)[1]
    variance = net.builder.constant(np.abs(net.numbers((count,), 1, net.builder.types[x].dtype)))
    return net.op(
        "BatchNormalization", x, *(net.constant(count) for _ in range(3)), variance, epsilon=0.1
    )


def _named(graph: Graph, first: str, last: str) -> Graph:
    names = {graph.producers[first].name: "first", graph.producers[last].name: "last"}
    return rename_nodes(graph, names)


def residual() -> tuple[HandMade, Graph]:
    """Blocks of a ResNet, two of which share a weight; an inner value is an output too."""
    net = HandMade(1)
    x = net.input(1, 3, 9, 7)
    a = net.op("Relu", _normalized(net, net.conv(x, 4, 3, stride=2)))
    w = net.constant(4, 4, 3, 3, scale=0.1)
    b = net.op("Relu", _normalized(net, net.op("Conv", a, w, pads=(1,) * 4)))
    c = net.op("Relu", net.op("Add", a, net.op("Conv", b, w, pads=(1,) * 4)))
    pooled = net.op("Flatten", net.op("GlobalAveragePool", net.op("Dropout", c)))
    bias = net.constant(5)
    y = net.op("Add", net.dense(net.op("Identity", pooled), 5), bias)
    return net, _named(net.graph(y, c), net.builder.nodes[0].outputs[0], c)


def separable() -> tuple[HandMade, Graph]:
    """An inverted residual of a MobileNet: ReLU6 and a depthwise convolution."""
    net = HandMade(2)
    x = net.input(1, 4, 6, 7)
    a = net.op("Clip", _normalized(net, net.conv(x, 8, 1)), min=0.0, max=6.0)
    b = net.op("Clip", _normalized(net, net.conv(a, 8, 3, groups=8)), min=0.0, max=6.0)
    y = net.op("Add", x, net.conv(b, 4, 1))
    return net, _named(net.graph(y), a, y)


def attention() -> tuple[HandMade, Graph]:
    """A block of a transformer."""
    net = HandMade(3)
    x = net.input(1, 6, 8)
    n = net.op("LayerNormalization", x, net.constant(8), net.constant(8), axis=-1)
    q, k, v = (net.op("Add", net.dense(n, 8), net.constant(8)) for _ in range(3))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=(0, 2, 1)))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    z = net.op("Add", x, net.dense(mixed, 8))
    h = net.op("Gelu", net.op("Add", net.dense(z, 16), net.constant(16)))
    y = net.op("Add", z, net.dense(h, 8))
    return net, _named(net.graph(y), h, y)


def recurrent() -> tuple[HandMade, Graph]:
    """An LSTM with the batch first, and a classifier."""
    net = HandMade(4)
    x = net.input(2, 5, 3)
    weights = [net.constant(1, 16, 3, scale=0.5), net.constant(1, 16, 4, scale=0.5)]
    every, _ = net.several("LSTM", [x, *weights], 2, hidden_size=4, layout=1)
    flat = net.op("Flatten", every)
    y = net.op("Gemm", flat, net.constant(7, 20), net.constant(7), transB=1)
    return net, _named(net.graph(net.op("Relu", y)), y, net.builder.nodes[-1].outputs[0])


NETWORKS = {each.__name__: each for each in (residual, separable, attention, recurrent)}


def variants(graph: Graph) -> dict[str, tuple[Graph, Exactness]]:
    """What recipes make of a graph, and what each promises."""
    found = {"whole": (graph, Exactness.BIT_EXACT)}
    for place, (name, values) in enumerate(VARIANTS):
        recipe = recipe_named(name)
        try:
            done = apply(graph, name, values)
        except UserError:
            continue
        if done is not graph:
            promise = recipe.exactness_with(parameters_of(recipe, values))
            found[f"v{place}_{name.replace('-', '_')}"] = done, promise
    return found


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any order computes the same, and networks side by side have very many."""
    monkeypatch.setattr(order, "EXACT_BUDGET", 2000)
    monkeypatch.setattr(order, "BEAM_BUDGET", 2000)


@pytest.mark.parametrize(
    ("name", "least", "kernels"),
    in_turn(zip(NETWORKS, (17, 11, 8, 7), strict=True), ["plain", "fast"], every=2),
)
def test_recipes(name, least, kernels):
    net, graph = NETWORKS[name]()
    (x,) = net.arrays.values()
    made = variants(graph)
    assert len(made) >= least, list(made)
    together = Net(merge("together", {key: each for key, (each, _) in made.items()}, {}))
    expected = Net(graph).reference(x)
    plain = kernels == "plain"
    outputs = together.compile(plain=plain)(*[x] * len(made))
    count = len(expected)
    rows = [outputs[start : start + count] for start in range(0, len(outputs), count)]
    for (key, (_, promise)), found in zip(made.items(), rows, strict=True):
        for value, whole, array in zip(found, rows[0], expected, strict=True):
            span = max(1.0, float(np.abs(array).max()))
            np.testing.assert_allclose(value / span, array / span, atol=2e-5, err_msg=key)
            if plain and promise is Exactness.BIT_EXACT:
                np.testing.assert_array_equal(value, whole, err_msg=key)


def test_integers_have_equal_bits_in_fast_kernels():
    graph = graph_of(
        """(%x: u8[1,4,7,7]) -> (%y, %z) {
          const %s: f32[]
          const %o: u8[]
          const %w: i8[6,2,3,3]
          const %v: f32[6]
          const %n: i8[6]
          const %b: i32[6]
          %y: u8[1,6,5,5] = QLinearConv(%x, %s, %o, %w, %v, %n, %s, %o, %b) {groups=2}
          %z: i32[1,6,5,5] = ConvInteger(%x, %w, %o, %n) {groups=2}
        }""",
        s=np.array(0.25, np.float32),
        o=np.array(3, np.uint8),
        n=np.zeros(6, np.int8),
    )
    x = np.random.default_rng(0).integers(0, 200, (1, 4, 7, 7)).astype(np.uint8)
    expected = Net(graph).reference(x)
    cuts = [{"axis": axis, "parts": 2} for axis in ("2", "3", "out", "in")]
    made = {f"cut{place}": apply(graph, "tile-conv", cut) for place, cut in enumerate(cuts)}
    outputs = Net(merge("together", made, {})).compile()(*[x] * len(made))
    for place, found in enumerate(outputs):
        np.testing.assert_array_equal(found, expected[place % 2])


def test_half_precision_with_and_without_casts():
    graph = graph_of("""(%x: f16[1,3,6,6]) -> (%y) {
      const %w: f16[4,3,3,3]
      const %b: f16[4]
      %c: f16[1,4,4,4] = Conv(%x, %w, %b)
      %y: f16[1,4,4,4] = Sigmoid(%c)
    }""")
    x = np.random.default_rng(0).standard_normal((1, 3, 6, 6)).astype(np.float16)
    expected = Net(graph).compile(plain=True)(x)
    found = Net(graph).apply("explicit-casts").compile(plain=True)(x)
    np.testing.assert_array_equal(found, expected)
