"""`scripts/bootstrap.py` says what it is doing, and why pip failed."""

from __future__ import annotations

import importlib.util
import os
import pty
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "bootstrap.py"

# A virtual environment's python: it has pip, which installs two packages or fails to.
PYTHON = """#!/bin/sh
[ "$1" = -c ] && exit
case "$*" in *--quiet*) ;; *) cat <<'END'
Looking in indexes: https://user:secret@packages.example/simple
Obtaining file:///src/weft
  Installing build dependencies: started
Collecting numpy>=2.0 (from weft==0.1)
  Downloading https://packages.example/numpy-2.3-cp311.whl (16.6 MB)
WARNING: the index is slow
Installing collected packages: numpy, weft
END
esac
[ -z "$FAILS" ] && exit
echo "ERROR: No matching distribution found for numpy>=2.0" >&2
exit 1
"""


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path / "venv"


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """What a program writes to a terminal of 60 columns."""
    leader, follower = pty.openpty()
    environment = {**environment, "TERM": "xterm", "COLUMNS": "60"}
    with subprocess.Popen(command, stdout=follower, stderr=follower, env=environment):
        os.close(follower)
        shown = b""
        try:
            while part := os.read(leader, 4096):
                shown += part
        except OSError:  # the other end was closed
            pass
    os.close(leader)
    return shown.decode()


def test_a_terminal_shows_one_line_that_changes(venv: Path) -> None:
    shown = on_a_terminal([sys.executable, str(SCRIPT), "--venv", str(venv)], dict(os.environ))
    *status, last = [part for part in shown.split("\r\x1b[K") if part]
    steps = [part.partition("s  ")[2].strip() for part in status if not part.startswith("WARN")]
    assert "resolving numpy>=2.0" in steps
    assert "downloading numpy-2.3-cp311.whl (16.6 MB)" in steps
    assert steps[-1] == "installing numpy, weft"
    assert "secret" not in shown
    assert "WARNING: the index is slow\r\n" in shown
    assert last.startswith("bootstrap: ready after ")
    assert all(len(part) < 60 for part in status[1:])


def test_a_failure_shows_the_last_lines_of_pip(venv: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--venv", venv],
        capture_output=True,
        text=True,
        env={**os.environ, "FAILS": "yes"},
    )
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == ["WARNING: the index is slow"]
    assert done.stderr.splitlines()[-3:-1] == [
        "Installing collected packages: numpy, weft",
        "ERROR: No matching distribution found for numpy>=2.0",
    ]


def test_elsewhere_a_line_comes_now_and_then(
    venv: Path,
    bootstrap: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bootstrap, "PERIOD", 0)
    bootstrap.install(venv, [])
    shown = capsys.readouterr().out.splitlines()
    assert "bootstrap:   0 s  downloading numpy-2.3-cp311.whl (16.6 MB)" in [
        line.replace("  1 s", "  0 s") for line in shown
    ]
    assert not any("\r" in line for line in shown)
