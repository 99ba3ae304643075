"""Attributes as people write them, turned into what the attribute classes hold."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import Symbol

_WORDS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    bool: ("true or false", "true and false"),
    DType: ("an element type such as 'f32'", "element types"),
    Graph: ("a graph", "graphs"),
    Symbol: ("a symbol", "symbols"),
    NoneType: ("None", "None"),
}


def described(hint: Any) -> str:
    """What a type means, for errors: ``a tuple of whole numbers``."""
    return _described(hint, 0)


def _described(hint: Any, plural: int) -> str:
    if get_origin(hint) in (Union, UnionType):
        # A number covers a whole one.
        members = [
            each for each in get_args(hint) if each is not int or float not in get_args(hint)
        ]
        return " or ".join(_described(each, plural) for each in members)
    if get_origin(hint) is tuple:
        return f"a tuple of {_described(get_args(hint)[0], 1)}"
    return _WORDS[hint][plural]


def coerced(hint: Any, value: object) -> Any:
    """The value as the type holds it.

    Raises:
        TypeError, ValueError: it is of another kind.
    """
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _one_of(get_args(hint), value)
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, list | tuple | np.ndarray):
            raise TypeError
        element = get_args(hint)[0]
        return tuple(coerced(element, each) for each in cast(Iterable[object], value))
    return _scalar(hint, value)


def _one_of(hints: tuple[Any, ...], value: object) -> Any:
    # A type that needs no conversion goes before one that does: 2 stays whole where it may.
    for hint in sorted(hints, key=lambda each: type(value) is not each):
        try:
            return coerced(hint, value)
        except (TypeError, ValueError):
            continue
    raise TypeError


def _scalar(hint: Any, value: object) -> Any:
    if isinstance(value, np.generic):
        value = cast(object, value.item())
    if hint is int and isinstance(value, int):
        return int(value)
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is DType:
        return _dtype(value)
    if isinstance(hint, type) and hint not in (int, float, bool) and isinstance(value, hint):
        return value
    raise TypeError


def _dtype(value: Any) -> DType:
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in {each.value for each in DType}:
        return DType(value)
    try:
        return DType.of(np.dtype(value))
    except KeyError:
        raise TypeError from None
