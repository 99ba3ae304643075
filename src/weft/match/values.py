"""Steps at values and edges: what a value is, who makes it, and by which ends an edge leads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from weft.ir.unknown import is_known
from weft.match.conditions import Subject, input_places, output_places
from weft.match.program import (
    ANYWHERE,
    DONE,
    LinkStep,
    NodeStep,
    NumberStep,
    RefStep,
    RestartStep,
    SplitStep,
    Step,
    ValueStep,
)
from weft.match.search_state import Bindings, Config, SearchEntry
from weft.match.site import Site


def at_value(site: Site, step: ValueStep, config: Config) -> list[Config]:
    """The value at a place, or every one that fits where there is none."""
    value, mark = config.place
    if value is not None:
        return _with_value(site, step, config, value, mark)
    found: list[Config] = []
    for each in _candidates(site, step, config.bound):
        found += _with_value(site, step, config, each, ())
    return found


def _with_value(site: Site, step: ValueStep, config: Config, value: str, mark: Any) -> list[Config]:
    bound = fit(site, step, value, config.bound)
    if bound is None:
        return []
    return [config._replace(step=step.next, place=(value, mark), bound=bound)]


def _candidates(site: Site, step: ValueStep, bound: Bindings) -> Iterable[str]:
    if step.name in bound:
        return (bound[step.name],)
    match step.kind:
        case "input":
            return site.view.inputs
        case "output":
            return site.view.outputs
        case "const":
            return site.view.constants
        case _:
            return site.view.types


def fit(site: Site, step: ValueStep, value: str, bound: Bindings) -> Bindings | None:
    """The names bound when a value is what a step says."""
    if not value and not step.optional:
        return None
    if step.kind and value not in _of_kind(site, step.kind):
        return None
    if step.check is not None:
        maker = site.view.producers.get(value)
        if not value or not step.check(Subject(site.view, maker, value)):
            return None
    if not step.name:
        return bound
    known = bound.get(step.name)
    if known is None:
        return {**bound, step.name: value}
    return bound if known == value else None


def _of_kind(site: Site, kind: str) -> Iterable[str] | Any:
    view = site.view
    return view.constants if kind == "const" else view.inputs if kind == "input" else view.outputs


def at_number(site: Site, step: NumberStep, config: Config) -> list[Config]:
    """A constant of one element."""
    value, mark = config.place
    values = site.view.constants if value is None else (value,)
    return [
        config._replace(step=step.next, place=(each, mark))
        for each in values
        if is_number(site.view.constants.get(each), step.value)
    ]


def at_ref(site: Site, step: RefStep, config: Config) -> list[Config]:
    """A value that another statement makes, and then that statement."""
    value, mark = config.place
    if value is None:
        found: list[Config] = []
        known = config.bound.get(step.name)
        for each in site.view.producers if known is None else (known,):
            found += at_ref(site, step, config._replace(place=(each, ())))
        return found
    known = config.bound.get(step.name)
    if known is not None:
        return _known(site, step, config, value) if known == value else []
    if not value:
        return []
    agenda = config.agenda
    if step.next is not DONE:
        agenda = (step.next, (value, mark), config.parent, agenda)
    bound = {**config.bound, step.name: value}
    return [config._replace(step=step.body, place=(value, None), bound=bound, agenda=agenda)]


def _known(site: Site, step: RefStep, config: Config, value: str) -> list[Config]:
    # The order of a match's nodes depends on every place that a node stands at.
    entries = config.entries
    maker = site.view.producers.get(value)
    if maker is not None:
        entries = (SearchEntry(maker, config.parent, known=True), entries)
    return [config._replace(step=step.next, entries=entries)]


def at_link(site: Site, step: LinkStep, config: Config) -> list[Config]:
    """An edge whose ends are said."""
    value, mark = config.place
    if value is None:
        return [config._replace(place=(each, ())) for each in site.view.types]
    if not value or not _leaves_by(site, step.source, value):
        return []
    if step.target is not None:
        if step.forward:
            mark = tuple(sorted({*(mark or ()), step.target}, key=str))
        elif mark and mark[1] not in input_places(mark[0], step.target):
            return []
    return [config._replace(step=step.next, place=(value, mark))]


def _leaves_by(site: Site, port: str | int | None, value: str) -> bool:
    if port is None:
        return True
    maker = site.view.producers.get(value)
    return maker is not None and maker.outputs.index(value) in output_places(maker.op, port)


def at_split(site: Site, step: SplitStep, config: Config) -> list[Config]:
    """Any one of several steps."""
    value, node = config.place
    if value is None and node is not None:
        # Where a match begins, most options of most rules are for other ops.
        options = [each for each in step.options if _may_be(each, node.op)]
    else:
        options = step.options
    return [config._replace(step=option) for option in options]


def _may_be(step: Step, op: str) -> bool:
    """Whether a step may be for a node of an op."""
    return (
        not isinstance(step, NodeStep)
        or step.negated
        or any(test.op in ("*", op) for test in step.tests)
    )


def at_restart(site: Site, step: RestartStep, config: Config) -> list[Config]:
    """The beginning of another statement."""
    return [config._replace(step=step.next, place=ANYWHERE)]


def is_number(array: np.ndarray | None, number: float) -> bool:
    """Whether a constant is known to be this number, as its own type rounds it."""
    if array is None or array.size != 1 or not is_known(array):
        return False
    return bool(array.reshape(-1)[0] == np.asarray(number).astype(array.dtype))
