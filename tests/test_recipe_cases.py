"""Every recipe where weights are shared, values have several readers, and so on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from tests.recipe_cases import CASES, VARIANTS, graph_for
from tests.rewrite.checks import assert_same, infer, outputs_of
from tests.turns import thorough
from weft.api import Net
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.compose import merge
from weft.ir.graph import Graph
from weft.ir.text import show
from weft.ir.verify import verify
from weft.plan import order
from weft.recipes import RECIPES, apply, recipe_named
from weft.rewrite.recipe import parameters_of
from weft.rewrite.rule import Exactness

PAIRS = [(name, variant) for name in CASES for variant in VARIANTS]


def promise_of(name: str) -> Exactness:
    """What a recipe promises with the parameters of its case."""
    recipe = recipe_named(name)
    return recipe.exactness_with(parameters_of(recipe, CASES[name].values))


def applied(name: str, graph: Graph) -> Graph | None:
    """The graph after a recipe; ``None`` where it has nothing to do, or refuses."""
    try:
        done = apply(graph, name, CASES[name].values)
    except UserError:
        return None
    return None if done is graph else done


def test_every_recipe_has_a_case():
    assert list(CASES) == [recipe.name for recipe in RECIPES]


@pytest.mark.parametrize(("name", "variant"), PAIRS)
def test_numbers(name, variant):
    graph = graph_for(name, variant)
    verify(graph, infer)
    text = show(graph)
    done = applied(name, graph)
    assert show(graph) == text
    assert (done is None) == (variant in CASES[name].stays)
    if done is None:
        return
    verify(done, infer)
    assert (done.inputs, done.outputs) == (graph.inputs, graph.outputs)
    if promise_of(name) is not Exactness.APPROXIMATE:
        # Bits are for plain loops in C, below: products of NumPy depend on shapes.
        assert_same(graph, done, Exactness.REASSOCIATING)
        return
    for array in outputs_of(done).values():
        assert np.isfinite(array).all()


@dataclass(frozen=True)
class Made:
    """What a recipe makes of a variant of its case."""

    name: str
    before: Graph
    after: Graph
    inputs: list[np.ndarray]

    @property
    def promise(self) -> Exactness:
        return promise_of(self.name)

    def expected(self) -> tuple[np.ndarray, ...]:
        exact = self.promise is not Exactness.APPROXIMATE
        return Net(self.before if exact else self.after).reference(*self.inputs)


def inputs_of(graph: Graph, rng: np.random.Generator) -> list[np.ndarray]:
    """Numbers on both sides of what ReLU6 keeps; of integers, positive ones."""
    types = [graph.types[value] for value in graph.inputs]
    return [
        np.asarray(rng.uniform(0 if each.dtype.is_integer else -4, 9, each.dims), each.dtype.numpy)
        for each in types
    ]


@pytest.fixture(scope="module")
def made() -> dict[str, Made]:
    rng = np.random.default_rng(0)
    found: dict[str, Made] = {}
    for name, variant in PAIRS:
        graph = graph_for(name, variant)
        done = applied(name, graph)
        if done is not None:
            key = f"{name}_{variant}".replace("-", "_")
            found[key] = Made(name, graph, done, inputs_of(graph, rng))
    return found


def run(graphs: Mapping[str, Graph], made: Mapping[str, Made]) -> Iterator[np.ndarray]:
    """What all graphs give in plain loops, as one network in C."""
    net = Net(merge("together", graphs, {}))
    return iter(
        net.compile(plain=True, threads=1)(*[x for key in graphs for x in made[key].inputs])
    )


def test_compiled(made, monkeypatch):
    if not thorough(__name__):
        made = {key: made[key] for key in [*made][::5]}
    # Any order computes the same, and networks side by side have very many.
    monkeypatch.setattr(order, "EXACT_BUDGET", 2000)
    monkeypatch.setattr(order, "BEAM_BUDGET", 2000)
    found = run({key: each.after for key, each in made.items()}, made)
    exact = {key: each for key, each in made.items() if each.promise is Exactness.BIT_EXACT}
    before = run({key: each.before for key, each in exact.items()}, made)
    for key, each in made.items():
        for expected in each.expected():
            array = next(found)
            span = max(1.0, float(np.abs(expected).max()))
            # A sum in another order may be rounded to the neighbour.
            held = {type.dtype for type in each.after.types.values()}
            atol = 1e-2 if DType.BF16 in held else 2e-3 if DType.F16 in held else 2e-5
            np.testing.assert_allclose(array / span, expected / span, atol=atol, err_msg=key)
            if key in exact:
                np.testing.assert_array_equal(array, next(before), err_msg=key)
