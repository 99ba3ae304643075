"""A plan made anew from its text: every decision is taken from there, and checked.

Groups, layouts and sizes follow from the graph and the target; the text must agree.  Kernels,
which groups run together by bands of rows, the order, what is computed in place, and offsets
may be edited.  A step whose kernel needs more scratch memory than the text has for it gets
what is free while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from weft.cached import cached_property
from weft.ir.graph import Graph, Node
from weft.ir.printer import architecture
from weft.ir.types import TensorType
from weft.loops.hoist import LEAST_BYTES
from weft.plan import liveness
from weft.plan.chain import Fuse
from weft.plan.fusion import Group
from weft.plan.implementation import Constants, Implement, Implementation
from weft.plan.interval import Interval
from weft.plan.memory import Overlap, Placement, completed, joined
from weft.plan.plan import ALIGNMENT, InPlace, PlannedStep
from weft.plan.storage import Storage
from weft.plan.strides import StridedView
from weft.plan.tensors import Opaque, as_planned
from weft.plan.text import BodyText, PlanText, StepText, ValueText, refused
from weft.plan.written import values_text
from weft.records import dataclass
from weft.targets.target import Memory


class _At(NamedTuple):
    """Where something lies: in which region, where there, and the line that says so."""

    region: str
    offset: int | None
    line: int


Kernels: TypeAlias = Callable[[StepText], Implement]
"""Makes what a step's text names, or refuses."""


def fits(text: PlanText, graph: Graph, states: Mapping[str, int]) -> None:
    """Refuses a plan of another network, or of the same one with other states.

    Args:
        text: of the plan.
        graph: as it is planned.
        states: by input that is one, the place among the outputs of its next value.
    """
    graph = as_planned(graph)
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
        regions: memories that the arena is in; of any size if there are none.
        stack_limit: locals of kernels of so many bytes lie in the arena.
    """

    body: BodyText
    kernels: Kernels
    fuser: Callable[[BodyText], Fuse]
    regions: Sequence[Memory] = ()
    stack_limit: int = LEAST_BYTES

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
        return replace(self, body=step.body, regions=())

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
        self.check_in_place(steps)
        values = self.values(storage)
        found: dict[str, _At] = {}
        for root, home in lives.home.items():
            value, owner = values[root], values[home]
            if (value.arena, value.offset) != (owner.arena, owner.offset):
                rule = f"what is computed in place of {home} must lie where it lies"
                got = f"{root} at {f'{value.arena} {value.offset}'.strip()}"
                raise refused(rule, got, value.line, "Give both the same offset.")
            found[home] = _At(owner.arena, owner.offset, owner.line)
        for place, name in scratch.items():
            text = self.step(steps[place].writes)
            # Scratch memory that the text has not goes to the last region, mostly the largest.
            region = text.scratch_arena or self.names[-1]
            fits = text.scratch >= steps[place].scratch
            found[name] = _At(region, text.scratch_offset if fits else None, text.line)
        inside: dict[str, list[Interval]] = {name: [] for name in self.names}
        for each in lives.intervals:
            at = found[each.name]
            if (at.offset or 0) % ALIGNMENT:
                rule = f"offsets in the arena are multiples of {ALIGNMENT}"
                raise refused(rule, str(at.offset), at.line)
            if at.region not in inside:
                rule = f"the region of a value is one of {', '.join(self.names) or 'none'}"
                raise refused(rule, at.region or "none", at.line)
            inside[at.region if each.bytes else self.names[0]].append(each)
        parts = {name: self.checked(name, inside[name], found) for name in self.names}
        return joined(parts, self.body.method)

    def check_in_place(self, steps: Sequence[PlannedStep]) -> None:
        """Refuses a text whose steps take over what they cannot."""
        for step in steps:
            text = self.step(step.writes)
            if step.in_place != text.in_place:
                rule = "in place of a value can be what is computed from it element by element"
                got = f"{_named(text)} in place of {text.in_place}, which it cannot take over"
                raise refused(rule, got, text.line, "Remove the line, and give it an offset.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the regions of the arena; an empty one where it is one."""
        found = tuple(each.name for each in self.body.arenas)
        wanted = tuple(each.name for each in self.regions) if len(self.regions) > 1 else ()
        if found != wanted:
            rule = f"the regions of the arena must be {', '.join(wanted) or 'none'}"
            raise refused(rule, ", ".join(found) or "none", self.body.line)
        return found or ("",)

    def checked(
        self, region: str, intervals: Sequence[Interval], at: Mapping[str, _At]
    ) -> Placement:
        """The placement in a region, nothing live overlapping, within its size."""
        given = {
            each.name: offset for each in intervals if (offset := at[each.name].offset) is not None
        }
        try:
            placed = completed(intervals, given, ALIGNMENT, self.body.method)
        except Overlap as error:
            low, high = error.args
            rule = f"{low} and {high} are live together and must not overlap"
            got = f"{low} at {given.get(low, 0)}, {high} at {given.get(high, 0)}"
            raise refused(rule, got, at[high].line) from None
        high = max(intervals, key=lambda each: placed.offsets[each.name] + each.bytes, default=None)
        if high is not None:
            written = {each.name: each.bytes for each in self.body.arenas}
            size = written.get(region, self.body.arena_bytes)
            got, line = f"{high.name} up to {placed.bytes}", at[high.name].line
            if placed.bytes > size and len(given) == len(intervals):
                rule = f"everything must lie within the arena {region}".rstrip()
                fix = f"Move it, or write: arena {f'{region} {placed.bytes}'.lstrip()} bytes."
                raise refused(f"{rule} of {size} bytes", got, line, fix)
            for each in self.regions:
                if region in (each.name, "") and placed.bytes > each.bytes:
                    rule = f"everything must lie within the {each.bytes} bytes of {each.name}"
                    raise refused(rule, got, line)
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
            offset = want.offset if value.region else value.offset
            if replace(value, offset=offset, arena="") != want:
                rule = f"{value.name} must lie as its layout says; only offsets may be edited"
                raise refused(rule, "another type, region, size or stride", value.line)
        for name in wanted.keys() - found.keys():
            raise refused("every value must have its place", f"none for {name}", self.body.line)
        return found


def _same(text: StepText, step: PlannedStep) -> None:
    """Refuses a step whose text, or that of a stage, says that it does something else."""
    _same_layer(text, step.nodes, step.reads, _named(text))
    for stage, (group, _) in zip(text.stages, step.stages, strict=True):
        _same_layer(
            stage, group.nodes, group.reads, f"the stage that makes {', '.join(stage.writes)}"
        )


def _same_layer(text: StepText, nodes: Sequence[Node], reads: Sequence[str], named: str) -> None:
    ops, values = tuple(node.op for node in nodes), tuple(dict.fromkeys(reads))
    if (text.ops, text.reads) != (ops, values):
        does = f"{' + '.join(ops)} of {', '.join(values) or 'nothing'}"
        got = f"{' + '.join(text.ops)} of {', '.join(text.reads) or 'nothing'}"
        fix = f"Write again what it does: {does}; the kernel may be edited."
        raise refused(f"{named} must be {does}", got, text.line, fix)


def _named(step: StepText) -> str:
    return f"the step that makes {', '.join(step.writes)}"
