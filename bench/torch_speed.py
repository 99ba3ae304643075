"""Times PyTorch models through Weft beside PyTorch, eager and compiled by Inductor.

    python -m bench.torch_speed                     the networks of SOL's paper, 1 and 2 threads
    python -m bench.torch_speed resnet18 'swin*' --threads 1     these of the catalog
    python -m bench.torch_speed --missing --threads 2 1 --only weft eager channels-last
                                                    what of the catalog was not timed so far
    python -m bench.torch_speed --missing --most 8 --start FOLDER
                                                    prepares processes, which then wait
    python -m bench.torch_speed --time FOLDER       has those time, one after the other
    python -m bench.torch_speed --table             tables of what was measured

Float32, batch 1, inference.  A process for each model prepares all contestants, for each number
of threads, and then times those of a number in turns, a burst of calls each, so that what the
machine does besides meets all of them.  A time is the median of a burst's calls, and then of the
bursts; ratios are medians of those of single turns.  With one thread it is the thread's time on
a core, which other programs lengthen least.  Compiled code is timed even where PyTorch is faster;
where it is not clearly faster, `weft.optimize`'s own comparison then says what would run.
Inductor's C++ stays in the folder `TORCHINDUCTOR_CACHE_DIR`, so that a second process is quick.
Results are lines of JSON in `$WEFT_TORCH_SPEED`, by default `~/.cache/weft/torch-speed.jsonl`;
the last of a model and a number of threads counts.  Errors and times that other programs
disturbed count as none, so that `--missing` resumes what was broken off, one of each family first.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fnmatch
import json
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from weft.runtime.limits import processor_name

SOL = (
    "squeezenet1_1 squeezenet1_0 shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 "
    "resnet18 resnet50 densenet121 densenet161 vgg11 vgg16 mlp_8192"
).split()
SECONDS, BURST, LEAST_ROUNDS, MOST_ROUNDS = 3.0, 0.08, 3, 40
"""How long the contestants of a model are timed, how long each at a time, in how many turns."""
WAIT = 5.0
"""Seconds in which a process that is ready must wait at its gate."""
CLEAR = 1.1
"""Where compiled code is less than so many times as fast, ``weft.optimize`` compares, too."""
WRONG = 1e-3
"""Of the output's range: contestants that are off by more compute something else; not timed."""
STEADY = 2.0
"""Times of which the median turn took so many times the best are those of other programs."""
CONTESTANTS = ("weft", "eager", "channels-last", "inductor", "inductor frozen", "inductor tuned")
_OPTIONS: dict[str, dict[str, Any]] = {
    "inductor": {},
    "inductor frozen": {"freezing": True},
    "inductor tuned": {"freezing": True, "max_autotune": True},
}


def results_file() -> Path:
    """Where results are kept."""
    default = Path.home() / ".cache" / "weft" / "torch-speed.jsonl"
    return Path(os.environ.get("WEFT_TORCH_SPEED") or default)


# --- the process of one model -----------------------------------------------------------------


def work(
    name: str, threads: Sequence[int], contestants: Sequence[str], gates: Sequence[str]
) -> None:
    """Prepares the contestants, waits at the first gate, and times them."""
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    from bench.torch_catalog import built  # noqa: PLC0415

    torch.set_num_threads(1)  # two would fight for cores with whatever else is being prepared
    module, example = built(name)
    with torch.no_grad():
        prepared: dict[int, tuple[dict[str, Callable[[], Any]], dict[str, str]]] = {}
        for count in threads:
            torch.set_num_threads(count)
            prepared[count] = _ready(contestants, module, example)
        print("ready", flush=True)
        with open(gates[0]) as gate:
            gate.readline()
        # Open while calls are timed: whoever waits sees when this process ends before.
        with open(gates[1], "w") as gate:
            for count, (ready, notes) in prepared.items():
                torch.set_num_threads(count)
                times = _timed(ready, time.perf_counter if count > 1 else time.thread_time)
                record = {"model": name, "threads": count, **_record(times), "notes": notes}
                if min(record["ratios"].values(), default=CLEAR) < CLEAR:
                    record["runs"] = _what_runs(module, example)
                gate.write(json.dumps({**record, "torch": torch.__version__}) + "\n")
                gate.flush()


def _record(times: Mapping[str, list[float]]) -> dict[str, Any]:
    """What is kept of the seconds of a call of each contestant in each turn."""
    return {
        "milliseconds": {key: 1e3 * statistics.median(each) for key, each in times.items()},
        "least": {key: 1e3 * min(each) for key, each in times.items()},
        "ratios": _ratios(times),
        "rounds": len(next(iter(times.values()))),
        "processor": processor_name(),
    }


