"""Rows: equal to the plain loops, whatever the shapes and the values."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.codegen.harness import Case, check
from tests.kernels.tasks import assert_as_nest, computed, memory_of, rows_kernel, tasks_of
from tests.plan.nets import Net
from tests.turns import examples, in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.task import Task
from weft.loops.nodes import Const, For, Kernel, Local, LoopKind, Unary
from weft.loops.statements import own_exprs, walk_stmts
from weft.loops.walk import walk
from weft.targets.find import target

MACHINES = ("generic", "x86-sse2", "x86-avx2", "x86-avx512", "aarch64-neon")


def norm(net: Net, op: str, x: str, axis: int) -> str:
    """A normalization with scale and bias."""
    if op == "LayerNormalization":
        size = net.shape(x)[axis:]
        return net.op(op, x, net.constant(*size), net.constant(*size), axis=axis)
    channels = net.shape(x)[1]
    options = {"num_groups": max(1, channels // 2)} if op == "GroupNormalization" else {}
    return net.op(op, x, net.constant(channels), net.constant(channels), **options)


def made(op: str, *shape: int, axis: int = -1, dtype: DType = DType.F32) -> tuple[Net, str]:
    """A net of one op with reductions."""
    net = Net()
    x = net.input(*shape, dtype=dtype)
    if op.endswith("Normalization"):
        return net, norm(net, op, x, axis)
    if op.startswith("Reduce"):
        return net, net.op(op, x, axes=(axis,))
    return net, net.op(op, x, axis=axis)


def task_of(op: str, *shape: int, machine: str = "x86-avx512", **options: object) -> Task:
    """The task of a net of one op that makes one group."""
    net, value = made(op, *shape, **options)
    (task,) = tasks_of(net, value, machine=machine)
    return task


def exponentials(kernel: Kernel) -> int:
    """How many places compute an exponential."""
    return sum(
        isinstance(node, Unary) and node.op == "exp"
        for stmt in walk_stmts(kernel.body)
        for expr in own_exprs(stmt)
        for node in walk(expr)
    )


def locals_of(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    return {
        each.buffer.name: each.buffer.shape
        for each in walk_stmts(kernel.body)
        if isinstance(each, Local)
    }


# --- against the plain loops ----------------------------------------------------------------

REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare")
OPS = (
    "Softmax",
    "LogSoftmax",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    *(f"Reduce{each}" for each in REDUCTIONS),
)


@st.composite
def reducing(draw: st.DrawFn) -> tuple[Net, str]:
    """An op with reductions over some axis of a tensor, maybe between other ops."""
    op = draw(st.sampled_from(OPS))
    sizes = st.sampled_from((1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 64, 67, 130))
    shape = draw(st.lists(sizes, min_size=1, max_size=4))
    assume(prod(shape) <= 3000)
    if op in ("InstanceNormalization", "GroupNormalization"):
        assume(len(shape) >= 3)
        shape[1] *= 2
    net = Net(draw(st.integers(0, 9)))
    x = net.input(*shape)
    axis = draw(st.integers(0, len(shape) - 1))
    before = draw(st.sampled_from(("", "Gelu", "Exp", "Transpose")))
    if before == "Transpose":
        x = net.op(before, x, perm=tuple(draw(st.permutations(range(len(shape))))))
    elif before:
        x = net.op(before, x)
    if op == "GroupNormalization":
        assume(net.shape(x)[1] % 2 == 0)
    if op.endswith("Normalization"):
        y = norm(net, op, x, axis)
    elif op.startswith("Reduce"):
        y = net.op(op, x, axes=(axis,))
    else:
        y = net.op(op, x, axis=axis)
    if draw(st.booleans()):
        y = net.op("Add", y, net.input(*net.shape(y)))
    return net, y


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(reducing(), st.sampled_from(MACHINES))
def test_rows_are_as_the_plain_loops(case, machine):
    net, value = case
    for task in tasks_of(net, value, machine=machine):
        found = rows_kernel(task)
        if found is not None:
            assert_as_nest(task, found)


USUAL = [
    ("Softmax", (2, 3, 197), -1),
    ("Softmax", (5, 49), -1),
    ("Softmax", (1, 10), -1),
    ("Softmax", (2, 21, 6, 6), 1),
    ("LogSoftmax", (3, 1000), -1),
    ("LayerNormalization", (2, 7, 96), -1),
    ("LayerNormalization", (2, 3, 4, 5), 1),
    ("GroupNormalization", (2, 8, 5, 7), 0),
    ("InstanceNormalization", (1, 4, 9, 9), 0),
    ("ReduceMean", (4, 77), -1),
    ("ReduceMax", (500,), 0),
]


@pytest.mark.parametrize("machine", ["x86-sse2", "x86-avx512", "aarch64-neon"])
@pytest.mark.parametrize(("op", "shape", "axis"), USUAL)
def test_usual_rows_are_taken(op, shape, axis, machine):
    net, value = made(op, *shape, axis=axis)
    taken = 0
    for task in tasks_of(net, value, machine=machine):
        found = rows_kernel(task)
        if found is not None:
            taken += 1
            assert_as_nest(task, found)
    assert taken


def test_rows_of_other_types():
    for dtype in (DType.F64, DType.F16, DType.BF16):
        task = task_of("Softmax", 3, 37, dtype=dtype)
        found = rows_kernel(task)
        assert found is not None
        memory = memory_of(task)
        wanted = computed(task, nest.generate(task), memory).astype(np.float64)
        got = computed(task, found, memory).astype(np.float64)
        np.testing.assert_allclose(got, wanted, atol=1e-2)
    task = task_of("ReduceSum", 3, 37, dtype=DType.I32)
    found = rows_kernel(task)
    assert found is not None
    assert_as_nest(task, found)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("machine", ["x86-avx2", "x86-avx512", "aarch64-neon"])
@pytest.mark.parametrize("op", ["Softmax", "ReduceMax"])
def test_vectors_of_half_precision_fit_registers_as_what_is_computed_from_them(op, machine, axis):
    net = Net()
    wide = net.op("Cast", net.input(64, 64, dtype=DType.BF16), to=DType.F32)
    options = {"axes": (axis,)} if op == "ReduceMax" else {"axis": axis}
    (task,) = tasks_of(
        net, net.op("Cast", net.op(op, wide, **options), to=DType.BF16), machine=machine
    )
    found = rows_kernel(task)
    assert found is not None
    widths = {
        stmt.stop.value
        for stmt in walk_stmts(found.kernel.body)
        if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR and isinstance(stmt.stop, Const)
    }
    assert max(widths) == target(machine).lanes(DType.F32)


def test_a_reduction_of_reductions_is_declined():
    net = Net()
    x = net.input(8, 40)
    row = net.op("ReduceMean", x, axes=(1,))
    whole = net.op("ReduceMax", x, axes=(0, 1))
    (task,) = [
        task
        for task in tasks_of(net, net.op("Sub", row, whole), machine="x86-avx512")
        if len({len(node.axes) for node in walk(task.compute.value) if hasattr(node, "axes")}) > 1
    ]
    assert rows_kernel(task) is None


# --- what is held ---------------------------------------------------------------------------


def test_softmax_computes_every_exponential_once_and_keeps_it_in_the_output():
    found = rows_kernel(task_of("Softmax", 7, 64))
    assert found is not None
    assert exponentials(found.kernel) == 2  # two vectors at once
    assert "held" not in locals_of(found.kernel)


def test_what_may_lie_in_the_output_is_not_overwritten():
    net = Net()
    y = net.op("Add", net.op("Softmax", net.input(7, 64), axis=-1), net.input(7, 64))
    (task,) = tasks_of(net, y, machine="x86-avx512")
    found = rows_kernel(task)
    assert found is not None
    assert locals_of(found.kernel)["held"] == (64,)
    assert exponentials(found.kernel) == 2


def test_long_rows_are_computed_again():
    net = Net()
    y = net.op("Add", net.op("Softmax", net.input(2, 8192), axis=-1), net.input(2, 8192))
    (task,) = tasks_of(net, y, machine="x86-avx512")
    found = rows_kernel(task)
    assert found is not None
    assert "held" not in locals_of(found.kernel)
    assert exponentials(found.kernel) == 3
    assert_as_nest(task, found)


@pytest.mark.parametrize(("count", "together"), [(7, 1), (12, 4), (9, 3), (10, 2), (1, 1)])
def test_short_rows_run_side_by_side(count, together):
    task = task_of("Softmax", count, 64)
    found = rows_kernel(task)
    assert found is not None
    assert exponentials(found.kernel) == 2 * together
    assert_as_nest(task, found)


def test_rows_are_shared_by_threads():
    found = rows_kernel(task_of("LayerNormalization", 7, 9, 768))
    assert found is not None
    (loop,) = found.kernel.body
    assert isinstance(loop, For)
    assert loop.kind is LoopKind.PARALLEL
    assert loop.stop.value == 63


# --- values ---------------------------------------------------------------------------------

INF, NAN = float("inf"), float("nan")
SPECIAL = {
    "huge": [3e38, 1e38, 2e38, 3.4e38],  # of one sign: sums overflow in any order
    "nothing but minus infinity": [-INF],
    "some minus infinity": [-INF, 1.0, -2.0],
    "infinity": [INF, 1.0, 0.0],
    "not a number": [1.0, NAN, 2.0],
    "nothing but not a number": [NAN],
    "tiny": [1e-42, -1e-42, 0.0],
    "equal": [7.25],
}


REDUCED = ["Softmax", "LogSoftmax", "ReduceMax", "ReduceMin", "ReduceMean"]


@pytest.mark.parametrize(
    ("kind", "axis", "op", "machine"),
    in_turn(product(SPECIAL, [0, 1], REDUCED), ["generic", "x86-avx512"], every=3),
)
def test_special_values(kind, axis, op, machine):
    values = SPECIAL[kind]
    net, value = made(op, 53, 53, axis=axis)
    for task in tasks_of(net, value, machine=machine):
        found = rows_kernel(task)
        if found is None:
            continue
        memory = {
            name: np.resize(values, array.shape).astype(array.dtype)
            for name, array in memory_of(task).items()
        }
        with np.errstate(all="ignore"):
            wanted = computed(task, nest.generate(task), memory)
            got = computed(task, found, memory)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


# --- as C -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flavour", "machine"),
    in_turn([("c89",), ("c99",), ("gnu",)], ["x86-sse2", "x86-avx512"], every=2),
)
def test_rows_as_c(flavour: str, machine: str, tmp_path: Path) -> None:
    cases: list[Case] = []
    for op, shape, axis in [*USUAL, ("Softmax", (4, 1), -1), ("Softmax", (7, 40), 0)]:
        net, value = made(op, *shape, axis=axis)
        for task in tasks_of(net, value, machine=machine):
            found = rows_kernel(task)
            if found is not None:
                memory = memory_of(task)
                names = [buffer.name for buffer in found.kernel.params[:-1]]
                arrays = {
                    name: memory[operand.value]
                    for name, operand in zip(names, found.operands, strict=True)
                }
                cases.append(Case(found.kernel, arrays, ulps=200))
    assert len(cases) > 10
    check(cases, flavour, tmp_path)
