"""The alternatives for the layers of a plan, and why the other generators do not apply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from math import isfinite

from weft.kernels.alternatives import Alternative
from weft.kernels.refusal import Refusal
from weft.plan.choice import Answer, Offered
from weft.plan.fusion import Group
from weft.plan.plan import Plan
from weft.records import dataclass
from weft.screen import Screen, Shown


@dataclass(frozen=True, slots=True, repr=False)
class ExplainedLayer(Shown):
    """A group of nodes that one kernel computes, and its alternatives.

    Attributes:
        name: of the value that it makes.
        type: of that value.
        ops: of its nodes; nodes: their names; sources: those of the model.
        scheme: the alternative of the plan; ``extern`` for a C body, ``scan`` for a nested
            plan, ``bands-...`` or ``pooled`` where the layer runs together with others; reason:
            for it, where there was a choice.
        answers: of the generators, in their order; none where there are no loops to choose.
    """

    name: str
    type: str
    ops: tuple[str, ...]
    nodes: tuple[str, ...]
    sources: tuple[str, ...]
    scheme: str
    reason: str
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


def answers(
    proposed: Iterable[tuple[str, tuple[Alternative, ...] | Refusal]],
    scheme: str,
    micros: Mapping[str, float],
) -> tuple[Answer, ...]:
    """What all generators offer for a task.

    Args:
        proposed: by each of them.
        scheme: the alternative that was chosen.
        micros: measured microseconds by alternative.
    """
    found: list[Answer] = []
    for name, each in proposed:
        if isinstance(each, Refusal):
            found.append(Answer(name, each.reason, ()))
            continue
        alternatives = tuple(
            Offered(
                one.name,
                one.cost if isfinite(one.cost) else None,
                "-".join(map(str, (one.sums.loops, *one.sums.sizes))),
                one.name == scheme or (one.allowed and one.applies()),
                one.name == scheme,
                micros.get(one.name),
                one.error,
            )
            for one in sorted(each, key=lambda one: one.cost)
        )
        applicable = any(one.applies for one in alternatives)
        refusal = "" if applicable else "its loops do not apply"
        found.append(Answer(name, refusal, alternatives if applicable else ()))
    return tuple(found)


def layers_of(plan: Plan, node: str = "") -> list[ExplainedLayer]:
    """The layers of a plan in order of execution, with the alternatives for each.

    Those of a loop's body follow the loop.

    Args:
        plan: of a network.
        node: only layers that this node, of the graph or of its source, is in.
    """
    found: list[ExplainedLayer] = []
    for step in plan.steps:
        made, stages = step.implementation, step.stages
        for work, each in stages or ((step.work, made),):
            nodes = work.nodes if isinstance(work, Group) else step.nodes
            name = work.value if isinstance(work, Group) else step.writes[0]
            layer = ExplainedLayer(
                name=name,
                type=str(plan.types[name]),
                ops=tuple(each.op for each in nodes),
                nodes=tuple(each.name for each in nodes),
                sources=tuple(
                    dict.fromkeys(name for each in nodes for name in each.origin.sources)
                ),
                scheme=step.scheme,
                reason=step.reason.value if step.reason else "",
                answers=(),
            )
            if not node or layer.named(node):
                choice = each.choice if each is not None else None
                found.append(replace(layer, answers=choice.answers()) if choice else layer)
        found += layers_of(step.nested, node) if step.nested else []
    return found
