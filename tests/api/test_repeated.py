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
from weft.api.repeated import Repeated
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
    assert repeated.sanitized(net, inputs, Options()) == ""


def test_what_sanitizers_find_is_told(monkeypatch: pytest.MonkeyPatch):
    def export(_: Net, path: Path, **__: object) -> None:
        path.mkdir()
        makefile = "sanitize:\n\t@echo heap-buffer-overflow; exit 1\n"
        (path / "Makefile").write_text(makefile, encoding="utf-8")

    monkeypatch.setattr(repeated, "export", export)
    net, inputs = digits()
    assert "heap-buffer-overflow" in repeated.sanitized(net, inputs, Options())
