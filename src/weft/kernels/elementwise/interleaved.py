"""Maps of planes to pixels of few channels: computed by planes, woven by an instruction.

An image whose channels lie apart, as floats come, is written with its channels side by side::

    for outer axes, run of columns:
      plane0[lane] = f(x[0, column + lane]), plane1[lane] = f(x[1, column + lane]), ...
      out[column + lane, channel] = weave(plane0, plane1, ...)
"""

from __future__ import annotations

from functools import partial

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
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
from weft.loops.instruction import Instruction, instructions, weaves
from weft.loops.nodes import (
    Access,
    Buffer,
    Expr,
    Instruct,
    Kernel,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import loads, reduces, substitute
from weft.plan.implementation import Implementation, Operand

_RUN = "run"


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """These loops, where they apply: nothing that computes the same writes vectors otherwise."""
    if len(task.compute.axes) < 2 or reduces(task.compute.value):
        return Refusal("it is no map of an image")
    columns, channels = task.compute.axes[-2:]
    if task.output.steps[-2:] != (channels.extent, 1):
        return Refusal("the output's channels do not lie side by side")
    if not _reads_along(task, columns.var):
        return Refusal("nothing that it reads lies side by side along the columns")
    for row in instructions().values():
        lanes = row.meaning.params[0].shape[:1]
        shape = (*lanes, channels.extent)
        fits = row.needs in task.target.features and lanes and columns.extent >= lanes[0]
        if fits and weaves(row, shape, task.output.dtype):
            return (
                Alternative("interleaved", 0.0, Sums("map"), partial(_generate, task, row), always),
            )
    return Refusal("the target has no instruction that weaves so many channels")


def _reads_along(task: Task, var: str) -> bool:
    """Whether an input lies side by side along an axis."""
    buffers = {buffer.name: buffer for buffer in task.inputs}
    return any(
        part == Var(var) and step == 1
        for load in loads(task.compute.value)
        if load.buffer in buffers
        for part, step in zip(load.index, buffers[load.buffer].steps, strict=True)
    )


def _generate(task: Task, row: Instruction) -> Implementation:
    """The kernel."""
    *outer, columns, channels = task.compute.axes
    lanes = row.meaning.params[0].shape[0]
    count, rest = divmod(columns.extent, lanes)

    def value(column: Expr, channel: Expr) -> Expr:
        return substitute(task.compute.value, {columns.var: column, channels.var: channel})

    names = [f"plane{channel}" for channel in range(channels.extent)]
    buffers = [Buffer(name, task.output.dtype, (lanes,), Access.LOCAL) for name in names]
    first = times(Var(_RUN), lanes)
    body: list[Stmt] = [
        for_lanes(lanes, Store(name, (Var(LANE),), value(plus(first, Var(LANE)), integer(channel))))
        for channel, name in enumerate(names)
    ]
    zero, at = integer(0), [Var(axis.var) for axis in outer]
    dtype = task.output.dtype
    operands = [Load(task.output.name, (*at, first, zero), dtype)]
    operands += [Load(name, (zero,), dtype) for name in names]
    body.append(Instruct(row.name, tuple(operands)))
    loops: list[Stmt] = [
        for_range(_RUN, count, with_locals(buffers, tuple(body)), LoopKind.PARALLEL)
    ]
    if rest:
        column = plus(Var(columns.var), count * lanes)
        index = (*at, column, Var(channels.var))
        store = Store(task.output.name, index, value(column, Var(channels.var)))
        inner = nested([channels], (store,))
        loops.append(for_range(columns.var, rest, inner))
    found = nested(outer, tuple(loops), LoopKind.PARALLEL)
    kernel = simplify_kernel(Kernel(task.name, (*task.inputs, task.output), found))
    return Implementation(kernel, tuple(map(Operand, task.values)), "interleaved")


GENERATOR = Generator(
    "interleaved",
    "Maps of planes to pixels of few channels, such as a quantized image: vectors along the "
    "columns of each plane, which an instruction weaves.",
    (
        "every element of the output by itself, without a reduction",
        "channels side by side in the output, columns side by side in an input",
        "the target has an instruction that weaves so many channels",
    ),
    propose,
    any_threads=True,
)
