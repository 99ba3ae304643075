"""Tokens of a graph's text, and what to say where they are not as they should be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from weft.errors import UserError

STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+ | //[^\n]*)
  | (?P<string>{STRING})
  | (?P<value>%(?:{STRING}|[\w./-]*[\w./]))
  | (?P<arrow>->)
  | (?P<number>-?(?:inf\b|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?))
  | (?P<word>[A-Za-z_][\w.]*)
  | (?P<symbol>\$\w+)
  | (?P<reference>@[0-9a-f]+)
  | (?P<label>\#[^\n]*)
  | (?P<mark>[(){{}}\[\],:=])
    """,
    re.VERBOSE,
)
_LONGEST_INTEGER = 40
_Item = TypeVar("_Item")


class Tokens:
    """The tokens of a text and a place among them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.position = 0

    def _tokens(self) -> Iterable[tuple[str, str, int]]:
        position = 0
        while position < len(self.text):
            found = _TOKEN.match(self.text, position)
            if found is None:
                raise self._error_at(position, "this is no part of a graph")
            if found.lastgroup != "space":
                yield found.lastgroup or "", found.group(), position
            position = found.end()
        yield "end", "the end of the text", len(self.text)

    def _error_at(self, position: int, rule: str) -> UserError:
        line = self.text.count("\n", 0, position) + 1
        rest = self.text[position : position + 40].split("\n")[0]
        return UserError(f"text: {rule}", got=rest or "nothing more", where=f"line {line}")

    @property
    def kind(self) -> str:
        """The kind of the token that comes next."""
        return self.tokens[self.position][0]

    def error(self, rule: str, back: int = 0) -> UserError:
        """An error at the token that comes next, or at one ``back`` before it."""
        return self._error_at(self.tokens[self.position - back][2], rule)

    def take(self, kind: str, what: str) -> str:
        """The next token, which must be of a kind."""
        if self.tokens[self.position][0] != kind:
            raise self.error(f"{what} is expected")
        self.position += 1
        return self.tokens[self.position - 1][1]

    def sees(self, *texts: str) -> bool:
        """Whether the next token is one of these marks or words."""
        kind, text, _ = self.tokens[self.position]
        return text in texts and kind != "string"

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        found = self.sees(text)
        self.position += found
        return found

    def expect(self, text: str) -> None:
        """Take this token or fail."""
        if not self.accept(text):
            raise self.error(f"{text!r} is expected")

    def end(self) -> None:
        """Nothing may follow."""
        self.take("end", "the end of the text")

    def listed(self, read: Callable[[], _Item], close: str) -> list[_Item]:
        """Items with commas between them (one may trail) up to a closing mark."""
        found: list[_Item] = []
        while not self.accept(close):
            found.append(read())
            if not self.sees(close):
                self.expect(",")
        return found

    def number(self) -> int | float:
        """A number."""
        text = self.take("number", "a number")
        if set(text) & set(".eEn"):
            return float(text)
        if len(text) > _LONGEST_INTEGER:
            raise self.error("the number is too long", back=1)
        return int(text)

    def size(self) -> int:
        """A size: a whole number that is not negative."""
        found = self.number()
        if isinstance(found, float) or found < 0:
            raise self.error("a size is a whole number", back=1)
        return found

    def value(self) -> str:
        """The name of a value."""
        return self.unquoted(self.take("value", "a value such as %x")[1:])

    def name(self) -> str:
        """A word or a string."""
        return self.string() if self.kind == "string" else self.take("word", "a name")

    def string(self) -> str:
        """A string."""
        return self.unquoted(self.take("string", "a string"))

    def unquoted(self, text: str) -> str:
        """A name without its quotes, if it has any."""
        if not text.startswith('"'):
            return text
        try:
            return str(json.loads(text))
        except ValueError:
            raise self.error("a string follows the rules of JSON", back=1) from None
