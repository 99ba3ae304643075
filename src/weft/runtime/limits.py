"""What this machine can do at most: multiply-adds from registers, reads from every level of memory.

Measured with small C functions, once, and kept in the user's cache.  Limits are maxima, so
what other processes take away while they are measured is found out by measuring again: the
better figure of each stays.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import platform
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from weft.atomic import write_files
from weft.errors import UserError
from weft.plan.traffic import Traffic
from weft.records import dataclass
from weft.reporting import announce
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import (
    Compiler,
    compile_object,
    find_compiler,
    link_library,
    target_flags,
)
from weft.runtime.memory import RunMemory
from weft.targets import system
from weft.targets.target import Target

_SOURCE = Path(__file__).parent / "data" / "limits.c"
# What is assumed where the system does not say.
_USUAL = (("L1", 32 << 10), ("L2", 1 << 20), ("L3", 16 << 20))
_MEMORY = "DRAM"
_LEAST_MEMORY = 64 << 20
# A cache that does not simply evict the oldest keeps some of four times its size.
_SURELY_MEMORY = 512 << 20
_CHAINS = 12
_UNROLLED = 8
# Rounds are short, so that some fall between what other processes do.
_ROUND_SECONDS = 0.003
_ROUNDS = 25
_OVERLAP = 0.9


@dataclass(frozen=True, slots=True)
class Level:
    """A level of memory.

    Attributes:
        name: ``L1``, ``L2``, ``L3`` or ``DRAM``.
        bytes: that it holds, of all threads together; 0 is no bound.
        gbytes: thousand million bytes per second that all threads together can read.
    """

    name: str
    bytes: int
    gbytes: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What a number of threads can do at most.

    Attributes:
        processor: its name.
        vector_bytes: of the registers that were used.
        threads: how many.
        gflops: thousand million operations per second, two for a multiply-add.
        levels: of memory, the nearest first.
    """

    processor: str
    vector_bytes: int
    threads: int
    gflops: float
    levels: tuple[Level, ...]

    def bound(self, work: Traffic, flops: int) -> tuple[float, str]:
        """Microseconds below which no kernel can do some work, and what sets them.

        Every operand comes from the nearest levels that still hold it after all that was
        touched since it was used last, through all levels before; levels and arithmetic
        overlap.

        Args:
            work: what is moved.
            flops: operations that are done.
        """
        times = {"compute": flops / self.gflops / 1000}
        nearer = 0
        for level in self.levels:
            moved = work.beyond(nearer) if nearer else work.bytes
            times[level.name] = moved / level.gbytes / 1000
            nearer = level.bytes
        bound = max(times, key=lambda name: times[name])
        return times[bound], bound

    def better(self, other: Limits) -> Limits:
        """The larger figure of each."""
        pairs = zip(self.levels, other.levels, strict=True)
        levels = tuple(replace(a, gbytes=max(a.gbytes, b.gbytes)) for a, b in pairs)
        return replace(self, gflops=max(self.gflops, other.gflops), levels=levels)

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return asdict(self)


def limits(
    machine: Target,
    threads: int = 1,
    *,
    compiler: Compiler | None = None,
    cache: Cache | None = None,
    again: bool = False,
) -> Limits:
    """The limits of this machine, measured if they are not in the cache.

    Args:
        machine: this machine, or a target whose instructions it has.
        threads: how many work at once.
        compiler: by default the one that is found.
        cache: where figures are kept; by default the user's cache.
        again: measure even so, and keep the better figures.
    """
    compiler, cache = compiler or find_compiler(), cache or Cache()

    def measured() -> Limits:
        announce("measuring what this machine can do")
        return measure(machine, threads, cache_sizes(), compiler, cache)

    name = _file(compiler, machine, threads)
    kept = cache.read(name)
    found = measured() if kept is None else _parsed(kept)
    if again:
        found = found.better(measured())
    if kept is None or again:
        cache.put(name, lambda target: _write(target, found))
    return found


