"""What an image costs in a batch beside what it costs alone.

    python -m bench.batches                                the networks below, 1 and 2 threads
    python -m bench.batches --names resnet18 --batches 8 --threads 1

One process builds a network for one image and for each batch, and measures them in turn: as many
runs of one image as the batch has, then one run of the batch.  The medians are compared.  The
outputs of a batch must be those of its images.

Written: batches.md and batches.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import weft
from bench.figures import markdown, median, number
from bench.networks import DEFAULT, ensure, network
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
    """

    network: str
    batch: int
    threads: int
    alone: float
    image: float

    @property
    def ratio(self) -> float:
        """How many times as much an image costs in the batch."""
        return self.image / self.alone


def costs(name: str, batches: Sequence[int], threads: int, seconds: float) -> list[Cost]:
    """What an image of a network costs, for each batch."""
    found = network(name)
    net = weft.load(str(found.path))
    (image,) = found.inputs
    alone = net.compile(threads=threads)
    made: list[Cost] = []
    for batch in batches:
        images = np.concatenate([np.roll(image, n, -1) for n in range(batch)])
        parts = np.split(images, batch)
        together = net.with_shapes({net.graph.inputs[0]: images.shape}).compile(threads=threads)
        wanted = np.concatenate([alone(part) for part in parts])
        if np.abs(together(images) - wanted).max() > TOLERANCE * np.abs(wanted).max():
            sys.exit(f"{name}: a batch of {batch} gives other results than its images")
        one, all = in_turn(lambda parts=parts: list(map(alone, parts)), together, images, seconds)
        made.append(Cost(name, batch, threads, one / batch, all / batch))
    return made


def in_turn(
    alone: Callable[[], object],
    together: Callable[[np.ndarray], object],
    images: np.ndarray,
    seconds: float,
) -> tuple[float, float]:
    """Median milliseconds of both, measured in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 3:
        for run, each in zip((alone, lambda: together(images)), times, strict=True):
            start = time.perf_counter()
            run()
            each.append(1000 * (time.perf_counter() - start))
    return median(times[0]), median(times[1])


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
        )
        for each in found
    ]
    head = ("network", "batch", "threads", "ms alone", "ms an image", "ratio")
    return "\n".join(markdown(head, rows))


def main() -> None:
    """Measures, and writes what was found."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="*", choices=[*DEFAULT], default=[*NETWORKS])
    parser.add_argument("--batches", nargs="*", type=int, default=[8, 32])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each pair")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    given = parser.parse_args()
    found: list[Cost] = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WEFT_CACHE"] = cache
        for name in given.names:
            ensure(name)
            for threads in given.threads:
                found += costs(name, given.batches, threads, given.seconds)
                sys.stderr.write(table(found[-len(given.batches) :]) + "\n")
    given.out.mkdir(parents=True, exist_ok=True)
    text = f"{processor_name()}\n\n{table(found)}\n"
    (given.out / "batches.md").write_text(text)
    (given.out / "batches.json").write_text(json.dumps([asdict(each) for each in found], indent=1))
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
