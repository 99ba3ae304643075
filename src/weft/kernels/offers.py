"""All that could compute the layers of a network: alternatives, and refusals with reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite

from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.kernels.descriptions import DESCRIPTIONS
from weft.kernels.libraries import LIBRARIES, checked
from weft.kernels.prepare import prepare
from weft.kernels.table import implementer, proposals
from weft.kernels.task import Task
from weft.ops.record import Op
from weft.plan.group import Group
from weft.plan.implementation import Constants, Implementation
from weft.plan.plan import Plan, make
from weft.plan.strides import View
from weft.screen import Screen, Shown
from weft.targets.target import Target


@dataclass(frozen=True, slots=True)
class Offered:
    """An alternative of a generator.

    Attributes:
        name: of the alternative.
        cycles: about how many it takes on one core; nothing where nobody knows.
        sums: the order in which it adds up: alternatives with equal ones give the same bits.
        applies: whether its loops turn out to apply.
        chosen: whether it is the one of the plan.
    """

    name: str
    cycles: float | None
    sums: str
    applies: bool
    chosen: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What one generator says to a layer.

    Attributes:
        generator: its name.
        refusal: why it offers nothing; nothing if it does.
        alternatives: what it offers, those first that look best.
    """

    generator: str
    refusal: str
    alternatives: tuple[Offered, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Layer(Shown):
    """A group of nodes that one kernel computes, and who could.

    Attributes:
        name: of the value that it makes.
        type: of that value.
        ops: of its nodes; nodes: their names; sources: those of the model.
        scheme: the alternative of the plan; ``extern`` for a C body, ``scan`` for a nested
            plan, ``bands-...`` where the layer runs together with others.
        answers: of the generators, in their order; none where there are no loops to choose.
    """

    name: str
    type: str
    ops: tuple[str, ...]
    nodes: tuple[str, ...]
    sources: tuple[str, ...]
    scheme: str
    answers: tuple[Answer, ...]

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        ops = " + ".join(self.ops)
        rows = [
            (each.generator, ", ".join(a.name for a in each.alternatives), each.refusal)
            for each in self.answers
        ]
        title = f"Layer {self.name} {self.type}: {ops} by {self.scheme}"
        return Screen(title, (), ("generator", "alternatives", "refusal"), rows)

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return asdict(self)

    def named(self, node: str) -> bool:
        """Whether a node of the graph, or of the model that it came from, is in it."""
        return node in self.nodes or node in self.sources


def answers(task: Task, scheme: str) -> tuple[Answer, ...]:
    """What all generators say to a task.

    Args:
        task: from ``prepare``.
        scheme: the alternative that was chosen.
    """
    found: list[Answer] = []
    for name, proposed in proposals(task):
        described = LIBRARIES[name].described if name in task.libraries else DESCRIPTIONS.get(name)
        refusal = described.why_not(task) if described else ""
        alternatives = tuple(
            Offered(
                each.name,
                each.cost if isfinite(each.cost) else None,
                "-".join(map(str, (each.sums.loops, *each.sums.sizes))),
                each.applies(),
                each.name == scheme,
            )
            for each in sorted(proposed, key=lambda each: each.cost)
        )
        applicable = any(each.applies for each in alternatives)
        if not applicable and not refusal:
            refusal = "its loops do not apply"
        found.append(Answer(name, refusal, alternatives if applicable else ()))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Observed:
    """A task and the alternative that it got."""

    task: Task
    scheme: str


def layers_of(
    graph: Graph,
    ops: Mapping[str, Op],
    target: Target,
    plan: Plan,
    *,
    threads: int = 1,
    exact: bool = False,
    node: str = "",
    libraries: Sequence[str] = (),
) -> list[Layer]:
    """The layers of a graph in order of execution, and who could compute each.

    Args:
        graph: static and without composite ops.
        ops: the op table.
        target: the machine.
        plan: of the graph for this target.
        threads: that may run parts of a kernel at once.
        exact: leave out what rounds otherwise than the definitions.
        node: only layers that this node, of the graph or of its source, is in.
        libraries: whose functions are alternatives, too.
    """
    observed: dict[str, _Observed] = {}
    allowed = checked(libraries)
    usual = implementer(target, threads=threads, exact=exact, libraries=allowed)

    def implement(
        name: str,
        group: Group,
        views: Mapping[str, View],
        types: Mapping[str, TensorType],
        constants: Constants,
    ) -> Implementation:
        made = usual(name, group, views, types, constants)
        task = prepare(name, group, views, types, constants, target)
        task = replace(task, threads=threads, exact=exact, libraries=allowed)
        observed[group.value] = _Observed(task, made.scheme)
        return made

    # Layers that run by bands of rows have tasks of their own only where they do not.
    apart = make(graph, ops, implement, threads, spread=bool(target.caches))
    together = _schemes(plan)
    found: list[Layer] = []
    for step in apart.steps:
        nodes = step.work.nodes if isinstance(step.work, Group) else (step.work.node,)
        seen = observed.get(step.work.value) if isinstance(step.work, Group) else None
        own = seen.scheme if seen else ("extern" if step.nested is None else "scan")
        layer = Layer(
            name=step.writes[0],
            type=str(apart.types[step.writes[0]]),
            ops=tuple(each.op for each in nodes),
            nodes=tuple(each.name for each in nodes),
            sources=tuple(dict.fromkeys(name for each in nodes for name in each.origin.sources)),
            scheme=together.get(step.writes[0], own),
            answers=(),
        )
        if node and not layer.named(node):
            continue
        found.append(replace(layer, answers=answers(seen.task, own)) if seen else layer)
    return found


def _schemes(plan: Plan) -> dict[str, str]:
    """What makes each value, also those that never leave a chain."""
    return {
        group.value: step.implementation.scheme
        for step in plan.steps
        if step.implementation is not None and isinstance(step.work, Group)
        for group in (step.work, *step.work.stages)
    }
