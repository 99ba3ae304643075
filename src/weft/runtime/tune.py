"""Tuning: the best few alternatives of every layer, measured in place within whole runs.

The network is built several times, each time with another alternative for all its layers at
once, and with a clock between the steps (``weft.plan.clock``).  So every alternative is
measured as it would be used: with what the steps before it leave in the caches, with weights
that come from where they would come from, by as many threads.  The variants run in turn, so
that what disturbs the machine disturbs all of them.

First come alternatives of different kinds (algorithms, register tiles), then the siblings of
each layer's best (order of loops, prefetching, tiles at once).  In the end the network with
all the choices is compared with the untuned one, in its outputs and in its time.
"""

from __future__ import annotations

import math
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from weft.codegen.flavours import Dialect
from weft.errors import InternalError
from weft.kernels.layers import Layer, layers_of
from weft.kernels.selection import alternatives
from weft.plan.choice import Measured
from weft.plan.clock import clocked
from weft.plan.plan import Plan
from weft.plan.to_program import lower
from weft.records import dataclass
from weft.reporting import announce
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.choices import Choice
from weft.runtime.compare import compare
from weft.runtime.compiler import Compiler
from weft.runtime.library import Library
from weft.runtime.limits import processor_name
from weft.screen import Screen, Shown, several

Report: TypeAlias = Callable[[float, str], None]
"""``report(done, what)``: what is done next, and how much is done, from 0 to 1."""

KINDS = 4
"""Alternatives of different kinds that are measured for a layer, the usual one included."""
SIBLINGS = 2
"""Alternatives of the best kind that are measured after that."""
HOPELESS = 1.4
"""What costs so many times the best by estimate is not measured."""
NEGLIGIBLE = 0.002
"""Layers that take less than this share of a run stay as they are."""
WORTH = 0.98
"""An alternative must take less than this part of the usual one's time to be chosen."""
TOLERANCE = 1e-3
"""How far tuned outputs may be off, relative to their range."""
_RUNS = 3
_LEAST_TURNS = 4
_QUANTILE = 0.1
"""Of the runs: robust against disturbances, which only ever take time."""


@dataclass(frozen=True)
class Setup:
    """What is tuned, and how it is built.

    Attributes:
        plan: the network's plan with some alternatives chosen, by layer.
        compiler: that compiles it; with ``flavour`` and ``flags``.
    """

    plan: Callable[[Mapping[str, str]], Plan]
    compiler: Compiler
    flavour: Dialect
    flags: Sequence[str]


@dataclass(frozen=True)
class LayerTuning:
    """What was measured of a layer.

    Attributes:
        what: operations and shapes; count: steps of the network that are such a layer.
        usual: the alternative that was there; chosen: the one that is taken from now on.
        micros: microseconds that all these steps take in a run, by alternative.
    """

    key: str
    what: str
    count: int
    usual: str
    chosen: str
    micros: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Tuning(Shown):
    """What tuning a network found.

    Attributes:
        layers: that were measured.
        untuned: microseconds of a run with the usual alternatives; tuned: with the choices.
        kept: whether the choices are taken; they are not if the network got slower.
        seconds: that it took.
    """

    layers: tuple[LayerTuning, ...]
    untuned: float = 0.0
    tuned: float = 0.0
    kept: bool = True
    seconds: float = 0.0

    @property
    def choices(self) -> Measured:
        """Names of alternatives by layer."""
        micros = {
            each.key: {name: spent / each.count for name, spent in each.micros.items()}
            for each in self.layers
        }
        return Measured({each.key: each.chosen for each in self.layers}, micros)

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        title = (
            f"Tuning: {several(len(self.layers), 'layer')} measured in {self.seconds:.1f} s, "
            f"{self.untuned:,.1f} µs before and {self.tuned:,.1f} after"
        )
        rows = [(each.what, str(each.count), each.usual, each.chosen) for each in self.layers]
        headings = ("layer", "steps", "before", "after")
        return Screen(title if self.kept else f"{title} (not kept)", (), headings, rows, (1,))

    def entries(self, compiler: Compiler) -> list[Choice]:
        """For the database."""
        machine = f"{processor_name()}; {compiler.version}"
        return [
            Choice(
                each.key,
                each.chosen,
                each.micros.get(each.chosen, 0.0) / each.count,
                each.usual,
                each.micros.get(each.usual, 0.0) / each.count,
                each.what,
                machine,
            )
            for each in self.layers
        ]


