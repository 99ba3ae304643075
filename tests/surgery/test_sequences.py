"""Random sequences of ten edits that keep the meaning: outputs stay those of the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.surgery.nets import check
from tests.turns import examples
from weft import layers
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.naming import fresh
from weft.ir.text import parse, references, show
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

EDITS = 10


@st.composite
def networks(draw: st.DrawFn) -> weft.Net:
    """A few layers over values of one shape, with branches, several inputs and outputs."""
    values = [weft.input(f"in{place}", "f32[2,3,5,4]") for place in range(draw(st.integers(1, 2)))]
    inputs = list(values)
    shared = np.random.default_rng(0).normal(size=(3, 3, 1, 1)).astype(np.float32)
    for _ in range(draw(st.integers(2, 7))):
        kind = draw(st.sampled_from(["conv", "shared", "relu", "relu6", "add", "norm", "reshape"]))
        x = draw(st.sampled_from(values))
        if kind == "conv":
            made = layers.Conv(3, draw(st.sampled_from([1, 3])), padding="same")(x)
        elif kind == "shared":
            made = layers.Conv(3, 1, weight=shared)(x)
        elif kind == "relu":
            made = weft.ops.relu(x)
        elif kind == "relu6":
            made = weft.ops.clip(x, min=0, max=6)
        elif kind == "add":
            made = x + draw(st.sampled_from(values))
        elif kind == "norm":
            made = layers.BatchNorm()(x)
        else:
            made = weft.ops.reshape(weft.ops.reshape(x, (2, 3, 20)), (2, 3, 5, 4))
        values.append(made)
    last = values[-1]
    outputs = [last, *draw(st.lists(st.sampled_from(values[len(inputs) :]), max_size=2))]
    return weft.net(inputs, outputs, seed=draw(st.integers(0, 3)))


Edit = Callable[[weft.Net, st.DrawFn], weft.Net]


def rename(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    values = draw(
        st.lists(st.sampled_from([*net.graph.types]), unique=True, min_size=1, max_size=3)
    )
    turned = dict(zip(values, values[1:] + values[:1], strict=True))
    node = draw(st.sampled_from(net.graph.nodes)).name
    return net.rename(turned, {node: fresh(f"{node}!", net.graph.by_name)})


def insert_identity(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    value = draw(st.sampled_from([v for v in net.graph.types if v not in net.graph.constants]))
    users = [user.name for user in net.graph.users[value]]
    whole = value in net.graph.producers and draw(st.booleans())
    if not users and not (whole and value in net.graph.outputs):
        return net
    if whole:
        return net.insert(value, weft.ops.identity)
    back = weft.ops.not_ if net.graph.types[value].dtype is DType.BOOL else weft.ops.neg
    return net.insert(value, lambda x: back(back(x)), users=users[:1])


def reload(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    graph = net.graph
    text = show(graph)
    # Loops have constants of their own.
    again = parse(text, lambda op: OPS[op].attributes, references(graph))
    assert again == graph
    return net.with_graph(again)


def clone_with_the_same_shapes(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    graph = net.graph
    there = net.with_shapes(dict.fromkeys(graph.inputs, (5, 3, 5, 4)))
    check(there.graph)
    return there.with_shapes({name: graph.types[name].shape for name in graph.inputs})


def replace_by_an_equal_graph(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    names = [node.name for node in net.graph.nodes]
    start = draw(st.integers(0, len(names) - 1))
    chosen = names[start : start + draw(st.integers(1, 3))]
    try:
        view = net.view(chosen)
    except UserError as error:
        if "which other nodes compute" not in error.rule:
            raise
        return net
    return net.replace(draw(st.permutations(chosen)), view.subgraph())


def split_and_join(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    graph = net.graph
    at = draw(st.sampled_from(graph.nodes)).outputs[0]
    try:
        front, back = net.split(at)
    except UserError as error:
        if not error.rule.startswith("split: "):
            raise
        return net

    def both(*inputs: weft.Value) -> list[weft.Value]:
        known = dict(zip(graph.inputs, inputs, strict=True))
        for part in (front.graph, back.graph):
            made = weft.Net(part)(*(known[v] for v in part.inputs), name="part")
            made = (made,) if isinstance(made, weft.Value) else made
            known.update(zip(part.outputs, made, strict=True))
        return [known[v] for v in graph.outputs]

    return weft.trace(both, *net.inputs.values())


def extract_everything(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    return net.extract(net.graph.inputs, net.graph.outputs)


def swap_equal_weights(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    return net.with_weights({name: array.copy() for name, array in net.weights.items()})


def delete_what_was_inserted(net: weft.Net, draw: st.DrawFn) -> weft.Net:
    identities = [node.name for node in net.graph.nodes if node.op == "Identity"]
    return net.delete(identities[:1]) if identities else net


EDITORS: list[Edit] = [
    rename,
    insert_identity,
    reload,
    clone_with_the_same_shapes,
    replace_by_an_equal_graph,
    split_and_join,
    extract_everything,
    swap_equal_weights,
    delete_what_was_inserted,
]


def outputs(graph: Graph, arrays: list[np.ndarray]) -> list[np.ndarray]:
    found = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)), OPS)
    return [found[name] for name in graph.outputs]


@given(networks(), st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_ten_edits(net: weft.Net, data: st.DataObject) -> None:
    source = np.random.default_rng(1)
    arrays = [source.normal(size=(2, 3, 5, 4)).astype(np.float32) for _ in net.graph.inputs]
    wanted = outputs(net.graph, arrays)
    for _ in range(EDITS):
        edit = data.draw(st.sampled_from(EDITORS))
        before, text = net.graph, show(net.graph)
        net = edit(net, data.draw)
        assert show(before) == text
        check(net.graph)
        for got, want in zip(outputs(net.graph, arrays), wanted, strict=True):
            np.testing.assert_array_equal(got, want)
