"""Times PyTorch models through Weft beside PyTorch, eager and compiled by Inductor.

    python -m bench.torch_speed                     the networks of SOL's paper, 1 and 2 threads
    python -m bench.torch_speed resnet18 'swin*' --threads 1     these of the catalog
    python -m bench.torch_speed --all --threads 2 1 --only weft eager channels-last
                                                    what of the catalog was not timed so far
    python -m bench.torch_speed --start FOLDER      prepares processes, which then wait
    python -m bench.torch_speed --time FOLDER       has those time, one after the other
    python -m bench.torch_speed --table             a table of what was measured

Float32, batch 1, inference.  A process for each model and number of threads prepares all
contestants and then times them in turns, a burst of calls each, so that what the machine does
besides meets all of them.  A time is the median of a burst's calls, and then of the bursts;
ratios are medians of those of single turns.  Compiled code is timed even where PyTorch is faster;
where it is not clearly faster, `weft.optimize`'s own comparison then says what would run.
Inductor's C++ stays in the folder `TORCHINDUCTOR_CACHE_DIR`, so that a second process is quick.
Results are lines of JSON in `$WEFT_TORCH_SPEED`, by default `~/.cache/weft/torch-speed.jsonl`;
the last of a model and a number of threads counts.  A run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fnmatch
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOL = (
    "squeezenet1_1 squeezenet1_0 shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 "
    "resnet18 resnet50 densenet121 densenet161 vgg11 vgg16 mlp_8192"
).split()
SECONDS, BURST, LEAST_ROUNDS, MOST_ROUNDS = 4.0, 0.08, 3, 40
"""How long the contestants of a model are timed, how long each at a time, in how many turns."""
CLEAR = 1.1
"""Where compiled code is less than so many times as fast, ``weft.optimize`` compares, too."""
CONTESTANTS = ("weft", "eager", "channels-last", "inductor", "inductor frozen", "inductor tuned")
EAGER = ("eager", "channels-last")
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


def work(name: str, threads: int, contestants: Sequence[str], gates: Sequence[str]) -> None:
    """Prepares the contestants, waits at the first gate if there is one, and times them."""
    import torch  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    from bench.torch_catalog import built  # noqa: PLC0415
    from bench.torch_models import difference  # noqa: PLC0415

    torch.set_num_threads(threads)
    module, example = built(name)
    with torch.no_grad():
        wanted = module(*example[0], **example[1])
        ready: dict[str, Callable[[], Any]] = {}
        notes: dict[str, str] = {}
        for each in contestants:
            start = time.monotonic()
            try:
                ready[each] = _prepared(each, module, example)
                got = ready[each]()
                notes[each] = f"{difference(got, wanted):.1e} off"
            except Exception as error:  # noqa: BLE001 (whatever is raised is the finding)
                ready.pop(each, None)
                notes[each] = f"{type(error).__name__}: {str(error).strip()[:200]}"
            notes[each] += f", prepared in {time.monotonic() - start:.0f} s"
            print(f"{name} {threads} {each}: {notes[each]}", file=sys.stderr, flush=True)
        if gates:
            print("ready", flush=True)
            with open(gates[0]) as gate:
                gate.readline()
        times = _timed(ready)
        ratios = _ratios(times)
        record = {
            "model": name,
            "threads": threads,
            "milliseconds": {key: 1e3 * statistics.median(value) for key, value in times.items()},
            "least": {key: 1e3 * min(value) for key, value in times.items()},
            "ratios": ratios,
            "rounds": len(times["weft"]) if "weft" in times else 0,
            "notes": notes,
            "torch": torch.__version__,
            "processor": processor(),
        }
        if ratios and min(ratios.values()) < CLEAR:
            record["runs"] = _what_runs(module, example)
    line = json.dumps(record)
    if gates:
        Path(gates[1]).write_text(line + "\n")
    else:
        print(line, flush=True)


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
    from bench.torch_models import channels_last  # noqa: PLC0415

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


def _timed(ready: Mapping[str, Callable[[], Any]]) -> dict[str, list[float]]:
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
            times[key].append(_burst(ready[key]))
        rounds += 1
    return times


def _burst(run: Callable[[], Any]) -> float:
    """Seconds of a call, the median of a burst of calls; the first, if it is short, warms up."""
    found: list[float] = []
    end = time.perf_counter() + BURST
    while not found or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
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


def processor() -> str:
    """The processor's name, as the system has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""


# --- the processes ----------------------------------------------------------------------------


def start(name: str, threads: int, contestants: Sequence[str], folder: Path) -> Path:
    """Prepares the contestants of a model in a process that then waits; where it is told to go."""
    place = folder / f"{name}-{threads}"
    place.mkdir(parents=True)
    gates = [str(place / word) for word in ("go", "done")]
    for gate in gates:
        os.mkfifo(gate)
    command = [sys.executable, "-W", "ignore", "-m", "bench.torch_speed", "--worker"]
    command += [name, str(threads), ",".join(contestants), *gates]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        shutil.rmtree(place)
        raise SystemExit(f"{name} cannot be prepared")
    return place


def finish(place: Path) -> None:
    """Has a process that waits time its contestants; keeps the result."""
    (place / "go").write_text("go\n")
    text = (place / "done").read_text()
    shutil.rmtree(place)
    record = json.loads(text)
    _keep(record)
    print(_told(record), flush=True)


