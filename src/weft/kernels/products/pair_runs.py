"""Convolutions of bfloat16 over few channels: pairs along what a window reads of a row.

All that a window reads of a row of an image whose channels lie side by side is one run: its
columns times its channels.  Pairs go through it whatever the number of channels, with zero
weights behind its end.  Bands of rows are copied for it, their borders filled in::

    for band of output rows:                                                       (parallel)
      local wide[row][column * channels]
      for row of the band, block of output channels, tile of columns:
        for tap of rows, pair of the run:  acc[position][vector] += wide * weights
        out = epilogue(acc)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.dtypes import DType
from weft.kernels.contraction import Contraction, SlidingWindow
from weft.kernels.paired_factors import PairedFactors, depth_of
from weft.kernels.products import tiled_choice
from weft.kernels.products.pairs import refused, rows_of
from weft.kernels.products.tile_form import TileForm
from weft.kernels.products.tiled import TileWriter
from weft.kernels.refusal import Refusal
from weft.kernels.row_copies import WIDE, RowCopies, Side, joined, side_by_side
from weft.kernels.tiling import LaneBlock, even_tiles
from weft.kernels.writer import (
    for_range,
    integer,
    nested,
    plus,
    times,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    LoopKind,
    Reduce,
    Stmt,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import blocks, substitute_stmts, with_blocks
from weft.loops.walk import map_expr
from weft.plan.implementation import Implementation, Operand, Packing
from weft.records import dataclass

_HELD, _F32 = DType.BF16, DType.F32
_SPOT, _CHUNK = "spot", "chunk"
_COPIES = 16
"""A band has so many rows that copying what it reads takes at most such a part of its products."""


@dataclass(frozen=True)
class RowRuns:
    """A convolution by runs of rows.

    Attributes:
        parts: the task taken apart.
        image: the load of the input; source: what it loads from.
        rows: the dimension along which windows move from row to row, and how, if one does.
        columns: the same along a row; channels: the dimensions beside it, slowest first.
    """

    parts: Contraction
    image: Load
    source: Buffer
    rows: tuple[int, SlidingWindow] | None
    columns: tuple[int, SlidingWindow]
    channels: tuple[tuple[int, Axis], ...]

    @property
    def depth(self) -> int:
        """Channels of a column."""
        return prod(axis.extent for _, axis in self.channels)

    @property
    def rows_used(self) -> Mapping[int, Instruction]:
        """The instructions, by lanes."""
        return rows_of(self.parts.task.target, self.parts.task.exact)[0]

    @property
    def pair(self) -> int:
        """Neighbours of a run that the instructions multiply: a pair, or more."""
        return depth_of(self.rows_used)

    @property
    def pairs(self) -> int:
        """Pairs of a run."""
        return -(-self.columns[1].taps * self.depth // self.pair)

    @property
    def down(self) -> Side:
        """Along rows."""
        return Side(self.rows[1] if self.rows else None)

    @property
    def height(self) -> int:
        """Rows of outputs."""
        return self.rows[1].out.extent if self.rows else 1

    @property
    def copies(self) -> RowCopies:
        """How rows of the image are copied."""
        lanes = self.parts.task.target.lanes(_F32)
        return RowCopies(self.down, self.height, self.length, Const(0.0, _HELD), lanes)

    @property
    def length(self) -> int:
        """Elements of a copied row, with what the last pair reads past it."""
        _, across = self.columns
        over = self.pairs * self.pair - across.taps * self.depth
        return across.reach(across.out.extent) * self.depth + over

    @property
    def outer(self) -> tuple[Axis, ...]:
        """Output axes that are neither rows, columns nor channels."""
        rows = self.rows[1].out if self.rows else None
        return tuple(axis for axis in self.parts.outer if axis != rows)

    def wide(self, rows: int) -> Buffer:
        """The copy of what so many rows of outputs read."""
        return Buffer(WIDE, _HELD, (self.down.extent(rows), self.length), Access.LOCAL)

    def joined(self) -> tuple[Buffer, tuple[int, ...]]:
        """The input with columns and channels as one dimension, the last, and its others."""
        return joined(self.source, {self.columns[0], *(place for place, _ in self.channels)})

    def filled(self, first: Expr, rows: int, extent: int) -> Stmt:
        """Copies what a band reads; outside of the image it is zero."""
        (_, across), copies, depth = self.columns, self.copies, self.depth
        source, others = self.joined()
        place = self.rows[0] if self.rows else -1
        index = [copies.source(first) if at == place else self.image.index[at] for at in others]
        low = across.before * depth
        high = min(across.before + across.size, across.reach(across.out.extent)) * depth
        inside = copies.run(low, high - low, lambda lane: Load(source.name, (*index, lane), _HELD))
        return copies.fill(first, rows, extent, tuple(inside), low, high)

    def contraction(self) -> Contraction:
        """A row of outputs over a copied band, of which the row is number ``spot``."""
        parts, (_, across), lanes = self.parts, self.columns, self.parts.lanes
        assert lanes is not None
        row: Expr = integer(0)
        taps: tuple[Axis, ...] = ()
        if self.rows:
            down = self.rows[1]
            assert down.tap is not None
            taps = (down.tap,)
            row = self.down.place(Var(_SPOT), Var(down.tap.var))
        place = times(Var(across.out.var), across.stride * self.depth)
        image = Load(WIDE, (row, plus(place, times(Var(_CHUNK), self.pair))), _HELD)
        index = (*(Var(axis.var) for axis in taps), Var(_CHUNK), Var(lanes.var))
        weight = Load(parts.weight or "", index, _HELD)
        value = Binary("mul", Cast(_F32, image), Cast(_F32, weight))
        sums = Reduce("sum", (*taps, Axis(_CHUNK, self.pairs)), value)
        shape = (*(axis.extent for axis in taps), self.pairs, lanes.extent)
        compute, old = parts.task.compute, parts.reduce
        whole = map_expr(compute.value, lambda node: sums if node == old else node)
        inputs = tuple(
            Buffer(each.name, _HELD, shape) if each.name == parts.weight else each
            for each in parts.task.inputs
        )
        task = replace(parts.task, compute=Compute(compute.axes, whole), inputs=inputs)
        pairs = PairedFactors(_CHUNK, image, self.rows_used)
        return replace(
            parts, task=task, reduce=sums, value=value, guards=(), outer=(), slide=None, pairs=pairs
        )


def row_runs(parts: Contraction) -> RowRuns | Refusal:
    """The convolution by runs that a contraction is, or why it is none."""
    why, image, reduce = refused(parts), parts.narrow_image, parts.reduce
    if why is not None:
        return why
    assert image is not None
    assert reduce is not None
    source = next(each for each in parts.task.inputs if each.name == image.buffer)
    moving = [
        (place, window)
        for place, window in enumerate(parts.windows_of(image))
        if window is not None and window.tap is not None
    ]
    moving.sort(key=lambda each: each[1].out == parts.tile)
    channels = parts.channels(image)
    channels.sort(key=lambda each: source.steps[each[0]], reverse=True)
    if not 1 <= len(moving) <= 2 or len(moving) + len(channels) != len(reduce.axes):
        return Refusal("it is no convolution of rows and columns over all channels")
    columns, *rows = reversed(moving)
    side_by_side = columns[1].dilation == 1 and _in_runs(source, columns, channels)
    if columns[1].out != parts.tile or not side_by_side:
        return Refusal("the channels of neighbouring columns are no run")
    if not parts.guarded_by_borders([window for _, window in moving]):
        return Refusal("its conditions are not those of an image's borders")
    return RowRuns(parts, image, source, rows[0] if rows else None, columns, tuple(channels))


def _in_runs(
    source: Buffer, columns: tuple[int, SlidingWindow], channels: Sequence[tuple[int, Axis]]
) -> bool:
    """Whether all channels of all columns of a row lie side by side."""
    depth = prod(axis.extent for _, axis in channels)
    return side_by_side(source, channels) and source.steps[columns[0]] == depth


def rows_of_band(runs: RowRuns, row: float) -> int:
    """Rows of outputs of a band, given the cycles of the products of one."""
    height = runs.height
    return next(
        (rows for rows in range(1, height) if copied(runs, rows) * _COPIES <= rows * row), height
    )


def copied(runs: RowRuns, rows: int) -> float:
    """Cycles to copy what a band reads."""
    target = runs.parts.task.target
    moves = 2 * runs.length / target.lanes(_F32)
    return runs.down.extent(rows) * (moves * target.costs.move + target.costs.row)


def cost(runs: RowRuns, parts: Contraction, form: TileForm) -> float:
    """About how many cycles a form takes on one core.

    Args:
        runs: the convolution.
        parts: its ``contraction()``.
        form: of the register tiles.
    """
    row = tiled_choice.cycles(parts, form)
    rows = rows_of_band(runs, row)
    images = prod(axis.extent for axis in runs.outer)
    return images * runs.height * (row + copied(runs, rows) / rows)


class _Writer(TileWriter):
    """Writes the loops over copied rows."""

    def __init__(self, runs: RowRuns, parts: Contraction, form: TileForm) -> None:
        self.runs = runs
        super().__init__(parts, form)
        joined, _ = runs.joined()
        self.params = [joined if each.name == joined.name else each for each in self.params]

    def pack(self, block: LaneBlock) -> str:
        """The parameter that holds the weights of a block, pairs of runs innermost."""
        runs, parts = self.runs, self.runs.parts
        assert parts.weight
        assert parts.lanes
        name = f"{parts.weight}_{len(self.packed)}" if self.packed else parts.weight
        index = parts.weight_index()
        taps = [runs.rows[1].tap] if runs.rows else []
        inside = [runs.columns[1].tap, *(axis for _, axis in runs.channels)]
        order = tuple(index.index(Var(axis.var)) for axis in (*taps, *inside) if axis)
        weight = next(each for each in parts.task.inputs if each.name == parts.weight)
        packing = Packing(
            weight.shape,
            index.index(Var(parts.lanes.var)),
            order,
            block.start,
            block.count,
            block.width,
            runs.pair,
            apart=True,
            joined=len(inside),
        )
        rows = [axis.extent for axis in taps if axis]
        shape = (block.count, *rows, runs.pairs, block.width, runs.pair)
        self.params.append(Buffer(name, _HELD, shape))
        self.operands.append(Operand(parts.task.value_of(parts.weight), packing))
        self.packed.add(name)
        return name

    def kernel(self) -> Kernel:
        runs, task = self.runs, self.parts.task
        body = _serial(self.body())
        rows = rows_of_band(runs, tiled_choice.cycles(self.parts, self.form))
        found: list[Stmt] = []
        for band in even_tiles(runs.height, rows):
            first = plus(times(Var("share"), band.size), band.start)
            if band.count == 1:
                first = integer(band.start)
            inner = self.band(first, band.size, body)
            if band.count > 1:
                inner = (for_range("share", band.count, inner, LoopKind.PARALLEL),)
            found += inner
        whole = nested(runs.outer, tuple(found), LoopKind.PARALLEL)
        return simplify_kernel(Kernel(task.name, (*self.params, task.output), whole))

    def band(self, first: Expr, rows: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Outputs of so many rows from one on."""
        wide = self.runs.wide(rows)
        if self.runs.rows:
            out = self.runs.rows[1].out.var
            body = substitute_stmts(body, {out: plus(first, Var(_SPOT))})
        loop = for_range(_SPOT, rows, body)
        return with_locals((wide,), (self.runs.filled(first, rows, wide.shape[0]), loop))


def _serial(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Loops that threads do not share: bands are for them."""

    def visit(stmt: Stmt) -> Stmt:
        inner = with_blocks(stmt, [tuple(map(visit, block)) for block in blocks(stmt)])
        parallel = isinstance(inner, For) and inner.kind is LoopKind.PARALLEL
        return replace(inner, kind=LoopKind.SERIAL) if parallel else inner

    return tuple(map(visit, stmts))


def write(runs: RowRuns, parts: Contraction, form: TileForm, name: str) -> Implementation:
    """The kernel.

    Args:
        runs: the convolution.
        parts: its ``contraction()``.
        form: of the register tiles.
        name: of the alternative.
    """
    writer = _Writer(runs, parts, form)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), name)
