"""Two kernels as one, block by block.

The second one reads what the first one makes at the places only where it writes itself, as
where a cell's output is made of its new content.  In one loop over blocks both read their
weights in one order, and threads wait for each other once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.loops.affine import affine
from weft.loops.nodes import (
    Access,
    Binary,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import blocks as blocks_in
from weft.loops.statements import names_in, own_exprs, rename_buffers, substitute_stmts, walk_stmts
from weft.loops.walk import index, loads
from weft.plan.plan import Plan
from weft.plan.program import Region
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class _Span:
    """Elements from ``low`` up to ``high``, ``step`` further on in every block."""

    low: int
    high: int
    step: int


def may_join(plan: Plan, place: int) -> bool:
    """Whether a step may run block by block with the one before it.

    It reads all of that one's output as it is, and writes nothing that that one reads.

    Args:
        plan: of the body of a loop.
        place: of the later step.
    """
    if place >= len(plan.steps):
        return False
    before, step = plan.steps[place - 1], plan.steps[place]
    one, other = before.implementation, step.implementation
    if one is None or other is None or one.outside is not None or other.outside is not None:
        return False
    (made,), (result,) = before.writes, step.writes
    root = plan.views[made].root
    reads = [each for each in step.reads if plan.views[each].root == root]
    if reads != [made] or step.in_place == root:
        return False
    kept = {plan.views[each].root for each in (*before.reads, made)}
    return not any(_overlap(plan, plan.views[result].root, each) for each in kept)


def _overlap(plan: Plan, one: str, other: str) -> bool:
    """Whether two roots may share memory: outside of the arena, ports of one name only do."""
    here, there = plan.roots[one], plan.roots[other]
    if one == other or here.region is not Region.ARENA or there.region is not Region.ARENA:
        return one == other
    starts = plan.offsets[one], plan.offsets[other]
    return starts[0] < starts[1] + there.bytes and starts[1] < starts[0] + here.bytes


def joined(first: Kernel, second: Kernel, read: str) -> Kernel | None:
    """Both kernels as one that writes two outputs, the second's last.

    Args:
        first: whose output comes last among its parameters.
        second: runs after it, and overwrites nothing that it reads.
        read: the second's parameter that is the first's output.

    Returns:
        Nothing where the loops at the top are not over the same blocks, or the second reads
        another block's elements.
    """
    params = (*first.params, *second.params)
    if len(first.body) != len(second.body) or any(e.access is Access.SCRATCH for e in params):
        return None
    made = first.params[-1]
    names = _apart(first, second, {read: made.name})
    body = rename_buffers(second.body, names)
    pairs = [_pair(*each, made.name) for each in zip(first.body, body, strict=True)]
    if any(each is None for each in pairs):
        return None
    others = [replace(e, name=names[e.name]) for e in second.params if e.name != read]
    every = (*first.params[:-1], *others[:-1], made, others[-1])
    return replace(first, params=every, body=tuple(each for pair in pairs for each in pair or ()))


def _apart(first: Kernel, second: Kernel, known: Mapping[str, str]) -> dict[str, str]:
    """Names for the second's parameters that mean nothing in the first."""
    taken = {each.name for each in first.params} | names_in(first.body) | names_in(second.body)
    names = dict(known)
    own = {each.name for each in first.params}
    for each in second.params:
        name, count = each.name, 2
        while name in own or (name != each.name and name in taken):
            name, count = f"{each.name}{count}", count + 1
        own.add(name)
        names.setdefault(each.name, name)
    return names


def _pair(first: Stmt, second: Stmt, made: str) -> tuple[Stmt, ...] | None:
    """The statements of both for the same elements of what the first one makes."""
    if any(isinstance(each, Instruct) for each in walk_stmts((first, second))):
        return None
    match first, second:
        case (
            For(var, Const(value=0), Const(value=int(count)), _, LoopKind.PARALLEL),
            For(_, Const(value=0), Const(value=int(many)), _, LoopKind.PARALLEL),
        ) if max(count, many) % min(count, many) == 0:
            blocks = min(count, many)
            body = _gathered(first, count // blocks, var)
            more = _gathered(second, many // blocks, var)
            own = _follows(body, more, made, var)
            return (replace(first, stop=index(blocks), body=(*body, *more)),) if own else None
        case Local(), Local():
            # The last block, which has a size of its own.
            return (first, second) if _follows((first,), (second,), made, "") else None
        case _:
            return None


def _gathered(loop: For, count: int, block: str) -> tuple[Stmt, ...]:
    """So many blocks of a loop, which are a larger one."""
    if count == 1:
        return substitute_stmts(loop.body, {loop.var: Var(block)})
    inner = f"{block}_part"
    at = Binary("add", Binary("mul", Var(block), index(count)), Var(inner))
    return (For(inner, index(0), index(count), substitute_stmts(loop.body, {loop.var: at})),)


def _follows(body: Sequence[Stmt], more: Sequence[Stmt], made: str, block: str) -> bool:
    """Whether a block reads what the block before it makes, which no other block touches."""
    wrote = _whole(_spans(body, made, block, True, {}))
    reads = _whole(_spans(more, made, block, False, {}))
    if wrote is None or reads is None or wrote.step != reads.step:
        return False
    own = not block or wrote.high - wrote.low <= wrote.step
    return own and wrote.low <= reads.low and reads.high <= wrote.high


def _whole(spans: Iterator[_Span | None]) -> _Span | None:
    """All of several spans; nothing if one is not known, or their blocks differ."""
    found = list(spans)
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found) or len({each.step for each in known}) > 1:
        return None
    low, high = min(each.low for each in known), max(each.high for each in known)
    return _Span(low, high, known[0].step)


def _spans(
    stmts: Sequence[Stmt], buffer: str, block: str, stores: bool, lasts: Mapping[str, int]
) -> Iterator[_Span | None]:
    """What accesses of a buffer reach: all stores, or all loads.

    Args:
        stmts: of a block.
        buffer: its name.
        block: the variable that counts blocks.
        stores: whether stores are meant.
        lasts: the last values of the loops around the statements.
    """
    for stmt in stmts:
        inner = lasts
        if isinstance(stmt, Store) and stores and stmt.buffer == buffer:
            yield _span(stmt.index, block, lasts)
        if isinstance(stmt, For) and stmt.start == index(0) and isinstance(stmt.stop, Const):
            inner = {**lasts, stmt.var: int(stmt.stop.value) - 1}
        if not stores:
            for load in loads(*own_exprs(stmt)):
                if load.buffer == buffer:
                    yield _span(load.index, block, lasts)
        for each in blocks_in(stmt):
            yield from _spans(each, buffer, block, stores, inner)


def _span(place: tuple[Expr, ...], block: str, lasts: Mapping[str, int]) -> _Span | None:
    if len(place) != 1:
        return None
    form, step = affine(place[0]), 0
    low = high = form.const
    for atom, count in form.terms.items():
        if atom == Var(block):
            step = count
        elif isinstance(atom, Var) and atom.name in lasts and count > 0:
            high += count * lasts[atom.name]
        else:
            return None
    return _Span(low, high + 1, step)