def known_levels(machine: Target) -> Mapping[str, Level]:
    """Levels of memory by name, if ``limits`` measured them for this machine and one thread."""
    try:
        kept = Cache().read(_file(find_compiler(), machine, 1))
    except UserError:  # There is no compiler.
        return {}
    return {} if kept is None else {each.name: each for each in _parsed(kept).levels}


def _file(compiler: Compiler, machine: Target, threads: int) -> str:
    """Of the cache, for the limits of this machine."""
    flags = _flags(compiler, machine)
    identity = [_SOURCE.read_bytes(), *flags, compiler.version, processor(), repr(cache_sizes())]
    return f"limits-{digest([*identity, str(threads), str(machine.vector_bytes)])}.json"


def _write(target: Path, figures: Limits) -> None:
    write_files(target.parent, [(target.name, json.dumps(figures.record()).encode())])


def _parsed(text: bytes) -> Limits:
    record = json.loads(text)
    levels = tuple(Level(**each) for each in record.pop("levels"))
    return Limits(**record, levels=levels)


# --- the machine ----------------------------------------------------------------------------


def cache_sizes() -> tuple[tuple[str, int], ...]:
    """Names and bytes of the data caches of a core, the nearest first."""
    return system.cache_sizes() or _USUAL


def processor_name() -> str:
    """What the processor calls itself, and in brackets its core where Weft knows it.

    Virtual machines hide models: two generations call themselves ``AMD EPYC`` there.
    """
    name = system.cpuinfo().get("model name") or platform.processor() or platform.machine()
    core = system.core()
    return f"{name} ({core})" if core else name


def _flags(compiler: Compiler, machine: Target) -> list[str]:
    return ["-std=gnu11", "-O2", "-ffp-contract=fast", *target_flags(compiler, machine)]


# --- measuring ------------------------------------------------------------------------------


