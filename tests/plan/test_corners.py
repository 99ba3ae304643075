"""Corners of planning: each a small net that agrees with the references on every width."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.plan.nets import Net
from tests.plan.planned import assert_planned
from weft.dtypes import DType
from weft.ir.graph import Graph

CORNERS: list[Callable[[Net], list[str]]] = []


def corner(build: Callable[[Net], list[str]]) -> Callable[[Net], list[str]]:
    CORNERS.append(build)
    return build


# --- outputs --------------------------------------------------------------------------------


@corner
def outputs_that_are_views(net: Net) -> list[str]:
    x = net.input(2, 3, 4)
    made = net.op("Relu", x)
    return [
        net.op("Transpose", made, perm=(2, 0, 1)),
        net.op("Reshape", made, shape=(24,)),
        net.op("Slice", made, starts=(1,), ends=(3,), axes=(2,)),
        made,
        x,
        x,
    ]


@corner
def outputs_that_are_constants(net: Net) -> list[str]:
    return [net.constant(3, 4), net.constant(), net.input(2)]


@corner
def outputs_that_share_parts(net: Net) -> list[str]:
    x = net.input(1, 4, 3, 3)
    left, right = net.conv(x, 3), net.conv(x, 2)
    return [
        net.op("Concat", left, right, axis=1),
        net.op("Concat", right, left, axis=1),
        left,
    ]


@corner
def an_output_inside_a_concatenation_that_stands_twice(net: Net) -> list[str]:
    x = net.input(1, 4, 3, 3)
    whole = net.op("Concat", net.conv(x, 3), net.conv(x, 2), axis=1)
    return [net.op("Concat", whole, whole, axis=2), net.op("Relu", whole)]


# --- shapes ---------------------------------------------------------------------------------


@corner
def no_elements(net: Net) -> list[str]:
    empty, x = net.input(0, 3), net.input(2, 3)
    total = net.op("ReduceSum", empty, axes=(0,), keepdims=1)
    return [
        total,
        net.op("Concat", empty, x, axis=0),
        net.op("Relu", empty),
        net.op("Add", total, x),
        net.op("Reshape", empty, shape=(3, 0), allowzero=1),
    ]


@corner
def products_over_no_elements(net: Net) -> list[str]:
    x = net.input(2, 0)
    return [net.op("MatMul", x, net.constant(0, 3)), net.op("MatMul", x, net.input(0, 5))]


@corner
def scalars(net: Net) -> list[str]:
    x, y = net.input(), net.input()
    return [
        net.op("Add", net.op("Mul", x, y), net.op("Exp", x)),
        net.op("Reshape", x, shape=(1, 1)),
        net.op("Unsqueeze", net.op("Relu", y), axes=(0,)),
    ]


@corner
def long_reductions(net: Net) -> list[str]:
    x = net.input(3, 5000)
    return [
        net.op("ReduceMean", x, axes=(1,), keepdims=0),
        net.op("ReduceSum", x, axes=(0, 1), keepdims=0),
        net.op("MatMul", x, net.constant(5000, 3, scale=0.02)),
    ]


@corner
def windows_on_one_pixel(net: Net) -> list[str]:
    x = net.op("Tanh", net.input(2, 3, 1, 1))
    return [net.conv(x, 5), net.op("MaxPool", x, kernel=(3, 3), pads=(1, 1, 1, 1))]


@corner
def strides_over_the_kernel(net: Net) -> list[str]:
    x = net.input(1, 3, 11, 7)
    return [net.conv(x, 4, 2, pad=0, stride=5), net.conv(x, 4, 1, stride=3)]


@corner
def groups_of_channels(net: Net) -> list[str]:
    x = net.input(1, 12, 5, 7)
    return [
        net.conv(x, made, groups=groups) for made, groups in ((12, 12), (24, 12), (8, 2), (6, 3))
    ]


@corner
def broadcast_batches(net: Net) -> list[str]:
    x = net.input(1, 1, 5, 5)
    wide = net.op("Expand", net.op("Relu", x), shape=(2, 3, 5, 5))
    return [net.conv(wide, 4), net.op("Add", wide, net.constant(2, 3, 5, 5))]


# --- element types --------------------------------------------------------------------------


@corner
def booleans(net: Net) -> list[str]:
    x, y = (net.input(5, 7, dtype=DType.BOOL) for _ in range(2))
    z = net.input(5, 7)
    return [
        net.op("And", x, net.op("Not", y)),
        net.op("Where", x, z, net.op("Neg", z)),
        net.op("Less", z, net.op("Relu", z)),
    ]


@corner
def integers(net: Net) -> list[str]:
    x = net.input(17, 19, dtype=DType.I64)
    narrow = net.input(17, 19, dtype=DType.I8)
    wide = net.op("Cast", narrow, to=DType.I32)
    return [
        net.op("Add", x, x),
        net.op("MatMul", x, net.constant(19, 5, dtype=DType.I64)),
        net.op("ReduceMax", x, axes=(0,), keepdims=0),
        net.op("ArgMax", x, axis=1, keepdims=0),
        net.op("MatMul", wide, net.constant(19, 33, dtype=DType.I32)),
        net.op("Add", narrow, narrow),
    ]


def test_half_precision() -> None:
    net = Net()
    x = net.input(1, 4, 9, 9, dtype=DType.F16)
    weight = net.constant(6, 4, 3, 3, scale=0.2, dtype=DType.F16)
    made = net.op("Relu", net.op("Conv", x, weight, kernel=(3, 3), pads=(1, 1, 1, 1)))
    assert_planned(net.graph(made), net.arrays, tolerance=1e-2)


# --- several outputs of one node ------------------------------------------------------------


@corner
def places_of_maxima(net: Net) -> list[str]:
    x = net.op("Relu", net.input(1, 3, 7, 7))
    return list(net.several("MaxPool", [x], 2, kernel=(2, 2), strides=(2, 2)))


@corner
def only_places_of_maxima(net: Net) -> list[str]:
    x = net.op("Relu", net.input(1, 3, 7, 7))
    _, places = net.several("MaxPool", [x], ["", "places"], kernel=(2, 2), strides=(2, 2))
    return [net.op("Add", places, places)]


@corner
def unused_parts(net: Net) -> list[str]:
    x = net.op("Relu", net.input(6, 4))
    _, middle, _ = net.several("Split", [x], ["", "middle", ""], axis=0, split=(2, 2, 2))
    return [net.op("Tanh", middle)]


# --- in place -------------------------------------------------------------------------------


@corner
def in_place_beside_a_broadcast_of_itself(net: Net) -> list[str]:
    x = net.dense(net.input(4, 5, 6), 7)
    made = net.op("Add", x, net.constant(7))
    return [net.op("Mul", made, net.op("ReduceMax", made, axes=(1,), keepdims=1))]


@corner
def in_place_beside_its_own_transpose(net: Net) -> list[str]:
    x = net.dense(net.input(6, 6), 6)
    return [net.dense(net.op("Add", x, net.op("Transpose", x, perm=(1, 0))), 3)]


@corner
def in_place_with_permuted_strides(net: Net) -> list[str]:
    x = net.dense(net.input(4, 6), 6)
    turned = net.op("Transpose", x, perm=(1, 0))
    made = net.op("Mul", turned, net.dense(net.dense(turned, 3), 4))
    return [net.dense(made, 2)]


@corner
def residuals(net: Net) -> list[str]:
    x = net.op("Relu", net.conv(net.input(1, 8, 6, 6), 8))
    for _ in range(2):
        x = net.op("Relu", net.op("Add", x, net.conv(net.op("Relu", net.conv(x, 8)), 8)))
    return [net.conv(x, 4, 1)]


@corner
def one_value_as_both_factors(net: Net) -> list[str]:
    x = net.op("Relu", net.input(1, 3, 5, 5))
    return [net.op("MatMul", x, x), net.op("Mul", x, x)]


@corner
def attention(net: Net) -> list[str]:
    x = net.input(1, 6, 8)

    def heads(value: str) -> str:
        cut = net.op("Reshape", value, shape=(1, 6, 2, 4))
        return net.op("Transpose", cut, perm=(0, 2, 1, 3))

    query, key, value = (heads(net.dense(x, 8)) for _ in range(3))
    scores = net.op("MatMul", query, net.op("Transpose", key, perm=(0, 1, 3, 2)))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    joined = net.op("Reshape", net.op("Transpose", mixed, perm=(0, 2, 1, 3)), shape=(1, 6, 8))
    return [net.op("Add", net.dense(joined, 8), x)]


# --- scans ----------------------------------------------------------------------------------


def body(depth: int) -> Graph:
    """A step over a state, a slice and an invariant matrix; expands and nests."""
    net = Net(depth)
    state, x, weight = net.input(4), net.input(4), net.input(4, 4)
    made = net.op("Tanh", net.op("Add", net.op("MatMul", state, weight), x))
    if depth:
        rows = net.op("Reshape", net.op("Concat", x, made, x, axis=0), shape=(3, 4))
        last, all_rows = net.several(
            "Scan", [made, rows, weight], 2, body=body(depth - 1), num_states=1, num_scan_inputs=1
        )
        made = net.op("Add", last, net.op("ReduceMean", all_rows, axes=(0,), keepdims=0))
    return net.graph(made, net.op("Softmax", made, axis=0))


@corner
def a_scan_with_a_constant_invariant(net: Net) -> list[str]:
    operands = [net.input(4), net.input(5, 4), net.constant(4, 4)]
    directions = {"scan_input_directions": (1,), "scan_output_directions": (1,)}
    made = net.several(
        "Scan", operands, 2, body=body(0), num_states=1, num_scan_inputs=1, **directions
    )
    return [net.op("Relu", made[0]), made[1]]


@corner
def a_scan_in_a_scan_in_a_scan(net: Net) -> list[str]:
    operands = [net.input(4), net.input(2, 4), net.constant(4, 4)]
    made = net.several("Scan", operands, 2, body=body(2), num_states=1, num_scan_inputs=1)
    return list(made)


@corner
def a_scan_over_views(net: Net) -> list[str]:
    state = net.op("Relu", net.input(4))
    rows = net.op("Transpose", net.op("Relu", net.input(4, 5)), perm=(1, 0))
    weight = net.op("Transpose", net.input(4, 4), perm=(1, 0))
    made = net.several(
        "Scan", [state, rows, weight], ["", "b"], body=body(0), num_states=1, num_scan_inputs=1
    )
    return [made[1]]


@corner
def a_scan_that_hands_through(net: Net) -> list[str]:
    inner = Net()
    state, x = inner.input(3), inner.input(3)
    graph = inner.graph(x, state, x, inner.constant(2))
    operands = [net.input(3), net.input(4, 3)]
    return list(net.several("Scan", operands, 4, body=graph, num_states=1, num_scan_inputs=1))


@corner
def a_scan_that_swaps_states(net: Net) -> list[str]:
    inner = Net()
    one, other, x = (inner.input(3) for _ in range(3))
    graph = inner.graph(other, inner.op("Add", one, x))
    operands = [net.input(3), net.input(3), net.input(4, 3)]
    return list(net.several("Scan", operands, 2, body=graph, num_states=2, num_scan_inputs=1))


@corner
def a_scan_without_iterations(net: Net) -> list[str]:
    inner = Net()
    state, x = inner.input(3), inner.input(3)
    graph = inner.graph(inner.op("Add", state, x), x)
    operands = [net.input(3), net.input(0, 3)]
    return list(net.several("Scan", operands, 2, body=graph, num_states=1, num_scan_inputs=1))


@pytest.mark.parametrize("machine", ["generic", "x86-sse2", "x86-avx512"])
@pytest.mark.parametrize("build", CORNERS, ids=lambda build: build.__name__)
def test_corner(build: Callable[[Net], list[str]], machine: str) -> None:
    net = Net(1)
    assert_planned(net.graph(*build(net)), net.arrays, machine, 1e-4)
