"""Keeps modules from running in one thread while another exports.

``torch.export`` puts fake tensors in the place of a module's parameters and patches
``torch.nn.Module`` for the whole process.  A module that another thread calls meanwhile is
traced, gives fake tensors, or fails, and so may the export.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import Condition, get_ident
from typing import Any

PATIENCE = 20.0
"""Seconds after which an export does not wait for modules that run: they may wait for it."""


class Gate:
    """Any number of threads may run modules, or one may export.

    Threads that want to export come before those that want to run.  A thread may do again what
    it does already.  One that runs modules and has to export besides (a module inside of another
    one may be compiled when it is first called) waits for exports alone: were it to wait for the
    others that run, two of that kind would wait for each other.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._running: Counter[int] = Counter()
        self._exporting: int | None = None
        self._depth = 0
        self._waiting = 0

    @contextmanager
    def running(self) -> Generator[None]:
        """Lets no other thread begin to export, as long as its patience lasts."""
        me = get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._may_run(me))
            self._running[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._running[me] -= 1
                if not self._running[me]:
                    del self._running[me]
                    self._changed.notify_all()

    @contextmanager
    def exporting(self) -> Generator[None]:
        """Lets no other thread export, or begin to run modules; waits for those that do."""
        self._enter(get_ident(), alone=True)
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def holding(self, lock: AbstractContextManager[Any]) -> Generator[None]:
        """Holds a lock whose holders may have to export; who waits for it does not run."""
        me = get_ident()
        with self._changed:
            count = self._running.pop(me, 0)
            self._changed.notify_all()
        with ExitStack() as stack:
            try:
                stack.enter_context(lock)
            finally:
                if count:
                    with self._changed:
                        self._changed.wait_for(lambda: self._exporting in (None, me))
                        self._running[me] += count
            yield

    def _may_run(self, me: int) -> bool:
        if self._exporting is not None:
            return self._exporting == me
        return not self._waiting or me in self._running

    def _may_export(self, me: int, alone: bool) -> bool:
        if self._exporting is not None:
            return self._exporting == me
        return not alone or not self._running or me in self._running

    def _enter(self, me: int, *, alone: bool) -> None:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._may_export(me, alone), PATIENCE)
                self._changed.wait_for(lambda: self._may_export(me, alone=False))
            finally:
                self._waiting -= 1
                self._changed.notify_all()
            self._exporting = me
            self._depth += 1

    def _leave(self) -> None:
        with self._changed:
            self._depth -= 1
            if not self._depth:
                self._exporting = None
            self._changed.notify_all()

    # --- forks ------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Waits for exports: a new process would have the fake tensors, but not the thread."""
        self._enter(get_ident(), alone=False)

    def after_fork(self) -> None:
        """Lets exports go on."""
        self._leave()

    def in_child(self) -> None:
        """Forgets the other threads, which a new process lacks."""
        me = get_ident()
        self._changed = Condition()
        self._running = Counter({me: self._running[me]} if self._running[me] else {})
        self._waiting = 0
        self._leave()


GATE = Gate()
"""Of this process."""
os.register_at_fork(
    before=GATE.before_fork, after_in_parent=GATE.after_fork, after_in_child=GATE.in_child
)
