"""Plain loop nests for whatever the other generators decline: always applicable.

The loops follow the output's order in memory, reductions stand outside all loops that they
do not depend on, and guards become bounds of loops.
"""

from __future__ import annotations

from weft.kernels.task import Task
from weft.loops.definition import naive
from weft.loops.guards import guards_to_bounds
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation, Operand


def generate(task: Task) -> Implementation:
    """The kernel of a task."""
    loops = naive(task.name, (task.compute,), task.inputs, (task.output,))
    kernel = simplify_kernel(guards_to_bounds(loops))
    return Implementation(kernel, tuple(map(Operand, task.values)), "nest")
