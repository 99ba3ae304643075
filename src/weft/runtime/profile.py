"""Profiles: how long every step of a network takes, in place within whole runs.

The network is built with a read of the processor's counter of time between its steps, so
caches hold what they hold in real use.  A profile's own cost is one such read for each
step, some tens of nanoseconds.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from statistics import harmonic_mean

import numpy as np

from weft.codegen.flavours import Dialect
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ops.record import Op
from weft.plan.clock import clocked
from weft.plan.executed import executed
from weft.plan.fusion import Group
from weft.plan.plan import Plan
from weft.plan.program import Program
from weft.plan.report import Row, report
from weft.plan.stats import stats
from weft.plan.traffic import Traffic, traffic
from weft.records import dataclass
from weft.runtime.build import build
from weft.runtime.compiler import Compiler
from weft.runtime.library import Library
from weft.runtime.limits import Limits, Meter
from weft.runtime.timing import loop_over

_AT_LEAST = 5
_BATCH_SECONDS = 0.01
_BETWEEN_SECONDS = 0.1
_MOST_KEPT = 256


@dataclass(frozen=True, slots=True)
class LayerTime:
    """One step of a plan.

    Attributes:
        step: its number.
        name: the function that it calls, or the op.
        ops: that it does; nodes: their names in the graph; sources: in the model.
        scheme: the alternative that ran.
        reads: what it reads and of which type; writes: what it makes.
        least: microseconds of the fastest run; median: of half of the runs.
        macs: multiply-accumulates of its nodes; operations: everything else.
        executed: operations that the kernel does, two for a multiply-add; fewer than its
            nodes ask for where an algorithm saves some or borders are skipped.
        bytes: that it has to read and write at least.
        limit: microseconds that no kernel could beat on this machine, if it is known.
        bound: what that limit is: ``compute`` or a level of memory.
    """

    step: int
    name: str
    ops: tuple[str, ...]
    nodes: tuple[str, ...]
    sources: tuple[str, ...]
    scheme: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    least: float
    median: float
    macs: int
    operations: int
    executed: int
    bytes: int
    limit: float = 0.0
    bound: str = ""

    @property
    def flops(self) -> int:
        """Operations, two for each multiply-accumulate."""
        return 2 * self.macs + self.operations

    @property
    def gflops(self) -> float:
        """Thousand million operations that its nodes ask for per second, in the median."""
        return self.flops / self.median / 1000 if self.median > 0 else 0.0

    @property
    def own_gflops(self) -> float:
        """Thousand million operations that the kernel does per second, in the median."""
        return self.executed / self.median / 1000 if self.median > 0 else 0.0

    @property
    def gbytes(self) -> float:
        """Thousand million bytes per second, in the median."""
        return self.bytes / self.median / 1000 if self.median > 0 else 0.0

    @property
    def intensity(self) -> float:
        """Operations that the kernel does per byte."""
        return self.executed / self.bytes if self.bytes else 0.0

    @property
    def fraction(self) -> float:
        """How much of what the machine can do was reached; 0 if that is not known."""
        return self.limit / self.median if self.median > 0 else 0.0

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        derived = {
            name: round(getattr(self, name), 4)
            for name in ("gflops", "own_gflops", "gbytes", "intensity", "fraction")
        }
        return {**asdict(self), "flops": self.flops, **derived}


@dataclass(frozen=True, slots=True)
class Profile:
    """All steps of a network.

    Attributes:
        name: of the graph.
        layers: the steps, in order of execution.
        least: microseconds from before the first step to after the last one, in the
            fastest run; median: in half of the runs.
        runs: how many there were.
        macs: of all nodes, each once; operations: everything else.
        threads: how many ran it.
        limits: of the machine, if they were given.
        gflops: thousand million operations per second of multiply-adds from registers between
            the runs, the harmonic mean; 0 if that was not measured.
    """

    name: str
    layers: tuple[LayerTime, ...]
    least: float
    median: float
    runs: int
    macs: int
    operations: int
    threads: int = 1
    limits: Limits | None = None
    gflops: float = 0.0

    @property
    def flops(self) -> int:
        """Operations, two for each multiply-accumulate."""
        return 2 * self.macs + self.operations

    @property
    def executed(self) -> int:
        """Operations that the kernels do."""
        return sum(layer.executed for layer in self.layers)

    @property
    def bytes(self) -> int:
        """What the steps have to read and write at least."""
        return sum(layer.bytes for layer in self.layers)

    @property
    def limit(self) -> float:
        """Microseconds that no kernels for these steps could beat."""
        return sum(layer.limit for layer in self.layers)

    @property
    def peak_fraction(self) -> float:
        """Share of the peak of multiply-adds that convolutions and matrix products reach.

        The mean of the steps' own rates over the peak, weighted with their own operations;
        0 if the peak is not known, or nothing is multiplied and added.
        """
        layers = [layer for layer in self.layers if layer.macs]
        done = sum(layer.executed for layer in layers)
        if self.limits is None or not done:
            return 0.0
        return sum(each.own_gflops * each.executed for each in layers) / done / self.limits.gflops

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        derived = {"peak_fraction": round(self.peak_fraction, 4)}
        return {**asdict(self), **derived, "layers": [layer.record() for layer in self.layers]}


def profile(
    plan: Plan,
    program: Program,
    inputs: Sequence[np.ndarray],
    ops: Mapping[str, Op],
    *,
    flavour: str | Dialect = "gnu",
    compiler: Compiler | None = None,
    flags: Sequence[str] | None = None,
    seconds: float = 1.0,
    limits: Limits | None = None,
    meter: Meter | None = None,
) -> Profile:
    """Measures every step of a network.

    Args:
        plan: what to run.
        program: what the plan was lowered to; it says how many threads run it.
        inputs: one array for each input, in order.
        ops: the op table.
        flavour: the dialect of C that is generated.
        compiler: by default the one that is found.
        flags: compiler flags instead of those for this machine.
        seconds: how long to measure.
        limits: of the machine with so many threads, to say how far from them each step is.
        meter: of the machine with so many threads, to say what it gave between the runs.
    """
    timed = clocked(plan, program, platform.machine())
    library = build(timed, flavour, compiler=compiler, flags=flags)
    rates: list[float] = []
    times = _times(library, inputs, seconds, lambda: meter and rates.extend(meter.gflops(1)))
    steps = np.diff(times, axis=1)
    whole = times[:, -1] - times[:, 0]
    figures = stats(plan.graph, ops)
    work = traffic(plan, figures)
    layers = [
        _layer(row, plan, each, steps[:, row.step], limits)
        for row, each in zip(report(plan).rows, work, strict=True)
    ]
    return Profile(
        plan.graph.name,
        tuple(layers),
        float(whole.min()),
        float(np.median(whole)),
        len(times),
        figures.macs,
        figures.operations,
        threads=program.threads,
        limits=limits,
        gflops=harmonic_mean(rates) if rates else 0.0,
    )


def _times(
    library: Library,
    inputs: Sequence[np.ndarray],
    seconds: float,
    between: Callable[[], object],
) -> np.ndarray:
    """Microseconds on the counter's clock, of every run before and after every step.

    Args:
        library: gives what the counter says after each step.
        inputs: of a run.
        seconds: how long to measure.
        between: called from time to time, not timed.
    """
    loop, outputs = loop_over(library, inputs)
    runs = loop.timer.batch(_BATCH_SECONDS)
    # Of very short runs, some are enough.
    stride = max(1, runs // _MOST_KEPT)
    start = time.perf_counter_ns()
    found: list[np.ndarray] = []
    due = 0.0
    while len(found) * runs < _AT_LEAST or time.perf_counter_ns() - start < seconds * 1e9:
        if time.perf_counter() >= due:
            between()
            due = time.perf_counter() + _BETWEEN_SECONDS
        found.append(loop.record(outputs[-1], runs)[::stride].copy())
    last = loop.record(outputs[-1], 1)
    passed = time.perf_counter_ns() - start
    ticks = np.concatenate(found)
    # From the first stamp of the first run to that of one more run passed almost as long as
    # on the system's clock from before the first run to after that one.
    span = int(last[0, -1]) - int(ticks[0, 0])
    if span <= 0:
        raise UserError("profiling needs a working time counter", got="one that stands still")
    return (ticks - ticks[0, 0]) * (passed / span / 1000)


def node_times(found: Profile, graph: Graph, ops: Mapping[str, Op]) -> dict[str, float]:
    """Microseconds of each node of a graph, from the profile of the network that it is a form of.

    What a step takes is shared among the nodes that it stands for, in proportion to their
    operations.

    Args:
        found: the profile.
        graph: of the network, after any pass.
        ops: the op table.
    """
    work = {each.name: 2 * each.macs + each.operations for each in stats(graph, ops).layers}
    standing: dict[str, list[str]] = {}
    for node in graph.nodes:
        for source in node.origin.sources or (node.name,):
            standing.setdefault(source, []).append(node.name)
    times: dict[str, float] = {}
    for layer in found.layers:
        # Of a node that rules made after this graph, nothing stands for it.
        nodes = list(dict.fromkeys(n for source in layer.sources for n in standing.get(source, ())))
        whole = sum(work[name] for name in nodes)
        for name in nodes:
            part = work[name] / whole if whole else 1 / len(nodes)
            times[name] = times.get(name, 0.0) + layer.median * part
    return times


def _layer(
    row: Row, plan: Plan, work: Traffic, times: np.ndarray, limits: Limits | None
) -> LayerTime:
    step = plan.steps[row.step]
    nodes = step.work.nodes if isinstance(step.work, Group) else (step.work.node,)
    sources = dict.fromkeys(
        source for node in nodes for source in (node.origin.sources or (node.name,))
    )
    counted = executed(step.implementation.kernel) if step.implementation else None
    done = work.flops if counted is None else counted
    limit, bound = limits.bound(work, done) if limits else (0.0, "")
    return LayerTime(
        step=row.step,
        name=row.name,
        ops=row.ops,
        nodes=row.nodes,
        sources=tuple(sources),
        scheme=row.scheme,
        reads=tuple(f"{each.value} {each.type}" for each in row.reads),
        writes=tuple(f"{each.value} {each.type}" for each in row.writes),
        least=float(times.min()),
        median=float(np.median(times)),
        macs=work.work.macs,
        operations=work.work.operations,
        executed=done,
        bytes=work.bytes,
        limit=limit,
        bound=bound,
    )
