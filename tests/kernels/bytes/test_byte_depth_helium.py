"""Depthwise convolutions of bytes for Helium: the same bits as the plain loops, in all pieces."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.kernels.bytes.test_byte_depth import last
from tests.kernels.integer.test_tensorized import Made, extreme, task_of
from tests.kernels.tasks import computed, found_by, offers, refusal
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.dual.depthwise import depthwise_of
from weft.kernels.bytes.helium import depthwise as byte_depth_helium
from weft.kernels.bytes.helium.depthwise import cut_of, pieces, propose
from weft.kernels.refusal import Refusal
from weft.kernels.selection import usual

ALL = "dsp vfp mve"
CASES: dict[str, Callable[[], Made]] = {
    "3x3": lambda: last((5, 7), (3, 3), 12),
    "no border": lambda: last((6, 9), (3, 3), 8, pad=0),
    "strided": lambda: last((9, 11), (3, 3), 8, stride=2),
    "strided, no border": lambda: last((8, 10), (3, 3), 4, stride=2, pad=0),
    "channels not of eights": lambda: last((6, 4), (3, 3), 11),
    "few rows": lambda: last((4, 4), (2, 3), 5, pad=0),
    "many rows": lambda: last((19, 4), (3, 3), 3),
    "wide": lambda: last((3, 131), (3, 3), 2),
}


@pytest.mark.parametrize("bytes_", [byte_depth_helium.MOST_BYTES, 300])
@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_plain_loops(case: str, bytes_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_depth_helium, "MOST_BYTES", bytes_)
    task = task_of(CASES[case](), ALL)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    (offered,) = offers(propose, task)
    made = offered.make()
    assert made is not None
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def test_sides_are_cut_into_pieces_of_several_outputs() -> None:
    depth = found_by(depthwise_of, task_of(last((25, 140), (3, 3), 8), ALL))
    assert depth is not None
    cut = cut_of(depth)
    assert not isinstance(cut, Refusal)
    assert [(each.first, each.count, each.start, each.size) for each in cut.columns] == [
        (0, 70, 0, 71),
        (70, 70, 69, 71),
    ]
    for most in range(4, 30):
        found = pieces(depth.down, most)
        assert sum(each.count for each in found) == 25
        assert min(each.count for each in found) > 1
        assert max(each.count for each in found) <= most


def test_it_is_the_usual_choice() -> None:
    assert usual(task_of(last((25, 5), (3, 3), 64), ALL)).name == "helium-depth"


def test_refusals() -> None:
    assert "Helium" in refusal(propose, task_of(last((4, 4), (3, 3)), "dsp"))
    assert "3 rows" in refusal(propose, task_of(last((5, 5), (5, 3), 4, pad=1), ALL))
    assert "signed" in refusal(propose, task_of(last((4, 4), (3, 3), 4, kind=DType.U8), ALL))
    assert "requantization" in refusal(propose, task_of(last((4, 4), (3, 3), 4), "mve"))
