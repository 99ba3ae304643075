"""Values that are stored in half precision and computed with in single precision."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of, infer, nodes_of, outputs_of
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.verify import verify
from weft.recipes import apply
from weft.rewrite.half_precision import moving_halves

BLOCK = """(%x: f32[1,4,5,6]) -> (%y) {
  const %v: f32[4,4,1,1]
  const %w: f32[4,4,3,3]
  const %b: f32[4]
  %s: f32[1,4,5,6] = Conv(%x, %v, %b)
  %c: f32[1,4,5,6] = Conv(%x, %w, %b) {pads=(1,1,1,1)}
  %a: f32[1,4,5,6] = Add(%c, %s)
  %r: f32[1,4,5,6] = Relu(%a)
  %m: f32[1,4,4,5] = MaxPool(%r) {kernel=(2,2)}
  %t: f32[1,4,5,4] = Transpose(%m) {perm=(0,1,3,2)}
  %k: f32[1,8,5,4] = Concat(%t, %t) {axis=1}
  %p: f32[1,8,1,1] = GlobalAveragePool(%k)
  %g: f32[1,8,1,1] = Sigmoid(%p)
  %y: f32[1,8,5,4] = Mul(%k, %g)
}"""
NARROWED = """
%x_narrow: bf16[1,4,5,6] = Cast(%x) {to=bf16}
%x_wide: f32[1,4,5,6] = Cast(%x_narrow)
%v_wide: f32[4,4,1,1] = Cast(%v_narrow)
%s: f32[1,4,5,6] = Conv(%x_wide, %v_wide, %b)
%s_narrow: bf16[1,4,5,6] = Cast(%s) {to=bf16}
%w_wide: f32[4,4,3,3] = Cast(%w_narrow)
%c: f32[1,4,5,6] = Conv(%x_wide, %w_wide, %b) {pads=(1, 1, 1, 1)}
%s_wide: f32[1,4,5,6] = Cast(%s_narrow)
%a: f32[1,4,5,6] = Add(%c, %s_wide)
%r: f32[1,4,5,6] = Relu(%a)
%r_narrow: bf16[1,4,5,6] = Cast(%r) {to=bf16}
%r_wide: f32[1,4,5,6] = Cast(%r_narrow)
%m: f32[1,4,4,5] = MaxPool(%r_wide) {kernel=(2, 2)}
%m_narrow: bf16[1,4,4,5] = Cast(%m) {to=bf16}
%t_narrow: bf16[1,4,5,4] = Transpose(%m_narrow) {perm=(0, 1, 3, 2)}
%k_narrow: bf16[1,8,5,4] = Concat(%t_narrow, %t_narrow) {axis=1}
%k_wide: f32[1,8,5,4] = Cast(%k_narrow)
%p: f32[1,8,1,1] = GlobalAveragePool(%k_wide)
%g: f32[1,8,1,1] = Sigmoid(%p)
%y: f32[1,8,5,4] = Mul(%k_wide, %g)
"""


def made(text: str, **values: object) -> Graph:
    graph = graph_of(text)
    done = apply(graph, "bfloat16", values)
    verify(done, infer)
    assert (done.inputs, done.outputs) == (graph.inputs, graph.outputs)
    return done


def test_what_is_stored_is_rounded_once() -> None:
    """Sums, residuals and activations of one group are not rounded; what moves stays narrow."""
    assert nodes_of(made(BLOCK)) == NARROWED.strip().splitlines()


def test_error() -> None:
    for given, least in (({}, 1e-4), ({"values": "weights"}, 1e-5), ({"keep": ("c", "s")}, 1e-5)):
        expected, found = (
            outputs_of(each)["y"] for each in (graph_of(BLOCK), made(BLOCK, **given))
        )
        error = np.sqrt(np.mean((found - expected) ** 2)) / expected.std()
        assert least < error < 8e-3, given


def test_kept_layers_read_and_give_single_precision() -> None:
    text = "\n".join(nodes_of(made(BLOCK, keep=("a", "s"), values="weights")))
    assert "_narrow: bf16" not in text
    assert "%s: f32[1,4,5,6] = Conv(%x, %v, %b)" in text
    assert "%c: f32[1,4,5,6] = Conv(%x, %w_wide, %b)" in text


def test_nothing_to_do() -> None:
    graph = graph_of("(%x: f32[2,3]) -> (%y) { %y: f32[2,3] = Relu(%x) }")
    assert apply(graph, "bfloat16") is graph


def test_unknown_layer() -> None:
    with pytest.raises(UserError) as error:
        made(BLOCK, keep=("stem",))
    assert str(error.value).startswith(
        "a layer to keep in float32 must be one of the graph's nodes; got stem."
    )


WIDE = """(%x: bf16[2,3,4], %z: f32[2,3,4]) -> (%y, %u) {
  %w: f32[2,3,4] = Cast(%x)
  %t: f32[2,4,3] = Transpose(%w) {perm=(0,2,1)}
  %r: f32[2,12] = Reshape(%t) {shape=(2,12)}
  %y: f32[2,12] = Relu(%r)
  %s: f32[2,3,4] = Add(%w, %z)
  %u: f32[2,4,3] = Transpose(%s) {perm=(0,2,1)}
}"""
MOVED = """
%w: f32[2,3,4] = Cast(%x)
%t_narrow: bf16[2,4,3] = Transpose(%x) {perm=(0, 2, 1)}
%r_narrow: bf16[2,12] = Reshape(%t_narrow) {shape=(2, 12)}
%r_wide: f32[2,12] = Cast(%r_narrow)
%y: f32[2,12] = Relu(%r_wide)
%s: f32[2,3,4] = Add(%w, %z)
%u: f32[2,4,3] = Transpose(%s) {perm=(0, 2, 1)}
"""


def test_halves_are_moved_before_they_are_read() -> None:
    graph = graph_of(WIDE)
    done = moving_halves(graph, "bfloat16")
    verify(done, infer)
    assert nodes_of(done) == MOVED.strip().splitlines()
    for name, wanted in outputs_of(graph).items():
        np.testing.assert_array_equal(outputs_of(done)[name], wanted)
    assert nodes_of(moving_halves(done, "bfloat16")) == nodes_of(done)
    assert moving_halves(graph, "float32") is moving_halves(graph, "float16") is graph
