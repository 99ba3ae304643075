"""Who could compute a layer: alternatives as the table has them, and the plan's choice."""

from __future__ import annotations

import math

import pytest

from weft.api import Net, load
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType
from weft.kernels.examples import EXAMPLES, example_graph, op_named, parse_attributes, typical
from weft.kernels.explain import layers_of
from weft.kernels.key import layer_key
from weft.ops.table import OPS
from weft.plan.choice import Measured, Reason
from weft.plan.report import report


@pytest.fixture(scope="module")
def net(digits) -> Net:
    return load(digits)


def test_layers_are_those_of_the_plan(net):
    layers = net.implementations("x86-avx512", exact=True)  # no step has several groups
    rows = report(net.plan("x86-avx512", exact=True)).rows
    assert [(each.nodes, each.scheme) for each in layers] == [
        (row.nodes, row.scheme) for row in rows
    ]
    for layer in layers:
        chosen = [each for answer in layer.answers for each in answer.alternatives if each.chosen]
        assert [each.name for each in chosen] == [layer.scheme]
        assert chosen[0].applies


def test_the_plan_knows_why_a_step_has_its_kernel(net):
    plan = net.plan("x86-avx512")
    at, step = len(plan.steps) - 1, plan.steps[-1]
    (layer,) = [each for each in layers_of(plan) if each.name == step.writes[0]]
    choice = step.implementation.choice
    assert choice.reason is Reason.CHEAPEST
    assert choice.answers() == layer.answers
    usual, key = choice.name, layer_key(choice.task)
    other = "nest"
    asked = net.plan("x86-avx512", choices={key: other}).steps[at].implementation
    assert (asked.scheme, asked.choice.reason) == (other, Reason.ASKED)
    measured = Measured({key: other}, {key: {other: 1.5, usual: 2.0}})
    found = net.plan("x86-avx512", choices=measured).steps[at].implementation.choice
    assert found.reason is Reason.MEASURED
    offered = [each for answer in found.answers() for each in answer.alternatives]
    assert {e.name: e.micros for e in offered if e.micros} == {other: 1.5, usual: 2.0}
    assert {each.name for each in offered if each.chosen} == {other}


def test_without_estimates_the_order_of_the_generators_decides():
    def reason(op: str) -> Reason | None:
        (step,) = Net(example_graph(OPS[op])).plan("generic").steps
        return step.reason

    assert reason("Relu") is Reason.CHEAPEST
    assert reason("Softmax") is Reason.FIRST


def test_a_node_of_the_model_is_found_in_what_it_became(net):
    (layer,) = net.implementations("x86-avx2", node="/stem/stem.1/BatchNormalization")
    assert layer.nodes == ("/stem/stem.0/Conv",)
    costs = [
        math.inf if each.cycles is None else each.cycles
        for answer in layer.answers
        for each in answer.alternatives
    ]
    (chosen,) = [e for answer in layer.answers for e in answer.alternatives if e.chosen]
    assert chosen.cycles == min(costs)
    assert {each.generator: bool(each.refusal) for each in layer.answers} == {
        "winograd": False, "attention": True, "attention-pairs": True, "interleaved": True,
        "complex": True, "map": True, "separable": True,
        "packed": True, "rows-in-place": True, "gates": True, "strassen": True, "stretches": True,
        "tensorized": True, "byte-rows": True, "byte-dual": True,
        "byte-depth": True, "byte-planes": True, "byte-winograd": True, "byte-helium": True,
        "byte-depth-helium": True, "byte-pool": True, "depthwise": True, "byte-columns": True,
        "byte-points": True, "pairs": True, "tiles": True,
        "tiled": False, "rows": False, "nest": False,
    }  # fmt: skip


def test_no_such_node(net):
    with pytest.raises(UserError) as error:
        net.implementations(node="/stem/stem.0/Con")
    assert str(error.value) == (
        "a layer is named by one of its nodes; got /stem/stem.0/Con. "
        "Did you mean /stem/stem.0/Conv?"
    )


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_can_be_computed(name):
    layers = Net(example_graph(OPS[name])).implementations("x86-avx2")
    assert layers
    assert all(each.scheme for each in layers)


def test_an_op_without_an_example_has_inputs_of_one_shape():
    assert typical(OPS["Where"]).shapes == ((1, 64, 56, 56),) * 3
    assert len(typical(OPS["Max"]).shapes) == 2


def test_types_take_the_place_of_the_example():
    types = [TensorType(DType.F32, shape) for shape in ((1, 2, 5, 5), (3, 2, 3, 3))]
    graph = example_graph(OPS["Conv"], types=types, attributes={"strides": (2, 2)})
    assert [str(graph.types[each]) for each in (*graph.inputs, *graph.outputs)] == [
        "f32[1,2,5,5]",
        "f32[1,3,2,2]",
    ]
    assert len(graph.constants) == 1


def test_attributes_as_text():
    assert parse_attributes(["a=1", "b=2,3", "c=(1, 2)", "d=same", "e=0.5"]) == {
        "a": 1, "b": (2, 3), "c": (1, 2), "d": "same", "e": 0.5,
    }  # fmt: skip
    with pytest.raises(UserError) as error:
        parse_attributes(["strides"])
    assert str(error.value) == "attributes must be KEY=VALUE; got strides"


def test_ops_by_name():
    assert op_named("maxpool", OPS).name == "MaxPool"
    with pytest.raises(UserError) as error:
        op_named("Clp", OPS)
    assert str(error.value) == ("expected an op or a model file; got Clp. Did you mean Clip?")
