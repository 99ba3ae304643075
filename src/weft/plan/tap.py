"""A program that also hands out what its steps make, for comparing layer by layer.

The steps stay as they are: after each one whose result is wanted, a copy to an output of
its own is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from weft.dtypes import DType
from weft.ir.naming import fresh
from weft.ir.types import TensorType
from weft.loops.nodes import Access, Buffer, Const, For, Kernel, Load, Stmt, Store, Var
from weft.plan.plan import Plan, PlannedStep
from weft.plan.program import Address, CallStep, Function, Port, Program, Region, Repeat, Step
from weft.plan.strides import View


def _gather(name: str, type: TensorType, view: View) -> Kernel:
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


def _address(plan: Plan, value: str) -> Address:
    view = plan.views[value]
    root = plan.roots[view.root]
    offset = view.offset * plan.types[value].dtype.bytes
    if root.region is Region.ARENA:
        return Address(Region.ARENA, "", plan.offsets[root.value] + offset)
    return Address(root.region, root.value, offset)


def step_runs(plan: Plan, program: Program) -> Iterator[tuple[PlannedStep, Sequence[Step]]]:
    """The steps of the program that each step of the plan became."""
    steps = iter(program.steps)
    for planned in plan.steps:
        run = [next(steps)]
        # A scan sets up its states first; its loop comes last.
        while planned.nested is not None and not isinstance(run[-1], Repeat):
            run.append(next(steps))
        yield planned, run


def tap(plan: Plan, program: Program, values: Collection[str]) -> Program:
    """The program with further outputs.

    Args:
        plan: what the program was lowered from.
        program: all its steps.
        values: what is wanted; what no step makes is left out.

    Returns:
        A program whose outputs are those of ``program`` and one for each value that
        was found, in order of execution.
    """
    taken = {function.name for function in program.functions}
    functions: list[Function] = list(program.functions)
    steps: list[Step] = []
    outputs: list[Port] = []
    ports = {port.name for port in program.outputs}
    for planned, run in step_runs(plan, program):
        steps += run
        for value in planned.writes:
            type = plan.types[value]
            if value not in values or value in ports or type.size == 0:
                continue
            name = fresh(f"tap_{len(outputs)}", taken)
            taken.add(name)
            functions.append(_gather(name, type, plan.views[value]))
            target = Address(Region.OUTPUT, value)
            steps.append(CallStep(name, (_address(plan, value), target)))
            outputs.append(Port(value, type.dtype, type.dims))
    return replace(
        program,
        functions=tuple(functions),
        steps=tuple(steps),
        outputs=(*program.outputs, *outputs),
    )
