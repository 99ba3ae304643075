"""NEON code, built for 64-bit Arm by ``zig cc`` and run by an emulator."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.kernels.batch import run
from tests.kernels.shapes import FAMILIES, Shapes
from tests.kernels.test_grid import drawn, trials_of
from tests.models import networks
from tests.plan.nets import Net
from tests.runtime.standalone import standalone
from weft.targets.find import target

MACHINE = "aarch64-neon"
FLAGS = ("-O1", *target(MACHINE).flags, "-static", "-w")


@pytest.fixture(scope="module")
def arm() -> tuple[Sequence[str], Sequence[str]]:
    """A compiler for 64-bit Arm, and what runs its programs."""
    if find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed: no compiler for aarch64")
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None:
        pytest.skip("qemu-aarch64 is not installed")
    zig = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl")
    return zig, (emulator,)


def usual() -> list[tuple[Net, str]]:
    """What networks mostly consist of, in sizes that fill vectors and leave rests."""
    found: list[tuple[Net, str]] = []

    def add(make: Callable[[Net], str]) -> None:
        net = Net()
        found.append((net, make(net)))

    add(lambda net: net.op("Relu", net.conv(net.input(1, 3, 17, 17), 20, stride=2)))
    add(lambda net: net.conv(net.conv(net.input(1, 3, 9, 9), 12, 1), 20))
    add(lambda net: net.conv(net.conv(net.input(1, 3, 9, 9), 21, 1), 21, groups=21))
    add(lambda net: net.dense(net.input(1, 67), 45))
    add(lambda net: net.op("Gelu", net.dense(net.input(14, 32), 37)))
    add(lambda net: net.op("Softmax", net.input(5, 67), axis=-1))
    add(lambda net: net.op("MaxPool", net.conv(net.input(1, 3, 9, 9), 18, 1), kernel=(3, 3)))
    return found


# zig builds the C library of the machine first, which takes a minute where nothing is cached.
@pytest.mark.thorough
def test_usual_kernels(arm: tuple[Sequence[str], Sequence[str]], tmp_path: Path) -> None:
    assert_right(usual(), arm, tmp_path, of=100)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_kernels_at_the_edges(
    family: Callable[[Shapes], str], arm: tuple[Sequence[str], Sequence[str]], tmp_path: Path
) -> None:
    assert_right(drawn(family, 12, repeatable=True), arm, tmp_path, of=4)


def assert_right(
    cases: list[tuple[Net, str]],
    arm: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    of: int,
) -> None:
    """The first and every ``of``-th alternative for all kernels of some networks are right."""
    found = [each for net, value in cases for each in trials_of(net, value, MACHINE, 0, of)]
    compiler, emulator = arm
    results = run([trial for trial, _ in found], folder, compiler, FLAGS, emulator=emulator)
    problems = [
        f"{problem}\n  {trial.label}"
        for (trial, expected), memory in zip(found, results, strict=True)
        if (problem := expected.problem(memory))
    ]
    assert not problems, "\n".join(problems[:3])
    assert found


@pytest.mark.thorough
def test_the_digits_network(arm: tuple[Sequence[str], Sequence[str]], tmp_path: Path) -> None:
    net = weft.load(networks.path_of("digits"))
    program = net.program(MACHINE, "digits")
    compiler, emulator = arm
    built = standalone(program, "gnu", tmp_path, compiler, FLAGS, emulator)
    x = np.random.default_rng(0).standard_normal(program.inputs[0].shape).astype(np.float32)
    (wanted,) = net.reference(x)
    np.testing.assert_allclose(built(x), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
