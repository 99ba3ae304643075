"""Rows that would share places of a cache get gaps; nothing that must be packed does."""

from __future__ import annotations

import pytest

from tests.plan.nets import Net
from tests.plan.planned import assert_planned
from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.fusion import form
from weft.plan.spread import gap_of
from weft.plan.storage import Storage, assign
from weft.plan.strides import packed
from weft.plan.tensors import Opaque, only_used, own_outputs, tensor_program


def spread_storage(net: Net, *outputs: str) -> Storage:
    graph = own_outputs(only_used(expand(net.graph(*outputs), OPS)))
    program = tensor_program(graph, OPS)
    return assign(program, form(program), spread=True)


@pytest.mark.parametrize(
    ("dims", "order", "gap"),
    [
        ((16, 1024), (0, 1), 16),
        ((16, 512), (0, 1), 16),
        ((16, 256), (0, 1), 0),
        ((16, 1000), (0, 1), 0),
        ((4, 1024), (0, 1), 0),
        ((1, 1024, 7, 7), (0, 2, 3, 1), 16),
        ((1, 1024, 7, 7), (0, 1, 2, 3), 0),
        ((1, 16, 1024, 1), (0, 1, 2, 3), 16),
        ((1024,), (0,), 0),
    ],
)
def test_rows_of_half_pages_get_a_line(dims, order, gap):
    assert gap_of(TensorType(DType.F32, dims), order) == gap


def test_a_gap_stands_behind_every_row():
    assert packed((2, 3, 8), (0, 1, 2), 4) == (36, 12, 1)
    assert packed((2, 8, 3, 1), (0, 2, 3, 1), 4) == (36, 1, 12, 12)
    assert packed((8, 1), (0, 1), 4) == (1, 1)


def test_what_a_product_reads_is_spread():
    net = Net()
    hidden = net.op("Relu", net.op("MatMul", net.input(16, 8), net.constant(8, 512)))
    made = net.op("MatMul", hidden, net.constant(512, 8))
    storage = spread_storage(net, made)
    assert storage.views[hidden].strides == (528, 1)
    assert storage.roots[hidden].bytes == 16 * 528 * 4


def test_what_a_product_reads_through_a_view_is_spread():
    net = Net()
    hidden = net.op("Gelu", net.op("MatMul", net.input(1, 16, 8), net.constant(8, 512)))
    rows = net.op("Reshape", hidden, shape=(16, 512))
    storage = spread_storage(net, net.op("Gemm", rows, net.constant(512, 8)))
    assert storage.views[rows].root == hidden
    assert storage.views[rows].strides == (528, 1)
    assert storage.views[hidden].strides == (16 * 528, 528, 1)


def test_what_a_body_of_c_or_a_loop_makes_is_packed():
    net = Net()
    x = net.input(16, 512)
    bits = net.op("BitCast", x, to=DType.U32)
    whole = net.op("BitCast", net.op("BitwiseNot", net.op("BitwiseNot", bits)), to=DType.F32)
    states = net.op("Unsqueeze", net.dense(x, 2), axes=(1,))
    weights = [net.constant(1, 512, size, scale=0.3) for size in (2, 512)]
    steps = net.op("RNN", states, *weights, hidden_size=512)
    flat = net.op("Reshape", steps, shape=(16, 512))
    storage = spread_storage(net, *(net.dense(each, 3) for each in (whole, flat)))
    opaque = [step.node for step in storage.steps if isinstance(step, Opaque)]
    assert {node.op for node in opaque} == {"BitCast", "Scan"}
    for value in (value for node in opaque for value in node.outputs if value):
        dims = storage.types[value].dims
        assert storage.views[value].strides == packed(dims, range(len(dims)))


def test_parts_of_a_spread_value_lie_in_its_rows():
    net = Net()
    x = net.input(1, 8, 6, 6)
    parts = [net.conv(x, 256, 3), net.conv(x, 256, 3)]
    whole = net.op("Concat", *parts, axis=1)
    storage = spread_storage(net, net.conv(whole, 8))
    assert storage.views[whole].strides[1:] == (1, 6 * 528, 528)
    assert storage.views[parts[1]].strides == storage.views[whole].strides
    assert storage.views[parts[1]].offset == 256


@pytest.mark.parametrize("through", ["", "Transpose"])
def test_what_is_flattened_stays_packed(through):
    net = Net()
    hidden = net.op("MatMul", net.input(16, 8), net.constant(8, 512))
    read = net.op(through, hidden) if through else hidden
    flat = net.op("Reshape", read, shape=(-1,))
    product = net.op("MatMul", hidden, net.constant(512, 8))
    storage = spread_storage(net, flat, product)
    assert storage.views[hidden].strides == (512, 1)


def test_what_no_product_reads_stays_packed():
    net = Net()
    hidden = net.op("Softmax", net.input(16, 512))
    storage = spread_storage(net, net.op("Softmax", net.op("Exp", hidden)))
    assert all(root.bytes in (16 * 512 * 4, 16 * 4) for root in storage.roots.values())


def test_spread_rows_hold_the_same_numbers():
    net = Net()
    x = net.input(6, 8)
    hidden = net.op("Relu", net.op("MatMul", x, net.constant(8, 512)))
    both = net.op("Add", net.op("MatMul", hidden, net.constant(512, 512)), hidden)
    made = net.op("MatMul", net.op("Softmax", both), net.constant(512, 4))
    assert_planned(net.graph(made), net.arrays)
