"""Products of vectors and several matrices in one kernel."""

from __future__ import annotations

import pytest

from tests.kernels.tasks import all_tasks_of, assert_as_nest, offers, refusal
from tests.plan.nets import Net
from weft.kernels.products import gates
from weft.kernels.task import Task


def layer(op: str, units: int, machine: str, **attributes: int) -> list[Task]:
    """The tasks of a step of a recurrent layer."""
    net = Net()
    count = {"LSTM": 4, "GRU": 3}[op]
    x = net.input(3, 1, 5)
    weights = [net.constant(1, count * units, size) for size in (5, units)]
    value = net.op(
        op, x, *weights, net.constant(1, 2 * count * units), hidden_size=units, **attributes
    )
    return [
        task
        for task in all_tasks_of(net, value, machine=machine, tidied=True)
        if offers(gates.propose, task)
    ]


@pytest.mark.parametrize("machine", ["generic", "x86-avx2", "x86-avx512"])
@pytest.mark.parametrize("units", [5, 16, 40])
@pytest.mark.parametrize(
    ("op", "attributes", "sums"),
    [("LSTM", {}, 3), ("GRU", {"linear_before_reset": 1}, 3), ("GRU", {}, 2)],
)
def test_the_sums_of_a_step_are_those_of_its_definition(op, attributes, sums, units, machine):
    (task,) = layer(op, units, machine, **attributes)
    found = gates.gates_of(task)
    assert isinstance(found, tuple)
    assert len(found) == sums
    for each in offers(gates.propose, task):
        assert_as_nest(task, each.make())


def test_one_product_is_left_to_other_generators():
    net = Net()
    y = net.op("MatMul", net.input(1, 8), net.constant(8, 16))
    (task,) = all_tasks_of(net, net.op("Relu", y))
    assert refusal(gates.propose, task) == "it is not made of several sums"


def test_outside_of_loops_products_stay_apart():
    """There the matrices come from memory, where each is better encoded."""
    net = Net()
    x = net.input(1, 8)
    gate, value = (net.op("MatMul", x, net.constant(8, 16)) for _ in range(2))
    tasks = all_tasks_of(net, net.op("Mul", net.op("Sigmoid", gate), value), tidied=True)
    assert len(tasks) == 2
    assert not any(offers(gates.propose, task) for task in tasks)


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_blocks_are_small_where_caches_decide(op):
    """The cell's functions of a block are computed while the weights of the next one arrive."""
    (task,) = layer(op, 256, "x86-avx512", **({"linear_before_reset": 1} if op == "GRU" else {}))
    found = offers(gates.propose, task)
    assert [each.name for each in found] == ["gates-2", "gates-4", "gates-8", "gates-1"]
    assert len({each.cost for each in found}) == 1
