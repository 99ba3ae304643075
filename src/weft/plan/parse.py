"""Read the text of a plan (``grammar.lark``); whether it fits a graph is for ``given``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from weft.errors import UserError
from weft.plan.choice import Answer, Offered, Reason
from weft.plan.program import Arena
from weft.plan.text import (
    FORMAT,
    BodyText,
    Constraints,
    EncodingText,
    PlanText,
    StepText,
    ValueText,
    refused,
)

GRAMMAR = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
MOST_CHARACTERS = 1 << 26
"""Of a plan's text: a network of a hundred thousand steps needs as many."""
MOST_ARENA = 1 << 40
MOST_DEPTH = 32
"""Plans within plans."""


def parse(text: str) -> PlanText:
    """Reads a plan.

    Raises:
        UserError: it is none; says the rule, what was got, and the line.
    """
    if len(text) > MOST_CHARACTERS:
        got = f"{len(text):,} characters"
        raise UserError(f"plan: a text has {MOST_CHARACTERS:,} characters at the most", got=got)
    try:
        return _parser().parse(text)
    except UnexpectedCharacters as error:
        got = text[error.pos_in_stream :].split("\n")[0][:40]
        raise refused("this is no part of one", got, error.line) from None
    except UnexpectedToken as error:
        token = cast(Token, error.token)
        ended = token.type == "$END"
        wanted = ", ".join(sorted(map(_said, error.accepts or error.expected))[:8])
        line = text.rstrip().count("\n") + 1 if ended else token.line or 0
        got = "the end of the text" if ended else str(token)[:40]
        fix = "It was cut short: write it again with `weft plan MODEL -o FILE`." if ended else ""
        raise refused(f"one of {wanted} is expected", got, line, fix) from None
    except UnexpectedEOF:
        raise refused("more is expected", "the end of the text", text.count("\n") + 1) from None


def _said(terminal: str) -> str:
    """A terminal of the grammar for people."""
    found = {each.name: each.pattern for each in _parser().terminals}.get(terminal)
    return f"'{found.value}'" if found is not None and found.type == "str" else terminal.lower()


class _Literal(NamedTuple):
    """An attribute: as text, and as a value where that is plain."""

    text: str
    value: Any


_NO_TARGET: tuple[str, Mapping[str, str]] = ("", MappingProxyType({}))


class _Place(NamedTuple):
    region: str = ""
    within: str = ""
    offset: int = 0
    bytes: int = 0
    arena: str = ""


class _Nested(NamedTuple):
    body: BodyText


class _Region(NamedTuple):
    name: str
    bytes: int
    lower_bound: int


def _unquoted(text: str, line: int) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        raise refused("a string follows the rules of JSON", text[:40], line) from None


