"""How long a network takes when it is called now and then, or beside others that want the cores.

    python -m bench.bursts
    python -m bench.bursts --names resnet18 mobilenet_v2 --patterns loop every20 peer

Other benchmarks call a network in a tight loop.  An application calls it when an image comes, or
between operators of another library, or while another process computes.  Each pattern is run with
Weft on one thread, with Weft on several and with onnxruntime, in turn and in one process, and
medians over all rounds are compared:

    loop          one call after the other
    every5, 20, 50  a call every so many milliseconds; a pause takes half of that at the least
    five150       five calls every 150 milliseconds
    ort           a call of onnxruntime on the same network after each call, its threads spinning
                  as they do by default
    ort-quiet     the same with `session.intra_op.allow_spinning` switched off
    torch         operators of PyTorch (a convolution and a product) after each call
    peer          one call after the other, while another process keeps one core busy
    twin          one call after the other, while another process runs the same network by Weft on
                  as many threads, one call after the other

`cpu` is the processor time of all threads of the process for a call, pauses included; for patterns
in which others compute in the same process it is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.contestants import Absent, needed
from bench.figures import markdown, median, number
from bench.networks import Network, ensure, network
from bench.rounds import Watch, stolen_seconds
from weft import api
from weft.runtime.limits import Meter, limits, processor_name
from weft.targets.find import target

NAMES = ("resnet18", "mobilenet_v2", "squeezenet1_1")
PAUSES = {"every5": 0.005, "every20": 0.020, "every50": 0.050, "five150": 0.150}
BESIDE = ("ort", "ort-quiet", "torch")
PROCESSES = ("peer", "twin")
PATTERNS = ("loop", *PAUSES, *BESIDE, *PROCESSES)
_BURST = 5
_LEAST_CALLS = 6
_PAUSED_CALLS = 15
_AGAIN = 60
_WAIT = 0.25
_STOLEN = 0.01
"""Seconds: the least that the system counts."""
_BUSY = "print(flush=True)\nwhile True: pass"
_TWIN = "from bench.bursts import run_forever; run_forever({name!r}, {threads})"


@dataclass(frozen=True)
class Contestant:
    """What is called.

    Attributes:
        name: in the table.
        run: calls the network once.
    """

    name: str
    run: Callable[[], object]


@dataclass(frozen=True)
class Turn:
    """What one turn of a contestant took.

    Attributes:
        wall: milliseconds of each call; cpu: of all threads for a call.
        other: milliseconds of each call of what runs beside it.
    """

    wall: list[float]
    cpu: float
    other: list[float]


@dataclass
class Found:
    """What was measured of one contestant in one pattern.

    Attributes:
        network, pattern, contestant: which.
        wall: milliseconds of each call.
        cpu: milliseconds of all threads for a call, of each round; empty if others compute, too.
    """

    network: str
    pattern: str
    contestant: str
    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])


# --- contestants ------------------------------------------------------------------------------


def by_weft(given: Network, threads: int) -> Contestant:
    net = api.load(given.path).compile(threads=threads)
    return Contestant(f"weft {threads}", partial(net, *given.inputs))


def session(given: Network, threads: int, spinning: bool) -> Callable[[], object]:
    """A call of onnxruntime."""
    onnxruntime = needed("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    made = onnxruntime.InferenceSession(
        str(given.path), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in made.get_inputs()]
    feed = dict(zip(names, given.inputs, strict=True))
    return partial(made.run, None, feed)


def operators(threads: int) -> Callable[[], object]:
    """A convolution and a product by PyTorch, some milliseconds altogether."""
    torch: Any = needed("torch")
    torch.set_num_threads(threads)
    image, filters = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3)
    matrix = torch.randn(512, 512)

    def run() -> None:
        with torch.inference_mode():
            for _ in range(2):
                torch.relu(torch.nn.functional.conv2d(image, filters, padding=1))
                torch.relu(matrix @ matrix)

    return run


# --- patterns ---------------------------------------------------------------------------------


def spaced(run: Callable[[], object], calls: int, period: float, burst: int) -> list[float]:
    """Milliseconds of calls, so many at once and then a pause until the period is over."""
    times: list[float] = []
    while len(times) < calls:
        first = time.perf_counter()
        for _ in range(burst):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        time.sleep(max(period - (time.perf_counter() - first), period / 2))
    return times


def followed(run: Callable[[], object], other: Callable[[], object], calls: int) -> list[float]:
    """Milliseconds of calls, each followed by one of somebody else."""
    times: list[float] = []
    for _ in range(calls):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
        other()
    return times


def nothing() -> None:
    """What follows a call in a tight loop."""


@contextlib.contextmanager
def process_beside(program: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process runs a Python program, from its first line of output on."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit(f"the process beside stopped: {program}")
            yield process
        finally:
            process.kill()


def run_forever(name: str, threads: int) -> None:
    """Calls a network until the process is killed; prints a line once it has begun."""
    run = by_weft(network(name), threads).run
    run()
    print(flush=True)
    while True:
        run()


class Stage:
    """A network's contestants and what runs beside them.

    Args:
        given: the network.
        threads: for all but one contestant, and for the other libraries.
        patterns: that will be asked for.
        seconds: that a turn takes, about; pauses have a number of calls instead.
    """

    def __init__(
        self, given: Network, threads: int, patterns: Sequence[str], seconds: float
    ) -> None:
        spinning = session(given, threads, True)
        self.others: dict[str, Callable[[], object]] = {"ort": spinning}
        if "ort-quiet" in patterns:
            self.others["ort-quiet"] = session(given, threads, False)
        if "torch" in patterns:
            self.others["torch"] = operators(threads)
        self.threads = threads
        self.weft = [by_weft(given, count) for count in (1, threads)]
        self.peer = Contestant(f"onnxruntime {threads}", spinning)
        self.seconds = seconds
        self.alone = {
            each.name: median(followed(each.run, nothing, 6)) for each in self.contestants("loop")
        }

    def contestants(self, pattern: str) -> list[Contestant]:
        """Beside another library only Weft is called; the other's own calls are timed, too."""
        return self.weft if pattern in BESIDE else [*self.weft, self.peer]

    def take(self, pattern: str, each: Contestant) -> Turn:
        """A contestant's turn, after some calls to get going."""
        other: list[float] = []
        follow = partial(_timed, self.others[pattern], other) if pattern in BESIDE else nothing
        time.sleep(0.02)
        followed(each.run, follow, 3)
        other.clear()
        before = time.process_time()
        if pattern in PAUSES:
            burst = _BURST if pattern.startswith("five") else 1
            times = spaced(each.run, _PAUSED_CALLS, PAUSES[pattern], burst)
        else:
            calls = math.ceil(self.seconds * 1e3 / self.alone[each.name])
            times = followed(each.run, follow, max(_LEAST_CALLS, calls))
        spent = (time.process_time() - before) * 1e3 / len(times)
        return Turn(times, spent, other)


