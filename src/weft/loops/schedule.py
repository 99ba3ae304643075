"""Schedules: functions kernel -> kernel that change how, and never what, is computed.

Each names loops by their variables, which are unique in a kernel, and raises a
``ScheduleError`` that says why where it would change the meaning or does not apply.  The
result is not simplified: run ``weft.loops.simplify.simplify_kernel`` after the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

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
from weft.loops.walk import (
    FreshNames,
    blocks,
    free_vars,
    index,
    loads,
    names_in,
    rename_buffers,
    stored,
    substitute_stmts,
    walk_stmts,
    with_blocks,
)

_Rewrite = Callable[[For, Facts], Sequence[Stmt]]


class ScheduleError(InternalError):
    """A schedule step that does not apply, with the reason."""


def split(kernel: Kernel, var: str, factor: int, tail: Literal["peel", "guard"] = "peel") -> Kernel:
    """Splits a loop into blocks of ``factor`` iterations: ``var_outer`` and ``var_inner``.

    Where the extent is not a multiple of the factor, the rest runs in a loop of its own
    after the blocks (``peel``), or the last block runs under a condition (``guard``).
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
        even = simplify(Binary("mod", extent, index(factor)), facts) == index(0)
        rest: tuple[Stmt, ...] = ()
        if not even and tail == "guard":
            body = (If(Binary("lt", offset, extent), body),)
            count = Binary("floordiv", _add(extent, index(factor - 1)), index(factor))
        elif not even:
            begin = simplify(_add(loop.start, Binary("mul", count, index(factor))), facts)
            rest = _copy((replace(loop, start=begin),), names)
        blocked = For(inner, index(0), index(factor), body)
        return (For(outer, index(0), simplify(count, facts), (blocked,), loop.kind), *rest)

    return at_loop(kernel, var, rewrite)


def reorder(kernel: Kernel, order: Sequence[str], reassociate: bool = False) -> Kernel:
    """Puts the loops of a perfect nest into another order, outermost first.

    Loops that carry a dependence keep their order among themselves, unless all that they
    do is to accumulate integers, or floats where ``reassociate`` allows the sum of other
    roundings.
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
        dependent = _dependent(nest, facts, buffers_of(kernel), reassociate)
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


def fuse(kernel: Kernel, outer: str, inner: str) -> Kernel:
    """Makes one loop, ``outer_inner``, of two that are nested perfectly."""
    fused = names_of(kernel)(f"{outer}_{inner}")

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        first, second = perfect_nest("fuse", loop, 2)
        if second.var != inner:
            raise ScheduleError(f"fuse: {inner} is not the loop right inside {outer}")
        if first.kind is not second.kind or first.kind is LoopKind.VECTOR:
            raise ScheduleError(
                f"fuse: {outer} is {first.kind.value}, {inner} is {second.kind.value}"
            )
        (start, stop), (begin, end) = _constant("fuse", first), _constant("fuse", second)
        width = end - begin
        if width < 1:
            return ()
        values: dict[str, Expr] = {
            outer: _add(index(start), Binary("floordiv", Var(fused), index(width))),
            inner: _add(index(begin), Binary("mod", Var(fused), index(width))),
        }
        total = index(max(0, stop - start) * width)
        return (For(fused, index(0), total, substitute_stmts(second.body, values), first.kind),)

    return at_loop(kernel, outer, rewrite)


def unroll(kernel: Kernel, var: str) -> Kernel:
    """Marks a loop of constant extent to be written out in the generated text."""

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        _constant("unroll", loop)
        if loop.kind is not LoopKind.SERIAL:
            raise ScheduleError(f"unroll: {var} is {loop.kind.value} already")
        return (replace(loop, kind=LoopKind.UNROLL),)

    return at_loop(kernel, var, rewrite)


def expand(kernel: Kernel, var: str) -> Kernel:
    """Writes out a loop of constant extent, one copy of its body for each iteration."""
    names = names_of(kernel)

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        start, stop = _constant("expand", loop)
        if loop.kind is LoopKind.VECTOR:
            raise ScheduleError(f"expand: {var} is a vector loop")
        return [
            stmt
            for at in range(start, stop)
            for stmt in _copy(substitute_stmts(loop.body, {var: index(at)}), names, at > start)
        ]

    return at_loop(kernel, var, rewrite)


def vectorize(kernel: Kernel, var: str) -> Kernel:
    """Runs an innermost loop of constant extent as the lanes of vectors."""

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        _constant("vectorize", loop)
        if any(isinstance(stmt, For) for stmt in walk_stmts(loop.body)):
            raise ScheduleError(f"vectorize: {var} is not an innermost loop")
        return (_concurrent("vectorize", kernel, loop, facts, LoopKind.VECTOR),)

    return at_loop(kernel, var, rewrite)


def parallelize(kernel: Kernel, var: str, kind: LoopKind = LoopKind.PARALLEL) -> Kernel:
    """Lets the iterations of a loop run at once (``PARALLEL``, or ``GRID``)."""
    if kind not in (LoopKind.PARALLEL, LoopKind.GRID):
        raise ScheduleError(f"parallelize: a {kind.value} loop is not parallel")
    return at_loop(
        kernel,
        var,
        lambda loop, facts: (_concurrent("parallelize", kernel, loop, facts, kind),),
    )


def partition(kernel: Kernel, var: str, points: Sequence[int | Expr]) -> Kernel:
    """Cuts a loop's range at points in rising order: ``start..p``, ``p..q``, ``q..stop``.

    Points outside the range give empty loops.  What is known inside each part lets
    ``simplify_kernel`` drop the guards that hold all over it.
    """
    names = names_of(kernel)

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        _fixed_bounds("partition", loop)
        if loop.kind is LoopKind.VECTOR:
            raise ScheduleError(f"partition: {var} is a vector loop")
        cuts = [index(point) if isinstance(point, int) else point for point in points]
        for cut in cuts:
            if var in free_vars(cut) or any(loads(cut)):
                raise ScheduleError("partition: a point must be known outside the loop")
        parts: list[Stmt] = []
        begin = loop.start
        for cut in cuts:
            end = simplify(Binary("max", begin, Binary("min", cut, loop.stop)), facts)
            parts.extend(_copy((replace(loop, start=begin, stop=end),), names, bool(parts)))
            begin = end
        parts.extend(_copy((replace(loop, start=begin),), names, bool(parts)))
        return parts

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
    return replace(kernel, body=body)


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


def _dependent(
    nest: Sequence[For], facts: Facts, buffers: dict[str, Buffer], reassociate: bool
) -> dict[str, str]:
    """The loops of a nest that carry a dependence, and why."""
    if accumulates_exactly(nest[-1].body, reassociate):
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


def _concurrent(step: str, kernel: Kernel, loop: For, facts: Facts, kind: LoopKind) -> For:
    if loop.kind not in (LoopKind.SERIAL, LoopKind.UNROLL):
        raise ScheduleError(f"{step}: {loop.var} is {loop.kind.value} already")
    reason = carried(loop, facts, buffers_of(kernel))
    if reason:
        raise ScheduleError(f"{step}: {reason}")
    return replace(loop, kind=kind)


# --- building -----------------------------------------------------------------------------------


def names_of(kernel: Kernel) -> FreshNames:
    """Names that the kernel does not have yet."""
    return FreshNames({*names_in(kernel.body), *(param.name for param in kernel.params)})


def _copy(stmts: Sequence[Stmt], names: FreshNames, again: bool = True) -> tuple[Stmt, ...]:
    """Statements with loop variables and locals of their own, where they stand again."""
    if not again:
        return tuple(stmts)
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
