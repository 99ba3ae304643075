"""What is being done just now, for whoever wants to know: a channel from anywhere to a listener.

Nobody listens by default.  Reports are meant for what takes longer than a second or so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """What is done next.

    Attributes:
        what: in a word or two, such as ``planning`` or ``compiling net_2.c``.
        done: how many of such steps are done; total: how many there are, if more than one.
    """

    what: str
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.what} ({self.done + 1} of {self.total})" if self.total > 1 else self.what


Listener: TypeAlias = Callable[[Step], object]

_listener: ContextVar[Listener | None] = ContextVar("weft_listener", default=None)


@contextmanager
def progress(listener: Listener) -> Generator[None]:
    """Tells a function what is done meanwhile: ``with weft.progress(print): net.compile()``.

    Args:
        listener: takes a ``Step``, in the thread that called Weft, and returns at once.
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(what: str, done: int = 0, total: int = 0) -> None:
    """Says what is done next."""
    listener = _listener.get() or (_log if _verbose else None)
    if listener is not None:
        listener(Step(what, done, total))


# --- for programs ---------------------------------------------------------------------------

_logger = logging.getLogger("weft")
_verbose: list[logging.Handler] = []


def verbose(on: bool = True) -> None:
    """Logs progress from now on, with the time: by the logger ``weft``, to the standard error."""
    for handler in _verbose:
        _logger.removeHandler(handler)
    _verbose.clear()
    if on:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("weft %(asctime)s %(message)s", "%H:%M:%S"))
        _verbose.append(handler)
        _logger.addHandler(handler)
        _logger.setLevel(logging.INFO)


def _log(step: Step) -> None:
    _logger.info("%s", step)
