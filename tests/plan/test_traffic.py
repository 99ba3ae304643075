"""What steps move at the least, and how much lies between two uses of a value."""

from __future__ import annotations

from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels.selection import implementer
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.plan import Plan
from weft.plan.stats import stats
from weft.plan.traffic import Traffic, traffic
from weft.targets.find import target


def planned(net: Net, *outputs: str) -> tuple[Plan, list[Traffic]]:
    plan = make(net.graph(*outputs), OPS, implementer(target("generic")))
    return plan, traffic(plan, stats(plan.graph, OPS))


def test_work_and_bytes_of_a_convolution():
    net = Net()
    x = net.input(1, 3, 8, 8)
    _, (found, *copies) = planned(net, net.op("Relu", net.conv(x, 4)))
    assert found.work.macs == 4 * 3 * 9 * 64
    assert found.flops == 2 * found.work.macs + found.work.operations
    assert all(each.flops == 0 for each in copies)
    assert list(found.writes.values()) == [4 * 64 * 4]
    assert sum(found.reads.values()) == 4 * (3 * 64 + 4 * 3 * 9 + 4)
    assert found.bytes == sum(found.reads.values()) + 4 * 64 * 4


def test_no_more_is_read_of_an_operand_than_is_loaded():
    net = Net()
    table = net.constant(1000, 8)
    _, (found,) = planned(net, net.op("Gather", table, net.input(3, dtype=DType.I64), axis=0))
    assert found.reads[table] == 3 * 8 * 4


def test_distances_are_what_was_touched_since():
    net = Net()
    x = net.input(1, 64)
    first = net.dense(x, 32)
    second = net.dense(first, 16)
    plan, found = planned(net, net.dense(second, 8))
    weights = [next(v for v in step.reads if v in plan.graph.constants) for step in plan.steps]
    sizes = [plan.types[weight].bytes for weight in weights]
    # Every weight is used once a run: all but what the same step reads is touched in between.
    arena = min(plan.arena_bytes, (32 + 16) * 4)
    others = sum(sizes) + arena + (64 + 8) * 4
    for each, weight, size in zip(found, weights, sizes, strict=True):
        assert others - size - 64 * 4 <= each.distances[weight] <= others - size
    # What the step before made is there.
    assert found[1].distances[first] == 0
    assert 0 < found[0].distances[x] <= others


def test_steps_share_all_work():
    net = Net()
    x = net.conv(net.input(1, 4, 6, 6), 8)
    plan, found = planned(net, net.op("Sigmoid", net.conv(x, 4)), net.op("Exp", x))
    assert sum(each.work.macs for each in found) == stats(plan.graph, OPS).macs
