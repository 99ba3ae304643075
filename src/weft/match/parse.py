"""Read the text of a query (``grammar.lark``); what its names mean is for ``resolve``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from weft.errors import UserError
from weft.match.hints import hint
from weft.match.messages import error_at
from weft.match.pattern import (
    NONE,
    REST,
    WILDCARD,
    AnyOf,
    Compared,
    Condition,
    Either,
    Expression,
    Fact,
    Link,
    Look,
    NodePattern,
    Not,
    Other,
    PatternNumber,
    PatternPart,
    PatternRepeat,
    QueryText,
    Sequence,
    Statement,
    ValuePattern,
)

GRAMMAR = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")

MOST_REPEATS = 1000
"""How often a counted repetition may ask for its body."""


def parse(text: str) -> QueryText:
    """Read a query."""
    try:
        statements = _parser().parse(text)
    except UnexpectedCharacters as error:
        got = text[error.pos_in_stream :].split("\n")[0][:20]
        at = cast(int, error.pos_in_stream)
        raise error_at(text, at, "this is no part of one", got=got, fix=hint(text, at)) from None
    except UnexpectedToken as error:
        token = cast(Token, error.token)
        ended = token.type == "$END"
        at = len(text.rstrip()) if ended else token.start_pos or 0
        got = "the end" if ended else repr(str(token)) if str(token) != "\n" else "a new line"
        wanted = _wanted(error.accepts or error.expected)
        fix = "" if ended else hint(text, at)
        raise error_at(text, at, f"{wanted} is expected", got=got, fix=fix) from None
    except UnexpectedEOF:
        raise error_at(text, len(text), "more is expected", got="the end") from None
    except _Refusal as refusal:
        fix = hint(text, refusal.at)
        raise error_at(text, refusal.at, refusal.rule, got=refusal.got, fix=fix) from None
    return _gathered(text, statements)


def _gathered(text: str, found: Any) -> QueryText:
    statements: list[Statement] = []
    definitions: dict[str, Expression] = {}
    distinct: list[tuple[str, str, int]] = []
    for each in found:
        match each:
            case Statement():
                statements.append(each)
            case ("def", name, expression, at):
                if name in definitions:
                    raise error_at(text, at, f"{name} is defined twice")
                definitions[name] = expression
            case _:
                distinct.append(each)
    if not statements:
        raise UserError("query: at least one statement is expected", got=text.strip() or "none")
    return QueryText(text, tuple(statements), definitions, tuple(distinct))


_SAID = {
    "ARROW": "'->'",
    "NAME": "a name",
    "OP": "an op",
    "NUMBER": "a number",
    "STRING": "a string",
    "SEPARATOR": "a new statement",
    "EQUAL": "'='",
    "RPAR": "')'",
    "RSQB": "']'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "COLON": "':'",
    "DOTS": "'...'",
}


def _wanted(terminals: Collection[str]) -> str:
    """What could have stood there, shortly."""
    if {"STRING", "NUMBER"} <= set(terminals):
        return "a value"
    if {"OP", "NUMBER", "NAME"} <= set(terminals):
        return "an op, a name or a number"
    found = [_SAID[each] for each in _SAID if each in terminals]
    return " or ".join(found[:4]) if found else "something else"


class _Refusal(Exception):
    """What the grammar allows and the language does not."""

    def __init__(self, at: int, rule: str, got: str = "") -> None:
        self.at = at
        self.rule = rule
        self.got = got


class _Lines:
    """Leaves of the ends of lines and the semicolons only those between statements."""

    always_accept = ("SEPARATOR",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Filter the tokens."""
        depth, held, last = 0, None, ""
        for token in stream:
            if token.type == "SEPARATOR":
                if not (depth or held or last in _GOES_ON_AFTER):
                    held = token
                continue
            if held is not None and token.type not in _GOES_ON_WITH:
                yield held
            held = None
            depth += (token.type in _OPENING) - (token.type in _CLOSING)
            last = token.type
            yield token


