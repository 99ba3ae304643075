"""The generators, best first; the first that accepts a task makes its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.errors import InternalError
from weft.ir.types import TensorType
from weft.kernels import nest, rows, tiled, winograd_choice
from weft.kernels.prepare import prepare
from weft.kernels.task import Task
from weft.plan.group import Group
from weft.plan.implementation import Implement, Implementation
from weft.plan.strides import View
from weft.targets.target import Target

GENERATORS: tuple[tuple[str, Callable[[Task], Implementation | None]], ...] = (
    ("winograd", winograd_choice.generate),
    ("tiled", tiled.generate),
    ("rows", rows.generate),
    ("nest", nest.generate),
)


def generate(task: Task) -> Implementation:
    """The kernel of a task by the best generator that accepts it."""
    for _, generator in GENERATORS:
        made = generator(task)
        if made is not None:
            return made
    raise InternalError(f"no generator accepts {task.name}")


def implementer(target: Target, *, threads: int = 1, exact: bool = False) -> Implement:
    """What makes kernels for a target.

    Args:
        target: the machine.
        threads: that may run parts of a kernel at once.
        exact: leave out what rounds otherwise than the definition does, sums in another
            order apart.
    """

    def implement(
        name: str,
        group: Group,
        views: Mapping[str, View],
        types: Mapping[str, TensorType],
        constants: frozenset[str],
    ) -> Implementation:
        task = prepare(name, group, views, types, constants, target)
        return generate(replace(task, threads=threads, exact=exact))

    return implement
