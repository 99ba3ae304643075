"""oneDNN's kernels in the place of Weft's own: what they compute, and where they apply."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from tests.kernels.tasks import tasks_of
from tests.plan.nets import Net
from weft.api import Net as Network
from weft.errors import UserError
from weft.kernels.generators import GENERATORS, checked_libraries
from weft.kernels.key import layer_key
from weft.kernels.layers import layers_of
from weft.kernels.refusal import Refusal
from weft.kernels.selection import alternatives, usual
from weft.kernels.task import Task
from weft.plan.implementation import Blocking
from weft.plan.report import report
from weft.runtime.build import build
from weft.runtime.library import Library
from weft.targets.find import host
from weft_onednn.calls import GENERATOR
from weft_onednn.library import VARIABLE, layout_name, onednn
from weft_onednn.shape import Recognized, recognize

MINE = ("onednn",)


def installed() -> bool:
    try:
        onednn()
    except UserError:
        return False
    return True


needs_onednn = pytest.mark.skipif(not installed(), reason="oneDNN is not installed")


def refusal(task: Task) -> str:
    """Why the generator offers nothing; nothing if it does."""
    offered = GENERATOR.propose(task)
    return offered.reason if isinstance(offered, Refusal) else ""


def relu(net: Net, value: str) -> str:
    return net.op("Relu", value)


def clipped(net: Net, value: str) -> str:
    return net.op("Clip", value, min=-0.25, max=0.5)


Layer: TypeAlias = Callable[[Net, str], str]


def chain(*layers: Layer, size: tuple[int, ...]) -> Callable[[Net], str]:
    """Layers behind a convolution that makes sixteen channels, in Weft's own layout."""

    def made(net: Net) -> str:
        value = net.conv(net.input(*size), 16, 1)
        for layer in layers:
            value = layer(net, value)
        return value

    return made


def conv(channels: int, kernel: int | tuple[int, ...] = 3, **options: int) -> Layer:
    return lambda net, value: net.conv(value, channels, kernel, **options)


def added(channels: int) -> Layer:
    """Two convolutions of one value, their sum, and a ReLU."""

    def made(net: Net, value: str) -> str:
        left = net.conv(value, channels, 1)
        right = net.conv(value, channels, 3)
        return net.op("Relu", net.op("Add", left, right))

    return made


def no_bias(channels: int) -> Layer:
    def made(net: Net, value: str) -> str:
        weight = net.constant(channels, net.shape(value)[1], 3, 3, scale=0.1)
        return net.op("Conv", value, weight, kernel=(3, 3), pads=(1,) * 4)

    return made


# Networks, and how many of their layers oneDNN computes.
NETS: dict[str, tuple[Callable[[Net], str], int]] = {
    "window": (chain(conv(32), relu, conv(16), size=(1, 16, 9, 11)), 2),
    "point": (chain(conv(48, 1), relu, conv(24, 1), clipped, size=(1, 40, 7, 5)), 2),
    "strides": (chain(conv(32, stride=2), conv(64, 1, stride=2), size=(1, 16, 15, 18)), 2),
    "dilated": (chain(conv(32, dilation=2), relu, size=(1, 16, 12, 13)), 1),
    "no padding": (chain(conv(32, 5, pad=0), conv(16, 3, pad=0), size=(1, 16, 12, 9)), 2),
    "much padding": (chain(conv(32, 3, pad=2), size=(1, 16, 5, 6)), 1),
    "flat window": (chain(conv(32, (1, 5)), conv(16, (7, 1)), size=(1, 16, 9, 11)), 2),
    "odd channels": (chain(conv(37), relu, conv(19, 1), size=(1, 23, 9, 11)), 2),
    "one row": (chain(conv(32, (1, 3)), size=(1, 16, 1, 11)), 1),
    "images": (chain(conv(32), relu, conv(16, 1), size=(3, 16, 9, 11)), 2),
    "residual": (chain(conv(32, 1), added(32), conv(16), size=(1, 16, 9, 11)), 4),
    "no bias": (chain(no_bias(32), relu, size=(1, 16, 9, 11)), 1),
    "one axis": (chain(conv(32, 3), conv(16, 1), size=(1, 16, 21)), 2),
}


def dense(features: int) -> Layer:
    return lambda net, value: net.dense(value, features)


def products(*layers: Layer, size: tuple[int, ...]) -> Callable[[Net], str]:
    def made(net: Net) -> str:
        value = net.input(*size)
        for layer in layers:
            value = layer(net, value)
        return value

    return made


