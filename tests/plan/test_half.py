"""Groups of networks in half precision: conversions belong to what reads and makes values."""

from __future__ import annotations

from tests.rewrite.checks import graph_of
from weft.api import Net

BRANCHES = """(%x: f32[1,8,6,6]) -> (%y) {
  const %u: f32[8,8,3,3]
  const %v: f32[8,8,1,1]
  const %w: f32[8,8,3,3]
  %a: f32[1,8,6,6] = Conv(%x, %u) {pads=(1,1,1,1)}
  %b: f32[1,8,6,6] = Relu(%a)
  %c: f32[1,8,6,6] = Conv(%b, %v)
  %d: f32[1,8,6,6] = Conv(%b, %w) {pads=(1,1,1,1)}
  %e: f32[1,8,6,6] = Add(%c, %d)
  %f: f32[1,8,6,6] = Add(%e, %b)
  %p: f32[1,8,3,3] = MaxPool(%f) {kernel=(2,2), strides=(2,2)}
  %t: f32[1,3,3,8] = Transpose(%p) {perm=(0,2,3,1)}
  %y: f32[1,3,3,8] = Softmax(%t) {axis=-1}
}"""
ATTENTION = """(%x: f32[2,9,16]) -> (%y) {
  const %q: f32[16,16]
  const %k: f32[16,16]
  const %v: f32[16,16]
  %a: f32[2,9,16] = MatMul(%x, %q)
  %b: f32[2,9,16] = MatMul(%x, %k)
  %c: f32[2,9,16] = MatMul(%x, %v)
  %d: f32[2,16,9] = Transpose(%b) {perm=(0,2,1)}
  %s: f32[2,9,9] = MatMul(%a, %d)
  %w: f32[2,9,9] = Softmax(%s) {axis=-1}
  %m: f32[2,9,16] = MatMul(%w, %c)
  %y: f32[2,9,16] = Sigmoid(%m)
}"""


def steps_of(text: str) -> list[tuple[list[str], str]]:
    """What each step does, and the type that it stores."""
    plan = Net(graph_of(text)).plan("x86-avx2", precision="bf16")
    return [
        (sorted({node.op for node in step.nodes} - {"Cast"}), str(plan.types[step.writes[0]]))
        for step in plan.steps
    ]


def test_no_step_only_converts_but_for_the_input() -> None:
    """One value has four readers, each of which converts it; residuals are read as they are."""
    found = steps_of(BRANCHES)
    assert found[:5] == [
        ([], "bf16[1,8,6,6]"),
        (["Conv", "Relu"], "bf16[1,8,6,6]"),
        (["Conv"], "bf16[1,8,6,6]"),
        (["Add", "Conv"], "bf16[1,8,6,6]"),
        (["MaxPool"], "bf16[1,8,3,3]"),
    ]
    assert all(ops for ops, _ in found[1:])


def test_attention_reads_half_precision_and_stays_one_group() -> None:
    found = steps_of(ATTENTION)
    assert [ops for ops, _ in found if ops.count("MatMul") and len(ops) > 1] == [
        ["Div", "Exp", "MatMul", "ReduceMax", "ReduceSum", "Sigmoid", "Sub"]
    ]
    assert [type for ops, type in found if ops == ["MatMul"]] == ["bf16[2,9,16]"] * 3
