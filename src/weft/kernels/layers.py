"""The layers of a plan that kernels were chosen for."""

from __future__ import annotations

from dataclasses import replace

from weft.kernels.key import layer_key
from weft.kernels.selection import TaskChoice
from weft.kernels.task import Task
from weft.plan.comments import describe
from weft.plan.fusion import Group
from weft.plan.plan import Plan
from weft.records import dataclass


@dataclass(frozen=True)
class Layer:
    """Steps of a plan that the same kernel computes, each on its own data.

    Attributes:
        key: see ``layer_key``.
        task: of the first of them.
        what: operations and shapes of the first of them.
        values: that they make.
        scheme: the alternative that the plan has.
    """

    key: str
    task: Task
    what: str
    values: tuple[str, ...]
    scheme: str


def layers_of(plan: Plan) -> tuple[Layer, ...]:
    """The distinct layers of a plan, but for fused chains and those inside of loops over time."""
    found: dict[str, Layer] = {}
    for step in plan.steps:
        group, made = step.work, step.implementation
        choice = made.choice if made is not None else None
        if not isinstance(group, Group) or not isinstance(choice, TaskChoice):
            continue
        key = layer_key(choice.task)
        layer = found.get(key)
        if layer is None:
            what = describe(group, plan.types)
            found[key] = Layer(key, choice.task, what, (group.value,), step.scheme)
        else:
            found[key] = replace(layer, values=(*layer.values, group.value))
    return tuple(found.values())
