"""Pooling of bytes for Helium, channels in lanes: sums and maxima of windows.

One instruction reduces the windows of all channels of a position; what a sum becomes then, such as
an average, is computed one by one::

    for position:
      local acc[channel] = the sum of a window
      for channel:  out = acc / count

Windows lie inside the image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import SlidingWindow, sliding_window
from weft.kernels.generator import Generator
from weft.kernels.integer.output import ACCUMULATOR
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import integer, nested, times, with_locals
from weft.loops.instruction import families, member
from weft.loops.nodes import (
    Access,
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Instruct,
    Kernel,
    Load,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import map_stmts, substitute_stmts
from weft.loops.walk import map_expr, walk
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass

_I8, _I32 = DType.I8, DType.I32
_EIGHT, _MOST_TAPS = 8, 256
"""Lanes of 16 bits, and bytes whose sum they hold."""
_NAME = "helium-pool"
_TAP, _POSITION, _EPILOGUE = 3, 25, 14
"""Instructions of a vector of a tap, around a position, and of an output."""
NO_POOL = Refusal("it is no sum or maximum of windows of signed bytes, channels side by side")


@dataclass(frozen=True)
class Pool:
    """A reduction of windows of an image whose channels lie side by side.

    Attributes:
        task: what is computed; reduce: its reduction; channel: the axis of channels.
        source: the image, channels last, rows and columns of a window before them.
        index: where the window of an output begins.
        taps: rows and columns of a window.
        places: where dimensions of the image were.
    """

    task: Task
    reduce: Reduce
    channel: Axis
    source: Buffer
    index: tuple[Expr, ...]
    taps: tuple[int, int]
    places: tuple[int, ...]

    @property
    def positions(self) -> list[Axis]:
        """Axes of the output that are not channels."""
        return [axis for axis in self.task.compute.axes if axis != self.channel]

    @property
    def sums(self) -> bool:
        """Whether it sums."""
        return self.reduce.op == "sum"


def pool_of(task: Task) -> Pool | Refusal:
    """The pooling that a task is."""
    found = {node for node in walk(task.compute.value) if isinstance(node, Reduce)}
    if len(found) != 1:
        return Refusal(f"it has {len(found)} reductions")
    (reduce,) = found
    match reduce:
        case Reduce("sum", _, Cast(DType.I32, Load(dtype=DType.I8) as load)):
            pass
        case Reduce("max", _, Load(dtype=DType.I8) as load):
            pass
        case _:
            return NO_POOL
    if load.buffer in task.constants or len(reduce.axes) > 2:
        return NO_POOL
    if prod(axis.extent for axis in reduce.axes) > _MOST_TAPS:
        return Refusal(f"its windows have more than {_MOST_TAPS} places")
    return _laid_out(task, reduce, load)


def _laid_out(task: Task, reduce: Reduce, load: Load) -> Pool | Refusal:
    image = next(each for each in task.inputs if each.name == load.buffer)
    outs = {axis.var: axis for axis in task.compute.axes}
    taps = {axis.var: axis for axis in reduce.axes}
    index: list[Expr] = []
    sides: list[tuple[int, int]] = []
    channels: list[tuple[int, Axis]] = []
    for at, part in enumerate(load.index):
        size, step = image.shape[at], image.steps[at]
        start = _start(part, sliding_window(part, size, step, taps, outs), taps)
        if start is None:
            return NO_POOL
        tap, first = start
        if tap:
            sides.append((at, taps[tap].extent))
        elif isinstance(part, Var) and step == 1:
            channels.append((at, outs[part.name]))
        index.append(first)
    if len(channels) != 1 or len(sides) != len(taps):
        return NO_POOL
    # Rows are further apart than columns.
    sides.sort(key=lambda side: -image.steps[side[0]])
    last = [at for at, _ in (*sides, *channels)]
    places = (*(at for at in range(len(index)) if at not in last), *last)
    shape = [image.shape[at] for at in places]
    steps = [image.steps[at] for at in places]
    begin = [index[at] for at in places]
    if len(sides) == 1:
        shape.insert(-2, 1)
        steps.insert(-2, steps[-2] * shape[-2])
        begin.insert(-2, integer(0))
    source = Buffer(image.name, _I8, tuple(shape), image.access, tuple(steps))
    *rows, columns = (extent for _, extent in sides)
    sizes = (*(rows or [1]), columns)
    return Pool(task, reduce, channels[0][1], source, tuple(begin), (sizes[0], sizes[1]), places)


def _start(
    part: Expr, window: SlidingWindow | None, taps: Mapping[str, Axis]
) -> tuple[str, Expr] | None:
    """The tap along a dimension, if one moves along it, and where the window begins."""
    if window is not None:
        if window.before or (window.dilation > 1 and window.tap):
            return None
        return (window.tap.var if window.tap else ""), times(Var(window.out.var), window.stride)
    match part:
        case Var(name) if name in taps:
            return name, integer(0)
        case Var() | Const():
            return "", part
        case _:
            return None


def write(pool: Pool) -> Implementation:
    """The kernel."""
    task, out = pool.task, pool.task.output
    body = _sums(pool) if pool.sums else _maxima(pool)
    inputs = tuple(pool.source if each.name == pool.source.name else each for each in task.inputs)
    kernel = simplify_kernel(Kernel(task.name, (*inputs, out), nested(pool.positions, body)))
    return Implementation(kernel, tuple(map(Operand, task.values)), _NAME)


def _window(pool: Pool) -> Load:
    return Load(pool.source.name, (*pool.index[:-1], integer(0)), _I8)


def _sizes(pool: Pool) -> tuple[int, ...]:
    rows, columns = pool.taps
    return rows, columns, *pool.source.steps[-3:-1]


def _maxima(pool: Pool) -> tuple[Stmt, ...]:
    channels = pool.channel.extent
    name = member("mve_pool_max", channels, *_sizes(pool))
    axes, out = pool.task.compute.axes, pool.task.output
    whole = pool.task.compute.value == pool.reduce
    if whole and axes[-1] == pool.channel and out.steps[-1] == 1:
        at = [Var(axis.var) for axis in pool.positions]
        target = Load(out.name, (*at, integer(0)), _I8)
        return (Instruct(name, (target, _window(pool))),)
    found = Buffer(ACCUMULATOR, _I8, (channels,), Access.LOCAL)
    target = Load(ACCUMULATOR, (integer(0),), _I8)
    return with_locals((found,), (Instruct(name, (target, _window(pool))), *_stored(pool, _I8)))


def _sums(pool: Pool) -> tuple[Stmt, ...]:
    channels = pool.channel.extent
    padded = -(-channels // _EIGHT) * _EIGHT
    name = member("mve_pool_sum", channels, padded, *_sizes(pool))
    sums = Buffer(ACCUMULATOR, _I32, (padded,), Access.LOCAL)
    made = Instruct(name, (Load(ACCUMULATOR, (integer(0),), _I32), _window(pool)))
    return with_locals((sums,), (made, *_stored(pool, _I32)))


def _stored(pool: Pool, dtype: DType) -> tuple[Stmt, ...]:
    """Stores what is computed of the reductions of all channels."""
    task, lane = pool.task, Var("lane")
    found = Load(ACCUMULATOR, (lane,), dtype)
    value = map_expr(task.compute.value, lambda node: found if node == pool.reduce else node)
    index = tuple(Var(axis.var) for axis in task.compute.axes)
    store = substitute_stmts((Store(task.output.name, index, value),), {pool.channel.var: lane})

    def moved(node: Expr) -> Expr:
        if not isinstance(node, Load) or node.buffer != pool.source.name:
            return node
        index = [node.index[at] for at in pool.places]
        if len(index) < len(pool.source.shape):
            index.insert(-2, integer(0))
        return replace(node, index=tuple(index))

    stores = map_stmts(store, lambda expr: map_expr(expr, moved))
    return nested([Axis("lane", pool.channel.extent)], stores)


def cost(pool: Pool) -> float:
    """About how many cycles it takes."""
    channels = pool.channel.extent
    positions = prod(axis.extent for axis in pool.positions)
    vectors = -(-channels // (_EIGHT if pool.sums else 2 * _EIGHT))
    each = vectors * prod(pool.taps) * _TAP + _POSITION
    if pool.task.compute.value != pool.reduce:
        each += channels * _EPILOGUE
    # As other generators count: two instructions a cycle.
    return positions * each / 2


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternative of this generator."""
    if families()["mve_pool_sum"][0] not in task.target.features:
        return Refusal("the target has no Helium")
    pool = pool_of(task)
    if isinstance(pool, Refusal):
        return pool
    make = partial(write, pool)
    return (Alternative(_NAME, cost(pool), Sums("rows"), make, always),)


GENERATOR = Generator(
    "byte-pool",
    "Sums and maxima of windows of bytes for Helium, the vector extension of Cortex-M55, channels "
    "in lanes.",
    (
        "one sum, in i32, or one maximum of signed bytes",
        f"windows of one or two dimensions, inside the image, of up to {_MOST_TAPS} places",
        "channels side by side",
        "the target has Helium",
    ),
    propose,
    any_threads=True,
)
