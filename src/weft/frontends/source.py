"""Files that graphs come from.

A file is known by its content.  Where a network was built from it before, it is read again
only when somebody wants to see the graph: the cache has what it takes to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from weft.errors import UserError
from weft.frontends.onnx import has_external_data
from weft.frontends.onnx import load as load_onnx
from weft.ir.graph import Graph
from weft.ir.native import load as load_native
from weft.ops.table import OPS
from weft.runtime.cache import Cache, digest
from weft.runtime.identity import digest_file, digest_self
from weft.runtime.record import read_record, write_record

NATIVE = ".weft"
_KNOWN = ".file"


@dataclass(frozen=True)
class Source:
    """Where a graph comes from.

    Attributes:
        identity: a hash of all that decides what the graph is.
        read: makes the graph.
    """

    identity: str
    read: Callable[[], Graph]


@dataclass(frozen=True)
class _File:
    """What a graph is made from; as for ``open_file``."""

    path: Path
    inputs: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, np.ndarray]

    def read(self) -> Graph:
        if self.path.suffix == NATIVE:
            return load_native(self.path, _attribute_class)
        return load_onnx(self.path, self.inputs, self.constants)

    def identity(self) -> str:
        parts: list[str | bytes] = [self.path.stem, self.path.suffix, digest_file(self.path)]
        parts += [f"{name} {self.inputs[name]!r}" for name in sorted(self.inputs)]
        for name in sorted(self.constants):
            array = np.asarray(self.constants[name])
            parts += f"{name} {array.dtype} {array.shape}", array.tobytes()
        return digest([*parts, digest_self()])

    def read_again(self, identity: str) -> Graph:
        graph = self.read()
        if self.identity() != identity:
            raise self.changed()
        return graph

    def changed(self) -> UserError:
        return UserError(
            "the file of a network must stay as it is while the network is used",
            got=f"{self.path}, which has changed",
            fix="Load it again.",
        )


def open_file(
    path: Path,
    inputs: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> tuple[Source | Graph, Graph | None]:
    """Where the graph of a file comes from, and that graph, if it was read already.

    Where its origin cannot be named, the graph is its own.

    Args:
        path: an ONNX file, or one that ``weft.ir.native.save`` wrote.
        inputs: shapes of graph inputs.
        constants: values of graph inputs.

    Raises:
        UserError: there is no graph in the file.
    """
    shapes = {name: tuple(shape) for name, shape in (inputs or {}).items()}
    file = _File(path, shapes, dict(constants or {}))
    try:
        stamp = _stamp(path)
        identity = file.identity()
    except OSError:
        return file.read(), None  # which says what is wrong
    source = Source(identity, partial(file.read_again, identity))
    if read_record(Cache(), f"{identity}{_KNOWN}") is not None:
        return source, None
    graph = file.read()
    if _stamp(path) != stamp:
        raise file.changed()
    if path.suffix != NATIVE and has_external_data(path):
        return graph, None  # other files decide, too
    return source, graph


def note_built(source: Source, name: str) -> None:
    """Notes that a network was built from a source, so the file is known to be sound."""
    write_record(Cache(), f"{source.identity}{_KNOWN}", {"name": name})


def _stamp(path: Path) -> tuple[int, ...]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _attribute_class(op: str) -> type:
    record = OPS.get(op)
    if record is None:
        raise UserError("every op of the file must be known", got=op)
    return record.attributes
