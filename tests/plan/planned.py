"""Run graphs through the plan and the loop interpreter, next to the references."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.ir.graph import Graph
from weft.kernels.table import implementer
from weft.loops.nodes import Kernel
from weft.loops.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.interpret import run
from weft.plan.lower import lower
from weft.plan.plan import Plan, make
from weft.plan.program import Program
from weft.targets.table import target


def plan_of(graph: Graph, machine: str = "x86-avx512") -> Plan:
    """The plan of a graph for a target."""
    return make(expand(graph, OPS), OPS, implementer(target(machine)))


def program_of(graph: Graph, machine: str = "x86-avx512") -> Program:
    """The program of a graph; every kernel is verified."""
    program = lower(plan_of(graph, machine))
    for function in program.functions:
        if isinstance(function, Kernel):
            verify(function)
    return program


def assert_planned(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    machine: str = "x86-avx512",
    tolerance: float = 1e-5,
) -> Program:
    """The interpreted program agrees with the references; the tolerance is of the range."""
    program = program_of(graph, machine)
    found = run(program, inputs)
    with np.errstate(all="ignore"):
        wanted = evaluate(graph, inputs, OPS)
    for port, name in zip(program.outputs, graph.outputs, strict=True):
        got, want = found[port.name], wanted[name]
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind in "biu":
            assert (got == want).all()
            continue
        finite = np.abs(want[np.isfinite(want)].astype(np.float64))
        scale = max(1.0, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(
            got.astype(np.float64), want.astype(np.float64), rtol=0, atol=tolerance * scale
        )
    return program