class Meter:
    """Measures what this machine does.

    Args:
        machine: this machine, or a target whose instructions it has.
        threads: that work at once.
        compiler: of the functions that are timed; by default the one that is found.
        cache: where they are kept; by default the user's cache.
    """

    def __init__(
        self,
        machine: Target,
        threads: int,
        compiler: Compiler | None = None,
        cache: Cache | None = None,
    ) -> None:
        compiler, cache = compiler or find_compiler(), cache or Cache()
        self.width = machine.vector_bytes or 16
        self.threads = threads
        flags = [*_flags(compiler, machine), f"-DWIDTH={self.width}"]
        identity = [_SOURCE.read_bytes(), *flags, *compiler.command, compiler.version, processor()]
        path = cache.get(
            f"limits-{digest(identity)}.so", lambda target: _compile(compiler, flags, target)
        )
        library = ctypes.CDLL(str(path))
        self._multiply, self._read = library.weft_multiply, library.weft_read
        self._multiply.argtypes = [ctypes.c_long, ctypes.c_float, ctypes.c_void_p]
        self._read.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
        self._multiply.restype = self._read.restype = None

    def gflops(self, rounds: int | None = None) -> tuple[float, ...]:
        """Thousand million operations per second in every round, two for a multiply-add."""
        flops = _CHAINS * 2 * (self.width // 4)
        return _rates(partial(_multiply, self._multiply), flops, self.threads, rounds or _ROUNDS)

    def gbytes(self, footprint: int, rounds: int | None = None) -> tuple[float, ...]:
        """Thousand million bytes per second read in every round.

        Args:
            footprint: bytes that each thread reads again and again.
            rounds: how many.
        """
        vectors = max(1, footprint // (self.width * _UNROLLED)) * _UNROLLED
        memory = [_touched(vectors * self.width) for _ in range(self.threads)]
        addresses = [each.address for each in memory]
        work = partial(_read, self._read, addresses, vectors)
        return _rates(work, vectors * self.width, self.threads, rounds or _ROUNDS)


def measure(
    machine: Target,
    threads: int,
    caches: Sequence[tuple[str, int]],
    compiler: Compiler,
    cache: Cache,
) -> Limits:
    """Measures; see ``limits``."""
    meter = Meter(machine, threads, compiler, cache)
    levels = [
        Level(name, size, max(meter.gbytes(footprint)))
        for name, size, footprint in _footprints(caches, threads)
    ]
    return Limits(processor_name(), meter.width, threads, max(meter.gflops()), tuple(levels))


def _footprints(caches: Sequence[tuple[str, int]], threads: int) -> list[tuple[str, int, int]]:
    """Levels: name, bytes of all threads together, and bytes that each thread reads."""
    found: list[tuple[str, int, int]] = []
    last = caches[-1][0]
    for place, (name, size) in enumerate(caches):
        shared = name == last and place > 1
        own = size // threads if shared else size
        # What does not fit into the level before, and well into this one.
        nearer = caches[place - 1][1] if place else 0
        found.append(
            (name, size if shared else size * threads, max(own // 2, min(2 * nearer, own)))
        )
    last_bytes = caches[-1][1]
    most = max(_LEAST_MEMORY, 4 * last_bytes, min(16 * last_bytes, _SURELY_MEMORY))
    return [*found, (_MEMORY, 0, most // threads)]


def _compile(compiler: Compiler, flags: Sequence[str], target: Path) -> None:
    source = target.with_name(_SOURCE.name)
    write_files(source.parent, [(source.name, _SOURCE.read_bytes())])
    compile_object(compiler, flags, source, source.with_suffix(".o"))
    link_library(compiler, [source.with_suffix(".o")], target)


def _multiply(function: Callable[..., None], count: int, _: int) -> None:
    function(count, 0.999, ctypes.byref(ctypes.c_float()))


def _read(
    function: Callable[..., None], memory: Sequence[int], vectors: int, count: int, thread: int
) -> None:
    function(memory[thread], vectors, count, ctypes.byref(ctypes.c_uint()))


def _touched(size: int) -> RunMemory:
    """Memory like that which networks run on, every page of it written."""
    memory = RunMemory(size)
    with memory.view() as view:
        for start in range(0, size, mmap.PAGESIZE):
            view[start] = 1
    return memory


def _rates(
    work: Callable[[int, int], None], units: int, threads: int, rounds: int
) -> tuple[float, ...]:
    """Thousand million units per second of all threads in each round.

    Args:
        work: ``work(count, thread)`` does ``count`` times ``units``.
        units: of one.
        threads: how many do it at once.
        rounds: how many.
    """
    count = 1
    while (took := _seconds(work, count, 0)) < _ROUND_SECONDS / 2:
        count = max(2 * count, int(count * _ROUND_SECONDS / max(took, 1e-6) / 2))
    if threads == 1:
        speeds = [1 / _seconds(work, count, 0) for _ in range(rounds)]
    else:
        speeds = [_speed(spans) for spans in _together(work, count, threads, rounds)]
    return tuple(units * count * each / 1e9 for each in speeds)


def _seconds(work: Callable[[int, int], None], count: int, thread: int) -> float:
    start = time.perf_counter()
    work(count, thread)
    return time.perf_counter() - start


def _together(
    work: Callable[[int, int], None], count: int, threads: int, rounds: int
) -> list[tuple[tuple[float, float], ...]]:
    """When each thread started and ended, in every round."""
    barrier = threading.Barrier(threads)
    spans: list[list[tuple[float, float]]] = [[] for _ in range(threads)]

    def run(thread: int) -> None:
        for _ in range(rounds):
            barrier.wait()
            start = time.perf_counter()
            work(count, thread)
            spans[thread].append((start, time.perf_counter()))

    workers = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return list(zip(*spans, strict=True))


def _speed(spans: Sequence[tuple[float, float]]) -> float:
    """Rounds per second of threads that worked at the same time."""
    starts, ends = zip(*spans, strict=True)
    whole = max(ends) - min(starts)
    if min(ends) - max(starts) < _OVERLAP * whole:
        # What one did while another had not begun, or was done, says nothing of both.
        return len(spans) / whole
    return sum(1 / (end - start) for start, end in spans)
