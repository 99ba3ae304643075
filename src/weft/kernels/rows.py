"""Rows: reductions along, or across, a contiguous axis, and what is computed from them.

Where the reduced axis is contiguous, vectors run along it and are folded at the end; where
the output's fastest axis tells rows apart, each lane has a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.kernels import lane_rows, vector_rows
from weft.kernels.passes import Rows, rows_or_why, take_apart
from weft.kernels.task import Task
from weft.loops.nodes import Kernel, Stmt
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation, Operand


def generate(task: Task) -> Implementation | None:
    """The kernel of a task, or ``None`` where these loops do not apply or gain nothing."""
    rows = take_apart(task)
    loops = _loops(rows) if rows else None
    if rows is None or loops is None:
        return None
    kernel = simplify_kernel(Kernel(task.name, (*task.inputs, task.output), loops(rows)))
    return Implementation(kernel, tuple(map(Operand, task.values)), "rows")


def applies(task: Task) -> bool:
    """Whether there is a kernel for a task."""
    rows = take_apart(task)
    return rows is not None and _loops(rows) is not None


def why_not(task: Task) -> str:
    """Why there is no kernel for a task; nothing if there is one."""
    rows = rows_or_why(task)
    if isinstance(rows, str):
        return rows
    if not _gains(rows):
        return "the target has no vectors for its elements, and a pass keeps nothing for another"
    return "" if _loops(rows) else "neither its rows nor their elements are contiguous"


def _gains(rows: Rows) -> bool:
    """Whether there are vectors, or something is computed once that would be computed twice."""
    return rows.task.target.lanes(rows.task.output.dtype) > 1 or rows.held is not None


def _loops(rows: Rows) -> Callable[[Rows], tuple[Stmt, ...]] | None:
    """What writes the loops, if anything can and is worth it."""
    if not _gains(rows):
        return None
    if lane_rows.applies(rows):
        return lane_rows.body
    if vector_rows.applies(rows):
        return vector_rows.body
    return None
