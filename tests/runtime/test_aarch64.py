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
from tests.codegen.test_half import singles
from tests.kernels.batch import run
from tests.kernels.shapes import FAMILIES, Shapes
from tests.kernels.test_grid import drawn, trials_of
from tests.models import networks
from tests.plan.nets import Net
from tests.runtime.standalone import standalone
from weft.api import Net as Compiled
from weft.dtypes import DType
from weft.loops.nodes import Instruct
from weft.loops.statements import walk_stmts
from weft.targets.find import target

MACHINE, BRAIN = "aarch64-neon", "neoverse-v1"
BFLOAT16 = ("-Xclang", "-target-feature", "-Xclang", "+bf16")
"""What tells zig of the instructions, without a C library of their own."""
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
    for dtype in (DType.I8, DType.U8):
        add(lambda net, dtype=dtype: looked_up(net, dtype))
    return found


def looked_up(net: Net, dtype: DType) -> str:
    """Bytes by a table."""
    table = net.random.permutation(256).astype(np.uint8).view(np.int8)
    return net.op("Lookup", net.input(3, 131, dtype=dtype), net.builder.constant(table, "table"))


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


def _images(net: Net) -> str:
    x = net.op("Relu", net.conv(net.input(1, 3, 19, 17), 12, stride=2))
    y = net.op("Relu", net.conv(x, 16, 1))
    y = net.op("Relu", net.op("Add", net.conv(y, 12), x))
    return net.conv(net.op("MaxPool", y, kernel=(2, 2)), 20)


def _pairs(net: Net) -> str:
    x = net.op("Relu", net.conv(net.input(1, 4, 7, 9), 6, 1))
    return net.conv(net.op("Relu", net.conv(x, 8)), 16, groups=2)


def _rows(net: Net) -> str:
    return net.dense(net.op("Relu", net.dense(net.input(7, 48), 32)), 24)


NARROW: dict[str, tuple[Callable[[Net], str], set[str]]] = {
    "images": (_images, {"bfmmla"}),
    "pairs": (_pairs, {"bfmmla", "bfdot"}),
    "rows": (_rows, {"bfmmla"}),
}
"""Networks whose channels come in fours, in pairs, from an image, and the instructions for them."""


class Signs(Net):
    """A net of ones, every third below zero."""

    def numbers(self, shape: Sequence[int], scale: float, dtype: DType) -> np.ndarray:
        return np.where(np.arange(np.prod(shape)) % 3, 1, -1).reshape(shape).astype(dtype.numpy)


@pytest.mark.thorough
def test_an_instruction_rounds_to_bfloat16(
    arm: tuple[Sequence[str], Sequence[str]], tmp_path: Path
) -> None:
    x = singles(DType.BF16).reshape(-1, 16)
    layers = Signs()
    signed = layers.op("Mul", layers.input(*x.shape), layers.constant(16))
    net = Compiled(layers.graph(layers.op("Cast", signed, to=DType.BF16)))
    compiler, (emulator, *_) = arm
    runner = emulator, "-cpu", "max"
    program = net.program(BRAIN, "rounded")
    built = standalone(program, "gnu", tmp_path, compiler, (*FLAGS, *BFLOAT16), runner)
    (wanted,) = net.reference(x)
    np.testing.assert_array_equal(built(x).astype(np.float32), wanted.astype(np.float32))


@pytest.mark.thorough
@pytest.mark.parametrize("name", NARROW)
def test_instructions_for_bfloat16_have_the_bits_of_portable_c(
    name: str, arm: tuple[Sequence[str], Sequence[str]], tmp_path: Path
) -> None:
    (make, instructions), layers = NARROW[name], Net()
    net = Compiled(layers.graph(make(layers)))
    program = net.program(BRAIN, "narrow", precision="bfloat16")
    stmts = [stmt for each in program.functions for stmt in walk_stmts(each.body)]
    assert instructions <= {stmt.name for stmt in stmts if isinstance(stmt, Instruct)}
    x = np.random.default_rng(0).standard_normal(program.inputs[0].shape).astype(np.float32)
    (tmp_path / "here").mkdir()
    (tmp_path / "arm").mkdir()
    plain = ("-O1", "-w", "-ffp-contract=off")
    here = standalone(program, "gnu", tmp_path / "here", ("gcc",), plain)
    compiler, (emulator, *_) = arm
    flags = (*FLAGS, *BFLOAT16, "-ffp-contract=off")
    built = standalone(program, "gnu", tmp_path / "arm", compiler, flags, (emulator, "-cpu", "max"))
    found = built(x)
    np.testing.assert_array_equal(found, here(x))
    (wanted,) = net.reference(x)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
