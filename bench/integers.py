"""Times Weft beside onnxruntime and OpenVINO on networks of 8-bit integers, at batch 1.

    python -m bench.integers                        all seven networks, 1 and 2 threads
    python -m bench.integers --names ic_int8 --threads 1 --rounds 9

Networks: ResNet-18, ResNet-50 and MobileNetV2 with random weights, quantized by onnxruntime
(`bench/quantized.py`), and the four of MLPerf Tiny.  The files hold pairs of QuantizeLinear and
DequantizeLinear, which every contestant makes integers of:

    weft            as `Net.compile` builds it: in integers
    weft-float32    Weft on the network of floats
    onnxruntime     all graph optimizations
    openvino        latency hint

Contestants take turns (see `bench/peers.py`).  Outputs are compared with onnxruntime's, over
their range: integers of Weft must be the same, others may be off by steps of the last layers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.figures import Result, geometric_mean, markdown, median, number
from bench.networks import INTEGERS, ensure
from bench.peers import expected_output, prepared
from bench.remote import Remote
from bench.rounds import Options, taken_in_turn
from weft.runtime.limits import processor_name

CONTESTANTS = ("weft", "weft-float32", "onnxruntime", "openvino")
OURS, FLOATS, *PEERS = CONTESTANTS
_PATIENCE_SECONDS = 600.0


def contest(name: str, threads: int, options: Options, expected: np.ndarray) -> list[Result]:
    """All contestants on a network, with their times."""
    with tempfile.TemporaryDirectory() as root:
        remotes: list[Remote] = []
        results: list[Result] = []
        try:
            for contestant in options.contestants:
                own = (options.cache or Path(root)) / f"{name}-{contestant}-{threads}"
                own.mkdir(parents=True, exist_ok=True)
                remotes.append(Remote(contestant, name, threads, own.resolve()))
                # Floats, and sums that saturate or are rounded otherwise, differ by steps.
                tolerance = 1e-6 if contestant == OURS else float("inf")
                results.append(prepared(remotes[-1], name, threads, options, expected, tolerance))
            times = taken_in_turn(remotes, results, options, None)
        finally:
            for remote in remotes:
                remote.close()
    return [
        Result(name, each.contestant, threads, tuple(times.get(each.contestant, ())), each.error)
        if not each.why
        else each
        for each in results
    ]


def table(results: Sequence[Result]) -> list[str]:
    """Medians in milliseconds, and how much faster Weft's integers are."""
    rows: list[list[str]] = []
    ratios: dict[tuple[int, str], list[float]] = {}
    for key in dict.fromkeys((each.network, each.threads) for each in results):
        race = {each.contestant: each for each in results if (each.network, each.threads) == key}
        ours, row = race[OURS], [key[0], str(key[1])]
        for contestant in CONTESTANTS:
            each = race.get(contestant)
            row.append(number(each.median) if each and each.times else (each.why if each else "-"))
        for contestant in CONTESTANTS[1:]:
            each = race.get(contestant)
            if not (each and each.times and ours.times):
                row.append("-")
                continue
            # Turns lie side by side: ratios of rounds are steadier than a ratio of medians.
            ratio = median(a / b for a, b in zip(each.times, ours.times, strict=False))
            ratios.setdefault((key[1], contestant), []).append(ratio)
            row.append(f"{ratio:.2f}")
        row += [f"{race[peer].error:.0e}" if peer in race else "-" for peer in (OURS, *PEERS)]
        rows.append(row)
    for threads in sorted({each.threads for each in results}):
        means = [
            f"{geometric_mean(ratios[threads, each]):.2f}" if (threads, each) in ratios else "-"
            for each in CONTESTANTS[1:]
        ]
        rows.append(["geometric mean", str(threads), *[""] * len(CONTESTANTS), *means, "", "", ""])
    over = [f"{each} / weft" for each in CONTESTANTS[1:]]
    errors = [f"error of {each}" for each in (OURS, *PEERS)]
    return markdown(
        ["network", "threads", *(f"{each}, ms" for each in CONTESTANTS), *over, *errors], rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="+", choices=INTEGERS, default=list(INTEGERS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each turn")
    parser.add_argument("--cache", type=Path, help="keep what contestants compile, and use it")
    given = parser.parse_args()
    if max(given.threads) > len(os.sched_getaffinity(0)):
        parser.error("there are not so many processors")
    options = Options(
        CONTESTANTS, given.rounds, given.seconds, "wall", given.cache, _PATIENCE_SECONDS
    )
    results: list[Result] = []
    for name in given.names:
        ensure(name)
        expected = expected_output(name, options.patience)
        for threads in given.threads:
            print(f"{name}, threads: {threads} ...", file=sys.stderr, flush=True)
            results += contest(name, threads, options, expected)
    print(f"{processor_name()}, {os.cpu_count()} processors\n")
    print("\n".join(table(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
