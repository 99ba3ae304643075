"""The statements of one register tile: clear, accumulate, store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from weft.kernels.products.image_rows import next_rows
from weft.kernels.products.prefetch import last_lines
from weft.kernels.products.register_tile import RegisterTile
from weft.kernels.products.sum_blocks import block_size
from weft.kernels.sliding import Slide
from weft.kernels.tiling import FEW_REGISTERS
from weft.kernels.writer import LANE, for_range, integer, plus, times, with_locals
from weft.loops.definition import COMBINE
from weft.loops.nodes import (
    Binary,
    Const,
    Expr,
    For,
    If,
    Load,
    Prefetch,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import dtype_of, map_expr, substitute, walk
from weft.records import dataclass

LINE = 8
"""Terms of a line, and lines, from which on a sum is taken line by line."""

_FUNCTION = 10.0
"""Cycles of a function from which on its text is long."""
_LOOPED = 4
"""Positions from which on finished values may be written by a loop."""
_HINTS = 4
"""Lines at most that hints before a loop fetch, one right after another."""
_MANY_TERMS = 24
"""Terms from which on sums may go through memory where no border is near.

Depthwise layers of 9 terms take up to 6 % longer then (EfficientNetB4, Zen 4), pointwise ones of
32 to 272 terms up to 1.5 %; the network runs as fast, and its compilers take 30 % less time.
"""

STAGGERED = 1 << 26
"""Multiply-adds from which on two loops for a block are worth what it takes to compile them.

