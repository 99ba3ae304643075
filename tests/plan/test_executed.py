"""Counts of the arithmetic that kernels do, against loops that are followed one by one."""

from __future__ import annotations

import pytest

from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels.selection import implementer
from weft.loops.definition import naive
from weft.loops.nodes import Access, Buffer
from weft.loops.text import parse
from weft.ops.evaluate import call_of
from weft.ops.table import OPS
from weft.plan.executed import executed
from weft.plan.make import make
from weft.targets.find import target


def of(body: str) -> int | None:
    return executed(parse(f"kernel f(x: f32[64] read, y: f32[64] write) {{\n{body}\n}}"))


def test_loops_multiply():
    assert of("for i in 0..4 { for j in 0..8 { y[i * 8 + j] = x[j] * 2.0 + x[i] } }") == 4 * 8 * 2


def test_bounds_may_depend_on_other_variables():
    found = of("for i in 0..10 { for j in max(0, i - 2)..min(10, i + 1) { y[i] = x[j] + 1.0 } }")
    assert found == sum(min(10, i + 1) - max(0, i - 2) for i in range(10))


def test_only_the_branch_that_is_taken_counts():
    body = (
        "for i in 0..9 { if i % 3 == 0 and i > 0 { y[i] = exp(x[i]) * x[i] } else { y[i] = 0.0 } }"
    )
    assert of(body) == 2 * 2


def test_empty_loops_do_nothing():
    assert of("for i in 5..3 { y[i] = x[i] + 1.0 }") == 0


def test_data_that_decide_are_unknown_in_bounds_and_taken_in_conditions():
    taken = "for i in 0..8 { y[i] = select(x[i] > 0.0, x[i] * 2.0, 0.0) }"
    assert of(taken) == 8 * 2  # the comparison and the product


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_a_convolution_with_all_taps_of_its_border(kernel: int):
    net = Net()
    graph = net.graph(net.conv(net.input(1, 3, 9, 7), 4, kernel))
    (call,) = graph.nodes
    (compute,) = OPS["Conv"].compute.function(call_of(call, graph.types))
    types = [graph.types[value] for value in call.inputs]
    inputs = [Buffer(f"in{place}", each.dtype, each.dims) for place, each in enumerate(types)]
    output = Buffer("out", DType.F32, (1, 4, 9, 7), Access.WRITE)
    found = executed(naive("conv", [compute], inputs, [output]))

    assert found == 4 * 9 * 7 * (2 * 3 * kernel * kernel + 1)  # taps on zeros, and the bias


def test_tiles_that_skip_taps_do_less():
    net = Net()
    graph = net.graph(net.conv(net.input(1, 16, 9, 9), 32))
    plan = make(graph, OPS, implementer(target("x86-avx512"), exact=True))
    made = plan.steps[0].implementation
    assert made is not None
    inside = (3 * 9 - 2) ** 2  # pairs of a pixel and a tap that falls on the image
    found = executed(made.kernel)
    assert found is not None
    assert 2 * 16 * 32 * inside <= found <= 32 * 81 * (2 * 16 * 9 + 1)
