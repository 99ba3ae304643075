"""Whether compiled code and PyTorch's OpenMP threads disturb each other when they alternate.

    python -m bench.torch_alternate                  2 threads each
    python -m bench.torch_alternate --threads 4

A step is a call of an optimized ResNet-18 and then some of PyTorch's own ops: two convolutions
and two matrix products.  Each half is timed in a loop of its own, and in turns with the other.
More loops tell threads that disturb each other from data that does, since in a step each half
finds the other's in the caches: steps whose halves are apart by a pause, in which both pools'
threads fall asleep (the pause is not timed), and steps of the module's own forward, which
computes in PyTorch's threads alone.  All loops alternate.  Printed are medians in milliseconds,
and ratios of the halves of steps to the same in loops of their own.
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
APART = "apart"
"""The step whose halves come after pauses."""
_PAUSE = 0.01
"""Seconds of these pauses; OpenMP's threads spin for less."""


def alternated(threads: int, rounds: int) -> dict[str, list[float]]:
    """Median milliseconds of the halves, alone and in steps.

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
        "step": [call, own],
        APART: [call, own],
        "eager": [eager],
        "eager step": [eager, own],
    }
    times: dict[str, list[list[float]]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, parts in loops.items():
            pause = _PAUSE if name == APART else 0.0
            _milliseconds(parts, pause)
            times[name] += [_milliseconds(parts, pause) for _ in range(_CALLS)]
    return {
        name: [statistics.median(part) for part in zip(*each, strict=True)]
        for name, each in times.items()
    }


def _milliseconds(parts: Sequence[Callable[[], object]], pause: float) -> list[float]:
    """Of each part, before which there is a pause in seconds."""
    taken: list[float] = []
    for run in parts:
        if pause:
            time.sleep(pause)
        start = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - start))
    return taken


def _told(found: dict[str, list[float]], first: str, step: str) -> str:
    """A step over its halves alone, and each half over itself."""
    alone = [*found[first], *found["own"]]
    halves = [in_step / each for in_step, each in zip(found[step], alone, strict=True)]
    whole = sum(found[step]) / sum(alone)
    return f"{step} {whole:.3f} times the sum ({first} {halves[0]:.3f}, own {halves[1]:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    arguments = parser.parse_args()
    with torch.no_grad():
        for threads in (1, arguments.threads):
            found = alternated(threads, arguments.rounds)
            told = ", ".join(
                f"{name} {' + '.join(f'{part:.2f}' for part in each)}"
                for name, each in found.items()
            )
            print(f"threads: {threads}; milliseconds: {told}")
            for first, step in (("weft", "step"), ("weft", APART), ("eager", "eager step")):
                print("   ", _told(found, first, step))


if __name__ == "__main__":
    main()
