"""Run all official ONNX tests and write the table of what passes.

python -m tests.conformance [--backend reference] [--match TEXT] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.conformance.backends import BACKENDS
from tests.conformance.cases import KINDS, Case, all_cases
from tests.conformance.check import Outcome, check
from tests.conformance.report import report

SECONDS = 120
CHUNK = 16
_CASES: list[Case] = []


class _Timeout(Exception):
    pass


def _stop(*_: object) -> None:
    raise _Timeout


def run(place: int, backend: str) -> Outcome:
    """Check one case; whatever goes wrong is its outcome."""
    case = _CASES[place]
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(SECONDS)
    try:
        return check(case, BACKENDS[backend])
    except _Timeout:
        reason = f"took more than {SECONDS} s"
    except Exception as error:  # noqa: BLE001 (the table lists every crash)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:300]
        reason = f"{type(error).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno})"
    finally:
        signal.alarm(0)
    return Outcome(case.name, case.kind, case.ops, "failed", reason)


def run_all(cases: Sequence[Case], backend: str, jobs: int) -> list[Outcome]:
    """Check all cases in parallel; forked workers share them."""
    _CASES[:] = cases
    with ProcessPoolExecutor(jobs, get_context("fork")) as pool:
        found: list[Outcome] = []
        for each in pool.map(run, range(len(cases)), [backend] * len(cases), chunksize=CHUNK):
            found.append(each)
            if sys.stderr.isatty():
                print(f"\r{len(found)} of {len(cases)} ", end="", file=sys.stderr, flush=True)
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="compiled")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--match", default="", help="only tests whose names contain this")
    parser.add_argument("--out", type=Path, help="write the table here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print what does not pass")
    options = parser.parse_args()
    start = time.monotonic()
    cases = [case for case in all_cases(options.kind or KINDS) if options.match in case.name]
    outcomes = run_all(cases, options.backend, options.jobs)
    if options.list:
        for each in outcomes:
            if each.status in ("failed", "refused"):
                print(f"{each.status} {each.name}: {each.reason}")
    if options.out is not None:
        options.out.write_text(report(outcomes, options.backend))
    for kind in options.kind or KINDS:
        counts = Counter(each.status for each in outcomes if each.kind == kind)
        print(f"{kind}: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    print(f"{len(outcomes)} tests in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
