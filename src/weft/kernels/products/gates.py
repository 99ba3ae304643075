"""Products of vectors and several matrices, put together element by element: gates of a cell.

A step of a recurrent layer multiplies its state by a matrix for every gate.  The sums of a block
of units stay in registers until all gates have theirs; what the step makes of them is computed
there::

    for block of units:                     (a gate's weights of a block are one stream)
      for k, gate:  acc[gate][lane] += x[k] * w[gate][k][lane]
      out[lane] = f(acc[...][lane])

So nothing is stored of the sums, and threads share whole units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.contraction import Contraction, contraction_of
from weft.kernels.generator import Generator
from weft.kernels.products.microkernel import Microkernel, replaced
from weft.kernels.products.sum_blocks import block_size
from weft.kernels.products.tile_form import lane_count
from weft.kernels.products.tiled import packed_weight
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of, slender
from weft.kernels.writer import (
    LANE,
    block_origin,
    for_lanes,
    for_range,
    integer,
    plus,
    times,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Load,
    LoopKind,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import loads, substitute, walk
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass

VECTORS = (2, 4, 8, 1)
"""Vectors of a block of units, whose sums are in registers together; the best first where
caches decide.  Of small blocks the next one's weights arrive while functions of the sums are
computed; blocks of one vector measured slower than of two."""
_TERM = "k"


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """Blocks of as many vectors as there may be, or fewer."""
    gates = gates_of(task)
    if isinstance(gates, Refusal):
        return gates
    task_lanes = lane_count(gates[0])
    count = -(-gates[0].lane_extent // task_lanes)
    most = max(1, (task.target.registers - 2) // len(gates))
    found = [
        Alternative(
            f"gates-{vectors}",
            _cycles(gates, vectors),
            Sums("tiled", (1,)),
            partial(_write, task, gates, vectors),
            always,
        )
        for vectors in VECTORS
        if vectors <= min(count, most) or vectors == 1
    ]
    return tuple(sorted(found, key=lambda each: each.cost))


def _cycles(gates: Sequence[Contraction], vectors: int) -> float:
    """About how many cycles the sums take on one core, their weights in its caches."""
    target, first = gates[0].task.target, gates[0]
    blocks = slender(blocks_of(first.lane_extent, lane_count(first), vectors), vectors)
    total = 0.0
    for block in blocks:
        sums = len(gates) * len(block.widths)
        step = max(sums / target.multiply_adds, (sums + 1) / target.loads, target.issue.latency)
        total += block.count * (_terms(first) * step + target.costs.tile)
    weights = len(gates) * _terms(first) * first.lane_extent * DType.F32.bytes
    far = bool(target.caches) and weights > target.caches[0] // 2
    return max(total, weights / target.near) if far else total


def gates_of(task: Task) -> tuple[Contraction, ...] | Refusal:
    """The products, each taken apart as if it were alone, or why this is something else."""
    return task.fact(_gates)


def _gates(task: Task) -> tuple[Contraction, ...] | Refusal:
    sums = [node for node in dict.fromkeys(walk(task.compute.value)) if isinstance(node, Reduce)]
    if len(sums) < 2:
        return Refusal("it is not made of several sums")
    found: list[Contraction] = []
    for each in sums:
        parts = contraction_of(_alone(task, each))
        if isinstance(parts, Refusal) or not _is_product(parts):
            return Refusal("a sum is no product of a vector and a constant f32 matrix")
        found.append(parts)
    if len({_terms(parts) for parts in found}) > 1:
        return Refusal("its sums have different numbers of terms")
    rest = task.compute.value
    for each in sums:
        rest = replaced(rest, each, Const(0.0, DType.F32))
    if {load.buffer for load in loads(rest)} & {parts.weight for parts in found}:
        return Refusal("a matrix is read beside its product")
    return tuple(found)


def _alone(task: Task, sum: Reduce) -> Task:
    """The task that computes one of the sums only."""
    return Task(
        task.name,
        task.values,
        Compute(task.compute.axes, sum),
        task.inputs,
        task.output,
        task.constants,
        task.target,
        task.threads,
        task.exact,
    )


def _is_product(parts: Contraction) -> bool:
    image = parts.image
    return (
        parts.weight is not None
        and parts.lanes is not None
        and parts.tile is None
        and not parts.outer
        and not parts.guards
        and image is not None
        and parts.reduce is not None
        and parts.reduce.op == "sum"
    )


def _write(task: Task, gates: tuple[Contraction, ...], vectors: int) -> Implementation:
    return _Writer(task, gates, vectors).implementation()


@dataclass
class _Writer:
    """Writes the loops of one task."""

    task: Task
    gates: tuple[Contraction, ...]
    vectors: int
    params: list[Buffer] = field(default_factory=list[Buffer])
    operands: list[Operand] = field(default_factory=list[Operand])

    def implementation(self) -> Implementation:
        packed = {each.weight for each in self.gates}
        for buffer in self.task.inputs:
            if buffer.name not in packed:
                self.params.append(buffer)
                self.operands.append(Operand(self.task.value_of(buffer.name)))
        parts = self.gates[0]
        blocks = blocks_of(parts.lane_extent, lane_count(parts), self.vectors)
        body = [self.block(block) for block in slender(blocks, self.vectors)]
        kernel = Kernel(self.task.name, (*self.params, self.task.output), tuple(body))
        name = f"gates-{self.vectors}"
        return Implementation(simplify_kernel(kernel), tuple(self.operands), name)

    def block(self, block: LaneBlock) -> Stmt:
        """All units of blocks of some lanes."""
        number = Var("block") if block.count > 1 else integer(0)
        first = block_origin(block, "block")
        cells = [
            Microkernel(
                each, block, first, number, self.pack(each, block), None, 1, sums=f"gate{n}_"
            )
            for n, each in enumerate(self.gates)
        ]
        held = [buffer for cell in cells for buffer in cell.accumulators()]
        body = with_locals(held, (*self.sums(cells), *self.stores(cells)))
        return for_range("block", block.count, body, LoopKind.PARALLEL)

    def pack(self, parts: Contraction, block: LaneBlock) -> str:
        """The parameter that holds a gate's weights of a block."""
        weight = parts.weight or ""
        taken = {each.name for each in self.params}
        name, count = weight, 0
        while name in taken:
            count += 1
            name = f"{weight}_{count}"
        buffer, operand = packed_weight(parts, block, name)
        self.params.append(buffer)
        self.operands.append(operand)
        return name

    def sums(self, cells: Sequence[Microkernel]) -> tuple[Stmt, ...]:
        """The sums of all gates, term by term; in blocks of terms where there are many."""
        extent = _terms(self.gates[0])
        starts = _of_all(cells, Microkernel.starts)
        terms = _of_all(cells, _term)
        size = block_size(self.gates[0], [extent], cells[0].block_terms)
        if not size:
            return (*starts, for_range(_TERM, extent, terms))
        part, count = Var("part"), -(-extent // size)
        stop: Expr = plus(times(part, size), size)
        stop = Binary("min", stop, integer(extent)) if extent % size else stop
        totals = [replace(cell, sums=f"total_{cell.sums}") for cell in cells]
        added = _of_all(cells, lambda cell: cell.moved(cell.sums, cell.sums, f"total_{cell.sums}"))
        kept = _of_all(cells, lambda cell: cell.moved(f"total_{cell.sums}", cell.sums))
        body = (
            *starts,
            For(_TERM, times(part, size), stop, terms),
            If(Binary("gt", part, integer(0)), added),
            If(Binary("lt", part, integer(count - 1)), kept),
        )
        held = [buffer for total in totals for buffer in total.accumulators()]
        loop = for_range("part", count, body)
        return with_locals(held, (*_of_all(totals, Microkernel.starts), loop))

    def stores(self, cells: Sequence[Microkernel]) -> Iterator[Stmt]:
        """What is made of the sums."""
        compute = self.task.compute
        for piece, offset, width in cells[0].block.pieces():
            bound, value = cells[0].bound(integer(0), offset), compute.value
            for cell in cells:
                assert cell.parts.reduce is not None
                done = Load(f"{cell.sums}{piece}", (integer(0), Var(LANE)), DType.F32)
                value = replaced(value, cell.parts.reduce, done)
            index = tuple(bound.get(axis.var, Var(axis.var)) for axis in compute.axes)
            value = substitute(value, bound)
            yield for_lanes(width, Store(self.task.output.name, index, value))


def _of_all(
    cells: Sequence[Microkernel], part: Callable[[Microkernel], tuple[Stmt, ...]]
) -> tuple[Stmt, ...]:
    return tuple(stmt for cell in cells for stmt in part(cell))


def _term(cell: Microkernel) -> tuple[Stmt, ...]:
    """Adds one term to a gate's sums."""
    (axis,) = cell.parts.loop_order()
    return cell.update(integer(0), {axis: Var(_TERM)})


def _terms(parts: Contraction) -> int:
    """How many terms a gate's sums have."""
    assert parts.reduce is not None
    return prod(axis.extent for axis in parts.reduce.axes)


GENERATOR = Generator(
    "gates",
    "Products of vectors and several constant matrices that are put together element by element, "
    "as in cells of recurrent layers: all sums of a block of units stay in registers.",
    (
        "several sums, each of the products of an f32 vector and a constant f32 matrix",
        "what is made of them is computed element by element",
    ),
    propose,
    any_threads=True,
)
