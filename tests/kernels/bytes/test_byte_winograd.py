"""Winograd convolution of bytes in integers: the same bits as the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.bytes.test_byte_dual import last, rounded
from tests.kernels.integer.test_tensorized import Made, extreme, task_of
from tests.kernels.tasks import computed, offers, refusal
from weft.kernels import nest
from weft.kernels.bytes.dual.winograd import propose
from weft.kernels.selection import usual

CASES: dict[str, Callable[[], Made]] = {
    "one block": lambda: last(4, (4, 8), 3, 4),
    "blocks of two channels": lambda: last(8, (2, 4), 3, 6),
    "integers": lambda: rounded(4, (4, 4), 4),
    "several blocks": lambda: rounded(8, (2, 8), 32),
    "no borders": lambda: rounded(4, (6, 6), 4, pads=(0, 0, 0, 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_plain_loops(case: str) -> None:
    task = task_of(CASES[case](), "dsp vfp")
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    (offered,) = offers(propose, task)
    made = offered.make()
    assert made is not None
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def test_it_is_the_usual_choice_for_speed() -> None:
    task = task_of(last(32, (8, 8), 3, 32), "dsp vfp")
    assert usual(task).name == "winograd-dual"
    assert usual(replace(task, optimize="balanced")).name == "dual_1x4"


def test_refusals() -> None:
    assert "pairs" in refusal(propose, task_of(last(4, (4, 4), 3), "mve"))
    assert "tiles" in refusal(propose, task_of(last(4, (4, 6), 3), "dsp"))
    assert "tiles" in refusal(propose, task_of(last(4, (8, 8), 3, stride=2), "dsp"))
    assert "fours" in refusal(propose, task_of(last(3, (4, 4), 3), "dsp"))
    large = replace(task_of(last(4, (4, 4), 3), "dsp"), optimize="size")
    assert "flash" in refusal(propose, large)
