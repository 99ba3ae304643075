"""Convolutions of bytes by rows of instructions that multiply pairs (SMLAD), in shared loops.

What a few neighbouring outputs read is widened once into words of two numbers; then one
instruction of a family makes the sums of all channels from it, and another requantizes them::

    for row of outputs, tile of positions:
      local patch[four of products][position][even, odd]     (borders: the zero point)
      local acc[position][channel]
      sums(acc, patch, weights, start)                        (all channels: one instruction)
      for position:  out = requantized(acc)                   (one instruction, or the epilogue)

The patch holds inputs as they are; what their zero point adds to a sum is taken from ``start``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from weft.dtypes import DType
from weft.kernels.bytes.dual.narrow import STREAM, narrowed, placed
from weft.kernels.bytes.dual.patch import Patch
from weft.kernels.bytes.lines import Lines
from weft.kernels.bytes.scaling import ROW, RequantizedRow
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.contraction import SlidingWindow
from weft.kernels.integer.output import ACCUMULATOR, IntegerOutput
from weft.kernels.writer import for_range, integer, nested, plus, times, with_locals
from weft.loops.instruction import member
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    If,
    Instruct,
    Kernel,
    Load,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import substitute_stmts
from weft.plan.implementation import Implementation
from weft.records import dataclass

_I32, _I8 = DType.I32, DType.I8
PATCH, WEIGHTS = "patch", "weights"
_LOW = Const(65535, _I32)


@dataclass(frozen=True)
class Form:
    """How a family of instructions holds its sums.

    Attributes:
        family: its name.
        positions, channels: of sums in registers.
        bits: of a weight.
        instructions: for four products of each sum; ahead: for all that surrounds them.
        starts: how often a stream has where sums start, for so many positions at once.
        written: steps beyond which loops are needed, where that is a member's size.
    """

    family: str
    positions: int
    channels: int
    bits: int
    instructions: float
    ahead: float
    starts: int = 1
    written: int = 0


FORMS = (
    Form("dual_2x2", 2, 2, 16, 10.25, 16, starts=2, written=16),
    Form("dual_4x1", 1, 4, 16, 11.4, 14),
    Form("dual_1x4", 4, 1, 8, 13.25, 18),
    Form("dual_4x1b", 1, 4, 8, 18.75, 14),
)


def zero_of(value: Expr) -> int:
    """The zero point of an activation, a byte less a number or the byte itself."""
    match value:
        case Binary("sub", _, Const(number)):
            return int(number)
        case Binary("add", _, Const(number)):
            return -int(number)
        case _:
            return 0


def write(window: ByteWindow, form: Form) -> Implementation:
    """The kernel of a contraction."""
    made = _Writer(window, form)
    kernel = made.kernel()
    return Implementation(kernel, made.output.operands(lambda _, array: array), form.family)


class _Writer:
    def __init__(self, window: ByteWindow, form: Form) -> None:
        self.window, self.form = window, form
        self.found, self.task = window.found, window.found.task
        self.lines = Lines(window)
        self.zero = zero_of(self.found.inside)
        weights = window.ordered(self.found.weights.astype(np.int64))
        self.output = IntegerOutput(
            self.found, self.found.bias - self.zero * weights.sum((1, 2, 3))
        )
        self.rounding = RequantizedRow(self.output, form.bits > 8)
        cut = weights = self.rounding.weights(weights)
        if self.lines.long:
            cut = weights.reshape(*weights.shape[:2], 1, -1)
        self.run = cut.shape[-1]
        patch = Patch(window, self.lines, form.positions, self.run, self.zero)
        # It is written out for each size, which takes more code than it saves time.
        small = self.task.optimize == "size"
        self.patch = patch if not (small or self.flat) and patch.applies else None
        self.fours = -(-self.run // 4)
        padded = np.pad(cut, [*[(0, 0)] * 3, (0, 4 * self.fours - self.run)])
        joined = self.patch.ordered(cut[:, :, 0]) if self.patch else padded.reshape(len(cut), -1, 4)
        self.steps = joined.shape[1]
        weights = _packed(joined, form)
        # Whether the sums become bytes in one go, where they lie, and how those below zero round.
        self.below = narrowed(self.rounding, weights, form.channels, starts=form.starts)
        self.placed = None
        if self.below is None:
            self.output.arrays[WEIGHTS] = weights
        elif self.rounding.whole:
            self.placed = placed(window, form.positions, self.flat)

    # --- loops ----------------------------------------------------------------------------------

    @property
    def flat(self) -> bool:
        """Whether tiles go on from row to row: where rows are not of whole tiles."""
        return bool(self.window.rows) and self.lines.width % self.form.positions > 0

    def kernel(self) -> Kernel:
        """All rows of outputs, each by tiles of positions, or all positions."""
        window, count = self.window, self.form.positions
        rows = [window.rows[1].out] if window.rows else []
        positions = self.lines.width
        if self.flat:
            positions, rows = positions * rows[0].extent, []
        whole, rest = divmod(positions, count)
        body: list[Stmt] = []
        for at, tiles, inside in self.patch.tiles if self.patch else ((0, whole, True),):
            first = plus(times(Var("tile"), count), at) if tiles > 1 else integer(at)
            done = at % count and count - rest
            body.append(for_range("tile", tiles, self.tile(first, done, inside)))
        if rest and not self.patch:
            # The last positions again; only those that are new are stored.
            body += self.tile(integer(positions - count), count - rest)
        source = self.lines.buffer
        inputs = (source if each.name == source.name else each for each in self.output.inputs)
        output = self.placed.buffer if self.placed else self.task.output
        params = (*inputs, *self.output.buffers(), output)
        loops = nested([*window.outer, *rows], tuple(body))
        return simplify_kernel(Kernel(self.task.name, params, loops))

    def tile(self, first: Expr, done: int, inside: bool = True) -> tuple[Stmt, ...]:
        """Outputs of a tile of positions.

        Args:
            first: of these.
            done: how many are done.
            inside: whether it reads only the image's columns, if that is known.
        """
        form = self.form
        spot = Axis("spot", form.positions)
        patch = Buffer(PATCH, _I32, (self.steps, form.positions, 2), Access.LOCAL)
        position = plus(first, Var("spot"))
        row: dict[str, Expr] = {}
        if self.flat and self.window.rows:
            width = integer(self.lines.width)
            row = {self.window.rows[1].out.var: Binary("floordiv", position, width)}
            position = Binary("mod", position, width)
        if self.patch:
            filled = self.patch.filled(patch, first, inside)
        else:
            filled = nested([spot], substitute_stmts(self.filled(position), row))
        if self.placed:
            made = self.bytes(self.placed.window(self.window, first))
            return with_locals((patch,), (*filled, made))
        stored = substitute_stmts(self.stored(position), row)
        if done:
            stored = substitute_stmts(stored, {"spot": plus(Var("spot"), done)})
        stored = nested([Axis("spot", form.positions - done)], stored)
        several = form.positions > 1
        name, dtype = (ACCUMULATOR, _I32) if self.below is None else (ROW, _I8)
        shape = (form.positions, self.channels) if several else (self.channels,)
        sums = Buffer(name, dtype, shape, Access.LOCAL)
        at = Load(name, (integer(0),) * len(shape), dtype)
        made = self.sums(at) if self.below is None else self.bytes(at)
        return with_locals((patch, sums), (*filled, made, *stored))

    @property
    def channels(self) -> int:
        """Of an output."""
        return self.found.channel.extent

    def sums(self, target: Load) -> Stmt:
        """The sums of a tile."""
        form, zero = self.form, integer(0)
        name = member(form.family, self.steps, self.channels // form.channels)
        patch = Load(PATCH, (zero,) * 3, _I32)
        weights = Load(WEIGHTS, (zero,) * self.output.arrays[WEIGHTS].ndim, _I32)
        return Instruct(name, (target, patch, weights, Load("start", (zero,), _I32)))

    def bytes(self, target: Load) -> Stmt:
        """The requantized outputs of a tile."""
        form, zero = self.form, integer(0)
        groups, words = self.output.arrays[STREAM].shape
        sizes = [self.steps, groups, words]
        if form.positions > 1:
            stored = self.placed.buffer.steps[-2] if self.placed else self.channels
            sizes.append(stored)
        if form.written:
            sizes.append(int(self.steps > form.written))
        name = member(form.family.replace("dual", "bytes"), *sizes, self.below or 0)
        patch = Load(PATCH, (zero,) * 3, _I32)
        return Instruct(name, (target, patch, Load(STREAM, (zero, zero), _I32)))

    def stored(self, position: Expr) -> tuple[Stmt, ...]:
        """The outputs of a position."""
        places = {self.window.columns[1].out.var: position} if self.window.columns else {}
        at = (Var("spot"),) if self.form.positions > 1 else ()
        made = self.rounding.stored(at) if self.below is None else self.rounding.finished(at)
        moved = substitute_stmts(made, places)
        return tuple(map(self.lines.changed, moved))

    # --- the patch ------------------------------------------------------------------------------

    def filled(self, position: Expr) -> tuple[Stmt, ...]:
        """What a position reads, put into the patch."""
        rows = self.window.rows[1] if self.window.rows else None
        if rows is None:
            return self.line(None, position, integer(0))
        taps = rows.taps
        tap = Var("tap") if rows.tap else integer(0)
        row = plus(
            Binary("add", times(Var(rows.out.var), rows.stride), times(tap, rows.dilation)),
            -rows.before,
        )
        first = times(tap, self.steps // taps)
        body = self.line(row, position, first)
        if rows.before > 0 or rows.behind > 0:
            outside = self.zeros(first, self.steps // taps)
            body = (If(_within(row, 1, rows.size), body, outside),)
        return nested([Axis("tap", taps)], body) if rows.tap else body

    def line(self, row: Expr | None, position: Expr, first: Expr) -> tuple[Stmt, ...]:
        """What a position reads of a row of the image, from a four of the patch on."""
        across = self.window.columns[1] if self.window.columns else None
        if across is None:
            return (self.spread(row, integer(0), first, self.run),)
        if not self.lines.long:
            return self.taps(row, position, first, across)
        place = self.lines.place(position, 0)
        whole = self.spread(row, place, first, self.run)
        if across.before <= 0 and across.behind <= 0:
            return (whole,)
        inside = _within(place, self.run, self.lines.length)
        if self.lines.depth % 4 == 0:
            return (If(inside, (whole,), self.taps(row, position, first, across)),)
        return (If(inside, (whole,), self.words(row, place, first)),)

    def taps(
        self, row: Expr | None, position: Expr, first: Expr, across: SlidingWindow
    ) -> tuple[Stmt, ...]:
        """The taps of a row one by one."""
        depth = self.lines.depth
        fours = -(-depth // 4)
        at = plus(first, times(Var("point"), fours))
        place = self.lines.place(position, Var("point"))
        body: tuple[Stmt, ...] = (self.spread(row, place, at, depth),)
        if across.before > 0 or across.behind > 0:
            inside = _within(place, depth, self.lines.length)
            body = (If(inside, body, self.zeros(at, fours)),)
        return nested([Axis("point", across.taps)], body)

    def words(self, row: Expr | None, place: Expr, first: Expr) -> tuple[Stmt, ...]:
        """A run, element by element."""

        def element(number: int) -> Expr:
            at = plus(plus(times(Var("chunk"), 4), Var("half")), number)
            column = Binary("add", place, at)
            known = Binary("lt", at, integer(self.run))
            inside = reduce(_both, (known, _within(column, 1, self.lines.length)))
            value = Cast(_I32, self.lines.load(row, column))
            return Select(inside, value, Const(self.zero, _I32))

        low = Binary("and", element(0), _LOW)
        high = Binary("shl", element(2), Const(16, _I32))
        index = _patch(plus(first, Var("chunk")), Var("half"))
        store = Store(PATCH, index, Binary("or", low, high))
        return nested([Axis("chunk", self.fours), Axis("half", 2)], (store,))

    def spread(self, row: Expr | None, place: Expr, first: Expr, count: int) -> Stmt:
        """So many neighbours of a row from a place on."""
        fours, rest = divmod(count, 4)
        name = member("spread", self.form.positions, fours, rest, fours + (rest > 0), count)
        window = Load(PATCH, _patch(first, integer(0)), _I32)
        return Instruct(name, (window, self.lines.load(row, place)))

    def zeros(self, first: Expr, fours: int) -> tuple[Stmt, ...]:
        """So many fours of the zero point."""
        word = Const((self.zero & 65535) | (self.zero << 16), _I32)
        index = _patch(plus(first, Var("chunk")), Var("half"))
        store = Store(PATCH, index, word)
        return nested([Axis("chunk", fours), Axis("half", 2)], (store,))


def _patch(four: Expr, half: Expr) -> tuple[Expr, ...]:
    return four, Var("spot"), half


def _both(lhs: Expr, rhs: Expr) -> Expr:
    return Binary("and", lhs, rhs)


def _within(start: Expr, count: int, size: int) -> Expr:
    """Whether so many places from one on lie in a dimension."""
    low = Binary("le", integer(0), start)
    return _both(low, Binary("lt", plus(start, count - 1), integer(size)))


def _packed(weights: np.ndarray, form: Form) -> np.ndarray:
    """Words of weights ``[channel][four][4]`` in the order in which a family reads them."""
    fours = weights.shape[1]
    if form.bits == 8:
        words = word(weights, 8)[..., None]
    else:
        pairs = np.stack([weights[..., [0, 2]], weights[..., [1, 3]]], axis=2)
        words = word(pairs, 16)
    last = words.shape[2]
    cut = words.reshape(-1, form.channels, fours, last).transpose(0, 2, 1, 3)
    shape: Sequence[int] = (len(cut), fours, form.channels, last)
    kept = [size for place, size in enumerate(shape) if place < 2 or size > 1]
    return np.ascontiguousarray(cut.reshape(kept))


def word(parts: np.ndarray, bits: int) -> np.ndarray:
    """Neighbours in one number of 32 bits, the first one lowest."""
    mask = (1 << bits) - 1
    words = sum((parts[..., at] & mask) << (bits * at) for at in range(parts.shape[-1]))
    return np.asarray(words).astype(np.uint32).view(np.int32)
