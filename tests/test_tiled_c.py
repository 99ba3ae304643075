"""Tiled layers as compiled C: equal bits in plain loops, equal up to rounding in fast kernels."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import weft
from tests.plan.nets import Net as HandMade
from weft import layers, ops
from weft.api import Net

CUTS = {
    "batch": {"axis": 0, "parts": 2},
    "channels": {"axis": "out", "parts": 4},
    "channels, uneven": {"axis": "out", "sizes": (1, 7, 13, 11)},
    "rows": {"axis": 2, "parts": 4},
    "rows, uneven": {"axis": 2, "sizes": (1, 4, 2, 5)},
    "columns": {"axis": 3, "parts": 4},
    "columns, uneven": {"axis": 3, "sizes": (2, 1, 6, 2)},
}


@pytest.fixture(scope="module")
def example() -> Net:
    """LeakyReLU, Conv(3, 32, 3x3), BatchNorm, ReLU: the example of Aidge's paper."""
    random = np.random.default_rng(1)
    norm = layers.BatchNorm(*(random.random(32, dtype=np.float32) + 0.5 for _ in range(4)))
    stem = weft.sequential([ops.leaky_relu, layers.Conv(32, 3, padding=1), norm, ops.relu])
    return weft.trace(stem, "f32[2,3,12,11]")


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((2, 3, 12, 11)).astype(np.float32)


@pytest.fixture(scope="module")
def fused(example, x) -> tuple[Net, np.ndarray]:
    """The example with its normalization fused, and what it gives."""
    net = example.apply("fuse-batch-norm")
    return net, net.compile(plain=True)(x)


@pytest.mark.parametrize("cut", CUTS)
def test_the_example_cut_along_every_axis_has_equal_bits(fused, x, cut):
    net, expected = fused
    tiled = net.apply("tile-conv", **CUTS[cut])
    assert sum(node.op == "Conv" for node in tiled.graph.nodes) > 1
    np.testing.assert_array_equal(tiled.compile(plain=True)(x), expected)


def test_normalized_after_the_parts_are_joined(example, x):
    tiled = example.apply("tile-conv", **CUTS["rows, uneven"])
    expected = example.compile(plain=True)(x)
    np.testing.assert_array_equal(tiled.compile(plain=True)(x), expected)


def test_cut_twice(fused, x):
    net, expected = fused
    tiled = net.apply("tile-conv", axis=2, parts=2).apply("tile-conv", axis=3, parts=2)
    assert sum(node.op == "Conv" for node in tiled.graph.nodes) == 4
    np.testing.assert_array_equal(tiled.compile(plain=True)(x), expected)


def test_input_channels_add_up_to_the_same(fused, x):
    net, expected = fused
    tiled = net.apply("tile-conv", axis="in", sizes=(1, 2))
    np.testing.assert_allclose(tiled.compile(plain=True)(x), expected, atol=2e-5)


def test_fast_kernels_agree(fused, x):
    net, expected = fused
    for cut in ("rows", "channels, uneven"):
        found = net.apply("tile-conv", **CUTS[cut]).compile()(x)
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_drawn_before_and_after(example):
    tiled = example.apply("tile-conv", axis=2, parts=4)
    parts = [node.name for node in tiled.graph.nodes if node.op == "Conv"]
    for net, marked in ((example, {}), (tiled, {"parts": parts})):
        picture = net.draw(highlight=marked)
        ElementTree.fromstring(picture)
        assert picture.count("Conv") >= sum(node.op == "Conv" for node in net.graph.nodes)


def test_a_chain_by_patches():
    made = HandMade(3)
    a = made.conv(made.input(1, 4, 17, 15), 8, 3, stride=2)
    b = made.op("Clip", made.conv(a, 8, 3, groups=8), min=0.0, max=6.0)
    c = made.op("MaxPool", made.conv(b, 6, 1), kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
    graph = made.graph(made.op("Add", made.conv(a, 6, 1), c))
    net, (x,) = Net(graph), made.arrays.values()
    expected = net.compile(plain=True)(x)
    first, last = graph.nodes[0].name, graph.nodes[-1].name
    tiled = net.apply("tile-chain", first=first, last=last, axes=(2, 3), parts=(3, 2))
    assert sum(node.op == "MaxPool" for node in tiled.graph.nodes) == 6
    np.testing.assert_array_equal(tiled.compile(plain=True)(x), expected)
    np.testing.assert_allclose(tiled.compile()(x), expected, atol=2e-5)


def test_a_chain_by_patches_needs_less_memory():
    made = HandMade(1)
    y = made.op("Relu", made.conv(made.input(1, 8, 32, 32), 32, 3))
    y = made.op("MaxPool", made.op("Relu", made.conv(y, 32, 3)), kernel=(2, 2), strides=(2, 2))
    graph = made.graph(made.conv(y, 8, 3, stride=2))
    first, last = graph.nodes[0].name, graph.nodes[-1].name
    tiled = Net(graph).apply("tile-chain", first=first, last=last, parts=8)
    whole, parts = (net.plan("generic").arena_bytes for net in (Net(graph), tiled))
    assert parts < whole / 3


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_products(axis):
    made = HandMade(4)
    y = made.dense(made.op("Relu", made.dense(made.input(3, 9, 16), 24)), 10)
    net, (x,) = Net(made.graph(y)), made.arrays.values()
    tiled = net.apply("tile-matmul", axis=axis, parts=4)
    np.testing.assert_array_equal(tiled.compile(plain=True)(x), net.compile(plain=True)(x))
    summed = net.apply("tile-matmul", axis="inner", parts=3)
    np.testing.assert_allclose(summed.compile()(x), net.compile(plain=True)(x), atol=2e-5)
