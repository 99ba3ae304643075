"""Transposed convolutions as plain ones: the same numbers for every window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plan.nets import Net
from tests.turns import examples
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.rewrite.engine import rewrite
from weft.rewrite.transposed import RULES

_NAME = "transposed-convolution-by-phases"


@st.composite
def transposed(draw: st.DrawFn) -> Net:
    """A transposed convolution over one to three axes, at the edges too."""
    rank = draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    net = Net(draw(st.integers(0, 9)))
    strides, kernel = numbers(1, 4), numbers(1, 5)
    x = net.input(draw(st.integers(1, 2)), draw(st.integers(1, 3)), *numbers(1, 5))
    channels = draw(st.sampled_from((1, 3, 16)))
    w = net.constant(net.shape(x)[1], channels, *kernel)
    spatial = net.shape(x)[2:]
    extra = tuple(draw(st.integers(0, step - 1)) for step in strides)
    room = [
        (extent - 1) * step + size + more - 1
        for extent, step, size, more in zip(spatial, strides, kernel, extra, strict=True)
    ]
    begins = tuple(draw(st.integers(0, min(3, most))) for most in room)
    ends = tuple(
        draw(st.integers(0, min(3, most - begin))) for most, begin in zip(room, begins, strict=True)
    )
    operands = (x, w, *([net.constant(channels)] if draw(st.booleans()) else []))
    options = {"strides": strides, "pads": (*begins, *ends), "output_padding": extra}
    net.op("ConvTranspose", *operands, **options)
    return net


@settings(max_examples=examples(200), deadline=None)
@given(transposed())
def test_as_a_plain_convolution(net):
    graph = net.graph(net.builder.nodes[-1].outputs[0])
    after, log = rewrite(graph, RULES)
    plain = any(node.op == "Conv" for node in after.nodes)
    assert plain == (log.counts() == {_NAME: 1})
    (wanted,) = evaluate(graph, net.arrays, OPS).values()
    (found,) = evaluate(after, net.arrays, OPS).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("kernel", "pad", "channels"), [(4, 1, 16), (3, 1, 3), (2, 0, 1), (5, 2, 7)]
)
def test_usual_ones_become_plain(kernel: int, pad: int, channels: int) -> None:
    net = Net()
    w = net.constant(2, channels, kernel, kernel)
    options = {"strides": (2, 2), "pads": (pad,) * 4}
    y = net.op("ConvTranspose", net.input(1, 2, 5, 6), w, **options)
    after, _ = rewrite(net.graph(y), RULES)
    conv = after.nodes[0]
    assert conv.op == "Conv"
    assert after.types[conv.outputs[0]].dims[1] == 4 * channels


@pytest.mark.parametrize(
    ("channels", "options", "reason"),
    [
        (16, {}, "every output is the product with one tap"),
        (1, {"groups": 2}, "it has groups or dilations"),
        (1, {"dilations": (2, 2)}, "it has groups or dilations"),
        (1, {"pads": (5, 5, 0, 0)}, "it crops more than the kernel reaches"),
        (
            1,
            {"strides": (4, 4), "pads": (1,) * 4},
            "the windows of the phases have little in common",
        ),
    ],
)
def test_others_stay(channels: int, options: dict[str, object], reason: str) -> None:
    net = Net()
    w = net.constant(2, channels, 2, 2)
    y = net.op("ConvTranspose", net.input(1, 2, 5, 6), w, **{"strides": (2, 2), **options})
    graph = net.graph(y)
    after, log = rewrite(graph, RULES)
    assert after is graph
    assert [each.reason for each in log.refused] == [reason]


def test_a_bias_that_is_computed_stays() -> None:
    net = Net()
    w, bias = net.constant(2, 3, 3, 3), net.input(3)
    y = net.op("ConvTranspose", net.input(1, 2, 5, 6), w, bias, strides=(2, 2))
    _, log = rewrite(net.graph(y), RULES)
    assert [each.reason for each in log.refused] == ["the bias is computed"]
