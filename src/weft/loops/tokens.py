"""Tokens of the text of kernels, and reading them one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

from weft.errors import InternalError
from weft.records import dataclass

T = TypeVar("T")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<float>-?(?:inf|nan)\b | -?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))
    | (?P<int>-?\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>\.\.|//|<<|>>|[=!<>]=|[-+*/%<>=(){}\[\],:|])""",
    re.VERBOSE,
)
_BEFORE_OPERAND = frozenset({"in", "if", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a number or a sign, and where it begins."""

    kind: str
    text: str
    at: int


class Tokens:
    """The tokens of a text, and how far they are read.

    Args:
        text: of kernels.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0

    @property
    def next(self) -> Token:
        """The next one."""
        return self._tokens[self._next]

    def peek(self, ahead: int = 0) -> str:
        """The text of the next one, or of one of those that follow it."""
        return self._tokens[self._next + ahead].text

    def take(self) -> Token:
        """Reads one."""
        token = self.next
        if token.kind == "end":
            raise self.error("more text")
        self._next += 1
        return token

    def accept(self, text: str) -> bool:
        """Reads this text if it is next."""
        if self.peek() != text or self.next.kind == "end":
            return False
        self._next += 1
        return True

    def expect(self, text: str) -> None:
        """Reads this text."""
        if not self.accept(text):
            raise self.error(repr(text))

    def kind(self, kind: str, what: str) -> str:
        """Reads one of a kind."""
        if self.next.kind != kind:
            raise self.error(what)
        return self.take().text

    def end(self) -> None:
        """Nothing may follow."""
        if self.next.kind != "end":
            raise self.error("the end of the text")

    def numbers(self, closing: str) -> tuple[int, ...]:
        """Reads whole numbers, and the sign that ends them."""
        numbers: list[int] = []
        while not self.accept(closing):
            if numbers:
                self.expect(",")
            numbers.append(int(self.kind("int", "a whole number")))
        return tuple(numbers)

    def name(self) -> str:
        """Reads a name."""
        return self.kind("name", "a name")

    def word(self, words: Mapping[str, T], what: str) -> T:
        """Reads one of these words."""
        if self.peek() not in words:
            raise self.error(what)
        return words[self.take().text]

    def error(self, wanted: str, token: Token | None = None) -> InternalError:
        """What is wrong at a token; the next one if not given."""
        token = token or self.next
        line = self._text.count("\n", 0, token.at) + 1
        column = token.at - self._text.rfind("\n", 0, token.at)
        got = repr(token.text) if token.kind != "end" else "the end of the text"
        return InternalError(
            f"kernel text, line {line}, column {column}: expected {wanted}, got {got}"
        )


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    operand = True
    while at < len(text):
        found = _TOKEN.match(text, at)
        kind = "" if found is None else str(found.lastgroup)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise InternalError(f"kernel text, line {line}: unexpected character {text[at]!r}")
        token = found.group()
        if kind in ("int", "float") and token.startswith("-") and not operand:
            # After an operand a minus subtracts.
            kind, token = "sign", "-"
        if kind != "space":
            yield Token(kind, token, at)
            operand = token in _BEFORE_OPERAND or (kind == "sign" and token not in (")", "]"))
        at += len(token)
    yield Token("end", "", len(text))
