"""The error tree: what a user can mend, and what is a bug of ours.

Every error that Weft raises on purpose is one of the two.  A ``UserError`` names the
rule that was broken, what was got, what to do about it and where in the model it is.
"""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from math import isfinite

# Of names, where all that there are are listed.
_MOST_TOLD = 40


class WeftError(Exception):
    """The root of every error that Weft raises on purpose."""


class UserError(WeftError):
    """Something about the input, the model or the request that the user can mend.

    Args:
        rule: what must hold, as a sentence without a full stop
            (``conv: weight has 3 input channels per group, input has 4 and groups=1``).
        got: what was found instead.
        fix: what to do about it.
        where: the place in the model, usually ``node NAME``.
    """

    def __init__(self, rule: str, *, got: str = "", fix: str = "", where: str = "") -> None:
        self.rule = rule
        self.got = got
        self.fix = fix
        self.where = where
        text = rule
        if got:
            text += f"; got {got}"
        if where:
            text += f" ({where})"
        if fix:
            text += f". {fix}"
        super().__init__(text)


class InternalError(WeftError):
    """A bug in Weft: says what was believed and carries the IR at that point.

    Args:
        message: the belief that did not hold.
        dump: printed IR that reproduces it, if there is any.
    """

    def __init__(self, message: str, dump: str = "") -> None:
        self.dump = dump
        super().__init__(
            f"internal error: {message}. This is a bug in Weft; please report it"
            + (f" with this IR:\n{dump}" if dump else "")
        )


def above_zero(what: str, value: float) -> float:
    """A duration or the like, which must be a finite number above zero."""
    if not (isfinite(value) and value > 0):
        raise UserError(f"{what} must be a finite number above 0", got=f"{value:g}")
    return value


def nearest(name: str, known: Collection[str], count: int = 3) -> str:
    """The sentence that asks whether another name is meant, if one is near.

    Args:
        name: that nothing has.
        known: names that something has; where none is spelt like it, those count of which it
            is a part (``relu`` of ``/layer1/relu/Relu``).
        count: how many names are told at the most.
    """
    near = nearest_names(name, known, count)
    return f"Did you mean {' or '.join(near)}?" if near else ""


def nearest_or_all(name: str, known: Collection[str]) -> str:
    """The sentence that asks whether another name is meant, or lists all where none is near."""
    if near := nearest(name, known):
        return near
    listed = ", ".join(list(known)[:_MOST_TOLD]) or "none"
    more = len(known) - _MOST_TOLD
    return f"There are: {listed}" + (f" and {more} more." if more > 0 else ".")


def nearest_names(name: str, known: Collection[str], count: int = 3) -> list[str]:
    """What ``nearest`` tells: the names that may be meant, the nearest first."""
    lower = {each.lower(): each for each in sorted(known)}
    wanted = name.lower()
    near = [lower[each] for each in get_close_matches(wanted, lower, count)]
    if not near and len(wanted) > 1:
        near = sorted((lower[each] for each in lower if wanted in each), key=len)[:count]
    return near