@dataclass
class _Variant:
    """The network with certain alternatives, built."""

    choices: Mapping[str, str]
    library: Library
    values: tuple[str, ...]
    """What each step makes."""
    ticks: list[np.ndarray] = field(default_factory=list[np.ndarray])

    def steps(self, tick: float) -> dict[str, float]:
        """Microseconds of every step, by what it makes."""
        spans = np.diff(np.stack(self.ticks), axis=1)
        times = np.quantile(spans, _QUANTILE, axis=0) * tick
        return dict(zip(self.values, times.tolist(), strict=True))

    def whole(self, tick: float) -> float:
        """Microseconds of a run: all its steps, for hardly a whole run is undisturbed."""
        return sum(self.steps(tick).values())


@dataclass
class _Tuner:
    setup: Setup
    inputs: Sequence[np.ndarray]
    known: Mapping[str, str]
    seconds: float
    report: Report
    cache: Cache
    done: float = 0.0

    def run(self) -> Tuning:
        start = time.perf_counter()
        self.say(0.0, "building the network as it is")
        plan = self.setup.plan(self.known)
        first = self.variant(self.known, plan)
        layers = [layer for layer in layers_of(plan) if layer.key not in self.known]
        self.say(0.08, "measuring it")
        tick = self.measure([first], self.seconds / 20)
        worth = self.worth(layers, first, tick)
        times: dict[str, dict[str, float]] = {layer.key: {} for layer in layers}
        self.round(first, {each.key: kinds(each) for each in worth}, worth, times, 0.1, 0.55)
        best = {each.key: fastest(each, times[each.key]) for each in worth}
        nearer = {each.key: siblings(each, best[each.key]) for each in worth}
        self.round(first, nearer, worth, times, 0.55, 0.85)
        tuned = tuple(
            LayerTuning(
                each.key,
                each.what,
                len(each.values),
                each.scheme,
                fastest(each, times[each.key]),
                times[each.key],
            )
            for each in layers
        )
        return self.checked(first, tuned, start)

    # --- measuring ----------------------------------------------------------------------------

    def say(self, done: float, what: str) -> None:
        self.done = done
        announce(f"tuning: {what}")
        self.report(done, what)

    def variant(self, choices: Mapping[str, str], plan: Plan | None = None) -> _Variant:
        """Builds the network with some alternatives."""
        setup = self.setup
        plan = plan or setup.plan(choices)
        program = clocked(plan, lower(plan), platform.machine())
        library = build(
            program, setup.flavour, compiler=setup.compiler, cache=self.cache, flags=setup.flags
        )
        values = tuple(next(iter(step.writes), "") for step in plan.steps)
        return _Variant(choices, library, values)

    def measure(self, variants: Sequence[_Variant], seconds: float) -> float:
        """Runs variants in turn for about so long; returns microseconds per tick."""
        end = time.perf_counter() + seconds
        outputs = [each.library(*self.inputs) for each in variants]
        begin = time.perf_counter_ns()
        first, last = 0, 0
        turns = 0
        while turns < _LEAST_TURNS or time.perf_counter() < end:
            for variant, out in zip(variants, outputs, strict=True):
                # The first run of a turn finds the caches full of another variant's data.
                variant.library(*self.inputs, out=out)
                for _ in range(_RUNS):
                    variant.library(*self.inputs, out=out)
                    variant.ticks.append(out[-1].copy())
                first = first or int(out[-1][0])
                last = int(out[-1][-1])
            turns += 1
        return (time.perf_counter_ns() - begin) / 1000 / max(1, last - first)

    def worth(self, layers: Iterable[Layer], first: _Variant, tick: float) -> list[Layer]:
        """Layers that take long enough, and have alternatives."""
        steps = first.steps(tick)
        least = NEGLIGIBLE * sum(steps.values())
        return [
            layer
            for layer in layers
            if sum(steps[value] for value in layer.values) >= least
            and (kinds(layer) or siblings(layer, layer.scheme))
        ]

    def round(
        self,
        first: _Variant,
        names: Mapping[str, Sequence[str]],
        layers: Sequence[Layer],
        times: Mapping[str, dict[str, float]],
        start: float,
        stop: float,
    ) -> None:
        """Measures alternatives of all layers, one of each at a time."""
        count = max(map(len, names.values()), default=0)
        if not count:
            return
        first.ticks.clear()
        variants = [first]
        step = (stop - start) / (count + 2)
        for place in range(count):
            self.say(start + place * step, f"building variant {place + 1} of {count}")
            chosen = {key: each[place] for key, each in names.items() if place < len(each)}
            variants.append(self.variant({**self.known, **chosen}))
        self.say(start + count * step, "measuring")
        tick = self.measure(variants, self.seconds * (stop - start))
        for variant in variants:
            steps = variant.steps(tick)
            for layer in layers:
                name = variant.choices.get(layer.key, layer.scheme)
                micros = sum(steps[value] for value in layer.values)
                times[layer.key][name] = min(micros, times[layer.key].get(name, math.inf))

    def checked(self, first: _Variant, layers: tuple[LayerTuning, ...], start: float) -> Tuning:
        """Compares the tuned network with the untuned one."""
        chosen = {each.key: each.chosen for each in layers if each.chosen != each.usual}
        if not chosen:
            return Tuning(layers, seconds=time.perf_counter() - start)
        self.say(0.85, "building the tuned network")
        tuned = self.variant({**self.known, **chosen})
        self.say(0.93, "comparing")
        wanted, found = first.library(*self.inputs)[:-1], tuned.library(*self.inputs)[:-1]
        for port, one, other in zip(first.library.outputs[:-1], wanted, found, strict=True):
            error = compare(port.name, other, one).relative
            if not error < TOLERANCE:
                raise InternalError(
                    f"tuned kernels compute something else: {port.name} is off by {error:.1e}",
                    "\n".join(f"{each.what}: {each.chosen}" for each in layers),
                )
        first.ticks.clear()
        tick = self.measure([first, tuned], self.seconds * 0.15)
        before, after = first.whole(tick), tuned.whole(tick)
        kept = after < before
        if not kept:
            layers = tuple(_as_usual(each) for each in layers)
        return Tuning(layers, before, after, kept, time.perf_counter() - start)