class _Builder(Transformer[Token, Any]):
    """Makes the parts of a plan out of what the grammar finds."""

    def parts(self, found: list[Any]) -> list[Any]:
        """What is no more than its parts."""
        return found

    entry = arena = state = writes = values = kernel = scratch = parts

    # --- tokens ---------------------------------------------------------------------------

    def COUNT(self, token: Token) -> int:
        """A whole number."""
        return int(token)

    def name(self, found: list[Token]) -> str:
        """A word or a string."""
        return _unquoted(str(found[0]), found[0].line or 0)

    def VALUE(self, token: Token) -> Token:
        """The name of a value, without the mark."""
        return token.update(value=_unquoted(str(token)[1:], token.line or 0))

    # --- the header -----------------------------------------------------------------------

    def start(self, found: list[Any]) -> PlanText:
        """The whole."""
        version, name, digest, target, threads, constraints, *states, body = found
        if version != FORMAT:
            raise refused(f"the format must be {FORMAT}", str(version), 1, "Write it again.")
        where, facts = target or _NO_TARGET
        constraints = constraints or Constraints()
        pairs = {str(value): str(output) for value, output in states}
        if len(pairs) != len(states):
            raise refused("a state stands once", ", ".join(str(each) for each, _ in states), 0)
        return PlanText(name, str(digest)[1:], where, facts, threads, constraints, body, pairs)

    def target(self, found: list[Any]) -> tuple[str, Mapping[str, str]]:
        """The machine and its facts."""
        facts: Mapping[str, _Literal] = found[1] or {}
        return found[0], {key: literal.text for key, literal in facts.items()}

    def constraints(self, found: list[Any]) -> Constraints:
        """What it was made under."""
        given: Mapping[str, _Literal] = found[0] or {}
        known = {each.name: getattr(Constraints(), each.name) for each in fields(Constraints)}
        for key, literal in given.items():
            if key not in known:
                raise refused(f"a constraint is one of {', '.join(known)}", key, 0)
            if _kind(literal.value) != (("int",) if known[key] is None else _kind(known[key])):
                raise refused(f"the constraint {key} has another type", literal.text, 0)
        return Constraints(**{key: literal.value for key, literal in given.items()})

    def entries(self, found: list[list[Any]]) -> dict[str, _Literal]:
        """Attributes, each once."""
        made: dict[str, _Literal] = {}
        for name, literal in found:
            if name in made:
                raise refused("an attribute stands once", str(name), name.line or 0)
            made[str(name)] = literal
        return made

    # --- literals -------------------------------------------------------------------------

    def string(self, found: list[Token]) -> _Literal:
        return _Literal(str(found[0]), _unquoted(str(found[0]), found[0].line or 0))

    def integer(self, found: list[Any]) -> _Literal:
        value = -found[1] if found[0] else found[1]
        return _Literal(str(value), value)

    def decimal(self, found: list[Any]) -> _Literal:
        value = float(f"{found[0] or ''}{found[1]}")
        return _Literal(repr(value), value)

    def true(self, _: list[Any]) -> _Literal:
        return _Literal("true", True)

    def false(self, _: list[Any]) -> _Literal:
        return _Literal("false", False)

    def none(self, _: list[Any]) -> _Literal:
        return _Literal("none", None)

    def sequence(self, found: list[Any]) -> _Literal:
        items = [each for each in found if each is not None]
        texts = ", ".join(each.text for each in items)
        text = f"({texts}{',' if len(items) == 1 else ''})"
        return _Literal(text, tuple(each.value for each in items))

    def record(self, found: list[Any]) -> _Literal:
        given: Mapping[str, _Literal] = found[1] or {}
        inner = ", ".join(f"{key}={each.text}" for key, each in given.items())
        return _Literal(f"{found[0]}{{{inner}}}", found[1])

    # --- values ---------------------------------------------------------------------------

    def value(self, found: list[Any]) -> ValueText:
        name, type, place, strides = found
        at, line = cast(_Place, place), name.line or 0
        return ValueText(
            str(name), str(type), at.region, at.within, at.offset, at.bytes, strides or (), line,
            at.arena,
        )  # fmt: skip

    def root(self, found: list[Any]) -> _Place:
        arena, offset, size = found
        return _Place("arena", "", offset, size, arena or "")

    def view(self, found: list[Any]) -> _Place:
        return _Place("", str(found[0]), found[1])

    def port(self, found: list[Token]) -> _Place:
        region = str(found[0])
        if region not in ("input", "output", "weights", "state"):
            rule = "a value lies in input, output, weights, state, the arena, or in another value"
            raise refused(rule, region, found[0].line or 0)
        return _Place(region)

    def counts(self, found: list[int]) -> tuple[int, ...]:
        return tuple(found)

    # --- steps ----------------------------------------------------------------------------

    def body(self, found: list[Any]) -> BodyText:
        values = tuple(each for each in found if isinstance(each, ValueText))
        steps = tuple(each for each in found if isinstance(each, StepText))
        size, bound, method = found[-1]
        if size > MOST_ARENA:
            raise refused(f"an arena has {MOST_ARENA:,} bytes at the most", str(size), 0)
        line, arenas, start = values[0].line if values else 0, list[Arena](), 0
        for each in found:
            if isinstance(each, _Region):
                arenas.append(Arena(each.name, start, each.bytes, each.lower_bound))
                start += each.bytes
        if arenas and start != size:
            raise refused("an arena is as large as its regions", f"{size} for {start} bytes", line)
        if len({each.name for each in arenas}) < len(arenas):
            raise refused("a region stands once", ", ".join(each.name for each in arenas), line)
        return BodyText(values, steps, size, bound, method, tuple(arenas), line)

    def region(self, found: list[Any]) -> _Region:
        return _Region(*found)

    def step(self, found: list[Any]) -> StepText:
        writes, ops, reads, (kernel, reason), in_place, scratch, *parts = found
        bodies = [each.body for each in parts if isinstance(each, _Nested)]
        line = writes[0].line or 0
        if len(bodies) > 1:
            raise refused("a step has one body at the most", f"{len(bodies)} bodies", line)
        size, arena, offset = scratch or (0, None, 0)
        return StepText(
            tuple(map(str, writes)),
            ops,
            tuple(map(str, reads or ())),
            kernel,
            _reason(reason, line),
            str(in_place or ""),
            size,
            offset,
            tuple(each for each in parts if isinstance(each, EncodingText)),
            tuple(
                _marked(each, kernel) if each.alternatives else each
                for each in parts
                if isinstance(each, Answer)
            ),
            tuple(each for each in parts if isinstance(each, StepText)),
            bodies[0] if bodies else None,
            line,
            arena or "",
        )

    def stage(self, found: list[StepText]) -> StepText:
        return found[0]

    def nested(self, found: list[BodyText]) -> _Nested:
        if _depth(found[0]) > MOST_DEPTH:
            raise refused(f"bodies nest at most {MOST_DEPTH} deep", "a deeper one", 0)
        return _Nested(found[0])

    def ops(self, found: list[str]) -> tuple[str, ...]:
        return tuple(found)

    def in_place(self, found: list[Token]) -> str:
        return str(found[0])

    def encoding(self, found: list[Any]) -> EncodingText:
        return EncodingText(str(found[0]), found[1], found[2], float(found[3] or 0))

    def refusal(self, found: list[Any]) -> Answer:
        return Answer(found[0], _unquoted(str(found[1]), found[1].line or 0), ())

    def offers(self, found: list[Any]) -> Answer:
        return Answer(found[0], "", tuple(found[1:]))

    def offered(self, found: list[Any]) -> Offered:
        name, cycles, micros, sums, error, declined = found
        return Offered(name, cycles, sums, not declined, False, micros, float(error or 0))

    def cycles(self, found: list[int]) -> float:
        return float(found[0])

    def micros(self, found: list[Any]) -> float:
        return float(found[0])


def _kind(value: Any) -> tuple[str, ...]:
    """The type of a constraint; of a tuple with anything but strings, none that there is."""
    if isinstance(value, tuple) and all(isinstance(each, str) for each in cast(Any, value)):
        return ("strings",)
    return (type(cast(object, value)).__name__,)


def _reason(text: str | None, line: int) -> Reason | None:
    try:
        return None if text is None else Reason(text)
    except ValueError:
        listed = ", ".join(each.value for each in Reason)
        raise refused(f"a reason is one of {listed}", text or "", line) from None


def _marked(answer: Answer, kernel: str) -> Answer:
    """An answer that says which alternative is chosen."""
    offered = tuple(replace(each, chosen=each.name == kernel) for each in answer.alternatives)
    return Answer(answer.generator, "", offered)


def _depth(body: BodyText) -> int:
    return 1 + max((_depth(each.body) for each in body.steps if each.body), default=0)


@cache
def _parser() -> Any:
    return Lark(
        GRAMMAR,
        parser="lalr",
        lexer="contextual",
        transformer=_Builder(),
        maybe_placeholders=True,
    )