def race(name: str, threads: int, contestants: Sequence[str], seconds: float) -> dict[str, Any]:
    """Prepares and times the contestants of a model in a process; an error is a result, too."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.torch_speed", "--worker"]
    command += [name, str(threads), ",".join(contestants)]
    error = f"took more than {seconds:.0f} s"
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if lines:
            return json.loads(lines[-1])
        told = done.stderr.strip().splitlines() or [""]
        error = f"exit status {done.returncode}: {told[-1][:200]}"
    return {"model": name, "threads": threads, "error": error, "processor": processor()}


def race_all(threads: Sequence[int], contestants: Sequence[str], limits: Limits) -> None:
    """Times what of the catalog has no result with so many threads, families in turn."""
    known = {(each["model"], each["threads"]) for each in kept()}
    asked = [(name, count) for count in threads for name in _in_turn()]
    left = [each for each in asked if each not in known]
    end = time.monotonic() + limits.all_seconds
    for number, (name, count) in enumerate(left, 1):
        if time.monotonic() > end:
            return
        record = race(name, count, contestants, limits.seconds)
        _keep(record)
        print(f"{number} of {len(left)}: {_told(record)}", flush=True)


@dataclass(frozen=True)
class Limits:
    """What a run may take.

    Attributes:
        seconds: for a model.
        all_seconds: after which it begins none.
    """

    seconds: float
    all_seconds: float


def _in_turn() -> list[str]:
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


def _keep(record: Mapping[str, Any]) -> None:
    with results_file().open("a") as out:
        out.write(json.dumps(record) + "\n")


def _told(record: Mapping[str, Any]) -> str:
    head = f"{record['model']} {record['threads']}"
    if "error" in record:
        return f"{head} {record['error']}"
    times = " ".join(f"{key} {each:.3g}" for key, each in record["milliseconds"].items())
    ratios = " ".join(f"{key} {each:.2f}" for key, each in record["ratios"].items())
    return f"{head}: {times} ms; over Weft: {ratios} {record.get('runs', '')}"


# --- the table --------------------------------------------------------------------------------


def table(records: Sequence[dict[str, Any]]) -> str:
    """Medians in milliseconds, with what PyTorch takes over what Weft takes."""
    lines: list[str] = []
    for threads in sorted({each["threads"] for each in records}):
        rows = [each for each in records if each["threads"] == threads]
        lines += [
            f"### {threads} thread{'s' if threads > 1 else ''}, {rows[0]['processor']}",
            "",
            f"| model | {' | '.join(CONTESTANTS)} | best eager / Weft | frozen / Weft |",
            "|---|" + "---:|" * (len(CONTESTANTS) + 2),
        ]
        over: dict[str, list[float]] = {"eager": [], "frozen": []}
        for row in rows:
            times = row["milliseconds"]
            cells = [f"{times[key]:.2f}" if key in times else "" for key in CONTESTANTS]
            eager = min(times[key] for key in ("eager", "channels-last") if key in times)
            for key, other in (("eager", eager), ("frozen", times.get("inductor frozen"))):
                cells.append(f"{other / times['weft']:.2f}" if other else "")
                over[key] += [other / times["weft"]] if other else []
            lines.append(f"| {row['model']} | {' | '.join(cells)} |")
        means = [f"**{_geometric(found):.2f}**" if found else "" for found in over.values()]
        blank = " | " * len(CONTESTANTS)
        lines += [f"| geometric mean | {blank}{' | '.join(means)} |", ""]
    return "\n".join(lines)


def _geometric(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def kept() -> list[dict[str, Any]]:
    """The last result of each model and number of threads, in the table's order."""
    file = results_file()
    lines = file.read_text().splitlines() if file.exists() else []
    found = {(each["model"], each["threads"]): each for each in map(json.loads, lines)}
    order = {name: place for place, name in enumerate(SOL)}
    return sorted(found.values(), key=lambda each: order.get(each["model"], len(order)))


def _chosen(patterns: Sequence[str]) -> list[str]:
    """Names of the catalog in the order of the patterns."""
    from bench.torch_catalog import CATALOG  # noqa: PLC0415

    found = {each: fnmatch.filter(CATALOG, each) for each in patterns}
    unknown = [each for each, names in found.items() if not names]
    if unknown:
        raise SystemExit(f"no such model: {', '.join(unknown)}")
    return list(dict.fromkeys(name for names in found.values() for name in names))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="models of bench.torch_catalog")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--without", nargs="+", default=[], choices=CONTESTANTS)
    parser.add_argument("--only", nargs="+", default=CONTESTANTS, choices=CONTESTANTS)
    parser.add_argument("--all", action="store_true", help="what was not timed, families in turn")
    parser.add_argument("--limit", type=float, default=300, help="seconds of a model")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after")
    parser.add_argument("--start", type=Path, help="prepare processes that wait there")
    parser.add_argument("--time", type=Path, help="time those that wait there")
    parser.add_argument("--table", action="store_true", help="print the table of results")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        name, threads, contestants, *gates = arguments.worker
        work(name, int(threads), contestants.split(","), gates)
        return
    if arguments.table:
        print(table(kept()))
        return
    results_file().parent.mkdir(parents=True, exist_ok=True)
    if arguments.time:
        for place in sorted(arguments.time.iterdir()):
            finish(place)
        return
    contestants = [each for each in arguments.only if each not in arguments.without]
    if arguments.all:
        race_all(arguments.threads, contestants, Limits(arguments.limit, arguments.seconds))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in _chosen(arguments.names) if arguments.names else SOL:
            for threads in arguments.threads:
                place = start(name, threads, contestants, arguments.start or Path(folder))
                if not arguments.start:
                    finish(place)


if __name__ == "__main__":
    main()
