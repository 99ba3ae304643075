"""Definitions of values: who owns which part of a concatenation, and outputs of their own."""

from __future__ import annotations

import numpy as np

from tests.plan.nets import Net
from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.loops.nodes import Const
from weft.loops.walk import walk
from weft.ops.build import GraphBuilder
from weft.ops.expand import expand
from weft.ops.record import Extern, ExternBody, NoGrad, Op, Param
from weft.ops.table import OPS
from weft.plan.tensors import (
    Assembled,
    Defined,
    Opaque,
    moved_from,
    only_used,
    own_outputs,
    tensor_program,
)


def items_of(net: Net, *outputs: str):
    return tensor_program(own_outputs(expand(net.graph(*outputs), OPS)), OPS).items


def assembled(net: Net, *outputs: str) -> dict[str, Assembled]:
    return {item.value: item for item in items_of(net, *outputs) if isinstance(item, Assembled)}


def test_parts_that_are_computed_are_owned():
    net = Net()
    x = net.input(1, 4, 3, 3)
    left, right = net.conv(x, 2), net.op("Relu", x)
    whole = net.op("Concat", left, right, axis=-3)
    found = assembled(net, net.op("Neg", whole))[whole]
    assert (found.parts, found.axis, found.owner) == ((left, right), 1, None)


def test_parts_that_are_not_computed_for_it_alone_are_copied():
    net = Net()
    x, constant = net.input(4), net.constant(4)
    moved = net.op("Reshape", net.op("Relu", net.input(2, 2)), shape=(4,))
    wanted = net.op("Neg", x)
    whole = net.op("Concat", x, constant, moved, wanted, axis=0)
    found = assembled(net, net.op("Abs", whole), wanted)[whole]
    assert found.parts == tuple(f"{whole}_part{place}" for place in range(4))


def test_a_part_that_stands_twice_is_owned_once():
    net = Net()
    twice = net.op("Relu", net.input(3))
    whole = net.op("Concat", twice, twice, axis=0)
    assert assembled(net, net.op("Neg", whole))[whole].parts == (twice, f"{whole}_part1")


def test_a_concatenation_owns_the_parts_of_its_parts():
    net = Net()
    a, b, c = (net.op("Relu", net.input(2, 3)) for _ in range(3))
    inner = net.op("Concat", a, b, axis=0)
    outer = net.op("Concat", inner, c, axis=0)
    found = assembled(net, net.op("Neg", outer))
    assert found[inner].parts == (a, b)
    assert found[outer].parts == (inner, c)


def test_ever_longer_concatenations_are_windows_of_the_last():
    net = Net()
    parts = [net.op("Relu", net.input(1, 2, 3, 3))]
    for channels in (3, 4, 5):
        parts.append(net.conv(parts[-1], channels, 1))
    last_two = net.op("Concat", *parts[2:], axis=1)
    wholes = [net.op("Concat", *parts[:count], axis=1) for count in (2, 3, 4)]
    outputs = [net.op("Neg", each) for each in (*wholes, last_two)]
    found = assembled(net, *outputs)
    assert found[wholes[2]].owner is None
    assert found[wholes[2]].parts == tuple(parts)
    assert found[wholes[0]].owner == (wholes[2], 0)
    assert found[wholes[1]].owner == (wholes[2], 0)
    assert found[last_two].owner == (wholes[2], 2 + 3)


def test_no_windows_across_another_axis_or_in_another_order():
    net = Net()
    a, b = (net.op("Relu", net.input(2, 2)) for _ in range(2))
    across, turned = net.op("Concat", a, b, axis=1), net.op("Concat", b, a, axis=0)
    last = net.op("Concat", a, b, axis=0)
    found = assembled(net, *(net.op("Neg", each) for each in (across, turned, last)))
    assert [found[each].owner for each in (across, turned, last)] == [None] * 3
    assert found[last].parts == (a, b)


def test_every_output_is_made_by_a_node_under_one_name():
    net = Net()
    x, constant = net.input(3), net.constant(3)
    made = net.op("Relu", x)
    graph = own_outputs(net.graph(made, x, constant, made, x))
    assert graph.outputs == (made, "x_out1", "w_out1", f"{made}_out1", "x_out2")
    assert [node.op for node in graph.nodes] == ["Relu"] + ["Identity"] * 4
    assert all(graph.types[name] == graph.types["x"] for name in graph.outputs)


def test_only_what_is_used_is_kept():
    net = Net()
    x = net.input(6)
    net.op("Relu", net.op("Neg", x))
    _, middle, _ = net.several("Split", [x], 3, axis=0, split=(1, 2, 3))
    graph = only_used(net.graph(middle))
    assert [(node.op, node.outputs) for node in graph.nodes] == [("Split", ("", middle, ""))]
    assert set(graph.types) == {x, middle}
    assert only_used(graph) is graph


def test_a_body_in_c_writes_all_its_outputs():
    pair = Op(
        name="Pair",
        inputs=(Param("x"),),
        infer=lambda call: (call.type(0), TensorType(DType.I64, ())),
        reference=lambda call, x: (x, np.int64(x.size)),
        compute=Extern(lambda call: ExternBody("out0[0] = in0[0]; out1[0] = 1;")),
        grad=NoGrad("for this test"),
        doc="Two outputs.",
        outputs=(Param("y"), Param("size")),
    )
    ops = {**OPS, "Pair": pair}
    builder = GraphBuilder(ops)
    x = builder.input("x", TensorType(DType.F32, (1,)))
    _, size = builder.nodes_of("Pair", [x], outputs=2, name="both")
    program = tensor_program(only_used(builder.graph([size])), ops)
    (opaque,) = program.items
    assert isinstance(opaque, Opaque)
    assert opaque.node.outputs == ("both_unused", size)
    assert program.types["both_unused"] == builder.types[x]


def test_constants_of_one_element_are_literals():
    net = Net()
    x = net.input(2, 3)
    scale = net.builder.constant(np.array([[2.5]], np.float32), "scale")
    (item,) = items_of(net, net.op("Mul", x, scale))
    assert isinstance(item, Defined)
    assert Const(2.5, DType.F32) in set(walk(item.compute.value))


def test_movement_is_told_from_arithmetic():
    net = Net()
    x = net.input(4, 6)
    movements = [
        net.op("Transpose", x, perm=(1, 0)),
        net.op("Slice", x, starts=(3,), ends=(-5,), axes=(0,), steps=(-2,)),
        net.op("Expand", x, shape=(2, 4, 6)),
    ]
    others = [net.op("Neg", x), net.op("Reshape", x, shape=(8, 3)), net.op("Pad", x, pads=(1,) * 4)]
    found = {item.value: item for item in items_of(net, *movements, *others)}
    assert [moved_from(found[each].compute) is not None for each in movements] == [True] * 3
    assert [moved_from(found[each].compute) is None for each in others] == [True] * 3
