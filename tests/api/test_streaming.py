"""Rows of integer layers are streamed where RAM is short, and every bit stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.rewrite.checks import graph_of
from weft.api import Net
from weft.api.exported import plan_in_ram
from weft.export import ram_needed
from weft.options import Options

GRAPH = """(%x: i8[1,2,24,20]) -> (%y) {
  const %s: f32[] = [0.0625]
  const %z: i8[] = [-7]
  const %n: i8[] = [0]
  const %w: i8[8,2,3,3]
  const %d: i8[8,1,3,3]
  const %v: i8[4,8,1,1]
  %a: i8[1,8,24,20] = QLinearConv(%x, %s, %z, %w, %s, %n, %s, %z) {pads=(1,1,1,1)}
  %b: i8[1,8,24,20] = QLinearConv(%a, %s, %z, %d, %s, %n, %s, %z) {groups=8, pads=(1,1,1,1)}
  %y: i8[1,4,12,10] = QLinearConv(%b, %s, %z, %v, %s, %n, %s, %z) {strides=(2,2)}
}"""


def network() -> Net:
    rng = np.random.default_rng(5)
    shapes = {"w": (8, 2, 3, 3), "d": (8, 1, 3, 3), "v": (4, 8, 1, 1)}
    arrays = {name: rng.integers(-9, 10, dims) for name, dims in shapes.items()}
    return Net(graph_of(GRAPH, **{name: each.astype(np.int8) for name, each in arrays.items()}))


def test_integer_layers_are_streamed(tmp_path: Path):
    net = network()
    whole = net.toolkit("generic")
    needed = ram_needed(whole)[0]
    made = net.export(tmp_path / "out", ram=needed - whole.report.arena_bytes * 2 // 5)
    assert made.streamed == ("a to b in 4 strips of rows",)
    assert ram_needed(made)[0] <= needed - whole.report.arena_bytes * 2 // 5
    x = np.random.default_rng(6).integers(-128, 128, (1, 2, 24, 20)).astype(np.int8)
    tiled = net.apply("tile-chain", first="a", last="b", parts=4)
    np.testing.assert_array_equal(tiled.compile()(x), net.reference(x)[0])
    np.testing.assert_array_equal(made.golden.outputs[0].array, whole.golden.outputs[0].array)


@pytest.mark.thorough
def test_plans_stream_rows_too():
    net = network()
    whole = net.toolkit("generic")
    needed = ram_needed(whole)[0]
    room = needed - whole.report.arena_bytes * 2 // 5
    found = plan_in_ram(net, Options(target="generic", ram=room))
    first, last, strips = found.plan.constraints.streamed
    assert (first, last) == ("a", "b")
    assert found.lines[0] == f"streamed, to fit into RAM: a to b in {strips} strips of rows"
    assert found.lines[1].startswith("RAM ")
    assert f"of {room:,} bytes: arena {found.plan.arena_bytes:,}, " in found.lines[1]
    assert found.plan.arena_bytes < whole.report.arena_bytes
    # Its text is a plan of the network itself.
    again = net.plan(plan=str(found.plan))
    assert str(again) == str(found.plan)
    x = np.random.default_rng(6).integers(-128, 128, (1, 2, 24, 20)).astype(np.int8)
    np.testing.assert_array_equal(net.compile(plan=str(found.plan))(x), net.reference(x)[0])


@pytest.mark.thorough
def test_plans_that_fit_or_cannot_stay():
    net = network()
    plan = net.plan("generic")
    room = ram_needed(net.toolkit("generic"))[0]
    found = plan_in_ram(net, Options(target="generic", ram=2 * room))
    assert found.lines[0].startswith("RAM ")
    assert len(found.lines) == 1
    assert found.plan.steps == plan.steps
    small = plan_in_ram(net, Options(target="generic", ram=600))
    assert small.plan.constraints.streamed == ()
    assert "fits into --ram" in small.lines[1]
    assert plan_in_ram(net, Options(target="generic")).lines == ()
