"""Times generated code beside onnxruntime and other generators of C, in one run.

    python -m bench.compare                       the usual networks
    python -m bench.compare --names ic kws        these only
    python -m bench.compare --clock wall          wall-clock time, for a machine with nothing else
    python -m bench.compare --json compare.json --markdown compare.md

Contestants, each on one thread pinned to one core:

    weft         as `weft run` builds it for this machine
    weft-c99     plain scalar C99 (target generic), compiled as the peers are
    onnxruntime  with its input and output bound, so that Python's share is small
    emx          emx-onnx-cgen (PyPI), plain C, weights as constants
    onnx2c       if a program of this name is on the PATH

Plain C is compiled by one compiler with the same flags.  The contestants take turns: each round
runs every one of them for a few milliseconds, and the medians over the rounds are compared.  The
default clock counts the thread's processor time, which leaves out what other processes take.
Before it is timed, each contestant must give onnxruntime's output.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnxruntime

import weft
from bench.folders import models_folder, zoo_folder
from weft.api import Net
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.compare import compare
from weft.runtime.compiler import Compiler, find_compiler
from weft.runtime.library import Library
from weft.targets.find import target

FLAGS = ("-O3", "-march=native")
TINY = models_folder() / "tiny"
ZOO = zoo_folder()
NETWORKS: Mapping[str, Path] = {
    "ic": TINY / "ic_float.onnx",
    "kws": TINY / "kws_float.onnx",
    "vww": TINY / "vww_float.onnx",
    "ad": TINY / "ad_float.onnx",
    "lenet5": ZOO / "lenet5.ts.onnx",
    "mobilenet_v2": ZOO / "mobilenet_v2.ts.onnx",
}
CONTESTANTS = ("weft", "weft-c99", "onnxruntime", "emx", "onnx2c")
TOLERANCE = 1e-4
CORE = max(os.sched_getaffinity(0))
CLOCKS: Mapping[str, Callable[[], int]] = {
    "cpu": time.thread_time_ns,
    "wall": time.perf_counter_ns,
}


@dataclass(frozen=True)
class Contestant:
    """Something that runs a network once, and the array that it writes."""

    name: str
    run: Callable[[], object]
    output: np.ndarray
    keep: tuple[object, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Microseconds of one run; ``why`` says why there are none."""

    network: str
    contestant: str
    median: float = float("nan")
    least: float = float("nan")
    rounds: int = 0
    why: str = ""


class Absent(Exception):
    """A contestant cannot take part."""


@dataclass(frozen=True)
class Setting:
    """What all contestants of a network share."""

    path: Path
    x: np.ndarray
    output: tuple[tuple[int, ...], np.dtype]
    compiler: Compiler
    folder: Path

    def empty(self) -> np.ndarray:
        """An array for the output."""
        return np.zeros(self.output[0], self.output[1])


# --- contestants ------------------------------------------------------------------------------


def by_weft(setting: Setting) -> Contestant:
    machine = target("host")
    program = Net(weft.load(setting.path).graph).program(machine)
    return bound("weft", build(program, machine.flavour, compiler=setting.compiler), setting)


def by_weft_c99(setting: Setting) -> Contestant:
    program = weft.load(setting.path).program("generic")
    cache = Cache(setting.folder / "cache")
    library = build(program, "c99", compiler=setting.compiler, cache=cache, flags=FLAGS)
    return bound("weft-c99", library, setting)


def bound(name: str, library: Library, setting: Setting) -> Contestant:
    """A library called without the checks of its arguments, which are the same every time."""
    output = setting.empty()
    library(setting.x, out=[output])
    blob = library.files.blob
    arena = aligned(library.program.arena_bytes)
    pointers = [setting.x.ctypes.data, output.ctypes.data, arena.ctypes.data]
    keep: list[object] = [library, arena]
    if blob is not None:
        weights = aligned(blob.size)
        weights[: blob.size] = np.frombuffer(blob.tobytes(), np.uint8)
        pointers.append(weights.ctypes.data)
        keep.append(weights)
    function = foreign(library.path, library.files.interface.function, len(pointers))
    arguments = [ctypes.c_void_p(pointer) for pointer in pointers]
    return Contestant(name, lambda: function(*arguments), output, tuple(keep))


