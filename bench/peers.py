"""Times Weft beside whichever peers are installed, on whole networks in float32.

    python -m bench.peers                              everything: hours of a quiet machine
    python -m bench.peers --names resnet18 bert        these networks only
    python -m bench.peers --names families             forty networks; or `mobile`, `transformers`
    python -m bench.peers --threads 1 --clock cpu      processor time, for a busy machine
    python -m bench.peers --contestants weft onnxruntime openvino
    python -m bench.peers --contestants weft --before ../old   beside Weft of another checkout
    python -m bench.peers --batch 8                    eight images at once; also --names vgg16@8
    python -m bench.peers --out bench-results          where the results go
    python -m bench.peers --out bench-results --resume go on where a run was broken off
    python -m bench.peers --cache DIR --rounds 0       only compiles, for a shorter run later

Contestants, at their best settings for float32 (see `bench/contestants.py`):

    weft            as `Net.compile` builds it; weft-tuned with tune=True
    eager           PyTorch as it is, contiguous or channels last, whichever is faster
    inductor        torch.compile with frozen weights; inductor-tuned with max_autotune
    onnxruntime     all graph optimizations, input and output bound
    openvino        float32 forced, latency hint
    tvm, iree       compiled for this processor, not tuned

Each contestant of a network has a process of its own, which waits while others measure; each
round measures all of them in turn, in an order that changes.  Medians over the rounds are
compared; who takes eight times as long as the fastest is left at three rounds.  Between turns
the rate of multiply-adds is measured: rounds in which the machine had less than 80% of its
processors are repeated for all, up to twice as many as count.  Every contestant's output is
checked against the network in double precision.

Written: results.md (tables), results.json (raw numbers), results-1.svg and so on (a plot for
each number of threads).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import weft
from bench.contestants import MAKERS
from bench.figures import (
    Result,
    geometric_mean,
    markdown,
    median,
    megabytes,
    number,
    races,
    summary,
    time_rows,
)
from bench.networks import DEFAULT, GROUPS, batched, ensure, images_of, named, path_of
from bench.plot import bars
from bench.remote import BEFORE, Late, Remote
from bench.rounds import Options, Watch, taken_in_turn
from weft.runtime.compare import compare
from weft.runtime.compiler import find_compiler
from weft.runtime.limits import Limits, Meter, limits, processor_name
from weft.targets.find import target

TOLERANCE = 1e-3
USUAL = ("weft", "eager", "inductor", "onnxruntime", "openvino", "tvm", "iree")
PACKAGES = ("torch", "onnxruntime", "openvino", "apache-tvm", "iree-base-compiler")
_IDLE_SECONDS = 0.03
_TRIALS = 3
_HOPELESS = 8.0
_PATIENCE_SECONDS = 2.0


@dataclass(frozen=True)
class Demand:
    """What a network asks of any machine: operations, and bytes of weights."""

    flops: int
    weight_bytes: int


# --- measuring --------------------------------------------------------------------------------


def contest(
    network: str,
    threads: int,
    options: Options,
    expected: np.ndarray,
    watch: Watch | None = None,
    tolerance: float = TOLERANCE,
) -> list[Result]:
    """All contestants on a network; ``watch`` tells which rounds count."""
    with tempfile.TemporaryDirectory() as root:
        folder = options.cache or Path(root)
        remotes: list[Remote] = []
        results: list[Result] = []
        try:
            for contestant in options.contestants:
                own = folder / f"{network}-{contestant}-{threads}"
                own.mkdir(parents=True, exist_ok=True)
                remote = Remote(contestant, network, threads, own.resolve(), options.before)
                remotes.append(remote)
                results.append(prepared(remote, network, threads, options, expected, tolerance))
            times = taken_in_turn(remotes, results, options, watch)
        finally:
            for remote in remotes:
                remote.close()
    if watch is not None:
        gbytes = median(watch.gbytes) if any(watch.gbytes) else math.nan
        results = [replace(each, repeated=watch.repeated, gbytes=gbytes) for each in results]
    return [
        each if each.why else replace(each, times=tuple(times[each.contestant])) for each in results
    ]


def prepared(
    remote: Remote,
    network: str,
    threads: int,
    options: Options,
    expected: np.ndarray,
    tolerance: float = TOLERANCE,
) -> Result:
    """What a contestant took to get ready, and whether it is right."""
    result = Result(network, remote.contestant, threads)
    with tempfile.NamedTemporaryFile(suffix=".npy") as output:
        try:
            answer = remote.ask(options.patience, do="prepare", output=output.name)
        except Late as error:
            return replace(result, why=str(error))
        if "why" in answer:
            return replace(result, why=answer["why"])
        found = np.load(output.name)
    found, exact = found.astype(np.float64), expected.astype(np.float64)
    error = compare("y", found, exact).relative
    deviation = math.sqrt(float(np.mean((found - exact) ** 2))) / (float(exact.std()) or 1.0)
    again = answer.pop("again")
    known = replace(
        result,
        error=float(error),
        deviation=deviation,
        again=math.nan if again is None else again,
        **answer,
    )
    if not error < tolerance:
        return replace(known, why=f"its output is off by {error:.1e} of the range")
    return known


def expected_output(network: str, patience: float, cache: Path | None = None) -> np.ndarray:
    """The output in double precision, made in a process of its own, or what the cache has."""
    kept = None if cache is None else cache / f"{network}-expected.npy"
    changed = path_of(network).stat().st_mtime
    if kept is not None and kept.exists() and kept.stat().st_mtime > changed:
        return np.load(kept)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "y.npy"
        threads = len(os.sched_getaffinity(0))
        remote = Remote("onnxruntime", network, threads, Path(folder))
        try:
            answer = remote.ask(patience, do="refer", output=str(path))
        finally:
            remote.close()
        if "why" in answer:
            raise SystemExit(f"{network}: there is no reference: {answer['why']}")
        found = np.load(path)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, found)
    return found


def demand(network: str) -> Demand:
    found = weft.load(path_of(network)).simplified().stats()
    return Demand(2 * found.macs + found.operations, found.weight_bytes)


def memory(measured: Limits, need: Demand) -> int:
    """Bytes that each thread reads to measure memory; 0 where a cache holds the weights."""
    last = max(level.bytes for level in measured.levels)
    return 8 * last // measured.threads if need.weight_bytes > last else 0


# --- report -----------------------------------------------------------------------------------


def machine_lines(options: Options, measured: Mapping[int, Limits]) -> list[str]:
    """What the figures were taken on."""
    packages: list[str] = []
    for name in PACKAGES:
        try:
            packages.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        f"{now}; {processor_name()}, {os.cpu_count()} processors, {platform.platform()}; "
        f"load {os.getloadavg()[0]:.1f} at the start.",
        f"{find_compiler().version}; {', '.join(packages)}.",
        f"{options.clock} time; medians of {options.rounds} rounds of {options.seconds:g} s.",
    ]
    for threads, each in sorted(measured.items()):
        levels = ", ".join(f"{level.name} {level.gbytes:,.0f}" for level in each.levels)
        lines.append(
            f"Limits with {threads} thread{'s' if threads > 1 else ''}: "
            f"{each.gflops:,.0f} GFLOP/s; reads in GB/s: {levels}."
        )
    return lines


def _level(measured: Limits, size: int) -> tuple[str, float]:
    """The nearest level of memory that holds so much."""
    for level in measured.levels:
        if size <= level.bytes or level.bytes == 0:
            return level.name, level.gbytes
    last = measured.levels[-1]
    return last.name, last.gbytes


def fraction_rows(
    results: Sequence[Result], demands: Mapping[str, Demand], measured: Mapping[int, Limits]
) -> list[list[str]]:
    """How much of the machine Weft and the best peer use."""
    rows: list[list[str]] = []
    for each in [result for race in races(results) for result in (race.ours, race.peer)]:
        need, limit = demands[each.network], measured[each.threads]
        name, gbytes = _level(limit, need.weight_bytes)
        if not math.isnan(each.gbytes):
            name, gbytes = f"{name} at {each.gbytes:.0f} GB/s", each.gbytes
        compute = need.flops / each.median / 1e6 / limit.gflops
        moved = need.weight_bytes / each.median / 1e6 / gbytes
        rows.append(
            [
                each.network,
                each.contestant,
                str(each.threads),
                f"{compute:.0%}",
                f"{moved:.0%} of {name}",
            ]
        )
    return rows


def cost_rows(results: Sequence[Result]) -> list[list[str]]:
    """Accuracy, time to get ready, memory, sizes."""
    return [
        [
            each.network,
            each.contestant,
            str(each.threads),
            "-" if math.isnan(each.error) else f"{each.error:.1e}",
            number(each.ready),
            number(each.again),
            megabytes(each.peak_bytes),
            megabytes(each.resident_bytes),
            megabytes(each.code_bytes),
            megabytes(each.weight_bytes),
            megabytes(each.runtime_bytes),
        ]
        for each in results
        if not math.isnan(each.error)
    ]


def grouped(results: Sequence[Result]) -> dict[str, list[str]]:
    """The networks of each group, in whatever batch they were measured."""
    names = list(dict.fromkeys(each.network for each in results))
    return {
        group: [name for name in names if images_of(name)[0] in members]
        for group, members in GROUPS.items()
    }


def before_lines(results: Sequence[Result]) -> list[str]:
    """How long the other checkout takes, beside this one; nothing where there is none."""
    times = {(each.network, each.threads, each.contestant): each for each in results if each.times}
    rows: list[list[str]] = []
    ratios: dict[int, list[float]] = {}
    for (name, threads, contestant), before in times.items():
        ours = times.get((name, threads, "weft"))
        if contestant != BEFORE or ours is None:
            continue
        # Turns lie side by side: ratios of rounds are steadier than a ratio of medians.
        pairs = zip(before.times, ours.times, strict=False)
        ratio = median(old / new for old, new in pairs)
        ratios.setdefault(threads, []).append(ratio)
        rows.append(
            [name, str(threads), number(ours.median), number(before.median), f"{ratio:.3f}"]
        )
    for threads, each in ratios.items():
        rows.append(["geometric mean", str(threads), "", "", f"{geometric_mean(each):.3f}"])
    heads = ["network", "threads", "weft", "before", "before / weft"]
    return ["## Before over now", "", *markdown(heads, rows), ""] if rows else []


def report(
    lines: Sequence[str],
    results: Sequence[Result],
    demands: Mapping[str, Demand],
    measured: Mapping[int, Limits],
) -> list[str]:
    """All tables as Markdown."""
    text = ["# Weft and its peers", "", *(f"{line}  " for line in lines), ""]
    timed = {each.contestant for each in results if each.times}
    contestants = [name for name in MAKERS if name in timed]
    for threads in sorted({each.threads for each in results}):
        heads = ["network", *contestants, "best peer", "best peer / weft"]
        text += [f"## Milliseconds with {threads} thread{'s' if threads > 1 else ''}", ""]
        text += [*markdown(heads, time_rows(results, threads, contestants)), ""]
    text += before_lines(results)
    heads = ["networks", "threads", "geometric mean", "worst", "where"]
    text += ["## Best peer over weft", "", *markdown(heads, summary(results, grouped(results)))]
    text += [""]
    heads = ["network", "contestant", "threads", "of the FMA peak", "of the bandwidth"]
    text += ["## Of this machine's limits", ""]
    text += [
        "Arithmetic of the model (whatever an algorithm saves) over the measured peak of "
        "multiply-adds; bytes of weights over the measured bandwidth of the nearest memory that "
        "holds them: of a cache the best ever measured, of DRAM what it gave in the same rounds.",
        "",
        *markdown(heads, fraction_rows(results, demands, measured)),
        "",
    ]
    heads = ["network", "contestant", "threads", "error / range", "ready s", "again s"]
    heads += ["peak MB", "resident MB", "code MB", "weights MB", "libraries MB"]
    text += ["## Accuracy and cost", "", *markdown(heads, cost_rows(results)), ""]
    short = {(each.network, each.threads): each.repeated for each in results if each.repeated}
    if short:
        text += ["## Rounds repeated", "", "The machine was short of processors in them:", ""]
        text += [f"- {name}, threads: {threads}: {n}" for (name, threads), n in short.items()]
        text += [""]
    missing = [each for each in results if each.why]
    if missing:
        text += ["## Left out", ""]
        text += [
            f"- {each.contestant}, {each.network}, threads: {each.threads}: {each.why}"
            for each in missing
        ]
    return text


def plot(results: Sequence[Result], threads: int) -> str:
    """Speed of every contestant relative to the best peer's, by network."""
    groups: dict[str, dict[str, float]] = {}
    for race in races(results):
        if race.threads != threads:
            continue
        groups[race.network] = {
            each.contestant: race.peer.median / each.median
            for each in results
            if (each.network, each.threads) == (race.network, threads) and each.times
        }
    label = f"{threads} thread{'s' if threads > 1 else ''}"
    return bars(f"Speed relative to the best peer, {label}", groups)


