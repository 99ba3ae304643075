"""Many runs, several callers and sanitizers: what is sound passes, what is not is found."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.api import load, repeated
from weft.api.net import Net
from weft.api.repeated import Repeated, Sanitized
from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.options import Options


def digits() -> tuple[Net, dict[str, np.ndarray]]:
    net = load("examples/digits/digits.onnx").bound()
    (name,) = net.graph.inputs
    shape = net.graph.types[name].dims
    return net, {name: np.random.default_rng(0).random(shape, dtype=np.float32)}


def test_every_run_has_the_bits_of_the_first():
    net, inputs = digits()
    found = repeated.repeated(net.compile().library, net, inputs, runs=50, callers=3)
    assert found == Repeated(100, 3, 0)


def test_runs_with_state_begin_with_the_states_that_are_given():
    builder = GraphBuilder(OPS, "sums")
    x, h = (builder.input(name, TensorType(DType.F32, (3,))) for name in ("x", "h"))
    following = builder.op("Add", x, h, output="next")
    graph = builder.graph([builder.op("Relu", following, output="y"), following])
    net = Net(graph).with_state({"h": "next"})
    inputs = {name: np.ones(3, np.float32) for name in ("x", "h")}
    found = repeated.repeated(net.compile().library, net, inputs, runs=4, callers=2)
    assert found.differing == 0


def test_a_run_that_depends_on_earlier_ones_is_found():
    net, inputs = digits()
    count = itertools.count()
    lock = threading.Lock()

    def forgetful(*_: np.ndarray, state: Any) -> tuple[np.ndarray]:
        # As a sum that is not cleared: the second run differs, and each one after it.
        with lock:
            return (np.array([min(next(count), 1)], np.float32),)

    class Forgetful:
        built = SimpleNamespace(states=())
        __call__ = staticmethod(forgetful)

    library: Any = Forgetful()
    found = repeated.repeated(library, net, inputs, runs=5, callers=2)
    assert found == Repeated(10, 2, 10)


@pytest.mark.slow
def test_sanitizers_find_nothing_in_generated_code():
    net, inputs = digits()
    found = repeated.sanitized(net, inputs, Options())
    assert found == Sanitized(("address", "undefined behaviour"), "")


def written(makefile: str, asked: list[Options], threads: int) -> Any:
    """An export of nothing but a Makefile."""

    def export(_: Net, path: Path, *, options: Options) -> Any:
        asked.append(options)
        path.mkdir()
        (path / "Makefile").write_text(makefile, encoding="utf-8")
        return SimpleNamespace(files=SimpleNamespace(threads=threads))

    return export


def test_what_sanitizers_find_is_told(monkeypatch: pytest.MonkeyPatch):
    makefile = "sanitize:\n\t@echo heap-buffer-overflow; exit 1\n"
    monkeypatch.setattr(repeated, "export", written(makefile, [], 1))
    net, inputs = digits()
    assert "heap-buffer-overflow" in repeated.sanitized(net, inputs, Options()).faults


def test_code_of_several_threads_runs_under_the_thread_sanitizer_too(
    monkeypatch: pytest.MonkeyPatch,
):
    makefile = "sanitize:\n\t@true\nraces:\n\t@echo data race; exit 1\n"
    net, inputs = digits()
    for threads in (1, 2):
        monkeypatch.setattr(repeated, "export", written(makefile, [], threads))
        found = repeated.sanitized(net, inputs, Options())
        assert ("threads" in found.checked) == ("data race" in found.faults) == (threads > 1)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (Options(), "host"),
        (Options(target="x86-avx2"), "x86-avx2"),
        (Options(simd="avx2"), ""),
    ],
)
def test_what_is_sanitized_is_what_runs(
    given: Options, target: str, monkeypatch: pytest.MonkeyPatch
):
    asked: list[Options] = []
    monkeypatch.setattr(repeated, "export", written("sanitize:\n\t@true\n", asked, 1))
    assert not repeated.sanitized(*digits(), given).faults
    assert asked[0].target == target
    assert asked[0].simd == given.simd
