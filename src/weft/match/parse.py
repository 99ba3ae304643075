"""Parse the text of a pattern (the language is described in ``weft.match.pattern``)."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from weft.errors import UserError
from weft.match.pattern import Made, Number, Pattern, Use, Value

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|//[^\n]*|\n(?=\s*\|))
    |(?P<line>\n(?!\s*\|))
    |(?P<number>-?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<string>"[^"\n]*")
    |(?P<rest>\.\.\.)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>[=(){}\[\],?|*])""",
    re.VERBOSE,
)
_LITERALS: dict[str, Any] = {"true": True, "false": False, "none": None}


def parse_pattern(text: str, ops: Collection[str]) -> Made:
    """Read a pattern and return its root.

    Args:
        text: the statements, one per line.
        ops: names of the ops that exist.
    """
    return _Parser(text, ops).pattern()


class _Parser:
    def __init__(self, text: str, ops: Collection[str]) -> None:
        self.text = text
        self.ops = ops
        self.tokens = self._tokens()
        self.position = 0
        self.made: dict[str, Made] = {}
        self.unnamed = 0

    def _tokens(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        position, depth = 0, 0
        while position < len(self.text):
            token = _TOKEN.match(self.text, position)
            if token is None:
                got = self.text[position : position + 20].split("\n")[0]
                raise UserError("pattern: this is no part of one", got=got)
            kind, text = token.lastgroup or "", token.group()
            depth += (text in ("(", "{", "[")) - (text in (")", "}", "]"))
            # Within brackets a statement goes on over the end of the line.
            if kind != "space" and not (kind == "line" and depth):
                found.append((kind, text))
            position = token.end()
        return [*found, ("end", "")]

    def error(self, rule: str) -> UserError:
        """An error at the next token."""
        text = self.tokens[self.position][1].strip()
        return UserError(f"pattern: {rule}", got=text or "the end of the line", where=self.text)

    def sees(self, text: str) -> bool:
        """Whether the next token is this one."""
        return self.tokens[self.position][1] == text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        found = self.sees(text)
        self.position += found
        return found

    def expect(self, text: str) -> None:
        """Take this token."""
        if not self.accept(text):
            raise self.error(f"{text!r} is expected")

    def take(self, kind: str, what: str) -> str:
        """Take a token of a kind."""
        if self.tokens[self.position][0] != kind:
            raise self.error(f"{what} is expected")
        self.position += 1
        return self.tokens[self.position - 1][1]

    def pattern(self) -> Made:
        """All statements; the last is the root."""
        root: Made | None = None
        while self.tokens[self.position][0] != "end":
            if self.accept("\n"):
                continue
            root = self.statement()
            if self.tokens[self.position][0] not in ("line", "end"):
                raise self.error("one statement per line is expected")
        if root is None:
            raise UserError("pattern: at least one statement is expected", got="none")
        return root

    def statement(self) -> Made:
        """``names = expression``."""
        names = [self.take("word", "a name")]
        rest = False
        while not rest and self.accept(","):
            rest = self.accept("...")
            if not rest:
                names.append(self.take("word", "a name"))
        self.expect("=")
        uses = [self.use(self.op())]
        while self.accept("|"):
            uses.append(self.use(self.op()))
        made = Made(tuple(names), tuple(uses), rest)
        for name in names:
            if name in self.made:
                raise UserError(f"pattern: {name} is made twice", where=self.text)
            self.made[name] = made
        return made

    def op(self) -> str:
        """The name of an op that exists."""
        if self.accept("*"):
            return "*"
        name = self.take("word", "an op")
        if name not in self.ops:
            near = get_close_matches(name, self.ops, 3)
            fix = f"Did you mean {' or '.join(near)}?" if near else ""
            raise UserError(f"pattern: {name} is not an op of Weft", fix=fix)
        return name

    def use(self, op: str) -> Use:
        """Operands and conditions of an op."""
        ordered = not self.sees("{")
        self.expect("(" if ordered else "{")
        close = ")" if ordered else "}"
        operands: list[Pattern] = []
        rest = False
        while not self.accept(close):
            if self.accept("..."):
                rest = True
            else:
                operands.append(self.operand())
            if not self.sees(close):
                self.expect(",")
        users, attributes = self.conditions()
        return Use(op, tuple(operands), ordered, rest, users, attributes)

    def operand(self) -> Pattern:
        """A value, a constant, a number or an expression."""
        if self.tokens[self.position][0] == "number":
            return Number(float(self.take("number", "a number")))
        if self.accept("const"):
            return Value(self.take("word", "a name"), constant=True)
        if self.sees("*") or self.tokens[self.position + 1][1] in ("(", "{"):
            uses = [self.use(self.op())]
            while self.accept("|"):
                uses.append(self.use(self.op()))
            self.unnamed += 1
            return Made((f"_{self.unnamed}",), tuple(uses))
        name = self.take("word", "an operand")
        if name in self.made:
            return self.made[name]
        return Value(name, optional=self.accept("?"))

    def conditions(self) -> tuple[int | None, tuple[tuple[str, Any], ...]]:
        """``[users=1, attribute=value, ...]``, if there is one."""
        users: int | None = None
        found: list[tuple[str, Any]] = []
        if not self.accept("["):
            return users, ()
        while not self.accept("]"):
            name = self.take("word", "an attribute")
            self.expect("=")
            value = self.literal()
            if name == "users":
                users = int(value)
            else:
                found.append((name, value))
            if not self.sees("]"):
                self.expect(",")
        return users, tuple(found)

    def literal(self) -> Any:
        """A number, a string, a tuple, ``true``, ``false`` or ``none``."""
        kind, text = self.tokens[self.position]
        self.position += 1
        if kind == "number":
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if kind == "string":
            return text[1:-1]
        if text in _LITERALS:
            return _LITERALS[text]
        if text != "(":
            self.position -= 1
            raise self.error("a value is expected")
        found: list[Any] = []
        while not self.accept(")"):
            found.append(self.literal())
            if not self.sees(")"):
                self.expect(",")
        return tuple(found)