def _timed(run: Callable[[], object], times: list[float]) -> None:
    start = time.perf_counter()
    run()
    times.append((time.perf_counter() - start) * 1e3)


def undisturbed(stage: Stage, pattern: str, each: Contestant, watch: Watch) -> Turn:
    """A turn during which the machine had all of its cores, or the last of some that had not.

    All cores multiply at full speed before and after it, and the system counts no time in between
    that another virtual machine took.  Beside a busy process only the latter can be told.
    """
    alone = pattern not in PROCESSES
    for _ in range(_AGAIN):
        if alone and not watch.whole():
            watch.repeated += 1
            time.sleep(_WAIT)
            continue
        before = stolen_seconds()
        turn = stage.take(pattern, each)
        if stolen_seconds() - before <= _STOLEN and (not alone or watch.whole()):
            return turn
        watch.repeated += 1
    watch.disturbed += 1
    return stage.take(pattern, each)


def measure(
    name: str, stage: Stage, patterns: Sequence[str], rounds: int, watch: Watch
) -> list[Found]:
    """All contestants in all patterns, in turn."""
    found: dict[tuple[str, str], Found] = {}

    def entry(pattern: str, contestant: str) -> Found:
        key = (pattern, contestant)
        return found.setdefault(key, Found(name, pattern, contestant))

    programs = {"peer": _BUSY, "twin": _TWIN.format(name=name, threads=stage.threads)}
    for turn, pattern in itertools.product(range(rounds), patterns):
        wanted = stage.contestants(pattern)
        program = programs.get(pattern)
        with process_beside(program) if program else contextlib.nullcontext():
            for each in wanted[::-1] if turn % 2 else wanted:
                taken = undisturbed(stage, pattern, each, watch)
                entry(pattern, each.name).wall += taken.wall
                if pattern not in BESIDE:
                    entry(pattern, each.name).cpu.append(taken.cpu)
                elif each is stage.weft[-1]:
                    entry(pattern, f"({pattern})").wall += taken.other
    return list(found.values())


# --- report -----------------------------------------------------------------------------------


def report(found: Sequence[Found]) -> list[str]:
    """A table: a row for each network, pattern and contestant."""
    walls = {(f.network, f.pattern, f.contestant): median(f.wall) for f in found}
    cpus = {(f.network, f.pattern, f.contestant): median(f.cpu) for f in found if f.cpu}
    heads = ["network", "pattern", "", "ms", "90th", "x loop", "x 1 thread", "cpu ms", "x loop"]
    rows: list[list[str]] = []
    for each in found:
        key = (each.network, each.pattern, each.contestant)
        loop = (each.network, "loop", each.contestant)
        one = (each.network, each.pattern, "weft 1")
        several = sorted(each.wall)
        rows.append(
            [
                *key,
                number(walls[key]),
                number(several[int(len(several) * 0.9)]),
                ratio(walls.get(key), walls.get(loop)),
                ratio(walls.get(key), walls.get(one)),
                number(cpus[key]) if key in cpus else "",
                ratio(cpus.get(key), cpus.get(loop)),
            ]
        )
    return markdown(heads, rows)


def write(folder: Path, machine: str, found: Sequence[Found]) -> str:
    """Both files, anew after every network; returns the text of the one to read."""
    text = "\n".join(["# Bursts", "", machine, "", *report(found)]) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bursts.md").write_text(text)
    record = {"machine": machine, "found": [asdict(each) for each in found]}
    (folder / "bursts.json").write_text(json.dumps(record, indent=1) + "\n")
    return text


def ratio(value: float | None, base: float | None) -> str:
    return "" if value is None or base is None else f"{value / base:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="*", default=list(NAMES))
    parser.add_argument("--patterns", nargs="*", choices=PATTERNS, default=list(PATTERNS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each contestant's turn")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    given = parser.parse_args()
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    machine = f"{now}; {processor_name()}; medians of {given.rounds} rounds."
    machine_limits = limits(target("host"), given.threads)
    meter = Meter(target("host"), given.threads)
    watch = Watch(meter, machine_limits)
    found: list[Found] = []
    text = ""
    for name in given.names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            ensure(name)
            stage = Stage(network(name), given.threads, given.patterns, given.seconds)
        except Absent as error:
            parser.error(str(error))
        found += measure(name, stage, given.patterns, given.rounds, watch)
        note = (
            f"{machine} {watch.repeated} times a turn was put off or repeated because cores were "
            f"missing; {watch.disturbed} turns count although they were."
        )
        text = write(given.out, note, found)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
