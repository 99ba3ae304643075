"""What is different between two plans: kernels, order, offsets, the arena."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import SequenceMatcher

from weft.ir.printer import attribute_text
from weft.plan.text import BodyText, Constraints, PlanText, StepText, ValueText
from weft.records import dataclass
from weft.screen import Screen, Shown, several


@dataclass(frozen=True, repr=False)
class PlanDiff(Shown):
    """What turns one plan into another.

    Attributes:
        old: the plan before; new: after.
        changes: lines, each about one thing.
    """

    old: PlanText
    new: PlanText
    changes: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        return "\n".join(self.changes)

    def screen(self) -> Screen:
        """How much differs, and the first lines."""
        title = f"PlanDiff of {self.old.name}: {several(len(self.changes), 'change')}"
        return Screen(title, (), ("change",), [(line,) for line in self.changes])


def diff(old: PlanText, new: PlanText) -> PlanDiff:
    """Compares two plans.

    Steps are matched by what they make.  Estimates and refusals are not compared.
    """
    changes = [*_header(old, new), *_body(old.body, new.body, "")]
    return PlanDiff(old, new, tuple(changes))


def _header(old: PlanText, new: PlanText) -> Iterator[str]:
    yield from _change("network", f"{old.name} @{old.digest}", f"{new.name} @{new.digest}")
    yield from _change("target", old.target, new.target)
    for name in dict.fromkeys((*old.facts, *new.facts)):
        yield from _change(f"target {name}", old.facts.get(name), new.facts.get(name))
    yield from _change("threads", old.threads, new.threads)
    for name in dict.fromkeys((*old.states, *new.states)):
        yield from _change(f"state {name}", old.states.get(name), new.states.get(name))
    for each in fields(Constraints):
        before, after = (getattr(plan.constraints, each.name) for plan in (old, new))
        yield from _change(each.name, attribute_text(before), attribute_text(after))


def _body(old: BodyText, new: BodyText, inside: str) -> Iterator[str]:
    before = {step.writes: step for step in old.steps}
    after = {step.writes: step for step in new.steps}
    for writes, step in before.items():
        if writes not in after:
            yield f"{inside}step removed: {_named(step)}"
    for writes, step in after.items():
        if writes not in before:
            yield f"{inside}step added: {_named(step)}"
        else:
            yield from _step(before[writes], step, f"{inside}{', '.join(writes)}: ")
    yield from _order(before, after, inside)
    values = {value.name: value for value in old.values}
    for value in new.values:
        found = values.pop(value.name, None)
        if found is not None:
            yield from _change(f"{inside}{value.name}: lies", _place(found), _place(value))
        else:
            yield f"{inside}value added: {value.name} {_place(value)}"
    yield from (f"{inside}value removed: {name}" for name in values)
    for each in new.arenas:
        sizes = (sum(a.bytes for a in body.arenas if a.name == each.name) for body in (old, new))
        yield from _change(f"{inside}arena {each.name}", *(f"{size} bytes" for size in sizes))
    yield from _change(f"{inside}arena", f"{old.arena_bytes} bytes", f"{new.arena_bytes} bytes")


def _step(old: StepText, new: StepText, at: str) -> Iterator[str]:
    yield from _change(f"{at}kernel", old.kernel, new.kernel)
    yield from _change(f"{at}weights", _encodings(old), _encodings(new))
    yield from _change(f"{at}stages", _stages(old), _stages(new))
    yield from _change(f"{at}in place of", old.in_place or "nothing", new.in_place or "nothing")
    yield from _change(f"{at}scratch", _scratch(old), _scratch(new))
    if old.body is not None and new.body is not None:
        yield from _body(old.body, new.body, f"{at}in its body: ")


def _order(
    before: Mapping[tuple[str, ...], StepText],
    after: Mapping[tuple[str, ...], StepText],
    inside: str,
) -> Iterator[str]:
    """The steps that both have, but at another place among the others."""
    old = [writes for writes in before if writes in after]
    new = [writes for writes in after if writes in before]
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    stayed = {
        each for block in matcher.get_matching_blocks() for each in old[block.a :][: block.size]
    }
    places = {writes: place for place, writes in enumerate(before)}
    for place, writes in enumerate(after):
        if writes in before and writes not in stayed:
            yield f"{inside}{', '.join(writes)}: step {places[writes]} -> {place}"


def _change(what: str, old: object, new: object) -> Iterator[str]:
    if old != new:
        yield f"{what} {old} -> {new}"


def _named(step: StepText) -> str:
    return f"{', '.join(step.writes)} = {' + '.join(step.ops)} by {step.kernel}"


def _encodings(step: StepText) -> str:
    return ", ".join(f"{each.value} as {each.encoding}" for each in step.encodings) or "unencoded"


def _stages(step: StepText) -> str:
    return ", ".join(each.kernel for each in step.stages) or "none"


def _scratch(step: StepText) -> str:
    region = f" in {step.scratch_arena}" if step.scratch_arena else ""
    return f"{step.scratch} bytes{region} at {step.scratch_offset}" if step.scratch else "none"


def _place(value: ValueText) -> str:
    region = f"in {value.within}" if value.within else f"{value.region} {value.arena}".rstrip()
    strides = f" with strides {value.strides}" if value.strides else ""
    return f"{region} at {value.offset}{strides}"
