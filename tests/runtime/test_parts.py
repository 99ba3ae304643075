"""Networks cut into parts: the bits of one thread, whatever else goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.models import networks, tiny
from tests.runtime import cutting
from tests.runtime.standalone import standalone
from tests.runtime.test_sanitizers import DIALECTS, compiler, sample
from tests.turns import a_few, thorough
from weft.api import Net
from weft.codegen.flavours import flavour_named
from weft.codegen.fork import FORK_HELPERS
from weft.plan.program import CallStep
from weft.runtime.build import build
from weft.runtime.compiler import find_compiler, host_flags
from weft.runtime.library import Library
from weft.targets.find import target

CALLERS = 8
NAMES = ["digits", pytest.param("kws_float", marks=tiny.needed)]


@pytest.fixture(autouse=True)
def cut_all(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """However small a kernel is, it is cut where it can be; a cache of its own remembers it."""
    cutting.cut_all(monkeypatch)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path_factory.getbasetemp() / "all-cut"))


def net_of(name: str, rounding: str = "float") -> Net:
    """In float, where quantized networks have enough work for parts, too."""
    return weft.load(networks.path_of(name), rounding=rounding)


def inputs_of(library: Library, count: int) -> list[np.ndarray]:
    (port,) = library.program.inputs
    generator = np.random.default_rng(1)
    return [generator.standard_normal(port.shape).astype(port.dtype.numpy) for _ in range(count)]


def cut_calls(library: Library) -> list[int]:
    steps = library.program.steps
    return [max(step.parts) for step in steps if isinstance(step, CallStep) and max(step.parts) > 1]


@pytest.mark.parametrize("name", networks.every())
def test_the_number_of_threads_lent_does_not_matter(name: str) -> None:
    library = net_of(name).compile(threads=7).library
    assert library._threads is not None
    assert max(cut_calls(library)) > 3
    x = sample(library.program.inputs[0])
    wanted = library(x)[0].tobytes()
    for count in (1, 2, 3, 5):
        library._threads.threads = count
        assert library(x)[0].tobytes() == wanted
    library._fixed[-1] = 0
    assert library(x)[0].tobytes() == wanted


@pytest.mark.parametrize("name", networks.every())
def test_code_for_threads_computes_the_same(name: str) -> None:
    """But for what a compiler contracts here and not there, and what other kernels are chosen."""
    machine = target("host")
    flags = [*host_flags(find_compiler(), flavour_named(machine.flavour)), "-ffp-contract=off"]
    results: set[bytes] = set()
    for threads in (1, 2, 7) if thorough(__name__) else (1, 7):
        program = net_of(name).program(machine, threads=threads, exact=True)
        library = build(program, machine.flavour, flags=flags)
        results.add(library(sample(program.inputs[0]))[0].tobytes())
        assert bool(cut_calls(library)) == (threads > 1)
    assert len(results) == 1


@pytest.mark.thorough
@tiny.needed
@pytest.mark.parametrize("rounding", ["onnx", "litert"])
def test_integers_for_threads_are_the_same(rounding: str) -> None:
    results: set[bytes] = set()
    for threads in (1, 2, 7):
        library = net_of("ic_int8", rounding).compile(threads=threads).library
        results.add(library(sample(library.program.inputs[0]))[0].tobytes())
        assert bool(cut_calls(library)) == (threads > 1)
    assert len(results) == 1


@pytest.mark.parametrize("name", NAMES)
def test_callers_share_the_threads(name: str) -> None:
    """Ten thousand calls from eight threads leave no difference and no leak."""
    library = net_of(name).compile(threads=3).library
    calls = 10_000 if name == "digits" else 1_000
    inputs = inputs_of(library, 16)
    wanted = [library(x)[0].tobytes() for x in inputs]
    assert len(set(wanted)) == len(wanted)
    together = threading.Barrier(CALLERS)

    def call(caller: int) -> int:
        together.wait()
        turns = ((caller + turn) % 16 for turn in range(calls // CALLERS))
        return sum(library(inputs[turn])[0].tobytes() != wanted[turn] for turn in turns)

    with ThreadPoolExecutor(CALLERS) as pool:
        # The first round brings every thread's arena and stack.
        assert sum(pool.map(call, range(CALLERS))) == 0
        before = resident()
        assert sum(pool.map(call, range(CALLERS))) == 0
        assert resident() - before < 2 << 20


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_networks_share_one_pool() -> None:
    libraries = [net_of("digits").compile(threads=count).library for count in (2, 3)]
    pools = {library._threads.pool for library in libraries if library._threads}
    assert len(pools) == 1
    assert [library._threads.threads for library in libraries if library._threads] == [2, 3]


def test_children_have_threads_of_their_own() -> None:
    library = net_of("digits").compile(threads=3).library
    inputs = inputs_of(library, 20)
    wanted = [library(x)[0].tobytes() for x in inputs]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        equal = [library(x)[0].tobytes() for x in inputs] == wanted
        threads = len(os.listdir("/proc/self/task"))
        os.write(writer, bytes([equal, threads]))
        os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 9) == bytes([True, 3])
    os.close(reader)
    assert [library(x)[0].tobytes() for x in inputs] == wanted


def test_the_interpreter_ends_while_threads_wait() -> None:
    script = (
        "import sys, numpy, weft\n"
        "from weft.plan import lowering, work\n"
        "from weft.targets.target import Costs\n"
        "one = Costs(part=1)\n"
        "lowering.parts_of = lambda kernel, threads, _: work.parts_of(kernel, threads, one)\n"
        "run = weft.load(sys.argv[1]).compile(threads=3)\n"
        "(type,) = run.net.inputs.values()\n"
        "run(numpy.zeros(type.dims, numpy.float32))\n"
    )
    command = [sys.executable, "-c", script, str(networks.path_of("digits"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("name", networks.every())
@pytest.mark.parametrize("dialect", a_few(["host", "c89"], 1))
def test_parts_do_not_race(name: str, dialect: str, tmp_path: Path) -> None:
    """The network and the pool under the thread sanitizer."""
    machine, flavour = DIALECTS[dialect]
    net = net_of(name)
    # Unoptimized, as in tests of the other sanitizers.
    flags = ["-O0", "-fsanitize=thread", *(["-march=native"] if machine == "host" else [])]
    gcc = compiler("gcc").command
    run = standalone(net.program(machine, "network", threads=4), flavour, tmp_path, gcc, flags)
    x = sample(run.program.inputs[0])
    found = run(x)
    (tmp_path / "alone").mkdir()
    alone = standalone(net.program(machine, "network"), flavour, tmp_path / "alone", gcc, flags[:1])
    assert np.allclose(found, alone(x), rtol=1e-4, atol=1e-5)


def test_the_sanitizer_sees_parts_that_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above could fail: where every other part does all, it does."""
    text = FORK_HELPERS["first"]
    spoilt = text.replace("things / parts * part + (before > 0 ? before : 0)", "SHARE")
    assert spoilt != text
    spoilt = spoilt.replace("SHARE", "part % 2 == 0 ? 0 : things + 0 * before")
    monkeypatch.setitem(FORK_HELPERS, "first", spoilt)
    made = net_of("digits").program("generic", "network", threads=4)
    flags = ["-O1", "-fsanitize=thread"]
    run = standalone(made, "c99", tmp_path, compiler("gcc").command, flags)
    with pytest.raises(AssertionError, match="data race"):
        run(sample(made.inputs[0]))
