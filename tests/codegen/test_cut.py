"""Kernels cut into parts compute what they compute whole, however many parts there are."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import STANDARDS, STRICT, Case, check, program_of, write
from tests.turns import a_few
from weft.codegen.emit import emit
from weft.codegen.flavours import FLAVOURS
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import index as number
from weft.plan.program import CallStep, ExternFunction, FormalParameter, Program
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.threads import Threads

F32, I64 = DType.F32, DType.I64
PARALLEL, SERIAL = LoopKind.PARALLEL, LoopKind.SERIAL


def over(var: str, start: int, stop: int, *body: Stmt, kind: LoopKind = PARALLEL) -> For:
    return For(var, number(start), number(stop), body, kind)


def load(buffer: str, *index: Expr) -> Load:
    return Load(buffer, index, F32)


def plus(lhs: Expr, rhs: Expr) -> Expr:
    return Binary("add", lhs, rhs)


def again(buffer: str, *index: Expr) -> Store:
    """Counts how often a place is visited."""
    return Store(buffer, index, plus(load(buffer, *index), Const(1.0, F32)))


def case(name: str, params: Sequence[Buffer], *body: Stmt) -> Case:
    generator = np.random.default_rng(0)
    arrays = {
        each.name: generator.standard_normal(each.shape).astype(np.float32)
        for each in params
        if each.access is Access.READ
    }
    return Case(Kernel(name, tuple(params), body), arrays)


def counted(
    shape: Sequence[int], starts: Sequence[int] | None = None, order: Sequence[int] = ()
) -> Case:
    """Visits every point of a box, perfectly nested; in order, the outermost loop first."""
    starts = starts or [0] * len(shape)
    names = [f"i{axis}" for axis in range(len(shape))]
    stops = [start + extent for start, extent in zip(starts, shape, strict=True)]
    body: Stmt = again("y", *map(Var, names))
    for axis in reversed(order or range(len(shape))):
        body = over(names[axis], starts[axis], stops[axis], body)
    return case("counted", [Buffer("y", F32, tuple(stops), Access.WRITE)], body)


def reduced() -> Case:
    """Sums of rows: a local and a serial loop inside."""
    at = (Var("i"), Var("j"))
    total = Store("total", (), plus(load("total"), load("x", *at, Var("k"))))
    inner = (
        Store("total", (), Const(0.0, F32)),
        over("k", 0, 6, total, kind=SERIAL),
        Store("y", at, load("total")),
    )
    local = Local(Buffer("total", F32, (), Access.LOCAL), inner)
    params = [Buffer("x", F32, (5, 3, 6)), Buffer("y", F32, (5, 3), Access.WRITE)]
    return case("reduced", params, over("i", 0, 5, over("j", 0, 3, local)))


def vectors() -> Case:
    """Eight lanes, at addresses that share a pointer."""
    at = (Var("i"), Var("j"), Var("v"))
    value = plus(plus(load("x", *at), load("x", Var("i"), plus(Var("j"), number(1)), Var("v"))), (
        load("x", Var("i"), plus(Var("j"), number(2)), Var("v"))
    ))  # fmt: skip
    lanes = over("v", 0, 8, Store("y", at, value), kind=LoopKind.VECTOR)
    params = [Buffer("x", F32, (7, 5, 8)), Buffer("y", F32, (7, 3, 8), Access.WRITE)]
    return case("vectors", params, over("i", 0, 7, over("j", 0, 3, lanes)))


def many() -> Case:
    """Blocks, the rest of them, a statement that is no loop, and one that is not parallel."""
    at = (Var("i"),)
    double = Store("y", at, plus(load("x", *at), load("x", *at)))
    body = (
        over("i", 0, 8, double),
        Store("y", (number(8),), load("x", number(0))),
        over("i", 9, 12, double, kind=SERIAL),
        over("i", 12, 17, double),
    )
    return case("many", [Buffer("x", F32, (17,)), Buffer("y", F32, (17,), Access.WRITE)], *body)


def dependent() -> Case:
    """The second loop reads backwards what the first one wrote, and waits for it."""
    first = Store("y", (Var("i"),), load("x", Var("i")))
    back = Binary("sub", number(9), Var("i"))
    second = Store("z", (Var("i"),), load("y", back))
    params = [Buffer("x", F32, (10,)), *(Buffer(n, F32, (10,), Access.WRITE) for n in "yz")]
    return case("dependent", params, over("i", 0, 10, first), over("i", 0, 10, second))


def below() -> Case:
    """A parallel loop below a serial one that carries something."""
    inner = over("i", 0, 4, Store("y", (Var("i"),), plus(load("y", Var("i")), load("x", Var("k")))))
    params = [Buffer("x", F32, (3,)), Buffer("y", F32, (4,), Access.WRITE)]
    return case("below", params, over("k", 0, 3, inner, kind=SERIAL))


def scratched() -> Case:
    """Every iteration fills scratch memory and reads it backwards."""

    def nest(scratch: str, start: int, stop: int) -> For:
        fill = Store(scratch, (Var("k"),), load("x", Var("i"), Var("k")))
        back = Binary("sub", number(4), Var("k"))
        empty = Store("y", (Var("i"), Var("k")), load(scratch, back))
        inner = (over("k", 0, 5, each, kind=SERIAL) for each in (fill, empty))
        return over("i", start, stop, *inner)

    params = [
        Buffer("x", F32, (40, 5)),
        Buffer("s", F32, (5,), Access.SCRATCH),
        Buffer("t", F32, (5,), Access.SCRATCH),
        Buffer("y", F32, (40, 5), Access.WRITE),
    ]
    return case("scratched", params, nest("s", 0, 20), nest("t", 20, 40))


def staged() -> Case:
    """Parts read what others put into scratch memory; a serial statement comes between."""
    fill = Store("s", (Var("i"),), load("x", Var("i")))
    twice = Store("s", (number(3),), plus(load("s", number(3)), load("s", number(16))))
    back = load("s", Binary("sub", number(16), Var("i")))
    params = [
        Buffer("x", F32, (17,)),
        Buffer("s", F32, (17,), Access.SCRATCH),
        Buffer("y", F32, (17,), Access.WRITE),
        Buffer("z", F32, (17,), Access.WRITE),
    ]
    return case(
        "staged",
        params,
        over("i", 0, 17, fill),
        twice,
        over("i", 0, 17, Store("y", (Var("i"),), back)),
        over("i", 0, 17, Store("z", (Var("i"),), plus(back, back))),
    )


def shadowing() -> Case:
    """Names that the cut itself would like to have."""
    at = (Var("first"), Var("at"))
    names = ("part", "parts", "last")
    params = [*(Buffer(each, F32, (3, 4)) for each in names)]
    params.append(Buffer("first_2", F32, (3, 4), Access.WRITE))
    value = plus(plus(load("part", *at), load("parts", *at)), load("last", *at))
    body = over("first", 0, 3, over("at", 0, 4, Store("first_2", at, value)))
    return case("shadowing", params, body)


CASES = [
    counted([1]),
    counted([2]),
    counted([13]),
    counted([13], [4]),
    counted([3, 5]),
    counted([3, 5, 2], [1, 0, 7]),
    counted([200, 3]),
    *(counted([each, 5], order=[1, 0]) for each in (2, 6, 7)),
    counted([6, 5, 4], [1, 2, 3], order=[1, 0, 2]),
    counted([14, 2, 3], [1, 2, 3], order=[2, 1, 0]),
    reduced(),
    vectors(),
    many(),
    dependent(),
    below(),
    scratched(),
    staged(),
    shadowing(),
]


@pytest.mark.parametrize("parts", [2, 3, 7])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_parts_compute_what_the_whole_does(flavour: str, parts: int, tmp_path: Path) -> None:
    check(CASES, flavour, tmp_path, parts=parts)


Runner = Callable[[int, Callable[[int, int], None]], None]


def backwards(parts: int, task: Callable[[int, int], None]) -> None:
    for part in reversed(range(parts)):
        task(part, parts)


def fewer(parts: int, task: Callable[[int, int], None]) -> None:
    count = max(1, parts - 1)
    for part in range(count):
        task(part, count)


def alone(parts: int, task: Callable[[int, int], None]) -> None:
    task(0, 1)


_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, _TASK, ctypes.c_void_p)


@pytest.mark.parametrize("runner", [backwards, fewer, alone, None])
def test_threads_of_the_caller(runner: Runner | None, tmp_path: Path) -> None:
    """Any pool will do that keeps to what the header says; none at all will do too."""
    program, data, written = program_of(CASES, parts=5)
    library = build(program, "c99", cache=Cache(tmp_path))
    wanted = np.zeros(written, np.uint8)
    library(data, out=(wanted,))
    seen: list[int] = []

    def run(pool: int, parts: int, task: Callable[..., None], context: int) -> None:
        assert pool == 77
        seen.append(parts)
        assert runner is not None
        runner(parts, lambda part, count: task(context, part, count))

    callback = _RUN(run)
    threads = Threads(4, ctypes.cast(callback, ctypes.c_void_p), 77)
    got, arena = np.zeros(written, np.uint8), np.zeros(program.arena_bytes + 64, np.uint8)
    function = ctypes.CDLL(str(library.path))[library.files.interface.function]
    function.argtypes = [ctypes.c_void_p] * 5
    memory = arena.ctypes.data + -arena.ctypes.data % 64
    given = None if runner is None else ctypes.addressof(threads)
    arguments = [data.ctypes.data, got.ctypes.data, memory, data.ctypes.data + 64, given]
    assert function(*arguments) == 0
    assert got.tobytes() == wanted.tobytes()
    stages = sum(len(step.parts) for step in program.steps if isinstance(step, CallStep))
    assert stages > len(CASES)
    assert seen == ([] if runner is None else [4] * stages)


def test_text() -> None:
    """The range of two loops in one; the flat loop's body is that of the whole kernel."""
    program, _, _ = program_of([reduced()], parts=6)
    ((_, source),) = emit(program, "c99").sources
    assert (
        """\
static WEFT_APART void k0(const float *restrict x, float *restrict y, int part, int parts)
{
    {
        const int first = weft_first(15, part, parts);
        const int last = weft_first(15, part + 1, parts);
        for (int at = first; at < last; ++at) {
            const int i = at / 3;
            const int j = at % 3;
            float total = 0.0f;
            for (int k = 0; k < 6; ++k) {
                total += x[i * 18 + j * 6 + k];
            }
            y[i * 3 + j] = total;
        }
    }
}
"""
        in source
    )
    assert (
        """\
struct k0_arguments {
    const float *x;
    float *y;
};

static void k0_task(void *context, int part, int parts)
{
    const struct k0_arguments *const to = (const struct k0_arguments *)context;
    k0(to->x, to->y, part, parts);
}
"""
        in source
    )
    assert "        weft_fork(threads, 6, k0_task, &arguments);\n" in source


