"""What is found of arrays, looked for once for each: they are large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast
from weakref import ReferenceType, ref

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


class _Known:
    """What was found, as long as the arrays live."""

    found: ClassVar[dict[Any, tuple[ReferenceType[np.ndarray], object]]] = {}


def once(
    array: np.ndarray,
    find: Callable[Concatenate[np.ndarray, P], T],
    *arguments: P.args,
    **keywords: P.kwargs,
) -> T:
    """``find(array, *arguments)``, remembered as long as the array lives.

    Args:
        array: that must not change.
        find: a function of a module.
        arguments: hashable ones.
        keywords: none.
    """
    key = (find, id(array), arguments, tuple(keywords.items()))
    known = _Known.found.get(key)
    if known is not None and known[0]() is array:
        return cast(T, known[1])
    found = find(array, *arguments, **keywords)
    _Known.found[key] = ref(array, lambda _: _Known.found.pop(key, None)), found
    return found
