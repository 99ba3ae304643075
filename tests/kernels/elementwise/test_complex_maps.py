"""Maps of complex numbers: the same bits as the plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.tasks import computed, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from weft.kernels import nest
from weft.kernels.elementwise.complex_maps import propose
from weft.kernels.selection import usual
from weft.kernels.task import Task


def part(net: Net, x: str, which: int) -> str:
    return net.op("Slice", x, starts=(which,), ends=(which + 1,), axes=(3,))


def product(numbers: int, machine: str = "x86-avx2") -> Task:
    """Complex numbers times others, whose row all of a batch share; and one times real ones."""
    net = Net(0)
    x, y = net.input(2, 3, numbers, 2), net.input(1, 3, numbers, 2)
    swapped = net.op("Slice", x, starts=(1,), ends=(-3,), axes=(3,), steps=(-1,))
    signs = net.op("Mul", part(net, y, 1), net.constant(2))
    added = net.op("Add", net.op("Mul", x, part(net, y, 0)), net.op("Mul", swapped, signs))
    return tasks_of(net, net.op("Mul", added, net.input(3, numbers, 1)), machine=machine)[-1]


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx2", "x86-avx512", "aarch64-neon"])
@pytest.mark.parametrize("numbers", [4, 16, 37])
def test_same_bits_as_plain_loops(numbers: int, machine: str) -> None:
    task = product(numbers, machine)
    (offered,) = offers(propose, task)
    memory = memory_of(task)
    made = offered.make()
    assert made is not None
    wanted = computed(task, nest.generate(task), memory)
    assert len(np.unique(wanted)) > 20
    np.testing.assert_array_equal(computed(task, made, memory), wanted)
    assert usual(task).name == "complex"


def swapped(*shape: int, machine: str = "x86-avx512") -> Task:
    """Exponentials of what neighbours hold."""
    net = Net(0)
    last = len(shape) - 1
    x = net.op("Slice", net.input(*shape), starts=(1,), ends=(-3,), axes=(last,), steps=(-1,))
    return tasks_of(net, net.op("Exp", x), machine=machine)[0]


def test_parts_that_take_turns() -> None:
    task = swapped(5, 9, 2)
    (offered,) = offers(propose, task)
    memory = memory_of(task)
    made = offered.make()
    assert made is not None
    wanted = computed(task, nest.generate(task), memory)
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def test_refusals() -> None:
    def of(*shape: int, op: str = "Relu", machine: str = "x86-avx2") -> Task:
        net = Net(0)
        return tasks_of(net, net.op(op, net.input(*shape)), machine=machine)[0]

    assert refusal(propose, of(4, 8, 3)) == "it is no map of pairs"
    few = "there are no vectors of several pairs, or none whose lanes can be moved"
    assert refusal(propose, swapped(3, 2)) == few
    assert refusal(propose, swapped(16, 2, machine="generic")) == few
    net = Net(0)
    as_they_lie = net.op("Mul", net.input(6, 8, 2), net.input(8, 1))
    task = tasks_of(net, net.op("Mul", as_they_lie, net.constant(2)), machine="x86-avx2")[0]
    assert usual(task).name == "complex"
    net = Net(0)
    turned = net.op("Transpose", net.input(2, 8, 6), perm=(2, 1, 0))
    apart = tasks_of(net, net.op("Mul", net.input(6, 8, 2), turned), machine="x86-avx2")[0]
    assert refusal(propose, apart) == "pairs are read in steps of their own, or lie apart"
