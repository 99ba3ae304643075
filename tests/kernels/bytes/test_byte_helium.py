"""Convolutions of bytes for Helium: the same bits as the plain loops, in all shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.kernels.bytes.test_byte_add import CASES as ADD_CASES
from tests.kernels.bytes.test_byte_dual import CASES as DUAL_CASES
from tests.kernels.bytes.test_byte_dual import last, rounded
from tests.kernels.integer.test_tensorized import (
    Made,
    constant,
    convolution,
    extreme,
    image,
    number,
    task_of,
)
from tests.kernels.tasks import computed, offers, refusal
from tests.plan.nets import Net
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.helium.choice import propose
from weft.kernels.selection import usual
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts

ALL = "dsp vfp mve"
DILATED = "integers, dilated"
CASES: dict[str, Callable[[], Made]] = {
    **{name: made for name, made in DUAL_CASES.items() if name != DILATED},
    "channels not of fours": lambda: last(3, (4, 7), 3, 6),
    "one position": lambda: last(19, (1, 1), 1, 11),
    "a sequence": lambda: line(9),
    "several strips": lambda: last(24, (17, 20), 3, 4),
}


@pytest.mark.parametrize("features", [ALL, "mve"])
@pytest.mark.parametrize("case", CASES)
def test_same_bits_as_plain_loops(case: str, features: str) -> None:
    task = task_of(CASES[case](), features)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    offered = offers(propose, task)
    assert offered, refusal(propose, task)
    for each in offered:
        made = each.make()
        assert made is not None
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize(
    ("case", "family"),
    [
        ("pointwise", "mve_f32"),
        ("integers", "mve_i32"),
        ("integers, large shifts", "mve_i32"),
        ("integers, small shifts", "mve_sums"),
    ],
)
def test_requantizes_by_the_instruction_where_that_is_exact(case: str, family: str) -> None:
    made = offers(propose, task_of(CASES[case](), ALL))[0].make()
    assert made is not None
    names = {
        each.name[:8].rstrip("_")
        for each in walk_stmts(made.kernel.body)
        if isinstance(each, Instruct)
    }
    assert names & {"mve_f32", "mve_i32", "mve_sums"} == {family}


def line(length: int, channels: int = 5) -> Made:
    """A ConvInteger of a sequence, with borders."""
    net = Net(3)
    x = net.op("Transpose", net.input(1, length, channels, dtype=DType.I8), perm=(0, 2, 1))
    w = constant(net, 6, channels, 3, dtype=DType.I8, low=-127, high=127)
    zero = number(net, 9, DType.I8)
    return net, net.op("ConvInteger", x, w, zero, kernel=(3,), pads=(1, 1), strides=(2,))


def residual(*, bound: bool = True, last_scale: bool = False) -> Made:
    """A sum in floats of a QLinearConv and an image, requantized; or that as floats."""
    net, y = last(16, (3, 5), 3, 8)
    x = image(net, 8, (3, 5), DType.I8, channels_last=True)
    scales = (number(net, value, DType.F32) for value in (9.0, 0.7))
    zeros = (number(net, value, DType.I8) for value in (-7, 20))
    floats = [
        net.op("DequantizeLinear", value, scale, zero)
        for value, scale, zero in zip((y, x), scales, zeros, strict=True)
    ]
    total = net.op("Add", *floats)
    total = net.op("Relu", total) if bound else total
    end = number(net, 3.3, DType.F32), number(net, -128, DType.I8)
    made = net.op("QuantizeLinear", total, *end)
    return net, net.op("DequantizeLinear", made, *end) if last_scale else made


@pytest.mark.parametrize("arguments", [{}, {"bound": False}, {"last_scale": True}])
def test_adds_bytes_in_floats_by_lines(arguments: dict[str, bool]) -> None:
    task = task_of(residual(**arguments), ALL)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    made = usual(task).make()
    assert made is not None
    names = [each.name[:11] for each in walk_stmts(made.kernel.body) if isinstance(each, Instruct)]
    assert "mve_add_f32" in names
    np.testing.assert_array_equal(computed(task, made, memory), wanted)


def looked_up(op: str, channels: int) -> Made:
    """A function of a requantized convolution's bytes."""
    net, y = rounded(channels, (4, 5), 6)
    if op == "Clip":
        return net, net.op("Clip", y, min=-50.0, max=60.0)
    return net, net.op("Lookup", y, constant(net, 256, dtype=DType.I8, low=-128, high=127))


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("op", ["Clip", "Lookup"])
def test_functions_of_bytes_are_tables(op: str, channels: int) -> None:
    task = task_of(looked_up(op, channels), ALL)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    for each in offers(propose, task):
        made = each.make()
        assert made is not None
        names = [x.name for x in walk_stmts(made.kernel.body) if isinstance(x, Instruct)]
        assert any(name.startswith("mve_lookup") for name in names)
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize("case", ADD_CASES)
def test_adds_bytes_by_lines(case: str) -> None:
    make, lines = ADD_CASES[case]
    task = task_of(make(), ALL)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    used: set[str] = set()
    for each in offers(propose, task):
        made = each.make()
        assert made is not None
        names = [x.name for x in walk_stmts(made.kernel.body) if isinstance(x, Instruct)]
        used |= {each.name} if any(name.startswith("mve_add") for name in names) else set()
        np.testing.assert_array_equal(computed(task, made, memory), wanted)
    assert used == ({"helium"} if lines else set())


@pytest.mark.parametrize("kernel", [1, 3])
def test_it_is_the_usual_choice(kernel: int) -> None:
    task = task_of(last(16, (8, 8), kernel), ALL)
    assert usual(task).name == "helium"


def test_short_rows_of_windows_are_put_side_by_side() -> None:
    task = task_of(last(3, (9, 9), 3), ALL)
    assert usual(task).name == "helium-patch"
    assert {each.name for each in offers(propose, task)} == {"helium", "helium-patch"}


def test_refusals() -> None:
    assert "side by side" in refusal(propose, task_of(convolution(3, (5, 4), 3), ALL))
    unsigned = convolution(3, (5, 4), 3, kind=DType.U8, channels_last=True)
    assert "signed bytes" in refusal(propose, task_of(unsigned, ALL))
    assert "Helium" in refusal(propose, task_of(last(4, (3, 3), 1), "dsp vfp"))
    assert "16384 bytes" in refusal(propose, task_of(line(4000), ALL))
    gaps = rounded(4, (3, 7), dilations=(1, 2), pads=(1, 2, 1, 2))
    assert refusal(propose, task_of(gaps, ALL)) == "its window has gaps"
