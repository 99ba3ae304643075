"""Random kernels that stay inside their buffers and write every local before reading it."""

from __future__ import annotations

import random

import numpy as np

from tests.codegen.harness import Case
from weft.dtypes import DType
from weft.loops.interpret import span
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
    Unary,
    Var,
)
from weft.loops.walk import index as number

I64 = DType.I64
DATA = (DType.F32, DType.F32, DType.F32, DType.F64, DType.I8, DType.I32, DType.U8, DType.U16)
DATA = (*DATA, DType.I64, DType.F16, DType.BF16, DType.BOOL, DType.I16, DType.U32)
KINDS = (LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.UNROLL, LoopKind.VECTOR, LoopKind.PARALLEL)


class Maker:
    """Makes one random kernel.

    Args:
        seed: of the choices.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.extents: dict[str, int] = {}
        self.buffers: list[Buffer] = []
        self.count = 0

    def case(self) -> Case:
        """A kernel and its inputs."""
        pick = self.random
        lanes = pick.choice((2, 4, 8))
        shape = tuple(pick.choice((1, 2, 3, 5)) for _ in range(pick.randint(0, 2)))
        shape = (*shape, pick.choice((lanes, 2 * lanes, lanes, 3, 7)))
        for _ in range(pick.randint(1, 3)):
            self.buffers.append(self.buffer(Access.READ, shape))
        out = self.buffer(Access.WRITE, shape)
        body = self.nest(out, shape, (), lanes)
        kernel = Kernel("random", (*self.buffers, out), body)
        return Case(kernel, {each.name: self.array(each) for each in self.buffers}, 0)

    def buffer(self, access: Access, shape: tuple[int, ...]) -> Buffer:
        """A buffer, packed or not."""
        pick = self.random
        if access is Access.READ and pick.random() < 0.3:
            shape = shape[pick.randint(0, len(shape) - 1) :]
        strides: tuple[int, ...] | None = None
        if pick.random() < 0.3:
            step, found = pick.choice((1, 2)), []
            for extent in reversed(shape):
                found.append(step)
                step *= extent + pick.choice((0, 0, 1))
            strides = tuple(reversed(found))
        self.count += 1
        return Buffer(f"b{self.count}", pick.choice(DATA), shape, access, strides)

    def array(self, buffer: Buffer) -> np.ndarray:
        """Memory of a buffer, with some extreme values."""
        dtype, size = buffer.dtype, span(buffer)
        if dtype is DType.BOOL:
            return self.numpy.integers(0, 2, size).astype(np.bool_)
        if dtype.is_integer:
            low, high = dtype.limits
            wide = self.numpy.integers(low, high, size, dtype=dtype.numpy, endpoint=True)
            small = self.numpy.integers(0, 9, size).astype(dtype.numpy)
            return np.where(self.numpy.random(size) < 0.5, wide, small)
        values = self.numpy.normal(0, 4, size)
        values[self.numpy.random(size) < 0.1] = self.random.choice((0.0, -0.0, np.inf, np.nan))
        return values.astype(dtype.numpy)

    def nest(
        self, out: Buffer, shape: tuple[int, ...], point: tuple[Expr, ...], lanes: int
    ) -> tuple[Stmt, ...]:
        """Loops over the rest of the shape around a store."""
        pick = self.random
        if not shape:
            return self.inner(out, point)
        extent, rest = shape[0], shape[1:]
        self.count += 1
        var = f"i{self.count}"
        self.extents[var] = extent
        kind = pick.choice(KINDS)
        if kind is LoopKind.VECTOR and extent == 2 * lanes:
            outer = f"o{self.count}"
            self.extents[outer], self.extents[var] = 2, lanes
            at = Binary("add", Binary("mul", Var(outer), number(lanes)), Var(var))
            body = self.nest(out, rest, (*point, at), lanes)
            loop = For(var, number(0), number(lanes), body, LoopKind.VECTOR)
            return (For(outer, number(0), number(2), (loop,), pick.choice(KINDS[:3])),)
        start = 0
        if pick.random() < 0.2 and kind is not LoopKind.VECTOR:
            start = pick.randint(0, extent)
        body = self.nest(out, rest, (*point, Var(var)), lanes)
        return (For(var, number(start), number(extent), body, kind),)

    def inner(self, out: Buffer, point: tuple[Expr, ...]) -> tuple[Stmt, ...]:
        """A store, perhaps through a local or under a condition."""
        pick = self.random
        choice = pick.random()
        if choice < 0.25:
            self.count += 1
            local = Buffer(f"t{self.count}", out.dtype, (), Access.LOCAL)
            first = Store(local.name, (), self.expr(out.dtype, 2))
            again = self.combined(Load(local.name, (), out.dtype), self.expr(out.dtype, 1))
            loop = For(f"k{self.count}", number(0), number(3), (Store(local.name, (), again),))
            last = Store(out.name, point, Load(local.name, (), out.dtype))
            return (Local(local, (first, loop, last)),)
        if choice < 0.4:
            self.count += 1
            local = Buffer(f"a{self.count}", out.dtype, (3,), Access.LOCAL)
            var = f"k{self.count}"
            kind = pick.choice((LoopKind.SERIAL, LoopKind.UNROLL))
            fill = For(
                var,
                number(0),
                number(3),
                (Store(local.name, (Var(var),), self.expr(out.dtype, 1)),),
                kind,
            )
            loads = [Load(local.name, (number(each),), out.dtype) for each in range(3)]
            total = self.combined(self.combined(loads[0], loads[1]), loads[2])
            return (Local(local, (fill, Store(out.name, point, total))),)
        store = Store(out.name, point, self.expr(out.dtype, 3))
        if choice < 0.55:
            other = Store(out.name, point, self.expr(out.dtype, 1))
            return (If(self.expr(DType.BOOL, 2), (store,), (other,)),)
        return (store,)

    def combined(self, lhs: Expr, rhs: Expr) -> Expr:
        """A sum or what stands for it."""
        dtype = lhs.dtype if isinstance(lhs, Load) else DType.F32
        if isinstance(lhs, Binary):
            dtype = lhs.lhs.dtype if isinstance(lhs.lhs, Load) else DType.F32
        if dtype is DType.BOOL:
            return Binary(self.random.choice(("and", "or", "xor")), lhs, rhs)
        return Binary(self.random.choice(("add", "mul", "max", "min")), lhs, rhs)

    # --- expressions --------------------------------------------------------------------------

    def index(self, extent: int) -> Expr:
        """An index below an extent."""
        pick = self.random
        var = pick.choice(list(self.extents)) if self.extents else ""
        if not var or pick.random() < 0.15:
            return number(pick.randrange(extent))
        if self.extents[var] <= extent and pick.random() < 0.6:
            return Var(var)
        base: Expr = Var(var)
        if pick.random() < 0.5:
            base = Binary("sub", Binary("mul", base, number(2)), number(pick.randint(0, 4)))
        if pick.random() < 0.5:
            return Binary("mod", base, number(extent))
        halved = Binary("floordiv", base, number(pick.choice((1, 2, 3))))
        return Binary("min", Binary("max", halved, number(0)), number(extent - 1))

    def load(self) -> Load:
        """An element of an input."""
        buffer = self.random.choice(self.buffers)
        index = tuple(self.index(extent) for extent in buffer.shape)
        return Load(buffer.name, index, buffer.dtype)

    def expr(self, dtype: DType, depth: int) -> Expr:
        """A random expression of a type."""
        pick = self.random
        if depth == 0 or pick.random() < 0.15:
            return self.leaf(dtype)
        choice = pick.random()
        if choice < 0.2:
            condition = self.expr(DType.BOOL, depth - 1)
            return Select(condition, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))
        if choice < 0.35:
            return Cast(dtype, self.expr(pick.choice(DATA), depth - 1))
        if choice < 0.42:
            shared = self.expr(dtype, depth - 1)
            op = "xor" if dtype is DType.BOOL else pick.choice(("mul", "sub"))
            return Binary(op, shared, self.squeezed(shared, dtype))
        if dtype is DType.BOOL:
            return self.condition(depth)
        if choice < 0.55:
            return self.squeezed(self.expr(dtype, depth - 1), dtype)
        ops = ("add", "sub", "mul", "min", "max", "add", "mul")
        if dtype.is_integer:
            ops = (*ops, "and", "or", "xor", "shl", "shr")
        lhs, rhs = self.expr(dtype, depth - 1), self.expr(dtype, depth - 1)
        if pick.random() < 0.15:
            rhs = Const(3.0 if dtype.is_float else 3, dtype)
            return Binary(pick.choice(("div", "floordiv", "mod", "fmod")), lhs, rhs)
        return Binary(pick.choice(ops), lhs, rhs)

    def squeezed(self, x: Expr, dtype: DType) -> Expr:
        """A unary operation."""
        if dtype is DType.BOOL:
            return Unary("not", x)
        ops = ("neg", "abs", "sign", "floor", "round", "sqrt", "trunc", "ceil")
        return Unary(self.random.choice(ops if dtype.is_float else (*ops[:3], "not")), x)

    def condition(self, depth: int) -> Expr:
        """A comparison, of data or of indices."""
        pick = self.random
        op = pick.choice(("lt", "le", "gt", "ge", "eq", "ne"))
        if pick.random() < 0.3 and self.extents:
            return Binary(op, self.index(9), number(pick.randint(0, 4)))
        dtype = pick.choice([each for each in DATA if each is not DType.BOOL])
        return Binary(op, self.expr(dtype, depth - 1), self.expr(dtype, depth - 1))

    def leaf(self, dtype: DType) -> Expr:
        """A load or a number."""
        pick = self.random
        if pick.random() < 0.25:
            if dtype is DType.BOOL:
                return Const(pick.random() < 0.5, dtype)
            if dtype.is_float:
                return Const(pick.choice((0.0, -0.0, 1.0, -2.5, 0.1)), dtype)
            return Const(pick.choice((0, 1, 2, 7, dtype.limits[0], dtype.limits[1])), dtype)
        load = self.load()
        return load if load.dtype is dtype else Cast(dtype, load)


def random_cases(first: int, count: int) -> list[Case]:
    """Cases of consecutive seeds."""
    return [Maker(seed).case() for seed in range(first, first + count)]
