"""Maps: every element of the output by itself, without a reduction.

Vectors run along the output's fastest axis; ``turned`` reads operands whose fastest axis is
another one.
"""

from __future__ import annotations

from functools import partial

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.elementwise.lanes import lanes_of
from weft.kernels.elementwise.passes import is_costly
from weft.kernels.elementwise.turned import across_of, joined_of, stored, turning
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import blocks_of
from weft.kernels.writer import nested, spans
from weft.loops.nodes import Kernel, LoopKind, Stmt
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import reduces
from weft.plan.implementation import Implementation, Operand

VECTORS = 4
"""Vectors in one round of a cheap loop."""


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """These loops, where they apply: nothing that computes the same reads memory better."""
    refusal = _refusal(task)
    if refusal is not None:
        return refusal
    return (Alternative("map", 0.0, Sums("map"), partial(generate, task), always),)


def _refusal(task: Task) -> Refusal | None:
    """Why vectors cannot run along the output."""
    if not task.compute.axes:
        return Refusal("the output is one element")
    if task.output.steps[-1] != 1:
        return Refusal("the output's fastest axis is not contiguous")
    if reduces(task.compute.value):
        return Refusal("something is reduced")
    if lanes_of(task.target, task.compute.value) == 1:
        return Refusal("the target has no vectors for its elements")
    return None


def generate(task: Task) -> Implementation | None:
    """The kernel of a task, or ``None`` where these loops do not apply."""
    if _refusal(task) is not None:
        return None
    lanes = lanes_of(task.target, task.compute.value)
    across = across_of(task, lanes)
    joined = joined_of(task, lanes) if across is None or across.axis.extent < lanes else None
    if joined is not None:
        task, across = joined
    body = turning(task, across, lanes) if across else _plain(task, lanes)
    kernel = simplify_kernel(Kernel(task.name, (*task.inputs, task.output), body))
    return Implementation(kernel, tuple(map(Operand, task.values)), "map")


def loops(task: Task) -> tuple[Stmt, ...] | None:
    """The loops of a task, which store to ``out``, or ``None`` where they do not apply."""
    if _refusal(task) is not None:
        return None
    lanes = lanes_of(task.target, task.compute.value)
    across = across_of(task, lanes)
    return turning(task, across, lanes) if across else _plain(task, lanes)


def _plain(task: Task, lanes: int) -> tuple[Stmt, ...]:
    """Loops over the output as it lies in memory."""
    *outer, last = task.compute.axes
    costly = is_costly(task.compute.value, frozenset((last.var,)))
    blocks = blocks_of(last.extent, lanes, 1 if costly else VECTORS)
    # Threads share perfect nests of loops only.
    kind = LoopKind.PARALLEL if len(blocks) == 1 or not outer else LoopKind.SERIAL
    inner = tuple(
        spans(blocks, lambda _, width, first: [stored(task, {last.var: first}, width)], kind)
    )
    return nested(outer, inner, LoopKind.PARALLEL)


GENERATOR = Generator(
    "map",
    "Vectors along the output's fastest axis; operands that lie across are turned in registers.",
    (
        "nothing is reduced",
        "the output's fastest axis is contiguous",
        "the target has vectors for all elements",
    ),
    propose,
    any_threads=True,
)