def _as_usual(layer: LayerTuning) -> LayerTuning:
    return LayerTuning(layer.key, layer.what, layer.count, layer.usual, layer.usual, layer.micros)


def kind_of(name: str) -> str:
    """What siblings share: ``tiled-14x2-tiles-ahead`` is of the kind ``tiled-14x2``."""
    return "-".join(name.split("-")[:2])


def _offered(layer: Layer) -> list[str]:
    """Names of alternatives that are worth measuring, the usual one among them."""
    found = [each for each in alternatives(layer.task) if math.isfinite(each.cost)]
    limit = HOPELESS * found[0].cost if found else 0.0
    return [each.name for each in found if each.cost <= limit]


def kinds(layer: Layer) -> list[str]:
    """One alternative of each kind but the usual one's, the best by estimate first.

    Those that call libraries, whose costs nobody estimates, come last, but always.
    """
    found: dict[str, str] = {}
    for name in _offered(layer):
        found.setdefault(kind_of(name), name)
    found.pop(kind_of(layer.scheme), None)
    called = [each.name for each in alternatives(layer.task) if each.outside]
    return list(found.values())[: KINDS - 1] + [name for name in called if name != layer.scheme]


def siblings(layer: Layer, name: str) -> list[str]:
    """Others of the same kind."""
    return [each for each in _offered(layer) if kind_of(each) == kind_of(name) and each != name][
        :SIBLINGS
    ]


def fastest(layer: Layer, micros: Mapping[str, float]) -> str:
    """The name of the fastest alternative; the usual one if that gains little."""
    if not micros:
        return layer.scheme
    best = min(micros, key=lambda name: micros[name])
    return best if micros[best] < WORTH * micros[layer.scheme] else layer.scheme


def tune(
    setup: Setup,
    inputs: Sequence[np.ndarray],
    known: Mapping[str, str],
    *,
    seconds: float,
    report: Report | None = None,
) -> Tuning:
    """Measures alternatives of the layers of a network.

    Args:
        setup: what is tuned.
        inputs: one array for each input, in order.
        known: alternatives by layer that were chosen before; these are not measured again.
        seconds: for how long networks run in all; building them comes on top.
        report: is told what happens.

    Raises:
        InternalError: the tuned network computes something else.
    """
    with tempfile.TemporaryDirectory(prefix="weft-tune-") as folder:
        cache = Cache(Path(folder))
        return _Tuner(setup, inputs, known, seconds, report or _silent, cache).run()


def _silent(done: float, what: str) -> None:
    """Reports nothing."""
