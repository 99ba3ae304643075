"""Compilers' levels of optimization: what vectors compute at -O2, they compute at -O3."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import weft
from weft import ops
from weft.layers import Conv, MaxPool


def network() -> weft.Net:
    """Layers whose kernels are long, with maxima of windows."""
    convolutions = [Conv(channels, 3, padding="same") for channels in (4, 16, 24)]
    layers = [part for each in convolutions for part in (each, ops.relu, MaxPool(2))]
    return weft.trace(weft.sequential(layers), "f32[1,3,48,64]")


@pytest.mark.parametrize(
    ("target", "flavour", "march"),
    [
        ("x86-avx2", "gnu", "x86-64-v3"),
        ("x86-sse2", "gnu", "x86-64"),
        ("generic", "c89", "x86-64-v3"),
        ("generic", "c99", "x86-64"),
    ],
)
def test_no_level_takes_vectors_apart(
    target: str, flavour: str, march: str, tmp_path: Path
) -> None:
    """gcc -O3 unrolls short loops before it looks for vectors."""
    if shutil.which("gcc") is None or platform.machine() != "x86_64":
        pytest.skip("needs gcc for x86-64")
    files = network().source(target, name="net", flavour=flavour)
    for name, text in [files.header, *files.private, *files.sources]:
        (tmp_path / name).write_text(text)
    scalars: dict[str, int] = {}
    vectors: dict[str, int] = {}
    for level in ("-O2", "-O3"):
        made = ""
        for name, _ in files.sources:
            command = ["gcc", f"-std={'gnu11' if flavour == 'gnu' else flavour}", level]
            command += [f"-march={march}", "-S", "-o", "-", name]
            done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
            made += done.stdout
        scalars[level] = len(re.findall(r"\tv?(?:max|add|mul)ss\t", made))
        vectors[level] = len(re.findall(r"\tv?(?:max|add|mul)ps\t", made))
    assert vectors["-O2"] > 20
    assert vectors["-O3"] > 20
    assert scalars["-O3"] <= scalars["-O2"], (scalars, vectors)
