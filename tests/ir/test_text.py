"""The graph's text: round trips, what it looks like, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import attribute_class, graphs
from tests.turns import examples
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.text import digest, parse, references, show

TEXT = """\
graph net(%x: f32[N,3,8,8]) -> (%y, %"a b") {
  history "imported"
  history "prune": "2 nodes, 0 constants"
  const %w: f32[2,3,3] = @f9d4c1e5b1f0f9ab
  const %b: f32[2] = [1.5, -inf]
  %z: f32[N,8,8,8]    = Conv(%x, %w, _, %b)  # /stem/conv <- /a/b, "c d" by fold
  %y: f32[N,8,8,8], _ = Rich(%z) {scale=0.1, mode=Mode.LINEAR, sizes=(1,)}
  %"a b": f32[2]      = Neg(%b)
}
"""


def test_text_looks_as_documented() -> None:
    w = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    text = TEXT.replace("f9d4c1e5b1f0f9ab", digest(w))
    graph = parse(text, attribute_class, {"w": w})
    assert graph.by_name["/stem/conv"].origin.sources == ("/a/b", "c d")
    assert graph.by_name["/stem/conv"].origin.rules == ("fold",)
    assert graph.by_name["y"].outputs == ("y", "")
    assert graph.constants["b"].tolist() == [1.5, -np.inf]
    expected = text.replace(
        "scale=0.1, mode=Mode.LINEAR, sizes=(1,)", "scale=0.1, mode=Mode.LINEAR, sizes=(1,)"
    )
    assert show(graph) == expected


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(), st.booleans())
def test_parse_gives_back_what_show_printed(graph: Graph, defaults: bool) -> None:
    text = show(graph, defaults=defaults)
    again = parse(text, attribute_class, references(graph))
    assert again == graph
    assert again.history == graph.history
    assert show(again, defaults=defaults) == text


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(max_nodes=3), st.data())
def test_damaged_text_is_refused_or_sound(graph: Graph, data: st.DataObject) -> None:
    text = show(graph)
    position = data.draw(st.integers(0, len(text) - 1))
    damage = data.draw(st.sampled_from(["", '"', "(", "}", "%", "1", "\\", "graph ", "é", "\0"]))
    text = text[:position] + damage + text[position + data.draw(st.integers(0, 5)) :]
    try:
        again = parse(text, attribute_class, references(graph))
    except UserError:
        return
    assert parse(show(again), attribute_class, references(again)) == again


def test_equality_sees_every_part() -> None:
    w = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    graph = parse(TEXT.replace("f9d4c1e5b1f0f9ab", digest(w)), attribute_class, {"w": w})
    w_negative_zero = w.copy()
    w_negative_zero[0, 0, 0] = -0.0
    others = [
        replace(graph, name="other"),
        replace(graph, outputs=("y",)),
        replace(graph, nodes=graph.nodes[:2]),
        replace(graph, constants={**graph.constants, "w": w_negative_zero}),
        replace(graph, constants={**graph.constants, "w": w.astype(np.float64)}),
        replace(graph, types={**graph.types, "y": graph.types["x"]}),
    ]
    assert all(other != graph for other in others)
    same = replace(graph, history=(), constants={**graph.constants, "w": w.copy()})
    assert same == graph
    assert hash(same) == hash(graph)


HEAD = "graph g(%x: f32[2]) -> (%y) {\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "%y: f32[2] = Rich(%x) {sise=1}\n}",
            "text: Rich has the attributes: count, scale, name, flag, axis, to, mode, sizes, "
            "nested, dim, type, body, each once; got sise=1} (line 2)",
        ),
        (
            "%y: f33[2] = Neg(%x)\n}",
            "text: an element type is one of f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, "
            "u32, u64, bool; got f33[2] = Neg(%x) (line 2)",
        ),
        (
            "%y: f32[2] = Neg(%x)\n",
            "text: a value such as %x is expected; got nothing more (line 3)",
        ),
        (
            "%y: f32[2] = Neg(%z)\n}",
            "text: the graph g is invalid; got node y reads z which nothing makes",
        ),
        (
            "%x: f32[2] = Neg(%x)\n}",
            "text: there is a value x already; got %x: f32[2] = Neg(%x) (line 2)",
        ),
        (
            "const %y: f32[2] = [1.0]\n}",
            "text: the elements of f32[2] are expected, there are 1; got } (line 3)",
        ),
        (
            "const %y: f32[2] = @00\n}",
            "text: constant y is referenced without an array",
        ),
        ("!", "text: this is no part of a graph; got ! (line 2)"),
    ],
)
def test_refusals(lines: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(HEAD + lines, attribute_class)
    assert str(caught.value) == message


def test_changed_weights_are_noticed() -> None:
    w = np.arange(18, dtype=np.float32)
    text = f"graph g() -> (%w) {{\n const %w: f32[18] = @{digest(w)}\n}}"
    with pytest.raises(UserError) as caught:
        parse(text, attribute_class, {"w": w + 1})
    assert str(caught.value) == (
        "text: constant w has different elements than the text references; "
        f"got @{digest(w + 1)} for @{digest(w)}"
    )
