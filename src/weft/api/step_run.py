"""Compiled code compared step by step: which step introduces an error, which inherits it.

The accumulated error of a value is its difference from what an oracle computes from the network's
inputs.  The own error of a step is the difference of its result from what the references of its
ops make of the values that it read itself: that of a fused group, of all its nodes together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias, Unpack, cast

import numpy as np

from weft.api.encoded import rounded
from weft.api.named import arranged
from weft.api.network import Network, bound, free_inputs
from weft.api.planned import made_plan
from weft.api.streams import arrays_of
from weft.ir.graph import Graph
from weft.loops.python_arithmetic import HALVES
from weft.ops.evaluate import evaluate, evaluate_in_double, evaluate_node
from weft.ops.table import OPS
from weft.options import Options, PlanKeywords, chosen
from weft.plan.instrument import tap
from weft.plan.plan import Plan, PlannedStep
from weft.plan.storage import REORDER
from weft.plan.to_program import lower
from weft.records import dataclass
from weft.reporting import announce
from weft.rewrite.layout import first_of
from weft.runtime.build import build
from weft.runtime.compare import Difference, compare, compare_all
from weft.targets.target import Target

Oracle: TypeAlias = Callable[[Mapping[str, np.ndarray], Collection[str]], Mapping[str, np.ndarray]]
"""``oracle(inputs, values)``: what those of the values that it knows should be."""


@dataclass(frozen=True)
class StepRun:
    """One run of a network, with the result of every step.

    Attributes:
        graph: of the network.
        plan: that was run.
        inputs: by name.
        expected: what an oracle makes of the inputs.
        found: what the network made of them, by the names of the network.
        made: what steps wrote, by the names of the plan.
        names: of values of the plan that the network knows by another name.
    """

    graph: Graph
    plan: Plan
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    found: Mapping[str, np.ndarray]
    made: Mapping[str, np.ndarray]
    names: Mapping[str, str]

    def accumulated(self) -> list[Difference]:
        """The outputs, then what steps make in order of execution, as far as the oracle knows.

        Values that have lost constant channels are no longer what they are called.
        """
        types = self.graph.types
        same = {
            name: array
            for name, array in self.found.items()
            if name not in types or types[name].dims == array.shape
        }
        return compare_all(same, self.expected)

    def own(self) -> list[Difference]:
        """The own error of every step, by what it makes, in order of execution."""
        graph = rounded(self.plan.graph, self.plan)
        given = {**graph.constants, **self.inputs}
        expected: dict[str, np.ndarray] = {}
        for step in self.plan.steps:
            expected |= _of_step(self.plan, graph, step, {**given, **self.made})
        # Outputs may be views of what steps wrote.
        for value in graph.outputs:
            if value not in given:
                expected[value] = _read(self.plan, graph, value, {**given, **expected})
        found: dict[str, Difference] = {}
        for value, array in expected.items():
            if value in self.made:
                each = compare(self.names.get(value, value), self.made[value], array)
                # Of a value that is also copied into another layout, what computed it.
                known = found.get(each.value)
                if known is None or each.relative > known.relative:
                    found[each.value] = each
        return list(found.values())

    def from_double(self) -> tuple[list[Difference], list[Difference]]:
        """How far the oracle, and the network, are from the references in double precision."""
        exact = evaluate_in_double(self.graph, self.inputs, OPS)
        both = {name: exact[name] for name in self.expected if name in exact and name in self.found}
        return (
            compare_all({name: _like(self.expected[name], both[name]) for name in both}, both),
            compare_all({name: _like(self.found[name], both[name]) for name in both}, both),
        )


def _like(array: np.ndarray, exact: np.ndarray) -> np.ndarray:
    return array.astype(exact.dtype)


def _of_step(
    plan: Plan, graph: Graph, step: PlannedStep, known: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the references make of what a step read."""
    values: dict[str, np.ndarray] = {}
    for node in step.nodes:
        for name in node.inputs:
            if name and name not in values:
                values[name] = _read(plan, graph, name, known)
        if node.op == REORDER:
            values[node.outputs[0]] = values[node.inputs[0]]
        else:
            values.update(evaluate_node(node, OPS[node.op], plan.types, values))
    # A result of the last node may have another name.
    last = step.nodes[-1].outputs[0]
    return {value: values[value if value in values else last] for value in step.writes}


