"""What an image costs in a batch beside what it costs alone.

    python -m bench.batches                                the networks below, 1 and 2 threads
    python -m bench.batches --names resnet18 --batches 8 --threads 1
    python -m bench.batches --threads 1 --clock cpu        processor time, for a busy machine

One process builds a network for one image and for each batch, and measures them in turn: as many
runs of one image as the batch has, then one run of the batch.  The medians are compared.  The
outputs of a batch must be those of its images.  With several threads images are shared out, too:
each thread runs some by a network built for one thread.

Written: batches.md and batches.json, anew after every network.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

import weft
from bench.figures import markdown, median, number
from bench.networks import ensure, named, network, turned
from bench.worker import CLOCKS
from weft.runtime.limits import processor_name

NETWORKS = (
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "vgg16",
    "densenet121",
    "squeezenet1_1",
    "vit_b_16",
    "bert",
)
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Cost:
    """What a network takes.

    Attributes:
        network, batch, threads: of what.
        alone: milliseconds of one image by itself.
        image: milliseconds of one image of the batch.
        apart: milliseconds of one image where each thread runs whole ones; NaN with one thread.
    """

    network: str
    batch: int
    threads: int
    alone: float
    image: float
    apart: float = math.nan

    @property
    def ratio(self) -> float:
        """How many times as much an image costs in the batch."""
        return self.image / self.alone


def costs(
    name: str, batches: Sequence[int], threads: int, seconds: float, clock: Callable[[], int]
) -> list[Cost]:
    """What an image of a network costs, for each batch."""
    found = network(name)
    net = weft.load(str(found.path))
    (image,) = found.inputs
    alone = net.compile(threads=threads)
    single = net.compile(threads=1)
    made: list[Cost] = []
    for batch in batches:
        images = turned(image, batch)
        parts = np.split(images, batch)
        together = net.with_shapes({net.graph.inputs[0]: images.shape}).compile(threads=threads)
        wanted = np.concatenate([alone(part) for part in parts])
        if np.abs(together(images) - wanted).max() > TOLERANCE * np.abs(wanted).max():
            sys.exit(f"{name}: a batch of {batch} gives other results than its images")
        runs = [partial(list_of, alone, parts), partial(together, images)]
        with ThreadPoolExecutor(threads) as pool:
            if threads > 1:
                runs.append(partial(shared_out, pool, single, parts, threads))
            times = [each / batch for each in in_turn(runs, seconds, clock)]
        made.append(Cost(name, batch, threads, *times))
    return made


def list_of(run: Callable[[np.ndarray], object], parts: Sequence[np.ndarray]) -> list[object]:
    """What a network makes of each image by itself."""
    return [run(part) for part in parts]


def shared_out(
    pool: Executor,
    run: Callable[[np.ndarray], object],
    parts: Sequence[np.ndarray],
    threads: int,
) -> list[list[object]]:
    """What a network makes of the images where each thread runs some."""
    return list(
        pool.map(partial(list_of, run), [parts[first::threads] for first in range(threads)])
    )


def in_turn(
    runs: Sequence[Callable[[], object]], seconds: float, clock: Callable[[], int]
) -> list[float]:
    """Median milliseconds of each, measured in turn."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for run, each in zip(runs, times, strict=True):
            start = clock()
            run()
            each.append((clock() - start) / 1e6)
    return [median(each) for each in times]


def table(found: Sequence[Cost]) -> str:
    """All costs as a table."""
    rows = [
        (
            each.network,
            str(each.batch),
            str(each.threads),
            number(each.alone),
            number(each.image),
            f"{each.ratio:.2f}",
            number(each.apart),
        )
        for each in found
    ]
    head = ("network", "batch", "threads", "ms alone", "ms an image", "ratio", "ms, one a thread")
    return "\n".join(markdown(head, rows))


def write(folder: Path, machine: str, found: Sequence[Cost]) -> str:
    """Both files; returns the text of the one to read."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{machine}\n\n{table(found)}\n"
    (folder / "batches.md").write_text(text)
    (folder / "batches.json").write_text(json.dumps([asdict(each) for each in found], indent=1))
    return text


def main() -> None:
    """Measures, and writes what was found."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="*", default=[*NETWORKS], help="networks and groups")
    parser.add_argument("--batches", nargs="*", type=int, default=[8, 32])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each pair")
    parser.add_argument("--clock", choices=[*CLOCKS], default="wall")
    parser.add_argument("--cache", type=Path, help="keep what is compiled, and use it")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    given = parser.parse_args()
    try:
        names = named(given.names)
    except ValueError as error:
        parser.error(str(error))
    if given.clock == "cpu" and given.threads != [1]:
        parser.error("--clock cpu says something with --threads 1 only")
    counts: list[int] = given.threads
    found: list[Cost] = []
    machine = f"{processor_name()}, {given.clock} time"
    text = ""
    with tempfile.TemporaryDirectory() as root:
        os.environ["WEFT_CACHE"] = str((given.cache or Path(root)).resolve())
        for name, threads in itertools.product(names, counts):
            ensure(name)
            found += costs(name, given.batches, threads, given.seconds, CLOCKS[given.clock])
            sys.stderr.write(table(found[-len(given.batches) :]) + "\n")
            text = write(given.out, machine, found)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
