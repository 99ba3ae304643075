"""Register-tiled loops for definitions with at most one reduction.

The output's fastest axis becomes vectors (*lanes*), the next one a *tile* of positions;
the accumulators of a tile live in registers while the reduction runs::

    for block of lanes:                     (weights packed so that a block is one stream)
      for outer axes:
        for tile of positions:
          acc[position][lane] = neutral
          for taps, channels:  acc[position][lane] += x[position] * w[lane]
          out[position][lane] = epilogue(acc[position][lane])

Windows that reach over a border are not padded.  Along the tiled axis the first and last
tiles have constant positions, so taps that fall outside are left out when the kernel is
generated; along other axes the loop over taps gets bounds.  Without a reduction the same
loops compute plain elementwise definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from weft.dtypes import DType
from weft.kernels.guards import Guard, unguarded
from weft.kernels.task import Task
from weft.loops.affine import affine
from weft.loops.definition import COMBINE, neutral
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Kind,
    Load,
    Local,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import dtype_of, free_vars, loads, map_expr, substitute, walk
from weft.plan.implementation import Implementation, Operand, Packing

_I64 = DType.I64
_LANE = "lane"
MAX_STATIC_TAPS = 16
"""Taps along the tiled axis that are written out; more are looped over."""


def _int(value: int) -> Const:
    return Const(value, _I64)


def _plus(lhs: Expr, rhs: Expr | int) -> Expr:
    rhs = _int(rhs) if isinstance(rhs, int) else rhs
    if rhs == _int(0):
        return lhs
    if lhs == _int(0):
        return rhs
    return Binary("add", lhs, rhs)


def _times(lhs: Expr, factor: int) -> Expr:
    if isinstance(lhs, Const):
        return _int(int(lhs.value) * factor)
    return lhs if factor == 1 else Binary("mul", lhs, _int(factor))


@dataclass(frozen=True)
class Parts:
    """A task taken apart.

    Attributes:
        reduce: the one reduction, if there is one; value: without its guards.
        lanes: the vector axis, if the output has one; tile: the axis of positions.
        outer: the other output axes, slowest first.
        weight: the constant input that is packed, if there is one.
    """

    task: Task
    reduce: Reduce | None
    value: Expr | None
    guards: tuple[Guard, ...]
    lanes: Axis | None
    tile: Axis | None
    outer: tuple[Axis, ...]
    weight: str | None

    @property
    def tile_guards(self) -> tuple[Guard, ...]:
        """Guards that stand on the tiled axis."""
        return tuple(g for g in self.guards if self.tile and g.out == self.tile.var)


def take_apart(task: Task) -> Parts | None:
    """The parts of a task that these loops can compute, or ``None``."""
    reduces = {node for node in walk(task.compute.value) if isinstance(node, Reduce)}
    if len(reduces) > 1:
        return None
    reduce = reduces.pop() if reduces else None
    axes = task.compute.axes
    names = frozenset(axis.var for axis in axes)
    value, guards = None, ()
    if reduce is not None:
        if not names <= free_vars(reduce) or any(
            isinstance(node, Reduce) for node in walk(reduce.value)
        ):
            return None
        bare = unguarded(reduce, names)
        if bare is None:
            return None
        value, guards = bare
    lanes = axes[-1] if axes and task.output.steps[-1] == 1 else None
    if lanes and (
        any(guard.out == lanes.var for guard in guards) or not _streams(task, value, lanes.var)
    ):
        return None
    rest = axes[:-1] if lanes else axes
    tile = rest[-1] if rest else None
    if tile and reduce:
        static = {guard.tap for guard in guards if guard.out == tile.var}
        taps = prod(axis.extent for axis in reduce.axes if axis.var in static)
        if taps > MAX_STATIC_TAPS or any(
            guard.tap in static and guard.out != tile.var for guard in guards
        ):
            tile = None
    outer = tuple(axis for axis in rest if axis is not tile)
    weight = _packable(task, value, lanes) if reduce else None
    return Parts(task, reduce, value, guards, lanes, tile, outer, weight)


def _streams(task: Task, value: Expr | None, lane: str) -> bool:
    """Whether all that is read in the reduction is a vector or one number for all lanes."""
    if value is None:
        return True
    buffers = {buffer.name: buffer for buffer in task.inputs}
    for load in loads(value):
        step = 0
        for part, stride in zip(load.index, buffers[load.buffer].steps, strict=True):
            form = affine(part)
            step += form.terms.get(Var(lane), 0) * stride
            if any(not isinstance(a, Var) and lane in free_vars(a) for a in form.terms):
                return False
        packed = load.buffer in task.constants and Var(lane) in load.index
        if step not in (0, 1) and not packed:
            return False
    return True


def _packable(task: Task, value: Expr | None, lanes: Axis | None) -> str | None:
    """The constant that is read once with a plain index that moves with the lanes."""
    if value is None or lanes is None:
        return None
    by_buffer: dict[str, set[tuple[Expr, ...]]] = {}
    for load in loads(task.compute.value):
        by_buffer.setdefault(load.buffer, set()).add(load.index)
    for load in loads(value):
        plain = all(isinstance(part, Var) for part in load.index)
        distinct = len(set(load.index)) == len(load.index) and len(load.index) > 1
        once = len(by_buffer[load.buffer]) == 1
        packable = load.buffer in task.constants and plain and distinct and once
        if packable and Var(lanes.var) in load.index:
            return load.buffer
    return None


# --- shapes of tiles ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """Lanes computed together: ``count`` blocks of vectors of these widths."""

    start: int
    count: int
    widths: tuple[int, ...]

    @property
    def width(self) -> int:
        """Lanes in one block."""
        return sum(self.widths)


def blocks_of(extent: int, lanes: int, vectors: int) -> list[Block]:
    """Cuts an axis into full blocks and a rest of ever narrower vectors."""
    width = lanes * vectors
    full = extent // width
    found = [Block(0, full, (lanes,) * vectors)] if full else []
    rest = extent - full * width
    widths: list[int] = []
    step = lanes
    while rest:
        while rest >= step:
            widths.append(step)
            rest -= step
        step //= 2
    if widths:
        found.append(Block(full * width, 1, tuple(widths)))
    return found


def tile_shape(parts: Parts, lanes: int) -> tuple[int, int]:
    """Positions and vectors of a register tile for the target."""
    registers = parts.task.target.registers
    count = -(-parts.lanes.extent // lanes) if parts.lanes else 1
    positions = parts.tile.extent if parts.tile else 1
    if parts.reduce is None:
        return 1, min(count, 1)
    if positions == 1:
        return 1, min(count, 8)
    if not _is_product(parts):
        return min(positions, max(1, registers // 4)), 1
    if count % 3 == 0 and count % 2 and count > 1:
        vectors = 3
    elif positions <= registers // 5 and count % 4 == 0:
        vectors = 4
    else:
        vectors = min(2, count)
    most = max(1, (registers - 1 - vectors) // vectors)
    if vectors == 1:
        most = min(most, registers // 2)
    return -(-positions // -(-positions // most)), vectors


def _is_product(parts: Parts) -> bool:
    """Whether lanes and positions come from different operands, so that a tile reuses both."""
    if parts.value is None or parts.lanes is None or parts.tile is None:
        return False
    both = {parts.lanes.var, parts.tile.var}
    return all(not both <= free_vars(load) for load in loads(parts.value))


@dataclass(frozen=True, slots=True)
class Tile:
    """Positions ``[start, start + size)``, ``count`` times one after another.

    Where ``count`` is 1 the start is a constant and guards are decided; where it is more
    all guards hold.
    """

    start: int
    size: int
    count: int


def tiles_of(
    extent: int, size: int, guards: tuple[Guard, ...], taps: Mapping[str, int]
) -> list[Tile]:
    """Cuts the tiled axis so that looped tiles need no guard."""

    def free(position: int) -> bool:
        return all(
            guard.holds(position, tap)
            for guard in guards
            for tap in (0, max(0, taps.get(guard.tap, 1) - 1))
        )

    found: list[Tile] = []
    place = 0
    while place < extent:
        length = min(size, extent - place)
        clear = free(place) and free(place + length - 1)
        last = found[-1] if found else None
        if clear and last and last.count > 0 and last.size == length and _clear(last, free):
            found[-1] = Tile(last.start, length, last.count + 1)
        else:
            found.append(Tile(place, length, 1))
        place += length
    return found


def _clear(tile: Tile, free: Callable[[int], bool]) -> bool:
    return free(tile.start) and free(tile.start + tile.size - 1)


# --- statements ---------------------------------------------------------------------------


@dataclass
class _Writer:
    """Writes the loops of one task."""

    parts: Parts
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])
    packed: dict[int, str] = field(default_factory=dict[int, str])

    def __post_init__(self) -> None:
        for buffer in self.parts.task.inputs:
            if buffer.name != self.parts.weight:
                self.params.append(buffer)
                self.operands.append(Operand(self.parts.task.value_of(buffer.name)))

    # --- weights ----------------------------------------------------------------------

    def pack(self, block: Block) -> str:
        """The parameter that holds the weights of a block, lanes innermost."""
        parts = self.parts
        assert parts.weight
        assert parts.lanes
        name = f"{parts.weight}_{len(self.packed)}" if self.packed else parts.weight
        index = self.weight_index()
        order = self.weight_order()
        weight = next(b for b in parts.task.inputs if b.name == parts.weight)
        axis = index.index(parts.lanes.var)
        packing = Packing(weight.shape, axis, order, block.start, block.count, block.width)
        shape = (block.count, *(weight.shape[a] for a in order), block.width)
        self.params.append(Buffer(name, weight.dtype, shape))
        self.operands.append(Operand(parts.task.value_of(parts.weight), packing))
        self.packed[block.start] = name
        return name

    def loop_order(self) -> list[str]:
        """Reduction axes in the order of their loops: guarded taps, then the others."""
        reduce = self.parts.reduce
        if reduce is None:
            return []
        guarded = {guard.tap for guard in self.parts.guards}
        static = {guard.tap for guard in self.parts.tile_guards}
        axes = [axis.var for axis in reduce.axes]
        order = [a for a in axes if a in guarded and a not in static]
        order += [a for a in axes if a in static]
        # Taps before channels: what a tap reads of neighbouring positions is contiguous.
        rest = [axis for axis in reduce.axes if axis.var not in guarded]
        rest.sort(key=lambda axis: axis.extent)
        return order + [axis.var for axis in rest]

    def weight_index(self) -> tuple[str, ...]:
        """Names of the variables that index the packed weight."""
        for load in loads(self.parts.value or _int(0)):
            if load.buffer == self.parts.weight:
                return tuple(part.name for part in load.index if isinstance(part, Var))
        return ()

    def weight_order(self) -> tuple[int, ...]:
        """Dimensions of the packed weight but the lanes', outermost first, as loops read it."""
        index = self.weight_index()
        lanes = self.parts.lanes.var if self.parts.lanes else ""
        loops = self.loop_order()
        rest = [axis for axis, var in enumerate(index) if var != lanes]
        rest.sort(key=lambda axis: loops.index(index[axis]) if index[axis] in loops else -1)
        return tuple(rest)

    def with_packed(self, value: Expr, name: str, block: Expr, lane: Expr) -> Expr:
        """Reads the packed weight of a block in place of the weight itself."""
        order = self.weight_order()

        def swap(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer == self.parts.weight:
                others = tuple(node.index[axis] for axis in order)
                return Load(name, (block, *others, lane), node.dtype)
            return node

        return map_expr(value, swap)

    # --- the nest ---------------------------------------------------------------------

    def kernel(self) -> Kernel:
        parts = self.parts
        lanes = self.lane_count()
        positions, vectors = tile_shape(parts, lanes)
        blocks = (
            blocks_of(parts.lanes.extent, lanes, vectors) if parts.lanes else [Block(0, 1, (1,))]
        )
        body: list[Stmt] = []
        for block in blocks:
            weight = self.pack(block) if parts.weight else ""
            body.extend(self.block(block, weight, positions))
        params = (*self.params, parts.task.output)
        return simplify_kernel(Kernel(parts.task.name, params, tuple(body)))

    def lane_count(self) -> int:
        parts = self.parts
        if parts.lanes is None:
            return 1
        target = parts.task.target
        dtype = dtype_of(parts.reduce.value) if parts.reduce else parts.task.output.dtype
        return target.lanes(dtype)

    def block(self, block: Block, weight: str, positions: int) -> tuple[Stmt, ...]:
        """All outputs of the lanes of a block."""
        counter = Var("block")
        one = block.count == 1
        start = _int(block.start)
        first = start if one else _plus(_times(counter, block.width), block.start)
        number: Expr = _int(0) if one else counter
        inner = self.tiles(block, first, number, weight, positions)
        loops: list[tuple[str, int]] = [(axis.var, axis.extent) for axis in self.parts.outer]
        if not one:
            # Large weights are streamed once; small ones stay in cache over all rows.
            place = 0 if self.parts.weight else len(loops)
            loops.insert(place, ("block", block.count))
        for var, extent in reversed(loops):
            inner = (For(var, _int(0), _int(extent), inner),)
        return inner

    def tiles(
        self, block: Block, first: Expr, number: Expr, weight: str, positions: int
    ) -> tuple[Stmt, ...]:
        axis = self.parts.tile
        if axis is None:
            return self.tile(block, first, number, weight, None, 1, True)
        reduce = self.parts.reduce
        taps = {each.var: each.extent for each in reduce.axes} if reduce else {}
        found: list[Stmt] = []
        for tile in tiles_of(axis.extent, positions, self.parts.tile_guards, taps):
            if tile.count == 1:
                origin: Expr = _int(tile.start)
                found += self.tile(block, first, number, weight, origin, tile.size, False)
            else:
                origin = _plus(_times(Var("tile"), tile.size), tile.start)
                inner = self.tile(block, first, number, weight, origin, tile.size, True)
                found.append(For("tile", _int(0), _int(tile.count), inner))
        return tuple(found)

    def tile(
        self,
        block: Block,
        first: Expr,
        number: Expr,
        weight: str,
        origin: Expr | None,
        size: int,
        clear: bool,
    ) -> tuple[Stmt, ...]:
        """One register tile: accumulate, then store."""
        cell = _Cell(self, block, first, number, weight, origin, size, clear)
        if self.parts.reduce is None:
            return cell.stores()
        body = (*cell.starts(), *cell.reduction(), *cell.stores())
        for buffer in reversed(cell.accumulators()):
            body = (Local(buffer, body),)
        return body


@dataclass
class _Cell:
    """The statements of one register tile."""

    writer: _Writer
    block: Block
    first: Expr
    number: Expr
    weight: str
    origin: Expr | None
    size: int
    clear: bool

    def pieces(self) -> Iterator[tuple[int, int, int]]:
        """Number, first lane within the block and width of every vector."""
        offset = 0
        for piece, width in enumerate(self.block.widths):
            yield piece, offset, width
            offset += width

    def accumulators(self) -> tuple[Buffer, ...]:
        reduce = self.writer.parts.reduce
        assert reduce is not None
        dtype = dtype_of(reduce.value)
        return tuple(
            Buffer(f"acc{piece}", dtype, (self.size, width), Access.LOCAL)
            for piece, _, width in self.pieces()
        )

    def positions(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        if self.size == 1:
            return body
        return (For("p", _int(0), _int(self.size), body, Kind.UNROLL),)

    @property
    def position(self) -> Expr:
        return _int(0) if self.size == 1 else Var("p")

    def vector(self, width: int, store: Store) -> Stmt:
        return For(_LANE, _int(0), _int(width), (store,), Kind.VECTOR)

    def starts(self) -> tuple[Stmt, ...]:
        reduce = self.writer.parts.reduce
        assert reduce is not None
        start = neutral(reduce.op, dtype_of(reduce.value))
        return self.positions(
            tuple(
                self.vector(width, Store(f"acc{piece}", (self.position, Var(_LANE)), start))
                for piece, _, width in self.pieces()
            )
        )

    def bound(self, position: Expr, offset: int) -> dict[str, Expr]:
        """What the output axes stand for at a position and lane of this tile."""
        parts = self.writer.parts
        values: dict[str, Expr] = {}
        if parts.lanes:
            values[parts.lanes.var] = _plus(_plus(self.first, offset), Var(_LANE))
        if parts.tile and self.origin is not None:
            values[parts.tile.var] = _plus(self.origin, position)
        return values

    def update(self, position: Expr, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """``acc = acc + value`` for all lanes of a position."""
        parts = self.writer.parts
        assert parts.reduce is not None
        assert parts.value is not None
        combine = COMBINE[parts.reduce.op]
        dtype = dtype_of(parts.reduce.value)
        found: list[Stmt] = []
        for piece, offset, width in self.pieces():
            value = parts.value
            if self.weight:
                lane = _plus(_int(offset), Var(_LANE))
                value = self.writer.with_packed(value, self.weight, self.number, lane)
            value = substitute(value, {**taps, **self.bound(position, offset)})
            place = (position, Var(_LANE))
            sum = Binary(combine, Load(f"acc{piece}", place, dtype), value)
            found.append(self.vector(width, Store(f"acc{piece}", place, sum)))
        return tuple(found)

    def reduction(self) -> tuple[Stmt, ...]:
        """The loops over taps and channels."""
        parts = self.writer.parts
        assert parts.reduce is not None
        extents = {axis.var: axis.extent for axis in parts.reduce.axes}
        static = list(dict.fromkeys(g.tap for g in parts.tile_guards if g.tap in extents))
        return self.loops(self.writer.loop_order(), extents, static, {})

    def loops(
        self,
        order: list[str],
        extents: Mapping[str, int],
        static: list[str],
        fixed: Mapping[str, int],
    ) -> tuple[Stmt, ...]:
        if not order:
            return self.updates(fixed)
        var, rest = order[0], order[1:]
        if var in static:
            found: list[Stmt] = []
            for start, stop in self.runs(var, extents[var]):
                if stop - start == 1:
                    found += self.loops(rest, extents, static, {**fixed, var: start})
                else:
                    inner = self.loops(rest, extents, static, fixed)
                    found.append(For(var, _int(start), _int(stop), inner))
            return tuple(found)
        inner = self.loops(rest, extents, static, fixed)
        if not inner:
            return ()
        start, stop = self.limits(var, extents[var])
        return (For(var, start, stop, inner),)

    def runs(self, var: str, extent: int) -> list[tuple[int, int]]:
        """Taps one by one where a position falls outside, in runs where none does."""
        found: list[tuple[int, int]] = []
        joins = False
        for tap in range(extent):
            whole = all(self.inside(place, {var: tap}) for place in range(self.size))
            if whole and joins:
                found[-1] = (found[-1][0], tap + 1)
            else:
                found.append((tap, tap + 1))
            joins = whole
        return found

    def limits(self, var: str, extent: int) -> tuple[Expr, Expr]:
        """Bounds of a loop over taps that keep it inside its guards."""
        start: Expr = _int(0)
        stop: Expr = _int(extent)
        for guard in self.writer.parts.guards:
            if guard.tap != var:
                continue
            out = self.bound(_int(0), 0).get(guard.out, Var(guard.out))
            least, last = guard.least(out), guard.last(out)
            if least is not None:
                start = Binary("max", start, least)
            if last is not None:
                stop = Binary("min", stop, last)
        return start, stop

    def updates(self, fixed: Mapping[str, int]) -> tuple[Stmt, ...]:
        """The updates of all positions whose guards hold for these taps."""
        taps = {name: _int(tap) for name, tap in fixed.items()}
        live = [place for place in range(self.size) if self.inside(place, fixed)]
        if len(live) == self.size:
            return self.positions(self.update(self.position, taps))
        return tuple(stmt for place in live for stmt in self.update(_int(place), taps))

    def inside(self, place: int, fixed: Mapping[str, int]) -> bool:
        if self.clear or not isinstance(self.origin, Const):
            return True
        at = int(self.origin.value) + place
        return all(
            guard.holds(at, fixed[guard.tap])
            for guard in self.writer.parts.tile_guards
            if guard.tap in fixed
        )

    def stores(self) -> tuple[Stmt, ...]:
        """Writes the finished values."""
        parts = self.writer.parts
        found: list[Stmt] = []
        for piece, offset, width in self.pieces():
            bound = self.bound(self.position, offset)
            value = parts.task.compute.value
            if parts.reduce is not None:
                done = Load(
                    f"acc{piece}", (self.position, Var(_LANE)), dtype_of(parts.reduce.value)
                )
                value = _replaced(value, parts.reduce, done)
            index = tuple(bound.get(a.var, Var(a.var)) for a in parts.task.compute.axes)
            found.append(self.vector(width, Store("out", index, substitute(value, bound))))
        return self.positions(tuple(found))


def _replaced(value: Expr, reduce: Reduce, by: Load) -> Expr:
    return map_expr(value, lambda node: by if node == reduce else node)


def generate(task: Task) -> Implementation | None:
    """The kernel of a task, or ``None`` where these loops do not apply."""
    parts = take_apart(task)
    if parts is None:
        return None
    if parts.lanes is None and parts.reduce is not None:
        return None
    writer = _Writer(parts)
    kernel = writer.kernel()
    return Implementation(kernel, tuple(writer.operands), "tiled")
