"""Winograd convolutions of bytes by vectors: the same bits as the plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import convolution, extreme, task_of
from tests.kernels.tasks import computed, offers, refusal, tasks_of
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.vectors.points_choice import propose
from weft.kernels.selection import usual
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts
from weft.loops.walk import reduces

WINDOWS = "it has no windows of 3x3 neighbours"
TYPES = "no instruction of the target takes its types and channels"


@pytest.mark.parametrize("feature", ["sse2", "avx2"])
@pytest.mark.parametrize(
    ("channels", "size", "filters", "kind"),
    [
        (4, (6, 8), 16, DType.I8),
        (18, (4, 14), 8, DType.U8),
        (64, (2, 2), 24, DType.I8),
        (6, (7, 7), 16, DType.U8),
        (8, (3, 5), 8, DType.I8),
        (4, (9, 4), 8, DType.I8),
    ],
)
def test_same_bits_as_plain_loops(
    channels: int, size: tuple[int, int], filters: int, kind: DType, feature: str
) -> None:
    task = task_of(convolution(channels, size, 3, filters, kind=kind), feature)
    (offered,) = offers(propose, task)
    memory = extreme(task)
    made = offered.make()
    assert made is not None
    assert any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
    wanted = computed(task, nest.generate(task), memory)
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx2"])
def test_it_is_the_usual_choice(machine: str) -> None:
    made = convolution(64, (14, 14), 3, 64)
    (task,) = [each for each in tasks_of(*made, machine=machine) if reduces(each.compute.value)]
    assert usual(task).name in {each.name for each in offers(propose, task)}


@pytest.mark.parametrize(
    ("channels", "size", "filters", "why"),
    [
        (3, (6, 6), 16, "no instruction of the target takes its types and channels"),
        (4, (6, 6), 12, "no instruction of the target takes its types and channels"),
    ],
)
def test_refusals(channels: int, size: tuple[int, int], filters: int, why: str) -> None:
    task = task_of(convolution(channels, size, 3, filters), "avx2")
    assert refusal(propose, task) == why


def test_other_windows_are_refused() -> None:
    task = task_of(convolution(4, (6, 6), 5, 16), "avx2")
    assert refusal(propose, task) == WINDOWS


def test_quads_of_bytes_are_faster() -> None:
    task = task_of(convolution(16, (6, 6), 3, 16), "avx2 avx512_vnni")
    assert refusal(propose, task) == TYPES
