"""The sweep over operators: its nets are sound, and it measures what it says."""

from __future__ import annotations

import time

import numpy as np
import onnx
import pytest

from bench.ops import CASES, Outcome, arrays_of, channels_last, is_image, main, model, report
from weft.frontends.onnx import load


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nets_are_sound_both_ways_round(case, tmp_path):
    plain = model(case)
    turned = [channels_last(plain)] if is_image(case) and case.outputs == 1 else []
    for each in (plain, *turned):
        path = tmp_path / "case.onnx"
        onnx.save(each, path)
        graph = load(path, {}, {})
        shapes = [graph.types[value].dims for value in graph.inputs]
        wanted = [
            np.moveaxis(x, 1, -1).shape if each in turned else x.shape for x in arrays_of(case)
        ]
        assert shapes == wanted


def test_names_tell_cases_apart():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


def test_the_table_begins_with_the_slowest():
    lines = [*report("title", [Outcome("a", 2, 4, 0), Outcome("b", 4, 2, 1e-7)])]
    assert lines[4:6] == [
        "| b | 4.00 | 2.00 | 0.500 | 1e-07 |",
        "| a | 2.00 | 4.00 | 2.00 | 0e+00 |",
    ]
    assert lines[-1] == "Geometric mean: 1.00"


@pytest.mark.parametrize("options", [[], ["--channels-last"]])
def test_a_sweep_writes_its_table(options, tmp_path, capsys):
    names = ["--names", "average pool 2x2", "--rounds", "1", "--out", str(tmp_path)]
    assert main([*names, *options]) == 0
    text = (tmp_path / "ops.md").read_text()
    assert text in capsys.readouterr().out
    assert time.strftime("%Y") in text
    row = next(line for line in text.splitlines() if line.startswith("| average pool 2x2"))
    *_, error = row.strip("| ").split(" | ")
    assert float(error) < 1e-6
