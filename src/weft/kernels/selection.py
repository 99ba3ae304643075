"""What the generators offer for a task, and which alternative is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from math import isfinite
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, Unpack

from weft.errors import InternalError, UserError, nearest_or_all
from weft.ir.types import TensorType
from weft.kernels.alternatives import Alternative
from weft.kernels.explain import answers
from weft.kernels.generator import Generator
from weft.kernels.generators import GENERATORS, checked_libraries
from weft.kernels.key import definition_key, layer_key
from weft.kernels.prepare import prepare
from weft.kernels.products import packed
from weft.kernels.refusal import Refusal
from weft.kernels.task import Asked, Task
from weft.kernels.watched import Watched
from weft.plan.choice import Answer, Measured, Reason
from weft.plan.fusion import Group
from weft.plan.given import Kernels
from weft.plan.implementation import Constants, Implement, Implementation
from weft.plan.strides import StridedView
from weft.plan.text import StepText, refused
from weft.plugins import Plugin, called
from weft.records import dataclass
from weft.targets.target import Target

Offer: TypeAlias = tuple[Alternative, ...] | Refusal
Proposed: TypeAlias = Sequence[tuple[str, Offer]]
"""What each generator offers for a task, by its name: Weft's own first, then plugins'."""
Known: TypeAlias = dict[str, Offer]
"""What generators offer for any number of threads, so that they need not be asked twice."""


def alternatives(task: Task, known: Known | None = None) -> tuple[Alternative, ...]:
    """All ways to compute a task, by cost.

    Every name stands once.  ``make`` of an alternative returns ``None`` where the loops turn
    out not to apply; that of the last one never does.  All kernels compute the task's
    definition, sums in another order; only with ``task.exact`` unset may some round more
    (``winograd-*``, ``strassen-*``).

    Args:
        task: from ``prepare``.
        known: see ``proposals``.
    """
    return sorted_by_cost(proposals(task, known))


def sorted_by_cost(proposed: Proposed) -> tuple[Alternative, ...]:
    """What all generators propose, and is allowed, as ``alternatives`` has it."""
    # Those of plugins first where costs are unknown: who installs a kernel wants it.
    mine = [each for each in proposed if each[0] in GENERATORS.builtin]
    others = [each for each in proposed if each[0] not in GENERATORS.builtin]
    offers = [offered for _, offered in (*others, *mine) if not isinstance(offered, Refusal)]
    allowed = (each for each in chain.from_iterable(offers) if each.allowed)
    return tuple(sorted(allowed, key=lambda each: each.cost))


def _listed(generator: Generator, task: Task, alone: Task, known: Known) -> Offer:
    """What one of Weft's own generators proposes."""
    if not generator.any_threads:
        return generator.propose(task)
    if generator.name not in known:
        known[generator.name] = generator.propose(alone)
    return known[generator.name]


def _of_plugin(plugin: Plugin, generator: Generator, task: Task) -> Offer:
    """What a generator of a plugin proposes; an error that it raises names the plugin."""

    def propose() -> Offer:
        offered = generator.propose(task)
        return offered if isinstance(offered, Refusal) else tuple(offered)

    found = called(plugin, propose)
    if isinstance(found, Refusal):
        return found
    for each in found:
        if not isinstance(each, Alternative):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(
                f"the {plugin} must propose objects of the class Alternative", got=repr(each)
            )
    outside = generator.library is not None
    return tuple(
        replace(each, make=partial(called, plugin, each.make), outside=outside) for each in found
    )


def _alone(task: Task) -> Task:
    """The task for one thread."""
    return replace(task, threads=1)


def proposals(task: Task, known: Known | None = None) -> Proposed:
    """What each generator proposes: Weft's own, then those of plugins.

    Args:
        task: from ``prepare``.
        known: proposals for this task with another number of threads, to which those that
            were not known are added.
    """
    known = {} if known is None else known
    # One task for all who are asked as for one thread: what it is, is analyzed once.
    alone = task.fact(_alone) if task.threads > 1 else task
    found = [(name, _listed(each, task, alone, known)) for name, each in GENERATORS.builtin.items()]
    if task.encoding and not isinstance(dict(found)[packed.GENERATOR.name], Refusal):
        # An encoding is asked for because of what it does to weights, not to times.
        why = Refusal(f"the weights are stored as {task.encoding}, which was asked for")
        return [(name, each if name == packed.GENERATOR.name else why) for name, each in found]
    taken = {one.name for _, each in found if not isinstance(each, Refusal) for one in each}
    for each in GENERATORS.loaded:
        if each.part.library is not None and each.part.name not in task.libraries:
            continue
        offered = _of_plugin(each.plugin, each.part, task)
        names = set[str]() if isinstance(offered, Refusal) else {one.name for one in offered}
        if names & taken:
            raise UserError(
                f"the {each.plugin} must propose alternatives with unique names",
                got=", ".join(sorted(names & taken)),
                fix="Give them the plugin's name as a prefix.",
            )
        taken |= names
        found.append((each.part.name, offered))
    return found


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
    proposed: Proposed = ()
    micros: Mapping[str, float] = field(default_factory=dict[str, float])

    def answers(self) -> tuple[Answer, ...]:
        """What all generators offer for the task."""
        return answers(self.proposed or proposals(self.task), self.name, self.micros)


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


