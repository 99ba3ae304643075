"""Layers that are not of Keras, mapped by plugins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.frontends.emit import RefusalError
from weft.plugins import Kind, Table, Unusable


def _accept(name: str, part: object) -> Callable[..., Any]:
    if not callable(part):
        raise Unusable(f"it must be a function (g, config, inputs), but is {type(part).__name__}")
    return part


CUSTOM: Table[Callable[..., Any]] = Table(Kind.KERAS_LAYERS, {}, _accept)
"""What imports custom layers, by the name that they are registered under in Keras."""


def custom_row(registered: str, kind: str) -> Callable[..., Any]:
    """What imports a custom layer: a plugin of its registered name, or of its class.

    Raises:
        RefusalError: no plugin does.
    """
    for name in dict.fromkeys((registered, registered.rpartition(">")[2], kind)):
        found = CUSTOM.get(name)
        if found is not None:
            return found
    why = CUSTOM.why_missing(registered, kind)
    raise RefusalError(
        f"custom layer {registered}, which no plugin imports. {why}".strip().rstrip(".")
    )
