"""The growth table: networks of the sizes asked for, and exponents beside the ideal ones."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from bench.growth import AXES, Point, Size, fits, model, point, report
from weft.frontends.onnx import load

SMALL = Size(batch=1, resolution=6, width=4, depth=2)


def stats(size: Size, tmp_path):
    path = tmp_path / "growth.onnx"
    path.write_bytes(model(size).SerializeToString())
    return load(path, {}, {})


@pytest.mark.parametrize("axis", [*AXES])
def test_networks_have_the_sizes_asked_for(axis: str, tmp_path):
    small = stats(SMALL, tmp_path)
    large = stats(replace(SMALL, **{axis: 2 * getattr(SMALL, axis)}), tmp_path)
    x = small.types[small.inputs[0]].dims
    expected = {"batch": (2, 3, 6, 6), "resolution": (1, 3, 12, 12)}.get(axis, (1, 3, 6, 6))
    assert x == (1, 3, 6, 6)
    assert large.types[large.inputs[0]].dims == expected
    convolutions = [sum(node.op == "Conv" for node in graph.nodes) for graph in (small, large)]
    assert convolutions == [3, 5 if axis == "depth" else 3]


def test_a_point_is_measured():
    found = point("depth", SMALL, 0.01, time.perf_counter_ns)
    assert (found.axis, found.value) == ("depth", 2)
    assert found.milliseconds > 0
    assert found.ready > 0
    macs = 36 * 4 * 9 * (3 + 2 * 4) + 4 * 10
    assert 2 * macs < found.operations < 3 * macs
    assert found.weight_bytes >= found.parameter_bytes > 0


def test_exponents_stand_beside_the_ideal_ones():
    points = [
        Point("width", n, 2.0 * n**2, 5 * n, 7 * n**2, 100, 100, 1.0, 9 * n**2, 3 * n, 4 * n**2)
        for n in (10, 20, 40)
    ]
    found = fits(points)
    assert found["milliseconds"] == (pytest.approx(2), pytest.approx(2))
    assert found["arena_bytes"] == (pytest.approx(1), pytest.approx(1))
    assert found["weight_bytes"] == (pytest.approx(2), pytest.approx(2))
    assert found["code_bytes"] == (pytest.approx(0), 0)
    assert report("machine", points)[-1] == (
        "| width | 2.00 (2.00) | 1.00 (1.00) | 2.00 (2.00) | 0.00 (0.00) | 0.00 (0.00) "
        "| 0.00 (0.00) |"
    )