def residual_product(net: Net, value: str) -> str:
    weight = net.constant(net.shape(value)[1], net.shape(value)[1], scale=0.1)
    return net.op("Relu", net.op("Add", net.op("MatMul", value, weight), value))


PRODUCTS: dict[str, tuple[Callable[[Net], str], int]] = {
    "pixels": (chain(conv(48, 1), relu, conv(24, 1), clipped, size=(1, 40, 7, 5)), 3),
    "many channels": (chain(conv(256, 1), conv(16, 1), size=(1, 16, 6, 6)), 3),
    "rows": (products(dense(48), relu, dense(23), size=(13, 17)), 2),
    "one row": (products(dense(48), relu, dense(23), size=(1, 64)), 2),
    "residual": (products(dense(32), residual_product, size=(9, 17)), 2),
}


def called(net: Net, value: str, scheme: str = "onednn") -> tuple[Library, int]:
    """A network with oneDNN wherever it can be, and in how many layers that is."""
    network, machine = Network(net.graph(value)), host()
    plan = network.plan(machine, libraries=MINE)
    layers = layers_of(plan)
    choices = {each.key: scheme for each in layers if scheme in names(each.task)}
    plan = network.plan(machine, libraries=MINE, choices=choices)
    schemes = [row.scheme for row in report(plan).rows]
    library = build(network.program(machine, libraries=MINE, choices=choices))
    return library, schemes.count(scheme)


def names(task: Task) -> set[str]:
    return {each.name for each in alternatives(task)}


CASES = [("onednn", *case) for case in NETS.items()]
CASES += [("onednn-product", *case) for case in PRODUCTS.items()]
FEW = [
    pytest.param(*case, marks=pytest.mark.thorough if place % 3 else ())
    for place, case in enumerate(CASES)
]
"""`make test` compiles every third."""


@needs_onednn
@pytest.mark.parametrize(("scheme", "name", "case"), FEW)
def test_it_computes_what_the_definitions_say(
    scheme: str, name: str, case: tuple[Callable[[Net], str], int]
) -> None:
    net = Net()
    make, wanted = case
    value = make(net)
    library, count = called(net, value, scheme)
    assert count == wanted
    (found,) = library(*net.arrays.values())
    (reference,) = Network(net.graph(value)).reference(*net.arrays.values())
    np.testing.assert_allclose(found, reference, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_any_threads_may_call_it_at_once() -> None:
    net = Net()
    library, _ = called(net, NETS["residual"][0](net))
    (wanted,) = library(*net.arrays.values())
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: library(*net.arrays.values())[0], range(64)))
    assert all((each == wanted).all() for each in found)


@needs_onednn
def test_it_is_only_taken_by_name() -> None:
    net = Net()
    network = Network(net.graph(NETS["window"][0](net)))
    rows = report(network.plan(libraries=MINE)).rows
    assert [row.scheme for row in rows] == [row.scheme for row in report(network.plan()).rows]
    layers = layers_of(network.plan(libraries=MINE))
    task = next(layer.task for layer in layers if not refusal(layer.task))
    assert {"onednn", "onednn-product"} & names(task)
    assert usual(task).name == usual(replace(task, libraries=())).name


@pytest.mark.thorough
@needs_onednn
def test_it_is_measured_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    net = Net()
    network = Network(net.graph(NETS["window"][0](net)))
    found = network.tune(threads=1, seconds=0.2, libraries=MINE)
    assert any("onednn" in each.micros for each in found.layers)
    again = network.compile(threads=1, tune="cached", libraries=MINE)
    (reference,) = network.reference(*net.arrays.values())
    np.testing.assert_allclose(again(*net.arrays.values()), reference, rtol=1e-4, atol=1e-4)


@needs_onednn
def test_layers_say_who_could_compute_them() -> None:
    net = Net()
    network = Network(net.graph(net.op("Tanh", NETS["point"][0](net))))
    layers = network.implementations(libraries=MINE)
    answers = [layer.answers[-1] for layer in layers if layer.answers]
    assert {each.generator for each in answers} == {"onednn"}
    refusals = {each.refusal for each in answers}
    assert "" in refusals
    assert any("Tanh" in layer.ops and layer.answers[-1].refusal for layer in layers)


