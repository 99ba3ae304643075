"""How many threads to run on, and the pool that all networks of this process share."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from weft.atomic import write_files
from weft.errors import InternalError, UserError
from weft.records import dataclass
from weft.reporting import announce
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import (
    Compiler,
    compile_object,
    find_compiler,
    link_library,
    require_atomics,
)

MOST_THREADS = 1024
POOL_HEADER = "weft_pool.h"
POOL_SOURCE = "weft_pool.c"
# The pool, and calls on threads of OpenMP.
_TEAM_HEADER, _TEAM_SOURCE = "weft_team.h", "weft_team.c"
_FLAGS = ("-std=gnu11", "-O2", "-pthread")
_DATA = Path(__file__).parent / "data"


def thread_count(threads: int | None = None) -> int:
    """How many threads to run on.

    Args:
        threads: as the caller wishes; if not given, ``WEFT_THREADS``, else one for each
            core that this process may use.

    Raises:
        UserError: it is no number of threads.
    """
    if threads is not None:
        whole = threads if isinstance(threads, int) else 0  # pyright: ignore
        return _checked(whole, repr(threads), "the number of threads")
    wish = os.environ.get("WEFT_THREADS", "").strip()
    if not wish:
        return min(cores(), MOST_THREADS)
    count = int(wish) if wish.isascii() and wish.isdecimal() else 0
    return _checked(count, repr(wish), "WEFT_THREADS")


def _checked(threads: int, shown: str, what: str) -> int:
    if not 1 <= threads <= MOST_THREADS:
        raise UserError(f"{what} must be a whole number from 1 to {MOST_THREADS}", got=shown)
    return threads


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pinned() -> bool:
    """Whether ``WEFT_PIN`` asks to bind each thread of the pool to a core of its own."""
    wish = os.environ.get("WEFT_PIN", "").strip() or "0"
    if wish not in ("0", "1"):
        raise UserError("WEFT_PIN must be 0 or 1", got=repr(wish))
    return wish == "1"


def pool_texts() -> tuple[tuple[str, str], tuple[str, str]]:
    """Names and texts of the pool's header and source."""
    header, source = ((name, (_DATA / name).read_text()) for name in (POOL_HEADER, POOL_SOURCE))
    return header, source


def build_pool(compiler: Compiler, cache: Cache, flags: Sequence[str] = _FLAGS) -> Path:
    """The pool as a shared library, on Linux with calls on threads of OpenMP."""
    require_atomics(compiler)
    names = [POOL_SOURCE, POOL_HEADER]
    if sys.platform == "linux":
        names = [_TEAM_SOURCE, _TEAM_HEADER, *names]
    texts = [(name, (_DATA / name).read_text()) for name in names]
    identity = [part for text in texts for part in text]
    identity += [*flags, *compiler.command, compiler.kind, compiler.version, processor()]

    def make(target: Path) -> None:
        announce("compiling the pool of threads")
        write_files(target.parent, [(name, text.encode()) for name, text in texts])
        source = target.parent / names[0]
        compile_object(compiler, flags, source, source.with_suffix(".o"))
        link_library(compiler, [source.with_suffix(".o")], target, ["-pthread"])

    return cache.get(f"weft-pool-{digest(identity)}.so", make)


class Threads(ctypes.Structure):
    """``weft_threads`` of the generated headers."""

    _fields_ = (("threads", ctypes.c_int), ("run", ctypes.c_void_p), ("pool", ctypes.c_void_p))


class Pool:
    """A pool of threads.  It lives as long as the process.

    Args:
        path: the library that ``build_pool`` made.
        most: threads that it may have at once, the caller's among them.
        pin: whether each is bound to a core of its own.
    """

    def __init__(self, path: Path, most: int = MOST_THREADS, pin: bool = False) -> None:
        try:
            library = ctypes.CDLL(str(path))
            library.weft_pool_new.restype = ctypes.c_void_p
            library.weft_pool_new.argtypes = [ctypes.c_int, ctypes.c_int]
            team = sys.platform == "linux"
            run = library.weft_team_run if team else library.weft_pool_run
            self._run = ctypes.cast(run, ctypes.c_void_p)
        except (OSError, AttributeError) as error:
            raise InternalError(f"the built pool {path} cannot be loaded: {error}") from error
        self._pool = library.weft_pool_new(most, int(pin))
        if not self._pool:
            raise InternalError("there is no memory for a pool of threads")
        self._library, self._may_adopt = library, team and not pin

    def threads(self, count: int) -> Threads:
        """So many threads of the pool, as generated code wants them."""
        return Threads(count, self._run, self._pool)

    def adopt(self, openmp: Sequence[int]) -> Team | None:
        """Lets calls run on the threads of the OpenMP runtime that the process uses.

        Args:
            openmp: addresses of the functions in ``weft_openmp`` of ``weft_team.h``, in order.

        Returns:
            What begins and ends such calls; ``None`` where threads are bound to cores, and on
            systems other than Linux.
        """
        if not self._may_adopt:
            return None
        library, functions = self._library, (ctypes.c_void_p * len(openmp))(*openmp)
        library.weft_team_adopt.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        if not library.weft_team_adopt(self._pool, functions):
            raise InternalError("there is no memory for a pool of threads")
        begin, end = (
            ctypes.cast(function, ctypes.c_void_p).value or 0
            for function in (library.weft_team_begin, library.weft_team_end)
        )
        return Team(begin, end, library.weft_team_calls)


@dataclass(frozen=True)
class Team:
    """Calls on threads of OpenMP.

    Attributes:
        begin: the address of ``weft_team_begin``; end: of ``weft_team_end``.
        calls: how many there were.
    """

    begin: int
    end: int
    calls: Callable[[], int]


_making = threading.Lock()


def shared_pool() -> Pool:
    """The pool that all networks of this process share."""
    with _making:
        return _shared_pool()


@lru_cache(maxsize=1)
def _shared_pool() -> Pool:
    return Pool(build_pool(find_compiler(), Cache()), pin=pinned())
