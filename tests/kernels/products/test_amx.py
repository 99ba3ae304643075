"""Layers of bfloat16 by AMX's tiles: the plain loops' sums, and where they are taken."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.test_tiles import MODELLED
from tests.kernels.batch import Trial, run
from tests.kernels.products.test_pairs import CASES as PAIRS
from tests.kernels.products.test_pairs import Narrow, convolution, product, task_of
from tests.kernels.tasks import arrays_of, computed, memory_of, offers, refusal
from tests.turns import a_few
from weft.api import Net as Compiled
from weft.kernels import nest
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.products.amx import write as write_form
from weft.kernels.products.amx_choice import propose
from weft.kernels.products.amx_forms import Form
from weft.kernels.products.amx_lines import Lines, lines_of
from weft.kernels.selection import usual
from weft.kernels.task import Task
from weft.kernels.writer import integer
from weft.loops.nodes import Const, Expr, For, Instruct, Local, LoopKind, Stmt
from weft.loops.simplify import simplify
from weft.loops.statements import walk_stmts
from weft.loops.walk import substitute
from weft.plan.implementation import Implementation

MACHINE = "sapphire-rapids"
OTHERS = ("dilated, quarter", "groups", "runs, rows apart", "vector")
"""Cases that tiles do not compute."""
Case = Callable[[], tuple[Narrow, str]]
CASES: dict[str, Case] = {
    **{name: case for name, case in PAIRS.items() if name not in OTHERS},
    "tiles of two sizes": product((71,), 64, 48),
    "strided pointwise": convolution(32, 40, (9, 13), (1, 1), strides=(2, 2)),
    "unpadded": convolution(16, 32, (8, 20), (3, 3), residual=True),
    "images in bands": convolution(6, 36, (6, 19), (3, 3), images=2, pads=(1,) * 4),
}


def lines_for(task: Task) -> Lines:
    parts = contraction_of(task)
    assert isinstance(parts, Contraction)
    lines = lines_of(parts)
    assert isinstance(lines, Lines)
    return lines


def kernels(task: Task) -> list[Implementation]:
    """All that is offered, and the same in smaller shares and in one."""
    lines = lines_for(task)
    made = [each.make() for each in offers(propose, task)]
    unit = [False, True] if lines.height else [False]
    inside = [False] if lines.runs else [False, True]
    forms = [Form(apart, 2 if apart else 1, all) for apart in unit for all in inside]
    if lines.runs and lines.height:
        forms.append(Form(apart=True, share=lines.rows + lines.rows % 2))  # one band
    made += [write_form(lines, form) for form in forms]
    found = [each for each in made if each is not None]
    assert len(found) == len(made) > 1
    return found


def whole_numbers(task: Task) -> dict[str, np.ndarray]:
    memory = memory_of(task)
    random = np.random.default_rng(1)
    for name, buffer in zip(task.values, task.inputs, strict=True):
        if buffer.name not in task.arrays:
            whole = random.integers(-4, 5, memory[name].shape)
            memory[name] = whole.astype(buffer.dtype.numpy)
    return memory


@pytest.mark.parametrize("case", a_few(CASES))
def test_same_sums_as_plain_loops(case: str, tmp_path: Path) -> None:
    """By the interpreter, and in C over the model of the instructions."""
    task = task_of(*CASES[case](), MACHINE)
    memory = whole_numbers(task)
    wanted = computed(task, nest.generate(task), memory)
    made = kernels(task)
    for each in made:
        np.testing.assert_array_equal(computed(task, each, memory), wanted)
    trials = [Trial(each.scheme, each.kernel, tuple(arrays_of(each, memory))) for each in made]
    flags = ("-O1", "-fsanitize=address,undefined", *MODELLED)
    for got in run(trials, tmp_path, ("gcc",), flags):
        np.testing.assert_array_equal(got[: wanted.size], wanted)


def holding(stmts: tuple[Stmt, ...]) -> list[tuple[Stmt, ...]]:
    """What stands in the scope of tiles."""
    return [
        stmt.body
        for stmt in walk_stmts(stmts)
        if isinstance(stmt, Local) and stmt.buffer.name == "tiles"
    ]


@pytest.mark.parametrize("case", CASES)
def test_each_thread_configures_its_tiles_and_releases_them(case: str) -> None:
    for made in kernels(task_of(*CASES[case](), MACHINE)):
        scopes = holding(made.kernel.body)
        named = [s for s in walk_stmts(made.kernel.body) if isinstance(s, Instruct)]
        inside = [s for scope in scopes for s in walk_stmts(scope) if isinstance(s, Instruct)]
        assert named == inside != []
        for scope in scopes:
            first = next(stmt for stmt in walk_stmts(scope) if isinstance(stmt, Instruct))
            assert first.name.startswith("ldtilecfg")
            last = scope[-1]
            assert isinstance(last, Instruct)
            assert last.name == "tilerelease"
            loops = [stmt for stmt in walk_stmts(scope) if isinstance(stmt, For)]
            assert all(loop.kind is not LoopKind.PARALLEL for loop in loops)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        (product((197,), 768, 3072), "tdpbf16ps-29x32"),
        (convolution(64, 256, (56, 56), (1, 1)), "tdpbf16ps-32x32"),
        (convolution(256, 256, (14, 14), (3, 3), pads=(1,) * 4), "tdpbf16ps-rows14-2x14x32"),
        (convolution(512, 512, (7, 7), (3, 3), pads=(1,) * 4), "tdpbf16ps-rows7-through-31x32"),
        (convolution(256, 512, (28, 28), (1, 1), strides=(2, 2)), "tdpbf16ps-2x14x32"),
        (product((2,), 64, 64), "tiled-"),
        (convolution(3, 64, (20, 20), (3, 3), dilations=(2, 2)), "tiled-"),
    ],
)
def test_what_is_chosen(case: Case, name: str) -> None:
    assert usual(task_of(*case(), MACHINE)).name.startswith(name)


@pytest.mark.parametrize("given", a_few([True, False], 1))
def test_exported_for_processes_with_and_without_tiles(given: bool, tmp_path: Path) -> None:
    net = Narrow()
    wide = net.wide(net.image(1, 32, 14, 14))
    conv = net.op("Conv", wide, net.weights(64, 32, 3, 3), kernel=(3, 3), pads=(1,) * 4)
    point = net.wide(net.stored(net.op("Relu", conv)))
    made = net.op("Conv", point, net.weights(96, 64, 1, 1), net.constant(96), kernel=(1, 1))
    Compiled(net.graph(made)).export(tmp_path, target=MACHINE)
    model = MODELLED if given else (*MODELLED, "-UWEFT_TILES", "-DWEFT_TILES=0")
    command = ["gcc", "-std=gnu11", "-O1", "-w", *model, "net_test.c", "net.c", "-lm", "-o", "test"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert "weft_instr_tdpbf16ps" in (tmp_path / "net.c").read_text()
    done = subprocess.run(["./test"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert "largest difference 0," in done.stdout


def test_rounding_to_nearest_is_exact() -> None:
    task = replace(task_of(*CASES["pointwise"](), MACHINE), exact=True)
    assert offers(propose, task)


def test_refusals() -> None:
    def why(case: Case, machine: str = MACHINE) -> str:
        return refusal(propose, task_of(*case(), machine=machine))

    assert why(PAIRS["rows"], "golden-cove") == "the target has no tiles for bf16"
    assert why(PAIRS["vector"]) == "it has one position"
    assert why(PAIRS["groups"]) == "positions do not share their weights"
    assert why(PAIRS["runs, rows apart"]) == "rows of its window lie apart"
    assert why(PAIRS["dilated, quarter"]) == "the channels of neighbouring columns are no run"
    assert why(convolution(4, 18, (5, 5), (3, 3))) == "the output channels are no multiple of 4"


def test_weights_beyond_the_caches_are_read_once(tmp_path: Path) -> None:
    """Tiles of two sizes go through a block of channels one after the other."""
    task = task_of(*product((45,), 1024, 640)(), MACHINE)
    trials: list[Trial] = []
    # Blocks of channels are enough for one thread; for many, tiles are shared, too.
    for threads, loops in ((1, 1), (16, 2)):
        made = write_form(lines_for(replace(task, threads=threads)), Form(apart=False, share=1))
        blocks = [s for s in made.kernel.body if isinstance(s, For) and s.var == "block"]
        assert [len(blocks), len(made.kernel.body)] == [loops, loops]
        assert all(loop.kind is LoopKind.PARALLEL for loop in blocks)
        names = [s.name for s in walk_stmts(made.kernel.body) if isinstance(s, Instruct)]
        assert sum(name.startswith("ldtilecfg") for name in names) == 2
        trials.append(Trial(f"{threads}", made.kernel, tuple(arrays_of(made, whole_numbers(task)))))
    once, twice = run(trials, tmp_path, ("gcc",), ("-O1", *MODELLED))
    np.testing.assert_array_equal(once, twice)
    assert np.ptp(once) > 100


def fetched(stmts: Sequence[Stmt], at: Mapping[str, Expr]) -> Iterator[tuple[int, int, range]]:
    """In order: the block that each product uses, and the rows of what other weights it fetches."""
    for stmt in stmts:
        match stmt:
            case For(var, start, stop, body):
                first, end = (simplify(substitute(each, at)) for each in (start, stop))
                assert isinstance(first, Const)
                assert isinstance(end, Const)
                for value in range(int(first.value), int(end.value)):
                    yield from fetched(body, {**at, var: integer(value)})
            case Local(_, body):
                yield from fetched(body, at)
            case Instruct(name, (_, _, used, _, ahead, _)):
                count = int(name.split("_")[-1])
                block, after, first = (
                    simplify(substitute(each, at))
                    for each in (used.index[0], ahead.index[0], ahead.index[2])
                )
                assert isinstance(block, Const)
                assert isinstance(after, Const)
                assert isinstance(first, Const)
                begin = int(first.value)
                yield int(block.value), int(after.value), range(begin, begin + count)
            case _:
                pass


@pytest.mark.parametrize(
    "case",
    [
        convolution(256, 96, (7, 7), (3, 3), pads=(1,) * 4),
        convolution(256, 96, (14, 14), (3, 3), pads=(1,) * 4),
        convolution(512, 128, (28, 28), (1, 1)),
        convolution(512, 128, (14, 14), (1, 1), strides=(2, 2)),
        product((45,), 1024, 160),
    ],
)
def test_all_weights_of_the_next_block_are_fetched(case: Case) -> None:
    """While a block is used, by whichever tiles; the last one has no next."""
    task = task_of(*case(), MACHINE)
    made = usual(task).make()
    assert made is not None
    assert made.scheme.startswith("tdpbf16ps")
    (weights,) = (each for each in made.kernel.params if len(each.shape) == 5)
    count, taps, rows, *_ = weights.shape
    found: dict[int, set[int]] = {}
    for block, after, lines in fetched(made.kernel.body, {}):
        assert after == min(block + 2, count - 2)
        found.setdefault(block, set()).update(lines)
    # Two halves of a block lie one behind the other.
    wanted = set(range(2 * taps * rows))
    assert found == dict.fromkeys(range(0, count, 2), wanted)
