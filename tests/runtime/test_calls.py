"""Calls in C: what they take, what they leave to Python, and that nothing stays behind."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.dtypes import DType
from weft.errors import UserError
from weft.plan.program import Port
from weft.runtime import calls, native
from weft.runtime.calls import Call, call_in_c, in_python
from weft.runtime.compiler import compile_object, find_compiler, link_library
from weft.runtime.library import Library

CALLS = 10_000
GIVEN = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)

pytestmark = pytest.mark.skipif(
    calls._native() is None, reason="this interpreter calls networks from Python"
)


@pytest.fixture(scope="module")
def library() -> Library:
    """Two inputs, two outputs."""
    net = weft.trace(lambda a, b: (a + b, weft.ops.relu(a)), "f32[2,3]", "f32[2,3]")
    return net.compile(threads=1).library


def in_c(library: Library, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """What the part in C answers; ``None`` where Python has to look at the call."""
    return library._call(inputs, out, library._arenas.addresses or library._arena(), library._fixed)


def test_calls_of_arrays_are_made_in_c(library: Library) -> None:
    made = in_c(library, (GIVEN, GIVEN))
    assert type(made) is tuple
    assert [(each.dtype, each.shape) for each in made] == [(np.dtype("f4"), (2, 3))] * 2
    np.testing.assert_array_equal(made[0], GIVEN + GIVEN)
    np.testing.assert_array_equal(made[1], np.maximum(GIVEN, 0))
    out = np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)
    assert in_c(library, (GIVEN, GIVEN), out) is out
    listed = in_c(library, (GIVEN, GIVEN), list(out))
    assert listed[0] is out[0]
    assert listed[1] is out[1]
    np.testing.assert_array_equal(out, made)


@pytest.mark.parametrize("dtype", [DType.F64, DType.F16, DType.BF16, DType.I64, DType.U8])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 1, 3)])
def test_types_and_shapes(dtype: DType, shape: tuple[int, ...]) -> None:
    text = f"{dtype.value}[{','.join(map(str, shape))}]"
    library = weft.trace(lambda x: x + x, text).compile(threads=1).library
    given = np.ones(shape, dtype.numpy)
    (made,) = in_c(library, (given,))
    assert made.dtype == given.dtype
    np.testing.assert_array_equal(made, given + given)


def read_only() -> np.ndarray:
    array = np.empty((2, 3), np.float32)
    array.flags.writeable = False
    return array


class Derived(np.ndarray):
    """NumPy's arrays may be derived from."""


@pytest.mark.parametrize(
    "given",
    [
        GIVEN.astype(np.float64),
        GIVEN.astype(np.int32),
        GIVEN.astype(ml_dtypes.bfloat16),
        GIVEN.astype(">f4"),
        GIVEN[:1],
        GIVEN.reshape(6),
        GIVEN.reshape(1, 2, 3),
        np.asfortranarray(GIVEN),
        np.zeros((2, 6), np.float32)[:, ::2],
        np.broadcast_to(np.float32(0), (2, 3)),
        GIVEN.view(Derived),
        memoryview(GIVEN),
        bytes(24),
        GIVEN.tolist(),
        None,
    ],
)
def test_what_is_left_to_python(library: Library, given: Any) -> None:
    room = np.empty((2, 3), np.float32)
    assert in_c(library, (GIVEN, given)) is None
    assert in_c(library, (given, GIVEN)) is None
    if given is not None:
        assert in_c(library, (GIVEN, GIVEN), (room, given)) is None


def test_outputs_that_are_left_to_python(library: Library) -> None:
    memory = np.zeros(18, np.float32)
    first, overlapping, second = (memory[n : n + 6].reshape(2, 3) for n in (0, 3, 6))
    assert in_c(library, (GIVEN, GIVEN), (first, second)) is not None
    outs: Sequence[Any] = (
        (first, overlapping),
        (first, first),
        (first, GIVEN),
        (first, read_only()),
        (first,),
        (first, second, second),
        (),
        first,
        {first.ctypes.data: first},
    )
    for out in outs:
        assert in_c(library, (GIVEN, GIVEN), out) is None
    for inputs in ((), (GIVEN,), (GIVEN,) * 3):
        assert in_c(library, inputs) is None


def test_misaligned_arrays_are_left_to_python(library: Library) -> None:
    memory = np.zeros(64, np.uint8)
    given = memory[-memory.ctypes.data % 4 + 2 :][:24].view(np.float32).reshape(2, 3)
    assert in_c(library, (given, GIVEN)) is None
    with pytest.raises(UserError, match="must be aligned to its elements' 4 bytes"):
        library(given, GIVEN)


@pytest.mark.parametrize("kind", ["new", "tuple", "list", "refused", "overlapping"])
def test_nothing_is_left_behind(library: Library, kind: str) -> None:
    given, room = GIVEN.copy(), (np.empty((2, 3), np.float32), np.empty((2, 3), np.float32))
    inputs = (given, given.T) if kind == "refused" else (given, given)
    outs = {"new": None, "tuple": room, "list": list(room), "overlapping": (room[0], room[0])}
    out = outs.get(kind)
    port = library.outputs[0]
    watched = [given, inputs, *room, room, out, library._fixed, port.dtype.numpy, port.shape]
    watched += [np.empty, np.ndarray]
    wanted = kind not in ("refused", "overlapping")

    def some(number: int) -> tuple[list[int], int]:
        for _ in range(number):
            assert (in_c(library, inputs, out) is not None) == wanted
        counts = [sys.getrefcount(each) for each in watched if each is not None]
        return counts, sys.getallocatedblocks()

    some(100)
    before, blocks = some(100)
    after, more = some(CALLS)
    assert after == before
    assert more - blocks < CALLS // 10
    # Nobody holds a view of the memory.
    given.resize((3, 2), refcheck=False)


