"""Depthwise convolutions of bytes down columns, by an instruction that multiplies lane by lane.

Rows of the widened input are woven: lane ``n`` of a vector holds what some rows have of channel
``n``, one below the other.  One woven vector serves every output row that reads of them, with
other weights for each, and all taps along a row::

    for band of output rows:                                                       (parallel)
      local wide[row][column * channels]
      for group of output rows, vector of channels:
        local woven[quad][column] = weave(wide[rows of the quad][column])
        for tile of columns:
          acc[row of the group][column] = start[channel]
          for quad, tap along the row:  instruction(acc, woven, weights[row of the group])
          out = epilogue(acc)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.bytes.vectors.wide_rows import WideRows
from weft.kernels.bytes.windows import ByteWindow, depthwise_window
from weft.kernels.contraction import SlidingWindow
from weft.kernels.generator import Generator
from weft.kernels.integer.output import IntegerOutput, fits
from weft.kernels.refusal import Refusal
from weft.kernels.row_copies import WIDE, Side
from weft.kernels.task import Task
from weft.kernels.tiling import blocks_of, even_tiles
from weft.kernels.writer import (
    LANE,
    for_lanes,
    for_range,
    integer,
    nested,
    plus,
    spans,
    times,
    with_locals,
)
from weft.loops.instruction import Instruction, instructions, weaves
from weft.loops.nodes import (
    Access,
    Buffer,
    Expr,
    Instruct,
    Kernel,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts
from weft.plan.implementation import Implementation
from weft.records import dataclass
from weft.targets.target import Target

_I32 = DType.I32
_WOVEN, _WEIGHTS = "woven", "weights"
_HELD = 4
"""Registers, of as many as there are, that hold one vector of sums."""
_OUTPUT = 10
"""Operations that requantize and store a vector of outputs."""


@dataclass(frozen=True)
class Columns:
    """A depthwise convolution by an instruction.

    Attributes:
        window: what it reads.
        row: the instruction; weave: what lays rows out for it.
    """

    window: ByteWindow
    row: Instruction
    weave: Instruction

    @property
    def name(self) -> str:
        """The alternative's."""
        return f"{self.row.name}-columns"

    @property
    def target(self) -> Target:
        """The machine."""
        return self.window.found.task.target

    @property
    def lanes(self) -> int:
        """Channels of one instruction."""
        return prod(self.row.meaning.params[0].shape)

    @property
    def blocks(self) -> int:
        """Vectors of all channels; the last one may have lanes that do not count."""
        return -(-self.window.depth // self.lanes)

    @property
    def depth(self) -> int:
        """Rows of a quad: products of one lane."""
        return self.row.meaning.params[1].shape[-1]

    @property
    def sides(self) -> tuple[SlidingWindow, SlidingWindow]:
        """How windows move along rows and columns."""
        rows, columns = self.window.rows, self.window.columns
        assert rows is not None
        assert columns is not None
        return rows[1], columns[1]

    @property
    def quads(self) -> int:
        """Woven vectors that hold what one output reads of a column."""
        return -(-self.sides[0].taps // self.depth)

    @property
    def group(self) -> int:
        """Rows of outputs that these hold."""
        down = self.sides[0]
        return (self.quads * self.depth - down.taps) // down.stride + 1

    @property
    def tile(self) -> int:
        """Columns whose sums registers hold."""
        return max(1, self.target.registers // _HELD // self.group)

    @property
    def band(self) -> int:
        """Rows of outputs of a band: what it reads stays near, and every thread has one."""
        down, across = self.sides
        task = self.window.found.task
        places = Side(across).extent(across.out.extent)
        row = places * self.window.depth * self.row.meaning.params[1].dtype.bytes
        near = task.target.caches[0] if task.target.caches else 0
        height = down.out.extent
        groups = -(-height // self.group)
        most = max(1, int(near // row - down.taps) // (self.group * down.stride))
        bands = -(-groups // most)
        bands = min(groups, -(-bands // task.threads) * task.threads)
        return min(height, -(-groups // bands) * self.group)

    def generate(self) -> Implementation:
        """The kernel."""
        made = _Writer(self)
        return Implementation(
            made.kernel(), made.output.operands(lambda _, array: array), self.name
        )


class _Writer:
    def __init__(self, loops: Columns) -> None:
        self.loops, self.window = loops, loops.window
        found = self.window.found
        _, self.lhs, self.rhs = loops.row.meaning.params
        shift = fits(found, loops.row)
        assert shift is not None
        self.over = loops.blocks * loops.lanes - self.window.depth
        self.wide = WideRows(self.window, self.lhs.dtype, shift, self.over)
        self.down, self.across = loops.sides
        taps = found.weights.astype(np.int64)
        start = np.pad(found.bias - shift * taps.sum(1), (0, self.over))
        self.output = IntegerOutput(found, start)
        self.output.arrays[_WEIGHTS] = self._packed(self.window.ordered(taps)[..., 0])

    def _packed(self, taps: np.ndarray) -> np.ndarray:
        """``[vector][row of the group][quad][tap][lane][row of the quad]``."""
        loops, (channels, down, across) = self.loops, taps.shape
        rows = np.zeros((channels, loops.group, loops.quads * loops.depth, across), np.int64)
        for each in range(loops.group):
            first = each * self.down.stride
            rows[:, each, first : first + down] = taps
        rows = np.pad(rows, [(0, self.over), *[(0, 0)] * 3])
        cut = rows.reshape(-1, loops.lanes, loops.group, loops.quads, loops.depth, across)
        moved = cut.transpose(0, 2, 3, 5, 1, 4)
        return np.ascontiguousarray(moved.astype(self.rhs.dtype.numpy))

    # --- loops ----------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        task, body = self.window.found.task, list[Stmt]()
        for tile in even_tiles(-(-self.wide.height // self.loops.group), self._groups_of_band):
            rows = tile.size * self.loops.group
            start = tile.start * self.loops.group
            first = plus(times(Var("share"), rows), start)
            left = self.wide.height - start - (tile.count - 1) * rows
            if left < rows:
                whole = tile.count - 1
                if whole:
                    body += self._shared(first, rows, whole)
                body += self._band(integer(start + whole * rows), left)
            else:
                body += self._shared(first, rows, tile.count)
        params = (*self.wide.inputs(self.output.inputs), *self.output.buffers(), task.output)
        found = nested(self.window.outer, tuple(body), LoopKind.PARALLEL)
        return simplify_kernel(Kernel(task.name, params, found))

    @property
    def _groups_of_band(self) -> int:
        return max(1, self.loops.band // self.loops.group)

    def _shared(self, first: Expr, rows: int, count: int) -> tuple[Stmt, ...]:
        return (for_range("share", count, self._band(first, rows), LoopKind.PARALLEL),)

    def _band(self, first: Expr, rows: int) -> tuple[Stmt, ...]:
        """Outputs of so many rows from one on."""
        group, body = self.loops.group, list[Stmt]()
        whole, rest = divmod(rows, group)
        step = group * self.down.stride
        tall = self.loops.quads * self.loops.depth
        extent = (whole + bool(rest) - 1) * step + tall
        if whole:
            inner = self._vectors(first, times(Var("group"), group), group)
            body.append(for_range("group", whole, inner))
        if rest:
            body += self._vectors(first, integer(whole * group), rest)
        fill = self.wide.fill(first, rows, extent)
        return with_locals((self.wide.buffer(extent),), (fill, *body))

    def _vectors(self, first: Expr, row: Expr, rows: int) -> tuple[Stmt, ...]:
        """All channels of some rows of outputs, ``row`` and on in the band."""
        whole, rest = divmod(self.window.depth, self.loops.lanes)
        found: list[Stmt] = []
        if whole:
            inner = self._group(first, row, rows, self.loops.lanes)
            found.append(for_range("block", whole, inner))
        if rest:
            last = self._group(first, row, rows, rest)
            found += substitute_stmts(last, {"block": integer(whole)})
        return tuple(found)

    def _group(self, first: Expr, row: Expr, rows: int, count: int) -> tuple[Stmt, ...]:
        """A vector of channels, of which so many count, of some rows of outputs."""
        loops = self.loops
        shape = (loops.quads, self.wide.places, loops.lanes, loops.depth)
        woven = Buffer(_WOVEN, self.lhs.dtype, shape, Access.LOCAL)
        weave = [self._woven(row, quad) for quad in range(loops.quads)]
        body: list[Stmt] = [for_range("column", self.wide.places, tuple(weave))]
        for tile in even_tiles(self.wide.width, loops.tile):
            origin = plus(times(Var("tile"), tile.size), tile.start)
            inner = self._tile(plus(first, row), rows, origin, tile.size, count)
            body.append(for_range("tile", tile.count, inner))
        return with_locals((woven,), tuple(body))

    def _woven(self, row: Expr, quad: int) -> Stmt:
        """What some rows have of a column."""
        loops, zero = self.loops, integer(0)
        offset = plus(times(Var("column"), self.window.depth), times(Var("block"), loops.lanes))
        top = plus(times(row, self.down.stride), quad * loops.depth)
        out = Load(_WOVEN, (integer(quad), Var("column"), zero, zero), self.lhs.dtype)
        rows = (
            Load(WIDE, (plus(top, each), offset), self.lhs.dtype) for each in range(loops.depth)
        )
        return Instruct(loops.weave.name, (out, *rows))

    # --- sums -----------------------------------------------------------------------------------

    def _tile(self, row: Expr, rows: int, origin: Expr, size: int, count: int) -> tuple[Stmt, ...]:
        """Sums of neighbouring columns of some rows, and their outputs."""
        lanes = self.loops.lanes
        channel = times(Var("block"), lanes)
        names = {
            (each, column): f"acc_{each}_{column}" for each in range(rows) for column in range(size)
        }
        buffers = [Buffer(name, _I32, (lanes,), Access.LOCAL) for name in names.values()]
        start = Load("start", (plus(channel, Var(LANE)),), _I32)
        begin = [for_lanes(lanes, Store(name, (Var(LANE),), start)) for name in names.values()]
        end = [
            stmt
            for (each, column), name in names.items()
            for stmt in self._stored(name, (plus(row, each), plus(origin, column)), channel, count)
        ]
        return with_locals(buffers, (*begin, *self._sums(names, size, origin), *end))

    def _sums(self, names: dict[tuple[int, int], str], size: int, origin: Expr) -> Iterator[Stmt]:
        """All products, those of a woven vector one after the other."""
        across, zero = self.across, integer(0)
        reads = [
            (column * across.stride + tap * across.dilation, column, tap)
            for column in range(size)
            for tap in range(across.taps)
        ]
        for place, column, tap in sorted(reads):
            for quad in range(self.loops.quads):
                for row in range(1 + max(row for row, _ in names)):
                    if not self._reaches(row, quad):
                        continue
                    spot = plus(times(origin, across.stride), place)
                    woven = Load(_WOVEN, (integer(quad), spot, zero, zero), self.lhs.dtype)
                    at = (Var("block"), integer(row), integer(quad), integer(tap), zero, zero)
                    weights = Load(_WEIGHTS, at, self.rhs.dtype)
                    sum = Load(names[row, column], (zero,), _I32)
                    yield Instruct(self.loops.row.name, (sum, woven, weights))

    def _reaches(self, row: int, quad: int) -> bool:
        """Whether an output row of a group reads a quad."""
        first, depth = row * self.down.stride, self.loops.depth
        return first < (quad + 1) * depth and first + self.down.taps > quad * depth

    def _stored(
        self, name: str, place: tuple[Expr, Expr], channel: Expr, count: int
    ) -> Iterator[Stmt]:
        """Outputs of a row and a column, of so many channels."""

        def piece(_: int, width: int, begin: Expr) -> Sequence[Stmt]:
            lane = plus(begin, Var(LANE))
            places = {
                self.down.out.var: place[0],
                self.across.out.var: place[1],
                self.window.found.channel.var: plus(channel, lane),
            }
            return self.output.lanes(width, name, (lane,), places)

        return spans(blocks_of(count, self.loops.lanes, 1), piece)


# --- choice -------------------------------------------------------------------------------------


def columns_of(window: ByteWindow) -> Iterator[Columns]:
    """The instructions of the target that multiply lane by lane, widest first."""
    target = window.found.task.target
    known = [each for each in instructions().values() if each.needs in target.features]
    for row in known:
        if [len(each.shape) for each in row.meaning.params] != [1, 2, 2]:
            continue
        sum, lhs, rhs = row.meaning.params
        weave = next((each for each in known if weaves(each, lhs.shape, lhs.dtype)), None)
        if (
            weave is not None
            and (sum.dtype, lhs.shape) == (_I32, rhs.shape)
            and fits(window.found, row) is not None
        ):
            yield Columns(window, row, weave)


def cost(loops: Columns) -> float:
    """About how many cycles it takes on one core."""
    target, window = loops.target, loops.window
    down, across = loops.sides
    images = prod(axis.extent for axis in window.outer)
    places = Side(across).extent(across.out.extent)
    groups = -(-down.out.extent // loops.group)
    steps = across.out.extent * loops.quads * across.taps
    # As other generators count: two instructions a cycle.
    summed = groups * loops.group * steps * max(loops.row.cycles / 2, 1 / target.issue.loads)
    woven = groups * places * loops.quads * loops.weave.cycles
    made = down.out.extent * across.out.extent * _OUTPUT / target.issue.operations
    return images * loops.blocks * (summed + woven + made)


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The alternatives of this generator."""
    window = depthwise_window(task)
    if isinstance(window, Refusal):
        return window
    if window.rows is None or window.columns is None or not window.contiguous:
        return Refusal("it is no convolution of rows and columns of channels that lie side by side")
    if window.rows[1].taps == 1 or window.rows[1].dilation > 1:
        return Refusal("it reads no neighbouring rows")
    offered: Sequence[Columns] = tuple(columns_of(window))
    if not offered:
        return Refusal("no instruction of the target takes its types")
    return tuple(
        Alternative(each.name, cost(each), Sums("tensorized"), each.generate, always)
        for each in offered
    )


GENERATOR = Generator(
    "byte-columns",
    "Depthwise convolutions of bytes: rows are woven, so that an instruction that multiplies pairs "
    "or quads lane by lane and adds takes the taps of a column at once (VNNI, AVX2, SSE2).",
    (
        "one sum of products, in i32, of bytes and constant weights less their zero points",
        "every channel of the output reads one of the input, by a window of several rows",
        "channels lie side by side, and the target has an instruction for operands of these ranges",
    ),
    propose,
)
