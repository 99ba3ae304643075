"""Keras models as they lie in files: what their layers are, and their weights."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from struct import Struct
from typing import IO, Any, cast
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from weft.errors import UserError
from weft.frontends.keras.hdf5 import GROWTH, Hdf5, broken
from weft.frontends.pieces import FilePiece, OpenFile, Section
from weft.records import dataclass

_CONFIG, _WEIGHTS, _METADATA = "config.json", "model.weights.h5", "metadata.json"
_MOST_TEXT = 1 << 26
_PIECE = 1 << 20
# In the header in front of a file: how long its name is, and what follows that.
_LENGTHS_AT, _LENGTHS = 26, Struct("<HH")
_ZIP, _HDF5 = b"PK\x03\x04", b"\x89HDF\r\n\x1a\n"


class NoModelError(UserError):
    """A file that holds no Keras model."""


@dataclass(frozen=True)
class Archive:
    """A model's file.

    Attributes:
        config: the model, as Keras writes a layer: its class and its configuration.
        version: of Keras that wrote it: ``3.15.1``.
        weights: where its arrays lie.
        legacy: whether arrays are found by their names, as in ``.h5`` files.
    """

    config: Mapping[str, Any]
    version: str
    weights: Hdf5
    legacy: bool

    @property
    def major(self) -> int:
        """The major version of Keras; what is not known counts as 2."""
        found = re.match(r"\d{1,4}", self.version)
        return int(found[0]) if found else 2


def open_archive(path: Path) -> Archive:
    """Opens a file, whatever its name ends in.

    Raises:
        NoModelError: it holds no model of Keras.
        UserError: it is broken, or larger inside than out.
    """
    return _of_zip(path) if _is_zip(path) else _of_hdf5(path)


def config_of(path: Path) -> Mapping[str, Any]:
    """The configuration of the model in a file, whose weights are not read.

    Raises:
        NoModelError: it holds no model of Keras.
        UserError: it is broken.
    """
    if _is_zip(path):
        with _opened(path) as files:
            return files.config()
    archive = _of_hdf5(path)
    archive.weights.close()
    return archive.config


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            head = stream.read(8)
    except OSError as error:
        raise UserError("the file of a network must be readable", got=str(error)) from error
    if not head.startswith(_ZIP) and head != _HDF5:
        raise NoModelError("a Keras model must be a .keras or an .h5 file", got=path.name)
    return head.startswith(_ZIP)


def parsed(text: str | bytes, what: str) -> dict[str, Any]:
    """An object in JSON."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise broken(f"{what}, which is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise broken(f"{what}, which is no object")
    return cast(dict[str, Any], found)


# --- .h5 ------------------------------------------------------------------------------------


def _of_hdf5(path: Path) -> Archive:
    file = Hdf5.open(path)
    text = file.text("", "model_config")
    if not text:
        file.close()
        raise NoModelError("a Keras model must have its layers, not only weights", got=path.name)
    return Archive(parsed(text, "model_config"), file.text("", "keras_version"), file, True)


# --- .keras -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Zipped:
    """The files of an open ``.keras`` file."""

    path: Path
    archive: ZipFile
    infos: Mapping[str, ZipInfo]

    def config(self) -> Mapping[str, Any]:
        """The model."""
        if _CONFIG not in self.infos:
            raise NoModelError("a .keras file must contain config.json", got=self.path.name)
        return self.text(_CONFIG)

    def text(self, name: str) -> dict[str, Any]:
        """A file that is JSON."""
        return parsed(_read(self.archive, self.infos[name], _MOST_TEXT).getvalue(), name)

    def weights(self) -> Hdf5:
        """The arrays."""
        if _WEIGHTS not in self.infos:
            raise UserError(
                "keras: the weights must be one array file, model.weights.h5",
                got=", ".join(sorted(self.infos)[:8]),
                fix="Save the model again with model.save(path), without max_shard_size.",
            )
        info, most = self.infos[_WEIGHTS], GROWTH * self.path.stat().st_size
        if info.compress_type != ZIP_STORED:
            return Hdf5.open(_read(self.archive, info, most))
        for _ in _pieces(self.archive, info, most):
            pass  # the checksum is looked at behind the last
        return Hdf5.open(Section(self._piece(info)))

    def _piece(self, info: ZipInfo) -> FilePiece:
        """Where a file lies that is not compressed."""
        file = cast(IO[bytes], self.archive.fp)
        file.seek(info.header_offset + _LENGTHS_AT)
        lengths = sum(_LENGTHS.unpack(file.read(_LENGTHS.size)))
        start = info.header_offset + _LENGTHS_AT + _LENGTHS.size + lengths
        return FilePiece(OpenFile(self.path, file.fileno()), start, info.file_size)


@contextmanager
def _opened(path: Path) -> Generator[_Zipped]:
    try:
        with ZipFile(path) as archive:
            infos = {each.filename: each for each in archive.infolist()}
            _check_names(infos)
            yield _Zipped(path, archive, infos)
    except (BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise broken(error) from error


def _of_zip(path: Path) -> Archive:
    with _opened(path) as files:
        config = files.config()
        about = files.text(_METADATA) if _METADATA in files.infos else {}
        return Archive(config, str(about.get("keras_version", "")), files.weights(), False)


def _check_names(infos: Mapping[str, ZipInfo]) -> None:
    outside = [each for each in infos if each.startswith("/") or ".." in re.split(r"[/\\]", each)]
    if outside:
        raise UserError("keras: names in the file must stay inside it", got=repr(outside[0])[:80])


def _read(archive: ZipFile, info: ZipInfo, most: int) -> BytesIO:
    """A file in the archive."""
    found = BytesIO()
    for piece in _pieces(archive, info, most):
        found.write(piece)
    return found


def _pieces(archive: ZipFile, info: ZipInfo, most: int) -> Generator[bytes]:
    """A file in the archive, which must not be larger than allowed, whatever it declares."""
    if info.file_size > most or info.file_size > GROWTH * max(info.compress_size, 1024):
        raise UserError(
            "keras: a part of the file must not be larger than the file accounts for",
            got=f"{info.filename}: {info.compress_size:,} bytes for {info.file_size:,}",
        )
    size = 0
    with archive.open(info) as stream:
        # Whatever follows what is declared would be noticed as a wrong checksum.
        while size <= info.file_size and (piece := stream.read(_PIECE)):
            size += len(piece)
            yield piece
    if size != info.file_size:
        raise broken(f"{info.filename} of {size:,} instead of {info.file_size:,} bytes")
