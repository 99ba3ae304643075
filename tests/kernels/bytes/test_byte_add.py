"""Sums of bytes behind convolutions of bytes: the same bits as the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels.bytes.test_byte_dual import rounded
from tests.kernels.integer.test_tensorized import Made, extreme, image, task_of
from tests.kernels.tasks import computed, offers
from tests.turns import a_few
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.bytes.dual import choice as byte_dual_choice
from weft.kernels.bytes.dual import winograd as byte_winograd
from weft.kernels.generator import Propose
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts

EQUAL, HALF, THIRD = (1 << 30, 0), (1 << 30, -1), (1431655765, -1)
"""Factors of one half, a quarter and a third."""


def residual(
    first: tuple[int, int] = HALF,
    second: tuple[int, int] = EQUAL,
    *,
    zero: int = -128,
    subtract: int = 0,
    last: bool = True,
    size: tuple[int, int] = (4, 4),
) -> Made:
    """A sum of a requantized convolution, the second factor's, and an image."""
    net, y = rounded(4, size)
    x = image(net, 8, size, DType.I8, last)
    z = (1200000000, -17)
    made = net.op(
        "FixedPointAdd",
        *(x, y),
        zeros=(-17, 4, zero),
        multipliers=(first[0], second[0], z[0]),
        shifts=(first[1], second[1], z[1]),
        subtract=subtract,
    )
    return net, made


CASES: dict[str, tuple[Callable[[], Made], bool]] = {
    "a table for the image": (residual, True),
    "a table for the convolution": (lambda: residual(EQUAL, THIRD), True),
    "sums below zero": (lambda: residual(THIRD, zero=5), True),
    "a table for what is subtracted": (lambda: residual(EQUAL, THIRD, subtract=1), True),
    "a shift of what is subtracted": (lambda: residual(THIRD, EQUAL, subtract=1), False),
    "two tables": (lambda: residual(THIRD, THIRD), False),
    "channels apart": (lambda: residual(last=False), False),
    "odd columns": (lambda: residual(THIRD, size=(3, 5)), True),
}


@pytest.mark.parametrize("propose", [byte_dual_choice.propose, byte_winograd.propose])
@pytest.mark.parametrize("case", a_few(CASES, 4))
def test_same_bits_as_plain_loops(case: str, propose: Propose) -> None:
    make, by_rows = CASES[case]
    task = replace(task_of(make(), "dsp"), optimize="speed")
    memory = extreme(task)
    wanted = computed(task, nest.generate(task), memory)
    for offered in offers(propose, task)[:1]:
        made = offered.make()
        assert made is not None
        names = {e.name for e in walk_stmts(made.kernel.body) if isinstance(e, Instruct)}
        assert any(name.startswith("add_i8") for name in names) == by_rows
        np.testing.assert_array_equal(computed(task, made, memory), wanted)
