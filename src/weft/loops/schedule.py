"""Schedules: functions kernel -> kernel that change how, and never what, is computed.

Each names loops by their variables, which are unique in a kernel, and raises a
``ScheduleError`` that says why where it would change the meaning or does not apply.  The
result is not simplified: run ``weft.loops.simplify.simplify_kernel`` after the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.errors import InternalError
from weft.loops.dependence import accumulates_exactly, buffers_of, carried
from weft.loops.nodes import (
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Local,
    LoopKind,
    Stmt,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.simplify import simplify
from weft.loops.statements import (
    blocks,
    names_in,
    rename_buffers,
    stored,
    substitute_stmts,
    walk_stmts,
    with_blocks,
)
from weft.loops.walk import FreshNames, free_vars, index, loads

_Rewrite = Callable[[For, Facts], Sequence[Stmt]]


class ScheduleError(InternalError):
    """A schedule step that does not apply, with the reason."""


def split(kernel: Kernel, var: str, factor: int) -> Kernel:
    """Splits a loop into blocks of ``factor`` iterations: ``var_outer`` and ``var_inner``.

    Where the extent is not a multiple of the factor, the rest runs in a loop of its own
    after the blocks.
    """
    if factor < 1:
        raise ScheduleError(f"split {var}: the factor must be positive, it is {factor}")
    names = names_of(kernel)
    outer, inner = names(f"{var}_outer"), names(f"{var}_inner")

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        if loop.kind is LoopKind.VECTOR:
            raise ScheduleError(f"split {var}: it is a vector loop already")
        _fixed_bounds("split", loop)
        extent = simplify(Binary("max", _sub(loop.stop, loop.start), index(0)), facts)
        count = Binary("floordiv", extent, index(factor))
        done = Binary("mul", Var(outer), index(factor))
        offset = Binary("add", done, Var(inner))
        body = substitute_stmts(loop.body, {var: _add(loop.start, offset)})
        rest: tuple[Stmt, ...] = ()
        if simplify(Binary("mod", extent, index(factor)), facts) != index(0):
            begin = simplify(_add(loop.start, Binary("mul", count, index(factor))), facts)
            rest = copied((replace(loop, start=begin),), names)
        blocked = For(inner, index(0), index(factor), body)
        return (For(outer, index(0), simplify(count, facts), (blocked,), loop.kind), *rest)

    return at_loop(kernel, var, rewrite)


def reorder(kernel: Kernel, order: Sequence[str]) -> Kernel:
    """Puts the loops of a perfect nest into another order, outermost first.

    Loops that carry a dependence keep their order among themselves, unless all that they
    do is to accumulate integers.
    """
    named = set(order)
    found = [
        stmt for stmt in walk_stmts(kernel.body) if isinstance(stmt, For) and stmt.var in named
    ]
    if len(found) != len(order):
        missing = sorted(named - {loop.var for loop in found})
        raise ScheduleError(f"reorder: there is no loop {', '.join(missing) or 'named twice'}")

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        nest = perfect_nest("reorder", loop, len(order))
        if {each.var for each in nest} != named:
            raise ScheduleError(f"reorder: {', '.join(order)} are not one nest of loops")
        for each in nest:
            read = (free_vars(each.start) | free_vars(each.stop)) & named
            if read:
                raise ScheduleError(
                    f"reorder: the bounds of {each.var} depend on {', '.join(sorted(read))}"
                )
            _fixed_bounds("reorder", each)
            if each.kind is LoopKind.VECTOR:
                raise ScheduleError(f"reorder: {each.var} is a vector loop")
        dependent = _dependent(nest, facts, buffers_of(kernel))
        kept = [each for each in order if each in dependent]
        before = [each.var for each in nest if each.var in dependent]
        if kept != before:
            raise ScheduleError(
                f"reorder: loops {', '.join(before)} carry a dependence and must keep their "
                f"order ({next(iter(dependent.values()))})"
            )
        by_name = {each.var: each for each in nest}
        body = nest[-1].body
        for each in reversed(order):
            body = (replace(by_name[each], body=body),)
        return body

    return at_loop(kernel, found[0].var if found else "", rewrite)


def unroll(kernel: Kernel, var: str) -> Kernel:
    """Marks a loop of constant extent to be written out in the generated text."""

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        _constant("unroll", loop)
        if loop.kind is not LoopKind.SERIAL:
            raise ScheduleError(f"unroll: {var} is {loop.kind.value} already")
        return (replace(loop, kind=LoopKind.UNROLL),)

    return at_loop(kernel, var, rewrite)


def vectorize(kernel: Kernel, var: str) -> Kernel:
    """Runs an innermost loop of constant extent as the lanes of vectors."""

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        _constant("vectorize", loop)
        if any(isinstance(stmt, For) for stmt in walk_stmts(loop.body)):
            raise ScheduleError(f"vectorize: {var} is not an innermost loop")
        if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLL):
            raise ScheduleError(f"vectorize: {var} is {loop.kind.value} already")
        reason = carried(loop, facts, buffers_of(kernel))
        if reason:
            raise ScheduleError(f"vectorize: {reason}")
        return (replace(loop, kind=LoopKind.VECTOR),)

    return at_loop(kernel, var, rewrite)


# --- finding and checking -----------------------------------------------------------------------


def at_loop(kernel: Kernel, var: str, rewrite: _Rewrite) -> Kernel:
    """The kernel with one loop rewritten."""
    found: list[For] = []

    def visit(stmt: Stmt, facts: Facts) -> tuple[Stmt, ...]:
        if isinstance(stmt, For):
            if stmt.var == var:
                found.append(stmt)
                return tuple(rewrite(stmt, facts))
            return (replace(stmt, body=block(stmt.body, facts.enter(stmt))),)
        if isinstance(stmt, If):
            then = block(stmt.then, facts.assume(stmt.condition, True, stmt.then))
            otherwise = facts.assume(stmt.condition, False, stmt.otherwise)
            return (If(stmt.condition, then, block(stmt.otherwise, otherwise)),)
        return (with_blocks(stmt, [block(inner, facts) for inner in blocks(stmt)]),)

    def block(stmts: Sequence[Stmt], facts: Facts) -> tuple[Stmt, ...]:
        return tuple(new for stmt in stmts for new in visit(stmt, facts))

    body = block(kernel.body, Facts())
    if len(found) != 1:
        raise ScheduleError(f"there {'are several loops' if found else 'is no loop'} {var}")
    return kernel.with_body(body)


def perfect_nest(step: str, loop: For, depth: int) -> list[For]:
    """A loop and those right inside it, nothing beside them."""
    nest = [loop]
    while len(nest) < depth:
        body = nest[-1].body
        if len(body) != 1 or not isinstance(body[0], For):
            raise ScheduleError(f"{step}: there is more than one loop inside {nest[-1].var}")
        nest.append(body[0])
    return nest


def _constant(step: str, loop: For) -> tuple[int, int]:
    if not (isinstance(loop.start, Const) and isinstance(loop.stop, Const)):
        raise ScheduleError(f"{step}: the bounds of {loop.var} are not constant")
    return int(loop.start.value), int(loop.stop.value)


def _fixed_bounds(step: str, loop: For) -> None:
    """Bounds are evaluated once: where they are written again, they must not have changed."""
    read = {load.buffer for bound in (loop.start, loop.stop) for load in loads(bound)}
    changed = read & stored(loop.body)
    if changed:
        raise ScheduleError(
            f"{step}: {loop.var} runs to what it stores in {', '.join(sorted(changed))}"
        )


def _dependent(nest: Sequence[For], facts: Facts, buffers: dict[str, Buffer]) -> dict[str, str]:
    """The loops of a nest that carry a dependence, and why."""
    if accumulates_exactly(nest[-1].body):
        return {}
    found: dict[str, str] = {}
    for place, loop in enumerate(nest):
        outside = facts
        for each in nest[:place]:
            outside = outside.enter(each)
        reason = carried(loop, outside, buffers, [each.var for each in nest[:place]])
        if reason:
            found[loop.var] = reason
    return found


# --- building -----------------------------------------------------------------------------------


def names_of(kernel: Kernel) -> FreshNames:
    """Names that the kernel does not have yet."""
    return FreshNames({*names_in(kernel.body), *(param.name for param in kernel.params)})


def copied(stmts: Sequence[Stmt], names: FreshNames) -> tuple[Stmt, ...]:
    """Statements with loop variables and locals of their own, where they stand again."""
    inside = [stmt.buffer.name for stmt in walk_stmts(stmts) if isinstance(stmt, Local)]
    renamed = rename_buffers(stmts, {name: names(name) for name in inside})
    return tuple(_rename_loops(stmt, names) for stmt in renamed)


def _rename_loops(stmt: Stmt, names: FreshNames) -> Stmt:
    if isinstance(stmt, For):
        var = names(stmt.var)
        inner = substitute_stmts(stmt.body, {stmt.var: Var(var)})
        return replace(stmt, var=var, body=tuple(_rename_loops(each, names) for each in inner))
    inside = [tuple(_rename_loops(each, names) for each in block) for block in blocks(stmt)]
    return with_blocks(stmt, inside)


def _add(lhs: Expr, rhs: Expr) -> Expr:
    return rhs if lhs == index(0) else Binary("add", lhs, rhs)


def _sub(lhs: Expr, rhs: Expr) -> Expr:
    return lhs if rhs == index(0) else Binary("sub", lhs, rhs)