class _Shared:
    """``generate`` for the layers of a network, many of which are equal but for their weights."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], list[tuple[Watched, Task, Implementation]]] = {}

    def generate(
        self,
        task: Task,
        name: str = "",
        reason: Reason = Reason.ASKED,
        micros: Mapping[str, float] = MappingProxyType({}),
    ) -> Implementation:
        """The kernel of a task; that of an equal one, if weights decided nothing else for it."""
        made_before = self._made.setdefault((definition_key(task), name), [])
        for others, other, made in made_before:
            if others.alike(task.arrays):
                return _made_for(task, other, made)
        arrays = Watched(task.arrays)
        watched = replace(task, arrays=arrays)
        made = generate(watched, name, reason, micros)
        watched.forget()
        if not arrays.read and not _plugins_propose(task):
            made_before.append((arrays, task, made))
        return made


class Offers(NamedTuple):
    """What there is for a task.

    Attributes:
        task: that was asked about, to be forgotten when no kernel is made any more.
        alternatives: by cost.
        shared: whether equal tasks of other weights have the same costs.
    """

    task: Task
    alternatives: tuple[Alternative, ...]
    shared: bool


def offers_of(task: Task) -> Offers:
    """``alternatives`` of a task, and whether they are the same for other weights."""
    arrays = Watched(task.arrays)
    watched = replace(task, arrays=arrays)
    found = alternatives(watched)
    free = not (arrays.read or arrays.asked or _plugins_propose(task))
    return Offers(watched, found, free)


def _plugins_propose(task: Task) -> bool:
    return any(
        each.part.library is None or each.part.name in task.libraries for each in GENERATORS.loaded
    )


def _made_for(task: Task, other: Task, made: Implementation) -> Implementation:
    """The implementation of a task that differs from another one in names alone."""
    values = dict(zip(other.values, task.values, strict=True))
    operands = tuple(replace(each, value=values[each.value]) for each in made.operands)
    assert isinstance(made.choice, TaskChoice)
    choice = replace(made.choice, task=task, proposed=())
    kernel = replace(made.kernel, name=task.name)
    return replace(made, kernel=kernel, operands=operands, choice=choice)


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
    alone = usual(task.fact(_alone), known)
    yield from (each for each in offered if each.sums == alone.sums)


def implementer(
    target: Target,
    *,
    choices: Mapping[str, str] | None = None,
    **asked: Unpack[Asked],
) -> Implement:
    """What makes kernels for a target.

    Args:
        target: the machine.
        choices: names of alternatives by ``layer_key``, in place of the usual ones;
            ``Measured`` if they come from measurements.
        asked: what is asked of all tasks.

    Raises:
        UserError: there is no such generator, or its library is not installed.
    """
    asked["libraries"] = checked_libraries(asked.get("libraries", ()))
    shared = _Shared()

    def implement(
        name: str,
        group: Group,
        views: Mapping[str, StridedView],
        types: Mapping[str, TensorType],
        constants: Constants,
    ) -> Implementation:
        task = prepare(name, group, views, types, constants, target)
        task = replace(task, **asked)
        if not choices:
            return shared.generate(task)
        key = layer_key(task)
        name = choices.get(key, "")
        if isinstance(choices, Measured):
            return shared.generate(task, name, Reason.MEASURED, choices.micros.get(key, {}))
        return shared.generate(task, name)

    return implement


def named_implementer(target: Target, **asked: Unpack[Asked]) -> Kernels:
    """What makes the kernels that a plan's text names; see ``implementer``."""
    asked["libraries"] = checked_libraries(asked.get("libraries", ()))

    def kernels(step: StepText) -> Implement:
        def implement(
            name: str,
            group: Group,
            views: Mapping[str, StridedView],
            types: Mapping[str, TensorType],
            constants: Constants,
        ) -> Implementation:
            task = prepare(name, group, views, types, constants, target)
            task = replace(task, **asked)
            return _named(task, step)

        return implement

    return kernels


def _named(task: Task, step: StepText) -> Implementation:
    """The kernel that a step's text names, and no other."""
    # Texts may say of any layer how its weights are stored, whatever was asked for.
    own = step.encodings[0].encoding if step.encodings else ""
    known: Known = {}
    proposed = proposals(task, known)
    offered = sorted_by_cost(proposed)
    if own != task.encoding and step.kernel not in {each.name for each in offered}:
        task, known = replace(task, encoding=own), {}
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