_OPENING = frozenset({"LPAR", "LSQB", "LBRACE", "LOOK"})
_CLOSING = frozenset({"RPAR", "RSQB", "RBRACE"})
_GOES_ON_AFTER = frozenset({"", "EQUAL", "LINK", "VBAR", "ARROW", "__ANON_0", "COMMA"})
_GOES_ON_WITH = frozenset({"VBAR", "LINK", "ARROW", "__ANON_0"})

_PORT = re.compile(r"\s*(\d+|[a-z_]\w*)?\s*")


def _port(text: str, at: int) -> str | int | None:
    found = _PORT.fullmatch(text)
    if found is None:
        raise _Refusal(at, "the ends of an edge are names or positions", text.strip())
    port = found[1]
    return int(port) if port and port.isdigit() else port


class _Builder(Transformer[Token, Any]):
    """Makes the parts of a query out of what the grammar finds."""

    def start(self, found: list[Any]) -> list[Any]:
        return [each for each in found if each is not None and not isinstance(each, Token)]

    def definition(self, found: list[Any]) -> Any:
        name, _, expression = found
        return ("def", str(name), expression, name.start_pos)

    def assignment(self, found: list[Any]) -> Statement:
        (names, rest, at), _, expression = found
        return Statement(names, rest, expression, at)

    def distinct(self, found: list[Any]) -> tuple[str, str, int]:
        return (str(found[0]), str(found[2]), found[0].start_pos)

    def chain(self, found: list[Any]) -> Statement:
        return Statement((), False, found[0])

    def names(self, found: list[Any]) -> Any:
        rest = found[-1] is not None and found[-1].type == "DOTS"
        names = tuple(str(each) for each in found if each is not None and each.type == "NAME")
        return names, rest, found[0].start_pos

    def either(self, found: list[Any]) -> Expression:
        return found[0] if len(found) == 1 else Either(tuple(found))

    def sequence(self, found: list[Any]) -> Expression:
        parts = tuple(each for each in found if each is not None)
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def plain(self, _: list[Any]) -> None:
        return None

    def link(self, found: list[Any]) -> Link | None:
        token = found[0]
        at = token.start_pos or 0
        left, colon, right = str(token)[2:-3].partition(":")
        if not colon:
            left, right = "", left
        source, target = _port(left, at), _port(right, at)
        return None if source is None and target is None else Link(source, target, at)

    def step(self, found: list[Any]) -> Expression:
        body, quantifier = found
        if quantifier is None:
            return body
        at = quantifier.start_pos
        match str(quantifier):
            case "?":
                return PatternRepeat(body, 0, 1, at)
            case "*":
                return PatternRepeat(body, 0, None, at)
            case "+":
                return PatternRepeat(body, 1, None, at)
            case counts:
                return _counted(body, counts, at)

    def look(self, found: list[Any]) -> Look:
        mark, body = found
        return Look(body, "<" not in mark, mark.endswith("!"), mark.start_pos)

    def captured_op(self, found: list[Any]) -> NodePattern:
        name, op = found
        return NodePattern(
            op.op, op.operands, op.ordered, op.rest, op.conditions, str(name), name.start_pos
        )

    def captured_part(self, found: list[Any]) -> PatternPart:
        return PatternPart(str(found[1]), str(found[0]), found[1].start_pos)

    def other(self, found: list[Any]) -> Other:
        body = found[0]
        patterns: tuple[Any, ...] = body.options if isinstance(body, Either) else (body,)
        for each in patterns:
            if not isinstance(each, NodePattern) or each.operands or each.capture:
                at = getattr(each, "at", 0)
                raise _Refusal(at, "only ops with conditions can be negated by !")
        return Other(patterns)

    def number(self, found: list[Any]) -> PatternNumber:
        return PatternNumber(float(found[0]))

    def op(self, found: list[Any]) -> NodePattern:
        name, operands, conditions = found
        ordered, listed, rest = operands or (True, None, False)
        return NodePattern(
            str(name), listed, ordered, rest, conditions or (), "", name.start_pos or 0
        )

    def ordered(self, found: list[Any]) -> Any:
        return (True, *_operands(found))

    def unordered(self, found: list[Any]) -> Any:
        return (False, *_operands(found))

    def named(self, found: list[Any]) -> ValuePattern:
        name, conditions = found
        return ValuePattern(str(name), "", False, conditions or (), name.start_pos)

    def kind(self, found: list[Any]) -> ValuePattern:
        kind, name, conditions = found
        return ValuePattern(str(name or ""), str(kind), False, conditions or (), kind.start_pos)

    def conditions(self, found: list[Any]) -> tuple[Condition, ...]:
        return tuple(each for each in found if each is not None)

    def any(self, found: list[Any]) -> Condition:
        found = [Compared(each) if isinstance(each, Fact) else each for each in found]
        return found[0] if len(found) == 1 else AnyOf(tuple(found))

    def negated(self, found: list[Any]) -> Not:
        return Not(Compared(found[0]) if isinstance(found[0], Fact) else found[0])

    def compared(self, found: list[Any]) -> Compared:
        return Compared(found[0], str(found[1]), found[2])

    def fact(self, found: list[Any]) -> Fact:
        token, arguments = found
        text, at = str(token), token.start_pos
        if text.startswith("@"):
            return Fact(text[1:], None, True, arguments, at)
        owner, dot, name = text.rpartition(".")
        if text.startswith("#"):
            if not dot:
                raise _Refusal(at, "a fact of the operand is expected", text)
            return Fact(name, int(owner[1:]), False, arguments, at)
        return Fact(name, owner or None, False, arguments, at)

    def arguments(self, found: list[Any]) -> tuple[Any, ...]:
        return tuple(each for each in found if each is not None)

    def literal(self, found: list[Any]) -> Any:
        token = found[0]
        match token.type:
            case "NUMBER":
                return int(token) if token.lstrip("-").isdigit() else float(token)
            case "STRING":
                return str(token)[1:-1]
            case "DOTS":
                return REST
            case _:
                return _WORDS.get(str(token), str(token))

    def tuple(self, found: list[Any]) -> Any:
        return tuple(each for each in found if each is not None)


