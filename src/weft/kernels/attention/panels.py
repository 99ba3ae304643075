"""Factors of the products in attention, laid out for them, and chunks of keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.dtypes import DType
from weft.kernels.elementwise import maps as elementwise
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import LANE, for_range, integer, nested, plus, times, vector
from weft.loops.definition import Compute
from weft.loops.nodes import Access, Axis, Buffer, Const, Expr, Stmt, Store, Var
from weft.loops.statements import rename_buffers
from weft.loops.walk import substitute
from weft.records import dataclass

_F32 = DType.F32
_OUT = "out"


@dataclass(frozen=True)
class Panels:
    """A factor of a product, laid out for it: ``[panel][step of the sum][lane]``.

    Attributes:
        name: of the first buffer; value: of an element.
        lanes: the axis of vectors; depth: of the sum.
        blocks: of lanes, the last maybe wider than what is left.
    """

    name: str
    value: Expr
    lanes: Axis
    depth: Axis
    blocks: tuple[LaneBlock, ...]

    def buffer(self, number: int) -> Buffer:
        """The panels of a block."""
        block = self.blocks[number]
        shape = (block.count, self.depth.extent, block.width)
        return Buffer(f"{self.name}_{number}", _F32, shape, Access.LOCAL)

    def laid_out(self, task: Task) -> Iterator[Stmt]:
        """The loops that fill the panels."""
        for number, block in enumerate(self.blocks):
            buffer = self.buffer(number)
            own = min(block.width, self.lanes.extent - block.start)
            if own < block.width:
                yield self.cleared(buffer, block)
            lane = plus(plus(times(Var("group"), block.width), block.start), Var("spot"))
            axes = (Axis("group", block.count), self.depth, Axis("spot", own))
            compute = Compute(axes, substitute(self.value, {self.lanes.var: lane}))
            inner = replace(task, compute=compute, output=replace(buffer, name=_OUT))
            yield from rename_buffers(
                elementwise.loops(inner) or _plainly(inner), {_OUT: buffer.name}
            )

    def cleared(self, buffer: Buffer, block: LaneBlock) -> Stmt:
        """Zeros in the lanes that nothing belongs to, and in others."""
        body: list[Stmt] = []
        for _, lane, width in block.pieces():
            place = (integer(0), Var(self.depth.var), plus(integer(lane), Var(LANE)))
            body.append(vector(width, Store(buffer.name, place, Const(0.0, _F32))))
        return for_range(self.depth.var, self.depth.extent, tuple(body))


@dataclass(frozen=True)
class Chunk:
    """Keys whose scores are there at once.

    Attributes:
        start: the first of them; count: how many there are.
        pieces: for every block of panels its number, its first panel, and the block, whose
            start is counted from the chunk's.
    """

    start: Expr
    count: int
    pieces: tuple[tuple[int, Expr, LaneBlock], ...]


def _plainly(task: Task) -> tuple[Stmt, ...]:
    """One element after another."""
    point = tuple(Var(axis.var) for axis in task.compute.axes)
    return nested(task.compute.axes, (Store(_OUT, point, task.compute.value),))