def test_exact_kernels_keep_what_is_no_number() -> None:
    net = Net()
    y = net.op("Relu", net.conv(net.input(1, 16, 9, 11), 32))
    (task, *_) = tasks_of(net, y, machine="x86-avx512")
    assert refusal(replace(task, exact=True)).startswith("oneDNN's ReLU and clip make numbers")


# --- recognised, which needs no library -----------------------------------------------------


def task_of(machine: str = "x86-avx512", **options: int) -> Task:
    net = Net()
    made = net.conv(net.input(1, 16, 9, 11), 32, **options)
    return tasks_of(net, made, machine=machine)[0]


def test_a_convolution_is_recognised_with_all_that_it_has() -> None:
    found = recognize(task_of(kernel=3, stride=2, dilation=2, pad=1))
    assert isinstance(found, Recognized)
    asked = found.asked
    assert asked.source.dims == (1, 16, 9, 11)
    assert asked.filter == (32, 16, 3, 3)
    assert asked.target.dims == (1, 32, 4, 5)
    assert (asked.strides, asked.dilations, asked.before) == ((2, 2), (1, 1), (1, 1))
    assert asked.behind == (1, 1)
    assert asked.bias
    assert asked.after == ()


def refusals(net: Net, value: str) -> set[str]:
    found = [recognize(task) for task in tasks_of(net, value, machine="x86-avx512")]
    return {each.reason for each in found if isinstance(each, Refusal)}


def grouped(net: Net, x: str) -> str:
    return net.conv(x, 32, groups=4)


def curved(net: Net, x: str) -> str:
    return net.op("Tanh", net.conv(x, 32))


def computed_filter(net: Net, x: str) -> str:
    return net.op("Conv", x, net.op("Tanh", net.input(32, 16, 3, 3)), kernel=(3, 3))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (grouped, "it is no convolution over one dimension of channels"),
        (curved, "what follows the sum is more than biases, residuals, a ReLU or a clip"),
        (
            computed_filter,
            "it is no sum of products with constant filters, output channels fastest",
        ),
    ],
)
def test_it_says_why_not(make: Layer, reason: str) -> None:
    net = Net()
    assert reason in refusals(net, make(net, net.input(1, 16, 9, 11)))


def test_it_leaves_several_threads_to_weft() -> None:
    assert refusal(replace(task_of(), threads=2)) == "it is only asked for what runs on one thread"


def test_layers_that_may_call_it_are_measured_apart() -> None:
    task = task_of()
    assert layer_key(task) != layer_key(replace(task, libraries=MINE))


def test_filters_are_laid_out_in_blocks() -> None:
    weight = np.arange(5 * 3 * 2, dtype=np.float32).reshape(5, 3, 2)
    made = Blocking((5, 3, 2), (0, 1, 2), (5, 3, 1, 2), (0, 1, 2, 3), ((1, 2), (0, 4)))
    found = made.apply(weight)
    assert found.shape == (2, 2, 1, 2, 2, 4)
    for (out, into, column), value in np.ndenumerate(weight):
        assert found[out // 4, into // 2, 0, column, into % 2, out % 4] == value
    assert found.sum() == weight.sum()
    assert layout_name(made.order, made.blocks) == "ABcd2b4a"
    assert layout_name((0, 2, 3, 1), ((0, 16),)) == "Acdb16a"


def test_libraries_are_known_and_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="Did you mean onednn") as error:
        checked_libraries(["onedn"])
    assert "a library must be one that an installed plugin calls: onednn" in str(error.value)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(UserError, match="oneDNN must be installed") as error:
        checked_libraries(MINE)
    assert "pip install weft-onednn" in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_the_plugin_is_a_generator_like_any_other() -> None:
    assert GENERATORS["onednn"] is GENERATOR
    assert GENERATOR.doc.endswith(".")
    assert GENERATOR.needs


def test_plans_that_name_it_build_again(tmp_path: Path) -> None:
    pytest.importorskip("weft_onednn")
    if not installed():
        pytest.skip("oneDNN is not installed")
    net = Net()
    network = Network(net.graph(NETS["point"][0](net)))
    machine = host()
    layers = layers_of(network.plan(machine, libraries=MINE))
    choices = {each.key: "onednn" for each in layers if "onednn" in names(each.task)}
    plan = network.plan(machine, libraries=MINE, choices=choices)
    text = str(plan)
    assert " onednn" in text
    again = network.plan_from(text)
    assert [step.scheme for step in again.steps] == [step.scheme for step in plan.steps]
