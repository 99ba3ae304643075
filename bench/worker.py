"""One contestant in a process of its own, for ``bench.peers``, which starts it.

It reads one JSON object a line and answers each with one: ``prepare`` builds the network,
``measure`` runs it for a while, the end of the input ends it.  Between orders it waits, so that
contestants take turns without fighting over the processor.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TextIO

import numpy as np

from bench.contestants import (
    CACHED,
    MAKERS,
    Absent,
    Ready,
    Setting,
    preload,
    reference,
    runtime_bytes,
)
from bench.networks import network
from weft.errors import WeftError
from weft.runtime.timing import Timer

CLOCKS: Mapping[str, Callable[[], int]] = {
    "wall": time.perf_counter_ns,
    "cpu": time.process_time_ns,
}
_AT_LEAST = 3
_NICE = 10


def memory(what: str) -> int:
    """Bytes of this process: ``VmRSS`` now, ``VmHWM`` at most so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    return 0


def trim() -> None:
    """Gives memory that nothing holds any more back to the system."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def polite() -> Iterator[None]:
    """Lets others go first while something is built."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, max(before, _NICE))
    try:
        yield
    finally:
        # Only a privileged process may become less nice again; another measures as it is.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, before)


def from_c(timer: Timer, end: float) -> list[float]:
    """Nanoseconds of one run, the mean of each batch, until an instant of ``perf_counter``."""
    runs = timer.batch()
    times: list[float] = []
    while len(times) < _AT_LEAST or time.perf_counter() < end:
        times += (micros * 1e3 for micros in timer.micros(runs, _AT_LEAST))
    return times


class Worker:
    """A contestant and the orders that it takes."""

    def __init__(
        self, contestant: str, name: str, threads: int, folder: Path, simd: str = ""
    ) -> None:
        self.contestant = contestant
        self.setting = Setting(network(name), threads, folder, simd)
        self.ready: Ready | None = None

    def prepare(self, order: Mapping[str, object]) -> dict[str, object]:
        """Builds the network and runs it once; says what that took."""
        held = preload(self.contestant, self.setting)
        trim()
        before = memory("VmRSS") - held
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        with polite():
            ready, seconds = self.build()
            again = self.build()[1] if self.contestant in CACHED else None
        peak = memory("VmHWM") - before
        trim()
        np.save(str(order["output"]), ready.output())
        self.ready = ready
        return {
            "ready": seconds,
            "again": again,
            "peak_bytes": peak,
            "resident_bytes": memory("VmRSS") - before,
            "code_bytes": ready.code_bytes,
            "weight_bytes": ready.weight_bytes,
            "runtime_bytes": runtime_bytes(self.contestant),
            "note": ready.note,
        }

    def build(self) -> tuple[Ready, float]:
        """A network that has run once, and the seconds until then."""
        start = time.perf_counter()
        ready = MAKERS[self.contestant](self.setting)
        ready.run()
        return ready, time.perf_counter() - start

    def measure(self, order: Mapping[str, object]) -> dict[str, object]:
        """Nanoseconds of single runs, for about so many seconds."""
        if self.ready is None:
            raise Absent("it was not prepared")
        run, clock = self.ready.run, CLOCKS[str(order["clock"])]
        start = time.perf_counter()
        end = start + float(str(order["seconds"]))
        if self.ready.timer is not None:
            return {"times": from_c(self.ready.timer, end)}
        # Some runs first, for what the others have left in the caches.
        run()
        while time.perf_counter() < start + (end - start) / 5:
            run()
        times: list[int] = []
        while len(times) < _AT_LEAST or time.perf_counter() < end:
            before = clock()
            run()
            times.append(clock() - before)
        return {"times": times}

    def refer(self, order: Mapping[str, object]) -> dict[str, object]:
        """Writes what the output should be."""
        with polite():
            np.save(str(order["output"]), reference(self.setting.network))
        return {}

    def serve(self, orders: TextIO, answers: TextIO) -> None:
        """Takes orders until there are no more."""
        known = {"prepare": self.prepare, "measure": self.measure, "refer": self.refer}
        for line in orders:
            order = json.loads(line)
            try:
                answer = known[order["do"]](order)
            except Absent as error:
                answer = {"why": str(error)}
            except WeftError as error:
                answer = {"why": f"{type(error).__name__}: {error}"[:300]}
            except Exception as error:  # noqa: BLE001 (whatever a peer raises is the finding)
                text = (str(error).strip().splitlines() or [""])[0]
                answer = {"why": f"{type(error).__name__}: {text}"[:300]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def main() -> None:
    contestant, name, threads, folder, cores, *simd = sys.argv[1:]
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    # Libraries print; what they print must not get among the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        worker = Worker(contestant, name, int(threads), Path(folder), *simd)
        worker.serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
