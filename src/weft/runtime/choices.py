"""The database of measured choices: which alternative was fastest for a layer.

One SQLite file in the user's cache, which any number of processes may use at once.  An entry
holds for one processor, compiler with its flags, state of Weft's generators, and layer (see
``weft.kernels.key``); whatever of these changes, the entry is not found any more.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from weft.errors import UserError
from weft.plugins import Kind
from weft.plugins.discover import identity, of_kind
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import Compiler

FILE = "tuning.sqlite"
_PATIENCE_SECONDS = 30
_FOLDERS = ("loops", "plan", "kernels", "codegen")
_TABLE = """
CREATE TABLE IF NOT EXISTS choices (
    context TEXT NOT NULL, layer TEXT NOT NULL,
    alternative TEXT NOT NULL, micros REAL NOT NULL,
    usual TEXT NOT NULL, usual_micros REAL NOT NULL,
    what TEXT NOT NULL, machine TEXT NOT NULL, made REAL NOT NULL,
    PRIMARY KEY (context, layer))
"""
_COLUMNS = "layer, alternative, micros, usual, usual_micros, what, machine, made"


@dataclass(frozen=True, slots=True)
class Choice:
    """What was measured of a layer.

    Attributes:
        layer: its key.
        alternative: the fastest; micros: microseconds that it took.
        usual: what would be taken if nobody had measured; usual_micros: what that took.
        what: the layer for people: operations and shapes.
        machine: processor and compiler, for people.
        made: when, in seconds since the epoch.
    """

    layer: str
    alternative: str
    micros: float
    usual: str
    usual_micros: float
    what: str = ""
    machine: str = ""
    made: float = 0.0


def _generators() -> str:
    """A hash of the sources that decide what a named alternative is."""
    own = _own_generators()
    plugins = identity(Kind.KERNELS) if of_kind(Kind.KERNELS) else []
    return digest([own, *plugins]) if plugins else own


@lru_cache(maxsize=1)
def _own_generators() -> str:
    root = Path(__file__).parents[1]
    parts: list[str | bytes] = []
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            parts += str(path.relative_to(root)), path.read_bytes()
    return digest(parts)


def context_of(compiler: Compiler, flags: Sequence[str]) -> str:
    """What choices depend on beside the layer."""
    own = [compiler.kind, compiler.version, processor(), _generators()]
    return digest([*own, *map(repr, (compiler.command, tuple(flags)))])


class Choices:
    """The choices that were measured.

    Args:
        root: the folder; by default the user's cache.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.path = (root or Cache().root) / FILE

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS)
            try:
                with connection:
                    connection.execute(_TABLE)
                    yield connection
            finally:
                connection.close()
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                "the database of measured choices must be a file that can be written",
                got=f"{self.path}: {error}",
                fix="Remove it, or set WEFT_CACHE to another folder.",
            ) from error

    def known(self, context: str) -> dict[str, str]:
        """Names of alternatives by layer."""
        if not self.path.exists():
            return {}
        with self._open() as connection:
            rows = connection.execute(
                "SELECT layer, alternative FROM choices WHERE context = ? ORDER BY layer",
                (context,),
            )
            return dict(rows.fetchall())

    def keep(self, context: str, choices: Iterable[Choice]) -> None:
        """Adds choices, or puts them in the place of older ones."""
        now = time.time()
        rows = [
            (context, each.layer, each.alternative, each.micros, each.usual, each.usual_micros,
             each.what, each.machine, each.made or now)
            for each in choices
        ]  # fmt: skip
        with self._open() as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO choices (context, {_COLUMNS})"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def all(self, context: str = "") -> list[Choice]:
        """All choices, or those of a context, the latest last."""
        if not self.path.exists():
            return []
        where, values = (" WHERE context = ?", (context,)) if context else ("", ())
        with self._open() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM choices{where} ORDER BY made, what, layer", values
            )
            return [Choice(*row) for row in rows.fetchall()]

    def forget(self, context: str = "") -> int:
        """Removes all choices, or those of a context; returns how many there were."""
        if not self.path.exists():
            return 0
        where, values = (" WHERE context = ?", (context,)) if context else ("", ())
        with self._open() as connection:
            return connection.execute(f"DELETE FROM choices{where}", values).rowcount


def digest_of(choices: Mapping[str, str]) -> str:
    """A hash of names of alternatives by layer."""
    return digest(part for pair in sorted(choices.items()) for part in pair)
