"""Groups in a row taken apart for running by bands of rows: which rows need which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.types import TensorType
from weft.kernels.prepare import prepare
from weft.kernels.task import Task
from weft.loops.affine import affine
from weft.loops.nodes import Expr, Load, Reduce, Var
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.walk import children, free_vars
from weft.plan.group import Group
from weft.plan.plan import function_name
from weft.plan.strides import View, packed
from weft.targets.target import Target


@dataclass(frozen=True, slots=True)
class Window:
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
class Stage:
    """A group of a chain.

    Attributes:
        group: what it computes.
        task: for the generators; its axes are not merged.
        row: the task's axis of rows; rows: how many there are.
        window: on the value of the stage before; ``None`` for the first.
    """

    group: Group
    task: Task
    row: str
    rows: int
    window: Window | None


@dataclass(frozen=True, slots=True)
class Setting:
    """What groups stand in: see ``Implement``."""

    views: Mapping[str, View]
    types: Mapping[str, TensorType]
    constants: frozenset[str]
    target: Target
    threads: int = 1
    exact: bool = False


def stages_of(groups: Sequence[Group], setting: Setting) -> tuple[Stage, ...] | None:
    """The stages of a chain; ``None`` where rows of one do not need a band of another's."""
    found = _rows(groups, setting.views)
    if found is None:
        return None
    places, windows = found
    views = dict(setting.views)
    for group, place in zip(groups[:-1], places, strict=False):
        order = sorted(
            range(len(group.type.dims)),
            key=lambda axis: (axis != place, -views[group.value].strides[axis]),
        )
        views[group.value] = View(group.value, 0, packed(group.type.dims, order))
    setting = replace(setting, views=views)
    stages = [
        _stage(group, place, window, setting)
        for group, place, window in zip(groups, places, windows, strict=True)
    ]
    return tuple(stage for stage in stages if stage) if all(stages) else None


def _stage(group: Group, place: int, window: Window | None, setting: Setting) -> Stage | None:
    views, target = setting.views, setting.target
    task = prepare(
        function_name(group),
        group,
        views,
        setting.types,
        setting.constants,
        target,
        merge=False,
    )
    task = replace(task, threads=1, exact=setting.exact)
    strides = views[group.value].strides
    kept = [axis for axis, extent in enumerate(group.type.dims) if extent > 1]
    kept.sort(key=lambda axis: -strides[axis])
    if len(kept) != len(task.compute.axes):
        return None  # an axis was split
    row = task.compute.axes[kept.index(place)]
    return Stage(group, task, row.var, row.extent, window)


def _rows(
    groups: Sequence[Group], views: Mapping[str, View]
) -> tuple[list[int], list[Window | None]] | None:
    """For each group the dimension of rows, and its window on the one before."""
    last = groups[-1]
    moving = [axis for axis, extent in enumerate(last.type.dims) if extent > 1]
    if not moving:
        return None
    place = max(moving, key=lambda axis: views[last.value].strides[axis])
    places: list[int] = [place]
    windows: list[Window | None] = []
    for link, group in zip(reversed(groups[:-1]), reversed(groups[1:]), strict=True):
        found = _window(group, place, link.value)
        if found is None or link.type.dims[found[0]] < 2:
            return None
        place, window = found
        places.append(place)
        windows.append(window)
    return places[::-1], [None, *reversed(windows)]


def _window(group: Group, place: int, link: str) -> tuple[int, Window] | None:
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
    return axis, Window(stride, min(low for low, _ in spans), max(high for _, high in spans))


def _reach(
    terms: Mapping[Expr, int], row: str, taps: Mapping[str, int]
) -> tuple[int, int] | None:
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
