"""Random small kernels whose accesses are in bounds, and how to run them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from weft.dtypes import DType
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
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
    Var,
)
from weft.loops.statements import substitute_stmts
from weft.loops.walk import index

SHAPE = (5, 7)
EXTENTS = st.integers(1, 5)
PARAMS = (
    Buffer("x", DType.I32, SHAPE),
    Buffer("w", DType.I32, (7,)),
    Buffer("y", DType.I32, SHAPE, Access.WRITE),
    Buffer("z", DType.I32, (7,), Access.WRITE),
)


def clamped(position: Expr, extent: int) -> Expr:
    return Binary("max", index(0), Binary("min", position, index(extent - 1)))


@st.composite
def positions(draw: st.DrawFn, names: list[str], extent: int) -> Expr:
    """An index: a variable as it is, where its range allows, or a clamped sum."""
    if names and draw(st.booleans()):
        return clamped(Var(draw(st.sampled_from(names))), extent)
    total: Expr = index(draw(st.integers(-2, 6)))
    for name in draw(st.lists(st.sampled_from(names), max_size=2)) if names else []:
        scaled = Binary("mul", Var(name), index(draw(st.integers(-2, 3))))
        total = Binary("add", total, scaled)
    return clamped(total, extent)


@st.composite
def accesses(draw: st.DrawFn, names: list[str], buffers: list[Buffer]) -> Load:
    buffer = draw(st.sampled_from(buffers))
    where = tuple(draw(positions(names, extent)) for extent in buffer.shape)
    return Load(buffer.name, where, buffer.dtype)


@st.composite
def values(draw: st.DrawFn, names: list[str], depth: int = 2) -> Expr:
    kind = draw(st.sampled_from(["load", "const", "binary", "select"])) if depth else "load"
    if kind == "load":
        return draw(accesses(names, list(PARAMS)))
    if kind == "const":
        return Const(draw(st.integers(-4, 4)), DType.I32)
    sides = [draw(values(names, depth - 1)) for _ in range(2)]
    if kind == "binary":
        return Binary(draw(st.sampled_from(["add", "sub", "mul", "max"])), *sides)
    return Select(draw(conditions(names)), *sides)


@st.composite
def conditions(draw: st.DrawFn, names: list[str]) -> Expr:
    lhs: Expr = Var(draw(st.sampled_from(names))) if names else index(0)
    return Binary(draw(st.sampled_from(["lt", "ge", "eq"])), lhs, index(draw(st.integers(0, 4))))


@st.composite
def stores(draw: st.DrawFn, names: list[str]) -> Store:
    target = draw(accesses(names, list(PARAMS[2:])))
    value = draw(values(names))
    if draw(st.booleans()):
        value = Binary(draw(st.sampled_from(["add", "mul", "min"])), target, value)
    return Store(target.buffer, target.index, value)


@st.composite
def bodies(draw: st.DrawFn, names: list[str], fresh: list[int], depth: int) -> tuple[Stmt, ...]:
    return tuple(draw(statements(names, fresh, depth)) for _ in range(draw(st.integers(1, 2))))


@st.composite
def statements(draw: st.DrawFn, names: list[str], fresh: list[int], depth: int) -> Stmt:
    kind = draw(st.sampled_from(["store", "if", "local", "for"])) if depth else "store"
    if kind == "store":
        return draw(stores(names))
    if kind == "if":
        then = draw(bodies(names, fresh, depth - 1))
        return If(draw(conditions(names)), then, draw(bodies(names, fresh, depth - 1)))
    fresh[0] += 1
    if kind == "local":
        buffer = Buffer(f"t{fresh[0]}", DType.I32, (), Access.LOCAL)
        load = Load(buffer.name, (), DType.I32)
        first = Store(buffer.name, (), draw(values(names)))
        then = draw(stores(names))
        last = Store(then.buffer, then.index, Binary("add", then.value, load))
        return Local(buffer, (first, last))
    var = f"i{fresh[0]}"
    inner = draw(bodies([*names, var], fresh, depth - 1))
    return For(var, index(draw(st.integers(0, 2))), index(draw(st.integers(1, 6))), inner)


@st.composite
def nests(draw: st.DrawFn, depth: int = 3) -> Kernel:
    """A perfect nest ``a``, ``b``, ``c`` over a random body."""
    names = ["a", "b", "c"][:depth]
    body = draw(bodies(names, [0], 1))
    simple = st.tuples(st.integers(0, 2), EXTENTS)
    for place in reversed(range(depth)):
        start, extent = draw(simple)
        begin: Expr = index(start)
        end: Expr = index(start + extent)
        if place and draw(st.integers(0, 4)) == 0:
            end = Binary("min", end, Binary("add", Var(names[place - 1]), index(1)))
        body = (For(names[place], begin, end, body),)
    return Kernel("k", PARAMS, body)


def results(kernel: Kernel) -> list[np.ndarray]:
    """What a kernel leaves in its outputs, from fixed inputs."""
    rng = np.random.default_rng(3)
    arrays = {
        buffer.name: rng.integers(-9, 9, buffer.shape).astype(buffer.dtype.numpy)
        for buffer in kernel.params
    }
    run(kernel, arrays)
    return [arrays[param.name] for param in kernel.params if param.access is Access.WRITE]


def backwards(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements with every concurrent loop run from its end to its start."""
    done: list[Stmt] = []
    for stmt in stmts:
        match stmt:
            case For(var, start, stop, body, kind):
                body = backwards(body)
                if kind in (LoopKind.PARALLEL, LoopKind.VECTOR, LoopKind.GRID):
                    last = Binary("sub", Binary("add", start, stop), index(1))
                    body = substitute_stmts(body, {var: Binary("sub", last, Var(var))})
                done.append(replace(stmt, body=body))
            case If(condition, then, otherwise):
                done.append(If(condition, backwards(then), backwards(otherwise)))
            case Local(buffer, body):
                done.append(Local(buffer, backwards(body)))
            case Store():
                done.append(stmt)
    return tuple(done)


@st.composite
def affine_nests(draw: st.DrawFn) -> Kernel:
    """A nest that reads and writes one flat buffer at affine indices."""
    names = ["a", "b", "c"]
    extents = [draw(st.integers(1, 4)) for _ in names]
    factors = [draw(st.integers(0, 8)) for _ in names]
    y = Buffer("y", DType.I32, (120,), Access.WRITE)

    def place(offset: int, changed: bool = False) -> Expr:
        total: Expr = index(offset)
        for name, factor in zip(names, factors, strict=True):
            scale = index(draw(st.integers(0, 8)) if changed else factor)
            total = Binary("add", total, Binary("mul", Var(name), scale))
        return total

    target = place(draw(st.integers(0, 3)))
    other = place(draw(st.integers(0, 9)), changed=draw(st.integers(0, 3)) == 0)
    read = Load("y", (other,), DType.I32)
    value: Expr = Cast(DType.I32, place(1, changed=True))
    value = draw(st.sampled_from([value, value, Binary("add", read, value)]))
    body: tuple[Stmt, ...] = (Store("y", (target,), value),)
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        body = (For(name, index(0), index(extent), body),)
    return Kernel("k", (y,), body)
