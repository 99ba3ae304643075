"""Max pooling that the kernel of the convolution before it does, too.

A convolution and what takes the maxima of windows of its outputs are one step then, which stores
the maxima alone (``weft.kernels.winograd.pooling``).  The convolution adds up as it would by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from weft.kernels.alternatives import Alternative
from weft.kernels.depth_first.links import Setting
from weft.kernels.selection import Known, TaskChoice, alternative_named, alternatives, usual
from weft.kernels.task import Task
from weft.loops.nodes import Reduce
from weft.loops.walk import walk
from weft.plan.chain import Fused
from weft.plan.choice import Reason, Settled
from weft.plan.fusion import Group
from weft.plan.implementation import Implementation
from weft.plan.text import StepText, refused
from weft.records import dataclass
from weft.targets.target import Target

POOLED = "pooled"
"""The name of the kernel of such a step."""


@dataclass(frozen=True, slots=True)
class PooledPair:
    """A group of a chain and the one behind it, in one kernel.

    Attributes:
        start: the place of the first in the chain.
        implementation: of both.
        gain: cycles, about.
    """

    start: int
    implementation: Implementation
    gain: float

    def fused(self, target: Target) -> Fused:
        """The two of them in the chain."""
        del target
        return Fused(self.start, self.start + 2, self.implementation)


def pooled_pair(start: int, groups: Sequence[Group], setting: Setting) -> PooledPair | None:
    """The groups at a place of a chain and behind it, if one kernel is for both of them."""
    first, second = groups[start : start + 2]
    if not any(
        isinstance(node, Reduce) and node.op == "max" for node in walk(second.compute.value)
    ):
        return None
    task, after = _task(first, setting), _task(second, setting, merge=False)
    found = _pair(start, first.value, task, after)
    task.forget()
    after.forget()
    return found


def _pair(start: int, link: str, task: Task, after: Task) -> PooledPair | None:
    """One kernel for two tasks, if there is one."""
    known: Known = {}
    apart = usual(task, known)
    for each in alternatives(task, known):
        # Sums in another order would make results depend on what reads them.
        made = _both(each, after, link) if each.sums == apart.sums else None
        if made is not None:
            alone = usual(after)
            gain = apart.cost + alone.cost - each.cost
            kernels = (
                replace(
                    made, scheme=each.name, choice=TaskChoice(task, each.name, Reason.CHEAPEST)
                ),
                _chosen(after, alone, Reason.CHEAPEST),
            )
            found = _step(made, kernels, Reason.CHEAPEST)
            return PooledPair(start, found, gain if math.isfinite(gain) else 1.0)
    return None


def pooled_as(step: StepText, groups: Sequence[Group], setting: Setting) -> Implementation:
    """The kernel of both groups as a plan's text has it."""
    if len(groups) != 2:
        raise refused(f"a step that is {POOLED} has two stages", str(len(groups)), step.line)
    task, after = _task(groups[0], setting), _task(groups[1], setting, merge=False)
    first, second = step.stages
    each = alternative_named(first, alternatives(task))
    made = _both(each, after, groups[0].value)
    if made is None:
        rule = "the kernel of the first stage must do the pooling of the second"
        raise refused(rule, first.kernel, first.line)
    reason = first.reason or Reason.ASKED
    kernels = (
        replace(made, scheme=each.name, choice=TaskChoice(task, each.name, reason)),
        _chosen(
            after,
            alternative_named(second, alternatives(after)),
            second.reason or Reason.ASKED,
        ),
    )
    return _step(made, kernels, step.reason or Reason.ASKED)


def _task(group: Group, setting: Setting, *, merge: bool = True) -> Task:
    return setting.task(group, threads=setting.threads, merge=merge)


def _both(each: Alternative, after: Task, link: str) -> Implementation | None:
    """The kernel of both, if an alternative for the first one has any."""
    return each.pooled(after, link) if each.pooled else None


def _chosen(task: Task, each: Alternative, reason: Reason) -> Implementation:
    """What the second group would have by itself."""
    made = each.make()
    assert made is not None
    return replace(made, scheme=each.name, choice=TaskChoice(task, each.name, reason))


def _step(
    made: Implementation, stages: tuple[Implementation, ...], reason: Reason
) -> Implementation:
    return replace(made, scheme=POOLED, choice=Settled(reason), stages=stages)
