"""The generators, best first; the first that accepts a task makes its kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.errors import InternalError
from weft.ir.types import TensorType
from weft.kernels import nest, rows, tiled
from weft.kernels.prepare import prepare
from weft.kernels.task import Task
from weft.plan.group import Group
from weft.plan.implementation import Implement, Implementation
from weft.plan.strides import View
from weft.targets.target import Target

GENERATORS: tuple[tuple[str, Callable[[Task], Implementation | None]], ...] = (
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


def implementer(target: Target) -> Implement:
    """What makes kernels for a target."""

    def implement(
        name: str,
        group: Group,
        views: Mapping[str, View],
        types: Mapping[str, TensorType],
        constants: frozenset[str],
    ) -> Implementation:
        return generate(prepare(name, group, views, types, constants, target))

    return implement
