"""Times PyTorch models through Weft beside PyTorch, eager and compiled by Inductor.

    python -m bench.torch_speed                     the networks of SOL's paper, 1 and 2 threads
    python -m bench.torch_speed resnet18 'swin*' --threads 1     these of the catalog
    python -m bench.torch_speed --start FOLDER      prepares processes, which then wait
    python -m bench.torch_speed --time FOLDER       has those time, one after the other
    python -m bench.torch_speed --table             a table of what was measured

Float32, batch 1, inference.  A process for each model and number of threads prepares all
contestants and then times them in turns, so that what the machine does besides meets all of them.
Inductor's C++ stays in the folder `TORCHINDUCTOR_CACHE_DIR`, so that a second process is quick.
Results are lines of JSON in `$WEFT_TORCH_SPEED`, by default `~/.cache/weft/torch-speed.jsonl`.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SOL = (
    "squeezenet1_1 squeezenet1_0 shufflenet_v2_x0_5 shufflenet_v2_x1_0 mnasnet0_5 mnasnet1_0 "
    "resnet18 resnet50 densenet121 densenet161 vgg11 vgg16 mlp_8192"
).split()
SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 5.0, 7, 400
"""How long the contestants of a model are timed, and in how many turns."""
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


def work(name: str, threads: int, contestants: Sequence[str], gates: Sequence[str]) -> None:
    """Prepares the contestants, waits at the first gate, and times them."""
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
        print("ready", flush=True)
        with open(gates[0]) as gate:
            gate.readline()
        times = _timed(ready)
    record = {
        "model": name,
        "threads": threads,
        "milliseconds": {key: 1e3 * statistics.median(value) for key, value in times.items()},
        "least": {key: 1e3 * min(value) for key, value in times.items()},
        "rounds": len(times["weft"]) if "weft" in times else 0,
        "notes": notes,
        "torch": torch.__version__,
        "processor": processor(),
    }
    with open(gates[1], "w") as gate:
        gate.write(json.dumps(record) + "\n")


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


def _timed(ready: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of the calls of each contestant, in turns; two of each come before."""
    for run in ready.values():
        run()
        run()
    times: dict[str, list[float]] = {key: [] for key in ready}
    end = time.monotonic() + SECONDS
    rounds = 0
    while rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.monotonic() < end):
        for key, run in ready.items():
            start = time.perf_counter()
            run()
            times[key].append(time.perf_counter() - start)
        rounds += 1
    return times


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
    with results_file().open("a") as out:
        out.write(text)
    record = json.loads(text)
    rounded = {key: round(each, 3) for key, each in record["milliseconds"].items()}
    print(record["model"], record["threads"], json.dumps(rounded), flush=True)


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
    contestants = [each for each in CONTESTANTS if each not in arguments.without]
    with tempfile.TemporaryDirectory() as folder:
        for name in _chosen(arguments.names) if arguments.names else SOL:
            for threads in arguments.threads:
                place = start(name, threads, contestants, arguments.start or Path(folder))
                if not arguments.start:
                    finish(place)


if __name__ == "__main__":
    main()
