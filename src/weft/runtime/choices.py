"""The database of measured choices: which alternative was fastest for a layer.

One SQLite file in the user's cache, which any number of processes may use at once.  An entry
holds for one processor, compiler with its flags, state of Weft's generators, and layer (see
``weft.kernels.key``); whatever of these changes, the entry is not found any more.

SQLite notices damage to its own structures, not to what it keeps: every entry ends with a
digest of the rest, and one that does not fit it is passed over.  There is no index, for what
is damaged in one would hide entries.  A file that SQLite cannot read is begun anew.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

from weft.errors import UserError
from weft.plan.choice import Measured
from weft.plugins import Kind
from weft.plugins.discover import identity, of_kind
from weft.records import dataclass
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import Compiler

FILE = "tuning.sqlite"
# What SQLite keeps beside its file while it writes.
_BESIDE = tuple(f"{FILE}{suffix}" for suffix in ("-journal", "-wal", "-shm"))
_PATIENCE_SECONDS = 30
_FOLDERS = ("loops", "plan", "kernels", "codegen")
_TABLE = """
CREATE TABLE IF NOT EXISTS measured (
    context TEXT NOT NULL, layer TEXT NOT NULL,
    alternative TEXT NOT NULL, micros REAL NOT NULL,
    usual TEXT NOT NULL, usual_micros REAL NOT NULL,
    what TEXT NOT NULL, machine TEXT NOT NULL, made REAL NOT NULL,
    digest TEXT NOT NULL)
"""
_COLUMNS = "context, layer, alternative, micros, usual, usual_micros, what, machine, made"
# What SQLite says of a file that is none of its own, damaged, or has other tables than ours.
_UNREADABLE = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR})
Answer = TypeVar("Answer")


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
    kinds = Kind.KERNELS, Kind.GENERATORS
    plugins = identity(*kinds) if any(map(of_kind, kinds)) else []
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

    def _ask(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """What the database answers; an empty one, if the file is none or is damaged."""
        try:
            try:
                return self._answer(question)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not self._unreadable(error):
                    raise
                self._remove()
                return self._answer(question)
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                "the tuning database must be a writable file",
                got=f"{self.path}: {error}",
                fix="Remove it, or set WEFT_CACHE to another folder.",
            ) from error

    def _remove(self) -> None:
        for path in (self.path, *map(self.path.with_name, _BESIDE)):
            path.unlink(missing_ok=True)

    def _unreadable(self, error: Exception) -> bool:
        """Whether the file is to blame for an error."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
        if code == sqlite3.SQLITE_READONLY:  # so says a file, too, whose first bytes are damaged
            return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        return code in _UNREADABLE

    def _answer(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_PATIENCE_SECONDS)
        # What is no UTF-8 is damaged, and its digest says so.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            with connection:
                connection.execute(_TABLE)
                if _schema(connection) != _own_schema():
                    raise sqlite3.DatabaseError("its table is another one")
                return question(connection)
        finally:
            connection.close()

    def known(self, context: str) -> Measured:
        """Names of alternatives by layer, with what was measured."""
        found = sorted(self._found(context), key=lambda each: each.layer)
        return Measured(
            {each.layer: each.alternative for each in found},
            {
                each.layer: {each.usual: each.usual_micros, each.alternative: each.micros}
                for each in found
            },
        )

    def keep(self, context: str, choices: Iterable[Choice]) -> None:
        """Adds choices, or puts them in the place of older ones."""
        now = time.time()
        rows = [
            (context, each.layer, each.alternative, float(each.micros), each.usual,
             float(each.usual_micros), each.what, each.machine, float(each.made or now))
            for each in choices
        ]  # fmt: skip

        def write(connection: sqlite3.Connection) -> None:
            older = "DELETE FROM measured WHERE context = ? AND layer = ?"
            connection.executemany(older, [row[:2] for row in rows])
            connection.executemany(
                f"INSERT INTO measured ({_COLUMNS}, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [(*row, _digest(row)) for row in rows],
            )

        self._ask(write)
        # Damage that SQLite does not notice may hide what was just written.
        if not {row[1] for row in rows} <= self.known(context).keys():
            self._remove()
            self._ask(write)

    def all(self, context: str = "") -> list[Choice]:
        """All choices, or those of a context, the latest last."""
        return sorted(self._found(context), key=lambda each: (each.made, each.what, each.layer))

    def _found(self, context: str) -> list[Choice]:
        """What is kept and sound."""
        if not self.path.exists():
            return []
        where, values = (" WHERE context = ?", (context,)) if context else ("", ())
        rows = self._ask(
            lambda connection: connection.execute(
                f"SELECT {_COLUMNS}, digest FROM measured{where}", values
            ).fetchall()
        )
        return [Choice(*row[1:]) for *row, seal in rows if seal == _digest(row)]

    def forget(self, context: str = "") -> int:
        """Removes all choices, or those of a context; returns how many there were."""
        if not self.path.exists():
            return 0
        where, values = (" WHERE context = ?", (context,)) if context else ("", ())
        return self._ask(
            lambda connection: connection.execute(f"DELETE FROM measured{where}", values).rowcount
        )


def _schema(connection: sqlite3.Connection) -> list[tuple[str]]:
    return connection.execute("SELECT sql FROM sqlite_master WHERE name = 'measured'").fetchall()


@lru_cache(maxsize=1)
def _own_schema() -> list[tuple[str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(_TABLE)
        return _schema(connection)


def _digest(row: Sequence[object]) -> str:
    return digest(map(repr, row))