def test_eight_threads(library: Library) -> None:
    def some(number: int) -> bool:
        given = np.full((2, 3), number, np.float32)
        room = np.empty((2, 3), np.float32), np.empty((2, 3), np.float32)
        found = True
        for _ in range(500):
            new = in_c(library, (given, GIVEN))
            in_c(library, (given, GIVEN), room)
            found &= np.array_equal(new[0], given + GIVEN) and np.array_equal(room, new)
        return found

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(some, range(8)))


# --- the interpreter's lock --------------------------------------------------------------------

HOLDS = """\
#include <time.h>
extern int PyGILState_Check(void);
/* Runs for x microseconds, and tells whether it has the interpreter's lock. */
int run(const float *x, float *y)
{
    struct timespec first, now;
    y[0] = (float)PyGILState_Check();
    clock_gettime(CLOCK_MONOTONIC, &first);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((float)(now.tv_sec - first.tv_sec) * 1e6f
             + (float)(now.tv_nsec - first.tv_nsec) * 1e-3f < x[0]);
    return 0;
}
"""


@pytest.fixture(scope="module")
def holds(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("holds")
    source, compiler = folder / "holds.c", find_compiler()
    source.write_text(HOLDS)
    compile_object(compiler, ["-std=gnu11", "-O1"], source, folder / "holds.o")
    link_library(compiler, [folder / "holds.o"], folder / "holds.so")
    return ctypes.CDLL(str(folder / "holds.so"))


def lock_kept(call: Call, microseconds: float, runs: int) -> list[bool]:
    """Which of some runs had the interpreter's lock."""
    given, kept = np.array([microseconds], np.float32), list[bool]()
    for _ in range(runs):
        made = call((given,), None, (), [])
        assert made is not None
        kept.append(bool(made[0][0]))
    return kept


def test_only_short_runs_keep_the_lock(holds: ctypes.CDLL) -> None:
    function = ctypes.cast(holds.run, ctypes.c_void_p).value or 0
    ports = [Port("x", DType.F32, (1,))], [Port("y", DType.F32, (1,))]
    long = call_in_c(function, *ports, 0)
    assert not any(lock_kept(long, 100, 70))
    call = call_in_c(function, *ports, 0)
    kept = lock_kept(call, 0, 640)
    assert not kept[0]
    assert any(kept)
    # A network whose runs take longer later is found out.
    assert not any(lock_kept(call, 100, 130)[64:])


# --- where there is no call in C ---------------------------------------------------------------


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing() -> None:
        raise UserError("running a network needs a C compiler")

    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "find_compiler", missing)
    assert calls._native.__wrapped__() is None


@pytest.mark.parametrize("kind", ["free threads", "another interpreter", "another layout"])
def test_other_interpreters(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    if kind == "free threads":
        monkeypatch.setattr(sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    elif kind == "another interpreter":
        monkeypatch.setattr(sys.implementation, "name", "pypy")
    else:
        monkeypatch.setattr(np, "ndarray", Derived)
    assert calls._native.__wrapped__() is None


def test_where_c_cannot_call(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [Port(f"x{n}", DType.F32, (1,)) for n in range(native.MOST_ARGUMENTS)]
    assert call_in_c(0, ports, [], 0) is not in_python
    assert call_in_c(0, ports, [], 1) is in_python
    monkeypatch.setattr(calls, "_native", lambda: None)
    assert call_in_c(0, ports, [], 0) is in_python


@pytest.fixture
def nothing_ahead() -> Iterator[None]:
    """As if no net had been built by this process, and so again afterwards."""
    calls._built_ahead.cache_clear()
    yield
    calls._built_ahead.cache_clear()


def test_built_while_networks_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nothing_ahead: None
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    with calls.prepared_calls():
        pass
    assert calls._built_ahead().future.result(60).parent == tmp_path
    began = list(tmp_path.glob("weft-arrays-*.so"))
    assert len(began) == 1
    written = began[0].stat().st_ino
    assert calls._native.__wrapped__() is not None
    assert began[0].stat().st_ino == written


def test_a_failure_ahead_waits_for_the_first_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nothing_ahead: None
) -> None:
    def missing() -> None:
        raise UserError("running a network needs a C compiler")

    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setattr(native, "find_compiler", missing)
    with calls.prepared_calls():
        pass
    assert calls._built_ahead().future.exception(60) is not None
    assert calls._native.__wrapped__() is None


def test_a_forked_process_does_not_wait_for_a_thread_that_it_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls._built_ahead().future.result(60)
    monkeypatch.setattr(calls._built_ahead(), "future", Future[Path]())
    monkeypatch.setattr(calls, "_SECONDS", 0.01)
    assert calls._native.__wrapped__() is not None
