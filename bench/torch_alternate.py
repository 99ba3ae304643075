"""Whether compiled code and PyTorch's OpenMP threads disturb each other when they alternate.

    python -m bench.torch_alternate                  2 threads each
    python -m bench.torch_alternate --threads 4

A step is a call of an optimized ResNet-18 and then some of PyTorch's own ops: two convolutions
and two matrix products.  Each is timed in a loop of its own, and both are timed in turns.  Two
more loops tell threads that disturb each other from data that does, since in a step each finds
the other's in the caches: steps whose halves are apart by a pause, in which both pools' threads
fall asleep (the pause is not timed), and steps of the module's own forward, which computes in
PyTorch's threads alone.  These loops alternate.  Printed are medians in milliseconds and ratios.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

import weft
from bench.zoo import vision

_CALLS = 15
_ROUNDS = 12
_PAUSE = 0.01
"""Seconds between the halves of a step that is to be apart; OpenMP's threads spin for less."""


def alternated(threads: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of each alone and of the steps.

    Args:
        threads: of PyTorch and of compiled code.
        rounds: how often the loops of each take turns.
    """
    torch.set_num_threads(threads)
    x = torch.randn(1, 3, 224, 224)
    module = vision.resnet18(weights=None).eval()
    fast: Any = weft.optimize(module, x, measure=False)
    image, filters = torch.randn(1, 64, 56, 56), torch.randn(64, 64, 3, 3)
    matrix = torch.randn(512, 512)

    def own() -> object:
        inner = functional.conv2d(image, filters, padding=1)
        return functional.conv2d(inner, filters, padding=1), matrix @ matrix @ matrix

    def call() -> object:
        return fast(x)

    def eager() -> object:
        return module(x)

    loops: dict[str, Sequence[Callable[[], object]]] = {
        "weft": [call],
        "own": [own],
        "step": [lambda: (call(), own())],
        "apart": [call, own],
        "eager": [eager],
        "eager step": [lambda: (eager(), own())],
    }
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, parts in loops.items():
            _milliseconds(parts)
            times[name] += [_milliseconds(parts) for _ in range(_CALLS)]
    return {name: statistics.median(each) for name, each in times.items()}


def _milliseconds(parts: Sequence[Callable[[], object]]) -> float:
    """Of all parts; where there are several, each comes after a pause."""
    total = 0.0
    for run in parts:
        if len(parts) > 1:
            time.sleep(_PAUSE)
        start = time.perf_counter()
        run()
        total += time.perf_counter() - start
    return 1e3 * total


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    arguments = parser.parse_args()
    with torch.no_grad():
        for threads in (1, arguments.threads):
            found = alternated(threads, arguments.rounds)
            over = found["step"] / (found["weft"] + found["own"])
            eager = found["eager step"] / (found["eager"] + found["own"])
            told = ", ".join(f"{name} {each:.2f} ms" for name, each in found.items())
            print(f"threads: {threads}; {told}")
            apart = found["step"] / found["apart"]
            print(f"the step takes {over:.3f} times the sum of both", end=", ")
            print(f"{apart:.3f} times a step apart; that of eager {eager:.3f} times its sum")


if __name__ == "__main__":
    main()
