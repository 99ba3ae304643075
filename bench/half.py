"""Times networks in bfloat16: Weft, OpenVINO's default and PyTorch, beside Weft in float32.

    python -m bench.half                         eight networks, one and two threads
    python -m bench.half --names resnet18 --threads 1
    python -m bench.half --cache build/half      keep what contestants compile, and use it

Contestants (`bench/contestants.py`) are measured in turn, as `bench.peers` does:

    weft-bfloat16       `Net.compile(precision="bfloat16")`
    weft-bfloat16-f4    the same with `max_rounding=0.012`: Winograd tiles of up to 4x4
    weft                `Net.compile()`, in float32
    eager-bfloat16      a module of PyTorch in bfloat16, in the better of its two layouts
    openvino-bfloat16   the inference precision bf16, OpenVINO's default on such processors

The error of each is of the first output, against PyTorch in double precision: the root mean
square of the difference over the standard deviation, and the largest difference over the range.

Written: half.md (tables) and half.json (raw numbers).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.figures import Result, geometric_mean, markdown, number
from bench.networks import DEFAULT, ensure
from bench.peers import contest, expected_output, machine_lines
from bench.rounds import Options, Watch
from weft.runtime.limits import Meter, limits
from weft.targets.find import target

OURS, LARGE, SINGLE = "weft-bfloat16", "weft-bfloat16-f4", "weft"
PYTORCH, OPENVINO = "eager-bfloat16", "openvino-bfloat16"
CONTESTANTS = (OURS, LARGE, SINGLE, PYTORCH, OPENVINO)
NETWORKS = (
    *("resnet18", "resnet50", "mobilenet_v2", "vgg16"),
    *("densenet121", "squeezenet1_1", "vit_b_16", "bert"),
)
TOLERANCE = 0.2
"""Of the range: bfloat16 has no more than eight bits, and networks of many layers lose some."""


def rows(results: Sequence[Result], threads: int) -> list[list[str]]:
    """Milliseconds, and how many times as long as Weft in bfloat16 the others take."""
    found: list[list[str]] = []
    ratios: dict[str, list[float]] = {name: [] for name in CONTESTANTS[1:]}
    for network in dict.fromkeys(each.network for each in results):
        by = {
            each.contestant: each
            for each in results
            if (each.network, each.threads) == (network, threads) and each.times
        }
        if OURS not in by:
            continue
        cells = [number(by[name].median) if name in by else "-" for name in CONTESTANTS]
        for name, each in ratios.items():
            if name not in by:
                cells.append("-")
                continue
            each.append(by[name].median / by[OURS].median)
            cells.append(f"{each[-1]:.2f}")
        found.append([network, *cells])
    means = [f"{geometric_mean(each):.2f}" if each else "-" for each in ratios.values()]
    return [*found, ["geometric mean", *[""] * len(CONTESTANTS), *means]]


def errors(results: Sequence[Result]) -> list[list[str]]:
    """Of each contestant in bfloat16, with the fewest threads."""
    found: dict[str, dict[str, Result]] = {}
    for each in results:
        if not math.isnan(each.error):
            found.setdefault(each.network, {}).setdefault(each.contestant, each)
    return [
        [
            network,
            *(
                f"{by[name].deviation:.1e} / {by[name].error:.1e}" if name in by else "-"
                for name in (OURS, LARGE, PYTORCH, OPENVINO)
            ),
        ]
        for network, by in found.items()
    ]


def report(lines: Sequence[str], results: Sequence[Result]) -> str:
    """All tables as Markdown."""
    text = ["# bfloat16", "", *(f"{line}  " for line in lines), ""]
    heads = ["network", *CONTESTANTS, *(f"{name} / {OURS}" for name in CONTESTANTS[1:])]
    for threads in sorted({each.threads for each in results}):
        text += [f"## Milliseconds with {threads} thread{'s' if threads > 1 else ''}", ""]
        text += [*markdown(heads, rows(results, threads)), ""]
    heads = ["network", OURS, LARGE, PYTORCH, OPENVINO]
    text += ["## Error: rms / deviation, largest / range", "", *markdown(heads, errors(results))]
    missing = [each for each in results if each.why]
    text += ["", *(f"- {each.network}, {each.contestant}: {each.why}" for each in missing)]
    return "\n".join(text) + "\n"


def main() -> int:
    """Measures, and writes after each network."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", nargs="*", choices=DEFAULT, default=[*NETWORKS])
    parser.add_argument("--contestants", nargs="*", choices=CONTESTANTS, default=[*CONTESTANTS])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    parser.add_argument("--patience", type=float, default=900, help="seconds for one answer")
    parser.add_argument("--cache", type=Path, help="keep what contestants compile, and use it")
    parser.add_argument("--out", type=Path, default=Path("build") / "bench")
    given = parser.parse_args()
    if max(given.threads) > len(os.sched_getaffinity(0)):
        parser.error("there are not so many processors")
    options = Options(
        tuple(given.contestants), given.rounds, given.seconds, "wall", given.cache, given.patience
    )
    host = target("host")
    measured = {threads: limits(host, threads) for threads in given.threads}
    meters = {each: Meter(host, each) for each in measured}
    lines, results = machine_lines(options, measured), list[Result]()
    given.out.mkdir(parents=True, exist_ok=True)
    for network in given.names:
        ensure(network)
        expected = expected_output(network, options.patience, options.cache)
        for threads in given.threads:
            print(f"{network}, threads: {threads} ...", file=sys.stderr, flush=True)
            watch = Watch(meters[threads], measured[threads])
            results += contest(network, threads, options, expected, watch, TOLERANCE)
            (given.out / "half.md").write_text(report(lines, results))
            record = {"machine": lines, "results": [asdict(each) for each in results]}
            (given.out / "half.json").write_text(json.dumps(record, indent=1) + "\n")
    print((given.out / "half.md").read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
