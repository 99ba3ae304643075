"""A network at the other end of a serial line: a toolkit's main.c behind a pseudo-terminal."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.cli.commands import weft as command
from weft.dtypes import DType
from weft.errors import UserError
from weft.plan.program import Port
from weft.runtime.compiler import find_compiler
from weft.runtime.serial import SerialBoard

pty = pytest.importorskip("pty")
tty = pytest.importorskip("tty")

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
IMAGE, SCORES = Port("image", DType.F32, (1, 1, 8, 8)), Port("scores", DType.F32, (1, 10))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The main.c of digits, built for this machine as for a board."""
    folder = tmp_path_factory.mktemp("serial") / "out"
    weft.load(DIGITS).export(folder, "cortex-m4")
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-DWEFT_SERIAL"]
    flags.append("-DWEFT_CYCLES()=test_cycles()")
    source = folder / "cycles.h"
    source.write_text(
        "static unsigned long counted;\n"
        "unsigned long test_cycles(void);\n"
        "unsigned long test_cycles(void) { return counted += 1234ul; }\n"
    )
    command = [*find_compiler().command, *flags, "-include", str(source), "main.c"]
    network = [*find_compiler().command, "-O1", "-c", "digits.c"]
    subprocess.run(network, cwd=folder, check=True)
    done = subprocess.run(
        [*command, "digits.o", "-lm", "-o", "board"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
    return folder / "board"


@contextmanager
def board(program: Path) -> Iterator[str]:
    """Runs a program at a pseudo-terminal; gives the other end's name."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    # The program talks to one end; the other one is a terminal, like that of a board.
    running = subprocess.Popen([str(program)], stdin=ours, stdout=ours)
    try:
        yield os.ttyname(theirs)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
        os.close(theirs)


def test_verify_and_bench_at_a_line(program: Path, tmp_path: Path) -> None:
    image = np.random.default_rng(3).random((1, 1, 8, 8), np.float32)
    np.save(tmp_path / "image.npy", image)
    with board(program) as device:
        arguments = [
            "verify",
            str(DIGITS),
            str(tmp_path / "image.npy"),
            "--serial",
            device,
            "--json",
        ]
        done = command(*arguments)
        assert done.exit_code == 0, done.output
        record = json.loads(done.stdout)
        assert record["passed"]
        assert record["cycles"] == 1234
        np.savez(tmp_path / "wrong.npz", scores=np.zeros((1, 10), np.float32))
        assert command(*arguments, "--expect", str(tmp_path / "wrong.npz")).exit_code == 3
        refused = command(*arguments, "--sanitize")
        assert "sanitizers run on this machine" in refused.stderr
        bench = command("bench", str(DIGITS), "--serial", device)
        assert bench.stdout == "digits: 1,234 cycles at least, 1,234 at most, of 5 runs\n"


def test_another_network_is_refused(program: Path) -> None:
    with board(program) as device, SerialBoard(device, timeout=5) as line:
        with pytest.raises(UserError) as refusal:
            line.check([IMAGE], [Port("scores", DType.F32, (1, 11))])
        assert refusal.value.got == "digits with inputs and outputs of 256 : 40 bytes"
        assert refusal.value.fix == "Flash a toolkit of this one, of 256 : 44 bytes."
        assert line.check([IMAGE], [SCORES]) == "digits"
        with pytest.raises(UserError) as damaged:
            line.run([np.zeros(63, np.float32)], [SCORES])
        assert damaged.value.got == "error: not the inputs' bytes"


def test_a_line_must_be_there() -> None:
    with pytest.raises(UserError, match="must be a terminal that this user may open"):
        SerialBoard("/dev/null")
    with pytest.raises(UserError) as speed:
        SerialBoard("/dev/null", baud=12345)
    assert speed.value.got == "12345 baud"


def test_a_silent_board() -> None:
    ours, theirs = pty.openpty()
    with SerialBoard(os.ttyname(theirs), timeout=0.2) as line, pytest.raises(UserError) as silent:
        line.check([IMAGE], [SCORES])
    assert silent.value.got.endswith("for 0.2 s")
    os.close(ours)
    os.close(theirs)
