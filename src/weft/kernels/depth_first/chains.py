"""Chains of kernels run depth first: a band of rows of each, again and again.

What one stage makes and the next one reads is held in a strip of some rows, small enough for
a cache; of a band's rows those that the next band needs, too, are moved to the top of the
strip::

    for part:                               (one for each thread; they share no rows)
      strips of rows
      for band of rows:
        strip = the rows that the last band left at its end
        strip = first kernel, on the new rows of its output
        out   = second kernel, on the rows that these are enough for

The kernels are those of other generators, their loops over rows cut to a band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.errors import InternalError
from weft.kernels.depth_first.links import ChainStage
from weft.kernels.tiling import blocks_of
from weft.kernels.writer import (
    LANE,
    for_range,
    integer,
    nested,
    plus,
    spans,
    times,
    vector,
    with_locals,
)
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
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.statements import names_in, substitute_stmts
from weft.loops.walk import FreshNames, map_expr
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass
from weft.targets.target import Target

BANDS = "bands-"
"""What the names of chains' kernels begin with; the rows of a band follow."""


@dataclass(frozen=True, slots=True)
class Strip:
    """The rows of a stage that there are at once.

    In band ``b`` these are ``advance * b - above`` and the following ones.

    Attributes:
        rows: how many.
        advance: new ones in every band but the first.
        above: how many are above the first row of all in the first band.
    """

    rows: int
    advance: int
    above: int

    @property
    def kept(self) -> int:
        """Rows that a band takes over from the one before."""
        return max(0, self.rows - self.advance)


def strips_of(stages: Sequence[ChainStage], rows: int) -> tuple[Strip, ...]:
    """The strips of all stages for bands of so many rows of the last one."""
    found = [Strip(rows, rows, 0)]
    for stage in reversed(stages[1:]):
        window, after = stage.window, found[0]
        if window is None:
            raise InternalError(f"{stage.group.value} reads nothing of its chain")
        strip = Strip(
            window.stride * (after.rows - 1) + window.taps,
            window.stride * after.advance,
            window.stride * after.above - window.low,
        )
        found.insert(0, strip)
    return tuple(found)


