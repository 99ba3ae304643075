"""What each step of a plan must write, and its figures, for toolkits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from weft.api.encoded import rounded
from weft.api.network import Network
from weft.dtypes import DType
from weft.export.golden import TestVector, tolerance
from weft.export.records import Provenance
from weft.export.steps import MOST_BYTES, WHOLE_BYTES, StepFigures, StepGolden, sampled
from weft.export.toolkit import Toolkit
from weft.ir.graph import Graph, Node
from weft.ops.evaluate import evaluate, evaluate_node
from weft.ops.inexact import inexact_values
from weft.ops.table import OPS
from weft.plan.instrument import value_address
from weft.plan.plan import Plan, PlannedStep
from weft.plan.program import Region
from weft.plan.report import Row
from weft.plan.stats import stats
from weft.plan.storage import REORDER
from weft.plan.traffic import traffic
from weft.runtime.emulators import emulated, machine_that_counts
from weft.runtime.identity import digest_graph

MOST_MACS = 100_000_000
"""Multiply-accumulates up to which every step is evaluated by the references: some seconds."""
_REGIONS = {Region.ARENA: "arena", Region.OUTPUT: "output", Region.STATE: "state"}
_HALVES = (DType.F16, DType.BF16)


def macs_of(plan: Plan) -> list[int]:
    """Multiply-accumulates of each step of a plan."""
    return [each.work.macs for each in traffic(plan, stats(plan.graph, OPS))]


def golden_steps(
    plan: Plan, inputs: Sequence[np.ndarray], precision: str = ""
) -> tuple[StepGolden, ...]:
    """What the steps of a plan must write, by the references.

    Args:
        plan: the plan.
        inputs: of the first run, without states, which are zeros.
        precision: of values between layers, which decides how far off they may be.
    """
    if sum(macs_of(plan)) > MOST_MACS:
        return ()
    given = iter(inputs)
    graph = rounded(plan.graph, plan)
    arrays = {
        name: np.zeros(plan.types[name].dims, plan.types[name].dtype.numpy)
        if name in plan.states
        else next(given)
        for name in graph.inputs
    }
    values = evaluate(graph, arrays, OPS, keep=True)
    written = [
        (number, step, value)
        for number, step in enumerate(plan.steps)
        for value in step.writes
        if plan.types[value].size and plan.types[value].dtype not in _HALVES
    ]
    for step in plan.steps:
        _evaluate_added(plan, step, values)
    whole = sum(plan.types[value].bytes for _, _, value in written)
    every = -(-whole // MOST_BYTES)
    return tuple(_golden(plan, *each, values, every, precision) for each in written)


def _evaluate_added(plan: Plan, step: PlannedStep, values: dict[str, np.ndarray]) -> None:
    """Values that the plan added to the graph, such as copies in another layout."""
    for node in step.nodes:
        if node.op == REORDER:
            values[node.outputs[0]] = values[node.inputs[0]]
        elif not all(value in values for value in node.outputs if value):
            values.update(evaluate_node(node, OPS[node.op], plan.types, values))
    for value in step.writes:
        if value not in values:  # a result of the last node under another name
            values[value] = values[step.nodes[-1].outputs[0]]


def _golden(
    plan: Plan,
    number: int,
    step: PlannedStep,
    value: str,
    values: dict[str, np.ndarray],
    every: int,
    precision: str,
) -> StepGolden:
    address, array = value_address(plan, value), values[value]
    every = 1 if array.nbytes <= WHOLE_BYTES else every
    # A result of the last node may have another name.
    names = (value, *step.nodes[-1].outputs)
    inexact = not inexact_values(step.nodes, plan.types, OPS).isdisjoint(names)
    return StepGolden(
        number,
        " + ".join(node.op for node in step.nodes),
        _REGIONS[address.region],
        address.name,
        address.offset,
        plan.types[value].dims,
        plan.views[value].strides,
        TestVector(sampled(array, every), tolerance(array, precision, inexact)),
        every,
    )


def figures(plan: Plan, rows: Sequence[Row]) -> tuple[StepFigures, ...]:
    """The steps of a plan in figures.

    Args:
        plan: the plan.
        rows: of its report.
    """
    return tuple(
        StepFigures(
            macs,
            sum(place.bytes for place in row.reads if place.region == Region.WEIGHTS.value),
            _cycles(step),
            tuple(dict.fromkeys(rule for node in step.nodes for rule in node.origin.rules)),
        )
        for macs, step, row in zip(macs_of(plan), plan.steps, rows, strict=True)
    )


def with_counts(toolkit: Toolkit) -> Toolkit:
    """A toolkit with the instructions of each step on its golden inputs, as QEMU counts them.

    Raises:
        UserError: QEMU does not emulate the target, or cannot count there.
    """
    machine = machine_that_counts(toolkit.target, "Leave out --count.")
    done = emulated(toolkit.files, [toolkit.golden.first_inputs], toolkit.target, steps=True)
    counts = [sum(each.values()) for each in done.steps[0]]
    found = zip(toolkit.figures, counts, strict=False)
    return replace(
        toolkit,
        figures=tuple(replace(each, instructions=count) for each, count in found),
        counted=f"QEMU, {' '.join(machine.command)} -O2",
    )


def provenance(net: Network, graph: Graph) -> Provenance:
    """Where a network comes from, with what was done to its graph until it was planned."""
    path = getattr(getattr(net, "origin", None), "path", "")
    content = sha256(Path(path).read_bytes()).hexdigest() if path else ""
    told = tuple((each.name, each.what) for each in graph.history)
    try:
        own = version("weft")
    except PackageNotFoundError:
        own = ""
    return Provenance(own, digest_graph(graph), content, told)


def port_scales(graph: Graph) -> dict[str, tuple[float, int]]:
    """What integers of inputs and outputs stand for: scale and zero point.

    They are those of what dequantizes an input and quantizes an output, maybe after or before
    nodes that leave the type of their one operand.

    Args:
        graph: as it was loaded.
    """
    reads = {name: node for node in reversed(graph.nodes) for name in node.inputs}
    found: dict[str, tuple[float, int]] = {}
    for ports, links, op, forward in (
        (graph.inputs, reads, "DequantizeLinear", True),
        (graph.outputs, graph.producers, "QuantizeLinear", False),
    ):
        for port in ports:
            node = links.get(port)
            while node is not None and node.op != op and _keeps_type(graph, node):
                node = links.get(node.outputs[0] if forward else node.inputs[0])
            scale = _scale_of(graph, node) if node is not None and node.op == op else None
            if scale is not None:
                found[port] = scale
    return found


def _keeps_type(graph: Graph, node: Node) -> bool:
    computed = [name for name in node.inputs if name and name not in graph.constants]
    made = [name for name in node.outputs if name]
    types = {graph.types[name].dtype for name in (*computed, *made)}
    return len(computed) == len(node.outputs) == len(types) == 1


def _scale_of(graph: Graph, node: Node) -> tuple[float, int] | None:
    scale, zero = (graph.constants.get(name) for name in (*node.inputs, "")[1:3])
    if scale is None or scale.size != 1 or (zero is not None and zero.size != 1):
        return None
    return float(scale.reshape(())), 0 if zero is None else int(zero.reshape(()))


def _cycles(step: PlannedStep) -> float:
    made = step.implementation
    choice = made.choice if made is not None else None
    offered = (
        (each for answer in choice.answers() for each in answer.alternatives) if choice else ()
    )
    return next((each.cycles or 0.0 for each in offered if each.chosen), 0.0)
