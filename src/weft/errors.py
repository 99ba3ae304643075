"""The error tree: what a user can mend, and what is a bug of ours.

Every error that Weft raises on purpose is one of the two.  A ``UserError`` names the
rule that was broken, what was got, what to do about it and where in the model it is.
"""

from __future__ import annotations

import traceback
from collections.abc import Collection
from difflib import get_close_matches
from functools import partial
from math import isfinite
from types import CodeType
from typing import cast

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


def is_weft(function: object) -> bool:
    """Whether a function, or the class of a callable object, is Weft's own."""
    while isinstance(function, partial):
        function = cast(object, function.func)
    module: object = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0] == "weft"


def fault(what: str, function: object, error: Exception, *, where: str = "") -> UserError:
    """The error that a function that is not Weft's failed: to be raised from what it raised.

    Args:
        what: it is, such as ``rule double-relu: `after```.
        function: that failed.
        error: that it raised.
        where: in the model.
    """
    place = ", ".join(filter(None, (_line(function, error), where)))
    if isinstance(error, UserError):
        inner = f"{error.where}; {place}" if error.where else place
        return UserError(f"{what}: {error.rule}", got=error.got, fix=error.fix, where=inner)
    return UserError(f"{what} failed", got=named(error), where=place)


def named(error: BaseException) -> str:
    """An exception as its class and what it says."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def placed(function: object) -> str:
    """Where a function begins: its file and line; nothing where Python does not know."""
    return _line(function, None)


def _line(function: object, error: Exception | None) -> str:
    """A function's file and the line in it where an error came up, or where it begins."""
    while isinstance(function, partial):
        function = cast(object, function.func)
    called = function if hasattr(function, "__code__") else vars(type(function)).get("__call__")
    code: CodeType | None = getattr(called, "__code__", None)
    frames = list(traceback.extract_tb(error.__traceback__ if error else None))
    if code is None:
        last = frames[-1] if len(frames) > 1 else None
        return f"{last.filename}, line {last.lineno}" if last else ""
    lines = [each.lineno for each in frames if each.filename == code.co_filename]
    return f"{code.co_filename}, line {lines[-1] if lines else code.co_firstlineno}"


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
