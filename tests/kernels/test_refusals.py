"""Refusals: a generator says why exactly where it offers nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.shapes import FAMILIES, Shapes, nets
from tests.kernels.tasks import all_tasks_of
from tests.kernels.test_sums import NETS, tasks
from tests.plan.nets import Net
from weft.kernels.generators import GENERATORS
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.targets.target import Vectors


def refusals(task: Task) -> dict[str, str]:
    offered = {name: each.propose(task) for name, each in GENERATORS.builtin.items()}
    return {name: str(each) if isinstance(each, Refusal) else "" for name, each in offered.items()}


def check(task: Task) -> None:
    for name, generator in GENERATORS.builtin.items():
        offered = generator.propose(task)
        if isinstance(offered, Refusal):
            assert offered.reason, name
        else:
            assert any(each.applies() for each in offered), name


def test_every_generator_is_described():
    assert all(each.name == name for name, each in GENERATORS.items())
    assert all(each.doc.endswith(".") and each.needs for each in GENERATORS.values())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_who_refuses_offers_nothing(family: Callable[[Shapes], str], data: st.DataObject):
    net, value = data.draw(nets(family))
    machine = data.draw(st.sampled_from(["generic", "x86-sse2", "x86-avx512"]))
    exact = data.draw(st.booleans())
    for task in all_tasks_of(net, value, machine=machine):
        check(replace(task, exact=exact))


@pytest.mark.parametrize("name", NETS)
def test_known_kinds(name: str):
    for task in tasks(NETS[name]()):
        check(task)


def convolution(size: int = 3, stride: int = 1, channels: int = 16) -> Task:
    net = Net()
    x = net.op("Relu", net.input(1, 16, 12, 12))
    y = net.conv(x, channels, size, pad=size // 2, stride=stride)
    found = all_tasks_of(net, net.op("Relu", y), machine="x86-avx512")
    return found[[bool(task.constants) for task in found].index(True)]


@pytest.mark.parametrize(
    ("task", "generator", "reason"),
    [
        (convolution(), "winograd", ""),
        (
            convolution(1),
            "winograd",
            "it is no convolution of an image by a square window, or one along one axis, "
            "over all channels of a group",
        ),
        (
            replace(convolution(), exact=True),
            "winograd",
            "it rounds more than the definition, and exact kernels were asked for",
        ),
        (
            convolution(3, 3),
            "winograd",
            "nothing is saved for a window of 3x3 by strides of 3",
        ),
        (
            convolution(),
            "attention",
            "it is no sum of values weighted by the softmax of products",
        ),
        (convolution(), "map", "something is reduced"),
        (tasks(NETS["softmax"]())[0], "tiled", "it has 2 reductions"),
        (tasks(NETS["softmax"]())[0], "rows", ""),
        (
            tasks(NETS["attention"]())[-1],
            "rows",
            "its reductions do not run over a common row",
        ),
    ],
)
def test_reasons(task: Task, generator: str, reason: str):
    assert refusals(task)[generator] == reason


def test_without_vectors_or_caches():
    task = convolution()
    bare = replace(task, target=replace(task.target, memories=(), vectors=Vectors(0, 32)))
    found = refusals(bare)
    assert found["winograd"] == (
        "the target has no caches, and its memory is short for the transforms"
    )
    assert found["nest"] == ""
    net = Net()
    (plain,) = all_tasks_of(net, net.op("Relu", net.input(3, 5)), machine="generic")
    scalar = replace(plain, target=replace(plain.target, vectors=Vectors(0, 16)))
    assert refusals(scalar)["map"] == "the target has no vectors for its elements"
