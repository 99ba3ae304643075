"""``weft export --board``: processor and limits of a board."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import weft
from tests.models import tiny
from tests.turns import a_few
from weft.targets.boards import board, flash_bytes, ram_bytes

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.mark.thorough
@tiny.needed
def test_vww_fits_the_board_but_not_less_ram(tmp_path: Path) -> None:
    model = str(tiny.model("vww", "int8"))
    # The image alone is 27,648 bytes.
    less = ("--board", "stm32l4r5", "--ram", "24K")
    small = weft("export", model, *less, "-o", str(tmp_path / "small"))
    assert small.exit_code == 1
    assert "must fit into 24,576 bytes of RAM" in small.stderr
    assert not (tmp_path / "small").exists()
    large = weft("export", model, "--board", "stm32l4r5", "-o", str(tmp_path / "out"))
    assert large.exit_code == 0, large.stderr
    if shutil.which("make") is None or shutil.which("cc") is None:
        pytest.skip("make or cc is not installed")
    host = ["make", "-s", "-C", str(tmp_path / "out"), "test"]
    done = subprocess.run(host, check=True, capture_output=True, text=True)
    assert "builds for its own machine" in done.stdout
    assert "ok" in done.stdout


def refusal(*arguments: str) -> dict[str, str]:
    done = weft("export", *arguments, "--json")
    assert done.exit_code == 1
    return json.loads(done.stderr)["error"]


@pytest.mark.thorough
def test_rows_are_streamed_on_a_board_that_is_too_small(tmp_path: Path) -> None:
    small = ("--board", "stm32l4r5", "-o", str(tmp_path / "out"))
    done = weft("export", str(DIGITS), *small, "--ram", "7000")
    assert done.exit_code == 0, done.stderr
    told = "streamed, to fit into RAM: /stem/stem.0/Conv to /stem/stem.2/Relu in 2 strips of rows"
    assert told in done.stdout
    told = refusal(str(DIGITS), *small, "--ram", "4000")
    assert told["rule"] == "arena, stack, inputs and outputs must fit into 4,000 bytes of RAM"
    assert "arena 5,120" in told["got"]
    (ram,) = re.findall(r"it fits into --ram (\d+)", told["fix"])
    done = weft("export", str(DIGITS), *small, "--ram", ram)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("limit", "rule"),
    a_few(
        [
            (("--ram", "1K"), "arena, stack, inputs and outputs must fit into 1,024 bytes of RAM"),
            (("--flash", "16K"), "code and constants must fit into 16,384 bytes of flash"),
        ],
        1,
    ),
)
def test_a_remedy_by_a_board_works(limit: tuple[str, str], rule: str, tmp_path: Path) -> None:
    told = refusal(str(DIGITS), "--target", "cortex-m4", *limit, "-o", str(tmp_path / "out"))
    assert told["rule"] == rule
    (name,) = re.findall(r"--board (\S+) has room: [\d,]+ of 262,144 bytes of RAM", told["fix"])
    assert name == "nrf52840"
    done = weft("export", str(DIGITS), "--board", name, "-o", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr


def test_boards_have_sizes() -> None:
    record = board("stm32l4r5")
    assert (ram_bytes(record), flash_bytes(record)) == (640 * 1024, 2048 * 1024)


def test_a_processor_is_no_board(tmp_path: Path) -> None:
    model = str(DIGITS)
    done = weft("export", model, "--board", "cortex-m4", "-o", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert "states the bytes of its memories" in done.stderr
