"""The toolkit builds with a C compiler alone, checks itself, and is written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.turns import a_few
from weft.codegen.emit import emit
from weft.codegen.layout import standard_headers
from weft.codegen.uses import words
from weft.dtypes import DType
from weft.errors import UserError
from weft.export.golden import golden, sample_inputs, tolerance
from weft.export.toolkit import MARKER, Toolkit, write
from weft.loops.nodes import Access, Binary, Buffer, Cast, Const, For, Kernel, Load, Store, Var
from weft.plan.program import Address, CallStep, Port, Program, Region
from weft.plan.report import LayerSpan, MemoryPlace, Report, Row
from weft.runtime.compiler import find_compiler, sanitizer_flags

I64 = DType.I64


def doubling(dtype: DType) -> Kernel:
    """``y[i] = x[i] + w[i]`` for 8 elements."""
    at = (Var("i"),)
    value = Binary("add", Load("x", at, dtype), Cast(dtype, Load("w", at, DType.F32)))
    loop = For("i", Const(0, I64), Const(8, I64), (Store("y", at, value),))
    params = (
        Buffer("x", dtype, (8,)),
        Buffer("w", DType.F32, (8,)),
        Buffer("y", dtype, (8,), Access.WRITE),
    )
    return Kernel("add_weights", params, (loop,))


def toolkit(
    dtype: DType = DType.F32, flavour: str = "c99", weights: str = "arrays", shift: int = 0
) -> Toolkit:
    """A toolkit of a network that adds weights twice; ``shift`` spoils the golden data."""
    step = CallStep(
        "add_weights",
        (
            Address(Region.INPUT, "image */"),
            Address(Region.WEIGHTS, "w"),
            Address(Region.ARENA, "", 64),
        ),
        ("Add of */ a node",),
    )
    last = CallStep(
        "add_weights",
        (
            Address(Region.ARENA, "", 64),
            Address(Region.WEIGHTS, "w"),
            Address(Region.OUTPUT, "double"),
        ),
    )
    program = Program(
        "adder",
        (Port("image */", dtype, (2, 4)),),
        (Port("double", dtype, (8,)),),
        (doubling(dtype),),
        (step, last),
        {"w": np.arange(8, dtype=np.float32)},
        192,
    )
    (x,) = sample_inputs([(dtype, (2, 4))])
    inner = (x.reshape(-1) + program.weights["w"].astype(x.dtype)).astype(x.dtype)
    y = (inner + program.weights["w"].astype(x.dtype)).astype(x.dtype) + np.array(shift, x.dtype)
    place = MemoryPlace("y|z", f"{dtype.value}[8]", "arena", 64, 32)
    row = Row(0, "add_weights", ("Add",), ("/a|b/add",), "nest", "only", (), (place,), "", 0, 64)
    report = Report("adder", (row, row), 192, 192, "exact", 32)
    spans = [LayerSpan("y", "Add", 0, 1, 64, 32)]
    files = emit(program, flavour, weights)
    return Toolkit(files, report, spans, golden([x], [y]), "adder.onnx", "generic")


def make(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    """Runs the toolkit's Makefile with the compiler that is found."""
    compiler = find_compiler()
    environment = {**os.environ, "CC": shlex.join(compiler.command), "CFLAGS": "-O1"}
    if compiler.kind == "zig":
        environment["AR"] = shlex.join([*compiler.command[:-1], "ar"])
    # Run by `make test`, it must not speak as that make's child.
    environment.pop("MAKEFLAGS", None)
    command = ["make", "-s", "--no-print-directory", "-C", str(folder), *targets]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("weights", ["arrays", "blob"])
@pytest.mark.parametrize("flavour", ["c89", "c99", "gnu"])
def test_self_test_passes(flavour: str, weights: str, tmp_path: Path) -> None:
    write(toolkit(flavour=flavour, weights=weights), tmp_path / "out")
    done = make(tmp_path / "out", "test")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("double_: largest difference 0, allowed")
    assert re.fullmatch(r"stack: \d+ bytes used, ADDER_STACK_BYTES is \d+: ok", second)