def test_scratch_of_each_part() -> None:
    program, _, _ = program_of([scratched()], parts=6)
    ((_, source),) = emit(program, "c99").sources
    flat = " ".join(source.split())
    scratch = "to->s + (ptrdiff_t)part * 16, to->t + (ptrdiff_t)part * 16"
    assert f"k0(to->x, {scratch}, to->y, part, parts);" in flat


def test_stages() -> None:
    """What several statements use is shared, and they wait for one another."""
    program, _, _ = program_of([staged()], parts=6)
    (step,) = program.steps
    assert isinstance(step, CallStep)
    small = replace(program, steps=(replace(step, parts=(6, 1, 6)), replace(step, parts=(1,))))
    ((_, source),) = emit(small, "c99").sources
    assert "    k0(to->x, to->s, to->y, to->z, part, parts, to->stages);\n" in source
    assert "    if ((stages & 4) != 0) {\n" in source
    assert (
        """\
        arguments.stages = 1;
        weft_fork(threads, 6, k0_task, &arguments);
        arguments.stages = 2;
        weft_fork(threads, 1, k0_task, &arguments);
        arguments.stages = 4;
        weft_fork(threads, 6, k0_task, &arguments);
    }
"""
        in source
    )
    assert source.count(", 0, 1, 7);") == 1


