"""What gcc holds in registers while a tile is summed: all of its sums."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import weft
from weft import ops
from weft.codegen.emit import emit
from weft.layers import Conv


def network() -> weft.Net:
    """Convolutions that are products, in pairs that one function serves; Swish has constants."""
    layers = [
        part
        for wide, narrow in ((480, 112), (672, 80))
        for part in (Conv(wide, 1), ops.swish, Conv(narrow, 1))
    ]
    return weft.trace(weft.sequential([*layers, Conv(480, 1), ops.swish]), "f32[1,80,14,14]")


def loops(assembly: str) -> list[list[str]]:
    """The innermost loops, each the lines between a label and a jump back to it."""
    found: list[list[str]] = []
    labels: dict[str, int] = {}
    lines = assembly.splitlines()
    for at, line in enumerate(lines):
        if label := re.match(r"(\.L\d+):", line):
            labels[label[1]] = at
        elif (jump := re.match(r"\tj\w+\t(\.L\d+)", line)) and jump[1] in labels:
            body = lines[labels[jump[1]] + 1 : at]
            if not any(re.match(r"\.L\d+:|\tj", each) for each in body):
                found.append(body)
    return found


@pytest.mark.parametrize("share", [False, True])
def test_all_sums_of_a_tile(share: bool, tmp_path: Path) -> None:
    """No step of a tile of 12 sums stores a vector on the stack."""
    if shutil.which("gcc") is None or platform.machine() != "x86_64":
        pytest.skip("needs gcc for x86-64")
    program = network().program("x86-avx2")
    files = emit(program, "gnu", "blob", share=share)
    for name, text in [files.header, *files.private, *files.sources]:
        (tmp_path / name).write_text(text)
    tiles = 0
    for name, _ in files.sources:
        done = subprocess.run(
            ["gcc", "-std=gnu11", "-O2", "-march=x86-64-v3", "-S", "-o", "-", name],
            cwd=tmp_path, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for body in loops(done.stdout):
            if sum("\tvfmadd" in line for line in body) >= 12:
                tiles += 1
                stored = [line for line in body if re.search(r"\t%ymm\d+, \S*\(%r[sb]p\)", line)]
                assert not stored
    assert tiles >= 4
