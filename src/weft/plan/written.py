"""A plan as data: what its text says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from weft.ir.graph import Node
from weft.ir.printer import architecture, attribute_text
from weft.ir.types import TensorType
from weft.loops.shapes import row_major
from weft.plan.choice import Answer
from weft.plan.implementation import Implementation
from weft.plan.program import Region
from weft.plan.storage import Root
from weft.plan.strides import View
from weft.plan.text import BodyText, PlanText, StepText, ValueText
from weft.targets.target import Target

if TYPE_CHECKING:
    from weft.plan.plan import Plan

_NO_FACTS = frozenset({"name", "doc", "flags"})


def facts_of(target: Target) -> Mapping[str, str]:
    """What of a target decides about plans and C, as text by name."""
    return {
        each.name: attribute_text(getattr(target, each.name))
        for each in fields(Target)
        if each.name not in _NO_FACTS
    }


def written(plan: Plan, *, alternatives: bool = True) -> PlanText:
    """What the text of a plan says.

    Args:
        plan: of a network.
        alternatives: list them and the refusals, for which all generators are asked.
    """
    target = plan.target
    return PlanText(
        plan.graph.name,
        architecture(plan.graph),
        target.name if target else "",
        facts_of(target) if target else {},
        plan.threads,
        plan.constraints,
        _body(plan, alternatives),
    )


def _body(plan: Plan, alternatives: bool) -> BodyText:
    return BodyText(
        tuple(values_text(plan.views, plan.roots, plan.types, plan.offsets)),
        tuple(_step(plan, number, alternatives) for number in range(len(plan.steps))),
        plan.arena_bytes,
        plan.lower_bound,
        plan.method,
    )


def values_text(
    views: Mapping[str, View],
    roots: Mapping[str, Root],
    types: Mapping[str, TensorType],
    offsets: Mapping[str, int],
) -> Iterator[ValueText]:
    """Where values lie: their views, the memory there is, and offsets in the arena."""
    for name, view in views.items():
        type, root = types[name], roots[view.root]
        strides = () if view.strides == row_major(type.dims) else view.strides
        value = ValueText(name, str(type), strides=strides)
        if view.root != name:
            yield replace(value, within=view.root, offset=view.offset * type.dtype.bytes)
        elif root.region is Region.ARENA:
            offset = offsets.get(name, 0)
            yield replace(value, region="arena", offset=offset, bytes=root.bytes)
        else:
            yield replace(value, region=root.region.value)


def _step(plan: Plan, number: int, alternatives: bool) -> StepText:
    step = plan.steps[number]
    found = layer_text(step.nodes, step.reads, step.writes, step.implementation, alternatives)
    stages = tuple(
        layer_text(group.nodes, group.reads, (group.value,), made, alternatives)
        for group, made in step.stages
    )
    return replace(
        found,
        kernel=step.scheme,
        reason=step.reason,
        in_place=step.in_place,
        scratch=step.scratch,
        scratch_offset=plan.scratch.get(number, 0),
        stages=stages,
        body=_body(step.nested, alternatives) if step.nested else None,
    )


def layer_text(
    nodes: tuple[Node, ...],
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    made: Implementation | None,
    alternatives: bool,
) -> StepText:
    """What one kernel computes, and why it is this one."""
    choice = made.choice if made is not None else None
    return StepText(
        writes,
        tuple(node.op for node in nodes),
        tuple(dict.fromkeys(reads)),
        made.scheme if made is not None else "",
        choice.reason if choice else None,
        answers=tuple(map(_rounded, choice.answers())) if choice and alternatives else (),
    )


def _rounded(answer: Answer) -> Answer:
    """With figures as precise as the text has them."""
    offered = tuple(
        replace(
            each,
            cycles=None if each.cycles is None else float(round(each.cycles)),
            micros=None if each.micros is None else round(each.micros, 3),
        )
        for each in answer.alternatives
    )
    return replace(answer, alternatives=offered)
