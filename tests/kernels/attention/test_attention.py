"""Attention: one kernel, equal to the references, whatever shapes, masks and scores."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.batch import Trial, run
from tests.kernels.tasks import (
    all_tasks_of,
    arrays_of,
    assert_as_nest,
    computed,
    memory_of,
    offers,
    refusal,
)
from tests.kernels.test_grid import compiler
from tests.plan.nets import Net
from tests.plan.planned import assert_planned, plan_of
from tests.turns import examples, in_turn
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.attention import choice as attention_choice
from weft.kernels.selection import alternatives
from weft.kernels.task import Task
from weft.loops.nodes import For, Local, LoopKind
from weft.loops.statements import walk_stmts
from weft.plan.plan import Plan

MACHINES = ("generic", "x86-sse2", "x86-avx2", "x86-avx512", "aarch64-neon")
MASKS = ("", "add", "rows", "where", "causal")
INFINITY = float("inf")


def attending(
    heads: int,
    queries: int,
    keys: int,
    width: int,
    columns: int,
    *,
    mask: str = "",
    scale: float = 0.0,
    batch: int = 1,
) -> tuple[Net, str]:
    """Attention as exporters write it: products, a scale, a mask, softmax."""
    net = Net(heads + keys)
    q = net.input(batch, heads, queries, width)
    k = net.input(batch, heads, keys, width)
    v = net.input(batch, heads, keys, columns)
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=(0, 1, 3, 2)))
    if scale:
        scores = net.op("Mul", scores, net.builder.constant(np.array(scale, np.float32), "scale"))
    if mask in ("add", "rows"):
        added = net.input(batch, 1, queries if mask == "rows" else 1, keys)
        scores = net.op("Add", scores, added)
    elif mask:
        seen = net.random.integers(0, 2, (queries, keys)) > 0
        if mask == "causal":
            seen = np.arange(keys) <= np.arange(queries)[:, None]
        hidden = net.builder.constant(np.array(-INFINITY, np.float32), "hidden")
        scores = net.op("Where", net.builder.constant(seen, "seen"), scores, hidden)
    return net, net.op("MatMul", net.op("Softmax", scores), v)


def task_of(*sizes: int, machine: str = "x86-avx512", **options: object) -> Task:
    """The task that attention is; there is no other."""
    net, value = attending(*sizes, **options)
    (task,) = all_tasks_of(net, value, machine=machine)
    return task


def schemes(plan: Plan) -> list[str]:
    return [step.implementation.scheme for step in plan.steps if step.implementation]


# --- against the references -------------------------------------------------------------------

SIZES = st.tuples(
    st.sampled_from((1, 2, 3)),
    st.sampled_from((1, 2, 5, 7, 13, 17, 29)),
    st.sampled_from((1, 2, 3, 7, 16, 17, 31, 37)),
    st.sampled_from((1, 2, 3, 8, 24)),
    st.sampled_from((1, 2, 5, 16, 17, 24)),
)


SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=SLOW)
@given(
    SIZES,
    st.sampled_from(MASKS),
    st.sampled_from((0.0, 0.125)),
    st.sampled_from((1.0, 1e4)),
    st.sampled_from((1, 2)),
    st.sampled_from(MACHINES),
)
def test_as_the_references(sizes, mask, scale, spread, batch, machine):
    net, value = attending(*sizes, mask=mask, scale=scale, batch=batch)
    arrays = {
        name: array * np.float32(spread if name == "x" else 1) for name, array in net.arrays.items()
    }
    if mask in ("add", "rows"):
        name = list(arrays)[-1]
        arrays[name] = np.where(net.random.random(arrays[name].shape) < 0.3, -INFINITY, 0.0)
        arrays[name] = arrays[name].astype(np.float32)
    # Scores of 1e4 differ by 1e-3 after rounding, and weights by as much of themselves.
    assert_planned(net.graph(value), arrays, machine, 1e-5 if spread == 1 else 3e-2)


def test_rows_of_nothing_are_as_the_reference_has_them():
    net, value = attending(2, 9, 11, 4, 6, mask="rows")
    arrays = dict(net.arrays)
    name = list(arrays)[-1]
    arrays[name] = np.zeros_like(arrays[name])
    arrays[name][0, 0, 3] = -INFINITY
    arrays[name][0, 0, 5, 1] = INFINITY
    program = assert_planned(net.graph(value), arrays)
    assert len(program.functions) == 1
    # Of the op Attention such a row is zero, not NaN.
    net = Net()
    inputs = [net.input(1, 2, *dims) for dims in ((9, 4), (11, 4), (11, 6))]
    mask = net.input(9, 11, dtype=DType.BOOL)
    value = net.op("Attention", *inputs, mask)
    net.arrays[mask][:] = True
    net.arrays[mask][3] = False
    assert_planned(net.graph(value), net.arrays)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("groups", [1, 3])
def test_the_op_attention_is_one_kernel(groups: int, causal: int):
    net = Net()
    inputs = [net.input(2, heads, *dims) for heads, dims in ((3, (9, 4)), (groups, (11, 4)))]
    inputs.append(net.input(2, groups, 11, 5))
    value = net.op("Attention", *inputs, is_causal=causal)
    program = assert_planned(net.graph(value), net.arrays)
    whole = any(each.name == "attention" for each in program.functions)
    assert whole is (groups == 3)


# --- alternatives -----------------------------------------------------------------------------

SHAPES = [
    (2, 9, 19, 8, 24),
    (1, 1, 40, 8, 16),
    (1, 30, 16, 4, 5),
    (1, 13, 67, 3, 33),
    (2, 9, 2, 2, 2),
]


WHERE = [*zip(MACHINES, cycle(["", "rows"])), *zip(MACHINES, cycle(["rows", ""]))]
"""Machines and masks: neighbours differ in both."""


@pytest.mark.parametrize(("sizes", "where"), in_turn([(sizes,) for sizes in SHAPES], WHERE))
def test_alternatives_are_as_the_plain_loops(sizes, where):
    machine, mask = where
    task = task_of(*sizes, mask=mask, machine=machine)
    found = offers(attention_choice.propose, task)
    assert found
    for each in found:
        made = each.make()
        assert made is not None
        assert made.scheme == each.name
        assert_as_nest(task, made)
    for rows in (1, 3, 8):
        for exact in (False, True):
            made = attention_choice.write(replace(task, exact=exact, threads=3), rows)
            assert made is not None
            assert_as_nest(task, made)


LONG = [(1, 9, 21, 8, 24), (1, 1, 40, 8, 16), (1, 13, 130, 4, 5)]


@pytest.mark.parametrize(("sizes", "where"), in_turn([(sizes,) for sizes in LONG], WHERE))
def test_keys_in_chunks_are_as_the_plain_loops(sizes, where):
    machine, mask = where
    task = task_of(*sizes, mask=mask, machine=machine)
    for rows, span in ((3, 1), (8, 2), (8, 3)):
        made = attention_choice.write(task, rows, span)
        assert made is not None
        assert made.scheme == f"attention-{rows}x{span}"
        assert_as_nest(task, made)


@pytest.mark.parametrize("machine", ["generic", "x86-avx512"])
def test_chunks_of_nothing_are_as_the_plain_loops_have_them(machine):
    """Minus infinity for a chunk, for a row, and large scores that come late or early."""
    task = task_of(1, 9, 100, 4, 6, mask="rows", machine=machine)
    memory = memory_of(task)
    mask = memory[task.values[-2]].reshape(9, 100)
    mask[0, :64] = mask[1, 32:] = mask[2] = mask[3, ::2] = -INFINITY
    mask[4, 50] = INFINITY
    mask[5, 90], mask[6, 3], mask[7] = 1e4, 1e4, -1e4
    wanted = computed(task, nest.generate(task), memory)
    assert np.isnan(wanted).any()
    for span in (0, 1, 2):
        made = attention_choice.write(task, 4, span)
        assert made is not None
        with np.errstate(all="ignore"):
            found = computed(task, made, memory)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_chunks_where_rows_of_scores_are_too_long():
    def first(keys: int, exact: bool = False) -> str:
        task = task_of(1, 64, keys, 16, 16, machine="x86-avx512")
        return alternatives(replace(task, exact=exact))[0].name

    assert "x" not in first(512)
    assert "x" in first(1 << 20)
    assert "x" not in first(1 << 20, exact=True)


def test_exact_weights_are_divided_before_they_weigh():
    """Where all keys but one weigh nothing, the division leaves no trace."""
    task = task_of(1, 9, 12, 4, 7)
    for exact in (True, False):
        made = attention_choice.write(replace(task, exact=exact), 8)
        assert made is not None
        locals = {s.buffer.name for s in walk_stmts(made.kernel.body) if isinstance(s, Local)}
        assert ("totals" in locals) is not exact


def test_heads_or_queries_are_cut_for_threads():
    few, many = (task_of(heads, 64, 32, 8, 16) for heads in (1, 8))
    for task, variable in ((few, "share"), (many, many.compute.axes[0].var)):
        made = attention_choice.write(replace(task, threads=4), 14)
        assert made is not None
        first = made.kernel.body[0]
        assert isinstance(first, For)
        assert (first.var, first.kind) == (variable, LoopKind.PARALLEL)


def test_other_definitions_are_declined():
    net = Net()
    x = net.input(1, 2, 9, 8)
    weights = net.op("Softmax", net.op("MatMul", x, net.input(1, 2, 8, 7)))
    y = net.op("MatMul", weights, net.input(1, 2, 7, 5))
    z = net.op("Add", y, net.op("ReduceSum", weights, axes=(3,)))
    tasks = all_tasks_of(net, z)
    assert len(tasks) > 1
    for task in tasks:
        assert attention_choice.write(task, 8) is None
        assert refusal(attention_choice.propose, task)


ODD = [(1, 29, 21, 24, 17), (1, 1, 33, 32, 17), (1, 8, 37, 5, 20)]


HERE = [("generic", ""), ("x86-avx512", "rows"), ("x86-avx512", ""), ("generic", "rows")]


@pytest.mark.parametrize(("sizes", "where"), in_turn([(sizes,) for sizes in ODD], HERE, every=3))
def test_as_c_under_sanitizers(sizes, where, tmp_path: Path):
    machine, mask = where
    task = task_of(*sizes, mask=mask, machine=machine)
    memory = memory_of(task)
    wanted = computed(task, nest.generate(task), memory)
    trials = []
    for exact, span in ((False, 0), (True, 0), (False, 1)):
        made = attention_choice.write(replace(task, exact=exact), 12, span)
        assert made is not None
        trials.append(Trial(machine, made.kernel, tuple(arrays_of(made, memory))))
    for got in run(trials, tmp_path, compiler()):
        np.testing.assert_allclose(got[: wanted.size], wanted, rtol=1e-4, atol=1e-5)


# --- memory -----------------------------------------------------------------------------------


def test_no_matrix_of_scores_in_memory():
    """Eight times the keys take eight times the memory, not sixty-four times."""

    def arena(length: int) -> int:
        net = Net()
        x = net.input(1, length, 64)
        heads = []
        for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
            split = net.op("Reshape", net.dense(x, 64), shape=(1, length, 2, 32))
            heads.append(net.op("Transpose", split, perm=perm))
        weights = net.op("Softmax", net.op("MatMul", heads[0], heads[1]))
        mixed = net.op("Transpose", net.op("MatMul", weights, heads[2]), perm=(0, 2, 1, 3))
        joined = net.op("Reshape", mixed, shape=(1, length, 64))
        plan = plan_of(net.graph(net.dense(joined, 64)))
        assert sum(name.startswith("attention") for name in schemes(plan)) == 1
        assert len(schemes(plan)) == 5
        return plan.arena_bytes

    small, large = arena(128), arena(1024)
    assert large < 2 * 1024 * 1024 * 4
    assert large < 10 * small


def test_usual_alternatives_come_first():
    for sizes in ((12, 128, 128, 64, 64), (12, 197, 197, 64, 64), (3, 49, 49, 32, 32)):
        assert alternatives(task_of(*sizes))[0].name.startswith("attention-")
