"""Whether compiled code and PyTorch's OpenMP threads disturb each other when they alternate.

    python -m bench.torch_alternate                  2 threads each
    python -m bench.torch_alternate --threads 4

Steps are calls of two of: an optimized ResNet-18 (weft), its module's own forward (eager), the
same of a second model with other weights (weft2, eager2), and some of PyTorch's ops, two
convolutions and two matrix products (ops).  Each is timed in a loop of its own, and in steps.
Threads that disturb each other are told from data that does, since in a step each half finds the
other's in the caches, by steps of two models that both run in the same way, and by two more kinds
of loops: steps whose halves come after a pause, in which both pools' threads fall asleep (apart),
and halves alone that find the caches full of other data (cold).  Pauses and filling are not timed.
All loops alternate.  Printed are medians in milliseconds, and steps over the sums of their halves
alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import weft
from bench.zoo import vision

_CALLS = 15
_ROUNDS = 12
_PAUSE = 0.01
"""Seconds; OpenMP's threads spin for less."""
_FLOOD = 64 << 20
"""Bytes that are written for cold caches."""
_LOOPS = (
    *((half, "") for half in ("weft", "weft2", "eager", "eager2", "ops")),
    *((half, "cold") for half in ("weft", "eager", "ops")),
    *((step, "") for step in ("weft ops", "eager ops")),
    *((step, "") for step in ("weft eager", "weft weft2", "eager eager2")),
    ("weft ops", "apart"),
)
"""What is run in turns, and before each half of it."""


def alternated(threads: int, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Median milliseconds of the halves, alone and in steps.

    Args:
        threads: of PyTorch and of compiled code.
        rounds: how often the loops take turns.
    """
    torch.set_num_threads(threads)
    x = torch.randn(1, 3, 224, 224)
    modules = [vision.resnet18(weights=None).eval() for _ in range(2)]
    fast: list[Any] = [weft.optimize(module, x, measure=False) for module in modules]
    image, filters = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3)
    matrix = torch.randn(512, 512)

    def ops() -> object:
        inner = functional.conv2d(image, filters, padding=1)
        return functional.conv2d(inner, filters, padding=1), matrix @ matrix @ matrix

    halves: dict[str, Callable[[], object]] = {
        "weft": lambda: fast[0](x),
        "weft2": lambda: fast[1](x),
        "eager": lambda: modules[0](x),
        "eager2": lambda: modules[1](x),
        "ops": ops,
    }
    flood = np.zeros(_FLOOD, np.uint8)
    before: dict[str, Callable[[], object]] = {
        "": lambda: None,
        "cold": lambda: flood.fill(1),
        "apart": lambda: time.sleep(_PAUSE),
    }
    times: dict[tuple[str, str], list[list[float]]] = {loop: [] for loop in _LOOPS}
    for _ in range(rounds):
        for (step, other), taken in times.items():
            parts = [halves[name] for name in step.split()]
            _milliseconds(parts, before[other])
            taken += [_milliseconds(parts, before[other]) for _ in range(_CALLS)]
    return {
        loop: [statistics.median(half) for half in zip(*taken, strict=True)]
        for loop, taken in times.items()
    }


def _milliseconds(
    parts: Sequence[Callable[[], object]], before: Callable[[], object]
) -> list[float]:
    """Of each part, before which something else is done."""
    taken: list[float] = []
    for run in parts:
        before()
        start = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - start))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    arguments = parser.parse_args()
    with torch.no_grad():
        for threads in (1, arguments.threads):
            print(f"threads: {threads}; milliseconds:")
            found = alternated(threads, arguments.rounds)
            for (step, other), each in found.items():
                told = " + ".join(f"{half:.2f}" for half in each)
                names = step.split()
                if len(names) > 1:
                    alone = [found[name, ""][0] for name in names]
                    ratios = (half / one for half, one in zip(each, alone, strict=True))
                    told += f", {sum(each) / sum(alone):.3f} times the sum of both alone (halves "
                    told += f"{', '.join(f'{ratio:.3f}' for ratio in ratios)})"
                if not other and all((name, "cold") in found for name in names):
                    cold = sum(found[name, "cold"][0] for name in names)
                    told += f", {sum(each) / cold:.3f} times that of both cold"
                print(f"    {step:12} {other:5} {told}")


if __name__ == "__main__":
    main()
