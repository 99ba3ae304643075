"""Rows: reductions along, or across, a contiguous axis, and what is computed from them.

Where the reduced axis is contiguous, vectors run along it and are folded at the end; where
the output's fastest axis tells rows apart, each lane has a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.elementwise import lane_rows, long_row, vector_rows
from weft.kernels.elementwise.passes import Rows, rows_of
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.nodes import Kernel, Stmt
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation, Operand


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """These loops, where they apply and gain something."""
    rows = rows_of(task)
    if isinstance(rows, Refusal):
        return rows
    if not _gains(rows):
        return Refusal(
            "the target has no vectors for its elements, and a pass keeps nothing for another"
        )
    loops = _loops(rows)
    if loops is None:
        return Refusal("neither its rows nor their elements are contiguous")
    return (Alternative("rows", math.inf, Sums("rows"), partial(_write, rows, loops), always),)


def _write(rows: Rows, loops: Callable[[Rows], tuple[Stmt, ...]]) -> Implementation:
    task = rows.task
    kernel = simplify_kernel(Kernel(task.name, (*task.inputs, task.output), loops(rows)))
    return Implementation(kernel, tuple(map(Operand, task.values)), "rows")


def _gains(rows: Rows) -> bool:
    """Whether there are vectors, or something is computed once that would be computed twice."""
    return rows.task.target.lanes(rows.task.output.dtype) > 1 or rows.held is not None


def _loops(rows: Rows) -> Callable[[Rows], tuple[Stmt, ...]] | None:
    """What writes the loops, if anything can."""
    if long_row.applies(rows):
        return long_row.body
    if lane_rows.applies(rows):
        return lane_rows.body
    if vector_rows.applies(rows):
        return vector_rows.body
    return None


GENERATOR = Generator(
    "rows",
    "Reductions along or across a contiguous axis and what is computed from them, such "
    "as softmax and norms; what one pass computes is held for the next.",
    (
        "all reductions run over a common row, which is not empty",
        "no condition guards what they read",
        "the row or the output's fastest axis is contiguous",
        "the target has vectors, or a pass keeps something for another",
    ),
    propose,
    any_threads=True,
)
