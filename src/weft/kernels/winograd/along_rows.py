"""Winograd convolution along the rows alone: for images of few channels.

Some rows of outputs at a time are computed from points of the rows that they read; along the
columns the window is summed as it is::

    for strip of rows:                                                       (parallel)
      for elements of a row, columns and channels alike:
        data[point][element] = B^T rows
      for group of output channels, tile of columns:
        for points that all outputs take alike:
          product[points][column][lane] = sum over points, columns and channels of data * filter
        for column:
          out = epilogue(A^T product)

``F(4, 3)`` takes half of the multiplications of the direct sum, where tiles of two dimensions
take a quarter.  But its first transform is nothing, for vectors lie along whole rows and not
along the few channels, and its last is half of theirs.  Where outputs are two steps apart, both
phases of the inputs have points in common, of which one product is the sum: ``F(4, 5)`` by steps
of two has 11 points and 6 products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.products.microkernel import Microkernel
from weft.kernels.products.pairs import PAIR
from weft.kernels.tiling import LaneBlock, blocks_of, even_tiles, tile_shape, whole_vectors
from weft.kernels.winograd.along_rows_image import LINE, RowsOfImage, RowTransform
from weft.kernels.winograd.convolution import Convolution
from weft.kernels.winograd.image import apply
from weft.kernels.winograd.outputs import ended, pooled
from weft.kernels.winograd.pooling import Pooling
from weft.kernels.winograd.toom_cook import Filtering, Matrix
from weft.kernels.writer import (
    LANE,
    for_lanes,
    for_range,
    integer,
    nested,
    plus,
    times,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    For,
    If,
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
from weft.plan.implementation import FilterTransform, Implementation, Operand, Packing
from weft.records import dataclass

_F32 = DType.F32
_STRIP, _TAP, _ODD, _LIKE = "block", "tap", "share", "part"
_SIDES = "near", "next"


@dataclass
class _Writer:
    """Writes the loops for strips of so many rows."""

    image: RowsOfImage
    form: Filtering
    pool: Pooling | None = None

    def __post_init__(self) -> None:
        self.conv = self.image.conv
        self.sides = self.pool.sides if self.pool else (1, 1)
        self.parts = self.conv.parts
        task = self.parts.task
        self.lanes = task.target.lanes(_F32)
        self.groups = groups_of(self.conv, self.form)
        self.depth = max(group.depth for group in self.groups)
        self.added, self.inverse = sums_of(self.form, self.depth)
        self.transform = RowTransform(self.image, self.form, self.depth, self.lanes)
        self.params = [
            self.image.source if each.name == self.image.source.name else each
            for each in task.inputs
            if each.name != self.parts.weight
        ]
        self.operands = [Operand(task.value_of(buffer.name)) for buffer in self.params]

    def kernel(self) -> Kernel:
        """The kernel, its filters packed."""
        lanes, outputs = self.parts.lanes, self.form.outputs
        assert lanes is not None
        names = [self.pack(group, number) for number, group in enumerate(self.groups)]
        first = times(Var(_STRIP), outputs)
        body = [*self.transform.statements(first)]
        for group, name in zip(self.groups, names, strict=True):
            body += self.group(group, name, first)
        strips = -(-self.conv.rows.extent // outputs)
        loop = for_range(
            _STRIP, strips, (Local(self.transform.data, tuple(body)),), LoopKind.PARALLEL
        )
        found = nested(self.conv.outer, (loop,), LoopKind.PARALLEL)
        task = self.pool.task if self.pool else self.parts.task
        params = (*self.params, task.output)
        return simplify_kernel(Kernel(self.parts.task.name, params, found))

    def pack(self, group: LaneBlock, number: int) -> str:
        """The parameter that holds the transformed filters of a group of output channels."""
        conv, weight = self.conv, str(self.parts.weight)
        name = f"{weight}_{number}" if number else weight
        lane = next(a for a in range(len(conv.filter.shape)) if a not in conv.taps)
        matrix = tuple(tuple(float(value) for value in row) for row in self.form.filter)
        down, across, channels = conv.taps
        order = (down, across, channels) if self.image.interleaved else (down, channels, across)
        width, depth = group.width // group.depth, group.depth
        packing = Packing(conv.filter.shape, lane, order, group.start, group.count, width)
        steps = self.image.lines * self.image.taps
        shape = (group.count, self.form.size // depth, steps, group.width)
        self.params.append(Buffer(name, conv.filter.dtype, shape))
        transform = FilterTransform(packing, matrix, False, depth)
        self.operands.append(Operand(self.parts.task.value_of(weight), transform))
        return name

    # --- products -----------------------------------------------------------------------

    def group(self, group: LaneBlock, name: str, first: Expr) -> Iterator[Stmt]:
        """The outputs of a strip for one or several groups of channels."""
        counter: Expr = Var("group") if group.count > 1 else integer(0)
        channel = plus(times(counter, group.width // group.depth), group.start)
        columns = self.conv.columns.extent
        alone = self.product_parts(replace(group, depth=1), columns, integer(0))
        positions, _ = tile_shape(alone, self.lanes)
        across = self.sides[1]
        body: list[Stmt] = []
        for tile in even_tiles(columns // across, max(1, positions // across)):
            tile = replace(tile, start=tile.start * across, size=tile.size * across)
            begin: Expr = integer(tile.start)
            if tile.count > 1:
                begin = plus(times(Var("tile"), tile.size), tile.start)
            inner = self.tile(group, name, tile.size, (first, begin, channel))
            body += inner if tile.count == 1 else (for_range("tile", tile.count, inner),)
        yield from (for_range("group", group.count, tuple(body)),) if group.count > 1 else body

    def product(self, group: LaneBlock, size: int) -> Buffer:
        """The products of so many columns."""
        points = len(self.added) // self.depth
        return Buffer(
            "product", _F32, (points, self.depth // group.depth, size, group.width), Access.LOCAL
        )

    def product_parts(
        self, group: LaneBlock, size: int, begin: Expr, first: int = 0
    ) -> Contraction:
        """``product[point][odd][column][lane]``, taken apart.

        Args:
            group: of output channels.
            size: columns.
            begin: the first of them.
            first: of the products that are sums over as many points as this one.
        """
        conv, image, depth = self.conv, self.image, self.depth
        points, odds, _, width = (output := self.product(group, size)).shape
        like = len(self.added[first])
        place = plus(times(Var("point"), like), self.added[first].start - first * like)
        place = plus(place, Var(_LIKE)) if like > 1 else place
        odd = Var(_ODD) if group.depth == 1 else Binary("mod", Var("wide"), integer(depth))
        column = plus(
            times(plus(begin, Var("spot")), conv.stride * image.factor), self.transform.lead
        )
        element = plus(times(plus(column, Var(_TAP)), depth), odd)
        step = plus(times(Var(LINE), image.taps), Var(_TAP))
        point = plus(times(place, odds), Var(_ODD))
        data = Load("data", (place, Var(LINE), element), _F32)
        factor = Load("filter", (point, step, Var("wide")), _F32)
        value = Binary("mul", data, factor)
        axes = (Axis(LINE, image.lines), Axis(_TAP, image.taps))
        reduce = Reduce("sum", (*(Axis(_LIKE, like),) * (like > 1), *axes), value)
        count = self.form.size // depth * odds
        weight = Buffer("filter", _F32, (count, image.lines * image.taps, width))
        spot, lane = Axis("spot", size), Axis("wide", width)
        compute = Compute((Axis("point", points), Axis(_ODD, odds), spot, lane), reduce)
        task = replace(
            self.parts.task, compute=compute, inputs=(self.transform.data, weight), output=output
        )
        return Contraction(task, reduce, value, (), lane, spot, (), "filter")

    def tile(
        self, group: LaneBlock, name: str, size: int, at: tuple[Expr, Expr, Expr]
    ) -> tuple[Stmt, ...]:
        """The outputs of a tile of columns: the points of all of them, and then their sums."""
        counter: Expr = Var("group") if group.count > 1 else integer(0)
        whole = LaneBlock(0, 1, group.widths)
        body: list[Stmt] = []
        counts = Counter(map(len, self.added)) if self.depth == 1 else {1: self.form.size}
        first = 0
        for count in counts.values():
            parts = self.product_parts(group, size, at[1], first)
            cell = Microkernel(parts, whole, integer(0), counter, name, integer(0), size)
            points, odds, *_ = parts.task.compute.axes
            inner, stop = nested((odds,), cell.statements()), first + count // self.depth
            body.append(For(points.var, integer(first), integer(stop), inner))
            first = stop
        return (Local(self.product(group, size), (*body, *self.synthesis(group, at, size))),)

    # --- outputs ------------------------------------------------------------------------

    def synthesis(self, group: LaneBlock, at: tuple[Expr, Expr, Expr], size: int) -> Iterator[Stmt]:
        """``out = epilogue(A^T product)`` for a tile of columns."""
        if group.depth == 1:
            yield for_range("spot", size // self.sides[1], tuple(self.sums(group, at)))
            return
        whole, rest = divmod(size, PAIR)
        for count, first, columns in ((whole, times(Var("spot"), PAIR), PAIR), (rest, size - 1, 1)):
            if count:
                spot = integer(first) if isinstance(first, int) else first
                yield for_range(
                    "spot",
                    count,
                    self.all_rows(at[0], partial(self.pair, group, at, spot, columns)),
                )

    def all_rows(self, row: Expr, write: Callable[[int], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """``write(count)`` for all rows of a strip, or as many as the last one has."""
        rows, outputs = self.conv.rows.extent, self.form.outputs
        if not rows % outputs:
            return write(outputs)
        inside = Binary("le", plus(row, outputs), integer(rows))
        return (If(inside, write(outputs), write(rows % outputs)),)

    def sums(self, group: LaneBlock, at: tuple[Expr, Expr, Expr]) -> Iterator[Stmt]:
        """The outputs of a column, all lanes of a group."""
        row, column, channel = at
        spot = times(Var("spot"), self.sides[1])
        left = self.parts.lane_extent - group.start
        for _, offset, width in group.pieces():
            kept = min(width, left - offset) if group.count == 1 else width
            for block in blocks_of(kept, self.lanes, 1):
                for _, inner, lanes in block.pieces():
                    first = block.start + inner + offset
                    place = (row, plus(column, spot), plus(channel, first))
                    write = partial(self.column, first, lanes, spot, place)
                    yield from self.all_rows(row, write)

    def column(
        self, first: int, width: int, spot: Expr, place: tuple[Expr, Expr, Expr], count: int
    ) -> tuple[Stmt, ...]:
        """So many outputs of a column, or of those of a window, a vector of their channels."""

        def read(beside: int, point: int, held: int) -> tuple[Stmt, ...]:
            pair, odd = divmod(point, self.depth)
            index = (integer(pair), integer(odd), plus(spot, beside), plus(Var(LANE), first))
            value = Load("product", index, _F32)
            return (for_lanes(width, Store("line", (integer(held), Var(LANE)), value)),)

        def hold(beside: int, number: int, value: Expr) -> Stmt:
            return Store("whole", (integer(number), integer(beside), Var(LANE)), value)

        def kept(number: int, beside: int) -> Expr:
            return Load("whole", (integer(number), integer(beside), Var(LANE)), _F32)

        matrix, across = self.inverse, self.sides[1]
        if self.pool is None:
            return apply(matrix, width, partial(read, 0), partial(self.output, place), count)
        body = [
            stmt
            for each in range(across)
            for stmt in apply(matrix, width, partial(read, each), partial(hold, each), count)
        ]
        whole = Buffer("whole", _F32, (count, across, width), Access.LOCAL)
        return (Local(whole, (*body, *self.windows(width, place, count, kept))),)

    def windows(
        self,
        width: int,
        place: tuple[Expr, Expr, Expr],
        count: int,
        held: Callable[[int, int], Expr],
    ) -> Iterator[Stmt]:
        """Stores the maxima of windows one below the other, of so many rows of outputs."""
        pool, down = self.pool, self.sides[0]
        assert pool is not None
        row, column, channel = place
        for turn in range(count // down):

            def value(row_of: int, column_of: int, first: int = turn * down) -> Expr:
                inside = (plus(row, first + row_of), plus(column, column_of), channel)
                return ended(self.conv, inside, held(first + row_of, column_of))[1]

            window = (plus(pool.origin(row, 0), turn), pool.origin(column, 1), channel)
            yield from pooled(self.conv, pool, window, width, value)

    def output(self, place: tuple[Expr, Expr, Expr], number: int, value: Expr) -> Stmt:
        """Stores a sum of a row of the strip, with its epilogue."""
        row, column, channel = place
        return Store("out", *ended(self.conv, (plus(row, number), column, channel), value))

    def pair(
        self, group: LaneBlock, at: tuple[Expr, Expr, Expr], spot: Expr, columns: int, count: int
    ) -> tuple[Stmt, ...]:
        """So many outputs of two columns, or one: of vectors that hold pairs of points."""
        lanes, points = self.lanes, self.form.size
        row, column, channel = at
        held = [Buffer(name, _F32, (points // PAIR, lanes), Access.LOCAL) for name in _SIDES]
        body: list[Stmt] = []
        for side, name in enumerate(_SIDES):
            for number in range(points // PAIR):
                index = (integer(number), integer(0), plus(spot, min(side, columns - 1)), Var(LANE))
                value = Load("product", index, _F32)
                body.append(for_lanes(lanes, Store(name, (integer(number), Var(LANE)), value)))

        def read(point: int, held: int) -> tuple[Stmt, ...]:
            number, odd = divmod(point, PAIR)
            lane = plus(Binary("mod", times(Var(LANE), PAIR), integer(lanes)), odd)
            sides = [Load(name, (integer(number), lane), _F32) for name in _SIDES]
            low = Binary("lt", Var(LANE), integer(lanes // PAIR))
            value = Select(low, *sides)
            return (for_lanes(lanes, Store("line", (integer(held), Var(LANE)), value)),)

        def keep(number: int, value: Expr) -> Stmt:
            return Store("whole", (integer(number), Var(LANE)), value)

        body += apply(self.inverse, lanes, read, keep, count)
        whole = Buffer("whole", _F32, (count, lanes), Access.LOCAL)

        def held_at(first: int, side: int, number: int, beside: int) -> Expr:
            lane = plus(Var(LANE), (side + beside) * lanes // PAIR + first)
            return Load("whole", (integer(number), lane), _F32)

        for block in blocks_of(self.parts.lane_extent - group.start, lanes, 1):
            for _, first, width in block.pieces():
                for side in range(0, columns, self.sides[1]):
                    place = (row, plus(plus(column, spot), side), plus(channel, first))
                    body += self.kept(width, place, count, partial(held_at, first, side))
        return with_locals([*held, whole], tuple(body))

    def kept(
        self,
        width: int,
        place: tuple[Expr, Expr, Expr],
        count: int,
        value: Callable[[int, int], Expr],
    ) -> Iterator[Stmt]:
        """Stores the outputs of a column, or the maxima of the windows that begin there."""
        if self.pool is not None:
            yield from self.windows(width, place, count, value)
            return
        for number in range(count):
            yield for_lanes(width, self.output(place, number, value(number, 0)))


def groups_of(conv: Convolution, form: Filtering) -> list[LaneBlock]:
    """The output channels, a group of vectors at a time.

    The last ones, if they fill half of a vector, hold two points in each, unless half of one
    takes half of the time, anyway.
    """
    target, extent = conv.parts.task.target, conv.parts.lane_extent
    lanes = target.lanes(_F32)
    rest = extent % lanes
    pairs = target.flavour == "gnu" and form.size % PAIR == 0 and 0 < PAIR * rest <= lanes
    pairs = pairs and PAIR * target.whole(rest, _F32) > 1
    full = extent - rest if pairs else extent
    groups = blocks_of(full, lanes, min(2, -(-full // lanes))) if full else []
    last = [LaneBlock(full, 1, (lanes,), PAIR)] if pairs else []
    return whole_vectors(groups, lanes, target.lanes_at_once(_F32)) + last


def sums_of(form: Filtering, depth: int) -> tuple[tuple[range, ...], Matrix]:
    """The points that are added up before the last transform, and its matrix.

    Args:
        form: of the strips.
        depth: points side by side in a vector; where there are several, each stays alone.
    """
    if depth > 1:
        return tuple(range(point, point + 1) for point in range(form.size)), form.inverse
    return form.alike, form.gathered


def write(image: RowsOfImage, form: Filtering, pool: Pooling | None = None) -> Implementation:
    """The kernel of a convolution, so many rows of outputs at a time, and of pooling after it."""
    if pool:
        image = replace(image, conv=pool.trimmed(image.conv))
    writer = _Writer(image, form, pool)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), f"winograd-f{form.outputs}x1")
