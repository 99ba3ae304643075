"""Graphs of values: order, names, sharing, graphs put in, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from weft.api import Net
from weft.errors import UserError
from weft.ir.history import HistoryEntry
from weft.ir.text import show
from weft.ir.types import parse_type
from weft.ir.verify import verify
from weft.ops.evaluate import call_of, evaluate
from weft.ops.table import OPS
from weft.ops.trace import call_graph, graph_of, trace
from weft.ops.values import Drawn, Initial, Value, weight

X = parse_type("f32[2,3]")


def x(name: str = "x") -> Value:
    return weft.input(name, X)


def test_the_graph_of_a_function() -> None:
    graph = trace(lambda x: weft.ops.relu(x + 1), [X], "small")
    verify(graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    assert graph.history == (HistoryEntry("build", "2 nodes by hand"),)
    assert show(graph).splitlines()[2:] == [
        "  const %add.b: f32[] = [1.0]",
        "  %add_out: f32[2,3]  = Add(%x, %add.b)  # add",
        "  %relu_out: f32[2,3] = Relu(%add_out)  # relu",
        "}",
    ]


def test_names_that_are_wished_for() -> None:
    a, b = x("a"), x("b")
    both = weft.ops.add(a, b, name="sum").named("both")
    graph = graph_of([a, b], [weft.ops.relu(both).named("y"), both])
    assert graph.inputs == ("a", "b")
    assert graph.outputs == ("y", "both")
    assert [node.name for node in graph.nodes] == ["sum", "relu"]


def test_outputs_are_values_of_their_own() -> None:
    a = x()
    y = weft.ops.relu(a)
    graph = graph_of([a], [y, y, a])
    assert len(set(graph.outputs)) == 3
    assert not {*graph.outputs} & {*graph.inputs}
    given = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    found = evaluate(graph, {"x": given}, OPS)
    np.testing.assert_array_equal(found[graph.outputs[1]], np.maximum(given, 0))
    np.testing.assert_array_equal(found[graph.outputs[2]], given)


def test_deep_chains_do_not_recurse() -> None:
    value = start = x()
    for _ in range(5000):
        value = weft.ops.neg(value)
    assert len(graph_of([start], [value]).nodes) == 5000


def test_weights_are_drawn_from_the_seed_and_their_names() -> None:
    def layer(x: Value) -> Value:
        w = weight(parse_type("f32[3,4]"), "he", (3, 4))
        return weft.ops.matmul(weft.ops.matmul(x, w), weight(parse_type("f32[4,3]"), name="second"))

    first, again, other = (trace(layer, [X], seed=seed).constants for seed in (1, 1, 2))
    assert [*first] == ["matmul.b", "second"]
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])
    # The draw depends on the weight's own name, not on what stands before it.
    alone = trace(
        lambda x: weft.ops.matmul(x, weight(parse_type("f32[3,4]"), "he", (3, 4))), [X], seed=1
    )
    np.testing.assert_array_equal(alone.constants["matmul.b"], first["matmul.b"])


@pytest.mark.parametrize("kind", ["he", "glorot", "normal", "zeros", "ones"])
def test_how_weights_are_drawn(kind: Initial) -> None:
    maker = weight(parse_type("f32[100,200]"), kind, (100, 200)).maker
    assert isinstance(maker, Drawn)
    drawn = maker.array(0, 0)
    deviation = {"he": 0.02**0.5, "glorot": (2 / 300) ** 0.5, "normal": 0.02}.get(kind, 0.0)
    assert drawn.dtype == np.float32
    assert abs(drawn.std() - deviation) < 0.02 * deviation + 1e-9
    assert abs(drawn.mean() - (kind == "ones")) < 1e-2


def test_graphs_are_put_in() -> None:
    w = np.arange(9, dtype=np.float32).reshape(3, 3)
    inner = trace(lambda x: weft.ops.relu(weft.ops.matmul(x, w)), [parse_type("f32[N,3]")], "part")
    a = x()
    (once,) = call_graph(inner, a)
    (twice,) = call_graph(inner, once - 1, name="second")
    graph = graph_of([a], [twice])
    verify(graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    assert [node.name for node in graph.nodes] == [
        "part.matmul",
        "part.relu",
        "sub",
        "second.matmul",
        "second.relu",
    ]
    assert [*graph.constants] == ["part.matmul.b", "sub.b"]
    assert not any("N" in str(type) for type in graph.types.values())
    given = np.ones((2, 3), np.float32)
    wanted = np.maximum((np.maximum(given @ w, 0) - 1) @ w, 0)
    np.testing.assert_allclose(evaluate(graph, {"x": given}, OPS)[graph.outputs[0]], wanted)


def test_nets_mix_with_values() -> None:
    part = weft.trace(weft.layers.Linear(3), X, name="part")
    whole = weft.trace(lambda x: weft.ops.relu(part(part(x), name="again")), X)
    assert isinstance(whole, Net)
    assert [node.name for node in whole.graph.nodes] == ["part.gemm", "again.gemm", "relu"]
    given = np.ones((2, 3), np.float32)
    inner = part.reference(part.reference(given)[0])[0]
    np.testing.assert_array_equal(whole.reference(given)[0], np.maximum(inner, 0))


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: graph_of([x("a")], [x("b") + 1]),
        "net: the outputs need input b, which is not among the inputs; got a. "
        "Add it to the inputs.",
    ),
    (
        lambda: graph_of([x(), x()], [x()]),
        "net: there is an input x already. "
        "Input names must be unique, and each input is listed once.",
    ),
    (lambda: graph_of([x()], []), "net: there must be at least one output; got none"),
    (
        lambda: weft.net(x(), [x()]),  # type: ignore[arg-type]
        "net: the inputs must be a list of values; got Value. Write [input].",
    ),
    (
        lambda: graph_of([x() + 1], [x()]),
        "net: an input must come from weft.input; got Value(f32[2,3])",
    ),
    (
        lambda: graph_of([x()], ["y"]),  # type: ignore[list-item]
        "net: every output must be a value; got str",
    ),
    (
        lambda: trace(lambda x: "y", [X]),
        "trace: the function must return a value or a tuple of values; got str",
    ),
    (
        lambda: trace(lambda x: None, [X]),
        "trace: the function must return a value or a tuple of values; got nothing. "
        "Does it lack a return?",
    ),
    (
        lambda: trace(lambda x, y: x, [X]),
        "trace: the function must take 1 value, one for each input; got <lambda>(x, y). "
        "It cannot be called so: missing a required argument: 'y'.",
    ),
    (
        lambda: trace(3, [X]),  # type: ignore[arg-type]
        "trace: expected a function of values: an op, a layer, a network or a Python function; "
        "got int",
    ),
    (
        lambda: weft.input("x", (1, 3)),  # type: ignore[arg-type]
        "input x: a type is text such as f32[1,3,224,224], or a TensorType; got (1, 3)",
    ),
    (
        lambda: weft.input("", "f32[1]"),
        "an input must have a name; got '' (input of type f32[1])",
    ),
    (
        lambda: weft.trace(lambda x: x + 1, X)(np.ones((2, 3), np.float32)),  # type: ignore[arg-type]
        "call: input x of graph net must be a symbolic value; got ndarray. "
        "weft.constant converts an array; compile() returns a function of arrays.",
    ),
    (
        lambda: call_graph(trace(lambda x: x + 1, [X], "part")),
        "call: graph part has the inputs x; got 0 values",
    ),
    (
        lambda: call_graph(trace(lambda x: x + 1, [parse_type("f32[N,4]")], "part"), x()),
        "call: input x of graph part is f32[N,4]; got f32[2,3]. Give the graph other shapes first.",
    ),
    (
        lambda: parse_type("f3[1]"),
        "a type must be an element type and sizes in brackets, such as f32[1,3,224,224]; got f3[1]",
    ),
    (
        lambda: parse_type("f32[1,N]"),
        "only the leading size of a type may be a symbol; got f32[1,N]",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_refusals(use: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        use()
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "index",
    [
        (0,),
        (-1, 2),
        (slice(1, None),),
        (slice(None), slice(0, 3, 2)),
        (..., -1),
        (0, ..., slice(1, 3)),
        (slice(None, None, -1), slice(None), slice(3, 0, -2)),
        (1, 2, 3),
        (slice(None), ...),
        (slice(0, 99), slice(-2, None)),
    ],
    ids=str,
)
def test_indices_are_as_those_of_numpy(index: tuple[int | slice, ...]) -> None:
    given = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    net = weft.trace(lambda x: x[index], "f32[2,3,4]")
    (made,) = net.reference(given)
    np.testing.assert_array_equal(made, given[index])
    if net.graph.nodes:
        np.testing.assert_array_equal(net.compile()(given), given[index])


def test_an_open_size_can_be_kept_but_not_cut() -> None:
    assert str(weft.input("x", "f32[N,4]")[:, 1:].type) == "f32[N,3]"
    assert str(weft.input("x", "f32[N,4]")[..., 0].type) == "f32[N]"


BAD_INDICES: list[tuple[Callable[[weft.Value], object], str]] = [
    (lambda x: x[2], "index: axis 0 has 2 elements; got 2. The first is 0."),
    (lambda x: x[:, -4], "index: axis 1 has 3 elements; got -4. The first is 0."),
    (
        lambda x: x[0, 0, 0],
        "index: at most one index for each of 2 axes, and one ...; got 3 indices "
        "(a value of type f32[2,3])",
    ),
    (
        lambda x: x[..., ...],
        "index: at most one index for each of 2 axes, and one ...; got ... 2 times "
        "(a value of type f32[2,3])",
    ),
    (
        lambda x: x[None],  # type: ignore[index]
        "index: an index is a whole number, a slice or ...; got None. weft.ops.gather reads at "
        "an array of indices, weft.ops.unsqueeze adds axes.",
    ),
    (
        lambda x: weft.input("y", "f32[N,3]")[0],
        "index: axis 0 has an open size and cannot be sliced; got f32[N,3]",
    ),
    (
        lambda x: list(x),
        "a symbolic value cannot be iterated; got Value(x: f32[2,3]). "
        "Use weft.ops.split, or index it: value[0].",
    ),
]


@pytest.mark.parametrize(
    ("use", "message"), BAD_INDICES, ids=[message for _, message in BAD_INDICES]
)
def test_indices_that_are_refused(use: Callable[[weft.Value], object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        use(weft.input("x", "f32[2,3]"))
    assert str(caught.value) == message
