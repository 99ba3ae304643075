"""Contestants in processes of their own, which wait while others measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

BEFORE = "weft-before"
"""The contestant that is Weft of another checkout, for comparing before and after."""
_IDLE_SECONDS = 0.03
_PATIENCE_SECONDS = 2.0


class Late(Exception):
    """A worker did not answer in time, or died."""


class Remote:
    """A worker process and the pipe to it.

    Args:
        contestant: what is measured; ``BEFORE`` is ``weft`` of another checkout.
        network: its name.
        threads: on which it runs.
        folder: of its log and of what it compiles.
        before: the other checkout.
        simd: the vector instructions of Weft; any if empty.
    """

    def __init__(
        self,
        contestant: str,
        network: str,
        threads: int,
        folder: Path,
        before: Path | None = None,
        simd: str = "",
    ) -> None:
        self.contestant = contestant
        root = Path(__file__).parents[1]
        if contestant == BEFORE:
            assert before is not None
            root, contestant = before.resolve(), "weft"
        cores = sorted(os.sched_getaffinity(0))[-threads:]
        command = [sys.executable, "-m", "bench.worker", contestant, network, str(threads)]
        command += [str(folder), ",".join(map(str, cores)), *([simd] if simd else [])]
        with (folder / "log.txt").open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(threads, folder, root),
                cwd=root,
            )

    def ask(self, patience: float, /, **order: object) -> dict[str, Any]:
        """The answer to an order."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Late(f"its process ended with {self.process.wait()}") from None
        watchdog = Watchdog(self.process, patience)
        line = self.process.stdout.readline()
        if watchdog.done():
            raise Late(f"it took more than {patience:.0f} s")
        if not line:
            raise Late(f"its process ended with {self.process.wait()}")
        return json.loads(line)

    def settle(self) -> None:
        """Waits until the process does nothing: thread pools spin for a while after a run."""
        end = time.monotonic() + _PATIENCE_SECONDS
        before = self._spent()
        while time.monotonic() < end:
            time.sleep(_IDLE_SECONDS)
            now = self._spent()
            if now == before:
                return
            before = now

    def _spent(self) -> int:
        """Clock ticks of processor time so far."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def close(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process.kill()
        self.process.wait()


class Watchdog:
    """Kills a process that takes too long."""

    def __init__(self, process: subprocess.Popen[str], seconds: float) -> None:
        self.fired = False
        self.process = process
        self.timer = threading.Timer(seconds, self._fire)
        self.timer.daemon = True
        self.timer.start()

    def _fire(self) -> None:
        self.fired = True
        self.process.kill()

    def done(self) -> bool:
        """Calls it off; whether it was too late."""
        self.timer.cancel()
        return self.fired


def environment(threads: int, folder: Path, root: Path) -> dict[str, str]:
    """Tells a worker its threads, where to keep what it compiles, and the checkout to import."""
    count = str(threads)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS")
    return {
        **os.environ,
        **dict.fromkeys(names, count),
        "WEFT_CACHE": str(folder / "weft"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "PYTHONPATH": os.pathsep.join(
            [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
        ),
    }
