"""Several images at once: what runs image by image, and that the results stay the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.plan.nets import Net
from tests.plan.planned import assert_planned
from tests.turns import a_few
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.image_loop import image_loop, loop_values
from weft.plan.to_program import lower
from weft.surgery.batch_loop import batch_size, looped, members_in
from weft.targets.find import target
from weft.targets.target import Target


def small(bytes: int = 4096) -> Target:
    """A machine whose cores have so small a cache of their own."""
    machine = target("x86-avx512")
    memories = [
        replace(each, bytes=bytes) if each.name == "L2" else each for each in machine.memories
    ]
    return replace(machine, memories=tuple(memories))


def classifier(batch: int = 3, classes: int = 40) -> tuple[Net, str]:
    """Convolutions of few weights, a pooling, and a layer of many."""
    net = Net()
    x = net.input(batch, 3, 12, 12)
    y = net.op("Relu", net.conv(x, 16))
    y = net.op("Relu", net.op("Add", net.conv(y, 16), y))
    y = net.op("Flatten", net.op("GlobalAveragePool", y), axis=1)
    return net, net.dense(net.dense(y, 900), classes)


def planned(net: Net, *outputs: str, machine: Target | None = None) -> tuple[Graph, Graph]:
    """The graph as it is, and as a machine of small caches runs it."""
    graph = expand(net.graph(*outputs), OPS)
    return graph, image_loop(graph, loop_values(graph, machine or small()))


def assert_alike(net: Net, before: Graph, after: Graph) -> None:
    wanted, got = (evaluate(each, net.arrays, OPS) for each in (before, after))
    for value in before.outputs:
        np.testing.assert_allclose(got[value], wanted[value], rtol=1e-5, atol=1e-5)
    assert_planned(after, net.arrays)


def loops(graph: Graph) -> list[Graph]:
    """The bodies of the loops that a graph has."""
    return [node.attributes.body for node in graph.nodes if node.op == "Scan"]


def test_layers_of_few_weights_run_image_by_image():
    net, made = classifier()
    before, after = planned(net, made)
    (body,) = loops(after)
    assert [node.op for node in body.nodes].count("Conv") == 2
    assert [str(body.types[value]) for value in body.inputs] == ["f32[3,12,12]"]
    assert [node.op for node in after.nodes].count("MatMul") == 2
    assert_alike(net, before, after)


def test_images_are_handed_out_with_channels_last():
    net = Net()
    y = net.op("Relu", net.conv(net.input(2, 3, 24, 24), 8))
    y = net.op("Relu", net.conv(net.conv(y, 8), 4, 5, stride=4))
    wide = net.conv(y, 600, 6, pad=0)
    before, after = planned(net, wide)
    (body,) = loops(after)
    assert [str(body.types[value]) for value in body.outputs] == ["f32[6,6,4]"]
    assert_alike(net, before, after)


def test_a_value_that_the_caller_asks_for_keeps_its_order():
    net = Net()
    y = net.op("Relu", net.conv(net.input(2, 3, 12, 12), 8))
    y = net.conv(net.conv(y, 8), 2)
    before, after = planned(net, y)
    (body,) = loops(after)
    assert [str(body.types[value]) for value in body.outputs] == ["f32[2,12,12]"]
    assert_alike(net, before, after)


def test_heads_that_share_an_axis_with_the_batch_stay_inside():
    net = Net()
    x = net.input(2, 16, 32)
    y = net.op("Reshape", net.dense(x, 32), shape=(2, 16, 4, 8))
    y = net.op("Reshape", net.op("Transpose", y, perm=(0, 2, 1, 3)), shape=(8, 16, 8))
    y = net.op("MatMul", net.op("Softmax", net.op("MatMul", y, net.constant(8, 16))), y)
    y = net.op("Reshape", y, shape=(2, 4, 16, 8))
    y = net.op("Reshape", net.op("Transpose", y, perm=(0, 2, 1, 3)), shape=(2, 16, 32))
    before, after = planned(net, net.op("ReduceMean", net.dense(y, 32), axes=(1,), keepdims=0))
    (body,) = loops(after)
    assert len(after.nodes) == 1
    assert "f32[4,16,8]" in {str(type) for type in body.types.values()}
    assert_alike(net, before, after)


def test_there_is_no_loop_where_the_batch_stays_in_cache():
    net, made = classifier()
    for machine in (small(1 << 20), target("cortex-m4"), target("generic")):
        before, after = planned(net, made, machine=machine)
        assert after is before
    alone, made = classifier(1)
    before, after = planned(alone, made)
    assert after is before


def test_there_is_no_loop_that_would_hand_out_what_its_layers_make():
    net = Net()
    first = net.op("Relu", net.conv(net.input(2, 3, 12, 12), 8))
    second = net.op("Relu", net.conv(first, 8))
    before, after = planned(net, first, second)
    assert after is before


def image_to_image(deep: int) -> tuple[Net, str]:
    """A layer of more weights than activations, and many behind it of fewer."""
    net = Net()
    first = net.op("Relu", net.conv(net.input(2, 3, 24, 24), 8))
    y = net.conv(net.conv(first, deep, 6, stride=6, pad=0), deep, 4, pad=0)
    y = net.op("Resize", net.conv(y, 8, 1), scales=(1.0, 1.0, 24.0, 24.0))
    for _ in range(3):
        y = net.op("Relu", net.op("Add", net.conv(y, 8), first))
    return net, net.conv(y, 2)


@pytest.mark.parametrize(("deep", "whole"), a_few([(24, True), (600, False)], 1))
def test_layers_behind_one_of_many_weights_decide_with_it(deep: int, whole: bool):
    net, made = image_to_image(deep)
    graph = expand(net.graph(made), OPS)
    values = loop_values(graph, small())
    assert (values == (made,)) is whole
    assert_alike(net, graph, image_loop(graph, values))


def test_an_image_of_a_batch_runs_the_steps_of_one_alone():
    """Sums ride on products, outputs are written in place, and loops run forwards."""
    plans = [weft.Net(skips(batch)).plan(target("x86-avx512")) for batch in (1, 2)]
    alone, (loop,) = plans[0].steps, plans[1].steps
    assert loop.nested is not None
    assert [each.scheme for each in loop.nested.steps] == [each.scheme for each in alone]
    assert plans[1].arena_bytes == plans[0].arena_bytes
    functions = [lower(plan).functions for plan in plans]
    assert len(functions[0]) == len(functions[1])


def skips(batch: int) -> Graph:
    """Residual layers whose other products are added up, over memory that no cache holds."""
    net = Net()
    x = net.conv(net.input(batch, 64, 2000), 64, 1)
    total = ""
    for _ in range(3):
        gate = net.op("Tanh", net.conv(x, 64, 3))
        x = net.op("Add", net.conv(gate, 64, 1), x)
        skip = net.conv(gate, 128, 1)
        total = net.op("Add", total, skip) if total else skip
    return net.graph(net.conv(total, 32, 1))


def test_where_members_meet_the_loop_ends():
    net = Net()
    y = net.op("Relu", net.conv(net.conv(net.conv(net.input(2, 3, 12, 12), 8), 8), 2))
    mean = net.op("ReduceMean", y, axes=(0,), keepdims=1)
    made = net.op("Sub", y, mean)
    graph = expand(net.graph(made), OPS)
    places = members_in(graph)
    assert y in places
    assert mean not in places
    assert made not in places
    assert_alike(net, graph, looped(graph, (y,), ()))


def test_inputs_of_several_sizes_are_no_batch():
    net = Net()
    made = net.op("Add", net.input(4, 8), net.input(1, 8))
    assert batch_size(net.graph(made)) == 1


@pytest.mark.parametrize("shape", [(2, 0, 4), (0, 3, 4)])
def test_values_without_elements_have_no_members(shape: tuple[int, ...]):
    net = Net()
    rows = net.op("Reshape", net.input(*shape), shape=(shape[0], shape[1] * shape[2]), allowzero=1)
    graph = expand(net.graph(rows), OPS)
    assert rows not in members_in(graph)


@pytest.fixture
def batches() -> weft.Net:
    net, made = classifier()
    return weft.Net(net.graph(made))


def test_plans_say_what_the_loop_hands_out(batches: weft.Net) -> None:
    plan = batches.plan(small())
    (value,) = plan.constraints.images
    assert f'images=("{value}",)' in str(plan)
    assert str(batches.plan(plan=str(plan), target=small())) == str(plan)
    assert not batches.plan(small(), plain=True).constraints.images


def test_a_plan_of_another_network_is_refused(batches: weft.Net) -> None:
    plan = batches.plan(small())
    other, made = classifier(classes=7)
    graph = replace(other.graph(made), name=batches.graph.name)
    with pytest.raises(weft.UserError, match="it must be of this network"):
        weft.Net(graph).plan(plan=str(plan), target=small())