def test_leftovers_go_to_the_last_parts_and_then_to_the_first() -> None:
    program, _, _ = program_of([many()], parts=2)
    ((_, source),) = emit(program, "c99").sources
    assert "const int first = weft_first(8, part, parts);" in source
    assert "const int first = 12 + 5 - weft_first(5, parts - part, parts);" in source
    assert "const int last = 12 + 5 - weft_first(5, parts - part - 1, parts);" in source


def test_one_thread_changes_nothing() -> None:
    """No parts, no helpers, no type in the header."""
    files = emit(program_of([reduced(), many()])[0], "gnu")
    text = "".join([files.header[1], *(text for _, text in files.sources)])
    assert "part" not in text
    assert "threads" not in text


def test_a_call_that_is_not_worth_it_is_direct() -> None:
    program, _, _ = program_of([reduced()], parts=6)
    (step,) = program.steps
    small = replace(program, steps=(step, replace(step, parts=(1,))))
    ((_, source),) = emit(small, "c99").sources
    flat = " ".join(source.split())
    assert flat.count("weft_fork(threads, 6, k0_task") == 1
    assert flat.count("(float *)result, 0, 1);") == 1
    never = replace(program, steps=(replace(step, parts=(1,)),))
    ((_, source),) = emit(never, "c99").sources
    assert "part" not in source
    assert "(void)threads;" in source


def test_given_c_is_never_cut() -> None:
    program, _, _ = program_of([reduced()], parts=2)
    body = ExternFunction(
        "k0", (FormalParameter("x", F32, False), FormalParameter("y", F32, True)), ""
    )
    with pytest.raises(InternalError, match="cannot be cut"):
        emit(replace(program, functions=(body,)), "c99")


@pytest.mark.parametrize("sources", [1, 0])
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("flavour", a_few(FLAVOURS, 1))
def test_compilers_warn_of_nothing(
    flavour: str, compiler: str, sources: int, tmp_path: Path
) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program, _, _ = program_of(CASES, parts=3)
    names = write(emit(program, flavour, "arrays", sources), tmp_path)
    flags = [f"-std={STANDARDS[flavour]}", *STRICT, "-O2", "-c"]
    command = [compiler, *flags, *(name.name for name in names)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def two_programs() -> list[Program]:
    return [program_of([reduced()], name, parts=2)[0] for name in ("one", "two")]


def test_nets_share_one_type_also_in_cplusplus(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("no C++ compiler")
    for program in two_programs():
        write(emit(program, "c89"), tmp_path)
    (tmp_path / "main.cc").write_text(
        '#include "one.h"\n#include "two.h"\n'
        "int run(const weft_threads *threads)\n"
        "{\n    return one_run(0, 0, 0, threads) + two_run(0, 0, 0, threads);\n}\n"
    )
    flags = ["-std=c++11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, "main.cc"], cwd=tmp_path, check=True)
