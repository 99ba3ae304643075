"""Who must make the operands of a node for a match to begin there, known without a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from weakref import WeakKeyDictionary

from weft.ir.graph import Node
from weft.match.program import NodeStep, QueryProgram, RefStep, SplitStep, Step
from weft.match.view import QueryableGraph

Makers: TypeAlias = tuple[tuple[int, frozenset[str]], ...]
"""Inputs, and the ops of which one makes each."""

_known: WeakKeyDictionary[QueryProgram, Mapping[str, list[Makers]] | None] = WeakKeyDictionary()


def may_match(program: QueryProgram, node: Node, view: QueryableGraph) -> bool:
    """Whether a match can begin at a node, as far as the makers of its operands tell."""
    if program not in _known:
        _known[program] = _ways(program.entry)
    ways = _known[program]
    if ways is None:
        return True
    made = [*ways.get(node.op, ()), *ways.get("*", ())]
    return any(all(_made(node, place, ops, view) for place, ops in each) for each in made)


def _made(node: Node, place: int, ops: frozenset[str], view: QueryableGraph) -> bool:
    maker = view.producers.get(node.inputs[place]) if place < len(node.inputs) else None
    return maker is not None and maker.op in ops


def _ways(entry: Step) -> Mapping[str, list[Makers]] | None:
    """For each op that a match begins at, what it needs; nothing if that cannot be said."""
    found: dict[str, list[Makers]] = {}
    for step in _options(entry):
        if not isinstance(step, NodeStep) or step.negated:
            return None
        operands = step.operands or () if step.ordered else ()
        each = ((place, _ops(operand)) for place, operand in enumerate(operands))
        needed = tuple((place, ops) for place, ops in each if ops is not None)
        for test in step.tests:
            found.setdefault(test.op, []).append(needed)
    return found


def _options(step: Step) -> Iterator[Step]:
    if isinstance(step, SplitStep):
        for each in step.options:
            yield from _options(each)
    else:
        yield step


def _ops(operand: Step) -> frozenset[str] | None:
    """The ops of which one makes an operand; nothing if others may do so, or nobody."""
    match operand:
        case RefStep():
            return _ops(operand.body)
        case SplitStep():
            known = [ops for each in operand.options if (ops := _ops(each)) is not None]
            return frozenset[str]().union(*known) if len(known) == len(operand.options) else None
        case NodeStep(negated=False, forward=False):
            ops = frozenset(test.op for test in operand.tests)
            return None if "*" in ops else ops
        case _:
            return None
