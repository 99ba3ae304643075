"""Parameters of recipes: text and values, and errors that name the nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from tests.rewrite.checks import graph_of
from weft.errors import UserError
from weft.rewrite.recipe import (
    Recipe,
    apply_recipe,
    described,
    given_text,
    parameter,
    parameters_of,
)
from weft.rewrite.rule import Exactness


@dataclass(frozen=True)
class Parameters:
    parts: int = parameter("how many")
    axis: str = parameter("along what", "2")
    sizes: tuple[int, ...] = parameter("of each", ())
    nodes: tuple[str, ...] = parameter("which", ())
    rate: float = parameter("how often", 0.5)
    exact: bool = parameter("whether", False)
    limit: int | None = parameter("at most", None)
    kind: Literal["rows", "columns"] = parameter("of what", "rows")


RECIPE = Recipe(
    "cut",
    "Cuts.",
    Exactness.REASSOCIATING,
    lambda graph, _: graph,
    Parameters,
    promise=lambda given: Exactness.BIT_EXACT if given.exact else Exactness.REASSOCIATING,
)


def test_text_becomes_values():
    values = {
        "parts": "4",
        "axis": "out",
        "sizes": "1,2, 3",
        "nodes": "a,b",
        "rate": "0.25",
        "exact": "yes",
        "limit": "none",
        "kind": "columns",
    }
    assert parameters_of(RECIPE, values) == Parameters(
        4, "out", (1, 2, 3), ("a", "b"), 0.25, True, None, "columns"
    )


def test_values_stay():
    given = parameters_of(RECIPE, {"parts": 4, "axis": 1, "sizes": [1, 2], "limit": 7, "rate": 1})
    assert given == Parameters(4, "1", (1, 2), rate=1.0, limit=7)
    assert parameters_of(RECIPE, {"parts": 2, "nodes": "a"}).nodes == ("a",)


def test_what_is_said_of_parameters():
    found = described(RECIPE)
    assert [(each.name, each.default) for each in found] == [
        ("parts", None),
        ("axis", "2"),
        ("sizes", ""),
        ("nodes", ""),
        ("rate", "0.5"),
        ("exact", "no"),
        ("limit", "none"),
        ("kind", "rows"),
    ]
    assert [each.kind for each in found] == [
        "a whole number",
        "a name",
        "whole numbers with commas between",
        "names with commas between",
        "a number",
        "yes or no",
        "a whole number or none",
        "one of rows, columns",
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {},
            "recipe cut needs parts: how many; got none. Give parts=..., which is a whole number.",
        ),
        (
            {"part": "4"},
            "recipe cut has no parameter part; got part=4. Did you mean parts?",
        ),
        (
            {"parts": "four"},
            "parameter parts of recipe cut must be a whole number; got four",
        ),
        (
            {"parts": 4.5},
            "parameter parts of recipe cut must be a whole number; got 4.5",
        ),
        (
            {"parts": 4, "sizes": "1,x"},
            "parameter sizes of recipe cut must be whole numbers with commas between; got 1,x",
        ),
        (
            {"parts": 4, "exact": "perhaps"},
            "parameter exact of recipe cut must be yes or no; got perhaps",
        ),
        (
            {"parts": 4, "kind": "row"},
            "parameter kind of recipe cut must be one of rows, columns; got row",
        ),
        (
            {"parts": True},
            "parameter parts of recipe cut must be a whole number; got yes",
        ),
    ],
)
def test_errors(values, message):
    with pytest.raises(UserError) as error:
        parameters_of(RECIPE, values)
    assert str(error.value) == message


def test_history_tells_what_was_asked_for():
    given = parameters_of(RECIPE, {"parts": 4, "sizes": (1, 2), "exact": True})
    assert given_text(RECIPE, given) == "parts=4 sizes=1,2 exact=yes"
    assert RECIPE.exactness_with(given) is Exactness.BIT_EXACT
    graph = graph_of("(%x: f32[2]) -> (%y) {\n%y: f32[2] = Relu(%x)\n}")
    assert apply_recipe(graph, RECIPE, {"parts": 1}) is graph
