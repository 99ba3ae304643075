"""Dense layers of one row whose weights are read where they lie."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels.tasks import assert_as_nest, offers, refusal, tasks_of
from tests.plan.nets import Net
from weft.kernels.products import rows_in_place
from weft.kernels.selection import generate
from weft.kernels.task import Task


def task_of(
    terms: int, outputs: int, rows: int = 1, machine: str = "x86-avx512", known: bool = False
) -> Task:
    """A dense layer with bias and ReLU, its weights one row for each output."""
    net = Net()
    x = net.input(rows, terms)
    made = net.op("Gemm", x, net.constant(outputs, terms), net.constant(outputs), transB=1)
    (task,) = tasks_of(net, net.op("Relu", made), machine=machine)
    return task if known else replace(task, arrays={})


@pytest.fixture(autouse=True)
def few_bytes_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_in_place, "IN_PLACE_BYTES", 256)


@pytest.mark.parametrize("machine", ["x86-avx512", "x86-avx2", "x86-sse2", "aarch64-neon"])
@pytest.mark.parametrize("outputs", [3, 8, 11, 16, 43])
def test_every_output_is_the_sum_of_its_row(machine: str, outputs: int) -> None:
    task = task_of(64, outputs, machine=machine)
    (offered,) = offers(rows_in_place.propose, task)
    made = offered.make()
    assert made is not None
    assert all(operand.packing is None for operand in made.operands)
    assert_as_nest(task, made)


def test_it_is_taken_before_packed_weights() -> None:
    assert generate(task_of(64, 16)).scheme == "rows-in-place-16"
    assert generate(task_of(64, 16, machine="x86-avx2")).scheme == "rows-in-place-8"
    assert not generate(task_of(64, 16, known=True)).scheme.startswith("rows-in-place")


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (task_of(64, 16, known=True), "the weights are known, or there are none"),
        (task_of(16, 2), "the weights are less than 256 bytes"),
        (task_of(64, 16, rows=2), "several rows read the same weights"),
        (task_of(72, 16), "rows are no whole vectors of 16"),
    ],
)
def test_what_is_packed_says_why(task: Task, reason: str) -> None:
    assert refusal(rows_in_place.propose, task) == reason