def _read(plan: Plan, graph: Graph, name: str, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """A value that a step read: a step wrote it, or it is a view of such a value."""
    if name in known:
        return known[name]
    node = graph.producers[name]
    values = {each: _read(plan, graph, each, known) for each in node.inputs if each}
    return evaluate_node(node, OPS[node.op], plan.types, values)[name]


def verify(
    net: Network,
    *inputs: np.ndarray | Mapping[str, np.ndarray],
    oracle: Oracle | None = None,
    options: Options | None = None,
    **keywords: Unpack[PlanKeywords],
) -> list[Difference]:
    """Runs the net on this machine and compares what every step makes.

    The steps are those of ``compile``, with copies of their results in between.

    Args:
        inputs: in order, or one mapping by the inputs' names.
        oracle: what to compare with; by default the ops' references.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.

    Returns:
        The outputs, then what steps make in order of execution, as far as the
        oracle knows it.
    """
    return run_steps(net, *inputs, oracle=oracle, options=options, **keywords).accumulated()


def run_steps(
    net: Network,
    *inputs: np.ndarray | Mapping[str, np.ndarray],
    oracle: Oracle | None = None,
    options: Options | None = None,
    **keywords: Unpack[PlanKeywords],
) -> StepRun:
    """Runs the net on this machine and keeps what every step makes.

    Args:
        inputs: in order, or one mapping by the inputs' names.
        oracle: what to compare with; by default the ops' references.
        options: see ``weft.Options``, as for the keywords.
        keywords: options.

    Returns:
        What gives the accumulated errors, the own error of each step, and how far both sides are
        from double precision.
    """
    asked = replace(chosen(PlanKeywords, options, keywords), parameters=())
    net = bound(net)
    arrays = arranged(net.graph.name, "input", net.graph.inputs, inputs, {})
    plan = made_plan(net, asked)
    exact = _rounded(plan)
    written = [value for step in plan.steps for value in step.writes]
    values = dict.fromkeys(exact.get(value, value) for value in written)
    named = dict(zip(net.graph.inputs, arrays, strict=True))
    announce("computing what is expected")
    images = first_of(net.graph, values)
    known = [images.get(value, value) for value in values]
    expected = (oracle or partial(_reference, net.graph))(named, [*net.graph.outputs, *known])
    tapped = tap(plan, lower(plan, net.graph.name), written)
    dialect = asked.flavour or plan.constraints.flavour or cast(Target, plan.target).flavour
    library = build(tapped.program, dialect)
    announce("running and comparing")
    state = library.new_state() if net.states else None
    held = arrays_of(tapped.program.states, state) if state else {}
    for name, array in held.items():
        array[...] = named[name]
    outputs = library(*(named[each] for each in free_inputs(net)), state=state)
    handed = {each.output: held[each.port.name] for each in tapped.program.states}
    made = tapped.named(outputs)
    found: dict[str, np.ndarray] = {}
    names: dict[str, str] = {}
    for value, array in made.items():
        name = exact.get(value, value)
        array = array.astype(np.float32) if value in exact else array
        names[value] = images.get(name, name)
        found[names[value]] = np.moveaxis(array, 1, -1) if name in images else array
    return StepRun(net.graph, plan, named, expected, {**found, **handed}, made, names)


def _rounded(plan: Plan) -> dict[str, str]:
    """By value that is stored in another precision what it is rounded from."""
    if not plan.constraints.precision:
        return {}
    makers = {value: node for node in plan.graph.nodes for value in node.outputs}
    written = {value for step in plan.steps for value in step.writes if value in makers}
    return {
        value: makers[value].inputs[0]
        for value in written
        if makers[value].op == "Cast" and plan.types[value].dtype in HALVES
    }


def _reference(
    graph: Graph, inputs: Mapping[str, np.ndarray], values: Collection[str]
) -> Mapping[str, np.ndarray]:
    found = evaluate(graph, inputs, OPS, keep=True)
    return {name: found[name] for name in values if name in found}
