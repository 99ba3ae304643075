"""Times Weft beside onnxruntime and OpenVINO on networks of 8-bit integers, at batch 1.

    python -m bench.integers                        all seven networks, 1 and 2 threads
    python -m bench.integers --names ic_int8 --threads 1 --rounds 9
    python -m bench.integers --simd avx2            Weft without AVX-512 and VNNI; no peers

Networks: ResNet-18, ResNet-50 and MobileNetV2 with random weights, quantized by onnxruntime
(`bench/quantized.py`), and the four of MLPerf Tiny.  The files hold pairs of QuantizeLinear and
DequantizeLinear, which every contestant makes integers of:

    weft                 as `Net.compile` builds it: in integers
    weft-from-c          the same, called from C
    weft-float32-from-c  Weft on the network of floats
    onnxruntime          all graph optimizations
    openvino             latency hint

A call from Python takes some microseconds, which is more than some of these networks take. All
pay it beside the peers; integers and floats of Weft are compared as C programs call them.
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

from bench.figures import Result, geometric_mean, markdown, markdown_row, median, number
from bench.networks import INTEGERS, ensure
from bench.peers import expected_output, prepared
from bench.remote import Remote
from bench.rounds import Options, taken_in_turn
from weft.runtime.limits import processor_name
from weft.targets.find import SIMD, host

CONTESTANTS = ("weft-from-c", "weft-float32-from-c", "weft", "onnxruntime", "openvino")
FROM_C, FLOATS, OURS, *PEERS = CONTESTANTS
RIVALS = {FLOATS: FROM_C, **dict.fromkeys(PEERS, OURS)}
"""With what of Weft's each is compared."""
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
                remotes.append(Remote(contestant, name, threads, own.resolve(), simd=options.simd))
                # Floats, and sums that saturate or are rounded otherwise, differ by steps.
                tolerance = 1e-6 if contestant in (FROM_C, OURS) else float("inf")
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


Ratios = dict[tuple[int, str], list[float]]
"""How many times faster Weft's integers are, by threads and contestant: of each network."""


def heads() -> list[str]:
    """Names of the table's columns."""
    over = [f"{rival} / {ours}" for rival, ours in RIVALS.items()]
    errors = [f"error of {each}" for each in (FROM_C, *PEERS)]
    return ["network", "threads", *(f"{each}, ms" for each in CONTESTANTS), *over, *errors]


def row_of(results: Sequence[Result], ratios: Ratios) -> list[str]:
    """Medians of a network in milliseconds, and how much faster Weft's integers are."""
    race = {each.contestant: each for each in results}
    first = results[0]
    row = [first.network, str(first.threads)]
    for contestant in CONTESTANTS:
        each = race.get(contestant)
        row.append(number(each.median) if each and each.times else (each.why if each else "-"))
    for rival, own in RIVALS.items():
        each, ours = race.get(rival), race.get(own)
        if not (each and ours and each.times and ours.times):
            row.append("-")
            continue
        # Turns lie side by side: ratios of rounds are steadier than a ratio of medians.
        ratio = median(a / b for a, b in zip(each.times, ours.times, strict=False))
        ratios.setdefault((first.threads, rival), []).append(ratio)
        row.append(f"{ratio:.2f}")
    return row + [f"{race[each].error:.0e}" if each in race else "-" for each in (FROM_C, *PEERS)]


def means(threads: int, ratios: Ratios) -> list[str]:
    """Geometric means over the networks that were measured on so many threads."""
    found = [
        f"{geometric_mean(ratios[threads, each]):.2f}" if (threads, each) in ratios else "-"
        for each in RIVALS
    ]
    return ["geometric mean", str(threads), *[""] * len(CONTESTANTS), *found, "", "", ""]


def machine(simd: str) -> str:
    """The processor, and the instructions that Weft may use of it."""
    target = host(simd)
    level = simd or " ".join((f"{target.vector_bytes * 8} bits", *sorted(target.features)))
    return f"{processor_name()}, {os.cpu_count()} processors; Weft with {level}."


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--names", nargs="+", choices=INTEGERS, default=list(INTEGERS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each turn")
    parser.add_argument("--cache", type=Path, help="keep what contestants compile, and use it")
    parser.add_argument("--simd", choices=sorted(SIMD), default="", help="no wider vectors")
    given = parser.parse_args()
    if max(given.threads) > len(os.sched_getaffinity(0)):
        parser.error("there are not so many processors")
    contestants = (FROM_C, FLOATS) if given.simd else CONTESTANTS
    options = Options(
        contestants,
        given.rounds,
        given.seconds,
        "wall",
        given.cache,
        _PATIENCE_SECONDS,
        simd=given.simd,
    )
    ratios: Ratios = {}
    print(f"{machine(given.simd)}\n")
    print("\n".join(markdown(heads(), [])), flush=True)
    for name in given.names:
        ensure(name)
        expected = expected_output(name, options.patience, options.cache)
        for threads in given.threads:
            row = row_of(contest(name, threads, options, expected), ratios)
            print(markdown_row(row), flush=True)
    for threads in given.threads:
        print(markdown_row(means(threads, ratios)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