def _ready(
    contestants: Sequence[str], module: Any, example: Any
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Calls of the contestants that can be prepared, and what is to be said of each."""
    from bench.torch_ways import difference  # noqa: PLC0415

    wanted = module(*example[0], **example[1])
    ready: dict[str, Callable[[], Any]] = {}
    notes: dict[str, str] = {}
    for each in contestants:
        start = time.monotonic()
        try:
            run = _prepared(each, module, example)
            off = difference(run(), wanted)
            notes[each] = f"{off:.1e} off"
            if off is not None and off <= WRONG:
                ready[each] = run
        except Exception as error:  # noqa: BLE001 (whatever is raised is the finding)
            notes[each] = f"{type(error).__name__}: {str(error).strip()[:200]}"
        notes[each] += f", prepared in {time.monotonic() - start:.0f} s"
    return ready, notes


def _what_runs(module: Any, example: Any) -> str:
    """What ``weft.optimize`` runs: the code, which the cache has, or what wins its comparison."""
    import weft  # noqa: PLC0415

    args, kwargs = example
    fast: Any = weft.optimize(module, *args, kwargs=kwargs)
    (runner,) = fast._weft.runners
    return "compiled code" if runner.own is None else f"PyTorch, {runner.own}"


def _prepared(contestant: str, module: Any, example: Any) -> Callable[[], Any]:
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    import weft  # noqa: PLC0415
    from bench.torch_ways import channels_last  # noqa: PLC0415

    args, kwargs = example
    if contestant == "eager":
        return lambda: module(*args, **kwargs)
    if contestant == "weft":
        run = weft.optimize(module, *args, kwargs=kwargs, measure=False)
    elif contestant == "channels-last":
        run, (args, kwargs) = channels_last(module, example)
    else:
        run = torch.compile(copy.deepcopy(module), options=_OPTIONS[contestant])
        run(*args, **kwargs)
    return lambda: run(*args, **kwargs)


def _timed(
    ready: Mapping[str, Callable[[], Any]], clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of a call of each contestant in each turn; two calls of each come before."""
    for run in ready.values():
        run()
        run()
    times: dict[str, list[float]] = {key: [] for key in ready}
    end = time.monotonic() + SECONDS
    rounds = 0
    while rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.monotonic() < end):
        # Each comes as often after one of its neighbours as after the other.
        for key in list(ready)[:: -1 if rounds % 2 else 1]:
            times[key].append(_burst(ready[key], clock))
        rounds += 1
    return times


