"""Nets of small whole numbers, whose sums are exact in any order, and convolutions at random."""

from __future__ import annotations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from tests.plan.nets import Net
from tests.rewrite.checks import infer
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import apply


class WholeNet(Net):
    """A net whose constants and inputs are small whole numbers."""

    def numbers(self, shape, scale, dtype):
        return self.random.integers(-4, 5, shape).astype(dtype.numpy)


def check(net: Net, graph: Graph, name: str, **values: object) -> Graph:
    """Apply a recipe: a sound graph, and equal outputs."""
    done = apply(graph, name, values)
    verify(done, infer)
    assert (done.inputs, done.outputs) == (graph.inputs, graph.outputs)
    expected, found = (evaluate(each, net.arrays, OPS) for each in (graph, done))
    for value, array in expected.items():
        np.testing.assert_array_equal(found[value], array)
    return done


@st.composite
def windows(draw, axes: int) -> dict:
    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(axes))

    return {
        "kernel": each(1, 4),
        "strides": each(1, 3),
        "dilations": each(1, 2),
        "pads": each(0, 2) + each(0, 2),
    }


@st.composite
def convolutions(draw):
    """A convolution, with or without a bias, and its output's shape."""
    axes = draw(st.sampled_from([1, 2, 2, 2, 3]))
    window = draw(windows(axes))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    per_group, multiplier = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    net = WholeNet(draw(st.integers(0, 9)))
    image = tuple(draw(st.integers(3, 9)) for _ in range(axes))
    x = net.input(draw(st.integers(1, 3)), groups * per_group, *image)
    w = net.constant(groups * multiplier, per_group, *window["kernel"])
    inputs = [x, w] + ([net.constant(groups * multiplier)] if draw(st.booleans()) else [])
    try:
        y = net.op("Conv", *inputs, groups=groups, **window)
    except UserError:
        assume(False)
    return net, net.graph(y), net.shape(y)
