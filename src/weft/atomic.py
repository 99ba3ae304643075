"""Files and folders that are written whole or not at all.

Whatever Weft writes for a user goes through here.  It is written beside its place under another
name, brought to the disk, and renamed: whoever looks sees what was there before or all of the
new, whether the disk was full, the program was ended or the power failed meanwhile.  What fails
is a ``UserError`` with the path and the system's reason, and nothing has changed then.

A file keeps its permissions, and its owner where the system allows that; a symbolic link keeps
pointing to it; other hard links keep the old content.  Devices and pipes are written directly.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from weft.errors import UserError
from weft.records import dataclass

_AT_CWD, _EXCHANGE = -100, 2


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[IO[bytes]]:
    """A file to write, which takes the place of another at the end."""
    with replacing_all(path) as files:
        yield files[0]


@contextmanager
def replacing_all(*paths: str | os.PathLike[str]) -> Generator[list[IO[bytes]]]:
    """Files to write, which take the places of others, in this order, once all are complete."""
    with _explained(*paths), ExitStack() as stack:
        drafts = [stack.enter_context(_drafted(Path(path))) for path in paths]
        yield [draft.file for draft in drafts]
        for draft in drafts:
            draft.complete()
        for draft in drafts:
            draft.place()


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a file, in UTF-8."""
    write_bytes(path, text.encode())


@contextmanager
def replacing_folder(folder: Path) -> Generator[Path]:
    """A new folder to fill, which takes the place of another, with all that is in that."""
    with _explained(folder):
        folder = Path(os.path.realpath(folder))
        with _parents(folder):
            fresh = _beside(folder)
            try:
                fresh.mkdir()
                yield fresh
                for path in fresh.rglob("*"):
                    _sync(path)
                _swap(fresh, folder)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)


def write_files(
    folder: Path, files: Iterable[tuple[str | Path, bytes | Iterable[bytes | memoryview]]]
) -> list[str]:
    """Writes files into a folder that nobody else sees yet; returns their names.

    Raises:
        OSError: one cannot be written.
    """
    names: list[str] = []
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for piece in (content,) if isinstance(content, bytes) else content:
                file.write(piece)
        names.append(str(name))
    return names


@contextmanager
def _explained(*paths: str | os.PathLike[str]) -> Generator[None]:
    try:
        yield
    except OSError as error:
        named = " and ".join(os.fspath(path) for path in paths)
        raise UserError(
            "the output must be writable", got=f"{named}: {error.strerror or error}"
        ) from error


# --- files ----------------------------------------------------------------------------------


@dataclass
class _Draft:
    """A file in the making: written under a name of its own, or, if it is a device, in place."""

    file: IO[bytes]
    path: Path
    temporary: Path | None

    def complete(self) -> None:
        self.file.flush()
        if self.temporary is not None:
            os.fsync(self.file.fileno())
        self.file.close()

    def place(self) -> None:
        if self.temporary is not None:
            os.replace(self.temporary, self.path)


@contextmanager
def _drafted(path: Path) -> Generator[_Draft]:
    target = Path(os.path.realpath(path))
    status = target.stat() if target.exists() else None
    if status is not None and not stat.S_ISREG(status.st_mode):
        with target.open("wb") as file:  # says so if it is a folder
            yield _Draft(file, target, None)
        return
    if status is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    temporary = _beside(target)
    try:
        with temporary.open("xb") as file:
            if status is not None:
                with contextlib.suppress(OSError):  # only root may give files away
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            yield _Draft(file, target, temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A name in the same folder that nobody else has."""
    return path.with_name(f".weft-{secrets.token_hex(8)}")


# --- folders --------------------------------------------------------------------------------


@contextmanager
def _parents(folder: Path) -> Generator[None]:
    """Makes the folders above one that are missing; they go again if what follows fails."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for parent in missing:
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


def _sync(path: Path) -> None:
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def _swap(fresh: Path, folder: Path) -> None:
    """Puts a new folder in the place of another; what was there before is then ``fresh``."""
    if not folder.exists():
        os.rename(fresh, folder)
        return
    fresh.chmod(stat.S_IMODE(folder.stat().st_mode))
    if _exchanged(fresh, folder):
        return
    aside = _beside(folder)
    os.rename(folder, aside)
    try:
        os.rename(fresh, folder)
    except BaseException:
        os.rename(aside, folder)
        raise
    os.rename(aside, fresh)


def _exchanged(one: Path, other: Path) -> bool:
    """Whether the system could exchange two names at once."""
    if sys.platform != "linux":
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    names = (_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other))
    return rename(*names, ctypes.c_uint(_EXCHANGE)) == 0
