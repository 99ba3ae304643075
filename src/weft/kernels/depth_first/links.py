"""Groups in a row taken apart for running by bands of rows: which rows need which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from weft.ir.types import TensorType
from weft.kernels.prepare import prepare
from weft.kernels.task import Asked, Task
from weft.loops.affine import affine
from weft.loops.nodes import Expr, Load, Reduce, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.walk import children, free_vars, walk
from weft.plan.fusion import Group
from weft.plan.implementation import Constants
from weft.plan.make import function_name
from weft.plan.strides import StridedView, order_of, packed
from weft.records import dataclass
from weft.targets.target import Target


@dataclass(frozen=True, slots=True)
class RowWindow:
    """The rows of a link that its reader's row ``y`` needs.

    They are ``stride * y + low`` to ``stride * y + high``, as far as there are such rows.
    """

    stride: int
    low: int
    high: int

    @property
    def taps(self) -> int:
        """How many rows there are in it."""
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class ChainStage:
    """A group of a chain.

    Attributes:
        group: what it computes.
        task: for the generators; its axes are not merged.
        row: the task's axis of rows; rows: how many there are.
        window: on the value of the stage before; ``None`` for the first.
        link: that value; empty for the first.
    """

    group: Group
    task: Task
    row: str
    rows: int
    window: RowWindow | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What groups stand in: see ``Implement``."""

    views: Mapping[str, StridedView]
    types: Mapping[str, TensorType]
    constants: Constants
    target: Target
    asked: Asked = field(default_factory=Asked)

    @property
    def threads(self) -> int:
        """That may run parts of a kernel at once."""
        return self.asked.get("threads", 1)

    def task(self, group: Group, *, threads: int = 1, merge: bool = True) -> Task:
        """What a group alone computes; ``merge`` makes one axis of several where that is right."""
        name, views, types = function_name(group), self.views, self.types
        task = prepare(name, group, views, types, self.constants, self.target, merge=merge)
        return self.as_asked(task, threads=threads)

    def as_asked(self, task: Task, *, threads: int = 1) -> Task:
        """A task with what is asked of all tasks, for so many threads."""
        return replace(task, **{**self.asked, "threads": threads})


class Stages:
    """Takes parts of chains apart; what is needed for several is done once."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._found: dict[tuple[str, int, str, bool], ChainStage | None] = {}

    def of(self, groups: Sequence[Group]) -> tuple[ChainStage, ...] | None:
        """The stages; ``None`` where rows of one do not need a band of another's."""
        rows = _rows(groups, self._setting.views)
        if rows is None:
            return None
        views = dict(self._setting.views)
        for group in groups[:-1]:
            views[group.value] = _packed(group, views[group.value])
        found: list[ChainStage] = []
        for group, (place, window) in zip(groups, rows, strict=True):
            link = found[-1].group.value if found else ""
            key = (group.value, place, link, group is groups[-1])
            if key not in self._found:
                stage = _stage(group, place, replace(self._setting, views=views))
                self._found[key] = replace(stage, window=window, link=link) if stage else None
            stage = self._found[key]
            if stage is None:
                return None
            found.append(stage)
        return tuple(found)


def _packed(group: Group, view: StridedView) -> StridedView:
    """A view of a value of its own without gaps."""
    order = order_of(view.strides, group.type.dims)
    return StridedView(group.value, 0, packed(group.type.dims, order))


def _stage(group: Group, place: int, setting: Setting) -> ChainStage | None:
    views, target = setting.views, setting.target
    strides, dims = views[group.value].strides, group.type.dims
    kept = [axis for axis, extent in enumerate(dims) if extent > 1]
    kept.sort(key=lambda axis: -strides[axis])
    number = kept.index(place)
    if number == len(kept) - 1 and strides[place] == 1:
        return None  # vectors run along the rows
    name = function_name(group)
    task = prepare(name, group, views, setting.types, setting.constants, target, merge=False)
    if len(kept) != len(task.compute.axes):
        return None  # an axis was split
    row = task.compute.axes[number]
    reductions = [node for node in walk(task.compute.value) if isinstance(node, Reduce)]
    if not all(row.var in free_vars(each) for each in reductions):
        return None  # statistics of a whole image, which a band does not have
    return ChainStage(group, setting.as_asked(task), row.var, row.extent)


def _rows(
    groups: Sequence[Group], views: Mapping[str, StridedView]
) -> list[tuple[int, RowWindow | None]] | None:
    """For each group the dimension of rows, and its window on the one before."""
    place = _slowest(groups[-1], views)
    if place is None:
        return None
    rows: list[tuple[int, RowWindow | None]] = []
    for link, group in zip(reversed(groups[:-1]), reversed(groups[1:]), strict=True):
        found = _window(group, place, link.value)
        if found is None or found[0] != _slowest(link, views):
            return None
        rows.append((place, found[1]))
        place = found[0]
    return [(place, None), *reversed(rows)]


def _slowest(group: Group, views: Mapping[str, StridedView]) -> int | None:
    """The dimension of a group's value whose neighbours lie farthest apart, if any has some."""
    moving = [axis for axis, extent in enumerate(group.type.dims) if extent > 1]
    return max(moving, key=lambda axis: views[group.value].strides[axis], default=None)


def _window(group: Group, place: int, link: str) -> tuple[int, RowWindow] | None:
    """The dimension of a link that a group's rows move along, and what they need of it."""
    row = group.compute.axes[place].var
    facts = Facts().bind({axis.var: (0, axis.extent - 1) for axis in group.compute.axes})
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for load, taps in _loads(group.compute.value, link, {}):
        index = [simplify(part, facts) for part in load.index]
        moved = [axis for axis, part in enumerate(index) if row in free_vars(part)]
        if len(moved) != 1:
            return None
        form = affine(index[moved[0]])
        stride = form.terms.get(Var(row), 0)
        reach = _reach(form.terms, row, taps)
        if stride < 1 or reach is None:
            return None
        span = (form.const + reach[0], form.const + reach[1])
        found.setdefault((moved[0], stride), []).append(span)
    if len(found) != 1:
        return None
    (((axis, stride), spans),) = found.items()
    return axis, RowWindow(stride, min(low for low, _ in spans), max(high for _, high in spans))


def _reach(terms: Mapping[Expr, int], row: str, taps: Mapping[str, int]) -> tuple[int, int] | None:
    """Least and most of the terms but the row's, if they are taps."""
    low = high = 0
    for atom, factor in terms.items():
        if atom == Var(row):
            continue
        if not isinstance(atom, Var) or atom.name not in taps:
            return None
        most = factor * (taps[atom.name] - 1)
        low, high = low + min(most, 0), high + max(most, 0)
    return low, high


def _loads(
    value: Expr, link: str, taps: Mapping[str, int]
) -> Iterator[tuple[Load, Mapping[str, int]]]:
    """The loads of a value, each with the extents of the reductions around it."""
    if isinstance(value, Load) and value.buffer == link:
        yield value, taps
    if isinstance(value, Reduce):
        taps = {**taps, **{axis.var: axis.extent for axis in value.axes}}
    for child in children(value):
        yield from _loads(child, link, taps)
