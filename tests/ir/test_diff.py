"""Differences of graphs."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.strategies import attribute_class, graphs
from tests.turns import examples
from weft.ir.diff import diff
from weft.ir.edit import prune, rename_nodes, rename_values
from weft.ir.graph import Graph
from weft.ir.text import parse


def graph_of(text: str) -> Graph:
    return parse(text, attribute_class)


OLD = graph_of(
    """graph old(%x: f32[2]) -> (%d) {
      const %k: f32[2] = [1.0, 2.0]
      %a: f32[2] = Relu(%x)
      %b: f32[2] = Add(%a, %k)
      %c: f32[2] = Rich(%b) {count=1}
      %e: f32[2] = Exp(%c)
      %f: f32[2] = Exp(%e)
      %g: f32[2] = Exp(%f)
      %d: f32[2] = Neg(%g)
    }"""
)


def test_unified_text() -> None:
    new = graph_of(
        """graph new(%x: f32[2], %k: f32[2]) -> (%d) {
          %b: f32[2] = Mul(%x, %k)
          %c: f32[2] = Rich(%b) {count=2}
          %e: f32[2] = Exp(%c)
          %f: f32[2] = Exp(%e)
          %g: f32[2] = Exp(%f)
          %d: f32[2] = Neg(%g)
        }"""
    )
    assert str(diff(OLD, new)).splitlines() == [
        "--- old",
        "+++ new",
        "- inputs x: f32[2]",
        "+ inputs x: f32[2], k: f32[2]",
        "- const k: f32[2] @" + str(diff(OLD, new)).split("@")[1][:16],
        "+ %b: f32[2] = Mul(%x, %k)",
        "- %a: f32[2] = Relu(%x)",
        "- %b: f32[2] = Add(%a, %k)",
        "- %c: f32[2] = Rich(%b) {count=1}",
        "+ %c: f32[2] = Rich(%b) {count=2}",
        "  %e: f32[2] = Exp(%c)",
        "  %f: f32[2] = Exp(%e)",
        "  ...",
    ]


def test_renamed_nodes_and_values_are_matched_by_structure() -> None:
    names = {value: f"new_{value}" for value in OLD.types}
    new = rename_nodes(rename_values(OLD, names), {n.name: f"new_{n.name}" for n in OLD.nodes})
    found = diff(OLD, new)
    assert (found.added, found.removed, found.changed) == ((), (), ())


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(depth=0))
def test_any_graph(graph: Graph) -> None:
    assert not diff(graph, graph)
    assert str(diff(graph, graph)) == ""
    pruned = prune(graph)
    found = diff(graph, pruned)
    assert len(found.removed) == len(graph.nodes) - len(pruned.nodes)
    assert (found.added, found.changed) == ((), ())
    assert bool(found) == (
        len(pruned.nodes) < len(graph.nodes) or len(pruned.constants) < len(graph.constants)
    )
