"""What errors in queries say: where, and which name may have been meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from weft.errors import UserError


def error_at(text: str, at: int, rule: str, *, got: str = "", fix: str = "") -> UserError:
    """An error that shows the line and the place in it."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)].expandtabs(1)
    number = text.count("\n", 0, at) + 1
    where = f"line {number}, column {at - start + 1}\n    {line}\n    {' ' * (at - start)}^"
    return UserError(f"query: {rule}", got=got, fix=fix, where=where)


def nearest(name: str, known: Collection[str]) -> str:
    """The sentence that asks whether another name is meant, if one is near."""
    lower = {each.lower(): each for each in sorted(known)}
    near = [lower[each] for each in get_close_matches(name.lower(), lower, 3)]
    return f"Did you mean {' or '.join(near)}?" if near else ""
