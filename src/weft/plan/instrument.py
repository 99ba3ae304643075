"""A program that also hands out what its steps make, for comparing layer by layer.

The steps stay as they are: after each one whose result is wanted, a copy is added.  All copies go
to one further output, as functions of C cannot be relied on to take as many arguments as large
networks have steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, islice

import numpy as np

from weft.dtypes import DType
from weft.ir.naming import fresh
from weft.ir.types import TensorType
from weft.loops.nodes import Access, Buffer, Const, For, Kernel, Load, Stmt, Store, Var
from weft.plan.plan import Plan, PlannedStep
from weft.plan.program import (
    Address,
    CallStep,
    Port,
    Program,
    ProgramStep,
    Region,
    located,
)
from weft.plan.scans import scan_of
from weft.plan.strides import StridedView
from weft.records import dataclass

# Of every copy from the start of the output, which is made of 64-bit numbers.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Tap:
    """Where the copy of a value is.

    Attributes:
        value: its name.
        type: its type.
        offset: bytes from the start of the output that has all copies.
    """

    value: str
    type: TensorType
    offset: int

    def read(self, memory: np.ndarray) -> np.ndarray:
        """The value, given that output."""
        size = self.type.size * self.type.dtype.bytes
        found = memory.view(np.uint8)[self.offset : self.offset + size]
        return found.view(self.type.dtype.numpy).reshape(self.type.dims)


@dataclass(frozen=True)
class Tapped:
    """A program with one more output, and what is in it.

    Attributes:
        program: its last output has the copies, if there are any.
        taps: in order of execution.
    """

    program: Program
    taps: tuple[Tap, ...]

    def named(self, outputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of the untapped program, then the copies, by name."""
        own = self.program.outputs[: -1 if self.taps else None]
        found = {port.name: array for port, array in zip(own, outputs, strict=False)}
        return found | {each.value: each.read(outputs[-1]) for each in self.taps}


def _gather(name: str, type: TensorType, view: StridedView) -> Kernel:
    """Copies a view of memory to a packed tensor."""
    shape = type.dims
    index = tuple(Var(f"i{axis}") for axis in range(len(shape)))
    params = (
        Buffer("in0", type.dtype, shape, Access.READ, view.strides),
        Buffer("out", type.dtype, shape, Access.WRITE),
    )
    body: tuple[Stmt, ...] = (Store("out", index, Load("in0", index, type.dtype)),)
    for var, extent in reversed(list(zip(index, shape, strict=True))):
        body = (For(var.name, Const(0, DType.I64), Const(extent, DType.I64), body),)
    return Kernel(name, params, body)


def value_address(plan: Plan, value: str) -> Address:
    """Where a value begins in a program's memory."""
    view = plan.views[value]
    root = plan.roots[view.root]
    offset = view.offset * plan.types[value].dtype.bytes
    if root.region is Region.ARENA:
        return Address(Region.ARENA, *located(plan.arenas, plan.offsets[root.value] + offset))
    if root.region is Region.STATE:
        return Address(Region.STATE, "", plan.state_offsets[root.value] + offset)
    return Address(root.region, root.value, offset)


def step_runs(plan: Plan, program: Program) -> Iterator[tuple[PlannedStep, Sequence[ProgramStep]]]:
    """The steps of the program that each step of the plan became."""
    steps = iter(program.steps)
    for planned in plan.steps:
        yield planned, list(islice(steps, _count(plan, planned)))


def _count(plan: Plan, step: PlannedStep) -> int:
    """How many steps of the program a step of the plan becomes, a loop counting as one.

    A scan sets up its states first; of an odd number, its first iteration stands before the loop.
    """
    if step.nested is None:
        return 1
    (node,) = step.nodes
    scan = scan_of(node, step.nested.graph, plan.types)
    before = 0
    if scan.count > 1 and scan.count % 2:
        before = sum(_count(step.nested, each) for each in step.nested.steps)
    return len(scan.states) + before + 1


def step_ends(plan: Plan, program: Program) -> tuple[int, ...]:
    """For each step of the plan, how many steps of the program are done when it is."""
    return tuple(accumulate(len(run) for _, run in step_runs(plan, program)))


def tap(plan: Plan, program: Program, values: Collection[str]) -> Tapped:
    """The program that also hands out values.

    Args:
        plan: what the program was lowered from.
        program: all its steps.
        values: what is wanted; what no step makes is left out.
    """
    taken = {function.name for function in program.functions}
    copies: dict[tuple[TensorType, tuple[int, ...]], Kernel] = {}
    steps: list[ProgramStep] = []
    taps: list[Tap] = []
    size = 0
    ports = {port.name for port in program.outputs}
    output = fresh("taps", ports | {port.name for port in program.inputs})
    for planned, run in step_runs(plan, program):
        steps += run
        for value in planned.writes:
            type, view = plan.types[value], plan.views[value]
            if value not in values or value in ports or type.size == 0:
                continue
            copy = copies.get((type, view.strides))
            if copy is None:
                copy = _gather(fresh(f"tap_{len(copies)}", taken), type, view)
                copies[type, view.strides] = copy
            target = Address(Region.OUTPUT, output, size)
            steps.append(CallStep(copy.name, (value_address(plan, value), target)))
            taps.append(Tap(value, type, size))
            size += -(-type.size * type.dtype.bytes // _ALIGNMENT) * _ALIGNMENT
    if not taps:
        return Tapped(program, ())
    changed = replace(
        program,
        functions=(*program.functions, *copies.values()),
        steps=tuple(steps),
        outputs=(*program.outputs, Port(output, DType.I64, (size // DType.I64.bytes,))),
    )
    return Tapped(changed, tuple(taps))
