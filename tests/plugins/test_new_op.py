"""An op of a plugin, a definition and nothing else: all that edits networks knows what it does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.plugins.installed import Install, install
from tests.rewrite.checks import graph_of, infer
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.pictures import draw
from weft.pictures.families import kind_of
from weft.recipes import apply
from weft.surgery.resize import with_shapes

__all__ = ["install"]

# y[n,o,i,j] = b[o] + sum over k, t of w[o,k,t] * x[n,k,i+t,j]
OP = """
import numpy as np
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Reduce, Var
from weft.ops.expr import add, binary
from weft.ops.record import Define, NoGrad, Op, Param

def infer(call):
    x, w = call.type(0), call.type(1)
    n, k, h, j = x.shape
    if w.shape[1] != k:
        raise call.error("w has other channels than x")
    return (TensorType(x.dtype, (n, w.shape[0], h - w.shape[2] + 1, j)),)

def define(call):
    axes = tuple(Axis(v, e) for v, e in zip("noij", infer(call)[0].dims))
    n, o, i, j = (Var(axis.var) for axis in axes)
    x = call.load(0, n, Var("k"), add(i, Var("t")), j)
    w = call.load(1, o, Var("k"), Var("t"))
    taps = tuple(Axis(v, e) for v, e in zip("kt", call.type(1).dims[1:]))
    total = Reduce("sum", taps, binary("mul", x, w))
    return (Compute(axes, binary("add", total, call.load(2, o))),)

def reference(call, x, w, b):
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2], axis=2)
    return (np.einsum("nkijt,okt->noij", windows, w) + b[:, None, None],)

COLUMNS = Op(
    name="Columns",
    inputs=(Param("x"), Param("w"), Param("b")),
    infer=infer,
    reference=reference,
    compute=Define(define),
    grad=NoGrad("not asked for"),
    doc="Convolves columns.",
)
"""
NET = """(%x: f32[1,3,9,4]) -> (%y) {
  const %v: f32[8,3,1,1]
  const %w: f32[6,8,2]
  const %b: f32[6]
  const %u: f32[2,6,1,1]
  %a: f32[1,8,9,4] = Conv(%x, %v)
  %r: f32[1,8,9,4] = Relu(%a)
  %c: f32[1,6,8,4] = Columns(%r, %w, %b)
  %y: f32[1,2,8,4] = Conv(%c, %u)
}"""


@pytest.fixture
def graph(install: Install) -> Graph:
    install("columns", {"columns.py": OP}, {"ops": {"Columns": "columns:COLUMNS"}})
    return graph_of(NET)


def outputs(graph: Graph, seed: int = 0) -> np.ndarray:
    shape = graph.types["x"].dims
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return evaluate(graph, {"x": x}, OPS)["y"]


@pytest.mark.parametrize("axis", [2, 3])
def test_it_is_tiled_in_a_chain(graph: Graph, axis: int) -> None:
    values = {"first": "a", "last": "y", "axes": (axis,), "parts": (3,)}
    done = apply(graph, "tile-chain", values)
    verify(done, infer)
    made = [done.types[n.outputs[0]].dims[axis] for n in done.nodes if n.op == "Relu"]
    # Rows are read by two windows, columns by one.
    assert made == ([4, 4, 3] if axis == 2 else [2, 1, 1])
    np.testing.assert_allclose(outputs(done), outputs(graph), rtol=1e-5)


def test_its_own_outputs_are_tiled(graph: Graph) -> None:
    values = {"first": "c", "last": "c", "axes": (1,), "parts": (2,)}
    done = apply(graph, "tile-chain", values)
    shapes = [done.types[n.inputs[1]].dims for n in done.nodes if n.op == "Columns"]
    assert shapes == [(3, 8, 2), (3, 8, 2)]
    np.testing.assert_allclose(outputs(done), outputs(graph), rtol=1e-5)


def test_channels_are_pruned_through_it(graph: Graph) -> None:
    small = apply(graph, "prune", {"ratio": 0.5})
    twin = apply(graph, "prune", {"ratio": 0.5, "masked": True})
    shapes = {name: array.shape for name, array in small.constants.items()}
    assert shapes == {"v": (4, 3, 1, 1), "w": (3, 4, 2), "b": (3,), "u": (2, 3, 1, 1)}
    np.testing.assert_allclose(outputs(small), outputs(twin), rtol=1e-4, atol=1e-5)


def test_its_batch_is_changed(graph: Graph) -> None:
    many = with_shapes(graph, {"x": (3, 3, 9, 4)})
    verify(many, infer)
    x = np.random.default_rng(0).normal(size=(3, 3, 9, 4)).astype(np.float32)
    alone = [evaluate(graph, {"x": x[n : n + 1]}, OPS)["y"] for n in range(3)]
    np.testing.assert_allclose(outputs(many), np.concatenate(alone), rtol=1e-5)


def test_it_is_drawn_as_what_it_does(graph: Graph) -> None:
    assert kind_of(graph.by_name["c"], graph.types) == "convolution"
    assert "Columns" in draw(graph)


def test_what_it_cannot_do_is_refused(install: Install) -> None:
    text = OP.replace('binary("add", total, call.load(2, o))', 'binary("add", total, like(o))')
    text = text.replace("def infer", "def like(o):\n    return cast(DType.F32, o)\n\ndef infer", 1)
    text = "from weft.dtypes import DType\nfrom weft.ops.expr import cast\n" + text
    install("columns", {"columns.py": text}, {"ops": {"Columns": "columns:COLUMNS"}})
    graph = graph_of(NET)
    with pytest.raises(UserError) as error:
        apply(graph, "tile-chain", {"first": "c", "last": "c", "axes": (1,), "parts": (2,)})
    assert str(error.value) == (
        "tile: Columns cannot be cut along axis 1: a part of it is another computation (node c)"
    )
