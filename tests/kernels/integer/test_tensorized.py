"""Integer contractions by instructions: the same bits as the plain loops, on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.tasks import computed, memory_of, offers, refusal, tasks_of
from tests.plan.nets import Net
from tests.turns import a_few, in_turn
from weft.codegen.composite import requantized_of
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.integer.tensorized_choice import propose
from weft.kernels.selection import alternatives, usual
from weft.kernels.task import Task
from weft.loops.nodes import Cast, Instruct, Store
from weft.loops.statements import walk_stmts
from weft.loops.walk import reduces
from weft.targets.find import target

Made = tuple[Net, str]
FEATURES = ("dsp", "dsp vfp", "mve", "dotprod", "avx512_vnni")


def constant(net: Net, *shape: int, dtype: DType, low: int, high: int) -> str:
    values = net.random.integers(low, high, shape, dtype.numpy, endpoint=True)
    return net.builder.constant(values, "w")


def number(net: Net, value: float, dtype: DType) -> str:
    return net.builder.constant(np.asarray(value, dtype.numpy), "n")


def image(net: Net, channels: int, size: tuple[int, int], kind: DType, channels_last: bool) -> str:
    """An input of a convolution; its channels may lie side by side."""
    if not channels_last:
        return net.input(1, channels, *size, dtype=kind)
    return net.op("Transpose", net.input(1, *size, channels, dtype=kind), perm=(0, 3, 1, 2))


def convolution(
    channels: int,
    size: tuple[int, int],
    kernel: int,
    filters: int = 16,
    *,
    kind: DType = DType.I8,
    weight: DType = DType.I8,
    weight_zero: int = 0,
    stride: int = 1,
    bias: bool = True,
    scale: float = 0.5,
    channels_last: bool = False,
) -> Made:
    """A QLinearConv with borders, extreme weights, and zero points."""
    net = Net(3)
    x = image(net, channels, size, kind, channels_last)
    low, high = weight.limits
    if weight is DType.U8:
        low, high = weight_zero - 100, weight_zero + 100
    zero = 83 if kind is DType.I8 else 3
    scales = np.linspace(0.01, 0.02, filters, dtype=np.float32)
    inputs = [
        x,
        number(net, scale, DType.F32),
        number(net, zero, kind),
        constant(net, filters, channels, kernel, kernel, dtype=weight, low=low, high=high),
        net.builder.constant(scales, "s"),
        number(net, weight_zero, weight),
        number(net, 9.0, DType.F32),
        number(net, -7 if kind is DType.I8 else 100, kind),
    ]
    if bias:
        inputs.append(constant(net, filters, dtype=DType.I32, low=-9000, high=9000))
    pads = (kernel // 2,) * 4
    sizes = (kernel, kernel)
    y = net.op("QLinearConv", *inputs, kernel=sizes, pads=pads, strides=(stride, stride))
    return net, y


def product(rows: int, depth: int, columns: int) -> Made:
    """A MatMulInteger whose zero points are not zero."""
    net = Net(5)
    x = net.input(rows, depth, dtype=DType.U8)
    w = constant(net, depth, columns, dtype=DType.I8, low=-128, high=127)
    return net, net.op("MatMulInteger", x, w, number(net, 200, DType.U8))


CASES: dict[str, Callable[[], Made]] = {
    "pointwise": lambda: convolution(12, (3, 5), 1),
    "borders": lambda: convolution(3, (5, 4), 3),
    "strided": lambda: convolution(2, (7, 7), 3, stride=2),
    "one channel": lambda: convolution(1, (6, 5), 3),
    "odd depth": lambda: convolution(5, (1, 3), 1),
    "unsigned": lambda: convolution(4, (3, 3), 3, kind=DType.U8),
    "unsigned weights": lambda: convolution(
        4, (3, 3), 1, kind=DType.U8, weight=DType.U8, weight_zero=128
    ),
    "no bias": lambda: convolution(4, (3, 7), 1, bias=False),
    "large scale": lambda: convolution(4, (3, 3), 1, scale=1e9),
    "rows": lambda: product(5, 33, 32),
    "one row": lambda: product(1, 20, 16),
}


def task_of(made: Made, feature: str) -> Task:
    """The task with a sum, for a machine with one feature."""
    tasks = tasks_of(*made, machine="cortex-m4")
    (task,) = [each for each in tasks if reduces(each.compute.value)]
    return replace(task, target=replace(task.target, features=tuple(feature.split())))


def extreme(task: Task) -> dict[str, np.ndarray]:
    """Random inputs over the whole range of their type."""
    rng = np.random.default_rng(7)
    memory = memory_of(task)
    for value, buffer in zip(task.values, task.inputs, strict=True):
        if buffer.name not in task.constants:
            low, high = buffer.dtype.limits
            memory[value] = rng.integers(
                low, high, memory[value].shape, buffer.dtype.numpy, endpoint=True
            )
    return memory


@pytest.mark.parametrize(("case", "feature"), in_turn([(case,) for case in CASES], FEATURES))
def test_same_bits_as_plain_loops(case: str, feature: str) -> None:
    task = task_of(CASES[case](), feature)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    offered = offers(propose, task)
    assert offered or feature in ("dotprod", "mve"), refusal(propose, task)
    for each in offered:
        made = each.make()
        assert made is not None
        assert any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


def halves(depth: int, size: tuple[int, int], kernel: int, sums: DType) -> Made:
    """A convolution of 16-bit integers, requantized."""
    net = Net(4)
    x = image(net, depth, size, DType.I16, channels_last=True)
    w = constant(net, 16, depth, kernel, kernel, dtype=DType.I8, low=-127, high=127)
    pads, sizes = (kernel // 2,) * 4, (kernel, kernel)
    y = net.op("ConvInteger16", x, w, kernel=sizes, pads=pads, sums=sums)
    bias = constant(net, 1, 16, 1, 1, dtype=sums, low=-9000, high=9000)
    multipliers = constant(net, 16, dtype=DType.I32, low=1 << 14, high=(1 << 15) - 1)
    shifts = constant(net, 16, dtype=DType.I32, low=20, high=23)
    zero = number(net, 0, DType.I16)
    return net, net.op("RequantizeWide", net.op("Add", y, bias), multipliers, shifts, zero, axis=1)


HALVES = {
    "pointwise": lambda: halves(12, (3, 5), 1, DType.I32),
    "borders": lambda: halves(3, (5, 4), 3, DType.I32),
    "odd depth": lambda: halves(5, (1, 3), 1, DType.I32),
    "wide": lambda: halves(7, (3, 4), 3, DType.I64),
    "wide rows": lambda: halves(530, (1, 1), 1, DType.I64),
}


@pytest.mark.parametrize("feature", ["dsp", "sse2", "avx2", "avx512_vnni"])
@pytest.mark.parametrize("case", HALVES)
def test_the_same_of_16_bits(case: str, feature: str) -> None:
    task = task_of(HALVES[case](), feature)
    if "wide" in case and feature != "dsp":
        assert refusal(propose, task) == "no instruction of the target takes its types and sizes"
        return
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    offered = offers(propose, task)
    names = {each.name.split("-")[0] for each in offered}
    assert feature != "dsp" or names == {"smlald" if "wide" in case else "smlad"}
    for each in offered:
        made = each.make()
        assert made is not None
        assert any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


def fixed(shifts: tuple[int, int]) -> Made:
    """A convolution of bytes, requantized in fixed point with a shift for each channel."""
    net = Net(6)
    x = image(net, 4, (1, 3), DType.I8, channels_last=True)
    w = constant(net, 32, 4, 1, 1, dtype=DType.I8, low=-127, high=127)
    y = net.op("ConvInteger", x, w, number(net, -5, DType.I8))
    bias = constant(net, 1, 32, 1, 1, dtype=DType.I32, low=-9000, high=9000)
    multipliers = constant(net, 32, dtype=DType.I32, low=1 << 30, high=(1 << 31) - 1)
    by = constant(net, 32, dtype=DType.I32, low=shifts[0], high=shifts[1])
    sums, zero = net.op("Add", y, bias), number(net, 9, DType.I8)
    return net, net.op("Requantize", sums, multipliers, by, zero, axis=1)


@pytest.mark.parametrize("shifts", a_few([(each,) for each in [(-9, -5), (-2, 2), (0, 1)]], 1))
@pytest.mark.parametrize("name", ["zen4", "x86-avx512", "x86-avx2", "x86-sse2", "aarch64-neon"])
def test_vectors_are_requantized_by_what_targets_have_for_it(
    name: str, shifts: tuple[int, int]
) -> None:
    task = replace(task_of(fixed(shifts), "dsp"), target=target(name))
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    implementations = [made for each in alternatives(task) if (made := each.make()) is not None]
    assert implementations
    for made in implementations:
        np.testing.assert_array_equal(computed(task, made, memory), wanted)
        written = [
            stmt.value
            for stmt in walk_stmts(made.kernel.body)
            if isinstance(stmt, Store) and stmt.buffer == task.output.name
        ]
        assert written
        assert all(isinstance(each, Cast) and requantized_of(each) for each in written)


@pytest.mark.parametrize("feature", FEATURES)
def test_it_is_the_usual_choice(feature: str) -> None:
    task = task_of(convolution(64, (5, 5), 1, 64), feature)
    if offers(propose, task):
        assert usual(task).sums.loops == "tensorized"


@pytest.mark.parametrize(("scale", "used"), [(0.5, True), (1e9, False)])
def test_rounds_by_an_instruction_where_the_sum_fits(scale: float, used: bool) -> None:
    task = task_of(convolution(4, (3, 3), 1, scale=scale), "dsp vfp")
    made = offers(propose, task)[0].make()
    assert made is not None
    names = {each.name for each in walk_stmts(made.kernel.body) if isinstance(each, Instruct)}
    assert ("vcvtr" in names) is used


def test_refusals() -> None:
    task = task_of(convolution(4, (3, 3), 1), "dsp")
    plain = replace(task, target=target("generic"))
    assert refusal(propose, plain) == "generic has no instructions for it"
    odd = task_of(convolution(4, (3, 3), 1, 20), "avx512_vnni")
    assert refusal(propose, odd) == "no instruction of the target takes its types and sizes"
    float_task = task_of(_float(), "dsp")
    assert refusal(propose, float_task) == "what it sums is not made of bytes or i16"


def _float() -> Made:
    net = Net()
    return net, net.conv(net.input(1, 3, 4, 4), 8)
