"""Gradients of graphs, next to finite differences in double precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.train.reverse import gradients

SHAPES = {"a": (3, 2), "b": (2,), "c": (3, 1)}
Make = Callable[[GraphBuilder], str]


def differentiated(make: Make) -> tuple[GraphBuilder, str, tuple[str, ...]]:
    builder = GraphBuilder(OPS)
    for name, shape in SHAPES.items():
        builder.input(name, TensorType(DType.F64, shape))
    y = make(builder)
    return builder, y, gradients(builder, y, list(SHAPES))


def assert_derived(make: Make) -> None:
    builder, y, found = differentiated(make)
    source = np.random.default_rng(0)
    values = {name: source.uniform(0.5, 2.0, shape) for name, shape in SHAPES.items()}
    whole: Graph = builder.graph([*found, y])
    results = evaluate(whole, values, OPS)
    step = 1e-6
    for (name, value), gradient in zip(values.items(), found, strict=True):
        expected = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            sums = []
            for sign in (1, -1):
                moved = value.copy()
                moved[place] += sign * step
                sums.append(evaluate(whole, {**values, name: moved}, OPS)[y].sum())
            expected[place] = (sums[0] - sums[1]) / (2 * step)
        np.testing.assert_allclose(results[gradient], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a"), ("c", "b"), ("a", "c"), ("a", "a")])
def test_binary(op: str, pair: tuple[str, str]) -> None:
    assert_derived(lambda builder: builder.op(op, *pair))


@pytest.mark.parametrize("op", ["Neg", "Exp"])
def test_unary(op: str) -> None:
    assert_derived(lambda builder: builder.op(op, "a"))


def test_a_value_with_several_users_gets_the_sum() -> None:
    def make(builder: GraphBuilder) -> str:
        shared = builder.op("Mul", "a", "b")
        return builder.op("Div", builder.op("Exp", shared), builder.op("Add", shared, "c"))

    assert_derived(make)


def test_an_input_that_does_not_matter_has_gradient_zero() -> None:
    assert_derived(lambda builder: builder.op("Neg", "b"))


def test_an_op_without_derivative_is_named() -> None:
    with pytest.raises(UserError) as caught:
        differentiated(lambda builder: builder.op("Floor", "a", name="down"))
    assert str(caught.value) == (
        "Floor cannot be differentiated: the derivative is zero wherever there is one (node down)"
    )
