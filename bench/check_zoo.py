"""Compiles the exported networks and checks what the issue of each promises.

    python -m bench.check_zoo                         every file of the zoo's folder
    python -m bench.check_zoo --names resnet18 lstm   these networks only
    python -m bench.check_zoo --json zoo.json         and the figures as JSON

One line for each file (both exporters, batch norms left in, and the variants with a symbolic
batch at batch 1 and 3): the largest difference from onnxruntime over the range of its output,
the arena's bytes beside the lower bound, seconds of import, recipes, plan, code generation and
compiling, the processor's seconds for all of it (what counts on a busy machine), and the sizes
of C and weights.  Each file has a process of its own, and nothing comes
from the cache of built libraries.  The exit code is 1 if a line fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import weft
from bench.folders import zoo_folder
from bench.oracle import by_onnxruntime
from weft.api import Net
from weft.codegen.emit import emit
from weft.errors import InternalError, UserError
from weft.frontends.onnx.loading import RefusedError
from weft.kernels.selection import implementer
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.to_program import lower
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.compare import compare
from weft.targets.find import target

ERROR = 1e-4
RATIO = 1.05
PLAN_SECONDS = 10.0


@dataclass(frozen=True)
class Case:
    """A file of the zoo at a batch size; 0 where the file fixes it."""

    path: Path
    batch: int

    @property
    def label(self) -> str:
        """The file's name, with the batch that was bound."""
        name = self.path.name.removesuffix(".onnx")
        return f"{name}={self.batch}" if self.batch else name

    def inputs(self) -> np.ndarray:
        """The zoo's input for it."""
        stem = self.path.name.split(".")[0]
        golden = f"{stem}.batch.npz" if self.batch else f"{stem}.npz"
        with np.load(self.path.with_name(golden)) as arrays:
            x = arrays["x"]
        return np.ascontiguousarray(x[: self.batch]) if self.batch else x


@dataclass(frozen=True)
class Figures:
    """What was found of one case; seconds and bytes, and ``problem`` if there is one."""

    label: str
    problem: str = ""
    error: float = float("nan")
    arena: int = 0
    lower_bound: int = 0
    load: float = 0.0
    recipes: float = 0.0
    plan: float = 0.0
    codegen: float = 0.0
    compile: float = 0.0
    processor: float = 0.0
    c_bytes: int = 0
    weight_bytes: int = 0

    @property
    def ratio(self) -> float:
        """The arena over its lower bound."""
        return self.arena / self.lower_bound if self.lower_bound else 1.0

    def failures(self) -> list[str]:
        """What it does not keep."""
        if self.problem:
            return [self.problem]
        found: list[str] = []
        if not self.error < ERROR:
            found.append(f"error {self.error:.1e}")
        if self.ratio > RATIO:
            found.append(f"arena ratio {self.ratio:.3f}")
        if self.plan > PLAN_SECONDS:
            found.append(f"plan took {self.plan:.1f} s")
        return found


def cases(folder: Path, names: Sequence[str]) -> Iterator[Case]:
    """The files of some networks, or of all: small ones first."""
    # Exports that were broken off begin with a dot.
    for path in sorted(
        folder.glob("[!.]*.onnx"), key=lambda path: (path.stat().st_size, path.name)
    ):
        stem, variant, _ = path.name.split(".")
        if names and stem not in names:
            continue
        for batch in (1, 3) if variant.endswith("-batch") else (0,):
            yield Case(path, batch)


