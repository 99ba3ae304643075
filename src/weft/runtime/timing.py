"""How long one run takes, called from C as a C program calls it, or from Python.

A run of a small network takes less time than Python needs to call it, so the loop over runs is
in C.  Runs shorter than a batch are timed by the batch: what reading the clock costs is lost in
it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from weft.atomic import write_files
from weft.errors import InternalError
from weft.records import dataclass
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import Compiler, compile_object, find_compiler, link_library
from weft.runtime.library import Library

Caller: TypeAlias = Literal["C", "Python"]

_SOURCE = Path(__file__).parent / "data" / "timing.c"
_FLAGS = ("-std=gnu11", "-O2")
_WARM_UPS = 3
_LEAST_BATCHES = 5
_BATCH_SECONDS = 100e-6
# C is left so often, so that Ctrl-C is seen.
_SLICE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one run.

    Attributes:
        called_from: ``C`` or ``Python``: what called the run function in a loop.
        least: the fastest batch; median: of half of the batches; most: of 95 % of them.
        runs: how many runs there were in all.
    """

    called_from: Caller
    least: float
    median: float
    most: float
    runs: int


def microseconds(value: float, whole: float | None = None) -> str:
    """A time for people, with decimals that say something beside a whole."""
    beside = value if whole is None else whole
    return f"{value:,.{1 if beside >= 100 else 2 if beside >= 1 else 3}f}"


@dataclass(frozen=True)
class Timer:
    """Something that runs again and again.

    Attributes:
        called_from: what calls it.
        nanoseconds: of each batch, given how many runs are a batch, and how many batches to run.
    """

    called_from: Caller
    nanoseconds: Callable[[int, int], Sequence[int]]

    def batch(self, seconds: float = _BATCH_SECONDS) -> int:
        """Warms up; returns how many runs take so long, at least one."""
        count = 1
        self.nanoseconds(1, _WARM_UPS)
        while True:
            passed = min(self.nanoseconds(count, 2))
            if passed >= seconds * 1e9 / 4:
                return max(1, ceil(count * seconds * 1e9 / max(1, passed)))
            count *= 4

    def micros(self, runs: int, batches: int) -> list[float]:
        """Microseconds of one run, the mean of each batch."""
        return [each / runs / 1000 for each in self.nanoseconds(runs, batches)]


def summary(timer: Timer, micros: Sequence[float], runs: int) -> Timing:
    """The figures of batches of so many runs."""
    least, median, most = (float(each) for each in np.percentile(micros, [0, 50, 95]))
    return Timing(timer.called_from, least, median, most, runs * len(micros))


def measure(timer: Timer, seconds: float) -> Timing:
    """Runs something again and again for about so long."""
    runs = timer.batch()
    found: list[float] = []
    end = time.perf_counter() + seconds
    batches = 1
    while len(found) < _LEAST_BATCHES or time.perf_counter() < end:
        found += timer.micros(runs, batches)
        batches = max(1, int(_SLICE_SECONDS * 1e6 / max(1e-3, runs * found[-1])))
    return summary(timer, found, runs)


# --- from Python ----------------------------------------------------------------------------


def from_python(function: Callable[[], object]) -> Timer:
    """Calls a function of Python's."""

    def nanoseconds(runs: int, batches: int) -> Sequence[int]:
        found: list[int] = []
        for _ in range(batches):
            start = time.perf_counter_ns()
            for _ in range(runs):
                function()
            found.append(time.perf_counter_ns() - start)
        return found

    return Timer("Python", nanoseconds)


# --- from C ---------------------------------------------------------------------------------


class Loop:
    """A loop in C over a run function.

    Args:
        function: the address of the run function, all of whose parameters are pointers.
        arguments: what it is given.
        kept: what the arguments point to, and whatever else must live as long as the loop.
    """

    def __init__(self, function: int, arguments: Sequence[int], kept: object = None) -> None:
        path = _build(len(arguments), find_compiler(), Cache())
        try:
            library = ctypes.CDLL(str(path))
            self._time, self._record = library.weft_time, library.weft_record
        except (OSError, AttributeError) as error:
            raise InternalError(f"the built loop {path} cannot be loaded: {error}") from error
        count, pointer = ctypes.c_int64, ctypes.c_void_p
        self._time.argtypes = [pointer, pointer, count, count, pointer]
        self._record.argtypes = [pointer, pointer, count, pointer, count, pointer]
        self._function = function
        self._arguments = (ctypes.c_void_p * len(arguments))(*arguments)
        self._kept = kept

    @property
    def timer(self) -> Timer:
        """Times the loop."""
        return Timer("C", self.nanoseconds)

    def nanoseconds(self, runs: int, batches: int) -> Sequence[int]:
        """Of each of some batches of so many runs."""
        times = np.empty(batches, np.int64)
        code = self._time(self._function, self._arguments, runs, batches, times.ctypes.data)
        _refuse(code)
        return times.tolist()

    def record(self, output: np.ndarray, runs: int) -> np.ndarray:
        """Runs so often; returns what each run wrote to an output, along a new first axis."""
        found = np.empty((runs, *output.shape), output.dtype)
        code = self._record(
            self._function,
            self._arguments,
            runs,
            output.ctypes.data,
            output.nbytes,
            found.ctypes.data,
        )
        _refuse(code)
        return found


def _refuse(code: int) -> None:
    if code != 0:
        raise InternalError(f"a run that is timed returned {code}")


def loop_over(library: Library, inputs: Sequence[np.ndarray]) -> tuple[Loop, list[np.ndarray]]:
    """A loop over a network's run function, and the outputs that it writes to."""
    outputs = list(library(*inputs))
    function, arguments = library.entry(inputs, outputs)
    return Loop(function, arguments, (library, inputs, outputs)), outputs


def from_c(library: Library, inputs: Sequence[np.ndarray]) -> Timer:
    """Calls a network from C.

    Args:
        library: the network.
        inputs: one array for each input, in order.
    """
    return loop_over(library, inputs)[0].timer


def _build(count: int, compiler: Compiler, cache: Cache) -> Path:
    """The loop over functions of so many parameters as a shared library."""
    values = ",".join(f"values[{place}]" for place in range(count))
    flags = [*_FLAGS, f"-DTYPES={','.join(['void*'] * count)}", f"-DVALUES={values}"]
    text = _SOURCE.read_text()
    identity = [text, *flags, *compiler.command, compiler.kind, compiler.version, processor()]

    def make(target: Path) -> None:
        source = target.parent / _SOURCE.name
        write_files(source.parent, [(source.name, text.encode())])
        compile_object(compiler, flags, source, source.with_suffix(".o"))
        link_library(compiler, [source.with_suffix(".o")], target)

    return cache.get(f"timing-{digest(identity)}.so", make)
