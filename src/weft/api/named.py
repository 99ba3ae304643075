"""Inputs by position or by name, and outputs that are a tuple with names."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from keyword import iskeyword
from typing import Any, TypeVar, cast

import numpy as np

from weft.errors import UserError, nearest_or_all
from weft.ir.buffers import ArrayLike
from weft.plan.program import Port
from weft.screen import several, some

Given = TypeVar("Given")

_SHOWN_ELEMENTS = 12


@lru_cache(maxsize=256)
def fields_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Python identifiers for names, in order and each once: ``/head/out.0`` is ``head_out_0``."""
    found: dict[str, None] = {}
    for place, name in enumerate(names):
        safe = "".join(each if each.isalnum() or each == "_" else "_" for each in name)
        # A name of a tuple's field cannot begin with an underscore.
        safe = safe.strip("_") or f"value_{place}"
        if not safe.isidentifier():
            safe = f"value_{safe}"
        if iskeyword(safe) or safe in ("count", "index"):
            safe += "_"
        field, number = safe, 2
        while field in found or (field != name and field in names):
            field, number = f"{safe}_{number}", number + 1
        found[field] = None
    return tuple(found)


# --- inputs ---------------------------------------------------------------------------------


def arranged(
    network: str,
    noun: str,
    names: Sequence[str],
    given: Sequence[Given | Mapping[str, Given]],
    named: Mapping[str, Given],
) -> tuple[Given, ...]:
    """What is given for names, in their order.

    Args:
        network: its name, for errors.
        noun: what the names are of: ``input`` or ``output``.
        names: of all that must be given.
        given: by position, or one mapping by name.
        named: by name, or by the identifiers that ``fields_of`` makes of names.

    Raises:
        UserError: a name is unknown, has nothing, or has two.
    """
    positional = given
    by_name = dict(named)
    if len(given) == 1 and isinstance(given[0], Mapping):
        mapping = cast(Mapping[str, Given], given[0])
        twice = [name for name in mapping if name in by_name]
        if twice:
            raise _twice(noun, twice[0], "in the mapping and as an argument")
        positional, by_name = (), {**mapping, **by_name}
    rule = f"{network} has {several(len(names), noun)}: {some(names, 12)}"
    if len(positional) > len(names):
        raise UserError(rule, got=several(len(positional) + len(by_name), "array"))
    found = dict(zip(names, cast(Sequence[Given], positional), strict=False))
    aliases = dict(zip(fields_of(tuple(names)), names, strict=True))
    for key, value in by_name.items():
        name = key if key in names else aliases.get(key)
        if name is None:
            raise UserError(rule, got=str(key), fix=nearest_or_all(str(key), names))
        if name in found:
            raise _twice(noun, name, "by position and by name" if positional else "by two names")
        found[name] = value
    missing = [name for name in names if name not in found]
    if missing:
        raise UserError(
            rule,
            got=f"nothing for {some(missing, 12)}",
            fix="Pass each by position or by name.",
        )
    return tuple(found[name] for name in names)


def call_inputs(
    network: str,
    ports: Sequence[Port],
    inputs: Sequence[ArrayLike | Mapping[str, ArrayLike]],
    named: Mapping[str, ArrayLike],
) -> tuple[ArrayLike, ...]:
    """A call's inputs in order; those by position are counted where they are read."""
    if not named and not isinstance(inputs[0], Mapping):
        return cast(tuple[ArrayLike, ...], inputs)
    return arranged(network, "input", [port.name for port in ports], inputs, named)


def call_outputs(
    network: str,
    ports: Sequence[Port],
    out: ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike],
) -> Sequence[ArrayLike]:
    """What a call writes its outputs into, in order."""
    if isinstance(out, Mapping):
        return arranged(network, "output", [port.name for port in ports], (), out)
    return out if isinstance(out, list | tuple) else (cast(ArrayLike, out),)


def _twice(noun: str, name: str, how: str) -> UserError:
    return UserError(f"every {noun} is given once", got=f"{name} twice: {how}")


# --- outputs --------------------------------------------------------------------------------


_item: Any = tuple[np.ndarray, ...].__getitem__


class Outputs(tuple[np.ndarray, ...]):
    """The outputs of a network: a tuple whose fields have the outputs' names.

    A name that is no Python identifier has a field that is one; ``outputs["/head/out"]`` takes
    the network's own name.  ``_fields`` has the fields, ``_names`` the network's names.
    """

    __slots__ = ()
    _fields: tuple[str, ...] = ()
    _names: tuple[str, ...] = ()

    def __getitem__(self, place: Any) -> Any:
        """An output by its place or its name."""
        if not isinstance(place, str):
            return _item(self, place)
        for names in (self._names, self._fields):
            if place in names:
                return _item(self, names.index(place))
        raise UserError(
            "there is no such output", got=place, fix=nearest_or_all(place, self._names)
        )

    def __repr__(self) -> str:
        pairs = zip(self._names, self, strict=True)
        return "\n".join(f"{name} {_shown(each)}" for name, each in pairs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._names, tuple(self))


def _shown(array: np.ndarray) -> str:
    with np.printoptions(threshold=_SHOWN_ELEMENTS, edgeitems=2, precision=4):
        elements = " ".join(str(array.reshape(-1)).split())
    return f"{array.dtype}{list(array.shape)} {elements}"


@lru_cache(maxsize=256)
def outputs_type(names: tuple[str, ...]) -> type[Outputs]:
    """The type of the outputs of a network."""
    fields = fields_of(names)
    base: Any = namedtuple("Outputs", fields)  # pyright: ignore[reportUntypedNamedTuple]
    members = {"__slots__": (), "__doc__": Outputs.__doc__, "_names": names, "_fields": fields}
    return cast(type[Outputs], type("Outputs", (Outputs, base), members))


def _rebuilt(names: tuple[str, ...], arrays: tuple[np.ndarray, ...]) -> Outputs:
    return named_outputs(outputs_type(names), arrays)


named_outputs: Callable[[type[Outputs], tuple[np.ndarray, ...]], Outputs] = tuple.__new__  # pyright: ignore
"""``named_outputs(kind, arrays)``: past the constructor, which takes field by field."""