_WORDS: dict[str, Any] = {"true": True, "false": False, "none": NONE, "_": WILDCARD}


def _operands(found: list[Any]) -> tuple[tuple[Expression, ...], bool]:
    listed: list[Expression] = []
    rest = False
    for each in found:
        if isinstance(each, Token):
            rest = True
        elif isinstance(each, PatternRepeat) and isinstance(each.body, ValuePattern):
            value = each.body
            if (each.least, each.most) != (0, 1):
                raise _Refusal(each.at, "an operand is there once or, with ?, not at all")
            listed.append(ValuePattern(value.name, value.kind, True, value.conditions, value.at))
        elif each is not None:
            listed.append(each)
    return tuple(listed), rest


def _counted(body: Expression, counts: str, at: int) -> PatternRepeat:
    least, comma, most = (part.strip() for part in counts[1:-1].partition(","))
    low = int(least)
    high = low if not comma else int(most) if most else None
    if high is not None and high < low:
        raise _Refusal(
            at, "a repetition needs a smallest and a largest count in this order", counts
        )
    if max(low, high or 0) > MOST_REPEATS:
        raise _Refusal(at, f"a repetition counts to {MOST_REPEATS} at most", counts)
    return PatternRepeat(body, low, high, at)


@cache
def _parser() -> Any:
    return Lark(
        GRAMMAR,
        parser="lalr",
        lexer="basic",
        postlex=cast(Any, _Lines()),
        transformer=_Builder(),
        maybe_placeholders=True,
    )
