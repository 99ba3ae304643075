"""Files that graphs come from.

A file is known by its content.  Where a network was built from it before, it is read again
only when somebody wants to see the graph: the cache has what it takes to run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from weft.errors import UserError
from weft.frontends import onnx
from weft.frontends.foreign import refused
from weft.ir.graph import Graph
from weft.ir.native import load as load_native
from weft.ir.verify import violations
from weft.ops.evaluate import call_of
from weft.ops.resolve import resolved
from weft.ops.table import OPS
from weft.plugins import Kind, Loaded, Table, Unusable, called
from weft.runtime.cache import Cache, digest
from weft.runtime.identity import digest_file, digest_self
from weft.runtime.record import KNOWN, MadeFor, read_record, write_record

NATIVE = ".weft"


@dataclass(frozen=True)
class Frontend:
    """What reads files of one more format.

    Attributes:
        suffixes: of the files' names, with the point.
        read: makes the graph; ``UserError`` says what is wrong with a file.
        doc: one sentence: which files.
        alone: whether a file holds all that its graph is made from.  Then a network that
            was built from it before runs without reading it again.
    """

    suffixes: tuple[str, ...]
    read: Callable[[Path], Graph]
    doc: str
    alone: bool = False


def _accept(_: str, part: object) -> Frontend:
    if not isinstance(part, Frontend):
        name = type(part).__name__
        raise Unusable(f"it must be a Frontend of weft.frontends.source, but is {name}")
    for suffix in part.suffixes:
        if not suffix.startswith(".") or suffix.lower() in (".onnx", NATIVE):
            raise Unusable(f"a suffix must be .name, and not of Weft's own, but is {suffix!r}")
    return part


PLUGINS: Table[Frontend] = Table(Kind.FRONTENDS, {}, _accept)
"""Formats that are not Weft's own."""


def _frontend(path: Path) -> Loaded[Frontend] | None:
    """What reads a file, if it is not of Weft's own formats."""
    suffix = path.suffix.lower()
    if suffix in (".onnx", NATIVE):
        return None
    takers = [each for each in PLUGINS.loaded if suffix in map(str.lower, each.part.suffixes)]
    if len(takers) > 1:
        raise UserError(
            f"one plugin must read {suffix} files",
            got=" and ".join(str(each.plugin) for each in takers),
            fix="Uninstall all but one.",
        )
    return takers[0] if takers else None


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

    def read(self) -> Graph:
        return resolved(self._read())

    def _read(self) -> Graph:
        if self.path.is_dir():
            raise refused(self.path, UserError("a network is read from a file"))
        if self.path.suffix == NATIVE:
            return self._native()
        found = _frontend(self.path)
        return self._foreign(found) if found is not None else self._onnx()

    def _native(self) -> Graph:
        try:
            return load_native(self.path, _attribute_class)
        except UserError as error:
            raise refused(self.path, error) from error

    def _onnx(self) -> Graph:
        try:
            try:
                return onnx.load(self.path, self.inputs, self.constants)
            except onnx.NoModelError as error:
                raise refused(self.path, error) from error
        except UserError as error:
            why = PLUGINS.why_missing() if self.path.suffix.lower() != ".onnx" else ""
            if not why:
                raise
            fix = f"{error.fix} {why}".strip()
            raise UserError(error.rule, got=error.got, fix=fix, where=error.where) from error

    def _foreign(self, found: Loaded[Frontend]) -> Graph:
        plugin, frontend = found.plugin, found.part
        if self.inputs or self.constants:
            raise UserError(
                "shapes and constants can be given for ONNX files", got=f"{self.path.name}"
            )
        if not self.path.is_file():
            raise UserError("the file of a network must exist", got=str(self.path))
        graph: object = called(plugin, frontend.read, self.path)
        wrong = _wrong(graph)
        if wrong:
            raise UserError(
                f"the plugin that reads {self.path.suffix} files must give a sound graph",
                got="; ".join(wrong),
                fix="Tell whoever wrote it.",
            )
        assert isinstance(graph, Graph)
        return graph

    @property
    def alone(self) -> bool:
        """Whether no other file decides what the graph is."""
        if self.path.suffix == NATIVE:
            return True
        found = _frontend(self.path)
        return found.part.alone if found is not None else not onnx.has_external_data(self.path)

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
    inputs: Mapping[str, int | Sequence[int]] | None = None,
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
    shapes = {name: _shape(shape) for name, shape in (inputs or {}).items()}
    file = _File(path, shapes, dict(constants or {}))
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
    if not file.alone:
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


def _wrong(graph: object) -> tuple[str, ...]:
    """What is wrong with what a plugin read."""
    if not isinstance(graph, Graph):
        return (f"a {type(graph).__name__}",)
    unknown = sorted({node.op for node in graph.nodes if node.op not in OPS})
    if unknown:
        return tuple(f"{op}, which is not an op of Weft" for op in unknown)
    return violations(graph, lambda node, around: OPS[node.op].infer(call_of(node, around.types)))


def _attribute_class(op: str) -> type:
    record = OPS.get(op)
    if record is None:
        raise UserError("every op of the file must be known", got=op, fix=OPS.why_missing(op))
    return record.attributes
