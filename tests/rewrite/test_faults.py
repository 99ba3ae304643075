"""Rules and recipes of a user whose functions fail: told as their fault, at file and line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.rewrite.checks import graph_of
from weft.errors import InternalError, UserError
from weft.ir.graph import Graph
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.rewrite.engine import rewrite
from weft.rewrite.recipe import Recipe, apply_recipe
from weft.rewrite.rule import Exactness, Rule, always

NEG = "(%x: f32[2,3]) -> (%y) { %y: f32[2,3] = Neg(%x) }"


def rule(after: Any, where: Any = always, before: str = "y = Neg(x)") -> Rule:
    return Rule("mine", before, after, Exactness.BIT_EXACT, "Wrong.", where)


def here(function: Callable[..., Any], below: int = 1) -> str:
    """The place of a line of a function, as errors tell it."""
    return f"{__file__}, line {inspect.getsourcelines(function)[1] + below}"


def keep(match: Match, _: GraphBuilder) -> str:
    return match["x"]


def divides(match: Match) -> str | None:
    return str(len(match.nodes) / 0)


def agrees(_: Match) -> object:
    return True


def asks_wrongly(match: Match, _: GraphBuilder) -> str:
    return match["input"]


def gives_nothing(match: Match, builder: GraphBuilder) -> object:
    builder.op("Abs", match["x"])


def gives_bools(match: Match, builder: GraphBuilder) -> str:
    return builder.op("IsNaN", match["x"])


def gives_no_value(_: Match, __: GraphBuilder) -> str:
    return "nowhere"


def builds_nonsense(match: Match, builder: GraphBuilder) -> str:
    return builder.op("MatMul", match["x"], match["x"])


def misspells(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Abs", match["x"] + "_in")


def forgets_attributes(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Concat", match["x"])


AT = "at node y with x: x, y: y"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            rule(keep, divides),
            "rule mine: `where` failed; got ZeroDivisionError: division by zero "
            f"({here(divides)}, {AT})",
        ),
        (
            rule(keep, agrees),
            "rule mine: `where` failed; got TypeError: it must return None to let the rule "
            "apply, or a sentence that says why not; it returned True "
            f"({here(agrees, 0)}, {AT})",
        ),
        (
            rule(asks_wrongly),
            "rule mine: `after`: match: a name of the query is expected; got 'input' "
            f"({here(asks_wrongly)}, {AT}). There are: x, y.",
        ),
        (
            rule(gives_nothing),
            "rule mine: `after` failed; got TypeError: it must return the name of a value, or "
            f"a tuple of names; it returned None ({here(gives_nothing, 0)}, {AT})",
        ),
        (
            rule(gives_bools),
            "rule mine: `after`: it gives bool[2,3] for y, which is f32[2,3] "
            f"({here(gives_bools, 0)}, {AT})",
        ),
        (
            rule(gives_no_value),
            "rule mine: `after`: it gives 'nowhere' for y, which is no value "
            f"({here(gives_no_value, 0)}, {AT})",
        ),
        (
            rule(builds_nonsense),
            "rule mine: `after`: matmul: a has 3 columns, b has 2 rows; they must be equal; got "
            f"a f32[2,3], b f32[2,3] (node matmul; {here(builds_nonsense)}, {AT})",
        ),
        (
            rule(misspells),
            f"rule mine: `after`: abs: there is no value 'x_in' ({here(misspells)}, {AT})",
        ),
        (
            rule(forgets_attributes),
            "rule mine: `after`: concat: attribute axis must be given; got none "
            f"({here(forgets_attributes)}, {AT}). Give attributes=ConcatAttributes(...).",
        ),
        (
            rule(partial(asks_wrongly)),
            "rule mine: `after`: match: a name of the query is expected; got 'input' "
            f"({here(asks_wrongly)}, {AT}). There are: x, y.",
        ),
    ],
)
def test_what_a_rule_gets_wrong_is_its_fault(wrong: Rule, message: str) -> None:
    with pytest.raises(UserError) as caught:
        rewrite(graph_of(NEG), [wrong])
    assert str(caught.value) == message
    assert "bug" not in message


def test_the_exception_is_chained() -> None:
    with pytest.raises(UserError) as caught:
        rewrite(graph_of(NEG), [rule(keep, divides)])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def negates(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Neg", match["x"])


def test_a_rule_that_does_not_end() -> None:
    with pytest.raises(UserError) as caught:
        rewrite(graph_of(NEG), [rule(negates)])
    last = ", ".join(["mine at y (bit-exact)"] * 6)
    assert str(caught.value) == (
        f"rules must terminate; got 1021 applications, the last {last} "
        f"({here(negates, 0)}). Make `where` of mine refuse the results of rules."
    )


def test_an_output_that_is_read_needs_a_value() -> None:
    graph = graph_of(
        """(%x: f32[1,1,4]) -> (%y, %i) {
            %y: f32[1,1,2], %i: i64[1,1,2] = MaxPool(%x) {kernel=(2,), strides=(2,)}
        }"""
    )

    def first(match: Match, builder: GraphBuilder) -> str:
        return builder.op("MaxPool", match["x"], attributes=match.root.attributes)

    with pytest.raises(UserError) as caught:
        rewrite(graph, [rule(first, before="y, i = MaxPool(x)")])
    assert str(caught.value) == (
        "rule mine: `after`: it gives no value for i, which is read "
        f"({here(first, 0)}, at node y with i: i, x: x, y: y)"
    )


def test_rules_of_wefts_own_are_its_bugs() -> None:
    def after(match: Match, builder: GraphBuilder) -> str:
        return builder.op("IsNaN", match["x"])

    after.__module__ = "weft.rewrite.own"
    with pytest.raises(InternalError) as caught:
        rewrite(graph_of(NEG), [rule(after)])
    assert str(caught.value).startswith(
        "internal error: rule mine gives bool[2,3] for y, which is f32[2,3]. This is a bug"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Rule("", "y = Neg(x)", keep, Exactness.BIT_EXACT, ""),
            "rule: `name` and `before` must be text; got ('', 'y = Neg(x)')",
        ),
        (
            lambda: Rule("mine", "y = Neg(x)", "x", Exactness.BIT_EXACT, ""),  # type: ignore[arg-type]
            "rule mine: `after` must be a function; got 'x'",
        ),
        (
            lambda: Rule("mine", "y = Neg(x)", keep, Exactness.BIT_EXACT, "", where=True),  # type: ignore[arg-type]
            "rule mine: `where` must be a function; got True",
        ),
        (
            lambda: Rule("mine", "y = Neg(x)", keep, "exact", ""),  # type: ignore[arg-type]
            "an exactness must be one of bit-exact, reassociating, approximate; got 'exact'. "
            "Did you mean bit-exact?",
        ),
    ],
)
def test_a_rule_that_is_none(make: Callable[[], Rule], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value) == message


def test_a_label_may_be_text() -> None:
    made = Rule("mine", "y = Neg(x)", keep, "approximate", "")  # type: ignore[arg-type]
    assert made.exactness is Exactness.APPROXIMATE


def test_what_is_not_allowed_is_told() -> None:
    loose = Rule("loose", "y = Neg(x)", keep, Exactness.APPROXIMATE, "")
    graph = graph_of(NEG)
    done, log = rewrite(graph, [loose])
    assert done == graph
    (entry,) = done.history
    assert str(entry) == "rewrite loose (skipped: approximate, allow=reassociating)"
    assert rewrite(done, [loose])[0] is done
    assert log.lines() == ["loose was skipped: approximate, allow=reassociating"]
    assert (log + log).skipped == log.skipped


# --- recipes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nothing:
    """No parameters."""


def recipe(apply: Any) -> Recipe:
    return Recipe("mine", "Wrong.", Exactness.BIT_EXACT, apply, Nothing)


def indexes(graph: Graph, _: Nothing) -> Graph:
    return {}[graph.name]  # type: ignore[no-any-return]


def returns_nothing(_: Graph, __: Nothing) -> None:
    return


def drops_nodes(graph: Graph, _: Nothing) -> Graph:
    return Graph(graph.name, graph.inputs, graph.outputs, (), graph.types)


def refuses(_: Graph, __: Nothing) -> Graph:
    raise UserError("mine wants a larger graph")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (indexes, f"recipe mine: `apply` failed; got KeyError: 'g' ({here(indexes)})"),
        (
            returns_nothing,
            "recipe mine: `apply` failed; got TypeError: it must return a Graph; it returned "
            f"NoneType ({here(returns_nothing, 0)})",
        ),
        (
            drops_nodes,
            "recipe mine: the result is not a valid graph; got type of y, which nothing makes; "
            "graph output y is made by nothing",
        ),
        (refuses, "mine wants a larger graph"),
    ],
)
def test_what_a_recipe_gets_wrong_is_its_fault(wrong: Any, message: str) -> None:
    with pytest.raises(UserError) as caught:
        apply_recipe(graph_of(NEG), recipe(wrong), {})
    assert str(caught.value) == message
