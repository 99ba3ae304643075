"""Dense layers of one row whose weights are read where they lie.

Weights that are given at run time are packed in memory of their own.  A layer that reads each of
them once a run, from memory, gains nothing from that: a few rows at a time are streams, too::

    for block of rows:
      for k:  deep[row][lane] += x[lanes * k + lane] * w[row][lanes * k + lane]
      out[row] = epilogue(sum of deep[row])

So 411 MB of weights of the first dense layer of VGG-16 are neither copied nor held twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import prod

from weft.ir.unknown import IN_PLACE_BYTES
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.products.reduction_lanes import Deep, deep_axis, halves, powers
from weft.kernels.products.tile_form import lane_count
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import FEW_REGISTERS, LaneBlock
from weft.kernels.writer import LANE, block_origin, for_range, integer, plus, times
from weft.loops.definition import neutral
from weft.loops.nodes import Access, Binary, Buffer, Expr, Kernel, Load, LoopKind, Stmt, Store, Var
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import substitute
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass

ROWS, FEW_ROWS = 16, 8
"""Rows at a time, and with few registers: sums that hide the latency of additions, and streams.

4 to 16 rows of 8192 or 25088 come at the rate of packed weights (Emerald Rapids).  The MLP 3x8192
takes 0 to 2 % less with 16 than with 8, and with 4 layers of 4096 took 2 to 6 % longer than with 8
(Xeon with AMX).
"""


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """The one form; it comes before packed ones, which are as fast."""
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    weight = next((each for each in task.inputs if each.name == parts.weight), None)
    if weight is None or weight.name in task.arrays:
        return Refusal("the weights are known, or there are none")
    if weight.dtype.bytes * prod(weight.shape) < IN_PLACE_BYTES:
        return Refusal(f"the weights are less than {IN_PLACE_BYTES:,} bytes")
    if parts.outer or (parts.tile is not None and parts.tile.extent > 1):
        return Refusal("several rows read the same weights")
    axis, lanes = deep_axis(parts), lane_count(parts)
    if axis is None or parts.reduce is None or len(parts.reduce.axes) > 1 or parts.pairs:
        return Refusal("what is summed does not lie along the rows of the weights")
    if axis.extent % lanes:
        return Refusal(f"rows are no whole vectors of {lanes}")
    make = partial(write, parts)
    return (Alternative(_name(parts), cycles(parts), Sums("tiled", (lanes,)), make, always),)


def cycles(parts: Contraction) -> float:
    """Cycles of the multiply-adds: no more than packed weights are said to take."""
    assert parts.reduce is not None
    terms = prod(axis.extent for axis in parts.reduce.axes)
    return parts.lane_extent * terms / lane_count(parts) / parts.task.target.multiply_adds


def write(parts: Contraction) -> Implementation:
    """The kernel; it takes the weights as they are."""
    task = parts.task
    body = tuple(_block(parts, block) for block in _blocks(parts))
    kernel = simplify_kernel(Kernel(task.name, (*task.inputs, task.output), body))
    operands = tuple(Operand(value) for value in task.values)
    return Implementation(kernel, operands, _name(parts))


def _name(parts: Contraction) -> str:
    return f"rows-in-place-{_at_a_time(parts)}"


def _at_a_time(parts: Contraction) -> int:
    """How many rows are read at a time."""
    return FEW_ROWS if parts.task.target.registers <= FEW_REGISTERS else ROWS


def _blocks(parts: Contraction) -> Iterator[LaneBlock]:
    """Blocks of rows."""
    lanes, rows = lane_count(parts), _at_a_time(parts)
    whole, rest = divmod(parts.lane_extent, rows)
    if whole:
        yield LaneBlock(0, whole, powers(rows, lanes), lanes)
    if rest:
        yield LaneBlock(whole * rows, 1, powers(rest, lanes), lanes)


def _block(parts: Contraction, block: LaneBlock) -> Stmt:
    """The loop over the blocks of one size."""
    number = Var("block") if block.count > 1 else integer(0)
    inner = _Rows(parts, block, block_origin(block, "block"), number, "", integer(0), 1)
    return for_range("block", block.count, inner.statements(), LoopKind.PARALLEL)


@dataclass
class _Rows(Deep):
    """Deep vectors, each of one row of weights that are not packed.

    They are folded into one another, as those of several positions elsewhere.
    """

    def accumulators(self) -> tuple[Buffer, ...]:
        """One vector for each row."""
        return (Buffer("deep", self.dtype, (self.block.width, self.lanes), Access.LOCAL),)

    def rows(self) -> list[int]:
        """How many vectors are left of all after each stage of folding."""
        return halves(self.block.width, self.block.depth)

    def stages(self) -> tuple[Buffer, ...]:
        """What folding makes."""
        return tuple(
            Buffer(f"fold{stage}", self.dtype, (count, self.lanes), Access.LOCAL)
            for stage, count in enumerate(self.rows()[1:], 1)
        )

    def starts(self, span: tuple[int, int] | None = None) -> tuple[Stmt, ...]:
        """Clears the vectors."""
        del span
        zero = neutral("sum", self.dtype)
        return tuple(self.vector(self.lanes, Store("deep", place, zero)) for place in self.places)

    def update(self, position: Expr, taps: Mapping[str, Expr]) -> tuple[Stmt, ...]:
        """``deep = deep + value`` for all rows."""
        axis, lanes = deep_axis(self.parts), self.parts.lanes
        assert axis is not None
        assert lanes is not None
        assert self.parts.value is not None
        term = plus(times(Var(axis.var), self.lanes), Var(LANE))
        value = substitute(self.parts.value, {axis.var: term})
        found: list[Stmt] = []
        for row, place in enumerate(self.places):
            at = {**self.bound(position, 0), lanes.var: plus(self.first, row), **taps}
            sum = Binary("add", Load("deep", place, self.dtype), substitute(value, at))
            found.append(self.vector(self.lanes, Store("deep", place, sum)))
        return tuple(found)

    @property
    def places(self) -> list[tuple[Expr, Expr]]:
        """Where the vectors are."""
        return [(integer(row), Var(LANE)) for row in range(self.block.width)]

    def folds(self) -> Iterator[Stmt]:
        """Adds up the parts of each sum, so that those of neighbouring rows are neighbours."""
        counts, old = self.rows(), "deep"
        for stage, count in enumerate(counts[1:], 1):
            for row in range(count):
                sum = self.pairs(old, 2 * row, min(2 * row + 1, counts[stage - 1] - 1))
                place = (integer(row), Var(LANE))
                yield self.vector(self.lanes, Store(f"fold{stage}", place, sum))
            old = f"fold{stage}"
        for piece, offset, width in self.block.pieces():
            row, lane = divmod(offset, self.lanes)
            done = Load(old, (integer(row), plus(integer(lane), Var(LANE))), self.dtype)
            yield self.vector(width, Store(f"acc{piece}", (integer(0), Var(LANE)), done))


GENERATOR = Generator(
    "rows-in-place",
    "Dense layers of one row with many weights that are given at run time, which are read where "
    "they lie: rows of weights along vectors.",
    (
        f"weights of at least {IN_PLACE_BYTES:,} bytes that are given at run time, read once",
        "one row of inputs, and weights whose rows are whole vectors, in dialects with vectors",
    ),
    propose,
    any_threads=True,
)
