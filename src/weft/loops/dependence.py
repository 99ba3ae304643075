"""Which loops carry a dependence: whether two iterations may touch the same element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from weft.loops.affine import AffineForm, affine
from weft.loops.instruction import expanded
from weft.loops.intervals import Interval
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    Stmt,
    Store,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.statements import own_exprs, walk_stmts
from weft.loops.walk import dtype_of, free_vars, loads

_COMMUTING = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})


class Touch(NamedTuple):
    """A load or a store, and what is known where it happens."""

    buffer: str
    position: tuple[Expr, ...]
    stores: bool
    facts: Facts


def carried(
    loop: For, facts: Facts, buffers: Mapping[str, Buffer], beside: Sequence[str] = ()
) -> str:
    """Why iterations of a loop may depend on one another; empty when they do not.

    Args:
        loop: the loop.
        facts: what is known around it.
        buffers: every buffer of the kernel (``buffers_of``).
        beside: variables of enclosing loops that may differ between the iterations, too.
    """
    touches = list(_touches(loop.body, facts.enter(loop)))
    private = {stmt.buffer.name for stmt in walk_stmts(loop.body) if isinstance(stmt, Local)}
    varying = {stmt.var for stmt in walk_stmts(loop.body) if isinstance(stmt, For)}
    varying |= set(beside)
    for name in sorted({touch.buffer for touch in touches if touch.stores} - private):
        buffer = buffers[name]
        same = [touch for touch in touches if touch.buffer == name]
        apart = any(
            _apart(loop.var, [touch.position[dimension] for touch in same], same, varying)
            for dimension in range(len(buffer.shape))
        )
        if not apart:
            return f"iterations of {loop.var} may touch the same element of {name}"
        if not _injective(buffer):
            return f"elements of {name} overlap in memory"
    return ""


def buffers_of(kernel: Kernel) -> dict[str, Buffer]:
    """Every buffer of a kernel by name, locals included."""
    inside = [stmt.buffer for stmt in walk_stmts(kernel.body) if isinstance(stmt, Local)]
    return {buffer.name: buffer for buffer in (*kernel.params, *inside)}


def accumulates_exactly(body: Sequence[Stmt]) -> bool:
    """Whether a body only accumulates, so that its runs may come in any order.

    Every store must be ``b[i] = op(b[i], value)`` of integers, which commute exactly, to a
    buffer that is not read otherwise and with one ``op`` for each buffer.
    """
    operations: dict[str, str] = {}
    for stmt in walk_stmts(body):
        if not isinstance(stmt, Store):
            continue
        value = stmt.value
        if not (isinstance(value, Binary) and value.op in _COMMUTING):
            return False
        if not _is_element(value.lhs, stmt) or dtype_of(value.lhs).is_float:
            return False
        if operations.setdefault(stmt.buffer, value.op) != value.op:
            return False
    return all(_reads_only_own(stmt, operations) for stmt in walk_stmts(body))


def _is_element(expr: Expr, store: Store) -> bool:
    return isinstance(expr, Load) and expr.buffer == store.buffer and expr.index == store.index


def _reads_only_own(stmt: Stmt, accumulators: Mapping[str, str]) -> bool:
    exprs = own_exprs(stmt)
    if isinstance(stmt, Store) and isinstance(stmt.value, Binary):
        exprs = (*stmt.index, stmt.value.rhs)
    return not any(load.buffer in accumulators for expr in exprs for load in loads(expr))


def _touches(stmts: Sequence[Stmt], facts: Facts) -> Iterator[Touch]:
    for stmt in stmts:
        for expr in own_exprs(stmt):
            for load in loads(expr):
                yield Touch(load.buffer, load.index, False, facts)
        match stmt:
            case For(body=body):
                yield from _touches(body, facts.enter(stmt))
            case Store(buffer, position, _):
                yield Touch(buffer, position, True, facts)
            case If(condition, then, otherwise):
                yield from _touches(then, facts.assume(condition, True, then))
                yield from _touches(otherwise, facts.assume(condition, False, otherwise))
            case Local(_, body):
                yield from _touches(body, facts)
            case _:
                yield from _touches(expanded(stmt), facts)


def _apart(
    var: str, positions: Sequence[Expr], touches: Sequence[Touch], varying: set[str]
) -> bool:
    """Whether one dimension's indices keep iterations apart.

    They do when each is ``common + m*outer + c*var + rest``, where ``common`` is the same
    number in all iterations, ``rest`` spans less than ``c``, and ``c*var + rest`` less than
    ``m``: then equal indices have equal ``outer``, and so equal ``var``.
    """
    factors: set[int] = set()
    commons: list[dict[Expr, int]] = []
    rests: list[Interval] = []
    blocks: list[Interval] = []
    modulus = 0
    for position, touch in zip(positions, touches, strict=True):
        form = affine(position)
        if not touch.facts.fits(form):
            return False
        common, rest = _parts(form, var, varying)
        if any(var in free_vars(atom) for atom in rest.terms):
            return False
        factor = form.terms.get(Var(var), 0)
        outer = {atom: c for atom, c in rest.terms.items() if abs(c) > abs(factor)}
        inner = AffineForm({a: c for a, c in rest.terms.items() if a not in outer}, rest.const)
        modulus = gcd(modulus, *outer.values())
        factors.add(factor)
        commons.append(common)
        rests.append(touch.facts.bounds(inner))
        blocks.append(touch.facts.bounds(inner.plus(AffineForm({Var(var): 1}, 0), factor)))
    if len(factors) != 1 or any(common != commons[0] for common in commons):
        return False
    return _span(rests) < abs(factors.pop()) and (not modulus or _span(blocks) < modulus)


def _span(intervals: Sequence[Interval]) -> int:
    return max(high for _, high in intervals) - min(low for low, _ in intervals)


def _parts(form: AffineForm, var: str, varying: set[str]) -> tuple[dict[Expr, int], AffineForm]:
    """What is the same in all iterations, and what is not (the variable left out)."""
    common: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for atom, coefficient in form.terms.items():
        if atom == Var(var):
            continue
        # What is loaded may have been stored to in between.
        fixed = not any(loads(atom)) and not free_vars(atom) & (varying | {var})
        (common if fixed else rest)[atom] = coefficient
    return common, AffineForm(rest, form.const)


def _injective(buffer: Buffer) -> bool:
    """Whether different indices are different places in memory."""
    if buffer.access is Access.LOCAL and buffer.strides is None:
        return True
    reach = 0
    for step, extent in sorted(zip(buffer.steps, buffer.shape, strict=True)):
        if extent > 1 and step <= reach:
            return False
        reach += (extent - 1) * step
    return True
