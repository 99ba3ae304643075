# pyright: basic
"""What lists, other containers and plain objects among a module's attributes hold.

Code was made for it, too, but it changes without an assignment that ``weft.torch.watch`` would
see.  It is compared where a user says that something changed.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Hashable, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from weft.torch.watch import PLAIN, exact

MOST = 1 << 14
"""So many values are compared, what lies nearest to the modules first."""
_OF_ALL = frozenset(vars(nn.Module()))
_CLOSED = (nn.Module, torch.Tensor, type, FunctionType, MethodType, ModuleType)


def contents(module: nn.Module) -> list[Hashable]:
    """What the containers hold now; equal to what they held before if code sees no difference.

    Tensors, and objects that have no attributes, are equal to themselves only.

    Args:
        module: whose attributes, and those of its submodules, are looked into.
    """
    waiting = deque(
        value
        for each in module.modules()
        for name, value in vars(each).items()
        if name not in _OF_ALL
    )
    found: list[Hashable] = []
    places: dict[int, int] = {}
    while waiting and len(found) < MOST:
        value = waiting.popleft()
        if id(value) in places:
            found.append(places[id(value)])
            continue
        items = _items(value)
        if items is None:
            found.append((type(value), _key(value)))
        else:
            places[id(value)] = len(found)
            found.append((type(value), len(items)))
            waiting.extend(items)
    return found


def _items(value: Any) -> Sequence[Any] | None:
    """What a container or a plain object holds; ``None`` for anything else."""
    kind = type(value)  # a weak proxy says that it is of another class, or raises an error
    if issubclass(kind, (list, tuple, deque)):
        return list(value)
    if issubclass(kind, dict):
        return [*value, *value.values()]
    if issubclass(kind, _CLOSED) or not kind.__dictoffset__:
        return None
    return [*vars(value), *vars(value).values()]


def _key(value: Any) -> Hashable:
    kind = type(value)
    if issubclass(kind, PLAIN):
        return exact(value)
    if issubclass(kind, set):
        return frozenset(value)
    if issubclass(kind, np.ndarray):
        return str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).digest()
    return id(value)
