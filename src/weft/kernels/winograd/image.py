"""How Winograd convolution transforms its image, a patch for each tile of outputs.

The products and what follows them are in ``weft.kernels.winograd.square``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import compress
from math import prod

from weft.dtypes import DType
from weft.kernels.tiling import blocks_of
from weft.kernels.winograd.convolution import NO_PLACE, Convolution
from weft.kernels.winograd.toom_cook import Filtering, Matrix, straight_line
from weft.kernels.writer import (
    LANE,
    for_lanes,
    for_range,
    integer,
    plus,
    spans,
    times,
    with_locals,
)
from weft.loops.guards import conjunction
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    If,
    Load,
    Local,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import substitute
from weft.records import dataclass

_F32 = DType.F32
_WRITTEN_OUT = 64
"""Of fewer input channels the transforms are written out, with all sums in registers.

A layer of 16 on 4x4 pixels takes half of the time then; layers of 64 to 512 gain 1 to 4 % (Zen 5,
AVX-512), and networks of them would take longer to build: ResNet-18 1.9 times as long.
"""

_MANY = 32
"""Of so many channels, transforms of patches that leave the image are loops where others are not.

InceptionV3 and SqueezeNet, with layers of 32 and 48 channels, run as fast with loops, within 1 %.
"""
_IN_REGISTERS = 6
"""Pixels along a side of the largest tiles that are written out; 81 vectors of 9x9 are too many."""

_FEW = 4
"""Patches that leave the image are few if they are less than such a part of all."""


@dataclass(frozen=True)
class ImageTransform:
    """Writes the transform of the image.

    Attributes:
        conv: the convolution.
        form: of the tiles.
        held: the type of what is transformed.
    """

    conv: Convolution
    form: Filtering
    held: DType

    @property
    def sides(self) -> list[tuple[int, Axis]]:
        """The sides that the window slides along, and the outputs' axes there."""
        axes = (self.conv.rows, self.conv.columns)
        return [(side, axes[side]) for side in range(2 - self.conv.sides, 2)]

    def origin(self, tile: Expr) -> Expr:
        """The first output of a tile along a side."""
        outputs, dilation = self.form.outputs, self.conv.dilation
        if dilation == 1:
            return times(tile, outputs)
        whole = Binary("floordiv", tile, integer(dilation))
        return plus(times(whole, outputs * dilation), Binary("mod", tile, integer(dilation)))

    def last_origin(self, axis: Axis) -> int:
        """The largest of them."""
        span, phases = self.form.outputs * self.conv.dilation, self.conv.dilation
        return (-(-axis.extent // span) - 1) * span + min(phases, axis.extent) - 1

    def analysis(self, row: Expr, column: Expr) -> tuple[Stmt, ...]:
        """Transforms the patch of one tile, all channels, of all frames that the window reaches."""
        frame = self.frame(row, column)
        window = self.conv.depth
        if window is None or window.tap is None:
            return frame
        return (For(window.tap.var, *self.conv.depth_taps(), frame),)

    def frame(self, row: Expr, column: Expr) -> tuple[Stmt, ...]:
        """Transforms the patch of one tile, all channels."""
        stride, reach = self.form.stride, (self.form.size - 1) * self.conv.dilation + 1
        tops = (
            plus(times(row, stride), -self.conv.before[0]),
            plus(times(column, stride), -self.conv.before[1]),
        )
        inside: list[Expr] = []
        for side, axis in self.sides:
            top, before = tops[side], self.conv.before[side]
            extent = self.conv.source.shape[self.conv.places[side]]
            # What no tile can violate is not asked.
            if before > 0:
                inside.append(Binary("ge", top, integer(0)))
            if self.last_origin(axis) * stride - before + reach > extent:
                inside.append(Binary("le", plus(top, reach), integer(extent)))
        plain = self.slices(partial(self.patch, tops, False))
        if not inside:
            return plain
        return (If(conjunction(inside), plain, self.slices(partial(self.patch, tops, True))),)

    def slices(self, body: Callable[[Expr, int], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Loops over the input channels, a vector at a time."""
        target, channels = self.conv.parts.task.target, self.conv.channel.extent
        lanes = target.lanes(_F32)
        # Where wide registers are executed in halves, halves alone take as long, and one text does.
        blocks = blocks_of(
            channels, lanes if channels % lanes == 0 else target.lanes_at_once(_F32), 1
        )
        return tuple(spans(blocks, lambda _, width, first: body(first, width), var="slice"))

    def patch(
        self, tops: tuple[Expr, Expr], checked: bool, first: Expr, width: int
    ) -> tuple[Stmt, ...]:
        """``data[.][patch][first ...] = B^T patch B``."""
        size, window = self.form.size, self.conv.depth
        channel = step = plus(first, Var(LANE))
        if self.conv.sides == 1:
            return self.run(tops[1], checked, channel, width)
        if window and window.tap:
            step = plus(times(Var(window.tap.var), self.conv.channel.extent), channel)

        def read(column: Expr, row: int, held: int) -> tuple[Stmt, ...]:
            at = (
                plus(tops[0], row * self.conv.dilation),
                plus(tops[1], times(column, self.conv.dilation)),
            )
            inside = self.leaving(tops, (integer(row), column), checked)
            return self.element(at, channel, width, held, inside)

        def keep(column: Expr, row: int, value: Expr) -> Stmt:
            return Store("half", (column, integer(row), Var(LANE)), value)

        def again(row: Expr, column: int, held: int) -> tuple[Stmt, ...]:
            value = Load("half", (integer(column), row, Var(LANE)), _F32)
            return (for_lanes(width, Store("line", (integer(held), Var(LANE)), value)),)

        def put(row: Expr, column: int, value: Expr) -> Stmt:
            kept = value if self.held is _F32 else Cast(self.held, value)
            return Store("data", (plus(times(row, size), column), Var("patch"), step), kept)

        half = Buffer("half", _F32, (size, size, width), Access.LOCAL)
        matrix = self.form.data
        line = self.conv.parts.task.target.line
        near = checked or not self.far or width * _F32.bytes != line

        def first_of(column: Expr) -> tuple[Stmt, ...]:
            ahead = () if near else self.next_patch(tops, column, channel)
            return (*ahead, *apply(matrix, width, partial(read, column), partial(keep, column)))

        def second_of(row: Expr) -> tuple[Stmt, ...]:
            return apply(matrix, width, partial(again, row), partial(put, row))

        out = self.written_out and not (checked and self.loops_at_borders)
        stages = (*self.lines("column", first_of, out), *self.lines("row", second_of, out))
        return (Local(half, stages),)

    def run(self, top: Expr, checked: bool, channel: Expr, width: int) -> tuple[Stmt, ...]:
        """``data[.][patch][channel ...] = B^T run``, of a window along one axis."""

        def read(place: int, held: int) -> tuple[Stmt, ...]:
            at = (integer(0), plus(top, place * self.conv.dilation))
            tops, element = (integer(0), top), (integer(0), integer(place))
            return self.element(at, channel, width, held, self.leaving(tops, element, checked))

        def put(point: int, value: Expr) -> Stmt:
            kept = value if self.held is _F32 else Cast(self.held, value)
            return Store("data", (integer(point), Var("patch"), channel), kept)

        return apply(self.form.data, width, read, put)

    def element(
        self, at: tuple[Expr, Expr], channel: Expr, width: int, place: int, inside: Sequence[Expr]
    ) -> tuple[Stmt, ...]:
        """Fills an element of ``line`` from the image; zeros where it does not lie inside."""
        index, pixel = (integer(place), Var(LANE)), self.pixel(at, channel)
        load = for_lanes(width, Store("line", index, as_f32(pixel)))
        if not inside:
            return (load,)
        zero = for_lanes(width, Store("line", index, Const(0.0, _F32)))
        return (If(conjunction(inside), (load,), (zero,)),)

    @property
    def written_out(self) -> bool:
        """Whether transforms are written out, with all sums in registers."""
        return self.conv.channel.extent < _WRITTEN_OUT and self.form.size <= _IN_REGISTERS

    @property
    def loops_at_borders(self) -> bool:
        """Whether patches that leave the image are loops over their lines where others are not."""
        return self.conv.channel.extent >= _MANY or self.mostly_inside

    @property
    def mostly_inside(self) -> bool:
        """Whether so few patches leave the image that loops over their lines do."""
        inside = total = 1
        for side, axis in self.sides:
            before, extent = self.conv.before[side], self.conv.source.shape[self.conv.places[side]]
            step = self.form.outputs * self.form.stride
            tops = [tile * step - before for tile in range(-(-axis.extent // self.form.outputs))]
            inside *= sum(0 <= top <= extent - self.form.size for top in tops)
            total *= len(tops)
        return self.conv.dilation == 1 and _FEW * (total - inside) < total

    def lines(
        self, name: str, body: Callable[[Expr], tuple[Stmt, ...]], written_out: bool
    ) -> tuple[Stmt, ...]:
        """What is done to all rows, or columns, of a tile: written out, or as a loop."""
        size = self.form.size
        if not written_out:
            return (for_range(name, size, body(Var(name))),)
        return tuple(stmt for each in range(size) for stmt in body(integer(each)))

    def leaving(
        self, tops: tuple[Expr, Expr], place: tuple[Expr, Expr], checked: bool
    ) -> tuple[Expr, ...]:
        """What must hold for an element of a patch to lie in the image, unless it always does."""
        conv, found = self.conv, list[Expr]()
        if not checked:
            return ()
        for side, axis in self.sides:
            each, before = place[side], conv.before[side]
            least, most = (
                (int(each.value),) * 2 if isinstance(each, Const) else (0, self.form.size - 1)
            )
            at = plus(tops[side], times(each, conv.dilation))
            extent = conv.source.shape[conv.places[side]]
            if least * conv.dilation < before:
                found.append(Binary("ge", at, integer(0)))
            last = self.last_origin(axis) * self.form.stride - before
            if last + most * conv.dilation >= extent:
                found.append(Binary("lt", at, integer(extent)))
        return tuple(found)

    @property
    def far(self) -> bool:
        """Whether the image comes from beyond a core's own caches."""
        caches = self.conv.parts.task.target.caches
        source = self.conv.source
        return bool(caches) and source.dtype.bytes * prod(source.shape) > caches[-1] // 2

    def next_patch(self, tops: tuple[Expr, Expr], column: Expr, channel: Expr) -> Iterator[Stmt]:
        """Hints for a column of the tile to the right: processors follow no such short rows."""
        dilation = self.conv.dilation
        step = 1 if dilation > 1 else self.form.outputs * self.form.stride
        last = integer(self.conv.source.shape[self.conv.places[1]] - 1)
        across = Binary("min", plus(tops[1], plus(times(column, dilation), step)), last)
        at = substitute(channel, {LANE: integer(0)})
        for row in range(self.form.size):
            pixel = self.pixel((plus(tops[0], row * dilation), across), at)
            yield Prefetch(pixel.buffer, pixel.index)

    def pixel(self, at: tuple[Expr, Expr], channel: Expr) -> Load:
        """An element of the input."""
        index = list(self.conv.image.index)
        for place, part in zip(self.conv.places, (*at, channel), strict=True):
            if place != NO_PLACE:
                index[place] = part
        return replace(self.conv.image, index=tuple(index))


def apply(
    matrix: Matrix,
    width: int,
    read: Callable[[int, int], tuple[Stmt, ...]],
    put: Callable[[int, Expr], Stmt],
    count: int | None = None,
) -> tuple[Stmt, ...]:
    """``put(row, sum of matrix[row] * line)`` for all rows, or the first ``count``.

    ``read(column, place)`` fills an element of ``line`` with what a column of the matrix takes;
    columns that these rows do not need are not read.  The sums of the first rows are what they
    are among all of them.
    """
    program = straight_line(matrix)
    used = program.used(count)
    columns = [column for column in range(program.inputs) if column in used]
    taken = {column: place for place, column in enumerate(columns)}
    line = Buffer("line", _F32, (len(taken), width), Access.LOCAL)
    body = [stmt for column, place in taken.items() for stmt in read(column, place)]
    shared = [f"pair{number}" for number in range(len(program.shared))]
    needed = [number + program.inputs in used for number in range(len(program.shared))]

    def value(number: int) -> Expr:
        if number < program.inputs:
            return Load("line", (integer(taken[number]), Var(LANE)), _F32)
        return Load(shared[number - program.inputs], (Var(LANE),), _F32)

    def total(terms: Sequence[tuple[int, Fraction]]) -> Expr:
        found = scaled(value(terms[0][0]), terms[0][1])
        for number, coefficient in terms[1:]:
            operator = "sub" if coefficient < 0 else "add"
            found = Binary(operator, found, scaled(value(number), abs(coefficient)))
        return found

    for name, each in compress(zip(shared, program.shared, strict=True), needed):
        body.append(for_lanes(width, Store(name, (Var(LANE),), total(each.terms))))
    for row, each in enumerate(program.outputs[:count]):
        store = put(row, total(each.terms))
        body.append(for_lanes(width, store))
    pairs = [Buffer(name, _F32, (width,), Access.LOCAL) for name in compress(shared, needed)]
    return with_locals([line, *pairs], tuple(body))


def as_f32(load: Load) -> Expr:
    """What is loaded, in single precision."""
    return load if load.dtype is _F32 else Cast(_F32, load)


def scaled(value: Expr, factor: Fraction) -> Expr:
    """``factor * value``."""
    return value if factor == 1 else Binary("mul", Const(float(factor), _F32), value)
