"""How Winograd convolution along rows transforms its image: vectors lie along whole rows.

The products and what follows them are in ``weft.kernels.winograd.along_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from weft.dtypes import DType
from weft.kernels.contraction import SlidingWindow
from weft.kernels.products.pairs import PAIR
from weft.kernels.row_copies import joined, side_by_side
from weft.kernels.tiling import blocks_of
from weft.kernels.winograd.convolution import Convolution
from weft.kernels.winograd.image import apply
from weft.kernels.winograd.toom_cook import Filtering
from weft.kernels.writer import LANE, for_lanes, for_range, integer, plus, spans, times
from weft.loops.guards import conjunction
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    If,
    Load,
    Local,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import loads
from weft.records import dataclass

_F32 = DType.F32
LINE = "row"
"""The variable that counts runs of neighbouring elements of a row."""


@dataclass(frozen=True)
class RowsOfImage:
    """How the elements of a row lie: columns of channels, or channels of columns.

    Attributes:
        conv: the convolution.
        source: the image, columns and channels joined if they lie side by side.
        index: where it is read; the row is at ``row``, the columns at ``column``.
        across: how outputs move along the columns.
        interleaved: whether columns and channels are joined.
    """

    conv: Convolution
    source: Buffer
    index: tuple[Expr, ...]
    row: int
    column: int
    across: SlidingWindow
    interleaved: bool

    @property
    def channels(self) -> int:
        """Of an input pixel."""
        return self.conv.channel.extent

    @property
    def width(self) -> int:
        """Columns that outputs read, those beyond the borders as well."""
        return self.across.reach(self.across.out.extent)

    @property
    def factor(self) -> int:
        """Elements from one column to the next."""
        return self.channels if self.interleaved else 1

    @property
    def lines(self) -> int:
        """Runs of neighbouring elements that a row has."""
        return 1 if self.interleaved else self.channels

    @property
    def length(self) -> int:
        """Elements of a run."""
        return self.width * self.factor

    @property
    def taps(self) -> int:
        """Elements of a run that an output reads side by side."""
        return self.conv.size * self.factor

    @property
    def kept(self) -> tuple[int, int]:
        """Where elements of the image begin and end in a run; the others are zero."""
        first = min(self.across.before, self.width)
        last = min(self.across.before + self.across.size, self.width)
        return first * self.factor, max(first, last) * self.factor

    def read(self, row: Expr, line: Expr, element: Expr) -> Load:
        """An element of the image, counted from the first that is kept."""
        index = list(self.index)
        index[self.row] = row
        index[self.column] = element
        if not self.interleaved:
            index[self.conv.places[2]] = line
        return replace(self.conv.image, index=tuple(index))


def rows_of_image(conv: Convolution) -> RowsOfImage | None:
    """How the rows of a convolution's image lie; none where no vector lies along them."""
    row, column, channel = conv.places
    windows, source = conv.parts.windows_of(conv.image), conv.source
    across = windows[column]
    if across is None or conv.sides == 1 or conv.depth or conv.dilation > 1:
        return None
    if conv.image.dtype is not _F32 or conv.group:
        return None
    index = conv.image.index
    if source.steps[column] == 1 and conv.channel.extent > 1:
        return RowsOfImage(conv, source, index, row, column, across, False)
    sides = [(at, Axis("", source.shape[at])) for at in (column, channel)]
    read = [each for each in loads(conv.parts.task.compute.value) if each.buffer == source.name]
    if len(set(read)) > 1 or not side_by_side(source, sides):
        return None
    if source.shape[channel] != conv.channel.extent:
        return None
    wide, outer = joined(source, (column, channel))
    index = (*(index[at] for at in outer), integer(0))
    return RowsOfImage(conv, wide, index, outer.index(row), len(outer), across, True)


