"""Progress: what is done reaches who listens, and nobody else."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import Step
from weft.reporting import announce


def test_steps_reach_the_listener() -> None:
    steps: list[Step] = []
    announce("unheard")
    with weft.progress(steps.append):
        announce("planning")
        with weft.progress(lambda _: None):
            announce("inside")
        announce("compiling a.c", 1, 3)
    announce("unheard")
    assert steps == [Step("planning"), Step("compiling a.c", 1, 3)]
    assert [str(step) for step in steps] == ["planning", "compiling a.c (2 of 3)"]


def test_steps_of_a_build(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    net = weft.Net(weft.load(digits).graph)
    steps: list[str] = []
    with weft.progress(lambda step: steps.append(str(step))):
        net.compile(threads=1)
    # Weights are packed while compilers run.
    begin = ["simplifying", "planning", "lowering", "writing C", "packing weights"]
    assert steps[: len(begin)] == begin
    assert steps[-1] == "linking"
    compiled = steps[len(begin) : -1]
    whole = f" (1 of {len(compiled)})" if len(compiled) > 1 else ""
    assert compiled[0] == f"compiling digits.c{whole}"
    assert all(each.startswith("compiling digits") for each in compiled)
    steps.clear()
    with weft.progress(lambda step: steps.append(str(step))):
        net.compile(threads=1)  # from the cache: nothing takes long
        net.verify(np.ones((1, 1, 8, 8), np.float32))
    assert steps[:3] == ["simplifying", "planning", "computing what is expected"]
    assert steps[-1] == "running and comparing"


def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    weft.verbose()
    try:
        announce("compiling a.c", 1, 3)
    finally:
        weft.verbose(False)
    announce("unheard")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(r"weft \d\d:\d\d:\d\d compiling a.c \(2 of 3\)\n", captured.err)
