"""Layers that differ in weights and names only share one kernel, which is generated once."""

import numpy as np

import weft
from tests.counted import lines_run
from weft.api import Net
from weft.kernels.key import layer_key
from weft.kernels.selection import TaskChoice
from weft.plan.implementation import Implementation
from weft.plan.plan import Plan
from weft.runtime.build import build
from weft.runtime.cache import Cache


def convolutions(count: int, channels: int = 16) -> Net:
    first = values = weft.input("x", f"f32[1,{channels},12,12]")
    source = np.random.default_rng(0)
    for _ in range(count):
        filter = source.standard_normal((channels, channels, 3, 3)).astype(np.float32)
        values = weft.ops.relu(weft.ops.conv(values, weft.constant(filter), pads=(1, 1, 1, 1)))
    return weft.net([first], [values])


def products(*coded: bool) -> Net:
    """Products one after another; weights of some are 4-bit codes times a scale."""
    first = values = weft.input("x", "f32[1,64]")
    source = np.random.default_rng(0)
    for each in coded:
        matrix = source.standard_normal((64, 64)).astype(np.float32)
        if each:
            codes = source.integers(-8, 8, matrix.shape).astype(np.float32)
            matrix = codes * source.uniform(0.01, 0.02, 64).astype(np.float32)
        values = weft.ops.relu(weft.ops.matmul(values, weft.constant(matrix)))
    return weft.net([first], [values])


def implementations(plan: Plan) -> list[Implementation]:
    return [step.implementation for step in plan.steps if step.implementation is not None]


def choice_of(made: Implementation) -> TaskChoice:
    assert isinstance(made.choice, TaskChoice)
    return made.choice


def test_equal_layers_cost_little_more_than_one():
    few, many = convolutions(2), convolutions(8)
    least = lines_run(lambda: few.plan("x86-avx512"))
    assert lines_run(lambda: many.plan("x86-avx512")) < 2 * least


def test_equal_layers_share_loops_but_not_operands():
    plan = convolutions(4).plan("x86-avx512")
    inner = implementations(plan)[1:3]  # the last one writes the output, the first reads the input
    assert inner[0].kernel.body is inner[1].kernel.body
    values = [[operand.value for operand in each.operands] for each in inner]
    assert values == [list(step.reads) for step in plan.steps[1:3]]
    assert choice_of(inner[0]).answers() == choice_of(inner[1]).answers()
    assert [choice_of(each).task.values for each in inner] == [tuple(each) for each in values]


def test_layers_share_a_kernel_that_weights_decide_for_where_they_decide_the_same():
    net = products(True, False, True, False)
    key = layer_key(choice_of(implementations(net.plan("x86-avx512"))[0]).task)
    chosen = {key: "packed-quantized-1x4"}
    made = implementations(net.plan("x86-avx512", choices=chosen))
    coded, plain, again, last = (each.kernel.body for each in made)
    assert [each.scheme == "packed-quantized-1x4" for each in made] == [True, False, True, False]
    assert coded is again is not plain
    assert plain is last
    stored = [operand.value for operand in made[2].operands]
    assert set(stored).isdisjoint(operand.value for operand in made[0].operands)
    x = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    (wanted,) = net.reference({"x": x})
    library = build(net.program(plan=net.plan("generic", encoding="quantized")), cache=Cache())
    np.testing.assert_allclose(library(x)[0], wanted, rtol=1e-3, atol=1e-4)