def _burst(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Seconds of a call, the median of a burst of calls; the first, if it is short, warms up."""
    found: list[float] = []
    end = time.perf_counter() + BURST
    while not found or time.perf_counter() < end:
        start = clock()
        run()
        found.append(clock() - start)
    return statistics.median(found[1:] or found)


def _ratios(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """How often each takes what Weft takes: the medians of the turns' ratios."""
    return {
        key: statistics.median(
            theirs / ours for theirs, ours in zip(times[key], times["weft"], strict=True)
        )
        for key in times
        if key != "weft" and "weft" in times
    }


def _joined(threads: Sequence[int]) -> str:
    return ",".join(map(str, threads))


# --- the processes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A model and what is timed of it.

    Attributes:
        name: of the catalog.
        threads: numbers of threads, each of all contestants.
        contestants: of these.
    """

    name: str
    threads: Sequence[int]
    contestants: Sequence[str]

    def place(self, folder: Path) -> Path:
        """Where the process of the model waits."""
        return folder / f"{self.name}-{_joined(self.threads)}"

    @staticmethod
    def at(place: Path) -> Entry:
        """What waits at a place."""
        name, _, threads = place.name.rpartition("-")
        return Entry(name, [int(each) for each in threads.split(",")], ())

    def failed(self, why: str) -> list[dict[str, Any]]:
        """The records of a model whose process ended early."""
        about = {"model": self.name, "processor": processor_name(), "error": why}
        return [{**about, "threads": count} for count in self.threads]


def start(entry: Entry, folder: Path, seconds: float) -> Path | None:
    """Prepares the contestants of a model in a process that then waits.

    Args:
        entry: the model.
        folder: where the process waits.
        seconds: that it may take.

    Returns:
        Where it is told to go; ``None``, and a record is kept, where it cannot be prepared.
    """
    place = entry.place(folder)
    place.mkdir(parents=True)
    gates = [str(place / word) for word in ("go", "done")]
    for gate in gates:
        os.mkfifo(gate)
    command = [sys.executable, "-W", "ignore", "-m", "bench.torch_speed", "--worker"]
    command += [entry.name, _joined(entry.threads), ",".join(entry.contestants), *gates]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    able, _, _ = select.select([process.stdout], [], [], seconds)
    if able and process.stdout.readline().strip() == "ready":
        return place
    shutil.rmtree(place)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    why = f"exit status {code}" if able else f"not prepared in {seconds:.0f} s"
    for record in entry.failed(why):
        _keep(record)
    return None


def finish(place: Path) -> None:
    """Has a process that waits time its contestants; keeps the results."""
    try:
        with _opened(place / "go") as gate:
            gate.write("go\n")
        text = (place / "done").read_text()
    except OSError:  # nobody waits
        text = ""
    shutil.rmtree(place)
    timed = {each["threads"]: each for each in map(json.loads, text.splitlines())}
    for record in Entry.at(place).failed("ended untimed"):
        _keep(timed.get(record["threads"], record))


def _opened(gate: Path) -> IO[str]:
    """A gate to write to; a process that has just said that it is ready may be about to wait."""
    end = time.monotonic() + WAIT
    while True:
        try:
            return open(os.open(gate, os.O_WRONLY | os.O_NONBLOCK), "w")
        except OSError:
            if time.monotonic() > end:
                raise
        time.sleep(0.01)


def _keep(record: dict[str, Any]) -> None:
    least, medians = record.get("least", {}), record.get("milliseconds", {})
    if any(medians[each] > STEADY * least[each] for each in least):
        record["error"] = "disturbed by other programs"
    with results_file().open("a") as out:
        out.write(json.dumps(record) + "\n")
    print(_told(record), flush=True)


def _told(record: Mapping[str, Any]) -> str:
    head = f"{record['model']} {record['threads']}"
    if "error" in record:
        return f"{head}: {record['error']}"
    times = " ".join(f"{key} {each:.3g}" for key, each in record["milliseconds"].items())
    ratios = " ".join(f"{key} {each:.2f}" for key, each in record["ratios"].items())
    return f"{head}: {times} ms; over Weft: {ratios} {record.get('runs', '')}"


def in_turn() -> list[str]:
    """The catalog's models: one of each family, then a second of each, and so on; tiny ones last.

    A family is what has the same first letters in a group.
    """
    from bench.torch_catalog import CATALOG  # noqa: PLC0415

    seen: Counter[tuple[str, str]] = Counter()
    places: dict[str, tuple[bool, int]] = {}
    for name, model in CATALOG.items():
        letters = re.match("(?:timm_)?[a-z]+", name)
        family = model.group, letters[0] if letters else name
        places[name] = model.group == "transformers", seen[family]
        seen[family] += 1
    return sorted(CATALOG, key=places.__getitem__)


# --- command line -----------------------------------------------------------------------------


def kept() -> list[dict[str, Any]]:
    """The last result of each model and number of threads, errors among them."""
    file = results_file()
    lines = file.read_text().splitlines() if file.exists() else []
    found = {(each["model"], each["threads"]): each for each in map(json.loads, lines)}
    return list(found.values())


def _chosen(arguments: argparse.Namespace) -> list[Entry]:
    """What is asked for, in this order; names in the order of the patterns."""
    every = in_turn()
    patterns = arguments.names or (["*"] if arguments.missing else SOL)
    found = {each: fnmatch.filter(every, each) for each in patterns}
    unknown = [each for each, names in found.items() if not names]
    if unknown:
        raise SystemExit(f"no such model: {', '.join(unknown)}")
    names = dict.fromkeys(name for names in found.values() for name in names)
    timed = {(each["model"], each["threads"]) for each in kept() if "error" not in each}
    known = timed if arguments.missing else set[tuple[str, int]]()
    contestants = [each for each in arguments.only if each not in arguments.without]
    wanted = {name: [n for n in arguments.threads if (name, n) not in known] for name in names}
    entries = [Entry(name, threads, contestants) for name, threads in wanted.items() if threads]
    waiting = arguments.start or Path()
    return [each for each in entries if not each.place(waiting).exists()][: arguments.most]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="models of bench.torch_catalog")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--without", nargs="+", default=[], choices=CONTESTANTS)
    parser.add_argument("--only", nargs="+", default=CONTESTANTS, choices=CONTESTANTS)
    parser.add_argument("--missing", action="store_true", help="only what has no result so far")
    parser.add_argument("--most", type=int, help="only the first so many")
    parser.add_argument("--limit", type=float, default=300, help="seconds to prepare a model")
    parser.add_argument("--start", type=Path, help="prepare processes that wait there")
    parser.add_argument("--time", type=Path, help="time those that wait there")
    parser.add_argument("--table", action="store_true", help="print the tables of results")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        name, threads, contestants, *gates = arguments.worker
        work(name, [int(each) for each in threads.split(",")], contestants.split(","), gates)
    elif arguments.table:
        from bench.torch_table import speeds  # noqa: PLC0415

        print("\n".join(speeds({(each["model"], each["threads"]): each for each in kept()})))
    elif arguments.time:
        for place in sorted(arguments.time.iterdir()):
            finish(place)
    else:
        _run(arguments)


def _run(arguments: argparse.Namespace) -> None:
    """Prepares, and times unless processes are to wait."""
    results_file().parent.mkdir(parents=True, exist_ok=True)
    entries = _chosen(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for number, entry in enumerate(entries, 1):
            print(f"{number} of {len(entries)}:", entry.name, end=" ", flush=True)
            place = start(entry, arguments.start or Path(folder), arguments.limit)
            if place is not None and not arguments.start:
                finish(place)


if __name__ == "__main__":
    main()
