"""Tiling: the same numbers, over shapes, strides, dilations, pads, groups and uneven parts.

The numbers are small whole ones, so that sums are exact in any order and must be equal.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.rewrite.checks import graph_of
from tests.rewrite.whole import WholeNet, check, convolutions, windows
from tests.turns import examples
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.recipes import apply


def refusal(graph: Graph, name: str, **values: object) -> str:
    """Why a recipe refuses; nothing if it does not."""
    try:
        apply(graph, name, values)
    except UserError as error:
        return str(error)
    return ""


def ops(graph: Graph, op: str) -> list:
    return [node for node in graph.nodes if node.op == op]


def split(draw, extent: int) -> tuple[int, ...]:
    """At least two lengths that add up."""
    borders = draw(st.sets(st.integers(1, extent - 1), min_size=1, max_size=4))
    places = [0, *sorted(borders), extent]
    return tuple(stop - start for start, stop in pairwise(places))


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), case=convolutions())
def test_convolution_along_every_axis_of_the_output(data, case):
    net, graph, shape = case
    axis = data.draw(st.sampled_from([a for a, dim in enumerate(shape) if dim > 1] or [None]))
    assume(axis is not None)
    sizes = split(data.draw, shape[axis])
    reason = refusal(graph, "tile-conv", axis=axis, sizes=sizes)
    if reason:
        # The one thing that is refused: a window altogether in the padding.
        assert "nothing but padding" in reason
        return
    done = check(net, graph, "tile-conv", axis=axis, sizes=sizes)
    made = [done.types[node.outputs[0]].dims[axis] for node in ops(done, "Conv")]
    assert sum(made) == shape[axis]
    if axis != 1:
        assert tuple(made) == sizes
    assert len(ops(done, "Concat")) == 1


@settings(max_examples=examples(50), deadline=None)
@given(data=st.data(), case=convolutions())
def test_convolution_along_input_channels(data, case):
    net, graph, _ = case
    per_group = graph.types[graph.nodes[0].inputs[1]].dims[1]
    if per_group == 1:
        with pytest.raises(UserError, match="cut"):
            apply(graph, "tile-conv", {"axis": "in", "parts": 2})
        return
    sizes = split(data.draw, per_group)
    done = check(net, graph, "tile-conv", axis="in", sizes=sizes)
    assert len(ops(done, "Conv")) == len(sizes)
    assert len(ops(done, "Add")) == len(sizes) - 1


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_products(data):
    def number(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    net = WholeNet(number(0, 9))
    rows, inner, columns = number(2, 7), number(2, 7), number(2, 7)
    if data.draw(st.booleans()):
        flags = {"transA": number(0, 1), "transB": number(0, 1), "alpha": 2.0, "beta": 3.0}
        a = net.input(*((inner, rows) if flags["transA"] else (rows, inner)))
        b = net.constant(*((columns, inner) if flags["transB"] else (inner, columns)))
        shape = data.draw(
            st.sampled_from([(), (columns,), (1, columns), (rows, 1), (rows, columns)])
        )
        y = net.op("Gemm", a, b, net.constant(*shape), **flags)
    else:
        batch = data.draw(st.sampled_from([(), (2,), (3, 2)]))
        a = net.input(*batch, rows, inner)
        b = net.constant(*data.draw(st.sampled_from([(), batch])), inner, columns)
        y = net.op("MatMul", a, b)
    graph = net.graph(y)
    axis = data.draw(st.sampled_from(["rows", "columns", "inner"]))
    extent = {"rows": rows, "columns": columns, "inner": inner}[axis]
    sizes = split(data.draw, extent)
    done = check(net, graph, "tile-matmul", axis=axis, sizes=sizes)
    assert len(ops(done, graph.nodes[0].op)) == len(sizes)


# --- chains ---------------------------------------------------------------------------------


@st.composite
def chains(draw):
    """Layers in a row, some of them with a branch that joins again, from ``first`` on."""
    net = WholeNet(draw(st.integers(0, 9)))
    x = net.input(draw(st.integers(1, 2)), 4, draw(st.integers(6, 12)), draw(st.integers(6, 12)))
    kinds = draw(st.lists(st.sampled_from(LAYERS), min_size=2, max_size=5))
    y = net.op("Relu", x)
    for kind in kinds:
        try:
            y = kind(draw, net, y)
        except UserError:
            assume(False)
    assume(prod(net.shape(y)) and max(net.shape(y)[2:]) > 1)
    return net, net.graph(y), net.shape(y)


def _conv(draw, net: WholeNet, x: str) -> str:
    window = draw(windows(2))
    groups = draw(st.sampled_from([1, 4]))
    w = net.constant(4, 4 // groups, *window["kernel"])
    # Sign keeps the numbers small.
    return net.op("Sign", net.op("Conv", x, w, net.constant(4), groups=groups, **window))


def _pool(draw, net: WholeNet, x: str) -> str:
    window = draw(windows(2))
    kernel = window["kernel"]
    window["pads"] = tuple(
        min(pad, (k - 1) // 2) for pad, k in zip(window["pads"], kernel * 2, strict=True)
    )
    op = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if op == "AveragePool":
        window["count_include_pad"] = draw(st.integers(0, 1))
    else:
        window["ceil_mode"] = draw(st.integers(0, 1))
    made = net.op(op, x, **window)
    return made if op == "MaxPool" else net.op("Round", net.op("Mul", made, _eighth(net)))


def _elements(draw, net: WholeNet, x: str) -> str:
    _, channels, height, width = net.shape(x)
    shape = draw(
        st.sampled_from([(), (width,), (height, 1), (channels, 1, 1), (1, 1, height, width)])
    )
    return net.op("Clip", net.op("Add", x, net.constant(*shape)), min=0.0, max=6.0)


def _residual(draw, net: WholeNet, x: str) -> str:
    branch = net.conv(x, net.shape(x)[1], 3)
    return net.op("Sign", net.op("Add", x, branch))


def _dense(draw, net: WholeNet, x: str) -> str:
    whole = net.op("Concat", x, net.op("Neg", x), axis=1)
    return net.op("Sign", net.conv(whole, 4, 1))


def _eighth(net: WholeNet) -> str:
    return net.builder.constant(np.array(0.125, np.float32), "eighth")


LAYERS = [_conv, _conv, _pool, _elements, _residual, _dense]


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), case=chains())
def test_chains(data, case):
    net, graph, shape = case
    axes = data.draw(st.sampled_from([(2,), (3,), (2, 3), (3, 2)]))
    assume(all(shape[axis] > 1 for axis in axes))
    parts = tuple(data.draw(st.integers(2, min(4, shape[axis]))) for axis in axes)
    first, last = graph.nodes[0].name, graph.nodes[-1].name
    reason = refusal(graph, "tile-chain", first=first, last=last, axes=axes, parts=parts)
    if reason:
        # Images of one row or column are needed by every part.
        assert "nothing but padding" in reason or "every part would recompute all" in reason
        return
    done = check(net, graph, "tile-chain", first=first, last=last, axes=axes, parts=parts)
    assert len(ops(done, "Relu")) == prod(parts)


def test_only_what_is_needed_is_computed():
    net = WholeNet()
    a = net.conv(net.input(1, 2, 12, 8), 2, 3)
    b = net.conv(net.op("Relu", a), 2, 3)
    graph = net.graph(net.op("MaxPool", b, kernel=(2, 2), strides=(2, 2)))
    first, last = graph.nodes[0].name, graph.nodes[-1].name
    done = check(net, graph, "tile-chain", first=first, last=last, parts=3)
    heights = [done.types[node.outputs[0]].dims[2] for node in ops(done, "Conv")]
    assert heights == [5, 4, 6, 4, 5, 4]
    read = [done.types[node.outputs[0]].dims[2] for node in ops(done, "Slice")]
    assert read == [6, 8, 6]


# --- what must stay right ---------------------------------------------------------------------

SHARED = """(%x: f32[1,3,8,8]) -> (%r, %b) {
  const %w: f32[3,3,3,3]
  const %k: f32[3]
  %a: f32[1,3,8,8] = Conv(%x, %w, %k) {pads=(1, 1, 1, 1)}
  %r: f32[1,3,8,8] = Clip(%a) {max=6.0, min=0.0}
  %b: f32[1,3,8,8] = Conv(%a, %w, %k) {pads=(1, 1, 1, 1)}
}"""


@pytest.mark.parametrize("axis", ["out", "in", "2", "3"])
def test_shared_weights_several_consumers_and_outputs(axis):
    graph = graph_of(SHARED, w=np.ones((3, 3, 3, 3), np.float32), k=np.ones(3, np.float32))
    net = WholeNet()
    net.arrays["x"] = net.numbers((1, 3, 8, 8), 1, graph.types["x"].dtype)
    done = check(net, graph, "tile-conv", axis=axis, parts=3)
    assert len(ops(done, "Conv")) == 6
    assert len(ops(done, "Clip")) == 1
    if axis in "23":
        assert set(done.constants) == {"w", "k"}
    one = check(net, graph, "tile-conv", axis=axis, size=2, nodes=["b"])
    assert len(ops(one, "Conv")) == (3 if axis in ("in", "out") else 5)
    assert "w" in one.constants


def test_quantized_convolutions():
    graph = graph_of(
        """(%x: u8[1,4,7,7]) -> (%y, %z) {
          const %xs: f32[]
          const %xz: u8[]
          const %w: i8[6,2,3,3]
          const %ws: f32[6]
          const %wz: i8[6]
          const %ys: f32[]
          const %yz: u8[]
          const %b: i32[6]
          %y: u8[1,6,4,4] = QLinearConv(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz, %b) {WINDOW}
          %z: i32[1,6,7,7] = ConvInteger(%x, %w, %xz, %wz) {groups=2, pads=(1, 1, 1, 1)}
        }""".replace("WINDOW", "groups=2, pads=(1, 1, 1, 1), strides=(2, 2)"),
        xs=np.array(0.5, np.float32),
        xz=np.array(3, np.uint8),
        ys=np.array(9, np.float32),
        yz=np.array(7, np.uint8),
        wz=np.zeros(6, np.int8),
    )
    net = WholeNet()
    net.arrays["x"] = net.random.integers(0, 200, (1, 4, 7, 7)).astype(np.uint8)
    for axis in ("2", "3", "out"):
        check(
            net,
            graph,
            "tile-conv",
            axis=axis,
            sizes=(1, 3) if axis != "out" else (2, 4),
            nodes=["y"],
        )
        check(net, graph, "tile-conv", axis=axis, parts=2)
    done = check(net, graph, "tile-conv", axis="in", parts=2)
    assert len(ops(done, "ConvInteger")) == 2


REFUSED = [
    ("tile-conv", {"axis": "2"}, "cut: give one of parts, size and sizes; got none"),
    (
        "tile-conv",
        {"axis": "2", "parts": 2, "size": 3},
        "cut: give one of parts, size and sizes; got parts=2, size=3",
    ),
    (
        "tile-conv",
        {"axis": "2", "parts": 9},
        "cut: parts must be from 2 to 8, the axis's length; got 9",
    ),
    (
        "tile-conv",
        {"axis": "2", "sizes": (3, 4)},
        "cut: sizes must be positive and add up to 8; got [3, 4]",
    ),
    ("tile-conv", {"axis": "2", "size": 8}, "cut: size must be from 1 to 7; got 8"),
    (
        "tile-conv",
        {"axis": "height", "parts": 2},
        "tile: axis must be in, out or a number from 0 to 3; got height (node a)",
    ),
    (
        "tile-conv",
        {"nodes": ("r",), "parts": 2},
        "node r must be one of: Conv, ConvInteger, QLinearConv; got Clip",
    ),
    (
        "tile-conv",
        {"nodes": ("aa",), "parts": 2},
        "graph g has no node of that name; got aa. Did you mean a?",
    ),
    (
        "tile-matmul",
        {"parts": 2},
        "graph g must have a node that is one of: Gemm, MatMul; got none",
    ),
    (
        "tile-chain",
        {"first": "a", "last": "b", "parts": 2},
        "tile: value a within the chain is read by node r (node a). Cut before or after it.",
    ),
    (
        "tile-chain",
        {"first": "r", "last": "b", "parts": 2},
        "tile: node b must depend on node r",
    ),
    (
        "tile-chain",
        {"first": "b", "last": "b", "parts": (2, 2)},
        "tile: parts must have one number for each axis; got [2, 2]",
    ),
    (
        "tile-chain",
        {"first": "b", "last": "b", "axes": (2, 3), "sizes": (4, 4)},
        "tile: sizes can be given where one axis is cut; got [2, 3]",
    ),
]


@pytest.mark.parametrize(("name", "values", "message"), REFUSED)
def test_refusals(name, values, message):
    with pytest.raises(UserError) as error:
        apply(graph_of(SHARED), name, values)
    assert str(error.value) == message


def test_a_chain_does_not_go_through_what_makes_no_first_output():
    graph = graph_of("""(%x: f32[4,6]) -> (%y) {
      _, %p: f32[4,3] = Split(%x) {axis=1, split=(3,3)}
      %y: f32[4,3] = Relu(%p)
    }""")
    first, last = (node.name for node in graph.nodes)
    with pytest.raises(UserError) as error:
        apply(graph, "tile-chain", {"first": first, "last": last, "axes": 0, "parts": 2})
    assert str(error.value) == (
        "tile: the first output of every node within the chain must be made; got none, p "
        f"(node {first})"
    )


def test_a_chain_does_not_go_through_what_has_several_outputs():
    graph = graph_of("""(%x: f32[4,6]) -> (%y) {
      %p: f32[4,3], %q: f32[4,3] = Split(%x) {axis=1, split=(3,3)}
      %y: f32[4,3] = Relu(%q)
    }""")
    first, last = (node.name for node in graph.nodes)
    reason = refusal(graph, "tile-chain", first=first, last=last, axes=0, parts=2)
    assert reason == f"tile: Split cannot be cut: it has several outputs (node {first})"


def test_a_chain_does_not_go_through_what_needs_all_of_its_input():
    graph = graph_of("""(%x: f32[1,3,8,8]) -> (%y) {
      const %s: f32[3]
      const %b: f32[3]
      %n: f32[1,3,8,8] = InstanceNormalization(%x, %s, %b)
      %y: f32[1,3,8,8] = Softmax(%n) {axis=2}
    }""")
    with pytest.raises(UserError) as error:
        apply(graph, "tile-chain", {"first": "n", "last": "y", "parts": 2})
    assert str(error.value) == (
        "tile: Softmax cannot be cut along axis 2: every element depends on all of it (node y)"
    )
    with pytest.raises(UserError) as error:
        apply(graph, "tile-chain", {"first": "n", "last": "y", "parts": 2, "axes": 3})
    assert str(error.value) == (
        "tile: InstanceNormalization cannot be cut along axis 3: "
        "every element depends on all of it (node n)"
    )


def test_a_chain_does_not_compute_all_of_a_value_for_every_part():
    graph = graph_of("""(%x: f32[4,8]) -> (%y) {
      const %a: f32[8,8]
      const %b: f32[8,6]
      %p: f32[4,8] = MatMul(%x, %a)
      %y: f32[4,6] = MatMul(%p, %b)
    }""")
    names = {"first": graph.nodes[0].name, "last": graph.nodes[1].name, "parts": 2}
    with pytest.raises(UserError) as error:
        apply(graph, "tile-chain", {**names, "axes": 1})
    assert str(error.value) == (
        f"tile: every part would recompute all of p (node {graph.nodes[0].name}). "
        "Start after it, or tile along another axis."
    )
    done = apply(graph, "tile-chain", {**names, "axes": 0})
    assert len(ops(done, "MatMul")) == 4
