"""Hints for what the next row of tiles reads of an image whose channels lie apart.

A window over such an image reads as many short streams as it has rows and channels, more
than processors follow by themselves: a caller's image comes from memory, and nearly every
line of it was waited for.  So each tile asks for the lines that the tile below it will be the
first to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from weft.kernels.contraction import Contraction
from weft.kernels.writer import integer, plus
from weft.loops.affine import AffineForm, affine
from weft.loops.nodes import Axis, Binary, Buffer, Expr, For, Load, LoopKind, Prefetch, Stmt, Var
from weft.loops.walk import free_vars, loads, substitute
from weft.records import dataclass


@dataclass(frozen=True)
class _Image:
    """An operand that tiles read by rows.

    Attributes:
        load: its only load; buffer: what is loaded from.
        row: the output axis of rows; rows: the dimension that it moves along.
        step: rows from one row of tiles to the next.
        taps: of the window that lie along the rows, none if ``tap`` is empty.
        column: the dimension along the tile; stride: elements from one position to the next.
    """

    load: Load
    buffer: Buffer
    row: Axis
    rows: int
    step: int
    tap: str
    taps: range
    column: int
    stride: int


def next_rows(parts: Contraction, origin: Expr | None, size: int, vectors: int) -> tuple[Stmt, ...]:
    """Hints for the tile below one of so many positions and vectors."""
    if origin is None or parts.tile is None or not parts.task.target.caches:
        return ()
    image = _image(parts)
    if image is None:
        return ()
    target = parts.task.target
    width = target.line // image.load.dtype.bytes
    offsets = range(0, image.stride * size, width)
    loops = list(_loops(parts, image))
    count = len(offsets) * prod(len(taps) for _, taps in loops)
    # A tile must take long enough for every line that is asked for.
    if target.costs.prefetch * count > _steps(parts) * size * vectors / target.multiply_adds:
        return ()
    body = tuple(_hint(parts, image, origin, offset) for offset in offsets)
    for name, taps in reversed(loops):
        body = (For(name, integer(taps.start), integer(taps.stop), body, LoopKind.SERIAL),)
    return body


def _steps(parts: Contraction) -> int:
    assert parts.reduce is not None
    return prod(axis.extent for axis in parts.reduce.axes)


def _image(parts: Contraction) -> _Image | None:
    """The image, if one is read by a window whose rows and channels are streams apart."""
    if parts.reduce is None or parts.value is None or parts.lanes is None or parts.tile is None:
        return None
    found = [load for load in loads(parts.value) if parts.tile.var in free_vars(load)]
    if len(found) != 1 or parts.lanes.var in free_vars(found[0]):
        return None
    (load,) = found
    buffer = next((each for each in parts.task.inputs if each.name == load.buffer), None)
    if buffer is None or buffer.steps[-1:] != (1,):
        return None
    forms = [affine(part) for part in load.index]
    stride = forms[-1].terms.get(Var(parts.tile.var), 0)
    for row in reversed(parts.outer):
        rows = [place for place, form in enumerate(forms) if Var(row.var) in form.terms]
        if rows:
            return _along(parts, load, buffer, row, rows, forms, stride)
    return None


def _along(
    parts: Contraction,
    load: Load,
    buffer: Buffer,
    row: Axis,
    rows: list[int],
    forms: list[AffineForm],
    stride: int,
) -> _Image | None:
    assert parts.reduce is not None
    form = forms[rows[0]]
    step = form.terms[Var(row.var)]
    extents = {axis.var: axis.extent for axis in parts.reduce.axes}
    taps = [atom.name for atom in form.terms if isinstance(atom, Var) and atom.name in extents]
    column = len(forms) - 1
    simple = len(rows) == 1 and rows[0] != column and len(form.terms) == 1 + len(taps)
    if not simple or len(taps) > 1 or step < 1 or stride < 1:
        return None
    if not taps:
        return _Image(load, buffer, row, rows[0], step, "", range(1), column, stride)
    dilation, extent = form.terms[Var(taps[0])], extents[taps[0]]
    # Rows that this row of tiles reads, too, are there already.
    fresh = range(max(0, extent - -(-step // max(1, dilation))), extent)
    return _Image(load, buffer, row, rows[0], step, taps[0], fresh, column, stride)


def _loops(parts: Contraction, image: _Image) -> Iterator[tuple[str, range]]:
    """Reduction axes that lead to other streams."""
    assert parts.reduce is not None
    for axis in parts.reduce.axes:
        if axis.var == image.tap:
            yield axis.var, image.taps
        elif any(
            axis.var in free_vars(part)
            for place, part in enumerate(image.load.index)
            if place != image.column
        ):
            yield axis.var, range(axis.extent)


def _hint(parts: Contraction, image: _Image, origin: Expr, offset: int) -> Stmt:
    """For the line that is so many elements into what a tile reads of a row."""
    assert parts.reduce is not None
    assert parts.tile is not None
    at: dict[str, Expr] = {axis.var: integer(0) for axis in parts.reduce.axes}
    column = substitute(image.load.index[image.column], {**at, parts.tile.var: origin})
    below = {image.row.var: plus(Var(image.row.var), 1)}
    extents = {axis.var: axis.extent for axis in (*parts.reduce.axes, *parts.outer)}
    index: list[Expr] = []
    for place, part in enumerate(image.load.index):
        extent = image.buffer.shape[place]
        if place == image.column:
            index.append(_within(plus(column, offset), extent))
        elif place != image.rows and isinstance(part, Var) and extents[part.name] <= extent:
            index.append(part)
        else:
            index.append(_within(substitute(part, _bound(part, below)), extent))
    return Prefetch(image.buffer.name, tuple(index))


def _bound(part: Expr, values: Mapping[str, Expr]) -> Mapping[str, Expr]:
    return values if free_vars(part) & values.keys() else {}


def _within(part: Expr, extent: int) -> Expr:
    """The nearest place in a dimension."""
    return Binary("max", integer(0), Binary("min", part, integer(extent - 1)))
