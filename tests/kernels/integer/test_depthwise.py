"""Depthwise convolutions of bytes: the same bits as the plain loops, on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.integer.test_tensorized import CASES as DENSE
from tests.kernels.integer.test_tensorized import Made, constant, extreme, image, number, task_of
from tests.kernels.tasks import computed, offers, refusal
from tests.plan.nets import Net
from tests.turns import in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.integer import depthwise
from weft.kernels.integer.depthwise import propose
from weft.kernels.selection import usual
from weft.kernels.task import Task
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts
from weft.targets.find import target


def convolution(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    channels: int = 16,
    *,
    kind: DType = DType.I8,
    stride: int = 1,
    dilation: int = 1,
    pad: int = 1,
    largest: int = 9000,
    channels_last: bool = False,
) -> Made:
    """A depthwise QLinearConv with extreme weights and zero points."""
    net = Net(3)
    zero = -100 if kind is DType.I8 else 3
    inputs = [
        image(net, channels, (size[0], size[-1]), kind, channels_last)
        if len(size) == 2
        else net.input(1, channels, *size, dtype=kind),
        number(net, 0.5, DType.F32),
        number(net, zero, kind),
        constant(net, channels, 1, *kernel, dtype=DType.I8, low=-128, high=127),
        net.builder.constant(np.linspace(0.01, 0.02, channels, dtype=np.float32), "s"),
        number(net, 0, DType.I8),
        number(net, 9.0, DType.F32),
        number(net, 7, kind),
        constant(net, channels, dtype=DType.I32, low=-largest, high=largest),
    ]
    rank = len(kernel)
    return net, net.op(
        "QLinearConv",
        *inputs,
        kernel=kernel,
        pads=(pad,) * 2 * rank,
        strides=(stride,) * rank,
        dilations=(dilation,) * rank,
        groups=channels,
    )


CASES: dict[str, Callable[[], Made]] = {
    "3x3": lambda: convolution((5, 7), (3, 3)),
    "no border": lambda: convolution((6, 9), (3, 3), pad=0),
    "strided": lambda: convolution((9, 11), (3, 3), stride=2),
    "strided, no border": lambda: convolution((8, 10), (3, 3), stride=2, pad=0),
    "dilated": lambda: convolution((9, 8), (3, 3), dilation=2, pad=2),
    "wide window": lambda: convolution((7, 7), (5, 2), pad=1),
    "unsigned": lambda: convolution((4, 5), (3, 3), kind=DType.U8),
    "a line": lambda: convolution((13,), (4,)),
    "few channels": lambda: convolution((4, 4), (3, 3), 12),
    "sums past 2**24": lambda: convolution((4, 5), (3, 3), largest=1 << 28),
}
MACHINES = {"cortex-m4": "dsp vfp", "cortex-m3": "", "cortex-m55": "mve", "x86-avx2": ""}


def task_for(made: Made, machine: str) -> Task:
    task = task_of(made, MACHINES[machine])
    return replace(task, target=replace(target(machine), features=task.target.features))


@pytest.mark.parametrize(
    ("case", "bytes_", "machine"),
    in_turn(
        [(case, bytes_) for bytes_ in (depthwise.MOST_BYTES, 300) for case in CASES], [*MACHINES]
    ),
)
def test_same_bits_as_plain_loops(
    case: str, bytes_: int, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depthwise, "MOST_BYTES", bytes_)
    task = task_for(CASES[case](), machine)
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    offered = offers(propose, task)
    assert offered, refusal(propose, task)
    for each in offered:
        made = each.make()
        assert made is not None
        used = any(isinstance(stmt, Instruct) for stmt in walk_stmts(made.kernel.body))
        assert used or machine != "cortex-m4" or each.name == "depthwise-x1"
        np.testing.assert_array_equal(computed(task, made, memory), wanted)


@pytest.mark.parametrize(
    ("machine", "channels", "name"), [("cortex-m4", 6, "smlad"), ("x86-avx2", 64, "x8")]
)
def test_it_is_the_usual_choice(machine: str, channels: int, name: str) -> None:
    task = task_for(convolution((25, 5), (3, 3), channels), machine)
    assert usual(task).name == f"depthwise-{name}"


def test_refusals() -> None:
    dense = task_of(DENSE["borders"](), "dsp")
    assert refusal(propose, dense) == "an output channel reads several of the input"
    both = task_of(convolution((9, 9), (3, 3), stride=2, dilation=2), "dsp")
    assert refusal(propose, both) == "its window has both a stride and gaps"
    odd = task_for(convolution((5, 5), (3, 3), 7), "x86-avx2")
    assert refusal(propose, odd).startswith("the target has neither an instruction for it")
