"""Files that graphs come from.

A file is known by its content.  Where a network was built from it before, it is read again
only when somebody wants to see the graph: the cache has what it takes to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.deferred import later
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.records import dataclass
from weft.runtime.cache import Cache, digest
from weft.runtime.identity import digest_file, digest_self
from weft.runtime.record import KNOWN, MadeFor, read_record, write_record

if TYPE_CHECKING:
    from weft.frontends.source import alone, read
else:
    alone, read = later("weft.frontends.source").alone, later("weft.frontends.source").read


@dataclass(frozen=True)
class Source:
    """Where a graph comes from.

    Attributes:
        identity: a hash of all that decides what the graph is.
        read: makes the graph.
        path: of its file, if it has one.
    """

    identity: str
    read: Callable[[], Graph]
    path: str = ""


@dataclass(frozen=True)
class _File:
    """What a graph is made from; as for ``open_file``."""

    path: Path
    inputs: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, np.ndarray]
    signature: str = ""
    float_activations: bool = False
    rounding: str = ""

    def read(self) -> Graph:
        return read(
            self.path,
            self.inputs,
            self.constants,
            self.signature,
            float_activations=self.float_activations,
            rounding=self.rounding,
        )

    def identity(self) -> str:
        parts: list[str | bytes] = [self.path.stem, self.path.suffix, digest_file(self.path)]
        parts += [f"{name} {self.inputs[name]!r}" for name in sorted(self.inputs)]
        for name in sorted(self.constants):
            array = np.asarray(self.constants[name])
            parts += f"{name} {array.dtype} {array.shape}", array.tobytes()
        chosen = "float activations" if self.float_activations else ""
        return digest([*parts, self.signature, chosen, self.rounding, digest_self()])

    def read_again(self, identity: str) -> Graph:
        graph = self.read()
        if self.identity() != identity:
            raise self.changed()
        return graph

    def changed(self) -> UserError:
        return UserError(
            "the file of a network must not change while the network is in use",
            got=f"{self.path}, which has changed",
            fix="Load it again.",
        )


def open_file(
    path: Path,
    inputs: Mapping[str, int | Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    signature: str = "",
    *,
    float_activations: bool = False,
    rounding: str = "",
) -> tuple[Source | Graph, Graph | None]:
    """Where the graph of a file comes from, and that graph, if it was read already.

    Where its origin cannot be named, the graph is its own.

    Args:
        path: an ONNX file, or one that ``weft.ir.native.save`` wrote.
        inputs: shapes of graph inputs.
        constants: values of graph inputs.
        signature: the function to read, if the file has several.
        float_activations: as for ``weft.load``.
        rounding: as for ``weft.load``.

    Raises:
        UserError: there is no graph in the file.
    """
    shapes = {name: _shape(shape) for name, shape in (inputs or {}).items()}
    file = _File(path, shapes, dict(constants or {}), signature, float_activations, rounding)
    try:
        stamp = _stamp(path)
        identity = file.identity()
    except OSError:
        return file.read(), None  # which says what is wrong
    source = Source(identity, partial(file.read_again, identity), str(path.absolute()))
    if read_record(Cache(), f"{identity}{KNOWN}") is not None:
        return source, None
    graph = file.read()
    if _stamp(path) != stamp:
        raise file.changed()
    if not alone(path):
        return graph, None  # other files decide, too
    return source, graph


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape, or a size, as a tuple."""
    return tuple(shape) if isinstance(shape, Iterable) else (shape,)


def note_built(source: Source, name: str) -> None:
    """Notes that a network was built from a source, so the file is known to be sound."""
    made_for = asdict(MadeFor(source.path or name))
    write_record(Cache(), f"{source.identity}{KNOWN}", {"name": name, "made_for": made_for})


def _stamp(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