They take 1.2 % off a product of 361x728x728 (Zen 4), and make its C a fifth longer.
"""


@dataclass
class Microkernel(RegisterTile):
    """The statements of one register tile."""

    def statements(self) -> tuple[Stmt, ...]:
        """Everything: accumulate, then store."""
        if self.parts.reduce is None:
            return self.stores()
        hints = next_rows(self.parts, self.origin, self.size, len(self.block.widths))
        body = (*self.starts(), *hints, *self.last_hints(), *self.reduction(), *self.ends())
        return with_locals(self.accumulators(), body)

    def last_hints(self) -> tuple[Stmt, ...]:
        """Hints for what the end of this tile reads from far away."""
        found: list[Stmt] = []
        for load, lane in last_lines(self.parts, self.block):
            at = self.bound(self.position, lane)
            index = (substitute(substitute(part, at), {LANE: integer(0)}) for part in load.index)
            found.append(Prefetch(load.buffer, tuple(index)))
        return self.positions(tuple(found)) if found else ()

    def ends(self) -> tuple[Stmt, ...]:
        """What is done with finished sums."""
        return self.stores()

    def written_out(self, updates: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The updates of all vectors, for every position.

        Compilers keep in registers what the inner loop uses again: the vectors of weights, or
        the fewer scalars.  Where registers are not enough for the vectors, gcc reads them from
        memory again for every position (3 positions of 4 vectors with 16 registers take a
        fifth longer then, Zen 3).
        """
        target, vectors = self.parts.task.target, len(updates)
        # A product that is no part of the addition takes a register.
        free = target.registers - self.size * vectors - (1 if target.fused else 2)
        lacking = vectors > free and target.architecture == "x86_64"
        if self.size < vectors and self.size <= free and (lacking or not target.fused):
            return tuple(stmt for update in updates for stmt in self.positions((update,)))
        return self.positions(updates)

    def bound(self, position: Expr, offset: int) -> dict[str, Expr]:
        """What the output axes stand for at a position and lane of this tile."""
        parts = self.parts
        values: dict[str, Expr] = {}
        if parts.lanes:
            values[parts.lanes.var] = plus(plus(self.first, offset), Var(LANE))
        if parts.tile and self.origin is not None:
            values[parts.tile.var] = plus(self.origin, position)
        return values

    def update(self, position: Expr, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """``acc = acc + value`` for all lanes of a position."""
        parts = self.parts
        assert parts.reduce is not None
        assert parts.value is not None
        combine = COMBINE[parts.reduce.op]
        dtype = dtype_of(parts.reduce.value)
        found: list[Stmt] = []
        for piece, offset, width in self.block.pieces():
            value = parts.value
            if self.weight:
                value = self.packed(value, offset)
            value = substitute(value, {**taps, **self.bound(position, offset)})
            place = (position, Var(LANE))
            sum = Binary(combine, Load(f"{self.sums}{piece}", place, dtype), value)
            found.append(self.vector(width, Store(f"{self.sums}{piece}", place, sum)))
        return tuple(found)

    def packed(self, value: Expr, offset: int) -> Expr:
        """Reads the weights of a vector that begins at a lane of the block."""
        streams, width = self.block.streams, self.block.width // self.block.streams
        stream = plus(times(self.number, streams), offset // width)
        lane = plus(integer(offset % width), Var(LANE))
        return self.parts.with_packed(value, self.weight, stream, lane)

    def reduction(self) -> tuple[Stmt, ...]:
        """The loops over taps and channels."""
        parts = self.parts
        assert parts.reduce is not None
        extents = {axis.var: axis.extent for axis in parts.reduce.axes}
        static = list(dict.fromkeys(g.tap for g in parts.tile_guards if g.tap in extents))
        order = self.parts.loop_order()
        if not static and self.has_lines([extents[var] for var in order]):
            return self.lines(order, extents)
        if self.weight and self.held and not self.spans and order and order[0] not in static:
            size = block_size(parts, [extents[var] for var in order], self.block_terms)
            if size:
                return self.in_blocks(order, extents, static, size)
        return self.loops(order, extents, static, {})

    def has_lines(self, extents: Sequence[int]) -> bool:
        """Whether a sum of data alone has so many terms that each line is summed by itself.

        The rounding of a sum grows with the number of its terms: sums of sums are nearer.
        """
        reduce = self.parts.reduce
        assert reduce is not None
        if reduce.op != "sum" or self.parts.weight or not dtype_of(reduce.value).is_float:
            return False
        return len(extents) > 1 and min(extents[0], prod(extents[1:])) >= LINE

    def lines(self, order: list[str], extents: Mapping[str, int]) -> tuple[Stmt, ...]:
        """The same, with accumulators of its own for each turn of the outermost loop."""
        line = replace(self, sums="line")
        gathered = self.moved("acc", "acc", "line")
        body = (*line.starts(), *line.loops(order[1:], extents, [], {}), *gathered)
        start, stop = self.limits(order[0], extents[order[0]])
        return (For(order[0], start, stop, with_locals(line.accumulators(), body)),)

    def in_blocks(
        self, order: list[str], extents: Mapping[str, int], static: list[str], size: int
    ) -> tuple[Stmt, ...]:
        """The loops over taps in blocks; registers hold the sums of one, memory of all before."""
        var, part = order[0], Var("part")
        extent, base = extents[var], times(part, size)
        count = -(-extent // size)
        start, stop = self.limits(var, extent)
        whole = start == integer(0) and stop == integer(extent)
        turns = self.turns(size) if whole and len(order) == 1 else [(0, self.size, size)]
        body: list[Stmt] = [] if len(turns) > 1 else [*self.starts()]
        done = 0
        for low, high, until in turns:
            first, last, most = plus(base, done), plus(base, until), until - done
            first = first if whole else Binary("max", start, first)
            if not whole or (count - 1) * size + until > extent:
                last, most = Binary("min", stop, last), 0
            kept = self.moved("total", "acc", span=(low, high))
            inner = self.loops(order[1:], extents, static, {})
            body += self.steps(For(var, first, last, inner), 0 if order[1:] else most, {})
            gathered = self.moved("acc", "acc", "total", span=(low, high))
            body.append(If(Binary("gt", part, integer(0)), gathered))
            kept += self.starts((low, high)) if len(turns) > 1 else ()
            ends = until == size
            body += [If(Binary("lt", part, integer(count - 1)), kept)] if ends else kept
            done = until
        rest = self.moved("acc", "acc", "total", span=(0, turns[-1][0]))
        total, loop = replace(self, sums="total"), for_range("part", count, tuple(body))
        return with_locals(total.accumulators(), (*total.starts(), loop, *rest))

    def turns(self, size: int) -> list[tuple[int, int, int]]:
        """Positions whose blocks of so many steps end together, and at which step they do.

        Half of the positions of a large product end half a block before the others: a core stores
        the sums of a few while it multiplies, those of all not.
        """
        half, step = self.size // 2, size // 2
        if not (half and step) or self.parts.terms < STAGGERED:
            return [(0, self.size, size)]
        return [(0, half, step), (half, self.size, size)]

    def loops(
        self,
        order: list[str],
        extents: Mapping[str, int],
        static: list[str],
        fixed: Mapping[str, int],
    ) -> tuple[Stmt, ...]:
        """The loops over the taps in ``order``, those in ``fixed`` decided."""
        if not order:
            return self.updates(fixed)
        var, rest = order[0], order[1:]
        if self.parts.slide and var == self.parts.slide.tap and self.held:
            return self.sliding(self.parts.slide, extents[var], fixed)
        if var in static:
            found: list[Stmt] = []
            for start, stop in self.runs(var, extents[var]):
                if stop - start == 1:
                    found += self.loops(rest, extents, static, {**fixed, var: start})
                else:
                    inner = self.loops(rest, extents, static, fixed)
                    found.append(For(var, integer(start), integer(stop), inner))
            return tuple(found)
        inner = self.loops(rest, extents, static, fixed)
        if not inner:
            return ()
        start, stop = self.limits(var, extents[var])
        loop, count = For(var, start, stop, inner), 0
        if not rest and isinstance(start, Const) and isinstance(stop, Const):
            count = int(stop.value - start.value)
        return self.steps(loop, count, fixed)

    def steps(self, loop: For, count: int, fixed: Mapping[str, int]) -> tuple[Stmt, ...]:
        """A loop over a tap, and before it hints that its steps would repeat.

        Where registers are few, so are the instructions of a step, and each of them counts.

        Args:
            loop: the loop.
            count: its steps if it is the innermost one and they are known, else 0.
            fixed: taps that are decided.
        """
        if not count or self.parts.task.target.registers > FEW_REGISTERS:
            return (loop,)
        each = self.line_steps(loop.var, fixed)
        lines = -(-count // each)
        if each == 1 or lines > _HINTS:
            return (loop,)
        hints = [stmt for stmt in loop.body if isinstance(stmt, Prefetch)]
        found: list[Stmt] = []
        for line in range(lines):
            at = {loop.var: plus(loop.start, line * each)}
            for hint in hints:
                index = tuple(substitute(part, at) for part in hint.index)
                found.append(Prefetch(hint.buffer, index))
        rest = tuple(stmt for stmt in loop.body if not isinstance(stmt, Prefetch))
        return (*found, replace(loop, body=rest))

    def line_steps(self, var: str, fixed: Mapping[str, int]) -> int:
        """How many steps along a tap give hints that lead into one line."""
        step = self.packed_step()
        own = self.own_lanes()
        if not step or step[-1] != Var(var) or own >= self.line:
            return 1
        taps = {name: integer(tap) for name, tap in fixed.items()}
        return self.line // own if self.shared_lines(step, taps) else 1

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
        first, last = self.spans.get(var, (0, extent))
        start: Expr = integer(first)
        stop: Expr = integer(last)
        for guard in self.parts.guards:
            if guard.tap != var:
                continue
            least, most = guard.least(), guard.last()
            if least is not None:
                start = Binary("max", start, least)
            if most is not None:
                stop = Binary("min", stop, most)
        return start, stop

    def sliding(self, slide: Slide, extent: int, fixed: Mapping[str, int]) -> tuple[Stmt, ...]:
        """The updates of all positions and taps of a row, in the order of what they read."""
        live = [
            (place, tap)
            for place in range(self.size)
            for tap in range(extent)
            if self.inside(place, {**fixed, slide.tap: tap})
        ]
        taps = [
            {name: integer(value) for name, value in {**fixed, slide.tap: tap}.items()}
            for tap in range(extent)
        ]
        updates = [self.update(integer(place), taps[tap]) for place, tap in slide.order(live)]
        hints = [self.prefetches(each) for each in taps]
        return tuple(stmt for group in (*updates, *hints) for stmt in group)

    def updates(self, fixed: Mapping[str, int]) -> tuple[Stmt, ...]:
        """The updates of all positions whose guards hold for these taps."""
        taps = {name: integer(tap) for name, tap in fixed.items()}
        live = [place for place in range(self.size) if self.inside(place, fixed)]
        if len(live) == self.size:
            return (*self.prefetches(taps), *self.written_out(self.update(self.position, taps)))
        if len(live) < 2:
            return tuple(stmt for place in live for stmt in self.update(integer(place), taps))
        # Guards are affine, so they hold on a run of positions.
        body = self.update(Var("p"), taps)
        return (self.over(live[0], live[-1] + 1, body),)

    def prefetches(self, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """Hints for the weights that come after those of this tile, as far into them."""
        if not self.ahead:
            return ()
        index, step = self.parts.packed_index(self.number, integer(0)), self.packed_step()
        offsets = self.shared_lines(step, taps)
        if offsets:
            first = max(self.ahead) + 1
            index = (*index[:first], *(integer(0) for _ in index[first:]))
        else:
            starts = (offset // self.line * self.line for _, offset, _ in self.block.pieces())
            offsets = [integer(start) for start in dict.fromkeys(starts)]
        found: list[Stmt] = []
        for offset in offsets:
            at = {**self.bound(integer(0), 0), **taps}
            ahead = [
                self.ahead.get(place, part) for place, part in enumerate((*index[:-1], offset))
            ]
            # Where groups are the tile, the weights depend on it too: those of its first.
            ahead += [integer(0)] * bool(self.parts.pairs)
            found.append(Prefetch(self.weight, tuple(substitute(part, at) for part in ahead)))
        return tuple(found)

    @property
    def line(self) -> int:
        """Lanes whose weights are a line of the caches."""
        assert self.parts.reduce is not None
        pairs = self.parts.pairs
        size = pairs.lane_bytes if pairs else dtype_of(self.parts.reduce.value).bytes
        return max(1, self.parts.task.target.line // size)

    def packed_step(self) -> Sequence[Expr]:
        """Where the weights of a step lie, one index for each loop; nothing without hints."""
        if not self.ahead:
            return ()
        return self.parts.packed_index(self.number, integer(0))[max(self.ahead) + 1 : -1]

    def own_lanes(self) -> int:
        """Lanes of a step that this turn fetches where tiles share a block's next weights."""
        own = -(-self.block.width // self.share[1])
        return own if own < self.line else -(-own // self.line) * self.line

    def shared_lines(self, step: Sequence[Expr], taps: Mapping[str, Expr]) -> list[Expr]:
        """What this turn fetches at a step, as offsets from the first of the weights.

        Where several tiles use the same weights each fetches its part of the next ones, evenly
        over its steps and in the order in which they lie: all of them at once would come faster
        than memory brings them, and the hints of all other tiles would be for nothing.

        Args:
            step: where the weights of a step lie, one index for each loop.
            taps: loops that are written out.

        Returns:
            Nothing where a tile fetches all of them, line for line.
        """
        assert self.parts.reduce is not None
        (turn, turns), width, own = self.share, self.block.width, self.own_lanes()
        extents = {axis.var: axis.extent for axis in self.parts.reduce.axes}
        loops = [part.name for part in step if isinstance(part, Var) and part.name in extents]
        # Where the innermost loop is written out, neighbouring steps would fetch the same line.
        if own >= width or not loops or len(loops) < len(step) or loops[-1] in taps:
            return []
        first, place = times(turn, own), integer(0)
        if own * turns > width:
            first = Binary("min", first, integer(width - own))
        for var in loops:
            first = times(first, extents[var])
            place = plus(times(place, extents[var]), Var(var))
        start = plus(first, times(place, own))
        return [plus(start, offset) for offset in range(0, own, self.line)]

    def inside(self, place: int, fixed: Mapping[str, int]) -> bool:
        """Whether all guards of these taps hold at a position."""
        if self.clear or not isinstance(self.origin, Const):
            return True
        at = int(self.origin.value) + place
        return all(
            guard.holds(at, fixed[guard.tap])
            for guard in self.parts.tile_guards
            if guard.tap in fixed
        )

    def stores(self, sums: str = "acc") -> tuple[Stmt, ...]:
        """Writes the finished values."""
        if self.ends_in_loop:
            done, place = replace(self, sums="done"), Var("p")
            loop = For("p", integer(0), integer(self.size), done.finished("done", place))
            return with_locals(done.accumulators(), (*self.moved("done", sums), loop))
        return self.positions(self.finished(sums, self.position))

    @property
    def ends_in_loop(self) -> bool:
        """Whether sums go through memory, so that what follows them is one text for all positions.

        So it is where a function of many instructions would stand there for each position, unless
        sums are so short that the function takes most of the time.
        """
        task, reduce = self.parts.task, self.parts.reduce
        if reduce is None or not self.held or self.size < _LOOPED or max(self.block.widths) == 1:
            return False  # scalars call functions
        if self.clear and prod(axis.extent for axis in reduce.axes) < _MANY_TERMS:
            return False
        cycles = dict(task.target.costs.operations)
        nodes = walk(task.compute.value)
        called = (cycles.get(each.op, 0.0) for each in nodes if isinstance(each, Unary | Binary))
        return any(each >= _FUNCTION for each in called)

    def finished(self, sums: str, position: Expr) -> tuple[Stmt, ...]:
        """Writes the finished values of a position."""
        parts = self.parts
        found: list[Stmt] = []
        for piece, offset, width in self.block.pieces():
            bound = self.bound(position, offset)
            value = parts.task.compute.value
            if parts.reduce is not None:
                done = Load(f"{sums}{piece}", (position, Var(LANE)), dtype_of(parts.reduce.value))
                value = replaced(value, parts.reduce, done)
            index = tuple(bound.get(a.var, Var(a.var)) for a in parts.task.compute.axes)
            found.append(
                self.vector(width, Store(parts.task.output.name, index, substitute(value, bound)))
            )
        return tuple(found)


def replaced(value: Expr, old: Expr, by: Expr) -> Expr:
    """The expression with one node in place of all that equal another."""
    return map_expr(value, lambda node: by if node == old else node)
