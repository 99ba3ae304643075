"""On chips, what kernels keep beside their operands lies in the arena."""

from __future__ import annotations

from math import prod

import pytest

from tests.rewrite.checks import graph_of
from weft.api import Net
from weft.loops.nodes import Buffer, Local
from weft.loops.statements import walk_stmts
from weft.plan.parse import parse
from weft.plan.plan import Plan
from weft.targets.find import target

GRAPH = """(%x: i8[1,8,12,12]) -> (%y) {
  const %s: f32[] = [0.0625]
  const %z: i8[] = [-128]
  const %n: i8[] = [0]
  const %w: i8[16,8,3,3]
  const %v: i8[16,1,3,3]
  %c: i8[1,16,12,12] = QLinearConv(%x, %s, %z, %w, %s, %n, %s, %z) {pads=(1,1,1,1)}
  %y: i8[1,16,12,12] = QLinearConv(%c, %s, %z, %v, %s, %n, %s, %z) {groups=16, pads=(1,1,1,1)}
}"""


def locals_of(plan: Plan) -> list[Buffer]:
    kernels = [step.implementation.kernel for step in plan.steps if step.implementation]
    stmts = [each for kernel in kernels if kernel for each in walk_stmts(kernel.body)]
    return [each.buffer for each in stmts if isinstance(each, Local)]


@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m55", "rv32imc"])
def test_buffers_of_kernels_lie_in_the_arena(name: str):
    net = Net(graph_of(GRAPH))
    limit = target(name).stack_limit
    assert limit == 128
    plan = net.plan(name)
    assert all(prod(each.shape) * each.dtype.bytes < limit for each in locals_of(plan))
    # The text gives the same plan.
    again = net.plan(plan=parse(str(plan)))
    assert [step.scratch for step in again.steps] == [step.scratch for step in plan.steps]


def test_a_patch_has_memory_in_the_arena():
    plan = Net(graph_of(GRAPH)).plan("cortex-m4")
    assert any(step.scratch for step in plan.steps)
    assert plan.arena_bytes == plan.lower_bound
