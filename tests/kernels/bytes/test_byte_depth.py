"""Depthwise convolutions of bytes, channels side by side: the same bits as the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.kernels.integer.test_depthwise import convolution
from tests.kernels.integer.test_tensorized import Made, extreme, task_of
from tests.kernels.tasks import computed, offers, refusal
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.dual import depthwise as byte_depth
from weft.kernels.bytes.dual.depthwise import propose
from weft.kernels.selection import usual

last = partial(convolution, channels_last=True)
CASES: dict[str, Callable[[], Made]] = {
    "3x3": lambda: last((5, 7), (3, 3), 12),
    "no border": lambda: last((6, 9), (3, 3), 8, pad=0),
    "strided": lambda: last((9, 11), (3, 3), 8, stride=2),
    "strided, no border": lambda: last((8, 10), (3, 3), 4, stride=2, pad=0),
    "many rows": lambda: last((7, 5), (5, 3), 4, pad=1),
    "large factors": lambda: last((4, 5), (3, 3), 4, largest=1 << 28),
}


@pytest.mark.parametrize("bytes_", [byte_depth.MOST_BYTES, 300])
@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_plain_loops(case: str, bytes_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_depth, "MOST_BYTES", bytes_)
    task = task_of(CASES[case](), "dsp vfp")
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    (offered,) = offers(propose, task)
    made = offered.make()
    assert made is not None
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def test_it_is_the_usual_choice() -> None:
    assert usual(task_of(last((25, 5), (3, 3), 64), "dsp vfp")).name == "depth"


def test_refusals() -> None:
    assert "halves" in refusal(propose, task_of(last((4, 4), (3, 3)), "mve"))
    assert "fours" in refusal(propose, task_of(last((4, 4), (3, 3), 6), "dsp"))
    assert "neighbours" in refusal(propose, task_of(last((4, 4), (3, 2), 4), "dsp"))
    assert "signed" in refusal(propose, task_of(last((4, 4), (3, 3), 4, kind=DType.U8), "dsp"))
