"""What errors in queries say: where, and which name may have been meant."""

from __future__ import annotations

from weft.errors import UserError, nearest

__all__ = ["error_at", "nearest"]


def error_at(text: str, at: int, rule: str, *, got: str = "", fix: str = "") -> UserError:
    """An error that shows the line and the place in it."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)].expandtabs(1)
    number = text.count("\n", 0, at) + 1
    where = f"line {number}, column {at - start + 1}\n    {line}\n    {' ' * (at - start)}^"
    return UserError(f"query: {rule}", got=got, fix=fix, where=where)
