"""Time from a model's file to a network that is ready, by phase, and the memory that it takes.

    python -m bench.building model.onnx model.keras     files
    python -m bench.building vit_b_16 swin_t            networks of `bench.zoo`
    python -m bench.building vit_b_16 --threads 1 2 --rounds 3 --table building.md

Each build runs in a fresh process with an empty cache of networks; the fastest of the rounds
counts, so Python's byte code is there.  The clock starts when `weft` is imported and stops when
the network can be called.  Packing runs while compilers do: `compile` is what is waited for them
before and after.  Memory is the largest sum of the resident pages of the process and its
compilers in any round, sampled from outside every hundredth of a second; mapped files count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import weft
from bench.figures import markdown
from bench.folders import zoo_folder
from weft.errors import UserError
from weft.reporting import Step, progress
from weft.runtime.limits import processor_name

PHASES: tuple[str, ...] = ("read", "simplify", "plan", "lower", "write", "compile", "pack")
_OF_STEP = {
    "simplifying": "simplify",
    "planning": "plan",
    "lowering": "lower",
    "writing C": "write",
    "linking": "compile",
    "packing weights": "pack",
}
SAMPLE_SECONDS = 0.01


@dataclass(frozen=True)
class Figures:
    """What a build took.

    Attributes:
        seconds: by phase.
        processor: seconds of the process and of its compilers, on all cores.
        weights: bytes of the file.
        peak: bytes of the process and its compilers at once.
    """

    seconds: dict[str, float]
    processor: float
    weights: int
    peak: int

    @property
    def total(self) -> float:
        """Seconds from the file to a network that is ready."""
        return sum(self.seconds.values())

    @property
    def bound(self) -> int:
        """Twice the weights and 300 MB."""
        return 2 * self.weights + 300_000_000


def build(path: Path, threads: int) -> None:
    """Builds a network and prints what each phase took; in a process of its own."""
    changes: list[tuple[str, float]] = [("read", time.perf_counter())]

    def note(step: Step) -> None:
        phase = _OF_STEP.get(step.what, "compile" if step.what.startswith("compiling") else "")
        changes.append((phase or changes[-1][0], time.perf_counter()))

    with progress(note):
        weft.load(path).compile(threads=threads)
    end = time.perf_counter()
    seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
    for (phase, start), (_, stop) in zip(changes, [*changes[1:], ("", end)], strict=True):
        seconds[phase] += stop - start
    times = os.times()
    processor = times.user + times.system + times.children_user + times.children_system
    print(json.dumps({"seconds": seconds, "processor": processor, "weights": path.stat().st_size}))


def environment(bytecode: Path) -> dict[str, str]:
    """Variables for a process that finds Python's byte code where others left it."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(bytecode)}


def measured(path: Path, threads: int, bytecode: Path) -> Figures:
    """Builds a network in a fresh process with an empty cache of networks."""
    with tempfile.TemporaryDirectory(prefix="weft-building-") as cache:
        command = [sys.executable, "-m", "bench.building", "--worker", str(path)]
        process = subprocess.Popen(
            [*command, "--threads", str(threads)],
            stdout=subprocess.PIPE,
            text=True,
            env={**environment(bytecode), "WEFT_CACHE": cache},
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(SAMPLE_SECONDS)
        out = process.stdout.read() if process.stdout else ""
    if process.returncode != 0:
        raise SystemExit(f"{path} was not built")
    return Figures(**json.loads(out.splitlines()[-1]), peak=peak)


def _resident(root: int) -> int:
    """Bytes of the resident pages of a process and of those that it started."""
    page, total, left = os.sysconf("SC_PAGE_SIZE"), 0, [root]
    while left:
        process = Path("/proc", str(left.pop()))
        try:
            # Between its start and that of its program a child has the pages of its parent.
            if process.name == str(root) or _program(process) != _program(Path("/proc", str(root))):
                total += int((process / "statm").read_text().split()[1]) * page
            for thread in (process / "task").iterdir():
                left += map(int, (thread / "children").read_text().split())
        except (OSError, IndexError):
            continue  # ended meanwhile
    return total


def _program(process: Path) -> str:
    return os.readlink(process / "exe")


def path_of(name: str) -> Path:
    """The file of a model: the name is one, or that of a network of the zoo."""
    return Path(name) if Path(name).suffix else zoo_folder() / f"{name}.ts.onnx"


def row(name: str, threads: int, rounds: Sequence[Figures]) -> tuple[str, ...]:
    """A line of the table: the fastest round, and the largest memory of all."""
    best, peak = min(rounds, key=lambda each: each.total), max(each.peak for each in rounds)
    phases = [f"{best.seconds[phase]:.2f}" for phase in PHASES]
    memory = [f"{size / 1e6:.0f}" for size in (best.weights, peak, best.bound)]
    total = f"{best.total:.2f}"
    return name, str(threads), *phases, total, f"{best.processor:.2f}", *memory


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", help="files, or networks of the zoo")
    parser.add_argument("--threads", nargs="+", type=int, default=[1], help="of the network")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--table", type=Path, help="write the table there")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        try:
            build(arguments.worker, arguments.threads[0])
        except UserError as error:
            raise SystemExit(str(error)) from None
        return
    missing = [str(path) for path in map(path_of, arguments.names) if not path.is_file()]
    if missing:
        parser.error(f"no such file: {', '.join(missing)} (make zoo-export)")
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="weft-bytecode-") as folder:
        for name in arguments.names:
            for threads in arguments.threads:
                path, rounds = path_of(name), range(arguments.rounds)
                found = [measured(path, threads, Path(folder)) for _ in rounds]
                rows.append(row(Path(name).name, threads, found))
                print(*rows[-1], sep="\t", flush=True)
    head = ("model", "threads", *PHASES, "total s", "processor s", "weights MB", "peak MB", "bound")
    about = f"{processor_name()}, {os.cpu_count()} cores"
    text = "\n".join([about, "", *markdown(head, rows), ""])
    if arguments.table:
        arguments.table.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
