"""Maps: equal to the plain loops in all orders of memory; transposes turn in registers."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.codegen.harness import Case, check
from tests.kernels.tasks import assert_as_nest, memory_of, tasks_of
from tests.plan.nets import Net
from tests.turns import examples, in_turn
from weft.dtypes import DType
from weft.kernels.elementwise import maps as elementwise
from weft.loops.nodes import Const, For, Kernel, LoopKind, Select
from weft.loops.statements import own_exprs, walk_stmts
from weft.loops.walk import walk
from weft.plan.implementation import Implementation

MACHINES = ("generic", "x86-sse2", "x86-avx2", "x86-avx512", "aarch64-neon")


def turned(*shape: int, perm: tuple[int, ...], beside: bool = False, dtype=DType.F32):
    """A net that transposes, maybe between elementwise ops."""
    net = Net()
    y = net.op("Transpose", net.input(*shape, dtype=dtype), perm=perm)
    return net, net.op("Add", net.op("Neg", y), net.input(*net.shape(y))) if beside else y


def made(net: Net, value: str, machine: str = "x86-avx512") -> list[Implementation]:
    found = [elementwise.generate(task) for task in tasks_of(net, value, machine=machine)]
    return [each for each in found if each is not None]


def exchanges(kernel: Kernel) -> int:
    """How many vectors are put together from two others."""
    return sum(
        isinstance(node, Select)
        for stmt in walk_stmts(kernel.body)
        for expr in own_exprs(stmt)
        for node in walk(expr)
    )


@st.composite
def mapped(draw: st.DrawFn) -> tuple[Net, str]:
    """Elementwise ops over operands that lie in different orders."""
    sizes = st.sampled_from((1, 2, 3, 4, 5, 8, 13, 16, 17, 24, 31, 33, 67))
    shape = draw(st.lists(sizes, min_size=1, max_size=4))
    assume(prod(shape) <= 5000)
    net = Net(draw(st.integers(0, 9)))
    axes = range(len(shape))
    y = net.input(*shape)
    for _ in range(draw(st.integers(1, 2))):
        perm = tuple(draw(st.permutations(axes)))
        other = net.input(*(net.shape(y)[axis] for axis in perm))
        back = tuple(int(axis) for axis in np.argsort(perm))
        y = net.op(draw(st.sampled_from(("Add", "Mul"))), y, net.op("Transpose", other, perm=back))
    after = draw(st.sampled_from(("", "Exp", "Transpose", "Pad", "Slice")))
    if after == "Transpose":
        y = net.op(after, y, perm=tuple(draw(st.permutations(axes))))
    elif after == "Exp":
        y = net.op(after, y)
    elif after == "Pad":
        y = net.op(after, y, pads=(1, *(0 for _ in axes[1:]), *(0 for _ in axes[1:]), 2))
    elif after == "Slice":
        y = net.op(after, y, starts=(0,), ends=(net.shape(y)[0],), axes=(0,), steps=(2,))
    return net, y


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(mapped(), st.sampled_from(MACHINES))
def test_maps_are_as_the_plain_loops(case, machine):
    net, value = case
    for task in tasks_of(net, value, machine=machine):
        found = elementwise.generate(task)
        if found is not None:
            assert_as_nest(task, found)


@pytest.mark.parametrize(
    ("machine", "count"), [("x86-avx512", 64), ("x86-avx2", 24), ("x86-sse2", 8), ("generic", 0)]
)
def test_a_transpose_turns_squares_of_vectors(machine: str, count: int) -> None:
    found = made(*turned(32, 48, perm=(1, 0)), machine=machine)
    assert [exchanges(each.kernel) for each in found] == [count]


def test_what_is_left_beside_the_squares_is_gathered() -> None:
    (found,) = made(*turned(16 + 8 + 1, 16, perm=(1, 0)))
    assert exchanges(found.kernel) == 64 + 24
    (found,) = made(*turned(16, 3, perm=(1, 0)))
    assert exchanges(found.kernel) == 0


def test_rows_of_doubles_and_guarded_loads_are_not_turned() -> None:
    (found,) = made(*turned(32, 32, perm=(1, 0), dtype=DType.F64))
    assert exchanges(found.kernel) == 0


def test_reductions_and_gaps_between_outputs_are_declined() -> None:
    net = Net()
    assert not made(net, net.op("ReduceSum", net.input(4, 32), axes=(1,)))
    assert not made(net, net.op("Exp", net.input()))


def test_vectors_are_as_wide_as_the_widest_of_their_values() -> None:
    net = Net()
    (found,) = made(net, net.op("Cast", net.input(4, 64), to=DType.U8))
    lanes = [each for each in walk_stmts(found.kernel.body) if isinstance(each, For)][-1]
    assert lanes.kind is LoopKind.VECTOR
    assert lanes.stop == Const(16, DType.I64)


SHAPES = [
    ((16, 16), (1, 0)),
    ((37, 53), (1, 0)),
    ((3, 40, 9), (0, 2, 1)),
    ((20, 3, 36), (2, 1, 0)),
    ((2, 5, 7, 33), (0, 2, 3, 1)),
]


@pytest.mark.parametrize(
    ("flavour", "machine"), in_turn([("gnu",), ("c89",)], MACHINES[3:0:-1], every=2)
)
def test_compiled_maps_are_as_interpreted(flavour: str, machine: str, tmp_path: Path) -> None:
    cases: list[Case] = []
    for shape, perm in SHAPES:
        for beside in (False, True):
            (task,) = tasks_of(*turned(*shape, perm=perm, beside=beside), machine=machine)
            found = elementwise.generate(task)
            assert found is not None
            memory = memory_of(task)
            arrays = {
                buffer.name: memory[operand.value]
                for buffer, operand in zip(found.kernel.params[:-1], found.operands, strict=True)
            }
            cases.append(Case(found.kernel, arrays))
    check(cases, flavour, tmp_path)
