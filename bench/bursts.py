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

`cpu` is the processor time of all threads of the process for a call, pauses included; for patterns
in which others compute in the same process it is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
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
from weft import api
from weft.runtime.limits import processor_name

NAMES = ("resnet18", "mobilenet_v2", "squeezenet1_1")
PAUSES = {"every5": 0.005, "every20": 0.020, "every50": 0.050, "five150": 0.150}
BESIDE = ("ort", "ort-quiet", "torch")
PATTERNS = ("loop", *PAUSES, *BESIDE, "peer")
_BURST = 5
_BUSY = "while True: pass"


@dataclass(frozen=True)
class Contestant:
    """What is called.

    Attributes:
        name: in the table.
        run: calls the network once.
    """

    name: str
    run: Callable[[], object]


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
def busy_peer() -> Iterator[None]:
    """Another process keeps a core busy."""
    peer = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        time.sleep(0.05)
        yield
    finally:
        peer.kill()
        peer.wait()


@dataclass(frozen=True)
class Turn:
    """How a contestant takes its turn in a pattern.

    Attributes:
        seconds: for about so long, but for slow networks: so much for each pattern.
        least: calls at the least.
    """

    seconds: float
    least: int = 6

    def calls(self, milliseconds: float) -> int:
        return max(self.least, math.ceil(self.seconds * 1e3 / milliseconds))

    def take(
        self, pattern: str, each: Contestant, alone: float, other: Callable[[], object]
    ) -> tuple[list[float], float]:
        """Milliseconds of each call, and those of the processors for a call."""
        before = time.process_time()
        if pattern in PAUSES:
            burst = _BURST if pattern.startswith("five") else 1
            # A pause takes its time, too, and has as many calls behind it as the loop.
            times = spaced(each.run, self.least * 2, PAUSES[pattern], burst)
        else:
            times = followed(each.run, other, self.calls(alone))
        spent = (time.process_time() - before) * 1e3 / len(times)
        return times, spent


def measure(
    given: Network, threads: int, patterns: Sequence[str], rounds: int, seconds: float
) -> list[Found]:
    """All contestants in all patterns."""
    ort = session(given, threads, True)
    quiet = session(given, threads, False)
    others: dict[str, Callable[[], object]] = {"ort": ort, "ort-quiet": quiet}
    if "torch" in patterns:
        others["torch"] = operators(threads)
    weft = [by_weft(given, count) for count in (1, threads)]
    peer = Contestant(f"onnxruntime {threads}", ort)
    turn = Turn(seconds)
    alone: dict[str, float] = {}
    for each in (*weft, peer):
        times = followed(each.run, nothing, 5)
        alone[each.name] = median(times)
    found: dict[tuple[str, str], Found] = {}
    for number_of in range(rounds):
        for pattern in patterns:
            # Beside another library only Weft is called; the other's own calls are timed, too.
            wanted = weft if pattern in BESIDE else [*weft, peer]
            with busy_peer() if pattern == "peer" else contextlib.nullcontext():
                for each in wanted if number_of % 2 else wanted[::-1]:
                    entry = found.setdefault(
                        (pattern, each.name), Found(given.name, pattern, each.name)
                    )
                    timed: list[float] = []
                    other = partial(_timed, others.get(pattern, nothing), timed)
                    time.sleep(0.05)
                    turn.take(pattern, each, alone[each.name] * 4, other)  # to get going
                    timed.clear()
                    times, spent = turn.take(pattern, each, alone[each.name], other)
                    entry.wall += times
                    if pattern not in BESIDE:
                        entry.cpu.append(spent)
                    elif each is weft[-1]:
                        beside = found.setdefault(
                            (pattern, pattern), Found(given.name, pattern, f"({pattern})")
                        )
                        beside.wall += timed
    return list(found.values())


def _timed(run: Callable[[], object], times: list[float]) -> None:
    start = time.perf_counter()
    run()
    times.append((time.perf_counter() - start) * 1e3)


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
    print(machine, flush=True)
    found: list[Found] = []
    for name in given.names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            ensure(name)
            found += measure(
                network(name), given.threads, given.patterns, given.rounds, given.seconds
            )
        except Absent as error:
            parser.error(str(error))
    text = "\n".join(["# Bursts", "", machine, "", *report(found)]) + "\n"
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "bursts.md").write_text(text)
    record = {"machine": machine, "found": [asdict(each) for each in found]}
    (given.out / "bursts.json").write_text(json.dumps(record, indent=1) + "\n")
    print("\n".join(report(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
