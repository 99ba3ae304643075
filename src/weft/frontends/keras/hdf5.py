# pyright: basic
"""HDF5 files that may come from anywhere: only hard links, and arrays in the file itself."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from weft.cached import cached_property
from weft.deferred import installed
from weft.errors import UserError, named
from weft.frontends.pieces import FilePiece, Section
from weft.records import dataclass

T = TypeVar("T")

GROWTH = 100
"""How many times the size of its file what it holds may be."""
_KINDS = "fiub"
_MAX_RANK = 8


def h5py() -> Any:
    """The package; an error that names the extra where it is not installed."""
    if not installed("h5py"):
        raise UserError(
            "h5py must be installed to read Keras models",
            got="no such package",
            fix="pip install weft[keras]",
        )
    return importlib.import_module("h5py")


def broken(error: BaseException | str) -> UserError:
    """The error of a file that is not what it says."""
    got = error if isinstance(error, str) else named(error)
    return UserError("keras: the file is broken", got=got[:200], fix="Save or download it again.")


@dataclass
class Hdf5:
    """An open HDF5 file.

    Attributes:
        file: h5py's.
        allowed: how many bytes of arrays may still be read.
        content: gives bytes of the file, by their number and their start, if arrays can be made
            of them.
    """

    file: Any
    allowed: int
    content: Callable[[int, int], np.ndarray] | None = field(default=None, repr=False)
    _known: dict[str, Any] = field(default_factory=dict[str, Any])
    # The groups around what was asked for last, by their paths: arrays of a layer lie in one.
    _around: dict[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any])

    @classmethod
    def open(cls, source: Path | BytesIO | Section) -> Hdf5:
        """Opens a file, the bytes of one, of which arrays may then be parts, or a part of one."""
        package = h5py()
        content = None
        match source:
            case Path():
                given, size = str(source), source.stat().st_size
            case Section():
                given, size, content = source, source.piece.size, partial(_piece_of, source.piece)
            case BytesIO():
                given, view = source, source.getbuffer()
                size, content = len(view), partial(np.frombuffer, view, np.uint8)
        file = _checked(lambda: package.File(given, "r"))
        return cls(file, GROWTH * size + (1 << 20), content)

    def close(self) -> None:
        """Closes it."""
        with suppress(Exception):  # of a broken file
            self.file.close()

    def _entry(self, parts: Sequence[str]) -> Any:
        """The identifier of what has a path, by hard links only; nothing if there is none."""
        if not parts:
            return self.file.id
        around = tuple(parts[:-1])
        if around not in self._around:
            held = self._entry(around)
            self._around = {
                path: group for path, group in self._around.items() if path == around[: len(path)]
            }
            self._around[around] = held
        package, at = h5py(), self._around[around]
        if not isinstance(at, package.h5g.GroupID):
            return None
        links, name = at.links, parts[-1].encode()
        if not links.exists(name):
            return None
        if links.get_info(name).type != package.h5l.TYPE_HARD:
            raise broken(f"a link out of its place at {'/'.join(parts)}")
        # Objects of groups and arrays take as long to make as all the rest: only where needed.
        return package.h5o.open(at, name)

    def _object(self, path: str) -> Any:
        """A group or array by its path; nothing if there is none."""
        package, found = h5py(), self._entry(_split(path))
        if isinstance(found, package.h5g.GroupID):
            return package.Group(found)
        return package.Dataset(found) if isinstance(found, package.h5d.DatasetID) else None

    def names(self, path: str = "") -> tuple[str, ...]:
        """The names in a group; none where there is none."""

        def get() -> tuple[str, ...]:
            found = self._object(path)
            return tuple(found) if isinstance(found, h5py().Group) else ()

        return _checked(get)

    def text(self, path: str, attribute: str) -> str:
        """An attribute that is text; empty if there is none."""

        def get() -> str:
            found = self._object(path)
            value = None if found is None else found.attrs.get(attribute)
            return value.decode("utf-8") if isinstance(value, bytes) else str(value or "")

        return _checked(get)

    def texts(self, path: str, attribute: str) -> tuple[str, ...]:
        """An attribute that is a list of texts, which long lists are cut into parts for."""

        def get() -> tuple[str, ...]:
            found = self._object(path)
            if found is None:
                return ()
            values = found.attrs.get(attribute)
            parts = [values] if values is not None else []
            while (
                values is None and (part := found.attrs.get(f"{attribute}{len(parts)}")) is not None
            ):
                parts.append(part)
            flat = [each for part in parts for each in np.asarray(part).reshape(-1).tolist()]
            return tuple(
                each.decode("utf-8") if isinstance(each, bytes) else str(each) for each in flat
            )

        return _checked(get)

    def array(self, path: str) -> np.ndarray | None:
        """An array; nothing if there is none."""
        if path not in self._known:
            self._known[path] = _checked(lambda: self._read(path))
        return self._known[path]

    def _read(self, path: str) -> np.ndarray | None:
        package, stored = h5py(), self._entry(_split(path))
        if not isinstance(stored, package.h5d.DatasetID):
            return None
        where = f"array {path}"
        made = stored.get_create_plist()
        layout = made.get_layout()
        if layout == package.h5d.VIRTUAL or made.get_external_count():
            raise UserError("keras: arrays must lie in the model's file", where=where)
        dtype: np.dtype = stored.dtype
        shape: tuple[int, ...] = stored.shape
        if dtype.kind not in _KINDS or len(shape) > _MAX_RANK:
            raise UserError("keras: weights must be arrays of numbers", got=str(dtype), where=where)
        size = prod(shape) * dtype.itemsize
        plain = layout != package.h5d.CHUNKED
        if size > self.allowed or (plain and size and stored.get_storage_size() < size):
            raise UserError(
                "keras: arrays must not be larger than their file accounts for",
                got=f"{size:,} bytes",
                where=where,
            )
        self.allowed -= size
        array = self._shared(stored, dtype, shape)
        if array is None:
            array = np.asarray(package.Dataset(stored)[()])
        if array.dtype == np.uint16 and self.text(path, "dtype") == "bfloat16":
            array = array.view(ml_dtypes.bfloat16)
        return array

    @cached_property
    def _shifted(self) -> bool:
        return bool(self.file.userblock_size)

    def _shared(self, stored: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray | None:
        """An array from the file's bytes, if it is stored in one piece as NumPy has it."""
        start = stored.get_offset()
        # A block of the user's in front of the file shifts what is counted from its start.
        if self.content is None or start is None or not dtype.isnative or self._shifted:
            return None
        if not prod(shape):
            return None
        part = self.content(prod(shape) * dtype.itemsize, start)
        array = part.view(dtype).reshape(shape)
        return array if array.flags.aligned else None


def _piece_of(whole: FilePiece, count: int, start: int) -> np.ndarray:
    if start + count > whole.size:
        raise broken(f"an array of {count:,} bytes behind the end")
    return FilePiece(whole.file, whole.start + start, count).read()


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _checked(get: Callable[[], T]) -> T:
    """What a function of h5py gives; whatever it raises means that the file is broken."""
    try:
        return get()
    except UserError:
        raise
    except Exception as error:
        # h5py raises nearly every class that there is, RuntimeError and KeyError among them.
        raise broken(error) from error
