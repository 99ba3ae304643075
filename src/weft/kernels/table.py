"""The generators, and what they offer for a task: its alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import isfinite
from types import MappingProxyType
from typing import TypeAlias

from weft.errors import InternalError, UserError, nearest_or_all
from weft.ir.types import TensorType
from weft.kernels import (
    attention_choice,
    maps,
    nest,
    packed,
    rows,
    tensorized_choice,
    tiled_choice,
    winograd_choice,
)
from weft.kernels.alternatives import Alternative, Propose, only
from weft.kernels.key import layer_key
from weft.kernels.libraries import LIBRARIES, checked
from weft.kernels.offers import answers
from weft.kernels.prepare import prepare
from weft.kernels.task import Task
from weft.ops.native import Native
from weft.ops.table import KERNELS
from weft.ops.table import Propose as Bring
from weft.plan.choice import Answer, Measured, Reason
from weft.plan.given import Kernels
from weft.plan.group import Group
from weft.plan.implementation import Constants, Implement, Implementation
from weft.plan.strides import View
from weft.plan.text import StepText, refused
from weft.plugins import Plugin, called
from weft.targets.target import Target

GENERATORS: tuple[tuple[str, Propose], ...] = (
    ("winograd", winograd_choice.propose),
    ("attention", attention_choice.propose),
    ("map", maps.propose),
    ("packed", packed.propose),
    ("tensorized", tensorized_choice.propose),
    ("tiled", tiled_choice.propose),
    ("rows", only("rows", rows.generate, rows.applies)),
    ("nest", only("nest", nest.generate)),
)
"""Best first, where costs are equal or nobody knows them."""

ANY_THREADS = frozenset({"map", "packed", "tensorized", "tiled", "rows", "nest"})
"""Generators that are always asked as for one thread, so what they offer fits any number."""

Known: TypeAlias = dict[str, tuple[Alternative, ...]]
"""What these offer for a task, by name, so that it need not be listed twice."""


def alternatives(task: Task, known: Known | None = None) -> tuple[Alternative, ...]:
    """All ways to compute a task, by cost.

    Every name stands once.  ``make`` of an alternative returns ``None`` where the loops turn
    out not to apply; that of the last one never does.  All kernels compute the task's
    definition, sums in another order; only with ``task.exact`` unset may some round more
    (``winograd-*``).

    Args:
        task: from ``prepare``.
        known: see ``proposals``.
    """
    return sorted_by_cost(proposals(task, known))


def sorted_by_cost(
    proposed: Sequence[tuple[str, tuple[Alternative, ...]]],
) -> tuple[Alternative, ...]:
    """What all generators propose as ``alternatives`` has it."""
    # Those of plugins first where nobody knows costs: who installs a kernel wants it.
    mine = len(GENERATORS)
    found = [each for _, offered in (*proposed[mine:], *proposed[:mine]) for each in offered]
    return tuple(sorted(found, key=lambda each: each.cost))


def _proposed(plugin: Plugin, propose: Bring, task: Task) -> tuple[Alternative, ...]:
    """What a generator of a plugin proposes; each kernel is asked for when it is wanted."""
    found = called(plugin, lambda: tuple(propose(task)))
    for each in found:
        if not isinstance(each, Alternative):
            raise UserError(
                f"the {plugin} must propose objects of the class Alternative", got=repr(each)
            )
    return tuple(replace(each, make=partial(called, plugin, each.make)) for each in found)


def _listed(name: str, propose: Propose, task: Task, known: Known) -> tuple[Alternative, ...]:
    """What one of Weft's own generators proposes."""
    if name not in ANY_THREADS:
        return propose(task)
    if name not in known:
        known[name] = propose(replace(task, threads=1))
    return known[name]


def proposals(task: Task, known: Known | None = None) -> list[tuple[str, tuple[Alternative, ...]]]:
    """What each generator proposes, with its name: Weft's own, then of plugins and libraries.

    Args:
        task: from ``prepare``.
        known: proposals for this task with another number of threads, to which those that
            were not known are added.
    """
    known = {} if known is None else known
    found = [(name, _listed(name, propose, task, known)) for name, propose in GENERATORS]
    for each in KERNELS.loaded:
        if isinstance(each.part, Native):
            continue
        offered = _proposed(each.plugin, each.part, task)
        taken = {other.name for _, others in found for other in others}
        twice = [one.name for one in offered if one.name in taken]
        if twice:
            raise UserError(
                f"the {each.plugin} must propose alternatives with names of their own",
                got=", ".join(twice),
                fix="Give them the plugin's name as a prefix.",
            )
        found.append((each.plugin.name, offered))
    return found + [(name, LIBRARIES[name].propose(task)) for name in task.libraries]


@dataclass(frozen=True, eq=False, slots=True)
class TaskChoice:
    """How the kernel of a task was chosen.

    Attributes:
        task: from ``prepare``.
        name: of the alternative.
        reason: what decided.
        proposed: by each generator.
        micros: measured microseconds by alternative.
    """

    task: Task
    name: str
    reason: Reason
    proposed: Sequence[tuple[str, tuple[Alternative, ...]]] = ()
    micros: Mapping[str, float] = field(default_factory=dict[str, float])

    def answers(self) -> tuple[Answer, ...]:
        """What all generators offer for the task."""
        return answers(self.task, self.proposed or proposals(self.task), self.name, self.micros)


