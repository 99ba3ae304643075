"""What AMX's tiles read: lines of positions, in the input itself or in copies with borders.

A tile of positions is 16 rows of numbers, each so far from the one before it. So it is read where
it lies if all that a position reads of a row lies side by side: one pixel's channels, or those of
a window's columns. Where windows reach over borders, rows are copied, zeros around them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.kernels.contraction import Contraction, SlidingWindow
from weft.kernels.products.pair_runs import RowRuns, row_runs
from weft.kernels.products.pairs import refused
from weft.kernels.products.tiled_choice import operand_bytes
from weft.kernels.refusal import Refusal
from weft.kernels.row_copies import side_by_side
from weft.kernels.writer import integer, plus, times
from weft.loops.nodes import Axis, Buffer, Expr, Load, Stmt, Store, Var
from weft.loops.statements import blocks, with_blocks
from weft.loops.walk import free_vars, loads
from weft.plan.implementation import Packing
from weft.records import dataclass

PAIR = 2
"""Numbers of a pair, in which weights lie side by side for every channel."""
ROWS = 16
"""Rows of a tile: positions, or pairs of weights."""
LANES = 16
"""Channels of a tile."""


@dataclass(frozen=True)
class Lines:
    """Lines of positions.

    Attributes:
        parts: of the task.
        buffer: what is read; its last dimension are the numbers of all rows.
        index: of its other dimensions.
        pitch: numbers from one row to the next.
        height: the axis of rows of outputs, if there is one; width: that along a row.
        outer: the other axes of outputs but for the channels.
        row: rows from one row of outputs to the next, and the first one.
        place: numbers from one position to the next, and the first one.
        down: the axis of the reduction from row to row, if there is one; along: those along a row.
        runs: what copies rows of the input to ``buffer``, if something does.
    """

    parts: Contraction
    buffer: Buffer
    index: tuple[Expr, ...]
    pitch: int
    height: Axis | None
    width: Axis
    outer: tuple[Axis, ...]
    row: tuple[int, int]
    place: tuple[int, int]
    down: Axis | None
    along: tuple[Axis, ...]
    runs: RowRuns | None = None

    @property
    def taps(self) -> int:
        """Rows of a window."""
        return self.down.extent if self.down else 1

    @property
    def pairs(self) -> int:
        """Of a step: as many as a tile holds, if all steps have as many."""
        total = self._pairs
        return next(count for count in range(min(ROWS, total), 0, -1) if total % count == 0)

    @property
    def steps(self) -> int:
        """Of a row of a window."""
        return self._pairs // self.pairs

    @property
    def _pairs(self) -> int:
        return -(-prod(axis.extent for axis in self.along) // PAIR)

    @property
    def rows(self) -> int:
        """Rows of outputs."""
        return self.height.extent if self.height else 1

    @property
    def passable(self) -> bool:
        """Whether rows of copies follow each other as their positions do."""
        joins = self.row[0] * self.pitch % self.place[0] == 0
        return self.runs is not None and self.rows > 1 and joins and not self.runs.down.packed

    @property
    def far_weights(self) -> bool:
        """Whether each pass over the weights fetches them from beyond a core's own caches."""
        caches = self.parts.task.target.caches
        _, filter = self.parts.fact(operand_bytes)
        return bool(caches) and filter > caches[-1] / 2

    def packing(self, start: int, blocks: int, width: int) -> Packing:
        """How weights of blocks of channels are packed: pairs along a row, of each channel."""
        parts = self.parts
        assert parts.lanes
        weight = next(each for each in parts.task.inputs if each.name == parts.weight)
        # A dimension of one element is the rows of a window that has one.
        index = (integer(0), *parts.weight_index())
        lanes = index.index(Var(parts.lanes.var))
        along = [index.index(Var(axis.var)) for axis in self.along]
        down = index.index(Var(self.down.var)) if self.down else 0
        single = [at for at in range(len(index)) if at not in (down, lanes, *along)]
        order, inside = (down, *single, *along), len(single) + len(along)
        shape = (1, *weight.shape)
        return Packing(shape, lanes, order, start, blocks, width, PAIR, apart=True, joined=inside)


def lines_of(parts: Contraction) -> Lines | Refusal:
    """The lines that a task reads, or why there are none."""
    image, why = parts.narrow_image, refused(parts)
    if why is not None:
        return why
    assert image is not None
    if parts.tile is None or parts.tile.extent == 1:
        return Refusal("it has one position")
    names = {axis.var for axis in (*parts.outer, parts.tile)}
    if any(free_vars(part) & names for part in parts.weight_index()):
        return Refusal("positions do not share their weights")
    read = loads(parts.task.compute.value)
    if any(load.buffer == image.buffer and load != image for load in read):
        return Refusal("its input is also read by what ends the sums")
    found = _in_place(parts, image)
    return _copied(parts) if isinstance(found, Refusal) else found