class Clock:
    """Seconds since the last look."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def lap(self) -> float:
        now = time.perf_counter()
        elapsed, self.start = now - self.start, now
        return elapsed


def processor_seconds() -> float:
    """Of this process and of those that it waited for."""
    return sum(os.times()[:4])


def loaded(case: Case, x: np.ndarray) -> Net:
    """The net; its batch is bound after the import where the import can leave it open."""
    if not case.batch:
        return weft.load(case.path)
    try:
        return weft.load(case.path).bound(case.batch)
    except RefusedError:
        return weft.load(case.path, {"x": x.shape})


def check(case: Case) -> Figures:
    """Compiles one file without the cache and compares its output."""
    machine = target("host")
    x = case.inputs()
    start = processor_seconds()
    clock = Clock()
    net = loaded(case, x)
    load = clock.lap()
    graph = net.expanded().graph
    recipes = clock.lap()
    plan = make(graph, OPS, implementer(machine))
    program = lower(plan, net.graph.name)
    planning = clock.lap()
    emit(program, machine.flavour, "blob")
    codegen = clock.lap()
    with tempfile.TemporaryDirectory() as folder:
        library = build(program, machine.flavour, cache=Cache(Path(folder)))
        built, spent = clock.lap(), processor_seconds() - start
        found = library(x)[0]
    difference = compare("y", found, by_onnxruntime(case.path, x))
    blob = library.files.blob
    return Figures(
        case.label,
        error=difference.relative,
        arena=plan.arena_bytes,
        lower_bound=plan.lower_bound,
        load=load,
        recipes=recipes,
        plan=planning,
        codegen=codegen,
        compile=built - codegen,
        processor=spent,
        c_bytes=sum(len(text) for _, text in (*library.files.sources, *library.files.private)),
        weight_bytes=blob.size if blob else 0,
    )


def checked(case: Case) -> Figures:
    """As ``check``; errors of Weft are findings too."""
    try:
        return check(case)
    except (UserError, InternalError) as error:
        return Figures(
            case.label, problem=f"{type(error).__name__}: {' '.join(str(error).split())}"
        )


def apart(case: Case, seconds: float) -> Figures:
    """As ``checked``, in a process of its own."""
    command = [sys.executable, "-m", "bench.check_zoo", "--one", str(case.path), str(case.batch)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return Figures(case.label, problem=f"took more than {seconds:.0f} s")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return Figures(case.label, problem=f"exit code {done.returncode}: {last}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


HEADINGS = (
    f"{'network':26} {'error':>8} {'arena':>12} {'bound':>12} {'ratio':>6} {'import':>7} "
    f"{'recipes':>7} {'plan':>6} {'codegen':>7} {'compile':>7} {'CPU s':>6} {'C kB':>7} "
    f"{'weights':>12}"
)


def line(figures: Figures) -> str:
    """One line of the table."""
    failures = figures.failures()
    if figures.problem:
        return f"{figures.label:26} FAILS: {figures.problem[:1000]}"
    text = (
        f"{figures.label:26} {figures.error:8.1e} {figures.arena:12,} {figures.lower_bound:12,} "
        f"{figures.ratio:6.3f} {figures.load:7.1f} {figures.recipes:7.1f} {figures.plan:6.1f} "
        f"{figures.codegen:7.1f} {figures.compile:7.1f} {figures.processor:6.1f} "
        f"{figures.c_bytes / 1000:7,.0f} {figures.weight_bytes:12,}"
    )
    return f"{text}  FAILS: {', '.join(failures)}" if failures else text


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="*", default=[], help="networks (default: all there are)")
    parser.add_argument("--folder", type=Path, default=zoo_folder())
    parser.add_argument("--seconds", type=float, default=900.0, help="time limit of each file")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        path, batch = arguments.one
        print(json.dumps(asdict(checked(Case(Path(path), int(batch))))))
        return 0
    wanted = list(cases(arguments.folder, arguments.names))
    if not wanted:
        parser.error(f"no such networks in {arguments.folder}: run `make zoo-export` first")
    print(HEADINGS, flush=True)
    results: list[Figures] = []
    for case in wanted:
        results.append(apart(case, arguments.seconds))
        print(line(results[-1]), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in results], indent=1) + "\n")
    failed = sum(bool(each.failures()) for each in results)
    print(f"{len(results) - failed} of {len(results)} keep everything")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
