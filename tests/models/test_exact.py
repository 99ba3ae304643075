"""The int8 models in LiteRT's rounding: on every target the bits of its reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

import weft
from tests.models import tiny
from weft.errors import UserError
from weft.runtime.emulators import MACHINES, emulated
from weft.targets.find import host

pytestmark = tiny.needed

SUFFIXES = (".tflite", ".onnx")
EMULATED = (
    "cortex-m4",
    "cortex-m7",
    "cortex-m55",
    "aarch64-neon",
    "rv64gcv",
    "rv64gcv-256",
    "rv32imc",
)
HOST = ("", "none", "sse2", "avx2", "avx512")
"""For ``simd``."""
ALIKE = ("cortex-m7", "rv64gcv-256")
"""Targets with the instructions of one before: in thorough runs they take the quick case only."""
QUICK = ("kws", ".tflite")
"""What is not left to thorough runs, ..."""
ZIG = tuple(name for name in EMULATED if not MACHINES[name].compiler)
"""... but for these: zig builds a C library first, which takes a minute where none is cached."""

KEYWORDS = tiny.FOLDER.parent / "kws_test" / "kws_mfcc_int8.npz"


@cache
def net_of(name: str, suffix: str) -> weft.Net:
    path = tiny.model(name, "int8").with_suffix(suffix)
    return weft.load(path, rounding="litert")


def cases(*ways: str, both: Sequence[str] = ()) -> list[object]:
    """Every model of each kind, each way; one of them everywhere in quick runs.

    Args:
        ways: the machine or the instructions.
        both: those for which ``.onnx`` is not left to `make grid`.
    """
    thorough, slow = pytest.mark.thorough, pytest.mark.slow

    def left(suffix: str, way: str) -> bool:
        return way in ALIKE or (suffix == ".onnx" and way not in both)

    def marks(name: str, suffix: str, way: str) -> Sequence[pytest.MarkDecorator]:
        if (name, suffix) == QUICK:
            return [thorough] if way in (*ZIG, *ALIKE) else []
        return [slow if left(suffix, way) else thorough]

    return [
        pytest.param(
            name,
            suffix,
            way,
            marks=marks(name, suffix, way),
            id=f"{name}{suffix}-{way or 'widest'}",
        )
        for name in tiny.NAMES
        for suffix in SUFFIXES
        for way in ways
    ]


def lacking(simd: str) -> str:
    """Why this machine cannot run what is compiled for vector instructions; empty if it can."""
    try:
        host(simd)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", tiny.NAMES)
def test_references_have_the_bits_of_litert(name: str, suffix: str) -> None:
    net = net_of(name, suffix)
    assert net.float_layers() == ()
    for x, y in zip(*tiny.golden(name, "int8"), strict=True):
        np.testing.assert_array_equal(net.reference(x)[0], y)


@pytest.mark.parametrize(("name", "suffix", "simd"), cases(*HOST, both=["", "none"]))
def test_host(name: str, suffix: str, simd: str) -> None:
    if missing := lacking(simd):
        pytest.skip(missing)
    run = net_of(name, suffix).compile(simd=simd)
    for x, y in zip(*tiny.golden(name, "int8"), strict=True):
        np.testing.assert_array_equal(run(x), y)


@pytest.mark.parametrize(("name", "suffix", "target"), cases(*EMULATED))
def test_emulated(name: str, suffix: str, target: str) -> None:
    if missing := MACHINES[target].missing():
        pytest.skip(missing)
    files = net_of(name, suffix).source(target, name="net", threads=1)
    inputs, outputs = tiny.golden(name, "int8")
    found = emulated(files, [(x,) for x in inputs], target)
    for (output,), y in zip(found.outputs, outputs, strict=True):
        np.testing.assert_array_equal(output, y)


@pytest.mark.skipif(not KEYWORDS.is_file(), reason=f"the keywords are not at {KEYWORDS}")
def test_keywords_score_as_in_litert() -> None:
    run = net_of("kws", ".tflite").compile()
    with np.load(KEYWORDS) as arrays:
        inputs, labels = arrays["x"], arrays["y"]
    scores = [np.asarray(run(x[np.newaxis]))[0] for x in inputs]
    # A label counts that no other has a larger score than: three inputs have two largest.
    right = sum(int(each[label] == each.max()) for each, label in zip(scores, labels, strict=True))
    assert (right, len(labels)) == (902, 1000)