def _in_place(parts: Contraction, image: Load) -> Lines | Refusal:
    """The lines of the input itself."""
    reduce = parts.reduce
    assert reduce is not None
    assert parts.tile is not None
    source = next(each for each in parts.task.inputs if each.name == image.buffer)
    windows = {at: each for at, each in enumerate(parts.windows_of(image)) if each is not None}
    across = next((at for at, each in windows.items() if each.out == parts.tile), None)
    channels = parts.channels(image)
    channels.sort(key=lambda each: source.steps[each[0]], reverse=True)
    if parts.guards or across is None or not side_by_side(source, channels):
        return Refusal("it has borders, or its channels do not lie side by side")
    down = _rows(parts, {at: each for at, each in windows.items() if at != across})
    window, depth = windows[across], prod(axis.extent for _, axis in channels)
    along = (*((window.tap,) if window.tap else ()), *(axis for _, axis in channels))
    gaps = window.tap is not None and (window.dilation > 1 or source.steps[across] != depth)
    rows = windows[down] if down is not None else None
    taps = {axis.var for axis in (*along, *((rows.tap,) if rows and rows.tap else ()))}
    if gaps or taps != {axis.var for axis in reduce.axes} or (rows and _skips(rows)):
        return Refusal("what a window reads of a row does not lie side by side")
    if prod(axis.extent for axis in along) % PAIR:
        return Refusal("it has an odd number of input channels")
    inner = {across, down, *(at for at, _ in channels)}
    others = [at for at in range(len(source.shape)) if at not in inner]
    named = {parts.tile.var, *(axis.var for axis in reduce.axes)}
    if any(free_vars(image.index[at]) & named for at in others):
        return Refusal("its positions do not lie along one dimension")
    step = source.steps[across]
    length = (source.shape[across] - 1) * step + depth
    height, pitch = (source.shape[down], source.steps[down]) if down is not None else (1, length)
    shape = (*(source.shape[at] for at in others), (height - 1) * pitch + length)
    steps = (*(source.steps[at] for at in others), 1)
    return Lines(
        parts,
        Buffer(source.name, source.dtype, shape, source.access, steps),
        tuple(image.index[at] for at in others),
        pitch,
        rows.out if rows else None,
        parts.tile,
        tuple(axis for axis in parts.outer if not rows or axis != rows.out),
        (rows.stride, -rows.before) if rows else (1, 0),
        (window.stride * step, -window.before * step),
        rows.tap if rows else None,
        along,
    )


def _rows(parts: Contraction, windows: dict[int, SlidingWindow]) -> int | None:
    """The dimension along which outputs move from row to row."""
    tapped = [at for at, each in windows.items() if each.tap]
    if tapped:
        return tapped[0]
    last = parts.outer[-1] if parts.outer else None
    return next((at for at, each in windows.items() if each.out == last), None)


def _skips(rows: SlidingWindow) -> bool:
    return rows.tap is not None and rows.dilation > 1


def _copied(parts: Contraction) -> Lines | Refusal:
    """The lines of copies, of which a band has the rows that its outputs read."""
    runs = row_runs(parts)
    if isinstance(runs, Refusal):
        return runs
    rows, across = runs.rows[1] if runs.rows else None, runs.columns[1]
    if rows and _skips(rows):
        return Refusal("rows of its window lie apart")
    assert parts.tile is not None
    inside = (across.tap, *(axis for _, axis in runs.channels))
    return Lines(
        parts,
        flat(runs.wide(runs.height)),
        (),
        runs.length,
        rows.out if rows else None,
        parts.tile,
        runs.outer,
        (1 if runs.down.packed else rows.stride if rows else 1, 0),
        (across.stride * runs.depth, 0),
        rows.tap if rows else None,
        tuple(axis for axis in inside if axis),
        runs,
    )


def flat(copies: Buffer) -> Buffer:
    """Copies of rows as one dimension."""
    return replace(copies, shape=(prod(copies.shape),))


def filled(stmt: Stmt, copies: Buffer) -> Stmt:
    """What fills copies of rows, as one dimension."""
    if isinstance(stmt, Store):
        row, place = stmt.index
        return Store(stmt.buffer, (plus(times(row, copies.shape[1]), place),), stmt.value)
    return with_blocks(
        stmt, [tuple(filled(each, copies) for each in block) for block in blocks(stmt)]
    )