@pytest.mark.parametrize(
    "dtype", a_few([DType.F64, DType.F16, DType.BF16, DType.I8, DType.I64, DType.U32])
)
def test_self_test_of_every_type(dtype: DType, tmp_path: Path) -> None:
    write(toolkit(dtype), tmp_path / "good")
    done = make(tmp_path / "good", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    write(toolkit(dtype, shift=100), tmp_path / "bad")
    done = make(tmp_path / "bad", "test")
    assert done.returncode != 0
    assert "WRONG" in done.stdout


def test_self_test_is_clean_under_sanitizers(tmp_path: Path) -> None:
    if not sanitizer_flags(find_compiler()):
        pytest.skip("this compiler has no sanitizers")
    write(toolkit(), tmp_path / "out")
    done = make(tmp_path / "out", "sanitize")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(find_compiler().kind != "gcc", reason="asks gcc for its own headers")
@pytest.mark.parametrize("flavour", ["c89", "c99", "gnu"])
def test_no_c_library_is_needed(flavour: str, tmp_path: Path) -> None:
    write(toolkit(flavour=flavour), tmp_path)
    command = [*find_compiler().command, f"-std={flavour}".replace("gnu", "gnu11")]
    asked = [*command, "-print-file-name=include"]
    own = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    command += ["-ffreestanding", "-nostdinc", "-isystem", own, "-fsyntax-only", "-x", "c"]
    for name in ("adder.c", "adder_golden.h"):
        done = subprocess.run(
            [*command, tmp_path / name], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), name


def test_headers_are_those_that_are_used() -> None:
    cases = {
        "x = y + 1;": [],
        "x = expf(y) + fma(x, y, z);": ["math.h"],
        "x = isnan(y) ? -INFINITY : y;": ["math.h"],
        "memset(x, 0, sizeof x);": ["string.h"],
        "x = FLT_MAX + DBL_EPSILON;": ["float.h"],
        "x = INT_MIN; y = ULONG_MAX; z = CHAR_BIT;": ["limits.h"],
        "pow(a, FLT_MAX); strlen(b); c = LONG_MAX;": ["float.h", "limits.h", "math.h", "string.h"],
        "/* the sine, logarithm */ net_exp(a); string = memory;": [],
    }
    for text, headers in cases.items():
        assert standard_headers(words(text)) == [f"#include <{name}>" for name in headers]


def test_files(tmp_path: Path) -> None:
    names = write(toolkit(weights="blob"), tmp_path / "out")
    assert names == sorted(each.name for each in (tmp_path / "out").iterdir())
    assert names == [
        "CMakeLists.txt",
        "Makefile",
        "NOTICE",
        "README.md",
        "REPORT.html",
        "adder.bin",
        "adder.c",
        "adder.h",
        "adder_golden.h",
        "adder_stack.awk",
        "adder_test.c",
        "manifest.json",
        "memory.svg",
        "report.md",
        "sbom.spdx.json",
        "toolkit.json",
    ]
    record = json.loads((tmp_path / "out" / MARKER).read_text())
    assert record["arena_bytes"] == 192
    assert record["inputs"] == [{"name": "image */", "dtype": "f32", "shape": [2, 4]}]
    ElementTree.parse(tmp_path / "out" / "memory.svg")
    table = (tmp_path / "out" / "report.md").read_text()
    assert "| 0 | Add | nest (only) | y\\|z f32[8] |" in table


def test_a_toolkit_is_replaced(tmp_path: Path) -> None:
    write(toolkit(weights="blob"), tmp_path / "out")
    (tmp_path / "out" / "adder.o").write_text("stale")
    write(toolkit(), tmp_path / "out")
    assert not (tmp_path / "out" / "adder.bin").exists()
    assert not (tmp_path / "out" / "adder.o").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(UserError) as error:
        write(toolkit(), tmp_path)
    assert str(error.value) == (
        f"the output folder must be empty or contain an earlier toolkit; got {tmp_path}. "
        "Name another folder."
    )
    with pytest.raises(UserError) as error:
        write(toolkit(), tmp_path / "precious")
    wanted = f"the output folder must be a folder; got {tmp_path / 'precious'}"
    assert str(error.value) == wanted
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("name", [".", "..", "/", "../inside"])
def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever is in it would be in a folder that is gone."""
    here = tmp_path / "inside"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(UserError) as error:
        write(toolkit(), Path(name))
    assert str(error.value) == (
        "the output folder is replaced as a whole, so it must not be the current folder or one "
        f"above it; got {name}. Use a subfolder, such as `toolkit`, or another folder."
    )
    write(toolkit(), Path("toolkit"))
    assert (here / "toolkit" / "adder.c").is_file()


def test_nothing_is_left_of_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(toolkit(), tmp_path / "out")
    before = {each.name: each.read_bytes() for each in (tmp_path / "out").iterdir()}

    def fail(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("weft.export.facts.memory_map", fail)
    with pytest.raises(UserError) as error:
        write(toolkit(flavour="c89"), tmp_path / "out")
    out = tmp_path / "out"
    assert str(error.value) == f"the output must be writable; got {out}: No space left on device"
    assert {each.name: each.read_bytes() for each in (tmp_path / "out").iterdir()} == before
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_tolerance() -> None:
    assert tolerance(np.array([1, 2], np.int8)) == 0.0
    assert tolerance(np.array([-1.0, 3.0, np.inf, np.nan], np.float32)) == pytest.approx(4e-4)
    assert tolerance(np.array([], np.float32)) > 0
