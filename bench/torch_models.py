"""Runs a catalog of PyTorch models through Weft, and writes the table of what comes of it.

    python -m bench.torch_models                     models without a result of this version of Weft
    python -m bench.torch_models resnet18 'timm_*'   these, again
    python -m bench.torch_models --import-only       imports graphs and compiles nothing
    python -m bench.torch_models --failed            those with errors or fallbacks, again
    python -m bench.torch_models --table FILE        writes the table (Markdown), runs nothing;
                                                     rows in FILE without results here stay;
                                                     times of `bench.torch_speed` follow
    python -m bench.torch_models --list              every name

Each model runs in a process of its own with limits of time and memory: through ``weft.optimize``,
through ``torch.compile(backend="weft")``, and in double precision (``--ways double``), from which
both Weft and PyTorch differ.  A classification or segmentation model whose results were too far
off is trained for some steps and runs again both ways (``--ways trained``).

Results are lines of JSON in `$WEFT_TORCH_RESULTS`, by default `~/.cache/weft/torch-models.jsonl`;
the last of a model and a way counts.  Times are the least of alternating runs on one thread,
beside PyTorch's own in both layouts.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.torch_ways import DOUBLE, TRAINED, WAYS, work
from weft.runtime.limits import processor_name

SECONDS, GIGABYTES = 400.0, 14
"""Limits of a way unless others are given."""
CLOSE = 1e-4
"""So far results may be off, relative to their range."""


def results_file() -> Path:
    """Where results are kept."""
    default = Path.home() / ".cache" / "weft" / "torch-models.jsonl"
    return Path(os.environ.get("WEFT_TORCH_RESULTS") or default)


def version() -> str:
    """The state of the sources: git's name of the folder, or nothing."""
    command = ["git", "rev-parse", "--short=12", "HEAD:src/weft"]
    top = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=top, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# --- the processes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What a process may take.

    Attributes:
        seconds: for each way.
        gigabytes: of memory.
    """

    seconds: float
    gigabytes: int

    def set_memory(self) -> None:
        """Limits the memory of this process."""
        resource.setrlimit(resource.RLIMIT_DATA, (self.gigabytes << 30, self.gigabytes << 30))


def run(name: str, ways: Sequence[str], file: Path, limits: Limits) -> None:
    """Runs a model in a process; what ends it early is the result of the way it was in."""
    left = list(ways)
    while left:
        lines, ended = _process(name, left, limits)
        running = ""
        for line in lines:
            if "started" in line:
                running = line["started"]
                continue
            _keep(file, {"model": name, **line})
            left.remove(line["way"])
            running = ""
        if left:
            way = running or left[0]
            _keep(file, {"model": name, "way": way, "status": "error", "error": ended})
            left.remove(way)


def _process(name: str, ways: Sequence[str], limits: Limits) -> tuple[list[dict[str, Any]], str]:
    """What the worker printed, and how it ended."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.torch_models", "--worker", name, *ways]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(
            command, stdout=out, stderr=err, start_new_session=True, preexec_fn=limits.set_memory
        )
        try:
            code = process.wait(limits.seconds * len(ways))
            ended = f"exit status {code}"
        except subprocess.TimeoutExpired:
            ended = f"took more than {limits.seconds * len(ways):.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        err.seek(0)
        told = err.read().strip().splitlines()
        if os.environ.get("WEFT_TORCH_VERBOSE") and told:
            print(*told, sep="\n", file=sys.stderr)
        if ended.startswith("exit") and told:
            ended += f": {told[-1][:300]}"
        lines = [json.loads(line) for line in out.read().splitlines() if line.startswith("{")]
        return lines, ended


def _keep(file: Path, record: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as out:
        about = {"version": version(), "processor": processor_name()}
        out.write(json.dumps({**record, **about}) + "\n")
    print(_shown(record), flush=True)


def _shown(record: dict[str, Any]) -> str:
    head = f"{record['model']:36} {record['way']:9}"
    if record["status"] != "ok":
        return f"{head} {record['error']}"
    if "eager" in record:
        off = "".join(f"{record[way]:.2e} off by {way}, " for way in WAYS if way in record)
        return f"{head} {off}{record['weft']:.2e} off double, PyTorch {record['eager']:.2e}"
    other = "; ".join(f"{count} {name}" for name, count in record["fallbacks"].items())
    if "ratio" not in record:
        return f"{head} {record['nodes']} nodes, {other or 'all imported'}"
    return (
        f"{head} {record['difference']:.1e} off, {record['ratio']:.2f} times, "
        f"built in {record['built']} s{', by PyTorch: ' if other else ''}{other}"
    )


def kept(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The last result of each model and way."""
    lines = file.read_text().splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    return {(each["model"], each["way"]): each for each in records}


# --- command line -----------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="models, with `*`")
    parser.add_argument("--import-only", action="store_true", help="imports; compiles nothing")
    every = [*WAYS, DOUBLE]
    parser.add_argument("--ways", nargs="+", choices=[*every, TRAINED], default=every)
    parser.add_argument("--failed", action="store_true", help="what did not go well, again")
    parser.add_argument("--any-version", action="store_true", help="keep results of older sources")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after")
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds of a model and way")
    parser.add_argument("--gigabytes", type=int, default=GIGABYTES, help="of memory of a process")
    parser.add_argument("--table", type=Path, help="write the table there")
    parser.add_argument("--list", action="store_true", help="print every name and stop")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker[0], arguments.worker[1:])
        return
    if arguments.table:
        _write_table(arguments.table)
        return
    from bench.torch_catalog import CATALOG  # noqa: PLC0415

    if arguments.list:
        print(*CATALOG, sep="\n")
        return
    file = results_file()
    ways = ["import"] if arguments.import_only else arguments.ways
    chosen = [
        name
        for name in CATALOG
        if not arguments.names or any(fnmatch.fnmatch(name, each) for each in arguments.names)
    ]
    if not chosen:
        parser.error(f"no such model: {', '.join(arguments.names)} (see --list)")
    limits = Limits(arguments.limit, arguments.gigabytes)
    end = time.monotonic() + arguments.seconds
    for name in chosen:
        known = kept(file)
        wanted = [way for way in ways if _wanted(known.get((name, way)), arguments)]
        if wanted and time.monotonic() < end:
            run(name, wanted, file, limits)


def _write_table(page: Path) -> None:
    """Writes the table of what the page has already and of all results kept here."""
    from bench import torch_speed  # noqa: PLC0415
    from bench.torch_table import results_of, table, times_of  # noqa: PLC0415

    old = page.read_text() if page.exists() else ""
    times = {(each["model"], each["threads"]): each for each in torch_speed.kept()}
    page.write_text(table(results_of(old) | kept(results_file()), times_of(old) | times))


def _wanted(record: dict[str, Any] | None, arguments: argparse.Namespace) -> bool:
    """Whether a result is missing, too old, or asked for."""
    if arguments.failed:
        return record is None or not ("eager" in record or well(record))
    if arguments.names or record is None:
        return True
    return not arguments.any_version and record["version"] != version()


def well(record: dict[str, Any], trained: float | None = None) -> bool:
    """Whether a model ran whole, and right.

    Args:
        record: of a way.
        trained: the difference after a training, where there was one: it counts.
    """
    off = record.get("difference", 0.0) if trained is None else trained
    return record["status"] == "ok" and not record["fallbacks"] and off <= CLOSE


if __name__ == "__main__":
    main()