def aligned(size: int) -> np.ndarray:
    """Bytes that begin at a multiple of 64."""
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def foreign(path: Path, name: str, count: int) -> Callable[..., object]:
    """A C function of pointers."""
    function = ctypes.CDLL(str(path))[name]
    function.argtypes = [ctypes.c_void_p] * count
    function.restype = None
    return function


def by_onnxruntime(setting: Setting) -> Contestant:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        setting.path, options, providers=["CPUExecutionProvider"]
    )
    output = setting.empty()
    binding = session.io_binding()
    for bind, port, array in (
        (binding.bind_input, session.get_inputs()[0], setting.x),
        (binding.bind_output, session.get_outputs()[0], output),
    ):
        bind(port.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    return Contestant("onnxruntime", lambda: session.run_with_iobinding(binding), output)


def by_emx(setting: Setting) -> Contestant:
    program = Path(sys.executable).with_name("emx-onnx-cgen")
    if not program.exists():
        raise Absent("emx-onnx-cgen is not installed")
    source = setting.folder / "emx.c"
    options = ["--large-weight-threshold", "0", "--model-name", "network"]
    shell([str(program), "compile", *options, str(setting.path), str(source)])
    return from_source("emx", source, "network", setting)


def by_onnx2c(setting: Setting) -> Contestant:
    program = shutil.which("onnx2c")
    if program is None:
        raise Absent("onnx2c is not on the PATH")
    source = setting.folder / "onnx2c.c"
    source.write_text(shell([program, str(setting.path)]))
    return from_source("onnx2c", source, "entry", setting)


def from_source(name: str, source: Path, function: str, setting: Setting) -> Contestant:
    """A single C file whose function takes the input and the output."""
    library = source.with_suffix(".so")
    command = [*setting.compiler.command, *FLAGS, "-w", "-fPIC", "-shared"]
    shell([*command, str(source), "-o", str(library), "-lm"])
    output = setting.empty()
    run = foreign(library, function, 2)
    arguments = [ctypes.c_void_p(array.ctypes.data) for array in (setting.x, output)]
    return Contestant(name, lambda: run(*arguments), output)


def shell(command: Sequence[str]) -> str:
    """What a command prints."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    except subprocess.TimeoutExpired as error:
        raise Absent(f"{Path(command[0]).name} took more than 900 s") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Absent(f"{Path(command[0]).name} failed: {' '.join(last)[:200]}")
    return done.stdout


MAKERS: Mapping[str, Callable[[Setting], Contestant]] = {
    "weft": by_weft,
    "weft-c99": by_weft_c99,
    "onnxruntime": by_onnxruntime,
    "emx": by_emx,
    "onnx2c": by_onnx2c,
}

# --- timing -----------------------------------------------------------------------------------


def race(
    contestants: Sequence[Contestant], rounds: int, clock: Callable[[], int]
) -> dict[str, list[float]]:
    """Microseconds of one run in every round, by contestant."""
    counts: dict[str, int] = {}
    for each in contestants:
        each.run()
        start = time.perf_counter_ns()
        each.run()
        counts[each.name] = max(1, 3_000_000 // max(1, time.perf_counter_ns() - start))
    times: dict[str, list[float]] = {each.name: [] for each in contestants}
    for turn in range(rounds):
        # The order turns, so that nobody always follows the same neighbour.
        first = turn % len(contestants)
        for each in (*contestants[first:], *contestants[:first]):
            run, count = each.run, counts[each.name]
            run()
            start = clock()
            for _ in range(count):
                run()
            times[each.name].append((clock() - start) / count / 1000)
    return times


def contest(
    network: str, names: Sequence[str], rounds: int, clock: Callable[[], int]
) -> list[Timing]:
    """The timings of all contestants on a network."""
    path = NETWORKS[network]
    if not path.exists():
        return [Timing(network, name, why=f"{path.name} is absent") for name in names]
    net = weft.load(path)
    (given,) = net.inputs.values()
    (made,) = net.outputs.values()
    x = np.random.default_rng(0).standard_normal(given.dims).astype(given.dtype.numpy)
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(path, x, (made.dims, made.dtype.numpy), find_compiler(), Path(folder))
        return held(network, names, setting, rounds, clock)


def held(
    network: str,
    names: Sequence[str],
    setting: Setting,
    rounds: int,
    clock: Callable[[], int],
) -> list[Timing]:
    ready: list[Contestant] = []
    missing: dict[str, str] = {}
    reference = by_onnxruntime(setting)
    reference.run()
    for name in names:
        try:
            ready.append(correct(MAKERS[name](setting), reference.output))
        except Absent as error:
            missing[name] = str(error)
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORE})
    try:
        times = race(ready, rounds, clock)
    finally:
        os.sched_setaffinity(0, everywhere)
    return [
        Timing(network, name, why=missing[name])
        if name in missing
        else Timing(network, name, statistics.median(times[name]), min(times[name]), rounds)
        for name in names
    ]


def correct(contestant: Contestant, expected: np.ndarray) -> Contestant:
    """The contestant, if it gives the right output."""
    contestant.run()
    error = compare("y", contestant.output, expected).relative
    if not error < TOLERANCE:
        raise Absent(f"its output is off by {error:.1e} of the range")
    return contestant


# --- report -----------------------------------------------------------------------------------


def machine_text(clock: str) -> list[str]:
    """What the figures were taken on."""
    compiler = find_compiler()
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    processor = found.group(1) if found else "unknown processor"
    load = os.getloadavg()[0]
    return [
        f"{processor}, core {CORE} of {os.cpu_count()}, load {load:.1f} at the start; "
        f"{clock} time, one thread",
        f"plain C: {compiler.version}, {' '.join(FLAGS)}; onnxruntime {onnxruntime.__version__}",
    ]


def ratio(numerator: Timing | None, denominator: Timing | None) -> str:
    if numerator is None or denominator is None or numerator.why or denominator.why:
        return "-"
    return f"{numerator.median / denominator.median:.2f}"


def table(timings: Sequence[Timing], names: Sequence[str]) -> list[str]:
    """A Markdown table: µs (median), and ratios."""
    pairs = [("weft", "onnxruntime"), ("weft-c99", "emx"), ("weft-c99", "onnx2c")]
    timed = {each.contestant for each in timings if not each.why}
    pairs = [(lhs, rhs) for lhs, rhs in pairs if {lhs, rhs} <= timed]
    names = [name for name in names if name in timed]
    heads = ["network", *names, *(f"{lhs} / {rhs}" for lhs, rhs in pairs)]
    rows = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    for network in dict.fromkeys(each.network for each in timings):
        by = {each.contestant: each for each in timings if each.network == network}
        cells = ["-" if by[name].why else f"{by[name].median:,.1f}" for name in names]
        ratios = [ratio(by.get(lhs), by.get(rhs)) for lhs, rhs in pairs]
        rows.append(f"| {' | '.join([network, *cells, *ratios])} |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="*", choices=[*NETWORKS], default=[*NETWORKS])
    parser.add_argument("--contestants", nargs="*", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--clock", choices=[*CLOCKS], default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    lines = [*machine_text(arguments.clock), ""]
    timings: list[Timing] = []
    for network in arguments.names:
        print(f"{network} ...", file=sys.stderr, flush=True)
        timings += contest(
            network, arguments.contestants, arguments.rounds, CLOCKS[arguments.clock]
        )
    lines += table(timings, arguments.contestants)
    absent = dict.fromkeys(f"{t.contestant}, {t.network}: {t.why}" for t in timings if t.why)
    lines += ["", *absent] if absent else []
    text = "\n".join(lines)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text + "\n")
    if arguments.json:
        record = {"machine": lines[:2], "timings": [asdict(each) for each in timings]}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
