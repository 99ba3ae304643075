# pyright: basic
"""What forwards change of their modules, given back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from weft.torch.traced import Traced

_PLAIN = (int, float, complex, str, bytes, bool, torch.dtype, torch.device, torch.Size)
"""Types whose values are the same where they are equal."""
_OWN = ("_flat_weights", "_flat_weight_refs")
"""Attributes that recurrent modules make anew of whatever weights they have."""


@contextmanager
def restored(module: torch.nn.Module) -> Iterator[list[str]]:
    """Gives the attributes of a module and its submodules back what a forward changes.

    Recorded tensors that dicts gain are taken out and are no change: the next call makes others.
    Numbers in the place of numbers are no change, either: ``exported_alike`` looks at these.

    Args:
        module: whose forward runs within the block.

    Yields:
        A list, which holds after the block what was changed.
    """
    spaces = [(each, vars(each), dict(vars(each))) for each in module.modules()]
    containers: dict[int, tuple[Any, Any]] = {}
    for _, _, known in spaces:
        for name, value in known.items():
            if name not in ("_parameters", "_buffers"):
                _note(value, containers)
    changed: list[str] = []
    try:
        yield changed
    finally:
        for each, space, known in spaces:
            changed += _restored(each, space, known)
        for value, known in containers.values():
            if not _same_contents(value, known):
                if not _gains(value, known):
                    changed.append(type(value).__name__)
                give_back(value, known)


def _restored(
    module: torch.nn.Module, space: dict[str, Any], known: Mapping[str, Any]
) -> list[str]:
    """Gives attributes their values back; the names of those that the forward changed."""
    names = [name for name in known.keys() | space.keys() if _differs(space, known, name)]
    numbers = {name for name in names if _is_number(space, name) and _is_number(known, name)}
    for name in names:
        if name in known:
            space[name] = known[name]
        else:
            del space[name]
    # Recurrent modules list the weights that they find, whatever they are.
    own = _OWN if isinstance(module, torch.nn.RNNBase) else ()
    return [name for name in names if name not in numbers and name not in own]


def _is_number(space: Mapping[str, Any], name: str) -> bool:
    return isinstance(space.get(name), int | float)


def _note(value: Any, found: dict[int, tuple[Any, Any]]) -> None:
    if isinstance(value, list | dict | set | deque | tuple) and id(value) not in found:
        found[id(value)] = (value, _copied(value))
        for each in value.values() if isinstance(value, dict) else value:
            _note(each, found)


def _copied(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value)


def _same_contents(value: Any, known: Any) -> bool:
    if isinstance(value, tuple):
        return True
    if isinstance(value, dict):
        return _same_items(value, known)
    if isinstance(value, set):
        return len(value) == len(known) and all(each in value for each in known)
    return len(value) == len(known) and all(map(_same, value, known))


def _differs(space: Mapping[str, Any], known: Mapping[str, Any], name: str) -> bool:
    return name not in space or name not in known or not _same(space[name], known[name])


def _same_items(value: Mapping[Any, Any], known: Mapping[Any, Any]) -> bool:
    return value.keys() == known.keys() and all(_same(value[key], known[key]) for key in known)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, _PLAIN) and repr(one) == repr(other)


def _gains(value: Any, known: Any) -> bool:
    """Whether a dict has gained recorded tensors and nothing else has changed."""
    return (
        isinstance(value, dict)
        and all(key in value and _same(value[key], known[key]) for key in known)
        and all(type(value[key]) is Traced for key in value if key not in known)
    )


def give_back(value: Any, known: Any) -> None:
    """Makes a list, dict, set or deque hold what it held."""
    value.clear()
    if isinstance(value, dict | set):
        value.update(known)
    else:
        value.extend(known)
