"""The cache of built libraries, packed weights and records: content-addressed, safe to share.

An entry is a file named by the hash of everything that it was made from.  It is written
under another name and renamed, so whoever sees it sees all of it; two processes that make
the same entry at once both succeed, and one of the equal files stays.  No file is changed
after that, so what is loaded from one stays as it is.

An entry ends with a seal, which is checked before it is used.  One whose seal is wrong is
made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache
from pathlib import Path

from weft.errors import UserError
from weft.records import dataclass
from weft.runtime.seal import is_sealed, seal, unsealed

_SUFFIXES = (".so", ".bin", ".net", ".file", ".time", ".memory")
# Unfinished files of processes that died are removed after this.
_ABANDONED_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A file of the cache."""

    path: Path
    bytes: int
    used: float
    """When it was last used, in seconds since the epoch."""


class Damaged(UserError):
    """An entry is not what was written; whoever can make it anew does, and nobody sees this."""

    def __init__(self, path: Path, why: str = "which is damaged") -> None:
        super().__init__(
            "a file of the cache must stay as it was written",
            got=f"{path}, {why}",
            fix="It will be made anew; run again.",
        )


class Cache:
    """A folder of built libraries and weights.

    Args:
        root: the folder; by default ``$WEFT_CACHE``, ``$XDG_CACHE_HOME/weft`` or
            ``~/.cache/weft``.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def get(self, name: str, make: Callable[[Path], object]) -> Path:
        """The entry of a name, made by ``make`` (which writes the path given) if none is sound."""
        path = self.root / name
        if is_sealed(path):
            self.touch(path)
            return path
        return self.put(name, make)

    def has(self, prefix: str) -> bool:
        """Whether there is an entry, sound or not, whose name begins so."""
        if not self.root.is_dir():
            return False
        with os.scandir(self.root) as entries:
            return any(entry.name.startswith(prefix) for entry in entries)

    def put(self, name: str, make: Callable[[Path], object]) -> Path:
        """The entry of a name, made by ``make``, in the place of any other."""
        path = self.root / name
        with self.folder() as folder:
            made = folder / name
            make(made)
            seal(made)
            os.replace(made, path)
        return path

    @contextlib.contextmanager
    def folder(self) -> Generator[Path]:
        """A folder for what is not complete yet."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="making-", dir=self.root) as folder:
                yield Path(folder)
        except OSError as error:
            raise UserError(
                "the cache folder must be writable",
                got=f"{self.root}: {error.strerror or error}",
                fix="Set WEFT_CACHE to a writable folder.",
            ) from error

    def read(self, name: str) -> bytes | None:
        """What an entry holds; ``None`` if there is no sound one, of which nothing is left then."""
        path = self.root / name
        content = unsealed(path)
        if content is None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return None
        self.touch(path)
        return bytes(content)

    def touch(self, path: Path) -> None:
        """Notes that an entry is used."""
        with contextlib.suppress(OSError):
            os.utime(path)

    def entries(self) -> list[CacheEntry]:
        """All entries, least recently used first."""
        found: list[CacheEntry] = []
        if self.root.is_dir():
            for path in self.root.iterdir():
                if path.suffix in _SUFFIXES:
                    entry = _entry(path)
                    if entry is not None:
                        found.append(entry)
        return sorted(found, key=lambda entry: (entry.used, entry.path.name))

    def prune(self, keep_bytes: int = 0) -> list[CacheEntry]:
        """Remove the least recently used entries until the rest fits; returns what went."""
        entries = self.entries()
        total = sum(entry.bytes for entry in entries)
        gone: list[CacheEntry] = []
        for entry in entries:
            if total <= keep_bytes:
                break
            entry.path.unlink(missing_ok=True)
            total -= entry.bytes
            gone.append(entry)
        self._sweep()
        return gone

    def _sweep(self) -> None:
        """Remove what processes that died left unfinished."""
        if not self.root.is_dir():
            return
        for folder in self.root.glob("making-*"):
            entry = _entry(folder)
            if entry is None or time.time() - entry.used < _ABANDONED_SECONDS:
                continue
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
            folder.rmdir()


def _entry(path: Path) -> CacheEntry | None:
    try:
        status = path.stat()
    except OSError:  # removed by another process meanwhile
        return None
    return CacheEntry(path, status.st_size, status.st_mtime)


def default_root() -> Path:
    """The folder of the cache as the environment names it."""
    named = os.environ.get("WEFT_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "weft"


def digest(parts: Iterable[str | bytes | memoryview]) -> str:
    """A hash of parts; where one part ends and the next begins counts."""
    state = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(f"{len(data)}:".encode())
        state.update(data)
    return state.hexdigest()


@lru_cache(maxsize=1)
def processor() -> str:
    """What identifies this machine's instruction set."""
    words = [platform.system(), platform.machine()]
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return " ".join([*words, platform.processor()])
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "cpu family", "model", "stepping", "flags", "Features"):
            words.append(value.strip())
    return " ".join(words)
