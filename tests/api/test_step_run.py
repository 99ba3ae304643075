"""Own errors of steps: who introduces an error, and who inherits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft
from tests.compress.test_constant_channels import EXTREME
from tests.rewrite.checks import graph_of
from weft.api import step_run
from weft.api.net import Net
from weft.plan import to_program
from weft.recipes import apply
from weft.runtime.compare import Difference

DIGITS = "examples/digits/digits.onnx"


def image() -> np.ndarray:
    return np.random.default_rng(0).random((1, 1, 8, 8), np.float32)


def relative(found: list[Difference]) -> Mapping[str, float]:
    return {each.value: each.relative for each in found}


def test_a_wrong_step_is_told_from_those_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower(plan: Any, name: str) -> Any:
        program = to_program.lower(plan, name)
        (place,) = [each for each in program.weights if each.startswith("stem_0_weight")]
        changed = program.weights[place] * np.float32(1.5)
        return replace(program, weights={**program.weights, place: changed})

    monkeypatch.setattr(step_run, "lower", lower)
    run = weft.load(DIGITS).run_steps(image())
    own, accumulated = relative(run.own()), relative(run.accumulated())
    stem = next(name for name in own if name.startswith("/stem"))  # pooling may be another step
    assert own[stem] > 1e-2
    assert all(error > 1e-3 for error in accumulated.values())
    assert max(error for name, error in own.items() if name != stem) < 1e-5


@pytest.mark.parametrize("precision", ["", "bfloat16"])
def test_every_step_has_an_own_error(precision: str) -> None:
    net = weft.load(DIGITS)
    run = net.run_steps(image(), precision=precision)
    own = relative(run.own())
    assert relative(run.accumulated()).keys() <= own.keys()
    assert max(own.values()) < (1e-2 if precision else 1e-6)


def test_outputs_that_are_views_of_what_a_step_wrote() -> None:
    graph = graph_of(
        """(%x: f32[2,6]) -> (%y, %z) {
          %a: f32[2,6] = Exp(%x)
          %y: f32[6,2] = Transpose(%a) {perm=(1,0)}
          %b: f32[2,6] = Tanh(%x)
          %z: f32[4,6] = Concat(%a, %b) {axis=0}
        }"""
    )
    x = np.random.default_rng(0).random((2, 6), np.float32)
    own = relative(Net(graph).run_steps(x).own())
    assert {"y", "z"} <= own.keys()
    assert max(own.values()) < 1e-6


def test_copies_in_another_layout_do_not_hide_what_computed_them() -> None:
    graph = apply(weft.load(DIGITS).simplified().graph, "channels-last")
    convolved = [node.outputs[0] for node in graph.nodes if node.op.startswith("Conv")]
    run = Net(graph).with_outputs([*graph.outputs, *convolved]).run_steps(image())
    found = run.own()
    assert len(found) == len({each.value for each in found}) < len(run.made)
    assert relative(found)[convolved[0]] > 0


def test_steps_that_are_loops() -> None:
    graph = graph_of(
        """(%x: f32[5,1,4]) -> (%y, %h) {
          const %w: f32[1,12,4]
          const %r: f32[1,12,4]
          %y: f32[5,1,1,4], %h: f32[1,1,4] = GRU(%x, %w, %r) {hidden_size=4}
        }""",
        w=np.random.default_rng(1).normal(size=(1, 12, 4)).astype(np.float32),
        r=np.random.default_rng(2).normal(size=(1, 12, 4)).astype(np.float32),
    )
    x = np.random.default_rng(0).random((5, 1, 4), np.float32)
    own = relative(Net(graph).run_steps(x).own())
    assert {"y", "h"} <= own.keys()
    assert max(own.values()) < 1e-6


def test_layers_that_lost_channels_are_compared_as_what_they_are() -> None:
    graph = graph_of(
        f"""(%x: i8[1,2,5,5]) -> (%y) {{
          const %s: f32[] = [0.0625]
          const %n: i8[] = [0]
          const %w: i8[8,2,1,1]
          const %b: i32[8] = [3, 4, 5, 6, {EXTREME}, {EXTREME}, {EXTREME}, {EXTREME}]
          const %v: i8[2,8,1,1]
          %c: i8[1,8,5,5] = QLinearConv(%x, %s, %n, %w, %s, %n, %s, %n, %b)
          %y: i8[1,2,5,5] = QLinearConv(%c, %s, %n, %v, %s, %n, %s, %n)
        }}""",
        w=np.ones((8, 2, 1, 1), np.int8),
        v=np.ones((2, 8, 1, 1), np.int8),
    )
    net = Net(apply(graph, "integers", {"rounding": "onnx"}))
    x = np.random.default_rng(0).integers(-100, 100, (1, 2, 5, 5)).astype(np.int8)
    run = net.run_steps(x)
    assert any(4 in array.shape for array in run.made.values())
    assert max(relative(run.accumulated()).values()) == 0
    assert max(relative(run.own()).values()) == 0


def test_both_sides_are_compared_with_double_precision() -> None:
    net = weft.load(DIGITS)
    inside = "/block/Relu_1_output_0"

    def oracle(inputs: Any, values: Any) -> Mapping[str, np.ndarray]:
        names = net.with_outputs([inside, "scores"])
        right = dict(zip(names.graph.outputs, names.reference(*inputs.values()), strict=True))
        return {**right, "scores": right["scores"] * np.float32(1.01)}

    against, ours = map(relative, net.run_steps(image(), oracle=oracle).from_double())
    assert against.keys() == ours.keys() == {inside, "scores"}
    assert 5e-3 < against["scores"] < 2e-2
    assert 0 < ours["scores"] < 1e-6
    assert 0 < against[inside] < 1e-6
