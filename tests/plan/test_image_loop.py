"""Several images at once: what runs image by image, and that the results stay the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.plan.nets import Net
from tests.plan.planned import assert_planned
from weft.ir.graph import Graph
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.image_loop import image_loop, loop_values
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
