"""A plan made anew from its text: every decision is taken from there, and checked.

Groups, layouts and sizes follow from the graph and the target; the text must agree.  Kernels,
which groups run together by bands of rows, the order, what is computed in place, and offsets
may be edited.  A step whose kernel needs more scratch memory than the text has for it gets
what is free while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from weft.ir.graph import Graph
from weft.ir.printer import architecture
from weft.ir.types import TensorType
from weft.plan import liveness
from weft.plan.chain import Fuse
from weft.plan.fusion import Group
from weft.plan.implementation import Constants, Implement, Implementation
from weft.plan.memory import Overlap, Placement, completed
from weft.plan.plan import ALIGNMENT, InPlace, PlannedStep
from weft.plan.storage import Storage
from weft.plan.strides import StridedView
from weft.plan.tensors import Opaque, only_used, own_outputs
from weft.plan.text import BodyText, PlanText, StepText, ValueText, refused
from weft.plan.written import values_text

Kernels: TypeAlias = Callable[[StepText], Implement]
"""Makes what a step's text names, or refuses."""


def fits(text: PlanText, graph: Graph, states: Mapping[str, int]) -> None:
    """Refuses a plan of another network, or of the same one with other states.

    Args:
        text: of the plan.
        graph: as it is planned.
        states: by input that is one, the place among the outputs of its next value.
    """
    graph = own_outputs(only_used(graph))
    found = architecture(graph)
    if found != text.digest:
        raise refused(
            "it must be of this network, simplified by this version of Weft",
            f"{text.name} @{text.digest} for {graph.name} @{found}",
            1,
            "Plan it again: weft plan MODEL -o FILE.",
        )
    pairs = {value: graph.outputs[place] for value, place in states.items()}
    if pairs != text.states:
        raise refused(
            "the states of a plan are those of the network",
            f"{_pairs(text.states)} for {_pairs(pairs)}",
            1,
            "Declare them with `with_state`, or --state INPUT=OUTPUT.",
        )


def _pairs(states: Mapping[str, str]) -> str:
    return ", ".join(f"{value}={output}" for value, output in states.items()) or "none"


