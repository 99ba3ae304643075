"""The text of a plan: all its decisions, for people to read and edit, and to parse back.

::

    weft plan 1 of digits @0123456789abcdef {
      target x86-avx512 {vector_bytes=64, registers=32, caches=(32768, 1048576), fused=true}
      threads 1
      constraints {exact=true}
      state %h = %h_next
      values {
        %x: f32[1,1,8,8] input
        %y: f32[1,16,8,8] arena at 4096, 4096 bytes, strides (1024, 1, 128, 16)
        %z: f32[1,1024] in %y at 0
      }
      steps {
        %y = Conv + Relu(%x, %w, %b) {
          kernel tiled-8x1, cheapest
          %w as int8, 1216 bytes, error 0.00412
          winograd refused "the stride is 2"
          tiled {
            tiled-8x1 9216 cycles sums tiled
          }
        }
      }
      arena 8192 bytes, at least 8192, greedy
    }

Names are written as in the text of a graph; a line that starts with ``//`` is a comment.
``weft.plan.parse`` reads it back, and ``weft.plan.given`` says what may be edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field
from typing import Any

from weft.errors import UserError
from weft.ir.printer import show_attributes, string_text, value_text
from weft.plan.choice import MAX_ROUNDING, Answer, Offered, Reason
from weft.plan.program import Arena
from weft.records import dataclass

FORMAT = 1
"""The version of the format."""
RESERVED = frozenset(
    "weft plan of target threads constraints state values steps arena at bytes in strides kernel "
    "place scratch stage body refused cycles us sums declined least true false none as "
    "error".split()
)
"""Words of the grammar: names that are one of them are quoted."""
NAME = re.compile(r"[A-Za-z_][\w.-]*")
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Constraints:
    """What a plan was made under, beside the target and the number of threads.

    Attributes:
        exact: without kernels that round more than the definitions do; plain: with plain
            loops only; libraries: whose functions were alternatives; tuned: with measured
            choices.
        flavour: of the C; the target's own if empty.
        ram: bytes that arena, stack, inputs and outputs must fit into; flash: bytes that code
            and constants must fit into; ``None`` where there is no limit.
        parameters: constants that are given at run time, by name.
        regions: memories that the arena must fit into, as ``NAME=BYTES``.
        encoding: of weights, where one was asked for.
        optimize: what kernels were to be chosen for, where that was asked for.
        precision: that values are stored in, where it is not float32; keep_float32: layers that
            stay in it nevertheless; max_rounding: that faster algorithms may add.
        streamed: of each chain of layers that is computed by strips of rows, its first and last
            node and the number of strips, one after the other.
        images: values that a loop over the images of the batch hands out; none where there is
            no such loop.
    """

    exact: bool = False
    plain: bool = False
    libraries: tuple[str, ...] = ()
    tuned: bool = False
    flavour: str = ""
    ram: int | None = None
    flash: int | None = None
    parameters: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    encoding: str = ""
    optimize: str = ""
    precision: str = ""
    keep_float32: tuple[str, ...] = ()
    max_rounding: float = MAX_ROUNDING
    streamed: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints()


@dataclass(frozen=True, slots=True)
class ValueText:
    """Where a value lies.

    Attributes:
        name: of the value; type: as text.
        region: ``input``, ``output``, ``weights``, ``state`` or ``arena``; empty for a view.
        within: the value whose memory a view shares.
        offset: bytes from the start of the arena's region, or of ``within``.
        bytes: that a value of the arena takes.
        arena: the region of the arena, where there are several.
        strides: elements from one to the next along each dimension; empty if row-major.
        line: of the text, from 1.
    """

    name: str
    type: str
    region: str = ""
    within: str = ""
    offset: int = 0
    bytes: int = 0
    strides: tuple[int, ...] = ()
    line: int = field(default=0, compare=False)
    arena: str = ""


@dataclass(frozen=True, slots=True)
class EncodingText:
    """How a step's weights are stored.

    Attributes:
        value: the constant; encoding: its name (``weft.kernels.encodings``).
        bytes: that are stored.
        error: root mean square of what rounding changes, relative to that of the weights.
    """

    value: str
    encoding: str
    bytes: int
    error: float = 0.0

    def __str__(self) -> str:
        error = f", error {self.error!r}" if self.error else ""
        return f"{value_text(self.value)} as {word(self.encoding)}, {self.bytes} bytes{error}"


@dataclass(frozen=True, slots=True)
class StepText:
    """A step, or a stage of a fused chain.

    Attributes:
        writes: values that it makes; ops: that it does; reads: values that it reads.
        kernel: the alternative; ``extern`` for a C body, ``scan`` for a loop over ``body``.
        reason: why it is this one, where there was a choice.
        in_place: the root whose memory the result takes over.
        scratch: bytes that it needs while it runs, at ``scratch_offset`` of the arena, in its
            region ``scratch_arena``.
        encodings: of weights that are not stored as they are.
        answers: of the generators.
        stages: of a fused chain; the last one makes what the step writes.
        body: the plan of the loop's body.
        line: of the text, from 1.
    """

    writes: tuple[str, ...]
    ops: tuple[str, ...]
    reads: tuple[str, ...]
    kernel: str
    reason: Reason | None = None
    in_place: str = ""
    scratch: int = 0
    scratch_offset: int = 0
    encodings: tuple[EncodingText, ...] = ()
    answers: tuple[Answer, ...] = ()
    stages: tuple[StepText, ...] = ()
    body: BodyText | None = None
    line: int = field(default=0, compare=False)
    scratch_arena: str = ""

    @property
    def micros(self) -> Mapping[str, float]:
        """Measured microseconds by alternative."""
        offered = [each for answer in self.answers for each in answer.alternatives]
        return {each.name: each.micros for each in offered if each.micros is not None}


@dataclass(frozen=True, slots=True)
class BodyText:
    """The decisions of a plan.

    Attributes:
        values: where each lies; steps: in order of execution.
        arena_bytes: size of the arena; lower_bound: what no placement could beat.
        method: what found the offsets.
        arenas: the regions of the arena; none where it is one.
        line: of the text, from 1.
    """

    values: tuple[ValueText, ...]
    steps: tuple[StepText, ...]
    arena_bytes: int
    lower_bound: int
    method: str
    arenas: tuple[Arena, ...] = ()
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan as data: prints, parses and compares.

    Attributes:
        name: of the graph.
        digest: of the graph's architecture (``weft.ir.printer.architecture``).
        target: name of the machine; facts: what of it decides, as text by name.
        threads: that there is scratch memory for.
        constraints: that it was made under.
        body: the decisions.
        states: by input that is a state, the output that takes its memory.
    """

    name: str
    digest: str
    target: str
    facts: Mapping[str, str]
    threads: int
    constraints: Constraints
    body: BodyText
    states: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""

        def plain(pairs: Iterable[tuple[str, Any]]) -> dict[str, object]:
            return {
                key: value.value if isinstance(value, Reason) else value
                for key, value in pairs
                if key != "line"
            }

        return asdict(self, dict_factory=plain)


