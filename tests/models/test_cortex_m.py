"""The int8 models on Cortex-M4 for each goal: LiteRT's bits, in so many instructions."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.models import tiny
from weft.runtime.emulators import MACHINES, emulated

pytestmark = tiny.needed

MOST = {
    ("ad", "speed"): 0.22,
    ("ad", "balanced"): 0.34,
    ("ad", "size"): 0.34,
    ("ic", "speed"): 7.0,
    ("ic", "balanced"): 12.9,
    ("ic", "size"): 13.2,
    ("kws", "speed"): 2.6,
    ("kws", "balanced"): 3.25,
    ("kws", "size"): 3.35,
    ("vww", "speed"): 4.7,
    ("vww", "balanced"): 5.6,
    ("vww", "size"): 6.3,
}
"""Millions of instructions, a few hundredths above what was counted; without constant channels."""


@pytest.mark.parametrize(
    ("name", "optimize"),
    [pytest.param(*case, marks=() if case[0] == "kws" else pytest.mark.thorough) for case in MOST],
)
def test_bits_and_instructions(name: str, optimize: str) -> None:
    if missing := MACHINES["cortex-m4"].missing():
        pytest.skip(missing)
    path = tiny.model(name, "int8").with_suffix(".tflite")
    net = weft.load(path).apply("integers", rounding="litert")
    files = net.source("cortex-m4", name="net", optimize=optimize)
    inputs, outputs = tiny.golden(name, "int8")
    done = emulated(files, [(x,) for x in inputs[:2]], "cortex-m4")
    for (y,), wanted in zip(done.outputs, outputs, strict=False):
        np.testing.assert_array_equal(y, wanted)
    assert max(done.instructions) <= 1e6 * MOST[name, optimize]