def write(
    folder: Path,
    lines: Sequence[str],
    results: Sequence[Result],
    demands: Mapping[str, Demand],
    measured: Mapping[int, Limits],
) -> None:
    """All files; called after every network, so that nothing is lost."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(report(lines, results, demands, measured))
    (folder / "results.md").write_text(text + "\n")
    record = {
        "machine": list(lines),
        "limits": [each.record() for each in measured.values()],
        "demands": {name: asdict(each) for name, each in demands.items()},
        "results": [asdict(each) for each in results],
    }
    (folder / "results.json").write_text(json.dumps(record, indent=1) + "\n")
    for threads in sorted({each.threads for each in results}):
        (folder / f"results-{threads}.svg").write_text(plot(results, threads))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="*", default=[*DEFAULT], help="networks and groups")
    parser.add_argument("--contestants", nargs="*", choices=[*MAKERS], default=[*USUAL])
    parser.add_argument("--batch", type=int, default=1, help="images at once")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--patience", type=float, default=900, help="seconds for one answer")
    parser.add_argument("--cache", type=Path, help="keep what contestants compile, and use it")
    parser.add_argument("--before", type=Path, help="a checkout whose Weft is a contestant, too")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    parser.add_argument("--resume", action="store_true", help="leave out what --out has already")
    found = parser.parse_args()
    try:
        found.names = [batched(name, found.batch) for name in named(found.names)]
    except ValueError as error:
        parser.error(str(error))
    if found.clock == "cpu" and found.threads != [1]:
        parser.error("--clock cpu says something with --threads 1 only")
    if max(found.threads) > len(os.sched_getaffinity(0)):
        parser.error("there are not so many processors")
    return found


def measured_before(folder: Path) -> tuple[list[Result], dict[str, Demand]]:
    """The results of a run that was broken off, whole races only; none without its file."""
    path = folder / "results.json"
    if not path.exists():
        return [], {}
    record = json.loads(path.read_text())
    results = [
        Result(**{**each, "times": tuple(each["times"])})
        for each in record["results"]
        if each["times"] or each["why"]
    ]
    return results, {name: Demand(**each) for name, each in record["demands"].items()}


def main() -> int:
    given = arguments()
    options = Options(
        (
            *(name for name in MAKERS if name in given.contestants),
            *((BEFORE,) if given.before else ()),
        ),
        given.rounds,
        given.seconds,
        given.clock,
        given.cache,
        given.patience,
        given.before,
    )
    measured = {threads: limits(target("host"), threads) for threads in given.threads}
    meters = {each: Meter(target("host"), each) for each in measured}
    lines = machine_lines(options, measured)
    results, demands = measured_before(given.out) if given.resume else ([], {})
    done = {(each.network, each.threads) for each in results}
    for network in given.names:
        left = [threads for threads in given.threads if (network, threads) not in done]
        if not left:
            continue
        ensure(network)
        demands[network] = demand(network)
        expected = expected_output(network, options.patience, options.cache)
        for threads in left:
            print(f"{network}, threads: {threads} ...", file=sys.stderr, flush=True)
            watch = Watch(
                meters[threads], measured[threads], memory(measured[threads], demands[network])
            )
            results += contest(network, threads, options, expected, watch)
            write(given.out, lines, results, demands, measured)
    print((given.out / "results.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
