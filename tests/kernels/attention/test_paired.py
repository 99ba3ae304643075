"""Attention of bfloat16 by pairs and by tiles: the plain loops' results but for rounded weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.test_tiles import MODELLED
from tests.kernels.batch import SANITIZERS, Trial, run
from tests.kernels.tasks import (
    all_tasks_of,
    arrays_of,
    computed,
    memory_of,
    offers,
    refusal,
)
from tests.plan.nets import Net
from tests.turns import a_few, thorough
from weft.api import Net as Compiled
from weft.dtypes import DType
from weft.kernels import nest
from weft.kernels.attention import choice as attention_choice
from weft.kernels.attention.paired import ROUNDING
from weft.kernels.attention.paired_choice import propose
from weft.kernels.selection import alternatives
from weft.kernels.task import Task
from weft.loops.nodes import For, Instruct, Local, LoopKind, Stmt
from weft.loops.statements import walk_stmts
from weft.plan.implementation import Implementation

TILES, PAIRS, DOTS = "sapphire-rapids", "zen4", "neoverse-v1"
FLAGS = {TILES: (*SANITIZERS, *MODELLED), PAIRS: SANITIZERS}
_TYPE = DType.BF16


def attending(
    heads: int,
    queries: int,
    keys: int,
    width: int,
    columns: int,
    *,
    mask: str = "",
    scale: float = 0.125,
    turned: bool = False,
    joined: bool = False,
    dtype: DType = _TYPE,
) -> tuple[Net, str]:
    """Attention over values of bfloat16.

    Args:
        mask: ``rows`` adds one of all queries and keys, ``causal`` hides later keys.
        turned: whether keys lie with the elements of one far apart.
        joined: whether all three are parts of one value, heads side by side.
        dtype: of queries, keys and values.
    """
    net = Net(heads + keys)

    def part(*shape: int) -> str:
        if joined:
            rows, wide = shape[-2:]
            split = net.op(
                "Reshape", net.input(1, rows, heads * wide, dtype=dtype), shape=(0, 0, heads, wide)
            )
            return net.op("Transpose", split, perm=(0, 2, 1, 3))
        return net.input(*shape, dtype=dtype)

    def wide(value: str) -> str:
        return net.op("Cast", value, to=DType.F32)

    q = wide(part(1, heads, queries, width))
    k = part(1, heads, width, keys) if turned else part(1, heads, keys, width)
    k = wide(k if turned else net.op("Transpose", k, perm=(0, 1, 3, 2)))
    v = wide(part(1, heads, keys, columns))
    scores = net.op("MatMul", q, k)
    if scale:
        scores = net.op("Mul", scores, net.builder.constant(np.array(scale, np.float32), "scale"))
    if mask == "rows":
        scores = net.op("Add", scores, net.input(1, 1, queries, keys))
    elif mask:
        seen = np.arange(keys) <= np.arange(queries)[:, None] + 1
        hidden = net.builder.constant(np.array(-np.inf, np.float32), "hidden")
        scores = net.op("Where", net.builder.constant(seen, "seen"), scores, hidden)
    return net, net.op("MatMul", net.op("Softmax", scores), v)


def task_of(*sizes: int, machine: str, **options: object) -> Task:
    """The task that attention is."""
    net, value = attending(*sizes, **options)
    return all_tasks_of(net, value, machine=machine)[-1]


def kernels(task: Task) -> list[Implementation]:
    offered = offers(propose, task)
    assert offered, refusal(propose, task)
    made = [each.make() for each in offered]
    found = [each for each in made if each is not None]
    assert [each.scheme for each in found] == [each.name for each in offered]
    return found


def chosen_keys(task: Task) -> dict[str, np.ndarray]:
    """Whole numbers, scores far apart: weights are 1 for the largest, else 0."""
    memory = memory_of(task)
    random = np.random.default_rng(3)
    for name, buffer in zip(task.values, task.inputs, strict=True):
        if buffer.dtype is _TYPE:
            whole = random.integers(-4, 5, memory[name].shape)
            memory[name] = whole.astype(_TYPE.numpy)
        elif buffer.dtype is DType.F32 and buffer.name not in task.arrays and memory[name].size > 1:
            memory[name] = random.integers(-2, 3, memory[name].shape).astype(np.float32) * 512
    return memory


CASES: dict[str, tuple[tuple[int, ...], dict[str, object]]] = {
    "odd keys": ((2, 40, 37, 24, 20), {"mask": "rows"}),
    "one tile": ((1, 9, 16, 32, 16), {}),
    "several steps": ((2, 33, 70, 80, 40), {"mask": "causal"}),
    "no scale": ((1, 70, 20, 6, 4), {"scale": 0.0}),
    "turned": ((2, 17, 34, 32, 32), {"turned": True}),
    "joined": ((3, 35, 50, 16, 48), {"joined": True}),
    "odd width": ((1, 12, 9, 7, 12), {}),
}


def results(
    task: Task, memory: dict[str, np.ndarray], folder: Path, machine: str
) -> tuple[np.ndarray, list[np.ndarray]]:
    """What the kernel in float32 gives in C, and those that the machine is here for."""
    plain = attention_choice.write(task, 8)
    assert plain is not None
    made = [plain, *kernels(task)[: 1 if machine == TILES else None]]
    trials = [Trial(m.scheme, m.kernel, tuple(arrays_of(m, memory))) for m in made]
    wanted, *found = run(trials, folder, ("gcc",), FLAGS[machine])
    return wanted, found


def _rarely(case: str, machine: str) -> Sequence[pytest.MarkDecorator]:
    if machine == PAIRS and case in ("no scale", "turned", "joined"):
        return [pytest.mark.slow]
    return [] if case == "one tile" else [pytest.mark.thorough]


@pytest.mark.parametrize(
    ("case", "machine"),
    [
        pytest.param(case, machine, marks=_rarely(case, machine))
        for case in CASES
        for machine in (TILES, PAIRS)
    ],
)
def test_values_of_chosen_keys_exactly(case: str, machine: str, tmp_path: Path) -> None:
    sizes, options = CASES[case]
    scale = 512.0 if options.get("scale", 1) else 0.0
    task = task_of(*sizes, machine=machine, **{**options, "scale": scale})
    memory = chosen_keys(task)
    if not scale:
        queries = memory[task.values[0]].astype(np.float32) * 512
        memory[task.values[0]] = queries.astype(_TYPE.numpy)
    wanted, found = results(task, memory, tmp_path, machine)
    assert np.ptp(wanted) > 3
    for got in found:
        # Of equally large ones a mean, by a reciprocal in place of a division.
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("machine", a_few([TILES, PAIRS], 1))
def test_rounded_weights_add_what_is_said(machine: str, tmp_path: Path) -> None:
    task = task_of(2, 48, 96, 32, 32, scale=0.18, machine=machine)
    wanted, found = results(task, memory_of(task), tmp_path, machine)
    for got in found:
        error = np.sqrt(np.mean((got - wanted) ** 2)) / wanted.std()
        assert 0.5 * ROUNDING < error < 1.3 * ROUNDING
    for each in offers(propose, task):
        assert (each.error, each.allowed) == (ROUNDING, True)
    careful = replace(task, max_rounding=0.001)
    assert not any(each.allowed for each in offers(propose, careful))
    assert alternatives(careful)[0].name.startswith("attention-")
    assert "bf16" not in alternatives(careful)[0].name


@pytest.mark.parametrize("machine", [TILES, PAIRS, DOTS])
def test_the_interpreter_agrees(machine: str) -> None:
    task = task_of(1, 9, 11, 6, 4, mask="rows", scale=512.0, machine=machine)
    memory = chosen_keys(task)
    wanted = computed(task, nest.generate(task), memory)
    for made in kernels(task):
        np.testing.assert_allclose(computed(task, made, memory), wanted, rtol=1e-6, atol=1e-6)


def instructed(stmts: Sequence[Stmt]) -> list[str]:
    return [stmt.name for stmt in walk_stmts(stmts) if isinstance(stmt, Instruct)]


def test_tiles_are_configured_once_a_head_by_each_thread() -> None:
    task = task_of(3, 70, 50, 64, 64, machine=TILES)
    for threads in (1, 4):
        made = kernels(replace(task, threads=threads))[0]
        assert made.scheme == "attention-tdpbf16ps-32"
        first, *_ = made.kernel.body
        assert isinstance(first, For)
        assert first.kind is LoopKind.PARALLEL
        (scope,) = (
            stmt.body
            for stmt in walk_stmts(made.kernel.body)
            if isinstance(stmt, Local) and stmt.buffer.name == "tiles"
        )
        names = instructed(scope)
        assert names[0] == "ldtilecfg_16_16_16_64_64"
        assert names[-1] == "tilerelease"
        assert {name.split("_")[0] for name in names[1:-1]} == {"tdpbf16ps"}
        loops = [stmt for stmt in walk_stmts(scope) if isinstance(stmt, For)]
        assert all(loop.kind is not LoopKind.PARALLEL for loop in loops)


@pytest.mark.parametrize(
    ("options", "ways"),
    [
        ({}, {"turn", "weave"}),
        ({"turned": True}, {"weave"}),
        ({"joined": True}, {"turn", "weave"}),
    ],
)
def test_how_factors_are_laid_out(options: dict[str, object], ways: set[str]) -> None:
    made = kernels(task_of(2, 40, 64, 32, 32, machine=TILES, **options))[0]
    names = {name.split("_")[0] for name in instructed(made.kernel.body)}
    assert names & {"turn", "weave"} == ways


def across(task: Task) -> Task:
    """The task with its values the other way in memory: those of an element side by side."""
    *before, values = (each for each in task.inputs if each.dtype is _TYPE)
    _, keys, columns = values.shape
    turned = replace(values, strides=(keys * columns, 1, keys))
    inputs = tuple(turned if each is values else each for each in task.inputs)
    assert len(before) == 2
    return replace(task, inputs=inputs)


def test_values_across_are_turned(tmp_path: Path) -> None:
    for machine in (TILES, PAIRS) if thorough(__name__) else (TILES,):
        task = across(task_of(2, 20, 37, 16, 48, scale=512.0, machine=machine))
        wanted, found = results(task, chosen_keys(task), tmp_path, machine)
        for got in found:
            np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
        made = kernels(task)[0]
        assert {name.split("_")[0] for name in instructed(made.kernel.body)} >= {"turn"}
        assert "weave_pairs_16" not in instructed(made.kernel.body)


def test_where_pairs_are_not_multiplied() -> None:
    sizes = (2, 40, 48, 32, 32)
    task = task_of(*sizes, machine=TILES)
    assert "weights would be rounded" in refusal(propose, replace(task, exact=True))
    assert "fewer than 8 queries" in refusal(propose, task_of(2, 4, 48, 32, 32, machine=TILES))
    assert "no bf16" in refusal(propose, task_of(*sizes, machine=TILES, dtype=DType.F16))
    assert "no instruction" in refusal(propose, task_of(*sizes, machine="x86-avx512"))
    odd = refusal(propose, task_of(2, 40, 48, 32, 31, machine=PAIRS))
    assert "no multiple of 4" in odd


def test_tiles_or_pairs_by_what_they_cost() -> None:
    sizes = (12, 197, 197, 64, 64)
    assert alternatives(task_of(*sizes, machine=TILES))[0].name == "attention-tdpbf16ps-32"
    assert alternatives(task_of(*sizes, machine=PAIRS))[0].name.startswith("attention-vdpbf16ps-")
    # This core takes 4.5 cycles for each of these instructions.
    assert alternatives(task_of(*sizes, machine="golden-cove"))[0].name.startswith("attention-5")


def test_keys_are_turned_as_they_are_stored() -> None:
    """The op moves keys when it is expanded, which was after values were rounded."""
    net = Net()
    parts = [
        net.op(
            "Transpose",
            net.op("Reshape", net.dense(net.input(1, 40, 32), 64), shape=(0, 0, 2, 32)),
            perm=(0, 2, 1, 3),
        )
        for _ in range(3)
    ]
    compiled = Compiled(net.graph(net.op("Attention", *parts)))
    plan = compiled.plan(target=TILES, precision="bfloat16")
    schemes = [step.implementation.scheme for step in plan.steps if step.implementation]
    assert schemes.count("attention-tdpbf16ps-32") == 1
