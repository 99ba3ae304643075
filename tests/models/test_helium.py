"""The int8 models on an emulated Cortex-M55: the bits of LiteRT's kernels, in few instructions."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.models import tiny
from tests.turns import a_few
from weft.runtime.emulators import MACHINES, emulated

pytestmark = tiny.needed

MOST_INSTRUCTIONS = {"ad": 46_000, "ic": 1_800_000, "kws": 610_000, "vww": 1_200_000}
"""CMSIS-NN takes 147, 4,806, 1,782 and 6,424 thousand."""


@pytest.mark.parametrize("name", a_few(tiny.NAMES))
def test_helium_on_a_cortex_m55(name: str) -> None:
    missing = MACHINES["cortex-m55"].missing()
    if missing:
        pytest.skip(missing)
    net = weft.load(tiny.model(name, "int8"), rounding="litert")
    files = net.apply("constant-channels").source("cortex-m55", name="net", optimize="speed")
    inputs, outputs = tiny.golden(name, "int8")
    found = emulated(files, [(x,) for x in inputs[:2]], "cortex-m55")
    for (output,), y in zip(found.outputs, outputs[:2], strict=True):
        np.testing.assert_array_equal(output, y)
    assert max(found.instructions) <= MOST_INSTRUCTIONS[name]