def refused(rule: str, got: str, line: int, fix: str = "") -> UserError:
    """The error that a plan's text breaks a rule."""
    return UserError(f"plan: {rule}", got=got, where=f"line {line}" if line else "", fix=fix)


def word(name: str) -> str:
    """A name as the grammar has it: quoted where it must be."""
    return name if NAME.fullmatch(name) and name not in RESERVED else string_text(name)


def _lines(plan: PlanText) -> Iterator[str]:
    yield f"weft plan {FORMAT} of {word(plan.name)} @{plan.digest} {{"
    if plan.target:
        facts = ", ".join(f"{name}={text}" for name, text in plan.facts.items())
        yield f"{_INDENT}target {word(plan.target)} {{{facts}}}"
    yield f"{_INDENT}threads {plan.threads}"
    constraints = show_attributes(plan.constraints)
    if constraints:
        yield f"{_INDENT}constraints {{{constraints}}}"
    for value, output in plan.states.items():
        yield f"{_INDENT}state {value_text(value)} = {value_text(output)}"
    yield from _body(plan.body, _INDENT)
    yield "}"


def _body(body: BodyText, indent: str) -> Iterator[str]:
    yield f"{indent}values {{"
    yield from (f"{indent}{_INDENT}{_value(each)}" for each in body.values)
    yield f"{indent}}}"
    yield f"{indent}steps {{"
    for each in body.steps:
        yield from _step(each, indent + _INDENT)
    yield f"{indent}}}"
    for each in body.arenas:
        yield f"{indent}arena {word(each.name)} {each.bytes} bytes, at least {each.lower_bound}"
    yield (
        f"{indent}arena {body.arena_bytes} bytes, at least {body.lower_bound}, {word(body.method)}"
    )


def _value(value: ValueText) -> str:
    if value.within:
        place = f"in {value_text(value.within)} at {value.offset}"
    elif value.region == "arena":
        region = f" {word(value.arena)}" if value.arena else ""
        place = f"arena{region} at {value.offset}, {value.bytes} bytes"
    else:
        place = value.region
    strides = f", strides ({', '.join(map(str, value.strides))})" if value.strides else ""
    return f"{value_text(value.name)}: {value.type} {place}{strides}"


def _step(step: StepText, indent: str, keyword: str = "") -> Iterator[str]:
    inner = indent + _INDENT
    writes = ", ".join(map(value_text, step.writes))
    ops = " + ".join(map(word, step.ops))
    yield f"{indent}{keyword}{writes} = {ops}({', '.join(map(value_text, step.reads))}) {{"
    reason = f", {step.reason.value}" if step.reason else ""
    yield f"{inner}kernel {word(step.kernel)}{reason}"
    if step.in_place:
        yield f"{inner}in place of {value_text(step.in_place)}"
    if step.scratch:
        region = f" in {word(step.scratch_arena)}" if step.scratch_arena else ""
        yield f"{inner}scratch {step.scratch} bytes{region} at {step.scratch_offset}"
    yield from (f"{inner}{each}" for each in step.encodings)
    for answer in step.answers:
        yield from _answer(answer, inner)
    for stage in step.stages:
        yield from _step(stage, inner, "stage ")
    if step.body is not None:
        yield f"{inner}body {{"
        yield from _body(step.body, inner + _INDENT)
        yield f"{inner}}}"
    yield f"{indent}}}"


def _answer(answer: Answer, indent: str) -> Iterator[str]:
    if answer.refusal:
        yield f"{indent}{word(answer.generator)} refused {string_text(answer.refusal)}"
        return
    yield f"{indent}{word(answer.generator)} {{"
    yield from (f"{indent}{_INDENT}{_offered(each)}" for each in answer.alternatives)
    yield f"{indent}}}"


def _offered(each: Offered) -> str:
    parts = [word(each.name)]
    if each.cycles is not None:
        parts.append(f"{each.cycles:.0f} cycles")
    if each.micros is not None:
        parts.append(f"{each.micros:.3f} us")
    parts.append(f"sums {word(each.sums)}")
    if each.error:
        parts.append(f"error {each.error!r}")
    return " ".join(parts if each.applies else [*parts, "declined"])