@dataclass(frozen=True)
class GivenDecisions:
    """Decisions that a text gives (see ``weft.plan.make.Decide``).

    Attributes:
        body: the text.
        kernels: makes them.
        fuse: of a body, makes the kernels of chains.
    """

    body: BodyText
    kernels: Kernels
    fuser: Callable[[BodyText], Fuse]

    @cached_property
    def steps(self) -> Mapping[tuple[str, ...], StepText]:
        """The steps' texts by what they make."""
        found: dict[tuple[str, ...], StepText] = {}
        for step in self.body.steps:
            if step.writes in found:
                raise refused("a step stands once", _named(step), step.line)
            found[step.writes] = step
        return found

    @property
    def fuse(self) -> Fuse:
        """What fuses the chains that the text has as one step."""
        return self.fuser(self.body)

    @property
    def kernel(self) -> Implement:
        """What makes the kernel that the text names for a group."""

        def implement(
            name: str,
            group: Group,
            views: Mapping[str, StridedView],
            types: Mapping[str, TensorType],
            constants: Constants,
        ) -> Implementation:
            kernel = self.kernels(self.step((group.value,)))
            return kernel(name, group, views, types, constants)

        return implement

    def inside(self, work: Opaque) -> GivenDecisions:
        """The decisions for the body of a loop."""
        step = self.step(tuple(value for value in work.node.outputs if value))
        if step.body is None:
            raise refused("a loop needs the plan of its body", _named(step), step.line)
        return replace(self, body=step.body)

    def step(self, writes: tuple[str, ...]) -> StepText:
        """The text of a step."""
        found = self.steps.get(writes)
        if found is None:
            rule = "every step of the network must be there"
            raise refused(rule, f"none that makes {', '.join(writes)}", self.body.line)
        return found

    # --- order ----------------------------------------------------------------------------

    def order(
        self,
        steps: Sequence[PlannedStep],
        raw: Sequence[liveness.MemoryStep],
        sizes: Mapping[str, int],
    ) -> list[int]:
        """The steps in the order of the text."""
        del sizes
        numbers = {step.writes: number for number, step in enumerate(steps)}
        order: list[int] = []
        done: set[int] = set()
        for text in self.steps.values():
            number = numbers.get(text.writes)
            if number is None:
                rule = "a step must make what one of the network makes"
                raise refused(rule, _named(text), text.line)
            _same(text, steps[number])
            early = raw[number].before - done
            if early:
                missing = ", ".join(steps[min(early)].writes)
                rule = f"{_named(text)} must run after what it reads"
                raise refused(rule, f"{missing} later", text.line, "Move the step.")
            order.append(number)
            done.add(number)
        for step in steps:
            self.step(step.writes)
        return order

    def in_place(self, step: PlannedStep, possible: InPlace) -> InPlace:
        """The pair that the text has, if it is possible."""
        text = self.steps.get(step.writes)
        wanted = text.in_place if text is not None else ""
        return tuple(pair for pair in possible if pair[1] == wanted)

    # --- memory ---------------------------------------------------------------------------

    def place(
        self,
        storage: Storage,
        steps: Sequence[PlannedStep],
        lives: liveness.Lifetimes,
        scratch: Mapping[int, str],
    ) -> Placement:
        """The placement of the text, as far as it has room for the scratch memory of steps."""
        values = self.values(storage)
        for step in steps:
            text = self.step(step.writes)
            if step.in_place != text.in_place:
                rule = "in place of a value can be what is computed from it element by element"
                got = f"{_named(text)} in place of {text.in_place}, which it cannot take over"
                raise refused(rule, got, text.line, "Remove the line, and give it an offset.")
        offsets: dict[str, int] = {}
        lines: dict[str, int] = {}
        for root, home in lives.home.items():
            if values[root].offset != values[home].offset:
                rule = f"what is computed in place of {home} must lie where it lies"
                got = f"{root} at {values[root].offset}"
                raise refused(rule, got, values[root].line, "Give both the same offset.")
            offsets[home], lines[home] = values[home].offset, values[home].line
        missing = False
        for place, name in scratch.items():
            text, lines[name] = self.step(steps[place].writes), self.step(steps[place].writes).line
            if text.scratch >= steps[place].scratch:
                offsets[name] = text.scratch_offset
            else:
                missing = True
        for name, offset in offsets.items():
            if offset % ALIGNMENT:
                rule = f"offsets in the arena are multiples of {ALIGNMENT}"
                raise refused(rule, str(offset), lines[name])
        return self.checked(lives, offsets, lines, grows=missing)

    def checked(
        self,
        lives: liveness.Lifetimes,
        offsets: Mapping[str, int],
        lines: Mapping[str, int],
        *,
        grows: bool,
    ) -> Placement:
        """The placement of offsets, nothing live overlapping, within the arena."""
        try:
            placed = completed(lives.intervals, offsets, ALIGNMENT, self.body.method)
        except Overlap as error:
            low, high = error.args
            rule = f"{low} and {high} are live together and must not overlap"
            got = f"{low} at {offsets.get(low, 0)}, {high} at {offsets.get(high, 0)}"
            raise refused(rule, got, lines.get(high, 0)) from None
        if placed.bytes > self.body.arena_bytes and not grows:
            high = max(lives.intervals, key=lambda each: placed.offsets[each.name] + each.bytes)
            rule = f"everything must lie within the arena of {self.body.arena_bytes} bytes"
            got = f"{high.name} up to {placed.bytes}"
            fix = f"Move it, or write: arena {placed.bytes} bytes."
            raise refused(rule, got, lines.get(high.name, 0), fix)
        return placed

    def values(self, storage: Storage) -> Mapping[str, ValueText]:
        """The values of the text, which must be those of the network but for offsets."""
        found: dict[str, ValueText] = {}
        wanted = {
            each.name: each for each in values_text(storage.views, storage.roots, storage.types, {})
        }
        for value in self.body.values:
            if value.name in found:
                raise refused("a value stands once", value.name, value.line)
            found[value.name] = value
            want = wanted.get(value.name)
            if want is None:
                raise refused("a value must be one of the network", value.name, value.line)
            if replace(value, offset=want.offset if value.region else value.offset) != want:
                rule = f"{value.name} must lie as its layout says; only offsets may be edited"
                raise refused(rule, "another type, region, size or stride", value.line)
        for name in wanted.keys() - found.keys():
            raise refused("every value must have its place", f"none for {name}", self.body.line)
        return found


def _same(text: StepText, step: PlannedStep) -> None:
    """Refuses a step whose text says that it does something else."""
    ops, reads = tuple(node.op for node in step.nodes), tuple(dict.fromkeys(step.reads))
    if (text.ops, text.reads) != (ops, reads):
        rule = f"{_named(text)} must be {' + '.join(ops)} of {', '.join(reads) or 'nothing'}"
        raise refused(rule, f"{' + '.join(text.ops)} of {', '.join(text.reads)}", text.line)


def _named(step: StepText) -> str:
    return f"the step that makes {', '.join(step.writes)}"
