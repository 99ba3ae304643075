"""Compile random models in several ways and compare their results with onnxruntime's.

A seed is one model, so that whatever is found can be had again:

    python scripts/fuzz_models.py --seconds 600
    python scripts/fuzz_models.py --seed 123456
    python scripts/fuzz_models.py --nnsmith       models of NNSmith (`pip install weft[fuzz]`)

Of a model that fails, the folder `build/fuzz/SEED` holds the file, its inputs, the smallest
part of it that fails as well, and what was found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fuzz.growing import Grown, Unfit, grown
from tests.fuzz.shrinking import Values, shrunk
from tests.fuzz.templates import TEMPLATES
from tests.fuzz.templates_windows import WINDOWS
from tests.fuzz.voices import Verdict, judged

SECONDS = 120.0
"""A model that takes longer hangs."""
FORK = get_context("fork")

Make = Callable[[int], Grown]


def own(seed: int) -> Grown:
    """A model of Weft's generator."""
    return grown(seed, (*TEMPLATES, *WINDOWS))


def attempt(make: Make, seed: int, out: Path) -> Verdict:
    """The verdict on a seed's model; one that fails is written down."""
    try:
        model = make(seed)
    except Unfit as error:
        return Verdict("unfit", text=str(error))
    verdict = judged(model.model, model.feeds, turn=seed)
    if verdict.bad:
        write(out / str(seed), model, verdict, seed)
    return verdict


def _save(path: Path, arrays: Values) -> None:
    kept: dict[str, Any] = dict(arrays)
    np.savez(path, **kept)


def write(folder: Path, model: Grown, verdict: Verdict, seed: int) -> None:
    """The model, its inputs, the smallest part that fails the same way, and the verdict."""
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model.model, folder / "model.onnx")
    _save(folder / "inputs.npz", model.feeds)
    ways = [verdict.way] if verdict.way != "import" else []

    def fails(part: onnx.ModelProto, feeds: Values) -> bool:
        found = judged(part, feeds, ways, seed)
        return (found.kind, found.way) == (verdict.kind, verdict.way)

    small, feeds = shrunk(model.model, model.values, fails)
    onnx.save(small, folder / "small.onnx")
    _save(folder / "small.npz", feeds)
    text = [f"{verdict.kind} ({verdict.way}): {verdict.text}", verdict.detail]
    (folder / "verdict.txt").write_text("\n".join([*text, onnx.printer.to_text(small)]))


def _child(make: Make, seed: int, out: Path, answer: Connection) -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WEFT_CACHE"] = cache
        answer.send(attempt(make, seed, out))


@dataclass
class Crew:
    """Processes of one model each: what crashes or hangs takes nobody along."""

    make: Make
    out: Path
    working: dict[Connection, tuple[int, BaseProcess, float]] = field(default_factory=dict)

    def begin(self, seed: int) -> None:
        """Another model."""
        here, there = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_child, args=(self.make, seed, self.out, there))
        process.start()
        there.close()
        self.working[here] = (seed, process, time.monotonic() + SECONDS)

    def finished(self) -> Iterator[tuple[int, Verdict]]:
        """Models that are done, or took too long."""
        done = wait(list(self.working), timeout=0.5)
        for pipe, (seed, process, end) in list(self.working.items()):
            if pipe not in done and time.monotonic() < end:
                continue
            del self.working[pipe]
            yield seed, _answer(pipe, process, hangs=pipe not in done)


def _answer(pipe: Connection, process: BaseProcess, *, hangs: bool) -> Verdict:
    if hangs:
        process.kill()
        process.join()
        return Verdict("bug", text=f"took more than {SECONDS:g} s")
    try:
        return pipe.recv()
    except EOFError:
        return Verdict("bug", text="the process died")
    finally:
        process.join()


def run(make: Make, options: argparse.Namespace) -> int:
    """Models until the time is up; 1 if any fails."""
    crew = Crew(make, options.out)
    counts: Counter[str] = Counter()
    refusals: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    seed = options.start
    while crew.working or time.monotonic() < end:
        while len(crew.working) < options.jobs and time.monotonic() < end:
            crew.begin(seed)
            seed += 1
        for which, verdict in crew.finished():
            counts[verdict.kind] += 1
            if verdict.kind in {"refused", "unfit"}:
                refusals[verdict.text] += 1
            elif verdict.kind != "right":
                print(f"seed {which}: {verdict.kind} {verdict.way}: {verdict.text}", flush=True)
    if options.refusals:
        print(*(f"{count} {text}" for text, count in refusals.most_common()), sep="\n")
    print(f"seeds {options.start} to {seed - 1}: ", end="")
    print(", ".join(f"{count} {kind}" for kind, count in counts.most_common()))
    return 1 if counts["wrong"] or counts["bug"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, help="this model only")
    parser.add_argument("--start", type=int, default=int(time.time()), help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("build") / "fuzz")
    parser.add_argument("--nnsmith", action="store_true", help="models of NNSmith")
    parser.add_argument("--refusals", action="store_true", help="say why models were refused")
    options = parser.parse_args()
    make = own
    if options.nnsmith:
        # It needs PyTorch, which is no part of the tests.
        from bench.nnsmith import published  # noqa: PLC0415

        make = published()
    if options.seed is None:
        return run(make, options)
    shutil.rmtree(options.out / str(options.seed), ignore_errors=True)
    verdict = attempt(make, options.seed, options.out)
    print(f"{verdict.kind} {verdict.way}: {verdict.text}\n{verdict.detail}".strip())
    return verdict.bad


if __name__ == "__main__":
    sys.exit(main())
