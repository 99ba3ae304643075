# pyright: basic
"""The memory that a module's code will need, asked for while PyTorch exports the module."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import torch

from weft.options import Options
from weft.runtime.cache import Cache, digest
from weft.runtime.identity import digest_self
from weft.runtime.record import MEMORY, MadeFor, read_record, write_record
from weft.runtime.reserve import LEAST, Ahead
from weft.torch.eager import lies
from weft.torch.execution import CompiledPart

_MOST = 16
"""Bytes of memory for one of a module's parameters and buffers, of whatever a record says."""


class Foreseen:
    """What a module of this architecture took when it was compiled before, on this machine.

    The cache tells, by names and types of weights, types of arguments, and options.  It is a
    guess: what is not taken after all is given back.

    Args:
        module: to be compiled.
        leaves: the arguments, flattened.
        options: of building.
    """

    def __init__(self, module: torch.nn.Module, leaves: Sequence[Any], options: Options) -> None:
        kind = type(module)
        self._kind = kind.__qualname__
        weights = [*module.named_parameters(), *module.named_buffers()]
        self._bytes = sum(each.nbytes for _, each in weights)
        self._ahead: Ahead | None = None
        about = [f"{name} {lies(each)}" for name, each in weights]
        about += [*map(lies, leaves), str(options), kind.__module__, kind.__qualname__]
        self._worth = self._bytes >= LEAST
        self._name = digest(["foreseen", *about, digest_self()]) + MEMORY if self._worth else ""
        self._known: list[int] = []

    def begin(self) -> None:
        """Asks for the memory."""
        match read_record(Cache(), self._name) if self._worth else None:
            case {"bytes": [*known]} if all(isinstance(each, int) and each > 0 for each in known):
                self._known = known
        if 0 < sum(self._known) <= _MOST * self._bytes:
            # Where there is not so much, compiled code will tell, if it needs it.
            with suppress(OSError):
                self._ahead = Ahead(self._known)

    def end(self, parts: Sequence[CompiledPart] = ()) -> None:
        """Gives back what was not taken, and notes for the next time what was needed.

        Args:
            parts: what was compiled.
        """
        if self._ahead is not None:
            self._ahead.close()
        needed = [size for part in parts for size in _needed(part) if size >= LEAST]
        if self._worth and needed and needed != self._known:
            made_for = asdict(MadeFor(self._kind, "memory of a PyTorch module"))
            write_record(Cache(), self._name, {"made_for": made_for, "bytes": needed})


def _needed(part: CompiledPart) -> list[int]:
    built = part.compiled.library.built
    first = built.preparing
    return [*([first.bytes, first.arena_bytes] if first else []), built.arena_bytes]
