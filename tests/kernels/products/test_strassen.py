"""Seven products of quarters: as the plain loops, where they apply, and what they round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.tasks import assert_as_nest, computed, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.turns import a_few, in_turn
from weft.kernels import nest
from weft.kernels.products import tiled_choice
from weft.kernels.products.strassen_choice import GENERATOR, generate, propose
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import integer
from weft.loops.hoist import hoist
from weft.loops.nodes import For, Prefetch, Reduce
from weft.loops.statements import walk_stmts
from weft.loops.walk import walk
from weft.plan.work import stages_of


def product(rows: int, inner: int, columns: int, machine: str = "x86-avx512") -> Task:
    net = Net()
    (task,) = tasks_of(net, net.dense(net.input(rows, inner), columns), machine=machine)
    return task


@pytest.mark.parametrize(
    ("rows", "machine"), in_turn([(32,), (33,), (57,), (61,)], ["x86-avx512", "aarch64-neon"])
)
def test_rows_of_any_number(rows: int, machine: str) -> None:
    task = product(rows, 128, 128, machine)
    made = generate(task)
    assert made is not None
    assert_as_nest(task, made)


@pytest.mark.thorough
def test_layers_of_images_and_what_is_added_to_them() -> None:
    net = Net()
    image = net.op("Relu", net.conv(net.input(2, 2, 6, 7), 128, kernel=1))
    layer, other = (net.conv(image, 192, kernel=1) for _ in range(2))
    last = net.conv(net.op("Relu", net.op("Add", layer, other)), 2, kernel=1)
    tasks = [each for each in tasks_of(net, last, machine="x86-avx512") if generate(each)]
    assert len(tasks) == 2
    for task in tasks:
        made = generate(task)
        assert made is not None
        assert_as_nest(task, made)


@pytest.mark.parametrize("rows", a_few([33, 61, 96], 1))
def test_threads_share_few_tiles_and_make_the_same_bits(rows: int) -> None:
    alone = product(rows, 128, 128)
    shared, memory = replace(alone, threads=2), memory_of(alone)
    one, two = generate(alone), generate(shared)
    assert one is not None
    assert two is not None
    stages = stages_of(hoist(two.kernel, 64).kernel)
    assert len(stages) > 1
    assert all(stage.ranges for stage in stages)
    bits = computed(shared, two, memory)
    np.testing.assert_array_equal(bits, computed(alone, one, memory))


def test_seven_products_are_two_texts() -> None:
    task = product(56, 128, 128)
    made = generate(task)
    assert made is not None
    (channel,) = (
        each.var
        for node in walk(task.compute.value)
        if isinstance(node, Reduce)
        for each in node.axes
    )
    loops = [each for each in walk_stmts(made.kernel.body) if isinstance(each, For)]
    assert [each.var for each in loops].count(channel) == 2
    assert [each.stop for each in loops if each.var == "product"] == [integer(3), integer(4)]


def test_what_is_added_is_fetched_ahead_from_far_away() -> None:
    net = Net()
    x, other = net.input(4096, 128), net.op("Relu", net.input(4096, 128))
    far = tasks_of(net, net.op("Add", net.dense(x, 128), other), machine="x86-avx512")
    (near,) = tasks_of(net, net.dense(x, 128), machine="x86-avx512")

    def fetched(task: Task) -> set[str]:
        made = generate(task)
        assert made is not None
        found = walk_stmts(made.kernel.body)
        return {each.buffer for each in found if isinstance(each, Prefetch)} - {"in1"}

    assert not fetched(near)
    assert [fetched(each) for each in far if generate(each)] == [{"in2"}]


def test_rounds_little_more_than_a_plain_sum() -> None:
    task = product(64, 256, 128)
    memory, made = memory_of(task), generate(task)
    assert made is not None
    rows, weights = (memory[value].astype(np.float64) for value in task.values)
    wanted = rows.reshape(64, 256) @ weights.reshape(256, 128)

    def error(found: np.ndarray) -> float:
        return float(np.sqrt(np.mean((found.reshape(wanted.shape) - wanted) ** 2)))

    plain = error(computed(task, nest.generate(task), memory))
    ours = error(computed(task, made, memory))
    # Other sums, and not far from those of the definition.
    assert 0 < ours < 2 * plain


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "reason"),
    [
        (64, 128, 144, "its terms or channels are no two halves of whole vectors"),
        (64, 136, 128, "its terms or channels are no two halves of whole vectors"),
        (64, 32, 128, "sums of quarters cost more than they save where sums are short"),
        (64, 128, 32, "sums of quarters cost more than they save where sums are short"),
        (20, 128, 128, "it has few positions"),
        (1024, 128, 128, "what it saves is too little for a kernel of seven products"),
        (128, 768, 768, "packed weights would be many times what it reads and writes"),
    ],
)
def test_others_are_refused(rows: int, inner: int, columns: int, reason: str) -> None:
    assert refusal(propose, product(rows, inner, columns)) == reason


def test_what_is_asked_for_is_kept() -> None:
    task = product(64, 128, 128)
    assert "exact kernels were asked for" in refusal(propose, replace(task, exact=True))
    assert "the code is to be small" in refusal(propose, replace(task, optimize="size"))
    assert GENERATOR.propose is propose


def test_weights_from_afar_cost_more_than_they_save() -> None:
    def gain(task: Task) -> float:
        least = min(each.cost for each in offers(tiled_choice.propose, task))
        (other,) = offers(propose, task)
        return least / other.cost

    assert gain(product(512, 512, 128)) > 1.05
    target = product(512, 1024, 1024).target
    slow = tuple(
        replace(each, bytes_per_cycle=1.0) if each.reach != "core" else each
        for each in target.memories
    )
    far = replace(product(512, 1024, 1024), target=replace(target, memories=slow))
    assert gain(far) < 1


def test_rows_that_a_norm_measures_are_kept_apart() -> None:
    """As of padded tokens: a row of zeros must not become noise, which its norm makes large."""
    net = Net()
    x = net.input(1024, 192)
    plain, direct, moved = (net.dense(x, 192) for _ in range(3))
    heads = net.op("Reshape", net.op("Neg", moved), shape=(1024, 6, 32))
    turned = net.op("Transpose", heads, perm=(1, 0, 2))
    squares = net.op("Mul", turned, turned)
    norms = [net.op("ReduceL2", direct, axes=(-1,)), net.op("ReduceSum", squares, axes=(-1,))]
    tasks = tasks_of(net, plain, *norms, turned, machine="x86-avx512")
    proposed = [propose(task) for task in tasks if task.constants]
    refused = [each.reason for each in proposed if isinstance(each, Refusal)]
    assert len(proposed) == 3
    assert len(refused) == 2
    assert all("a norm measures rows" in why for why in refused)
