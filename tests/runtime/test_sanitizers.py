"""Generated code is clean under sanitizers, and without a warning in every compiler."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.models import networks
from tests.plan.nets import Net as GraphNet
from tests.runtime.standalone import standalone
from weft.api import Net
from weft.codegen.emit import emit
from weft.dtypes import DType
from weft.plan.program import Port, Program
from weft.runtime.compare import compare
from weft.runtime.compiler import Compiler, compile_object, find_compiler

# Unoptimized: gcc needs a minute for what it has instrumented and then optimizes.
SANITIZERS = [
    "-O0",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
]
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"]
DIALECTS = {"host": ("host", "gnu"), "c99": ("generic", "c99"), "c89": ("generic", "c89")}
COMPILERS = ("gcc", "clang-19")


def sample(port: Port) -> np.ndarray:
    """A random input; all of an integer type's range."""
    generator = np.random.default_rng(0)
    if port.dtype.numpy.kind == "f":
        return generator.standard_normal(port.shape).astype(port.dtype.numpy)
    info = np.iinfo(port.dtype.numpy)
    return generator.integers(info.min, info.max, port.shape, port.dtype.numpy, endpoint=True)


@cache
def program(name: str, target: str) -> Program:
    return weft.load(networks.path_of(name)).program(target, "network")


def compiler(command: str) -> Compiler:
    if shutil.which(command) is None:
        pytest.skip(f"{command} is not installed")
    return Compiler((command,), "clang" if "clang" in command else "gcc", command)


def reference(net: Net, x: np.ndarray) -> np.ndarray:
    return net.compile().library(x)[0]


@pytest.mark.parametrize("name", networks.every())
@pytest.mark.parametrize("dialect", ["host", "c99"])
def test_sanitizers_find_nothing(name: str, dialect: str, tmp_path: Path) -> None:
    gcc = compiler("gcc")
    target, flavour = DIALECTS[dialect]
    made = program(name, target)
    flags = [*SANITIZERS, *(["-march=native"] if target == "host" else [])]
    run = standalone(made, flavour, tmp_path, gcc.command, flags)
    x = sample(made.inputs[0])
    difference = compare(name, run(x), reference(weft.load(networks.path_of(name)), x))
    # Sums are taken in another order, and are not contracted; int8 may round to the other side.
    if x.dtype.kind == "f":
        assert difference.relative <= 1e-5
    else:
        assert difference.largest <= 8


def test_sanitizers_see_a_short_arena(tmp_path: Path) -> None:
    """The test above could fail: with less memory than the plan needs, it does."""
    made = replace(program("digits", "generic"), arena_bytes=64)
    run = standalone(made, "c99", tmp_path, compiler("gcc").command, SANITIZERS)
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        run(sample(made.inputs[0]))


def test_indices_far_outside_are_passed_over(tmp_path: Path) -> None:
    """They are not even multiplied, which could overflow."""
    gcc, net = compiler("gcc"), GraphNet()
    places = net.input(4, 2, dtype=DType.I64)
    data, updates = net.constant(5, 3), net.constant(4)
    graph = net.graph(net.op("ScatterND", data, places, updates))
    run = standalone(
        Net(graph).program("generic", "network"), "c99", tmp_path, gcc.command, SANITIZERS
    )
    far = np.array([[2**63 - 1, 0], [-(2**63), 1], [0, 2**62], [1, 2]])
    expected = graph.constants[data].copy()
    expected[1, 2] = graph.constants[updates][3]
    np.testing.assert_array_equal(run(far), expected)


@pytest.mark.parametrize("name", networks.every())
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("command", COMPILERS)
def test_compilers_warn_of_nothing(name: str, dialect: str, command: str, tmp_path: Path) -> None:
    found = compiler(command)
    target, flavour = DIALECTS[dialect]
    files = emit(program(name, target), flavour, "blob")
    for text in (files.header, *files.private, *files.sources):
        (tmp_path / text[0]).write_text(text[1])
    flags = [f"-std={files.flavour.standard}", *STRICT, "-O1"]
    flags += ["-march=native"] if target == "host" else []
    for source, _ in files.sources:
        compile_object(found, flags, tmp_path / source, (tmp_path / source).with_suffix(".o"))
    assert sorted(tmp_path.glob("*.o"))


def test_weights_as_arrays_warn_of_nothing(tmp_path: Path) -> None:
    files = emit(program("digits", "generic"), "c89", "arrays")
    for text in (files.header, *files.private, *files.sources):
        (tmp_path / text[0]).write_text(text[1])
    flags = ["-std=c89", *STRICT, "-O0"]
    source = tmp_path / files.sources[0][0]
    compile_object(find_compiler(), flags, source, source.with_suffix(".o"))
    assert source.with_suffix(".o").exists()
