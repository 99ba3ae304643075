"""Ctrl-C: exit 130, one line, no compiler left running, nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Says that it has begun, by the process that it waits for, as a driver of compilers does.
SLOW = """#!/bin/sh
if [ "$1" = --version ]; then echo "gcc (slow) 1"; exit; fi
sleep 100 &
echo $! >> $STARTED
wait
"""


def heed_interrupts() -> None:
    """In a child: even if the tests run in the background of a shell, where SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(path: Path, count: int) -> list[int]:
    """Process ids that compilers wrote."""
    while True:
        found = path.read_text().split() if path.exists() else []
        if len(found) >= count:
            return [int(each) for each in found]
        time.sleep(0.01)


def runs(process: int) -> bool:
    """Whether a process has not ended."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_an_interrupt_while_compiling(digits: Path, tmp_path: Path) -> None:
    compiler, output = tmp_path / "cc", tmp_path / "scores.npy"
    compiler.write_text(SLOW)
    compiler.chmod(0o755)
    for name in ("cache", "tmp"):
        (tmp_path / name).mkdir()
    output.write_text("old")
    environment = {
        **os.environ,
        "CC": str(compiler),
        "STARTED": str(tmp_path / "started"),
        "WEFT_CACHE": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    command = [sys.executable, "-m", "weft", "run", digits, "--random", "-o", output]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    started = wait_for(tmp_path / "started", 1)
    process.send_signal(signal.SIGINT)
    # Compilers would take ten times as long.
    out, errors = process.communicate(timeout=10)
    assert (process.returncode, out, errors) == (130, "", "interrupted\n")
    assert not any(map(runs, started))
    # Nothing unfinished: weights that were packed meanwhile are whole, and may stay.
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} <= {".bin"}
    assert list((tmp_path / "tmp").iterdir()) == []
    assert output.read_text() == "old"


@pytest.mark.parametrize("module", ["ml_dtypes", "click"])
def test_an_interrupt_while_importing(tmp_path: Path, module: str) -> None:
    """Of what ``import weft`` needs, and of what only the command line needs."""
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    def ended(*command: str | Path) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True
        )
        return done.returncode, done.stderr

    script = tmp_path / "weft"
    script.write_text("from weft.cli import main\nmain()\n")
    assert ended("-m", "weft", "--version") == (130, "interrupted\n")
    assert ended(script, "--version") == (130, "interrupted\n")
    if module == "ml_dtypes":  # a program of somebody else
        assert ended("-c", "import weft")[1].endswith("\nKeyboardInterrupt\n")
