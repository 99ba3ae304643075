"""Max pooling that a convolution's kernel does with what it has in registers.

Windows that do not overlap are of a tile's own outputs where its sides are multiples of theirs.
The convolution's values are then never in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from weft.dtypes import DType
from weft.kernels.products.microkernel import replaced
from weft.kernels.task import Task
from weft.kernels.winograd.convolution import Convolution
from weft.kernels.writer import LANE, for_lanes, integer
from weft.loops.affine import affine
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    Load,
    Local,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import loads, substitute, walk
from weft.records import dataclass

_MOST = "most"


@dataclass(frozen=True)
class Pooling:
    """Max pooling of a convolution's outputs, and what is computed of each maximum.

    Attributes:
        task: its own.
        reduce: its maximum.
        outs: its axes by those of the convolution.
        sides: of a window, along rows and columns.
        order: where a window's elements lie in it, in the order in which they are compared.
    """

    task: Task
    reduce: Reduce
    outs: Mapping[str, Axis]
    sides: tuple[int, int]
    order: tuple[tuple[int, int], ...]

    def fits(self, sides: tuple[int, int]) -> bool:
        """Whether tiles of so many rows and columns hold whole windows."""
        return not any(side % own for side, own in zip(sides, self.sides, strict=True))

    def trimmed(self, conv: Convolution) -> Convolution:
        """The convolution without the last outputs that no window reaches."""
        rows, columns = (
            Axis(axis.var, self.outs[axis.var].extent * side)
            for axis, side in zip((conv.rows, conv.columns), self.sides, strict=True)
        )
        return replace(conv, rows=rows, columns=columns)

    def stores(
        self, width: int, place: Mapping[str, Expr], value: Callable[[int, int], Expr]
    ) -> tuple[Stmt, ...]:
        """Stores the maximum of a window, a vector wide.

        Args:
            width: lanes.
            place: of the window, by the convolution's axes; lanes count from ``LANE``.
            value: of the convolution at a row and a column of the window.
        """
        first, *others = (value(*each) for each in self.order)
        most = first
        for each in others:
            most = Binary("max", most, each)
        done = Load(_MOST, (Var(LANE),), DType.F32)
        moved = {self.outs[var].var: at for var, at in place.items()}
        index = tuple(moved[axis.var] for axis in self.task.compute.axes)
        end = substitute(replaced(self.task.compute.value, self.reduce, done), moved)
        held = Buffer(_MOST, DType.F32, (width,), Access.LOCAL)
        keep = for_lanes(width, Store(_MOST, (Var(LANE),), most))
        return (Local(held, (keep, for_lanes(width, Store("out", index, end)))),)

    def origin(self, at: Expr, side: int) -> Expr:
        """The window that begins at an output of the convolution, along a side."""
        return Binary("floordiv", at, integer(self.sides[side]))


def pooling_of(conv: Convolution, task: Task, link: str) -> Pooling | None:
    """The max pooling that a task is, if a convolution's kernel can do it.

    Args:
        conv: the convolution.
        task: what reads its values, and nothing else; axes are not merged.
        link: the graph's name of these values.
    """
    if conv.group or conv.dilation > 1 or conv.sides < 2:
        return None
    reductions = {node for node in walk(task.compute.value) if isinstance(node, Reduce)}
    if len(reductions) != 1 or task.values != (link,):
        return None
    (reduce,) = reductions
    read = reduce.value
    if not isinstance(read, Load) or set(loads(task.compute.value)) != {read}:
        return None
    if reduce.op != "max" or {read.dtype, task.output.dtype} != {DType.F32}:
        return None
    axes = _axes(conv.parts.task, task.inputs[0])
    if axes is None:
        return None
    found = _windows(axes, read, reduce, task.compute.axes)
    return _of_windows(conv, task, reduce, found) if found else None


def _of_windows(
    conv: Convolution, task: Task, reduce: Reduce, found: Mapping[str, tuple[Axis, Axis | None]]
) -> Pooling | None:
    """The pooling by such windows, if they lie along rows and columns."""
    outs = {var: out for var, (out, _) in found.items()}
    taps = [found[axis.var][1] for axis in (conv.rows, conv.columns)]
    lanes = conv.parts.lanes
    if lanes is None or sum(tap is not None for tap in taps) < len(reduce.axes):
        return None
    if outs[lanes.var] != task.compute.axes[-1] or task.output.steps[-1] != 1:
        return None
    sides = [tap.extent if tap else 1 for tap in taps]
    order: list[tuple[int, int]] = []
    for places in product(*(range(axis.extent) for axis in reduce.axes)):
        at = {axis.var: place for axis, place in zip(reduce.axes, places, strict=True)}
        down, across = (at[tap.var] if tap else 0 for tap in taps)
        order.append((down, across))
    return Pooling(task, reduce, outs, (sides[0], sides[1]), tuple(order))


def _axes(task: Task, link: Buffer) -> list[Axis] | None:
    """A task's axis for each dimension of the buffer in which another one reads its output."""
    out = task.output
    have = {
        (extent, step): axis
        for axis, extent, step in zip(task.compute.axes, out.shape, out.steps, strict=True)
    }
    found = [have.get(place) for place in zip(link.shape, link.steps, strict=True)]
    axes = [axis for axis in found if axis is not None]
    return axes if len(axes) == len(found) == len(task.compute.axes) == len(set(axes)) else None


def _windows(
    axes: Sequence[Axis], read: Load, reduce: Reduce, outs: Sequence[Axis]
) -> dict[str, tuple[Axis, Axis | None]] | None:
    """For each axis of what is read the axis of outputs along it, and that of the window."""
    taps = {axis.var: axis for axis in reduce.axes}
    by_name = {axis.var: axis for axis in outs}
    found: dict[str, tuple[Axis, Axis | None]] = {}
    for axis, part in zip(axes, read.index, strict=True):
        form = affine(part)
        terms = {atom.name: step for atom, step in form.terms.items() if isinstance(atom, Var)}
        moving = [name for name in terms if name in by_name]
        inside = [name for name in terms if name in taps]
        if form.const or len(moving) != 1 or len(inside) > 1 or len(terms) != len(form.terms):
            return None
        out, tap = by_name[moving[0]], taps[inside[0]] if inside else None
        side = tap.extent if tap else 1
        if terms[out.var] != side or (tap and terms[tap.var] != 1):
            return None
        if tap is None and out.extent != axis.extent:
            return None
        found[axis.var] = out, tap
    used = [out.var for out, _ in found.values()]
    return found if len(set(used)) == len(outs) else None
