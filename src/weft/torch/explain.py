# pyright: basic
"""``weft.explain``: what a module becomes, how long it takes beside PyTorch, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from math import prod
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft import pictures
from weft.api.net import Net
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.kernels.explain import ExplainedLayer, layers_of
from weft.plan.choice import MAX_ROUNDING
from weft.records import dataclass
from weft.runtime.timing import microseconds
from weft.screen import Screen, Shown, several
from weft.torch.eager import Layout, Times
from weft.torch.execution import CompiledPart
from weft.torch.module import Optimized
from weft.torch.picture import joined_graph
from weft.torch.prediction import Prediction, predict
from weft.torch.regions import Fallback
from weft.torch.specialise import Runner, Settings, specialise


@dataclass(frozen=True, slots=True)
class CountedCopy:
    """A tensor that is copied in every call.

    Attributes:
        what: the tensor, and why.
        bytes: of it.
    """

    what: str
    bytes: int


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """What a module becomes for one signature of its arguments.

    Prints as one screen; ``str`` gives all rows.

    Attributes:
        name: of the module's class.
        groups: of each compiled part, in order of execution, its groups with their kernels.
        fallbacks: what PyTorch runs between the parts.
        copies: of tensors, in every call.
        predicted: how long both take by estimates alone; ``None`` where nothing is compiled.
        times: of compiled code and of PyTorch; ``None`` where runs change the module.
        own: the layout of the module's own forward, where that is faster and therefore runs.
        graph: all parts and fallbacks, as it is drawn.
    """

    name: str
    groups: Sequence[Sequence[ExplainedLayer]]
    fallbacks: Sequence[Fallback]
    copies: Sequence[CountedCopy]
    predicted: Prediction | None
    times: Times | None
    own: Layout | None
    graph: Graph = field(repr=False)

    def __str__(self) -> str:
        lines = [self._screen([]).text(sys.maxsize)]
        return "\n".join([*lines, *(f"  by PyTorch: {each}" for each in self.fallbacks)])

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        return self._screen([("by PyTorch", str(each)) for each in self.fallbacks])

    def _screen(self, fallbacks: Sequence[tuple[str, str]]) -> Screen:
        count = sum(map(len, self.groups))
        parts = several(len(self.groups), "compiled part")
        foreign = several(len(self.fallbacks), "fallback") if self.fallbacks else "no fallbacks"
        title = f"{self.name}: {several(count, 'group')} in {parts}, {foreign}"
        return Screen(title, [*self._facts(), *fallbacks], _HEADINGS, list(self._rows()), (4,))

    def _facts(self) -> list[tuple[str, str]]:
        copies = ", ".join(f"{each.what} {each.bytes:,} bytes" for each in self.copies)
        times = [*_facts(self.times), *_prediction(self.predicted)]
        return [("runs", self._runs()), *times, ("copies", copies or "none")]

    def _runs(self) -> str:
        if self.own is not None:
            where = " with inputs in channels-last" if self.own == "channels-last" else ""
            return f"the module's own forward{where}, which is faster"
        return "compiled code" if self.groups else "the module's ops by PyTorch"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for number, groups in enumerate(self.groups):
            for each in groups:
                offered = (one for answer in each.answers for one in answer.alternatives)
                cycles = next((one.cycles for one in offered if one.chosen), None)
                yield (
                    str(number),
                    " + ".join(each.ops),
                    each.scheme,
                    each.type,
                    "" if cycles is None else f"{cycles:,.0f}",
                    ", ".join(each.sources),
                )

    def record(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "name": self.name,
            "groups": [[each.record() for each in groups] for groups in self.groups],
            "fallbacks": [asdict(each) for each in self.fallbacks],
            "copies": [asdict(each) for each in self.copies],
            "predicted": self.predicted and asdict(self.predicted),
            "times": self.times and asdict(self.times),
            "own": self.own,
        }

    def _title(self) -> str:
        gains = [("gain", self.times), ("predicted", self.predicted)]
        told = ", ".join(f"{name} {each.gain:.2f}" for name, each in gains if each)
        return f"{self.name}: {told}" if told else self.name

    def draw(self, *, format: pictures.Format = "svg", title: str = "") -> str:
        """A picture of the graph, PyTorch's ops marked.

        Args:
            format: ``svg``, ``dot`` for Graphviz, or ``html`` for a page that zooms, folds and
                searches.
            title: stands above; the module's class and the gains if not given.
        """
        foreign = [node.name for node in self.graph.nodes if "::" in node.op]
        marked = {"run by PyTorch": foreign} if foreign else None
        return pictures.draw(
            self.graph, highlight=marked, format=format, title=title or self._title()
        )


_HEADINGS = ("part", "does", "by", "makes", "cycles", "source")


def explain(
    module: torch.nn.Module,
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    exact: bool = False,
    tune: bool = False,
    precision: str = "float32",
    max_rounding: float = MAX_ROUNDING,
) -> Explanation:
    """What ``weft.optimize`` makes of a module: groups, kernels, fallbacks, copies and times.

    Args:
        module: any module, or one that ``weft.optimize`` gave, whose settings are then used.
        example: arguments of a call; of an optimized module those that it was compiled for last
            if none are given.
        kwargs: and those by name.
        threads: to run on; PyTorch's number if not given.
        exact: as for ``weft.Options``.
        tune: measures alternatives.
        precision: that values and weights are stored in, as for ``weft.Options``.
        max_rounding: that faster algorithms may add in bfloat16, as for ``weft.Options``.

    Raises:
        UserError: PyTorch cannot export the module, there is no example, no such precision, or
            nothing that ``max_rounding`` decides.
    """
    settings = Settings(
        threads=threads, exact=exact, tune=tune, precision=precision, max_rounding=max_rounding
    )
    given: tuple[tuple[Any, ...], dict[str, Any]] = example, dict(kwargs or {})
    if isinstance(module, Optimized):
        module, settings, given = _optimized(module, *given)
    runner = specialise(module, *given, replace(settings, measure=False))
    joined, parts = runner.joined, runner.parts
    assert joined is not None
    graph = joined_graph(joined, [part.imported.graph for part in parts])
    leaves = [slot.value for slot in runner.captured.inputs]
    plans = [Net(part.imported.graph).plan(options=part.options) for part in parts]
    groups = [layers_of(plan) for plan in plans]
    foreign = [node for node in joined.graph.nodes if node.op == "call_function"]
    both = list(zip(plans, groups, strict=True))
    predicted = predict(runner.captured.graph, both, foreign) if both else None
    copies = list(_copies(runner, parts))
    runner.measure(leaves, converted=True)
    return Explanation(
        runner.captured.name,
        groups,
        runner.fallbacks,
        copies,
        predicted,
        runner.times,
        runner.own,
        graph,
    )


def _optimized(
    module: Optimized, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.nn.Module, Settings, tuple[tuple[Any, ...], dict[str, Any]]]:
    """What an optimized module was made of, and what it was compiled for last."""
    optimization = module._weft
    if args or kwargs:
        return optimization.module, optimization.settings, (args, kwargs)
    captured = [runner.captured for runner in optimization.runners if runner is not None]
    if not captured:
        raise UserError(
            "an optimized module that was not called yet is explained for an example",
            got="none",
            fix="Give weft.explain the arguments of a call.",
        )
    leaves = [slot.value for slot in captured[-1].inputs]
    given = pytree.tree_unflatten(leaves, captured[-1].in_spec)
    return optimization.module, optimization.settings, given


def _copies(runner: Runner, parts: Sequence[CompiledPart]) -> Iterator[CountedCopy]:
    read = {node for part in parts for node in part.imported.inputs}
    for slot in runner.captured.inputs:
        if slot.node in read and not slot.value.is_contiguous():
            yield CountedCopy(f"input {slot.name}, which is not contiguous,", slot.value.nbytes)
    for result in runner.captured.results:
        if result.target is not None:
            value = result.target.node.meta["val"]
            size = prod(value.shape) * value.element_size()
            yield CountedCopy(f"{result.target.name}, which the module changes,", size)


def _prediction(predicted: Prediction | None) -> list[tuple[str, str]]:
    if predicted is None:
        return []
    compiled, eager = microseconds(predicted.weft), microseconds(predicted.eager)
    told = f"{compiled} µs compiled, {eager} µs by PyTorch, {predicted.gain:.2f} times as fast"
    return [("predicted", told)]


def _facts(times: Times | None) -> list[tuple[str, str]]:
    if times is None:
        return [("time", "not measured, because runs change the module")]
    found = [
        (
            "compiled",
            f"{microseconds(times.weft)} µs, {times.gain:.2f} times as fast as PyTorch's best",
        ),
        ("PyTorch", f"{microseconds(times.contiguous)} µs"),
    ]
    if times.channels_last is not None:
        found.append(("channels-last", f"{microseconds(times.channels_last)} µs"))
    if times.inputs_channels_last is not None:
        told = f"{microseconds(times.inputs_channels_last)} µs with the inputs converted"
        found.append(("", told))
    return found
