"""Seven products of halves are the product, and stand aside where halves do not fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.batch import Trial, run
from tests.kernels.tasks import all_tasks_of, arrays_of, assert_as_nest, computed, memory_of
from tests.kernels.test_grid import compiler
from tests.plan.nets import Net
from weft.kernels import nest, strassen, table
from weft.kernels.task import Task
from weft.loops.hoist import hoist
from weft.plan.work import shared_scratch, stages_of

WIDTHS = {"x86-sse2": 8, "x86-avx2": 16, "x86-avx512": 32, "aarch64-neon": 8}
"""Lanes in a block of two vectors."""


def product_task(rows: int, depth: int, lanes: int, machine: str, last: str = "") -> Task:
    net = Net()
    made = net.op("MatMul", net.input(rows, depth), net.constant(depth, lanes))
    if last == "Gelu":
        made = net.op("Gelu", net.op("Add", made, net.constant(lanes)))
    elif last == "Add":
        made = net.op("Add", made, net.input(rows, lanes))
    return all_tasks_of(net, made, machine=machine)[-1]


def found(task: Task) -> strassen.Product:
    product = strassen.recognise(task)
    assert product is not None
    return product


@pytest.mark.parametrize("machine", WIDTHS)
@settings(max_examples=6, deadline=None)
@given(
    st.integers(2, 33),
    st.integers(1, 20),
    st.integers(1, 2),
    st.sampled_from(["", "Gelu", "Add"]),
)
def test_products_are_those_of_plain_loops(machine, rows, half, blocks, last):
    task = product_task(rows, 2 * half, 2 * blocks * WIDTHS[machine], machine, last)
    assert_as_nest(task, strassen.write(found(task)))


def test_a_pointwise_convolution_is_a_product():
    net = Net()
    made = net.op("Relu", net.conv(net.conv(net.input(1, 3, 5, 6), 10), 32, 1))
    task = all_tasks_of(net, made, machine="x86-avx2")[1]
    assert_as_nest(task, strassen.write(found(task)))


@pytest.mark.parametrize("rows", [128, 129])
def test_threads_share_the_sums_and_wait_for_them(rows):
    made = strassen.write(found(product_task(rows, 128, 256, "x86-avx512")))
    kernel = hoist(made.kernel, 64).kernel
    assert [buffer.name for buffer in kernel.params if buffer.name in shared_scratch(kernel)] == [
        "sums"
    ]
    first, second = stages_of(kernel)
    assert [each.total for each in first.ranges.values()] == [(rows + 1) // 2]
    assert [each.total for each in second.ranges.values()] == [4]


@pytest.mark.parametrize(
    ("rows", "depth", "lanes"), [(1, 8, 32), (8, 7, 32), (8, 8, 48), (8, 8, 16)]
)
def test_what_has_no_halves_is_refused(rows, depth, lanes):
    assert strassen.recognise(product_task(rows, depth, lanes, "x86-avx2")) is None


def test_a_product_of_two_inputs_is_refused():
    net = Net()
    made = net.op("MatMul", net.input(8, 8), net.input(8, 32))
    assert strassen.recognise(all_tasks_of(net, made, machine="x86-avx2")[-1]) is None


def test_large_products_are_worth_cutting_unless_sums_must_be_exact():
    large = product_task(128, 768, 768, "x86-avx512")
    (found,) = strassen.propose(large)
    assert found.cost < table.alternatives(large)[0].cost
    assert strassen.propose(replace(large, exact=True)) == ()
    small = product_task(16, 64, 64, "x86-avx512")
    assert all(each.cost > table.alternatives(small)[0].cost for each in strassen.propose(small))


def test_it_is_no_usual_alternative():
    # Rows of zeros would not stay zeros.
    names = [each.name for each in table.alternatives(product_task(128, 768, 768, "x86-avx512"))]
    assert "strassen" not in names


@pytest.mark.parametrize(("machine", "lanes"), [("x86-sse2", 32), ("x86-avx2", 64)])
def test_compiled_products_stay_inside_their_memory(machine, lanes, tmp_path):
    trials: list[Trial] = []
    wanted: list[np.ndarray] = []
    for rows, depth, last in ((2, 2, ""), (15, 34, "Gelu"), (28, 16, "Add")):
        task = product_task(rows, depth, lanes, machine, last)
        made, memory = strassen.write(found(task)), memory_of(task)
        trials.append(Trial(last, made.kernel, tuple(arrays_of(made, memory))))
        wanted.append(computed(task, nest.generate(task), memory))
    for got, want in zip(run(trials, tmp_path, compiler()), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
