"""Tuning: what is measured, what is chosen, and that outputs stay what they were."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.plan.nets import Net
from tests.turns import a_few
from weft.codegen.flavours import flavour_named
from weft.errors import InternalError
from weft.kernels.layers import Layer, layers_of
from weft.kernels.selection import alternatives
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.plan import Plan
from weft.plan.tensors import own_outputs
from weft.runtime import tune as tuning
from weft.runtime.choices import Choices
from weft.runtime.compiler import find_compiler, machine_flags
from weft.runtime.tune import Setup, fastest, kind_of, kinds, siblings, tune
from weft.targets.find import host

pytestmark = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"),
    reason="steps are timed on x86 and aarch64",
)


def setup_of(
    threads: int = 1, *, exact: bool = False, count: int = 3
) -> tuple[Setup, list[np.ndarray]]:
    """Convolutions; of three, two are one layer."""
    net = Net()
    x = net.input(1, 8, 6, 6)
    for _ in range(count):
        x = net.op("Relu", net.conv(x, 20, 1))
    graph = own_outputs(expand(net.graph(x), OPS))
    machine, flavour = host(), flavour_named("gnu")
    compiler = find_compiler()
    flags = machine_flags(compiler, flavour, machine)

    def plan(choices: Mapping[str, str]) -> Plan:
        return weft.Net(graph).plan(machine, threads=threads, exact=exact, choices=choices)

    return Setup(plan, compiler, flavour, flags), list(net.arrays.values())


def layers(setup: Setup, choices: Mapping[str, str] | None = None) -> dict[str, Layer]:
    found = layers_of(setup.plan(choices or {}))
    return {layer.key: layer for layer in found}


def convolutions(setup: Setup) -> list[Layer]:
    return [each for each in layers(setup).values() if "Conv" in each.what]


def last_measured(layer: Layer, micros: Mapping[str, float]) -> str:
    """A choice that does not depend on times."""
    return [layer.scheme, *micros][-1]


# --- layers ---------------------------------------------------------------------------------


def test_equal_steps_are_one_layer() -> None:
    setup, _ = setup_of()
    assert 2 in [len(each.values) for each in convolutions(setup)]
    many = layers(setup)
    assert sum(len(each.values) for each in many.values()) == len(setup.plan({}).steps)


def test_choices_reach_the_plan() -> None:
    setup, _ = setup_of()
    layer = convolutions(setup)[0]
    other = next(
        each.name for each in alternatives(layer.task) if each.name not in (layer.scheme, "rows")
    )
    changed = layers(setup, {layer.key: other})[layer.key]
    assert (layer.scheme, changed.scheme) == (alternatives(layer.task)[0].name, other)


# --- what is worth measuring ----------------------------------------------------------------


def test_kinds_are_told_by_names() -> None:
    assert kind_of("tiled-14x2-tiles-ahead") == "tiled-14x2"
    assert kind_of("winograd-f4-28") == "winograd-f4"
    assert kind_of("nest") == "nest"


def test_kinds_and_siblings_are_others() -> None:
    setup, _ = setup_of()
    for layer in convolutions(setup):
        others = kinds(layer)
        assert len(others) < tuning.KINDS
        assert len({kind_of(each) for each in [*others, layer.scheme]}) == len(others) + 1
        near = siblings(layer, layer.scheme)
        assert len(near) <= tuning.SIBLINGS
        assert {kind_of(each) for each in near} <= {kind_of(layer.scheme)}
        assert layer.scheme not in near
    assert any(map(kinds, convolutions(setup)))


def test_gains_must_be_worth_it() -> None:
    setup, _ = setup_of()
    layer = replace(convolutions(setup)[0], scheme="usual")
    assert fastest(layer, {}) == "usual"
    assert fastest(layer, {"usual": 100.0, "other": 99.0}) == "usual"
    assert fastest(layer, {"usual": 100.0, "other": 90.0, "third": 95.0}) == "other"


# --- the whole ------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", a_few([1, 2], 1))
def test_a_network_is_tuned(threads: int) -> None:
    setup, inputs = setup_of(threads)
    said: list[tuple[float, str]] = []
    found = tune(setup, inputs, {}, seconds=0.2, report=lambda *each: said.append(each))
    known = layers(setup)
    assert found.choices.keys() == known.keys()
    for each in found.layers:
        names = {alternative.name for alternative in alternatives(known[each.key].task)}
        assert {*each.micros, each.usual, each.chosen} <= names
        assert each.usual == known[each.key].scheme
        assert all(micros > 0 for micros in each.micros.values())
    assert any(len(each.micros) > 2 for each in found.layers)
    assert [done for done, _ in said] == sorted(done for done, _ in said)
    if found.untuned:
        assert found.kept == (found.tuned < found.untuned)


def test_what_is_known_is_not_measured_again() -> None:
    setup, inputs = setup_of()
    known = {each.key: each.scheme for each in layers(setup).values()}
    found = tune(setup, inputs, known, seconds=0.01)
    assert found.layers == ()
    assert found.kept


def test_what_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    setup, inputs = setup_of(count=1)
    monkeypatch.setattr(tuning, "TOLERANCE", -1.0)
    monkeypatch.setattr(tuning, "fastest", last_measured)
    with pytest.raises(InternalError, match="tuned kernels compute something else"):
        tune(setup, inputs, {}, seconds=0.01)


@pytest.mark.parametrize("slower", [False, True])
def test_a_slower_network_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, slower: bool) -> None:
    def whole(variant: tuning._Variant, tick: float) -> float:
        return 2.0 if bool(variant.choices) == slower else 1.0

    setup, inputs = setup_of(count=1)
    monkeypatch.setattr(tuning, "fastest", last_measured)
    monkeypatch.setattr(tuning._Variant, "whole", whole)
    found = tune(setup, inputs, {}, seconds=0.01)
    assert found.kept == (not slower)
    assert any(each.chosen != each.usual for each in found.layers) == (not slower)
    assert (found.untuned, found.tuned) == ((1.0, 2.0) if slower else (2.0, 1.0))


def test_entries_are_for_the_database(tmp_path) -> None:
    setup, inputs = setup_of(count=1)
    found = tune(setup, inputs, {}, seconds=0.01)
    Choices(tmp_path).keep("context", found.entries(setup.compiler))
    assert Choices(tmp_path).known("context") == found.choices
