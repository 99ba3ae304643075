"""Stores of what is there already are left out.

``out[t] = select(c, v, out[t])`` becomes ``if c: out[t] = v``: of a buffer that is updated in
place, such as a key-value cache, only what changes is written, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops.nodes import (
    Access,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    LoopKind,
    Select,
    Stmt,
    Store,
)
from weft.loops.simplify import negated
from weft.loops.statements import walk_stmts
from weft.loops.walk import free_vars, loads


def without_idle_stores(kernel: Kernel) -> Kernel:
    """The kernel without stores of what is there already.

    A condition counts that reads inputs alone and is the same all through an inner loop.
    """
    inputs = frozenset(each.name for each in kernel.params if each.access is Access.READ)
    return kernel.with_body(_block(kernel.body, inputs))


def _block(stmts: Sequence[Stmt], inputs: frozenset[str]) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for stmt in stmts:
        made = _stmt(stmt, inputs)
        last = found[-1] if found else None
        if (
            made is not stmt
            and isinstance(made, If)
            and isinstance(last, If)
            and not (made.otherwise or last.otherwise)
            and _fixed(made.condition, inputs)
            and made.condition == last.condition
        ):
            found[-1] = replace(last, then=(*last.then, *made.then))
        else:
            found.append(made)
    return tuple(found)


def _stmt(stmt: Stmt, inputs: frozenset[str]) -> Stmt:
    match stmt:
        case Store():
            return _store(stmt, inputs)
        case For():
            return _loop(stmt, inputs)
        case Local(buffer, body):
            return Local(buffer, _block(body, inputs))
        case If(condition, then, otherwise):
            return If(condition, _block(then, inputs), _block(otherwise, inputs))
        case _:
            return stmt


def _store(store: Store, inputs: frozenset[str]) -> Stmt:
    value = store.value
    if not isinstance(value, Select) or not _fixed(value.condition, inputs):
        return store
    if _is_there(store, value.otherwise):
        return If(value.condition, (replace(store, value=value.then),))
    if _is_there(store, value.then):
        return If(negated(value.condition), (replace(store, value=value.otherwise),))
    return store


def _is_there(store: Store, value: Expr) -> bool:
    return isinstance(value, Load) and (value.buffer, value.index) == (store.buffer, store.index)


def _fixed(condition: Expr, inputs: frozenset[str]) -> bool:
    """Whether no store of the kernel changes a condition."""
    return all(load.buffer in inputs for load in loads(condition))


def _loop(loop: For, inputs: frozenset[str]) -> Stmt:
    """The loop with conditions in it, outside of it, or as it was.

    A test for each element, or in a vector or unrolled loop, would cost more than the stores.
    """
    body = _block(loop.body, inputs)
    if body == loop.body:
        return loop
    made = replace(loop, body=body)
    match body:
        case (If(condition, then, ()),) if loop.var not in free_vars(condition):
            if loop.kind is not LoopKind.PARALLEL:
                return If(condition, (replace(loop, body=then),))
        case _:
            pass
    inner = any(isinstance(each, For) for each in walk_stmts(body))
    return made if inner and loop.kind in (LoopKind.SERIAL, LoopKind.PARALLEL) else loop
