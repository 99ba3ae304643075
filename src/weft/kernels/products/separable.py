"""Separable transforms: products with small constant matrices along two axes, in registers.

``out[p, q, lane] = sum(c | G[q, c] * sum(r | G[p, r] * x[lane, r, c]))`` for filters, as of
Winograd's convolution.  All points of a window are computed at once: the sums are written out,
the matrices become literals, and what several points share is computed once.  Windows that lie
across the vectors, as filters do, are first turned into a panel, some of them at a time::

    for outer axes, tile of windows:
      panel[window][r, c][lane] = x, turned (``weft.kernels.elementwise.turned``)
      for window of the tile, lanes:
        inner[p][c] = G[p][0] * panel[0, c] + G[p][1] * panel[1, c] + ...
        out[p][q]   = G[q][0] * inner[p][0] + ...

Every line of the output is written as a whole, its vectors one after the other: the points of a
window lie far apart, often on the same sets of a cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from itertools import product
from math import prod
from operator import mul

import numpy as np

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.elementwise import maps as elementwise
from weft.kernels.elementwise.passes import step_of
from weft.kernels.elementwise.turned import NARROWEST, TURNED, Run, run_of
from weft.kernels.generator import Generator
from weft.kernels.products.microkernel import replaced
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import blocks_of
from weft.kernels.watched import found_of
from weft.kernels.writer import (
    LANE,
    block_origin,
    for_range,
    integer,
    nested,
    plus,
    times,
    vector,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Kernel,
    Load,
    Local,
    LoopKind,
    Reduce,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import all_exprs, rename_buffers, substitute_stmts
from weft.loops.walk import children, dtype_of, free_vars, loads, substitute, walk, with_children
from weft.plan.contractions import FEW_TERMS, separable
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass

MOST_POINTS = 144
"""Of a window; each has code of its own."""
_PANEL, _TILE, _WINDOW, _ELEMENT = "panel", "tile", "slice", "spot"


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """These loops, where they apply: others compute the inner sums again for every point."""
    found = _transform(task)
    if isinstance(found, Refusal):
        return found
    return (Alternative("separable", 0.0, Sums("separable"), partial(_generate, found), always),)


def _factors(node: Reduce, constants: Mapping[str, object]) -> tuple[Load, Expr] | None:
    """The element of a constant matrix, and what a sum multiplies it by."""
    match node.value:
        case Binary("mul", Load() as lhs, rhs) if lhs.buffer in constants:
            return lhs, rhs
        case Binary("mul", lhs, Load() as rhs) if rhs.buffer in constants:
            return rhs, lhs
        case _:
            return None


@dataclass(frozen=True)
class _Transform:
    """A task, the axes of its points, and how its windows are read.

    Attributes:
        points: axes of the output that only the matrices depend on.
        across: the operand whose windows are turned, if one is, and the dimensions that it is
            read along: those of a window, then that of neighbouring windows.
    """

    task: Task
    points: tuple[Axis, ...]
    across: tuple[Load, Run] | None

    @property
    def lanes(self) -> Axis:
        """The axis of the vectors."""
        return self.task.compute.axes[-1]

    @property
    def outer(self) -> list[Axis]:
        """The axes of the output that loops run over, but for vectors."""
        return [axis for axis in self.task.compute.axes[:-1] if axis not in self.points]


def _transform(task: Task) -> _Transform | Refusal:
    axes, value = task.compute.axes, task.compute.value
    if not axes or task.output.steps[-1] != 1:
        return Refusal("the output's fastest axis is not contiguous")
    if separable(value) is None:
        return Refusal("no product with a matrix is inside another one")
    if any(isinstance(node, Select) for node in walk(value)):
        return Refusal("elements are read under a condition")
    sums = [node for node in walk(value) if isinstance(node, Reduce)]
    if any(node.op != "sum" or _terms(node) > FEW_TERMS for node in sums):
        return Refusal("a sum has many terms")
    # What arrays hold is asked for last: kernels that depend on it are not shared.
    factors = [_factors(node, dict.fromkeys(task.constants)) for node in sums]
    matrices = [each[0] for each in factors if each is not None]
    if len(matrices) < len(sums):
        return Refusal("a factor is no constant")
    used = frozenset[str]().union(*map(free_vars, matrices))
    points = tuple(axis for axis in axes if axis.var in used)
    others = [load for load in loads(value) if load not in matrices]
    if axes[-1] in points or prod(axis.extent for axis in points) > MOST_POINTS:
        return Refusal("vectors would run along the points, or there are too many of them")
    if any(axis.var in free_vars(load) for axis in points for load in others):
        return Refusal("an operand is another one for every point")
    if any(not isinstance(part, Var | Const) for load in matrices for part in load.index):
        return Refusal("a matrix is not read by rows and columns")
    if any(load.buffer not in task.arrays for load in matrices):
        return Refusal("a matrix is not known yet")
    found = _Transform(task, points, None)
    return replace(found, across=_across(found, sums, others))


def _terms(node: Reduce) -> int:
    return prod(axis.extent for axis in node.axes)


def _across(
    transform: _Transform, sums: list[Reduce], others: list[Load]
) -> tuple[Load, Run] | None:
    """The only operand, if vectors lie across it and windows follow each other in it."""
    task, (load, *more) = transform.task, others
    target = task.target
    if more or target.flavour != "gnu" or target.lanes(load.dtype) < NARROWEST:
        return None
    lanes = transform.lanes.var
    taps = [axis for node in sums for axis in node.axes if axis.var in free_vars(load)]
    source = next(each for each in task.inputs if each.name == load.buffer)
    if load.dtype not in TURNED or step_of(load, lanes, source.steps) in (None, 0, 1):
        return None
    run = run_of(source, load, [*taps, *transform.outer])
    if set(run.axes[:-1]) != set(taps):
        return None
    return load, run


def _generate(transform: _Transform) -> Implementation:
    """The kernel of a transform."""
    task = transform.task
    value, inputs = task.compute.value, list(task.inputs)
    if transform.across is None:
        body = nested(transform.outer, _points(transform, value), LoopKind.PARALLEL)
    else:
        load, run = transform.across
        inputs = [run.joined_buffer(each) if each.name == load.buffer else each for each in inputs]
        along = run.axes[-1]
        tile = task.target.lanes(load.dtype)
        outer = [axis for axis in transform.outer if axis != along]
        count, rest = divmod(along.extent, tile)
        body = tuple(
            stmt
            for start, tiles, windows in ((0, count, tile), (count * tile, 1, rest))
            if tiles * windows
            for stmt in nested(
                [*outer, Axis(_TILE, tiles)],
                _tile(transform, load, run, start, windows),
                LoopKind.PARALLEL,
            )
        )
    # Matrices became literals; tables that say where elements lie did not.
    read = {each.buffer for each in loads(*all_exprs(body))}
    kept = [each for each in inputs if each.name in read]
    kernel = simplify_kernel(Kernel(task.name, (*kept, task.output), body))
    operands = tuple(Operand(task.value_of(each.name)) for each in kept)
    return Implementation(kernel, operands, "separable")


def _tile(
    transform: _Transform, load: Load, run: Run, start: int, windows: int
) -> tuple[Stmt, ...]:
    """Some windows: turned into the panel, then transformed."""
    task, lanes, along = transform.task, transform.lanes, run.axes[-1]
    size = run.size // along.extent
    first = plus(times(Var(_TILE), windows), start)
    panel = Buffer(_PANEL, load.dtype, (windows * size, lanes.extent), Access.LOCAL)
    source = next(each for each in task.inputs if each.name == load.buffer)
    element = run.joined_load(load, plus(times(first, size), Var(_ELEMENT)))
    turning = replace(
        task,
        compute=Compute((Axis(_ELEMENT, windows * size), lanes), element),
        inputs=(run.joined_buffer(source),),
        output=replace(panel, name="out"),
    )
    fill = elementwise.loops(turning)
    assert fill is not None
    place = times(Var(_WINDOW), size)
    step = 1
    for axis in run.axes[:-1]:
        place = plus(place, times(Var(axis.var), step))
        step *= axis.extent
    held = Load(_PANEL, (place, Var(lanes.var)), load.dtype)
    value = replaced(task.compute.value, load, held)
    body = substitute_stmts(_points(transform, value), {along.var: plus(first, Var(_WINDOW))})
    inner = for_range(_WINDOW, windows, body)
    return (Local(panel, (*rename_buffers(fill, {"out": _PANEL}), inner)),)


def _points(transform: _Transform, value: Expr) -> tuple[Stmt, ...]:
    """All points of one window, for all lanes."""
    task, lanes = transform.task, transform.lanes
    held = [dtype_of(node) for node in walk(value) if isinstance(node, Reduce)]
    width = min(task.target.lanes(each) for each in (*held, task.output.dtype))
    found: list[Stmt] = []
    for block in blocks_of(lanes.extent, width, task.target.lanes(task.output.dtype) // width):
        pieces = [
            _Piece(transform, number, lanes, plus(block_origin(block, "chunk"), first))
            for number, first, lanes in block.pieces()
        ]
        body: list[Stmt] = []
        for point in product(*(range(axis.extent) for axis in transform.points)):
            at = {axis.var: place for axis, place in zip(transform.points, point, strict=True)}
            stores = [piece.stored(value, at) for piece in pieces]
            for piece in pieces:
                body += piece.taken()
            body += stores
        buffers = [buffer for piece in pieces for buffer in piece.buffers()]
        whole = with_locals(buffers, tuple(body))
        found += nested([Axis("chunk", block.count)], whole) if block.count > 1 else whole
    return tuple(found)


@dataclass
class _Piece:
    """One vector of a window: values that points share are computed once.

    Attributes:
        number: among the vectors of a line.
        width: lanes; first: of them.
        held: what local memory has: sums by node and place, factors by expression.
    """

    transform: _Transform
    number: int
    width: int
    first: Expr
    held: dict[object, Load] = field(default_factory=dict[object, Load])
    counts: dict[DType, int] = field(default_factory=dict[DType, int])
    waiting: list[Stmt] = field(default_factory=list[Stmt])

    def buffers(self) -> Iterator[Buffer]:
        """The local memory that the statements use."""
        for dtype, count in self.counts.items():
            yield Buffer(self.name(dtype), dtype, (count, self.width), Access.LOCAL)

    def name(self, dtype: DType) -> str:
        """Of the local memory for values of a type."""
        return f"held{self.number}_{dtype.value}"

    def taken(self) -> list[Stmt]:
        """The statements since the last time."""
        found, self.waiting = self.waiting, []
        return found

    def stored(self, value: Expr, at: Mapping[str, int]) -> Stmt:
        """The store of a point, whose value the statements before it need."""
        axes = self.transform.task.compute.axes
        index = tuple(integer(at[a.var]) if a.var in at else Var(a.var) for a in axes)
        return self.in_lanes("out", index, self.evaluated(value, at))

    def in_lanes(self, buffer: str, index: tuple[Expr, ...], value: Expr) -> Stmt:
        """A store for all lanes."""
        places = {self.transform.lanes.var: plus(self.first, Var(LANE))}
        index = tuple(substitute(part, places) for part in index)
        return vector(self.width, Store(buffer, index, substitute(value, places)))

    def kept(self, key: object, value: Expr) -> Load:
        """A value in local memory."""
        dtype = dtype_of(value)
        row = self.counts.setdefault(dtype, 0)
        self.counts[dtype] += 1
        place = (integer(row), Var(LANE))
        self.waiting.append(self.in_lanes(self.name(dtype), place, value))
        return self.held.setdefault(key, Load(self.name(dtype), place, dtype))

    def evaluated(self, node: Expr, at: Mapping[str, int]) -> Expr:
        """A value at a point, without sums."""
        match node:
            case Reduce():
                return self.total(node, at)
            case Load():
                return substitute(node, {name: integer(place) for name, place in at.items()})
            case _:
                parts = tuple(self.evaluated(child, at) for child in children(node))
                return with_children(node, parts)

    def total(self, node: Reduce, at: Mapping[str, int]) -> Load:
        """A sum at a point, written out; what a zero is a factor of is left out."""
        free = free_vars(node)
        key = node, tuple((name, place) for name, place in at.items() if name in free)
        if key in self.held:
            return self.held[key]
        task = self.transform.task
        factors = _factors(node, task.arrays)
        assert factors is not None
        matrix, other = factors
        # Asked for by value: layers whose matrices are equal share a kernel.
        elements = found_of(task, matrix.buffer, _elements)
        # The definition lacks axes of extent 1, which the array may have.
        steps = next(each.steps for each in task.inputs if each.name == matrix.buffer)
        value: Expr = Const(0.0, matrix.dtype)
        for place in product(*(range(axis.extent) for axis in node.axes)):
            inside = {**at, **{a.var: each for a, each in zip(node.axes, place, strict=True)}}
            if factor := elements[sum(map(mul, _place(matrix, inside), steps))]:
                each = Binary("mul", Const(factor, matrix.dtype), self.factor(other, inside))
                value = Binary("add", value, each)
        return self.kept(key, value)

    def factor(self, node: Expr, at: Mapping[str, int]) -> Load:
        """What elements of matrices multiply, for several sums."""
        value = self.evaluated(node, at)
        if isinstance(value, Load) and value in self.held.values():
            return value
        return self.held[value] if value in self.held else self.kept(value, value)


def _elements(array: np.ndarray) -> list[float]:
    """All elements, row by row."""
    return array.ravel().tolist()


def _place(matrix: Load, at: Mapping[str, int]) -> tuple[int, ...]:
    """The index of an element of a matrix."""
    return tuple(
        at[part.name] if isinstance(part, Var) else int(part.value)
        for part in matrix.index
        if isinstance(part, Var | Const)
    )


GENERATOR = Generator(
    "separable",
    "Products with small constant matrices along two axes, written out in registers; windows "
    "that lie across are turned.",
    (
        "a sum of few products with a constant matrix is inside another one",
        "the output's fastest axis is contiguous, and no matrix depends on it",
        "the operand is the same for all points of a window",
    ),
    propose,
    any_threads=True,
)
