"""Run graphs through the plan and the loop interpreter, next to the references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.ir.graph import Graph
from weft.kernels.selection import implementer
from weft.loops.nodes import Buffer, Kernel
from weft.loops.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.interpret import run
from weft.plan.make import make
from weft.plan.plan import Plan
from weft.plan.program import Address, Program, ProgramStep, Repeat
from weft.plan.to_program import lower
from weft.targets.find import target


def plan_of(graph: Graph, machine: str = "x86-avx512") -> Plan:
    """The plan of a graph for a target."""
    found = target(machine)
    return make(expand(graph, OPS), OPS, implementer(found), spread=bool(found.caches))


def program_of(graph: Graph, machine: str = "x86-avx512") -> Program:
    """The program of a graph; every kernel is verified."""
    program = lower(plan_of(graph, machine))
    for function in program.functions:
        if isinstance(function, Kernel):
            verify(function)
    assert_apart(program, program.steps)
    return program


def assert_apart(program: Program, steps: Sequence[ProgramStep]) -> None:
    """No call reads what it writes: the compiler is told so."""
    kernels = {each.name: each for each in program.functions if isinstance(each, Kernel)}
    for step in steps:
        if isinstance(step, Repeat):
            assert_apart(program, step.body)
        elif step.function in kernels:
            *inputs, output = zip(kernels[step.function].params, step.arguments, strict=True)
            written = touched(*output)
            for each in inputs:
                assert (each[1].region, each[1].name) != (output[1].region, output[1].name) or not (
                    written & touched(*each)
                ), f"{step.function} reads {each[0].name} where it writes"


def touched(buffer: Buffer, address: Address) -> set[int]:
    """The bytes at which the elements of an argument begin."""
    places = np.full((), address.offset)
    for extent, step in zip(buffer.shape, buffer.steps, strict=True):
        places = np.add.outer(places, np.arange(extent) * step * buffer.dtype.bytes)
    return set(places.ravel().tolist())


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
