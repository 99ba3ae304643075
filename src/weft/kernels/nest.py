"""Plain loop nests for whatever the other generators decline: always applicable.

The loops follow the output's order in memory, reductions stand outside all loops that they
do not depend on, and guards become bounds of loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.generator import Generator
from weft.kernels.task import Task
from weft.loops.definition import naive
from weft.loops.guards import guards_to_bounds
from weft.loops.nodes import For, LoopKind, Stmt
from weft.loops.simplify import simplify_kernel
from weft.plan.implementation import Implementation, Operand


class Everywhere(Mapping[str, str]):
    """Choices that name plain loops for every layer.

    They add up in the order of the definitions: whatever the shapes are, and whatever stands
    beside them.
    """

    def __getitem__(self, key: str) -> str:
        return "nest"

    def __iter__(self) -> Iterator[str]:
        return iter(("every layer",))

    def __len__(self) -> int:
        return 1


def propose(task: Task) -> tuple[Alternative, ...]:
    """These loops, whatever the task is."""
    return (Alternative("nest", math.inf, Sums("nest"), partial(generate, task), always),)


def generate(task: Task) -> Implementation:
    """The kernel of a task."""
    loops = naive(task.name, (task.compute,), task.inputs, (task.output,))
    kernel = simplify_kernel(guards_to_bounds(loops))
    kernel = replace(kernel, body=parallel(kernel.body))
    return Implementation(kernel, tuple(map(Operand, task.values)), "nest")


def parallel(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Marks the outermost loops: those over the output's axes, which nothing comes between.

    A loop of a reduction stands inside the ``Local`` of its accumulator.
    """
    match body:
        case (For() as loop,):
            return (replace(loop, body=parallel(loop.body), kind=LoopKind.PARALLEL),)
        case _:
            return body


GENERATOR = Generator(
    "nest",
    "Plain loops in the order of the definition, reductions outside of what does not "
    "depend on them.",
    ("nothing",),
    propose,
    any_threads=True,
)
