"""Edits: what they make, what they refuse, and that a sound graph stays one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.counted import lines_run
from tests.strategies import attribute_class, graphs
from tests.turns import examples
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.compose import bind_symbols, extract, merge, symbols
from weft.ir.edit import (
    Replacement,
    insert_on_edge,
    prune,
    rename_nodes,
    rename_values,
    replace_all,
    set_constants,
    set_outputs,
)
from weft.ir.graph import Graph, Node
from weft.ir.order import topological
from weft.ir.text import parse, references, show
from weft.ir.types import TensorType
from weft.ir.verify import verify


def graph_of(text: str) -> Graph:
    return parse(text, attribute_class)


def replace(
    graph: Graph,
    nodes: Iterable[str],
    subgraph: Graph,
    *,
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
) -> Graph:
    return replace_all(graph, [Replacement(tuple(nodes), subgraph, inputs, outputs)])


NET = graph_of(
    """graph net(%x: f32[2]) -> (%d, %c) {
      const %k: f32[2] = [1.0, 2.0]
      %a: f32[2] = Relu(%x)
      %b: f32[2] = Add(%a, %k)
      %c: f32[2] = Mul(%a, %b)
      %d: f32[2] = Neg(%c)
    }"""
)


def body_of(graph: Graph) -> str:
    """The text without header, history and braces, spaces squeezed."""
    lines = [" ".join(line.split()) for line in show(graph).splitlines()[1:-1]]
    return "\n".join(line for line in lines if not line.startswith("history"))


def check(graph: Graph, expected: str, history: str) -> None:
    verify(graph)
    assert body_of(graph) == "\n".join(line.strip() for line in expected.strip().splitlines())
    assert str(graph.history[-1]) == history


def test_replace_with_two_inputs_and_two_outputs() -> None:
    sub = graph_of(
        """graph s(%p: f32[2], %q: f32[2]) -> (%u, %v) {
          %a: f32[2] = Fused(%p, %q)
          %u: f32[2], %v: f32[2] = Pair(%a)
        }"""
    )
    graph = replace(NET, ["c", "d"], sub, inputs={"p": "b", "q": "a"}, outputs={"c": "v", "d": "u"})
    check(
        graph,
        """const %k: f32[2] = [1.0, 2.0]
        %a: f32[2] = Relu(%x)
        %b: f32[2] = Add(%a, %k)
        %a_1: f32[2] = Fused(%b, %a)
        %d: f32[2], %c: f32[2] = Pair(%a_1) # u""",
        "replace 2 nodes by 2: c, d",
    )


def test_replacing_by_a_wire() -> None:
    wire = graph_of("graph s(%p: f32[2]) -> (%p) {}")
    check(
        replace(NET, ["b"], wire, inputs={"p": "a"}, outputs={"b": "p"}),
        """const %k: f32[2] = [1.0, 2.0]
        %a: f32[2] = Relu(%x)
        %c: f32[2] = Mul(%a, %a)
        %d: f32[2] = Neg(%c)""",
        "replace 1 nodes by 0: b",
    )


def test_a_wire_under_a_graph_output_takes_its_name() -> None:
    wire = graph_of("graph s(%p: f32[2]) -> (%p) {}")
    graph = set_outputs(NET, ["d"])
    check(
        replace(graph, ["d"], wire, inputs={"p": "c"}, outputs={"d": "p"}),
        """const %k: f32[2] = [1.0, 2.0]
        %a: f32[2] = Relu(%x)
        %b: f32[2] = Add(%a, %k)
        %d: f32[2] = Mul(%a, %b) # c""",
        "replace 1 nodes by 0: d",
    )
    with pytest.raises(UserError) as caught:
        replace(NET, ["d"], wire, inputs={"p": "c"}, outputs={"d": "p"})
    assert str(caught.value) == (
        "replace: graph output d would become an alias of c. Keep an Identity for it."
    )


def test_chained_wires_resolve_in_one_batch() -> None:
    wire = graph_of("graph s(%p: f32[2]) -> (%p) {}")
    graph = replace_all(
        NET,
        [
            Replacement(("a",), wire, {"p": "x"}, {"a": "p"}),
            Replacement(("b",), wire, {"p": "a"}, {"b": "p"}),
        ],
    )
    check(
        graph,
        """const %k: f32[2] = [1.0, 2.0]
        %c: f32[2] = Mul(%x, %x)
        %d: f32[2] = Neg(%c)""",
        "replace 2 nodes by 0: a, b",
    )


def test_replacement_that_makes_a_cycle_is_refused() -> None:
    # `b` may read `d`'s argument only if it does not depend on `b`.
    relu = graph_of("graph s(%p: f32[2]) -> (%r) { %r: f32[2] = Relu(%p) }")
    with pytest.raises(UserError) as caught:
        replace(NET, ["b"], relu, inputs={"p": "d"}, outputs={"b": "r"})
    assert str(caught.value) == "the graph has a cycle; got r -> d -> c -> r"