@dataclass(frozen=True)
class RowTransform:
    """Writes the points of the rows that a strip of outputs reads.

    Attributes:
        image: whose rows they are.
        form: of the strips.
        depth: points that lie side by side.
        lanes: elements of a vector.
    """

    image: RowsOfImage
    form: Filtering
    depth: int
    lanes: int

    @property
    def data(self) -> Buffer:
        """The transformed rows of a strip, with points side by side if a group wants them so."""
        image, depth = self.image, self.depth
        length = (self.lead + image.length) * depth
        shape = (self.form.size // depth, image.lines, -(-length // self.lanes) * self.lanes)
        return Buffer("data", _F32, shape, Access.LOCAL)

    @property
    def lead(self) -> int:
        """Elements before a run, so that vectors of the image begin with a line of the cache."""
        return -self.image.kept[0] % (self.lanes // self.depth)

    def statements(self, first: Expr) -> tuple[Stmt, ...]:
        """Fills ``data`` for the strip that begins with an output row."""
        return (*self._zeros(), self._rows(first))

    def _zeros(self) -> Iterator[Stmt]:
        """Clears what lies beyond the borders."""
        first, last = self.image.kept
        for start, count in ((0, first), (last, self.image.length - last)):
            if count:
                start += self.lead
                at = (Var("point"), Var(LINE), plus(Var("rest"), start * self.depth))
                body: tuple[Stmt, ...] = (Store("data", at, Const(0.0, _F32)),)
                body = (for_range("rest", count * self.depth, body),)
                body = (for_range(LINE, self.image.lines, body),)
                yield for_range("point", self.form.size // self.depth, body)

    def _rows(self, first: Expr) -> Stmt:
        """The points of all elements of the rows that a strip reads."""
        form, before = self.form, self.image.conv.before[0]
        top = plus(times(first, form.stride), -before)
        extent, inside = self.image.source.shape[self.image.row], list[Expr]()
        if before > 0:
            inside.append(Binary("ge", top, integer(0)))
        strips = -(-self.image.conv.rows.extent // form.outputs)
        if (strips - 1) * form.outputs * form.stride - before + form.size > extent:
            inside.append(Binary("le", plus(top, form.size), integer(extent)))
        plain = for_range(LINE, self.image.lines, self._elements(top, checked=False))
        if not inside:
            return plain
        checked = for_range(LINE, self.image.lines, self._elements(top, checked=True))
        return If(conjunction(inside), (plain,), (checked,))

    def _elements(self, top: Expr, *, checked: bool) -> tuple[Stmt, ...]:
        """Loops over the elements of a run, a vector at a time."""
        start, stop = self.image.kept
        first = start + self.lead

        def body(_: int, width: int, at: Expr) -> Sequence[Stmt]:
            read = partial(self._read, top, checked, at, width)
            if self.depth == 1:
                return apply(self.form.data, width, read, partial(self._put, plus(at, first)))
            mixed = Buffer("mixed", _F32, (self.form.size, width), Access.LOCAL)
            points = apply(self.form.data, width, read, _mix)
            return (Local(mixed, (*points, *self._woven(plus(at, first), width))),)

        return tuple(spans(blocks_of(stop - start, self.lanes, 1), body, var="slice"))

    def _read(
        self, top: Expr, checked: bool, at: Expr, width: int, row: int, held: int
    ) -> tuple[Stmt, ...]:
        """Elements of one row of the image; beyond its borders, zeros."""
        place, extent = plus(top, row), self.image.source.shape[self.image.row]
        value = self.image.read(place, Var(LINE), plus(at, Var(LANE)))
        load = for_lanes(width, Store("line", (integer(held), Var(LANE)), value))
        if not checked:
            return (load,)
        zero = Store("line", (integer(held), Var(LANE)), Const(0.0, _F32))
        lies = (Binary("ge", place, integer(0)), Binary("lt", place, integer(extent)))
        return (If(conjunction(lies), (load,), (for_lanes(width, zero),)),)

    def _put(self, at: Expr, point: int, value: Expr) -> Stmt:
        """Stores elements of a point."""
        return Store("data", (integer(point), Var(LINE), plus(at, Var(LANE))), value)

    def _woven(self, at: Expr, width: int) -> Iterator[Stmt]:
        """Stores elements of pairs of points in turn."""
        for pair in range(self.form.size // PAIR):
            for half in range(PAIR):
                lane = plus(Var(LANE), half * width)
                place = Binary("floordiv", lane, integer(PAIR))
                sides = [
                    Load("mixed", (integer(PAIR * pair + odd), place), _F32) for odd in range(PAIR)
                ]
                even = Binary("eq", Binary("mod", lane, integer(PAIR)), integer(0))
                index = (integer(pair), Var(LINE), plus(times(at, PAIR), lane))
                yield for_lanes(width, Store("data", index, Select(even, *sides)))


def _mix(point: int, value: Expr) -> Stmt:
    return Store("mixed", (integer(point), Var(LANE)), value)
