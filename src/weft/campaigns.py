"""``weft.campaign``: many seeded variants of a network's weights on one compiled build.

::

    found = weft.campaign("net.onnx", "fault-weights", grid={"count": [1, 10]}, data="images.npz")
    print(found)

The constants that a recipe may change are inputs of the build, so a variant needs other arrays
and no compiler.  Where a variant differs in more than constants, it is built by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, cast, get_origin, get_type_hints

import numpy as np

from weft.api import CompiledNet, Net, load
from weft.compress.faults import stored
from weft.errors import UserError, nearest_or_all
from weft.explore.campaign import Campaign, Cell, Trial
from weft.explore.trials import Samples, right
from weft.ir.graph import Graph
from weft.options import Options
from weft.recipes import recipe_named
from weft.records import dataclass
from weft.rewrite.recipe import Recipe, applied, parameters_of
from weft.variants import samples_of

Report = Callable[[float, str], None]
"""Is told how much is done, from 0 to 1, and what is done."""

TRIALS = 100
_CHOOSERS = ("tensors", "layers")


def campaign(
    model: str | Path | Net,
    recipe: str | Recipe,
    *,
    grid: Mapping[str, Sequence[object]] | None = None,
    trials: int | None = None,
    seed: int = 0,
    data: str | Path | Mapping[str, np.ndarray] | None = None,
    per_layer: bool = False,
    batch: int = 1,
    threads: int | None = None,
    options: Options | None = None,
    report: Report | None = None,
    **parameters: object,
) -> Campaign:
    """Runs seeded variants of a network and counts the predictions that change.

    A prediction is the place of the greatest element of the first output; where a NaN is among
    them there is none, which counts as changed.

    Args:
        model: a network or its file.
        recipe: that makes a variant: ``fault-weights``, ``noise-weights``, ``palette``, ...
        grid: parameters of the recipe with the values to try, in all combinations.
        trials: variants for each combination, with the seeds ``seed``, ``seed + 1``, ...; 100,
            or 1 if the recipe takes no seed.
        seed: of the first trial.
        data: samples, as for ``weft.compare``; a few random inputs if not given.
        per_layer: repeat everything for each tensor alone.
        batch: size of an open leading dimension.
        threads: most threads that one run can use; by default as ``compile`` has it.
        options: see ``weft.Options``, in place of ``batch`` and ``threads``.
        report: is told what happens.
        parameters: of the recipe that stay as they are.

    Returns:
        The rates with their intervals: a table, a record for JSON, a picture.
    """
    options = options or Options(batch=batch, threads=threads)
    net = (model if isinstance(model, Net) else load(model)).bound(options.batch)
    plan = _planned(recipe_named(recipe), grid or {}, parameters, trials, seed)
    samples = samples_of(data, net)
    layers = _layers(plan, net.graph) if per_layer else ()
    runner = _Runner(net, samples, replace(options, batch=1))
    runner.start()
    watch = _Watch(report, (1 + len(layers)) * len(plan.cells) * plan.trials)
    start = time.perf_counter() - runner.building
    cells = [_cell(runner, plan, values, "", watch) for values in plan.cells]
    alone = [_cell(runner, plan, values, layer, watch) for layer in layers for values in plan.cells]
    alone.sort(key=lambda each: -each.changed.value)
    seconds = time.perf_counter() - start - runner.building
    accuracy = None if samples.labels is None else runner.correct / samples.count
    return Campaign(
        net.graph.name,
        plan.recipe.name,
        accuracy,
        tuple(cells),
        tuple(alone),
        runner.builds,
        seconds,
    )


def parse_grid(recipe: str, values: Mapping[str, str]) -> dict[str, list[str]]:
    """Parameters as they are typed: several values of one that takes one value are a grid."""
    hints = get_type_hints(recipe_named(recipe).parameters)
    return {
        name: [text] if get_origin(hints.get(name)) is tuple else text.split(",")
        for name, text in values.items()
    }


# --- what is tried --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Planned:
    """Parameters to try, how often, and what takes the names of layers."""

    recipe: Recipe
    cells: tuple[dict[str, object], ...]
    trials: int
    seed: int | None


def _planned(
    recipe: Recipe,
    grid: Mapping[str, Sequence[object]],
    fixed: Mapping[str, object],
    trials: int | None,
    seed: int,
) -> _Planned:
    if "seed" in grid or "seed" in fixed:
        raise UserError("a campaign assigns the seeds", fix="Pass seed and trials instead.")
    for name, values in grid.items():
        if isinstance(values, str) or not values:
            raise UserError(f"grid: {name} must be a sequence of values", got=repr(values))
        if name in fixed:
            raise UserError(f"{name} is given once", got="in the grid and beside it")
    if seed < 0:
        raise UserError("seed must not be negative", got=str(seed))
    cells = tuple(
        {**fixed, **dict(zip(grid, values, strict=True))} for values in product(*grid.values())
    )
    made = [parameters_of(recipe, each) for each in cells]  # which refuses what is wrong
    seeded = all(map(_draws, made))
    if trials is not None and (trials < 1 or (trials > 1 and not seeded)):
        rule = "trials must be at least 1" if seeded else "without a seed all trials are the same"
        raise UserError(rule, got=str(trials))
    return _Planned(recipe, cells, (trials or TRIALS) if seeded else 1, seed if seeded else None)


def _draws(parameters: Any) -> bool:
    """Whether a seed makes a difference to what a recipe does."""
    chosen = getattr(parameters, "at", ()) or getattr(parameters, "criterion", "random") != "random"
    return hasattr(parameters, "seed") and not chosen


def _layers(plan: _Planned, graph: Graph) -> tuple[str, ...]:
    """The tensors that are hit alone, one after the other."""
    chooser = _chooser(plan.recipe)
    if any(each.get(chooser) for each in plan.cells):
        raise UserError(f"per_layer goes through all of {chooser}", got=f"{chooser} as well")
    return tuple(name for name in stored(graph) if graph.types[name].size > 1)


def _chooser(recipe: Recipe) -> str:
    """The parameter that names tensors or layers."""
    known = [each.name for each in fields(recipe.parameters)]
    for name in _CHOOSERS:
        if name in known:
            return name
    raise UserError(
        f"recipe {recipe.name} has no parameter that names layers",
        fix=nearest_or_all("tensors", known),
    )


class _Watch:
    """Tells how much is done."""

    def __init__(self, report: Report | None, total: int) -> None:
        self.report, self.total, self.done = report, total, 0

    def step(self, what: str) -> None:
        self.done += 1
        if self.report is not None:
            self.report(self.done / self.total, f"{what} ({self.done:,} of {self.total:,})")


def _cell(
    runner: _Runner, plan: _Planned, values: Mapping[str, object], layer: str, watch: _Watch
) -> Cell:
    given = {**values, _chooser(plan.recipe): (layer,)} if layer else dict(values)
    found: list[Trial] = []
    for number in range(plan.trials):
        seed = None if plan.seed is None else plan.seed + number
        numbered = given if seed is None else {**given, "seed": seed}
        variant = applied(runner.net.graph, plan.recipe, parameters_of(plan.recipe, numbered))
        found.append(runner.trial(variant, seed))
        watch.step(layer or "trials")
    told = {name: _text(value) for name, value in values.items()}
    return Cell(told, layer, runner.samples.count, tuple(found))


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, cast(Sequence[object], value)))
    return str(value)


# --- running --------------------------------------------------------------------------------


@dataclass
class _Runner:
    """Runs variants of a network: on one build with the weights as inputs, where it can."""

    net: Net
    samples: Samples
    options: Options
    builds: int = 0
    building: float = 0.0
    correct: int = 0
    opened: tuple[str, ...] = ()
    shared: CompiledNet | None = None
    inputs: list[list[np.ndarray]] = field(default_factory=list[list[np.ndarray]])
    predictions: list[int] = field(default_factory=list[int])

    def start(self) -> None:
        """Builds the network with its weights as inputs, and runs it without damage."""
        graph, types = self.net.graph, self.net.inputs
        name = graph.name
        self.inputs = [self.samples.inputs(n, types, name) for n in range(self.samples.count)]
        self.shared = self._opened(stored(graph)) or self._opened(
            [each for each in stored(graph) if len(graph.types[each].shape) > 1]
        )
        outputs = list(self._outputs(graph))
        self.predictions = [_prediction(each) for each in outputs]
        self.correct = self._right(outputs) or 0

    def _opened(self, names: Sequence[str]) -> CompiledNet | None:
        """The network with constants as inputs; nothing where an op must know one of them."""
        graph = self.net.graph
        kept = {name: array for name, array in graph.constants.items() if name not in names}
        opened = replace(graph, inputs=(*graph.inputs, *names), constants=kept)
        try:
            built = self._built(Net(opened))
        except UserError:
            return None
        self.opened = tuple(names)
        return built

    def _built(self, net: Net) -> CompiledNet:
        start = time.perf_counter()
        built = net.compile(options=self.options)
        self.building += time.perf_counter() - start
        self.builds += 1
        return built

    def trial(self, variant: Graph, seed: int | None) -> Trial:
        """What a variant says to the samples."""
        outputs = list(self._outputs(variant))
        pairs = zip(outputs, self.predictions, strict=True)
        changed = sum(_prediction(each) != before for each, before in pairs)
        invalid = sum(not _finite(each) for each in outputs)
        return Trial(seed, changed, self._right(outputs), invalid)

    def _outputs(self, variant: Graph) -> Iterator[tuple[np.ndarray, ...]]:
        weights = self._weights(variant)
        if weights is None or self.shared is None:
            library = self._built(Net(variant)).library
            yield from (library(*each) for each in self.inputs)
        else:
            library = self.shared.library
            yield from (library(*each, *weights) for each in self.inputs)

    def _weights(self, variant: Graph) -> list[np.ndarray] | None:
        """The opened constants of a variant; nothing if it differs in anything else."""
        graph = self.net.graph
        if variant is not graph and (
            variant.nodes != graph.nodes
            or variant.inputs != graph.inputs
            or variant.outputs != graph.outputs
            or dict(variant.types) != dict(graph.types)
            or any(
                variant.constants.get(name) is not array
                for name, array in graph.constants.items()
                if name not in self.opened
            )
        ):
            return None
        return [np.ascontiguousarray(variant.constants[name]) for name in self.opened]

    def _right(self, outputs: Sequence[tuple[np.ndarray, ...]]) -> int | None:
        labels = self.samples.labels
        if labels is None:
            return None
        name = self.net.graph.name
        pairs = zip(outputs, labels.tolist(), strict=True)
        return sum(
            right(each[0], int(label), name) and _prediction(each) >= 0 for each, label in pairs
        )


def _prediction(outputs: tuple[np.ndarray, ...]) -> int:
    """The place of the greatest element of the first output; -1 if a NaN is among them."""
    found = _numbers(outputs[0]).reshape(-1)
    return -1 if found.dtype.kind == "f" and np.isnan(found).any() else int(found.argmax())


def _finite(outputs: tuple[np.ndarray, ...]) -> bool:
    return all(bool(np.isfinite(_numbers(each)).all()) for each in outputs)


def _numbers(array: np.ndarray) -> Any:
    return array if array.dtype.kind in "fiub" else array.astype(np.float32)
