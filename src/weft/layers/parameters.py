"""What layers are told: parameters that do not exist or cannot be are refused at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from types import MappingProxyType
from typing import Any, TypeVar, cast, get_args

import numpy as np

from weft.errors import UserError, nearest
from weft.ops.values import Initial

T = TypeVar("T")


def checked(layer: type[T]) -> type[T]:
    """A layer, which is a dataclass, that says what is wrong with its parameters."""
    # Type checkers warn of access to __init__ since a subclass may change it; this is the class.
    fill = cast(Callable[..., None], layer.__init__)  # type: ignore[misc]
    takes = signature(fill)
    known = [name for name in takes.parameters if name != "self"]

    @wraps(fill)
    def __init__(self: T, *given: Any, **named: Any) -> None:
        for name in named:
            if name not in known:
                raise UserError(
                    f"{layer.__name__}: there is no parameter {name}",
                    got=", ".join(known),
                    fix=nearest(name, known),
                )
        try:
            found = takes.bind(self, *given, **named)
        except TypeError as error:
            raise UserError(f"{layer.__name__}: {error}", got=", ".join(known)) from None
        for name, value in found.arguments.items():
            plain = found.arguments[name] = _plain(value)
            _check(layer.__name__, name, plain)
        fill(*found.args, **found.kwargs)

    layer.__init__ = __init__  # type: ignore[misc]
    return layer


def _plain(value: object) -> object:
    """NumPy's whole numbers as Python's."""
    if isinstance(value, np.integer):
        return int(cast(int, value))
    if isinstance(value, tuple | list):
        return tuple(_plain(each) for each in cast(Sequence[object], value))
    return value


def _check(word: str, name: str, value: object) -> None:
    rule, holds = _RULES.get(name, ("", _anything))
    if not holds(value):
        raise UserError(f"{word}: {name} must be {rule}", got=repr(value))


def _anything(_: object) -> bool:
    return True


def _is_count(value: object) -> bool:
    return _is_whole(value, 1)


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_whole(value: object, least: int) -> bool:
    several = cast(tuple[object, ...], value) if isinstance(value, tuple | list) else (value,)
    return all(_is_whole(each, least) for each in several)


def _are_steps(value: object) -> bool:
    return value is None or _are_whole(value, 1)


def _are_borders(value: object) -> bool:
    return isinstance(value, str) or _are_whole(value, 0)


def _is_drawing(value: object) -> bool:
    return value in get_args(Initial)


def _is_name(value: object) -> bool:
    return isinstance(value, str)


_COUNT = ("a whole number of at least 1", _is_count)
_STEPS = ("a whole number of at least 1, or one for each axis", _are_steps)
_BORDERS = ("a whole number, or one for each axis, none below 0", _are_borders)
_RULES: Mapping[str, tuple[str, Callable[[object], bool]]] = MappingProxyType(
    {
        "channels": _COUNT,
        "groups": _COUNT,
        "rows": _COUNT,
        "kernel": _STEPS,
        "strides": _STEPS,
        "dilations": _STEPS,
        "padding": _BORDERS,
        "output_padding": _BORDERS,
        "initial": (f"one of {', '.join(get_args(Initial))}", _is_drawing),
        "name": ("a string", _is_name),
    }
)
"""By parameter, what must hold in whichever layer has it: in words, and as a test."""