class _NotByRows(Exception):
    """A kernel that cannot be cut to a band of rows."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What stands for a buffer of a stage's kernel.

    Attributes:
        name: of the buffer in the chain's kernel.
        order: for each of its dimensions that of the stage's buffer.
        origin: the row at its first, if it is a strip; the rows are its first dimension.
    """

    name: str
    order: tuple[int, ...] = ()
    origin: Expr | None = None

    def index(self, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if self.origin is None:
            return index
        row, *others = (index[axis] for axis in self.order)
        return (Binary("sub", row, self.origin), *others)


@dataclass(frozen=True, slots=True)
class _Band:
    """A stage's loops cut to a band.

    Attributes:
        stage: what is cut.
        places: of the buffers.
        by_rows: buffers that only a loop over rows may touch.
        var: the new variable of the rows, from ``start`` to ``stop``.
        origin: the row where it is 0.
    """

    stage: ChainStage
    places: Mapping[str, _Place]
    by_rows: frozenset[str]
    var: str
    start: Expr
    stop: Expr
    origin: Expr

    def block(self, stmts: Sequence[Stmt], inside: bool) -> tuple[Stmt, ...]:
        return tuple(self.stmt(stmt, inside) for stmt in stmts)

    def stmt(self, stmt: Stmt, inside: bool) -> Stmt:
        match stmt:
            case For(var) if var == self.stage.row:
                return self.rows(stmt)
            case For(_, start, stop):
                body = self.block(stmt.body, inside)
                start, stop = self.expr(start, inside), self.expr(stop, inside)
                return replace(stmt, start=start, stop=stop, body=body)
            case Store(buffer, index, value):
                name, index = self.at(buffer, index, inside)
                return Store(name, index, self.expr(value, inside))
            case Prefetch(buffer, index):
                return Prefetch(*self.at(buffer, index, inside))
            case If(condition, then, otherwise):
                condition = self.expr(condition, inside)
                return If(condition, self.block(then, inside), self.block(otherwise, inside))
            case Local(buffer, body):
                return Local(buffer, self.block(body, inside))
            case _:
                raise _NotByRows

    def rows(self, loop: For) -> For:
        if (loop.start, loop.stop) != (integer(0), integer(self.stage.rows)):
            raise _NotByRows
        moved = plus(Var(self.var), self.origin)
        body = substitute_stmts(self.block(loop.body, True), {loop.var: moved})
        return For(self.var, self.start, self.stop, body)

    def at(
        self, buffer: str, index: tuple[Expr, ...], inside: bool
    ) -> tuple[str, tuple[Expr, ...]]:
        if buffer in self.by_rows and not inside:
            raise _NotByRows
        index = tuple(self.expr(part, inside) for part in index)
        place = self.places.get(buffer)
        return (place.name, place.index(index)) if place else (buffer, index)

    def expr(self, expr: Expr, inside: bool) -> Expr:
        def move(node: Expr) -> Expr:
            if not isinstance(node, Load):
                return node
            name, index = node.buffer, node.index
            if name in self.by_rows and not inside:
                raise _NotByRows
            place = self.places.get(name)
            return Load(place.name, place.index(index), node.dtype) if place else node

        return map_expr(expr, move)


@dataclass(frozen=True, slots=True)
class Bands:
    """How a chain is run.

    Attributes:
        rows: of the last stage in a band.
        parts: pieces of the image that have strips of their own.
    """

    rows: int
    parts: int = 1


@dataclass
class _Writer:
    stages: Sequence[ChainStage]
    made: Sequence[Implementation]
    bands: Bands
    target: Target

    def __post_init__(self) -> None:
        self.strips = strips_of(self.stages, self.bands.rows)
        taken = {"out"}.union(*(names_in(made.kernel.body) for made in self.made))
        self.names = FreshNames(taken)
        self.part, self.band, self.row = map(self.names, ("part", "band", "row"))
        count = -(-self.stages[-1].rows // self.bands.rows)
        self.each = -(-count // self.bands.parts)
        self.parts = -(-count // self.each)
        self.count = count
        self.number: Expr = Var(self.band)
        if self.parts > 1:
            self.number = plus(times(Var(self.part), self.each), self.number)
        self.params: list[Buffer] = []
        self.operands: list[Operand] = []

    def write(self) -> Implementation:
        pairs = zip(self.stages[:-1], self.strips, strict=False)
        buffers = [self.strip(stage, strip) for stage, strip in pairs]
        body: list[Stmt] = []
        for buffer, strip in zip(buffers, self.strips, strict=False):
            body += self.moves(buffer, strip)
        for number in range(len(self.stages)):
            body += self.stage(number, buffers)
        stop: Expr = integer(self.count)
        if self.parts > 1:
            left = Binary("sub", integer(self.count), times(Var(self.part), self.each))
            stop = Binary("min", integer(self.each), left)
        bands = For(self.band, integer(0), stop, tuple(body))
        inner = with_locals(buffers, (bands,))
        if self.parts > 1:
            inner = (for_range(self.part, self.parts, inner, LoopKind.PARALLEL),)
        name = self.stages[-1].task.name
        params = (*self.params, self.made[-1].kernel.params[-1])
        kernel = simplify_kernel(Kernel(name, params, inner))
        scheme = f"{BANDS}{self.bands.rows}"
        return Implementation(kernel, tuple(self.operands), scheme, stages=tuple(self.made))

    def strip(self, stage: ChainStage, strip: Strip) -> Buffer:
        out = stage.task.output
        place = [axis.var for axis in stage.task.compute.axes].index(stage.row)
        others = (*out.shape[:place], *out.shape[place + 1 :])
        name = self.names("strip")
        return Buffer(name, out.dtype, (strip.rows, *others), Access.LOCAL)

    def origin(self, strip: Strip) -> Expr:
        """The row of a strip's first."""
        return plus(times(self.number, strip.advance), -strip.above)

    def moves(self, buffer: Buffer, strip: Strip) -> tuple[Stmt, ...]:
        """Moves the rows that the band before left."""
        if not strip.kept:
            return ()
        *others, last = buffer.shape[1:]
        axes = [Axis(self.names("at"), extent) for extent in others]
        blocks = blocks_of(last, self.target.lanes(buffer.dtype), 2)
        here = tuple(Var(axis.var) for axis in axes)

        def move(_: int, width: int, first: Expr) -> list[Stmt]:
            at = (*here, plus(first, Var(LANE)))
            source = (plus(Var(self.row), strip.advance), *at)
            load = Load(buffer.name, source, buffer.dtype)
            return [vector(width, Store(buffer.name, (Var(self.row), *at), load))]

        inner = nested(axes, tuple(spans(blocks, move)))
        return (For(self.row, integer(0), self.taken(strip), inner),)

    def taken(self, strip: Strip) -> Expr:
        """Rows that a band need not compute: none in the first of a part."""
        return times(Binary("min", Var(self.band), integer(1)), strip.kept)

    def stage(self, number: int, buffers: Sequence[Buffer]) -> tuple[Stmt, ...]:
        """The statements of a stage in a band."""
        stage, made, strip = self.stages[number], self.made[number], self.strips[number]
        origin = self.origin(strip)
        places: dict[str, _Place] = {}
        by_rows = {"out"}
        for buffer, operand in zip(made.kernel.params, made.operands, strict=False):
            if number and operand.value == stage.link:
                before = self.strips[number - 1]
                order = _order(self.stages[number - 1], buffer)
                name = buffers[number - 1].name
                places[buffer.name] = _Place(name, order, self.origin(before))
                by_rows.add(buffer.name)
            else:
                name = self.names(buffer.name)
                self.params.append(replace(buffer, name=name))
                self.operands.append(operand)
                places[buffer.name] = _Place(name)
        if number < len(self.stages) - 1:
            out = made.kernel.params[-1]
            places["out"] = _Place(buffers[number].name, _order(stage, out), origin)
        start: Expr = Binary("max", integer(0), Binary("sub", integer(0), origin))
        if strip.kept:
            start = Binary("max", self.taken(strip), Binary("sub", integer(0), origin))
        left = Binary("sub", integer(stage.rows), origin)
        stop = Binary("min", integer(strip.rows), left)
        band = _Band(stage, places, frozenset(by_rows), self.row, start, stop, origin)
        return band.block(made.kernel.body, False)


def _order(stage: ChainStage, buffer: Buffer) -> tuple[int, ...]:
    """The dimensions of a kernel's buffer, by those of the strip that stands for it."""
    out = stage.task.output
    rows = [axis.var for axis in stage.task.compute.axes].index(stage.row)
    wanted = [rows, *(axis for axis in range(len(out.shape)) if axis != rows)]
    have = {
        (extent, step): axis
        for axis, (extent, step) in enumerate(zip(buffer.shape, buffer.steps, strict=True))
        if extent > 1
    }
    found = [have.get((out.shape[axis], out.steps[axis])) for axis in wanted]
    if len(have) != len(found) or None in found:
        raise _NotByRows
    return tuple(axis for axis in found if axis is not None)


def goes_by_rows(stage: ChainStage, before: ChainStage | None, made: Implementation) -> bool:
    """Whether a stage's kernel can be cut to bands: all it does is inside loops over rows.

    Args:
        stage: whose kernel it is.
        before: the stage whose strip it reads.
        made: the kernel.
    """
    by_rows = {"out"}
    try:
        _order(stage, made.kernel.params[-1])
        for buffer, operand in zip(made.kernel.params, made.operands, strict=False):
            if before is not None and operand.value == stage.link:
                _order(before, buffer)
                by_rows.add(buffer.name)
        start, stop = integer(0), integer(stage.rows)
        band = _Band(stage, {}, frozenset(by_rows), stage.row, start, stop, start)
        band.block(made.kernel.body, False)
    except _NotByRows:
        return False
    return True


def chained(
    stages: Sequence[ChainStage], made: Sequence[Implementation], bands: Bands, target: Target
) -> Implementation:
    """The kernel of a chain.

    Args:
        stages: from ``stages_of``.
        made: a kernel for each, of which ``goes_by_rows`` holds.
        bands: how they are run.
        target: the machine.
    """
    return _Writer(stages, made, bands, target).write()


def strip_bytes(stages: Sequence[ChainStage], strips: Sequence[Strip]) -> list[int]:
    """Bytes of the strips of all stages but the last."""
    return [
        strip.rows * prod(stage.task.output.shape) // stage.rows * stage.task.output.dtype.bytes
        for stage, strip in zip(stages[:-1], strips, strict=False)
    ]
