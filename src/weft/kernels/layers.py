"""The layers of a plan that kernels were chosen for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.kernels.key import layer_key
from weft.kernels.libraries import checked
from weft.kernels.prepare import prepare
from weft.kernels.task import Task
from weft.plan.group import Group
from weft.plan.lower import describe
from weft.plan.plan import Plan
from weft.targets.target import Target


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


def layers_of(
    plan: Plan, target: Target, *, exact: bool = False, libraries: Sequence[str] = ()
) -> tuple[Layer, ...]:
    """The distinct layers of a plan, but for fused chains and those inside of loops over time.

    Args:
        plan: made with ``implementer`` for the target.
        target: the machine.
        exact: as ``implementer`` was told.
        libraries: likewise.
    """
    found: dict[str, Layer] = {}
    allowed = checked(libraries)
    constants = plan.graph.constants
    for step in plan.steps:
        if not isinstance(step.work, Group) or step.implementation is None:
            continue
        group = step.work
        if group.stages:
            continue
        task = prepare(
            step.implementation.kernel.name, group, plan.views, plan.types, constants, target
        )
        task = replace(task, threads=plan.threads, exact=exact, libraries=allowed)
        key = layer_key(task)
        layer = found.get(key)
        if layer is None:
            what = describe(group, plan.types)
            found[key] = Layer(key, task, what, (group.value,), step.implementation.scheme)
        else:
            found[key] = replace(layer, values=(*layer.values, group.value))
    return tuple(found.values())