def test_nodes_move_only_where_they_must() -> None:
    relu = graph_of("graph s(%p: f32[2]) -> (%r) { %r: f32[2] = Relu(%p) }")
    more = Node("e", "Abs", ("x",), ("e",))
    types = {**NET.types, "e": TensorType(DType.F32, (2,))}
    independent = changed(NET, nodes=(*NET.nodes, more), types=types)
    graph = replace(independent, ["b"], relu, inputs={"p": "e"}, outputs={"b": "r"})
    assert [node.name for node in graph.nodes] == ["a", "e", "r", "c", "d"]


def test_insert_on_every_edge_of_an_output_keeps_its_name() -> None:
    double = graph_of("graph s(%p: f32[2]) -> (%r) { %r: f32[2] = Add(%p, %p) }")
    check(
        insert_on_edge(NET, "c", double),
        """const %k: f32[2] = [1.0, 2.0]
        %a: f32[2] = Relu(%x)
        %b: f32[2] = Add(%a, %k)
        %c_cut: f32[2] = Mul(%a, %b) # c
        %c: f32[2] = Add(%c_cut, %c_cut) # r
        %d: f32[2] = Neg(%c)""",
        "insert r on c",
    )
    check(
        insert_on_edge(NET, "a", double, users=["b"]),
        """const %k: f32[2] = [1.0, 2.0]
        %a: f32[2] = Relu(%x)
        %a_cut: f32[2] = Add(%a, %a) # r
        %b: f32[2] = Add(%a_cut, %k)
        %c: f32[2] = Mul(%a, %b)
        %d: f32[2] = Neg(%c)""",
        "insert r on a",
    )


def test_rename() -> None:
    graph = rename_nodes(rename_values(NET, {"x": "in", "a": "b", "b": "a"}), {"a": "first"})
    check(
        graph,
        """const %k: f32[2] = [1.0, 2.0]
        %b: f32[2] = Relu(%in) # first
        %a: f32[2] = Add(%b, %k) # b
        %c: f32[2] = Mul(%b, %a)
        %d: f32[2] = Neg(%c)""",
        "rename a to first",
    )


def test_extract_between_values() -> None:
    check(
        extract(NET, ["a"], ["c"]),
        """const %k: f32[2] = [1.0, 2.0]
        %b: f32[2] = Add(%a, %k)
        %c: f32[2] = Mul(%a, %b)""",
        "extract a to c",
    )
    assert extract(NET, ["c"], ["d"]).constants == {}


def test_merge_wires_parts() -> None:
    tail = graph_of("graph t(%x: f32[2]) -> (%y) { %y: f32[2] = Abs(%x) }")
    graph = merge("all", {"tail": tail, "net": NET}, {"tail.x": "net.c"})
    assert graph.inputs == ("net.x",)
    assert graph.outputs == ("tail.y", "net.d")
    check(
        graph,
        """const %net.k: f32[2] = [1.0, 2.0]
        %net.a: f32[2] = Relu(%net.x)
        %net.b: f32[2] = Add(%net.a, %net.k)
        %net.c: f32[2] = Mul(%net.a, %net.b)
        %tail.y: f32[2] = Abs(%net.c)
        %net.d: f32[2] = Neg(%net.c)""",
        "merge tail, net",
    )


def test_bind_symbols_reaches_bodies() -> None:
    graph = graph_of(
        """graph g(%x: f32[N,3]) -> (%y) {
          %y: f32[N,3] = Rich(%x) {body=graph b(%s: f32[M,3]) -> (%t) {
            %t: f32[M,3] = Neg(%s)
          }}
        }"""
    )
    assert symbols(graph) == ("N", "M")
    bound = bind_symbols(graph, {"N": 1, "M": 5})
    assert symbols(bound) == ()
    assert str(bound.types["y"]) == "f32[1,3]"
    assert str(bound.nodes[0].attributes.body.types["t"]) == "f32[5,3]"


def test_prune_removes_what_no_output_needs() -> None:
    graph = prune(set_outputs(NET, ["a"]))
    check(graph, "%a: f32[2] = Relu(%x)", "prune 3 nodes, 1 constants")
    assert prune(graph) is graph


def test_set_constants() -> None:
    array = np.array([3, 4], np.float32)
    graph = set_constants(NET, {"k": array})
    assert graph.constants["k"].tolist() == [3, 4]
    assert NET.constants["k"].tolist() == [1, 2]
    assert array.flags.writeable
    verify(graph)


