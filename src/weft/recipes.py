"""The table of all recipes: changes of a whole graph that a user asks for by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import cast

from weft.compress import (
    constant_channels,
    fault_nodes,
    faults,
    lowrank,
    palette,
    pruning,
    sparsity,
)
from weft.errors import UserError, nearest_or_all
from weft.ir.graph import Graph
from weft.plugins import Kind, Table, Unusable
from weft.rewrite import (
    adapt,
    cleanups,
    explicit,
    half_precision,
    im2col,
    layout,
    quantized,
    quantized_form,
    tiling,
)
from weft.rewrite.recipe import Recipe, apply_recipe
from weft.rewrite.rule import Rule

RECIPES: tuple[Recipe, ...] = (
    *cleanups.RECIPES,
    *tiling.RECIPES,
    *im2col.RECIPES,
    *explicit.RECIPES,
    *layout.RECIPES,
    *adapt.RECIPES,
    *half_precision.RECIPES,
    *quantized.RECIPES,
    *quantized_form.RECIPES,
    *constant_channels.RECIPES,
    *pruning.RECIPES,
    *lowrank.RECIPES,
    *palette.RECIPES,
    *sparsity.RECIPES,
    *faults.RECIPES,
    *fault_nodes.RECIPES,
)
"""Every built-in recipe, in the order in which they are listed."""


def _accept(name: str, part: object) -> Recipe:
    if not isinstance(part, Recipe):
        raise Unusable(f"it must be a Recipe of weft.rewrite.recipe, but is {type(part).__name__}")
    if part.name != name:
        raise Unusable(f"the entry point must have the recipe's name, which is {part.name}")
    if not is_dataclass(part.parameters):
        raise Unusable("its parameters must be a dataclass")
    return part


ALL: Table[Recipe] = Table(Kind.RECIPES, {each.name: each for each in RECIPES}, _accept)
"""Every recipe by name, those of plugins too."""


def recipe_named(name: str | Recipe) -> Recipe:
    """A recipe of the table, or the one that is given.

    Raises:
        UserError: there is none of that name; names the nearest.
    """
    given = cast(object, name)
    if isinstance(given, Recipe):
        return given
    if not isinstance(name, str):
        raise UserError(
            "a recipe must be a name or a Recipe",
            got=type(given).__name__,
            fix="Net.rewrite applies rules." if isinstance(given, Rule) else "",
        )
    found = ALL.get(name)
    if found is None:
        fix = ALL.why_missing(name) or nearest_or_all(name, ALL)
        raise UserError("unknown recipe", got=name, fix=fix)
    return found


def apply(graph: Graph, name: str | Recipe, values: Mapping[str, object] | None = None) -> Graph:
    """Apply a recipe.

    Args:
        graph: the graph, which stays as it is.
        name: of the recipe, or the recipe itself.
        values: of its parameters, as text or as Python values.

    Raises:
        UserError: there is no such recipe or parameter, or the precondition does not hold.
    """
    return apply_recipe(graph, recipe_named(name), values or {})


def parse_steps(words: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """``NAME key=value ... NAME key=value ...`` as recipes and their parameters, in order."""
    steps: list[tuple[str, dict[str, str]]] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            steps.append((word, {}))
        elif not steps:
            raise UserError("a recipe's name must come before its parameters", got=word)
        elif key in steps[-1][1]:
            raise UserError(f"parameter {key} of {steps[-1][0]} is given twice", got=word)
        else:
            steps[-1][1][key] = value
    return steps
