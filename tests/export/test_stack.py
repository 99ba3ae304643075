"""No build of a toolkit takes more of the stack than is said, by its own painted self-test."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from bench.stack import MACHINES, Machine, painted
from tests.export.test_toolkit import make, toolkit
from tests.kernels.bytes.test_byte_dual import rounded
from weft import ops
from weft.api import Net
from weft.errors import UserError
from weft.export.toolkit import MARKER, write
from weft.runtime.compiler import find_compiler
from weft.runtime.measure import compiler_named, loaded_bytes, measure

GNU = find_compiler().kind in ("gcc", "clang")
BUILDS = [("gcc", "c89", "2"), ("clang", "c99", "3"), ("Cortex-M4", "c99", "s")]


@pytest.fixture(scope="module")
def lively() -> weft.Net:
    """A convolution, functions of libm and helpers."""

    def net(x):
        w = np.full((8, 3, 3, 3), 0.1, np.float32)
        y = ops.relu(ops.conv(x, w, pads=(1, 1, 1, 1)))
        return ops.softmax(ops.mul(ops.sin(y), ops.erf(y)), axis=1)

    return weft.trace(net, "f32[1,3,9,10]")


def machine(name: str) -> Machine:
    (found,) = [each for each in MACHINES if each.name == name]
    if found.missing:
        pytest.skip(f"there is no {found.missing}")
    return found


@pytest.mark.parametrize(("name", "standard", "level"), BUILDS)
def test_painted(lively, name, standard, level, tmp_path):
    files = lively.export(tmp_path / "net", "generic", flavour=standard, name="net").files
    used, measured = painted(files, tmp_path / "net", machine(name), level)
    assert measured is not None
    assert 0 < used <= measured <= files.stack_bytes


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86")
@pytest.mark.parametrize("level", ["0", "2"])
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_vectors(lively, name, level, tmp_path):
    made = lively.export(tmp_path / "net", "x86-sse2", name="net")
    used, measured = painted(made.files, tmp_path / "net", machine(name), level)
    assert measured is not None
    assert 0 < used <= min(measured, made.files.stack_bytes)


def integers() -> Net:
    """A convolution of 3x3 taps of bytes, in integers."""
    net, output = rounded(16, (8, 8), 16)
    return Net(net.graph(output))


@pytest.mark.parametrize(
    ("name", "level", "called"),
    [
        ("Cortex-M4 assembly", "2", "weft_winograd_2x4_4_1"),
        ("Cortex-M4 assembly", "0", "weft_winograd_2x4_4_1"),
        ("Cortex-M55 assembly", "2", "weft_mve_i32_16_3_160_48_0_16_4_1"),
    ],
)
def test_assembly_painted(name, level, called, tmp_path):
    """Compilers say that functions in assembly take nothing; all figures count them."""
    board = machine(name)
    compiler = f"{' '.join(board.compiler)} -O{level}"
    made = integers().export(
        tmp_path / "net", board.target, name="net", optimize="speed", compiler=compiler
    )
    graph = made.files.calls
    (own,) = [each.own for each in graph.functions if each.name == called]
    used, measured = painted(made.files, tmp_path / "net", board, level)
    assert measured == made.files.stack_bytes
    assert own < used <= measured
    estimated = integers().source(board.target, optimize="speed")
    assert used <= estimated.stack_bytes
    built = f"CC={' '.join(board.compiler)}", f"CFLAGS=-O{level}"
    done = make(tmp_path / "net", "stack", *built)
    assert done.stdout == f"stack: {measured} bytes, measured; NET_STACK_BYTES is {measured}\n"


def test_a_run_that_takes_more_than_is_said(tmp_path):
    write(toolkit(), tmp_path / "out")
    done = make(tmp_path / "out", "test", "STANDARD=-DADDER_STACK_BYTES=1")
    assert done.returncode != 0
    assert re.search(
        r"^stack: \d+ bytes used, ADDER_STACK_BYTES is 1: WRONG$", done.stdout, re.MULTILINE
    )


@pytest.mark.skipif(not GNU, reason="only gcc and clang have -fstack-usage")
def test_make_stack_agrees_with_the_header(lively, tmp_path):
    compiler = f"{find_compiler().command[0]} -O1"
    made = lively.export(tmp_path / "out", name="net", compiler=compiler)
    done = make(tmp_path / "out", "stack")
    bytes = made.files.stack_bytes
    assert done.stdout == f"stack: {bytes} bytes, measured; NET_STACK_BYTES is {bytes}\n"
    less = lively.export(tmp_path / "less", name="net")
    done = make(tmp_path / "less", "stack")
    assert done.stdout == (
        f"stack: {bytes} bytes, measured; NET_STACK_BYTES is {less.files.stack_bytes}\n"
    )
    assert done.returncode == 0
    header = (tmp_path / "out" / "net.h").read_text()
    assert f"#define NET_STACK_BYTES {bytes}\n" in header
    assert "Stack that one run takes, in bytes; measured:" in header
    assert "an estimate" not in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.skipif(not GNU, reason="needs gcc or clang")
def test_a_compiler_that_is_named(lively, tmp_path):
    compiler = find_compiler()
    made = lively.export(tmp_path / "out", compiler=f"{compiler.command[0]} -Os -g")
    lines = (tmp_path / "out" / "Makefile").read_text().splitlines()
    assert f"CC = {compiler.command[0]}" in lines
    assert "CFLAGS ?= -Os -g" in lines
    said = f"{Path(compiler.command[0]).name} -Os -g ({compiler.version})"
    assert made.files.stack.compiler == made.build.measured == said
    weights = made.report.weight_bytes
    assert weights < made.flash_bytes < weights + 20_000
    assert made.flash_bytes == measure(made.files, compiler, ["-Os", "-g"]).flash
    assert f'"flash_bytes": {made.flash_bytes}' in (tmp_path / "out" / MARKER).read_text()


def test_compilers_that_are_wrong(lively):
    with pytest.raises(UserError) as caught:
        lively.toolkit(compiler="-O2")
    assert str(caught.value) == (
        "the compiler must be a C compiler that runs, and its flags; got '-O2'. "
        "For example: arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -Os"
    )
    compiler = find_compiler()
    with pytest.raises(UserError, match="must compile the generated C with the flags given"):
        measure(lively.source("generic"), compiler, ["-O2", "-no-such-flag"])
    assert compiler_named(" ".join(compiler.command))[0] == compiler


def test_zig_is_named_as_a_module_of_python(lively, tmp_path):
    pytest.importorskip("ziglang")
    zig = (sys.executable, "-m", "ziglang", "cc")
    flags = ("-target", "aarch64-linux-musl", "-Os")
    found, rest = compiler_named(shlex.join([*zig, *flags]))
    assert (found.command, found.kind, rest) == (zig, "zig", flags)
    toolkit = lively.toolkit(compiler=shlex.join([*zig, *flags]))
    write(toolkit, tmp_path)
    archive = f"lib{toolkit.files.name}.a"
    subprocess.run(["make", "-C", str(tmp_path), archive], check=True, capture_output=True)
    assert (tmp_path / archive).read_bytes().startswith(b"!<arch>\n/ "), "no index of symbols"


@pytest.mark.skipif(shutil.which("size") is None, reason="there is no size")
@pytest.mark.parametrize("name", ["gcc", "Cortex-M4"])
def test_code_and_constants_are_what_size_says(name, tmp_path):
    source, made = tmp_path / "a.c", tmp_path / "a.o"
    source.write_text("const int w[5] = {1}; int z[9]; int d = 3; int f(int x) { return w[x]; }\n")
    subprocess.run([*machine(name).compiler, "-c", str(source), "-o", str(made)], check=True)
    told = subprocess.run(["size", str(made)], capture_output=True, text=True, check=True)
    text, data = (int(word) for word in told.stdout.splitlines()[1].split()[:2])
    found = loaded_bytes(made.read_bytes())
    assert found is not None
    assert text + data == found
    assert loaded_bytes(b"MZ") is None