def generate(
    task: Task,
    name: str = "",
    reason: Reason = Reason.ASKED,
    micros: Mapping[str, float] = MappingProxyType({}),
) -> Implementation:
    """The kernel of a task.

    Args:
        task: what to compute.
        name: of the alternative; the usual one if it is not given or does not apply.
        reason: for which it is named.
        micros: measured microseconds by alternative.
    """
    known: Known = {}
    proposed = proposals(task, known)
    offered = sorted_by_cost(proposed)
    named = [each for each in offered if each.name == name]
    for each in chain(named, _in_turn(task, offered, known)):
        made = each.make()
        if made is not None:
            why = reason if each.name == name else reason_for(each, offered)
            choice = TaskChoice(task, each.name, why, proposed, micros)
            return replace(made, scheme=each.name, choice=choice)
    raise InternalError(f"no generator accepts {task.name}")


def reason_for(usual: Alternative, offered: Sequence[Alternative]) -> Reason:
    """Why an alternative is the usual one."""
    if isfinite(usual.cost):
        return Reason.CHEAPEST
    return Reason.ONLY if usual is offered[-1] else Reason.FIRST


def usual(task: Task, known: Known | None = None) -> Alternative:
    """The alternative that a task has if none is named: the first by cost that applies.

    In which order it adds up is decided as for one thread: results do not depend on how many
    there are.  These choose among the alternatives that add up so.

    Args:
        task: from ``prepare``.
        known: see ``proposals``.
    """
    known = {} if known is None else known
    for each in _in_turn(task, alternatives(task, known), known):
        if each.applies():
            return each
    raise InternalError(f"no generator accepts {task.name}")


def _in_turn(task: Task, offered: Sequence[Alternative], known: Known) -> Iterator[Alternative]:
    """Alternatives in the order in which they are tried; libraries' are only taken by name."""
    offered = [each for each in offered if not each.outside]
    if task.threads == 1:
        yield from offered
        return
    alone = usual(replace(task, threads=1), known)
    yield from (each for each in offered if each.sums == alone.sums)


def implementer(
    target: Target,
    *,
    threads: int = 1,
    exact: bool = False,
    choices: Mapping[str, str] | None = None,
    libraries: Sequence[str] = (),
) -> Implement:
    """What makes kernels for a target.

    Args:
        target: the machine.
        threads: that may run parts of a kernel at once.
        exact: leave out what rounds otherwise than the definition does, sums in another
            order apart.
        choices: names of alternatives by ``layer_key``, in place of the usual ones;
            ``Measured`` if they come from measurements.
        libraries: whose functions choices may name.

    Raises:
        UserError: there is no such library, or it is not installed.
    """
    allowed = checked(libraries)

    def implement(
        name: str,
        group: Group,
        views: Mapping[str, View],
        types: Mapping[str, TensorType],
        constants: Constants,
    ) -> Implementation:
        task = prepare(name, group, views, types, constants, target)
        task = replace(task, threads=threads, exact=exact, libraries=allowed)
        if not choices:
            return generate(task)
        key = layer_key(task)
        name = choices.get(key, "")
        if isinstance(choices, Measured):
            return generate(task, name, Reason.MEASURED, choices.micros.get(key, {}))
        return generate(task, name)

    return implement


def named_implementer(
    target: Target, *, threads: int = 1, exact: bool = False, libraries: Sequence[str] = ()
) -> Kernels:
    """What makes the kernels that a plan's text names; see ``implementer``."""
    allowed = checked(libraries)

    def kernels(step: StepText) -> Implement:
        def implement(
            name: str,
            group: Group,
            views: Mapping[str, View],
            types: Mapping[str, TensorType],
            constants: Constants,
        ) -> Implementation:
            task = prepare(name, group, views, types, constants, target)
            return _named(replace(task, threads=threads, exact=exact, libraries=allowed), step)

        return implement

    return kernels


def _named(task: Task, step: StepText) -> Implementation:
    """The kernel that a step's text names, and no other."""
    known: Known = {}
    proposed = proposals(task, known)
    offered = sorted_by_cost(proposed)
    each = alternative_named(step, offered)
    made = each.make()
    if made is None:
        rule = f"the loops of {step.kernel} do not apply to {', '.join(step.writes)}"
        raise refused("a step's kernel must apply", rule, step.line, "Choose another one.")
    reason = step.reason
    if reason not in (Reason.ASKED, Reason.MEASURED) or each.name not in (
        step.micros if reason is Reason.MEASURED else {each.name}
    ):
        turn = _in_turn(task, offered, known)
        usual = next(one for one in turn if one.name == each.name or one.applies())
        reason = reason_for(usual, offered) if usual.name == each.name else Reason.ASKED
    choice = TaskChoice(task, each.name, reason, proposed, step.micros)
    return replace(made, scheme=each.name, choice=choice)


def alternative_named(step: StepText, offered: Sequence[Alternative]) -> Alternative:
    """The alternative that a step's text names.

    Raises:
        UserError: there is none of its name.
    """
    for each in offered:
        if each.name == step.kernel:
            return each
    rule = f"the kernel of {', '.join(step.writes)} must be one of its alternatives"
    fix = nearest_or_all(step.kernel, [each.name for each in offered])
    raise refused(rule, step.kernel, step.line, fix)
