"""Tasks: short names, merged and split axes, no idle ones."""

from __future__ import annotations

from tests.kernels.tasks import assert_as_nest, tasks_of
from tests.plan.nets import Net
from weft.kernels import nest
from weft.kernels.task import LOOP_NAMES, Task
from weft.loops.text import show_expr
from weft.loops.walk import bound_vars


def task_of(net: Net, output: str) -> Task:
    task = tasks_of(net, output)[-1]
    assert_as_nest(task, nest.generate(task))
    return task


def extents(task: Task) -> list[int]:
    return [axis.extent for axis in task.compute.axes]


# --- merged ---------------------------------------------------------------------------------


def test_neighbouring_axes_become_one():
    net = Net()
    task = task_of(net, net.op("Add", net.input(3, 4, 5), net.input(3, 4, 5)))
    assert extents(task) == [60]
    assert [buffer.shape for buffer in (*task.inputs, task.output)] == [(60,)] * 3


def test_axes_that_a_broadcast_tells_apart_stay_apart():
    net = Net()
    assert extents(task_of(net, net.op("Add", net.input(3, 4, 5), net.input(5)))) == [12, 5]
    net = Net()
    assert extents(task_of(net, net.op("Add", net.input(3, 4, 5), net.input(4, 1)))) == [3, 4, 5]


def test_axes_of_different_strides_stay_apart():
    net = Net()
    part = net.op("Slice", net.input(4, 6), starts=(0,), ends=(5,), axes=(1,))
    assert extents(task_of(net, net.op("Exp", part))) == [4, 5]


def test_images_of_one_pixel_by_one_tap_are_matrices():
    net = Net()
    x = net.conv(net.input(2, 3, 4, 5), 8, 1)
    (_, task, _) = tasks_of(net, net.op("GlobalAveragePool", net.conv(x, 6, 1)))
    assert extents(task) == [40, 6]
    assert show_expr(task.compute.value) == "sum(k:8 | in0[nyx, k] * in1[c, k]) + in2[c]"


def test_idle_axes_and_dimensions_go():
    net = Net()
    task = task_of(net, net.op("Exp", net.input(1, 4, 1, 1)))
    assert extents(task) == [4]
    assert task.inputs[0].shape == (4,)


def test_a_scalar_has_no_axes():
    net = Net()
    assert extents(task_of(net, net.op("Exp", net.input()))) == []


# --- split ----------------------------------------------------------------------------------


def test_groups_of_channels_are_an_axis():
    net = Net()
    x = net.conv(net.input(1, 3, 5, 5), 8, 1)
    (_, task, _) = tasks_of(net, net.op("GlobalAveragePool", net.conv(x, 12, groups=2)))
    assert extents(task) == [5, 5, 2, 6]
    assert task.inputs[1].shape == (2, 6, 4, 3, 3)
    assert "//" not in show_expr(task.compute.value)


def test_pixels_of_channels_are_axes():
    net = Net()
    task = task_of(net, net.op("DepthToSpace", net.input(1, 12, 4, 4), blocksize=2))
    # Columns are vectors, which pairs would not fill.
    assert extents(task) == [12, 2, 8]


def test_narrow_vectors_do_not_pay():
    net = Net()
    task = task_of(net, net.op("Upsample", net.input(1, 1, 4, 20), scales=(1.0, 1.0, 1.0, 2.0)))
    assert extents(task) == [4, 40]
    net = Net()
    task = task_of(net, net.op("Upsample", net.input(1, 1, 4, 5), scales=(1.0, 1.0, 1.0, 8.0)))
    assert extents(task) == [20, 8]


# --- names ----------------------------------------------------------------------------------


def test_axes_are_not_named_as_the_loops_of_generators():
    net = Net()
    task = task_of(net, net.op("Einsum", net.input(5, 6), net.input(6, 9), equation="kp,pl->kl"))
    names = {axis.var for axis in task.compute.axes} | bound_vars(task.compute.value)
    assert not names & LOOP_NAMES


def test_inputs_are_numbered_and_know_their_values():
    net = Net()
    x, y = net.input(3), net.input(3)
    task = task_of(net, net.op("Sub", net.op("Mul", y, x), y))
    assert [buffer.name for buffer in task.inputs] == ["in0", "in1"]
    assert task.values == (y, x)
    assert [task.value_of(buffer.name) for buffer in task.inputs] == [y, x]
