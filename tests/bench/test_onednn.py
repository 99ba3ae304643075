"""What is said of oneDNN's convolutions; the library itself is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.onednn import Shape, aligned, arguments, error_of, loaded, shape_of, weight_shape
from tests.plan.nets import Net
from weft.api import Net as Network
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.plan.fusion import Group


def shapes(net: Net, value: str) -> list[Shape]:
    plan = Network(net.graph(value)).plan()
    types = {name: each.dims for name, each in plan.types.items()}
    works = [step.work for step in plan.steps if isinstance(step.work, Group)]
    return [shape for work in works if (shape := shape_of(work, types))]


def test_shapes_come_from_groups() -> None:
    net = Net()
    x = net.input(1, 8, 13, 11)
    y = net.op("Relu", net.conv(x, 16, 3, stride=2, groups=4))
    assert shapes(net, y) == [Shape((8, 13, 11), (16, 7, 6), (3, 3), (2, 2), (1, 1), (1,) * 4, 4)]
    (shape,) = shapes(net, y)
    assert shape.flops == 2 * (16 * 7 * 6) * (9 * 2)
    assert weight_shape(shape) == (4, 4, 2, 3, 3)


def test_what_has_one_axis_is_left_out() -> None:
    net = Net()
    assert shapes(net, net.conv(net.input(1, 8, 13), 16)) == []


@pytest.mark.parametrize(("stride", "groups", "pad"), [(1, 1, 1), (2, 2, 0), (1, 4, 2)])
def test_errors_are_seen(stride: int, groups: int, pad: int) -> None:
    net = Net()
    x = net.input(1, 8, 9, 7)
    weight = net.constant(8, 8 // groups, 3, 3)
    options = {"kernel": (3, 3), "pads": (pad,) * 4, "strides": (stride,) * 2, "groups": groups}
    y = net.op("Conv", x, weight, **options)
    (shape,) = shapes(net, y)
    graph = net.graph(y)
    found = evaluate(graph, net.arrays, OPS)[y]
    weights = np.asarray(graph.constants[weight])
    assert error_of(shape, net.arrays[x], weights, found) < 1e-6
    assert error_of(shape, net.arrays[x], weights, found + 1) > 1e-3


def test_memory_is_aligned() -> None:
    memory = aligned(100)
    assert memory.ctypes.data % 4096 == 0
    assert memory.nbytes == 100


def test_a_library_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="oneDNN cannot be loaded"):
        loaded(tmp_path / "libdnnl.so.3")
    assert arguments(["resnet50", "--library", "x.so"]).library == Path("x.so")
