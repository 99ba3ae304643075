"""Feed damaged and hostile ONNX files to the importer.

Every file must give a ``UserError`` or a graph that verifies; in time, and in memory of
about twice the file. Each seed is one file, so that whatever is found can be had again:

    python scripts/fuzz_onnx.py --minutes 10
    python scripts/fuzz_onnx.py --seed 123456
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import seed_models
from tests.fuzz.survive import survive

SECONDS = 20
MEMORY = 3 << 30
BATCH = 40


class _Timeout(Exception):
    pass


def _stop(*_: object) -> None:
    raise _Timeout


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _stop)


def attempt(seed: int) -> tuple[int, str, str]:
    """Seed, what became of it (``refused``, ``imported`` or ``BUG``), and the trace."""
    generator = random.Random(seed)
    name, data = generator.choice(_models())
    changed = mutated(data, generator)
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(changed)
            return seed, survive(path, deep=_DEEP[0]), ""
    except _Timeout:
        return seed, "BUG", f"{name}: took more than {SECONDS} s\n{traceback.format_exc(limit=-6)}"
    except BaseException:  # noqa: BLE001 (whatever it is, it is a finding)
        return seed, "BUG", f"{name}: {traceback.format_exc(limit=-6)}"
    finally:
        signal.alarm(0)


_DEEP = [False]
_MODELS: list[tuple[str, bytes]] = []


def _models() -> list[tuple[str, bytes]]:
    if not _MODELS:
        _MODELS.extend(seed_models())
    return _MODELS


def attempts(seeds: range) -> list[tuple[int, str, str]]:
    return [attempt(seed) for seed in seeds]


def _batches(start: int, end: float) -> Iterator[range]:
    while time.monotonic() < end:
        yield range(start, start + BATCH)
        start += BATCH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, help="instead of minutes")
    parser.add_argument("--deep", action="store_true", help="go on to generated C")
    parser.add_argument("--seed", type=int, help="this file only")
    parser.add_argument("--start", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    _DEEP[0] = options.deep
    if options.seed is not None:
        signal.signal(signal.SIGALRM, _stop)
        print(*attempt(options.seed)[1:])
        return 0
    _models()
    counts: Counter[str] = Counter()
    bugs: dict[str, int] = {}
    end = time.monotonic() + (options.seconds or options.minutes * 60)
    try:
        with ProcessPoolExecutor(options.jobs, get_context("fork"), _limit) as pool:
            start = options.start
            while time.monotonic() < end:
                ranges = [
                    range(start + BATCH * k, start + BATCH * (k + 1))
                    for k in range(options.jobs * 2)
                ]
                start += BATCH * len(ranges)
                for results in pool.map(attempts, ranges):
                    for seed, status, trace in results:
                        counts[status] += 1
                        if trace and trace not in bugs:
                            bugs[trace] = seed
    except BrokenProcessPool:
        print(f"a worker died; seeds {ranges[0].start} to {ranges[-1].stop}")
        return 2
    for trace, seed in bugs.items():
        print(f"--- seed {seed}\n{trace}")
    print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return 1 if bugs else 0


if __name__ == "__main__":
    sys.exit(main())