RELU = graph_of("graph s(%p: f32[2]) -> (%r) { %r: f32[2] = Relu(%p) }")
WIDE = graph_of("graph s(%p: f32[3]) -> (%r) { %r: f32[3] = Relu(%p) }")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda: replace(NET, ["z"], RELU, inputs={"p": "a"}, outputs={}),
            "replace: graph net has no node z",
        ),
        (
            lambda: replace(NET, ["b"], RELU, inputs={"p": "a"}, outputs={}),
            "replace: value b is still read by node c (node b). "
            "Give an output of the subgraph for it.",
        ),
        (
            lambda: replace(NET, ["b"], WIDE, inputs={"p": "a"}, outputs={"b": "r"}),
            "replace: both sides of a value must have one type; "
            "got a: f32[2] in the graph, p: f32[3] in the subgraph. "
            "Give a subgraph for that shape, or replace what reads the value, too.",
        ),
        (
            lambda: replace(NET, ["b"], RELU, inputs={}, outputs={"b": "r"}),
            "replace: subgraph input p needs a value of the graph; got none",
        ),
        (
            lambda: replace(NET, ["a", "b"], RELU, inputs={"p": "a"}, outputs={"b": "r"}),
            "replace: value a is still read by node c (node a). "
            "Give an output of the subgraph for it.",
        ),
        (
            lambda: replace(NET, ["b"], RELU, inputs={"p": "b"}, outputs={"b": "r"}),
            "replace: subgraph input p reads b, which is replaced",
        ),
        (
            lambda: rename_values(NET, {"a": "b"}),
            "there is a value b already",
        ),
        (
            lambda: extract(NET, ["b"], ["d"]),
            "extract: the outputs need graph input x, which is not among the inputs; got b. "
            "Add it, or a value that lies behind it.",
        ),
        (
            lambda: bind_symbols(NET, {"N": 1}),
            "bind: graph net has no symbol N; got no symbols",
        ),
        (
            lambda: merge("m", {"a": NET, "b": WIDE}, {"b.p": "a.d"}),
            "merge: wired values must have one type; got a.d: f32[2], b.p: f32[3]",
        ),
        (
            lambda: insert_on_edge(NET, "a", RELU, users=["d"]),
            "insert: node d does not read value a. Those that do: b, c.",
        ),
        (
            lambda: set_constants(NET, {"k": np.zeros(3, np.float32)}),
            "constants: k is f32[2]; got f32[3]",
        ),
        (lambda: set_outputs(NET, ["z"]), "there is no value z (outputs)"),
    ],
)
def test_refusals(edit: Callable[[], Graph], message: str) -> None:
    before = show(NET)
    with pytest.raises(UserError) as caught:
        edit()
    assert str(caught.value) == message
    assert show(NET) == before


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(depth=0, rich=False), st.data())
def test_edits_of_any_graph_leave_it_sound(graph: Graph, data: st.DataObject) -> None:
    verify(graph)
    pruned = prune(graph)
    verify(pruned)
    assert pruned.outputs == graph.outputs
    if not graph.types:
        return
    value = data.draw(st.sampled_from(list(graph.types)))
    verify(rename_values(graph, {value: "a quite new name"}))
    verify(extract(graph, list(graph.inputs), [value]))
    two = merge("two", {"a": graph, "b": graph}, {})
    verify(two)
    assert len(two.nodes) == 2 * len(graph.nodes)
    edge = Graph(
        "s",
        ("p",),
        ("r",),
        (Node("r", "Neg", ("p",), ("r",)),),
        {"p": graph.types[value], "r": graph.types[value]},
    )
    try:
        inserted = insert_on_edge(graph, value, edge)
    except UserError:
        if value in graph.outputs:
            assert value not in graph.producers
        else:
            assert not graph.users[value]
        return
    verify(inserted)
    back = replace(
        inserted,
        [inserted.nodes[-1].name],
        _copy_of(inserted, inserted.nodes[-1]),
        inputs={v: v for v in inserted.nodes[-1].inputs if v},
        outputs={v: v for v in inserted.nodes[-1].outputs if v},
    )
    assert back == inserted


def _copy_of(graph: Graph, node: Node) -> Graph:
    inputs = tuple(dict.fromkeys(value for value in node.inputs if value))
    outputs = tuple(value for value in node.outputs if value)
    types = {value: graph.types[value] for value in (*inputs, *outputs)}
    return Graph("copy", inputs, outputs, (node,), types)


def chain(length: int) -> Graph:
    type = TensorType(DType.F32, (2,))
    nodes = [Node(f"n{i}", "Relu", (f"v{i}",), (f"v{i + 1}",)) for i in range(length)]
    types = {f"v{i}": type for i in range(length + 1)}
    return Graph("chain", ("v0",), (f"v{length}",), tuple(nodes), types)


def batch(length: int) -> list[Replacement]:
    return [
        Replacement((f"n{i}",), RELU, {"p": f"v{i}"}, {f"v{i + 1}": "r"})
        for i in range(0, length, 10)
    ]


def test_a_batch_of_replacements_is_linear() -> None:
    def work(length: int) -> int:
        graph, places = chain(length), batch(length)
        return lines_run(lambda: verify(replace_all(graph, places)))

    # Ten times the nodes and places: a quadratic pass would do a hundred times the work.
    assert work(3000) < 11 * work(300)


def test_long_chains_do_not_exhaust_the_stack() -> None:
    graph = chain(20_000)
    type = graph.types["v0"]
    backwards = [Node("head", "Abs", ("w",), ("h",)), Node("w", "Abs", ("v0",), ("w",))]
    nodes, types = topological((*graph.nodes, *backwards)), {**graph.types, "h": type, "w": type}
    late = changed(graph, nodes=nodes, types=types)
    verify(late)
    again = parse(show(late), attribute_class, references(late))
    assert again == late
