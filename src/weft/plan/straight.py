"""Programs whose loops are written out, and whose weights are numbers in the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.naming import numbered
from weft.loops.nodes import (
    Buffer,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Load,
    LoopKind,
    Prefetch,
    Stmt,
)
from weft.loops.statements import all_exprs, blocks, map_stmts, walk_stmts, with_blocks
from weft.loops.straight import TooLong, straight
from weft.loops.walk import loads, map_expr
from weft.plan.program import Address, CallStep, Function, Program, ProgramStep, Region, Repeat

MOST_STORES = 20_000
"""Of a function that is written out whole: about a megabyte of C."""
FEW_STORES = 2_000
"""Of a function whose short loops are written out."""


def unrolled(program: Program, unroll: str) -> Program:
    """The program with loops written out.

    Args:
        program: the program.
        unroll: ``auto`` for register tiles alone, as kernels come; a number for loops of up to
            so many iterations, too, as far as functions stay short; ``full`` for all loops.

    Raises:
        UserError: ``full`` would make a function too long.
    """
    if unroll == "auto":
        return program
    most = None if unroll == "full" else int(unroll)
    limit = MOST_STORES if most is None else FEW_STORES

    def written(function: Function) -> Function:
        if not isinstance(function, Kernel):
            return function
        try:
            return straight(function, most, limit)
        except TooLong:
            raise UserError(
                f"with unroll full, a function may have {MOST_STORES:,} statements",
                got=f"more of them in {function.name}",
                fix="unroll 4 writes short loops out and leaves the others.",
            ) from None

    return replace(program, functions=tuple(written(each) for each in program.functions))


def inlined(program: Program, vectors: bool) -> Program:
    """The program with weights as numbers where the code reads one at a constant place.

    A function that several steps call with different weights becomes several.

    Args:
        program: the program.
        vectors: whether vector loops become vectors, which are read from arrays: no vector
            instruction has an operand of several numbers.  Where they do not, lanes are
            written out, too.
    """
    kernels = {each.name: each for each in program.functions if isinstance(each, Kernel)}
    writer = _Inlining(program, kernels, vectors)
    steps = tuple(writer.step(each) for each in program.steps)
    preparation = program.preparation
    if preparation is not None:
        steps_before = tuple(writer.step(each) for each in preparation.steps)
        preparation = replace(preparation, steps=steps_before)
    comments = dict(program.function_comments)
    found = {each.name: each for each in program.functions if each.name not in kernels}
    found |= writer.made
    comments |= {name: comments.get(old, ()) for name, old in writer.old.items()}
    return replace(
        program,
        functions=tuple(found.values()),
        steps=steps,
        preparation=preparation,
        function_comments=tuple((name, comments.get(name, ())) for name in found),
    )


class _Inlining:
    def __init__(self, program: Program, kernels: Mapping[str, Kernel], vectors: bool) -> None:
        self.program, self.kernels, self.vectors = program, kernels, vectors
        self.made: dict[str, Kernel] = {}
        self.old: dict[str, str] = {}
        self.known: dict[tuple[object, ...], tuple[str, tuple[int, ...]]] = {}
        self.taken = {each.name for each in program.functions}

    def step(self, step: ProgramStep) -> ProgramStep:
        if isinstance(step, Repeat):
            return replace(step, body=tuple(self.step(each) for each in step.body))
        kernel = self.kernels.get(step.function)
        if kernel is None:
            return step
        key = (step.function, *(each if _fixed(each) else None for each in step.arguments))
        if key not in self.known:
            self.known[key] = self.specialised(kernel, step)
        name, kept = self.known[key]
        return replace(
            step, function=name, arguments=tuple(step.arguments[place] for place in kept)
        )

    def specialised(self, kernel: Kernel, step: CallStep) -> tuple[str, tuple[int, ...]]:
        """The name of the function for the weights of a call, and the parameters it keeps."""
        values = self.values(kernel, step)
        body = kernel.body
        if not self.vectors and not any(map(_loops, walk_stmts(body))):
            body = tuple(_with_lanes(stmt) for stmt in body)
            body = straight(kernel.with_body(body), _MOST_LANES, MOST_STORES).body
        steps = {buffer.name: buffer.steps for buffer in kernel.params}

        def number(node: Expr) -> Expr:
            if isinstance(node, Load) and node.buffer in values:
                place = _place(node, steps[node.buffer])
                if place is not None:
                    return Const(values[node.buffer][place].item(), node.dtype)
            return node

        body = map_stmts(body, lambda expr: map_expr(expr, number))
        read = {load.buffer for load in loads(*all_exprs(body))}
        body = _without_hints(body, values.keys() - read)
        kept = tuple(
            place
            for place, buffer in enumerate(kernel.params)
            if buffer.name in read or buffer.name not in values
        )
        name = kernel.name
        if name in self.made:
            name = numbered(name, self.taken, {})
        self.taken.add(name)
        self.old[name] = kernel.name
        params = tuple(kernel.params[place] for place in kept)
        self.made[name] = replace(kernel.with_body(body), name=name, params=params)
        return name, kept

    def values(self, kernel: Kernel, step: CallStep) -> dict[str, np.ndarray]:
        """The weights of a call by parameter, flat, where they may be numbers of the code."""
        windows = {
            window.buffer
            for stmt in walk_stmts(kernel.body)
            if isinstance(stmt, Instruct)
            for window in stmt.operands
        }
        found: dict[str, np.ndarray] = {}
        for buffer, address in zip(kernel.params, step.arguments, strict=True):
            array = self.program.weights.get(address.name)
            if array is None or not _fixed(address) or buffer.name in windows:
                continue
            skipped, odd = divmod(address.offset, buffer.dtype.bytes)
            if _plain(array, buffer) and not odd:
                found[buffer.name] = np.ascontiguousarray(array).reshape(-1)[skipped:]
        return found


_MOST_LANES = 128
"""Of plain C's loops in place of vectors."""
_NUMBERS = frozenset({DType.F32, DType.F64, DType.I8, DType.U8, DType.I16, DType.I32, DType.I64})


def _plain(array: np.ndarray, buffer: Buffer) -> bool:
    """Whether an array's elements can be numbers of the code."""
    return buffer.dtype in _NUMBERS and array.dtype == buffer.dtype.numpy


def _loops(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind not in (LoopKind.VECTOR, LoopKind.UNROLL)


def _fixed(address: Address) -> bool:
    return address.region is Region.WEIGHTS and not address.advances and not address.part_bytes


def _with_lanes(stmt: Stmt) -> Stmt:
    """Loops of vectors and those written out in the text as loops that can be written out."""
    stmt = with_blocks(stmt, [tuple(map(_with_lanes, inner)) for inner in blocks(stmt)])
    if isinstance(stmt, For) and stmt.kind in (LoopKind.VECTOR, LoopKind.UNROLL):
        return replace(stmt, kind=LoopKind.SERIAL)
    return stmt


def _place(load: Load, steps: tuple[int, ...]) -> int | None:
    """The element that is read, if that is a constant."""
    total = 0
    for part, step in zip(load.index, steps, strict=True):
        if not isinstance(part, Const):
            return None
        total += int(part.value) * step
    return total


def _without_hints(stmts: tuple[Stmt, ...], gone: set[str]) -> tuple[Stmt, ...]:
    """Statements without prefetches of what is no parameter any more."""
    found: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Prefetch) and stmt.buffer in gone:
            continue
        found.append(with_blocks(stmt, [_without_hints(inner, gone) for inner in blocks(stmt)]))
    return tuple(found)
