"""Patterns: what they match, in every order, and what is wrong with a wrong one."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.ir.graph import Graph
from weft.ir.text import parse
from weft.match.compile import compile_rule
from weft.match.matcher import matches_at
from weft.match.view import GraphView
from weft.ops.table import OPS


def graph_of(text: str) -> Graph:
    return parse(f"graph g{text}", lambda op: OPS[op].attributes)


def found(graph: Graph, text: str) -> list[str]:
    """The roots at which a pattern matches."""
    root, view = compile_rule(text), GraphView(graph)
    return [node.name for node in graph.nodes if any(matches_at(root, node, view))]


NET = graph_of(
    """(%x: f32[4]) -> (%d, %f) {
        const %k: f32[4] = [1.0, 2.0, 3.0, 4.0]
        const %two: f32[1] = [2.0]
        %a: f32[4] = Relu(%x)
        %b: f32[4] = Add(%k, %a)
        %c: f32[4] = LeakyRelu(%b) {alpha=0.20000000298023224}
        %d: f32[4] = Mul(%a, %c)
        %e: f32[4] = Mul(%two, %d)
        %f: f32[4] = Mul(%e, %e)
    }"""
)


@pytest.mark.parametrize(
    ("pattern", "roots"),
    [
        ("y = Mul(x, z)", ["d", "e", "f"]),
        ("y = Mul(x, x)", ["f"]),
        ("y = Mul{2, x}", ["e"]),
        ("y = Mul(x, 2)", []),
        ("y = Mul{x, const k}", ["e"]),
        ("y = Add{x, const k}", ["b"]),
        ("y = Add(x, const k)", []),
        ("y = *(Relu(x), ...)", ["d"]),
        ("y = *{Relu(x), _}", ["b", "d"]),
        ("y = Relu(x) [users=2]", ["a"]),
        ("y = Relu(x) [users=1]", []),
        ("y = Mul(x, z) [users=2]", ["d", "e"][:1]),
        ("y = LeakyRelu(x) [alpha=0.2]", ["c"]),
        ("y = LeakyRelu(x) [alpha=0.25]", []),
        ("y = Relu(x) | LeakyRelu(x)", ["a", "c"]),
        ("r = Relu(x)\ny = Mul(r, LeakyRelu(Add{r, const k}))", ["d"]),
        ("r = Relu(x)\ny = Mul(z, LeakyRelu(Add{r, z}))", []),
        ("y = Mul(x,\n    z)\n", ["d", "e", "f"]),
        ("y = Neg(x)\n  | Relu(x)  // or so", ["a"]),
    ],
)
def test_what_matches(pattern: str, roots: list[str]) -> None:
    assert found(NET, pattern) == roots


def test_bindings_and_nodes() -> None:
    root = compile_rule("r = Relu(x)\ny = Mul(r, LeakyRelu(Add{r, const k}))")
    match = next(matches_at(root, NET.by_name["d"], GraphView(NET)))
    assert (match["x"], match["r"], match["k"], match["y"]) == ("x", "a", "k", "d")
    assert sorted(node.name for node in match.nodes) == ["a", "b", "c", "d"]
    assert match.root is match.nodes[0]
    assert match.array("k").tolist() == [1, 2, 3, 4]
    assert str(match.type("y")) == "f32[4]"
    assert match.node("r").op == "Relu"


def test_every_order_is_found() -> None:
    root = compile_rule("y = Mul{x, z}")
    matches = list(matches_at(root, NET.by_name["d"], GraphView(NET)))
    assert [(match["x"], match["z"]) for match in matches] == [("a", "c"), ("c", "a")]


def test_optional_inputs_and_further_outputs() -> None:
    graph = graph_of(
        """(%x: f32[1,2,4]) -> (%a, %p, %i) {
            const %w: f32[1,2,1] = [1.0, 2.0]
            const %b: f32[1] = [1.0]
            %a: f32[1,1,4] = Conv(%x, %w)
            %c: f32[1,1,4] = Conv(%x, %w, %b)
            %p: f32[1,1,2], %i: i64[1,1,2] = MaxPool(%c) {kernel=(2,), strides=(2,)}
            %q: f32[1,1,2] = MaxPool(%c) {kernel=(2,), strides=(2,)}
        }"""
    )
    assert found(graph, "y = Conv(x, w, b?)") == ["a", "c"]
    assert found(graph, "y = Conv(x, w)") == ["a"]
    assert found(graph, "y = Conv(x, w, b)") == ["c"]
    assert found(graph, "y = Conv(x, ...)") == ["a", "c"]
    assert found(graph, "y = MaxPool(x)") == ["q"]
    assert found(graph, "y, i = MaxPool(x)") == ["p"]
    assert found(graph, "y, ... = MaxPool(x)") == ["p", "q"]
    assert found(graph, "y = MaxPool(x) [kernel=(2,)]") == ["q"]


# --- against brute force --------------------------------------------------------------------

LEAVES = ("x", "y", "x", "const k", "2")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(LEAVES))
    op = draw(st.sampled_from(["Add", "Mul"]))
    left, right = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    return f"{op}{{{left}, {right}}}" if draw(st.booleans()) else f"{op}({left}, {right})"


@st.composite
def nets(draw: st.DrawFn) -> Graph:
    values = ["u", "v", "k", "two"]
    lines = ["const %k: f32[1] = [1.0]", "const %two: f32[1] = [2.0]"]
    for number in range(draw(st.integers(1, 6))):
        op, left, right = (draw(st.sampled_from(each)) for each in (["Add", "Mul"], values, values))
        lines.append(f"%n{number}: f32[1] = {op}(%{left}, %{right})")
        values.append(f"n{number}")
    body = "\n".join(lines)
    return graph_of(f"(%u: f32[1], %v: f32[1]) -> (%{values[-1]}) {{\n{body}\n}}")


def ordered_forms(text: str) -> set[str]:
    """The expression with every choice of orders made, as ordered text."""
    head, opening, rest = text[:3], text[3:4], text[4:-1]
    if head not in ("Add", "Mul") or opening not in ("(", "{"):
        return {text}
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            parts = (rest[:place], rest[place + 2 :])
            break
    orders = list(permutations((0, 1))) if opening == "{" else [(0, 1)]
    choices = [ordered_forms(part) for part in parts]
    return {
        f"{head}({pick[order[0]]}, {pick[order[1]]})"
        for pick in product(*choices)
        for order in orders
    }


def brute(graph: Graph, text: str, value: str, bound: dict[str, str]) -> bool:
    """Whether an ordered expression fits a value; fills in what names are bound to."""
    if text == "2":
        return value == "two"
    if text.startswith("const "):
        return value in graph.constants and bound.setdefault(text[6:], value) == value
    if text in ("x", "y"):
        return bound.setdefault(text, value) == value
    node = graph.producers.get(value)
    if node is None or node.op != text[:3]:
        return False
    depth, rest = 0, text[4:-1]
    for place, letter in enumerate(rest):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            return brute(graph, rest[:place], node.inputs[0], bound) and brute(
                graph, rest[place + 2 :], node.inputs[1], bound
            )
    return False


@settings(max_examples=examples(300), deadline=None)
@given(
    nets(),
    # {2, 2} counts repetitions.
    expressions(3).filter(lambda text: text[:3] in ("Add", "Mul") and "{2, 2}" not in text),
)
def test_the_matcher_is_brute_force(graph: Graph, text: str) -> None:
    expected = [
        node.name
        for node in graph.nodes
        if any(brute(graph, form, node.outputs[0], {}) for form in ordered_forms(text))
    ]
    assert found(graph, f"root = {text}") == expected
