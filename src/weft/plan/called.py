"""Kernels as a program calls them: under other names, in place, and copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from weft.dtypes import DType
from weft.errors import InternalError
from weft.ir.types import TensorType
from weft.loops.idle_stores import without_idle_stores
from weft.loops.nodes import (
    Access,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Prefetch,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import blocks, map_stmts, rename_buffers, with_blocks
from weft.loops.walk import mapper


def renamed(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """The kernel with other names for some of its parameters."""
    params = tuple(replace(each, name=names.get(each.name, each.name)) for each in kernel.params)
    return replace(kernel, params=params, body=rename_buffers(kernel.body, names))


def in_place(kernel: Kernel, parameter: str) -> Kernel:
    """The kernel with a read parameter merged into the output ``out``.

    Both walk the same memory point by point, maybe with their dimensions in another order.
    What stays as it is, as most of a cache does, is not written.
    """
    source = next(buffer for buffer in kernel.params if buffer.name == parameter)
    output = kernel.params[-1]
    wanted = sorted(range(len(output.shape)), key=lambda axis: -output.steps[axis])
    have = sorted(range(len(source.shape)), key=lambda axis: -source.steps[axis])
    same = [(output.shape[a], output.steps[a]) for a in wanted] == [
        (source.shape[a], source.steps[a]) for a in have
    ]
    if not same:
        raise InternalError(f"{kernel.name} cannot run in place of {parameter}")
    place = dict(zip(wanted, have, strict=True))

    def moved(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(index[place[axis]] for axis in range(len(output.shape)))

    def reread(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer == parameter:
            return Load(output.name, moved(node.index), node.dtype)
        return node

    def refetched(stmt: Prefetch) -> Prefetch:
        if stmt.buffer == parameter:
            return Prefetch(output.name, moved(stmt.index))
        return stmt

    body = _with_prefetches(map_stmts(kernel.body, mapper(reread)), refetched)
    params = tuple(buffer for buffer in kernel.params if buffer.name != parameter)
    return without_idle_stores(replace(kernel.with_body(body), params=params))


def _with_prefetches(
    stmts: Sequence[Stmt], function: Callable[[Prefetch], Prefetch]
) -> tuple[Stmt, ...]:
    """Other prefetches in statements."""
    inner = [
        with_blocks(stmt, [_with_prefetches(block, function) for block in blocks(stmt)])
        for stmt in stmts
    ]
    return tuple(function(stmt) if isinstance(stmt, Prefetch) else stmt for stmt in inner)


def copy_kernel(type: TensorType) -> Kernel:
    """Copies a packed tensor."""
    buffers = (
        Buffer("in0", type.dtype, (type.size,)),
        Buffer("out", type.dtype, (type.size,), Access.WRITE),
    )
    store: Stmt = Store("out", (Var("i"),), Load("in0", (Var("i"),), type.dtype))
    loop = For("i", Const(0, DType.I64), Const(type.size, DType.I64), (store,))
    return Kernel("copy", buffers, (loop,))
