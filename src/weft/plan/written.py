"""Values and kernels of a plan as data: what its text says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from weft.ir.graph import Node
from weft.ir.printer import attribute_text
from weft.ir.types import TensorType
from weft.loops.shapes import row_major
from weft.plan.choice import Answer
from weft.plan.implementation import Constants, Encoded, Implementation
from weft.plan.program import Arena, Region, located
from weft.plan.storage import Root
from weft.plan.strides import StridedView
from weft.plan.text import EncodingText, StepText, ValueText
from weft.targets.target import Target

_NO_FACTS = frozenset({"name", "doc", "flags"})


def facts_of(target: Target) -> Mapping[str, str]:
    """What of a target decides about plans and C, as text by name."""
    return {
        each.name: attribute_text(getattr(target, each.name))
        for each in fields(Target)
        if each.name not in _NO_FACTS
    }


def values_text(
    views: Mapping[str, StridedView],
    roots: Mapping[str, Root],
    types: Mapping[str, TensorType],
    offsets: Mapping[str, int],
    arenas: Sequence[Arena] = (),
) -> Iterator[ValueText]:
    """Where values lie: their views, the memory there is, and offsets in the arena."""
    for name, view in views.items():
        type, root = types[name], roots[view.root]
        strides = () if view.strides == row_major(type.dims) else view.strides
        value = ValueText(name, str(type), strides=strides)
        if view.root != name:
            yield replace(value, within=view.root, offset=view.offset * type.dtype.bytes)
        elif root.region is Region.ARENA:
            arena, offset = located(arenas, offsets.get(name, 0))
            yield replace(value, region="arena", arena=arena, offset=offset, bytes=root.bytes)
        else:
            yield replace(value, region=root.region.value)


def layer_text(
    nodes: tuple[Node, ...],
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    made: Implementation | None,
    alternatives: bool,
    constants: Constants,
) -> StepText:
    """What one kernel computes, and why it is this one."""
    choice = made.choice if made is not None else None
    return StepText(
        writes,
        tuple(node.op for node in nodes),
        tuple(dict.fromkeys(reads)),
        made.scheme if made is not None else "",
        choice.reason if choice else None,
        encodings=encodings_of(made, constants),
        answers=tuple(map(_rounded, choice.answers())) if choice and alternatives else (),
    )


def encodings_of(made: Implementation | None, constants: Constants) -> tuple[EncodingText, ...]:
    """How the weights of a kernel are stored; errors in three digits."""
    found: dict[str, list[Encoded]] = {}
    for operand in made.operands if made is not None else ():
        if isinstance(operand.packing, Encoded):
            found.setdefault(operand.value, []).append(operand.packing)
    return tuple(
        EncodingText(
            value,
            parts[0].encoding.name,
            sum(each.stored.bytes for each in parts),
            float(f"{parts[0].error(constants[value]):.3g}"),
        )
        for value, parts in found.items()
    )


def _rounded(answer: Answer) -> Answer:
    """With figures as precise as the text has them."""
    offered = tuple(
        replace(
            each,
            cycles=None if each.cycles is None else float(round(each.cycles)),
            micros=None if each.micros is None else round(each.micros, 3),
            error=float(f"{each.error:.2g}"),
        )
        for each in answer.alternatives
    )
    return replace(answer, alternatives=offered)
