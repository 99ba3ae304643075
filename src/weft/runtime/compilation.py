"""Sources that are compiled, several at once, while others are still written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from types import TracebackType
from typing import Self

from weft.atomic import write_files
from weft.reporting import announce
from weft.runtime.compiler import Compiler, compile_object, end_compilers


class Compilation:
    """A folder of sources and their objects; a context, at whose end no compiler runs any more.

    Args:
        compiler: the compiler.
        flags: for it.
        folder: that nobody else uses.
        jobs: how many compilers run at once.
    """

    def __init__(self, compiler: Compiler, flags: Sequence[str], folder: Path, jobs: int) -> None:
        self._compiler, self._flags, self.folder = compiler, flags, folder
        self._pool, self._jobs = ThreadPoolExecutor(jobs), jobs
        self._started: dict[str, Future[None]] = {}

    def start(self, name: str, text: str) -> None:
        """Compiles a source, which includes nothing that is still to be written."""
        write_files(self.folder, [(name, text.encode())])
        source = self.folder / name
        self._started[name] = self._pool.submit(
            compile_object, self._compiler, self._flags, source, source.with_suffix(".o")
        )

    def started(self, name: str) -> bool:
        """Whether a source is compiled already, or will be."""
        return name in self._started

    def ease(self) -> None:
        """Waits until fewer sources are left than compilers may run at once: a core is free then.

        What the caller does now takes no time from compilers, and one of them less has memory.
        """
        left = {future for future in self._started.values() if not future.done()}
        while len(left) >= self._jobs:
            announce("compiling")
            done, left = wait(left, return_when=FIRST_COMPLETED)
            for each in done:
                each.result()

    def objects(self, names: Sequence[str]) -> list[Path]:
        """The objects of sources, once all are there."""
        left = {self._started[name]: name for name in names}
        announce(f"compiling {names[0]}", 0, len(names))
        for done, future in enumerate(as_completed(list(left)), 1):
            future.result()
            del left[future]
            if left:
                announce(f"compiling {next(iter(left.values()))}", done, len(names))
        return [(self.folder / name).with_suffix(".o") for name in names]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Threads cannot be interrupted, and would wait for their compilers.
        self._pool.shutdown(wait=False, cancel_futures=True)
        while not all(each.done() for each in self._started.values()):
            end_compilers(self.folder)
            time.sleep(0.01)


class Ahead:
    """Starts compilers for sources as they are written, where nothing like them was built before.

    What a library is made from is known once all sources are written.  If the first of them
    belongs to a library that the cache has, it is probably this one, as for another checkpoint
    of a network; then compilers wait until that is certain.

    Args:
        start: compiles a source.
        mark: a word for the first source, which goes into the library's name.
        known: whether the cache has a library of such a mark.
    """

    def __init__(
        self,
        start: Callable[[str, str], object],
        mark: Callable[[str], str],
        known: Callable[[str], bool],
    ) -> None:
        self._start, self._mark, self._known = start, mark, known
        self._waits = False
        self.mark = ""

    def __call__(self, name: str, text: str) -> None:
        """Takes a source."""
        if not self.mark:
            self.mark = self._mark(text)
            self._waits = self._known(self.mark)
        if not self._waits:
            self._start(name, text)
