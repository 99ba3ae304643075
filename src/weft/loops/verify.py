"""Verification: a kernel is well formed and cannot leave its buffers.

``verify`` raises an ``InternalError`` where names, types or shapes do not agree, and a
``BoundsError`` where it cannot prove that a load or a store stays inside its buffer
whatever the data.  The proof is the interval analysis of ``weft.loops.ranges``: ranges of
loop variables, the conditions of enclosing guards and selections, clamping by ``min`` and
``max``.  A kernel that passes has no undefined access on any input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.bounds import Unproven, outside, unproven
from weft.loops.instruction import expanded, misfit
from weft.loops.nodes import (
    BINARY_OPS,
    COMPARISONS,
    UNARY_OPS,
    Access,
    Binary,
    Bits,
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
    Prefetch,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.simplify import assuming
from weft.loops.statements import own_exprs
from weft.loops.text import show, show_expr
from weft.loops.walk import RESERVED, children, dtype_of

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
_LOGICAL = frozenset({"and", "or", "xor"})
_SHIFTS = frozenset({"shl", "shr"})
_SIZES_OF_BITS = (4, 8)
_OF_ANY_NUMBER = frozenset({"neg", "abs", "sign"})
_ORDERED = frozenset({"min", "max"}) | COMPARISONS


class BoundsError(InternalError):
    """An access that could not be proven to stay inside its buffer."""


def verify(kernel: Kernel) -> None:
    """Raises where a kernel is malformed or might leave a buffer."""
    _Verifier(kernel).verify()


class _Verifier:
    """Walks a kernel once, with what is in scope and what is known there."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._buffers: dict[str, Buffer] = {}
        self._vars: set[str] = set()
        self._used: set[str] = set()
        # Expressions found well typed; kept so that their identities stay their own.
        self._typed: dict[int, tuple[Expr, DType]] = {}

    def verify(self) -> None:
        for buffer in self._kernel.params:
            if buffer.access is Access.LOCAL:
                raise self._error(f"parameter {buffer.name} is local")
            self._declare(buffer)
        self._block(self._kernel.body, Facts())

    def _error(self, message: str) -> InternalError:
        return InternalError(f"kernel {self._kernel.name}: {message}", show(self._kernel))

    # --- names ---

    def _name(self, name: str) -> None:
        if not _IDENTIFIER.match(name) or name in RESERVED:
            raise self._error(f"{name!r} is no identifier")
        if name in self._used:
            raise self._error(f"{name} is declared inside another {name}")
        self._used.add(name)

    def _declare(self, buffer: Buffer) -> None:
        self._name(buffer.name)
        if any(extent < 0 for extent in buffer.shape):
            raise self._error(f"{buffer.name} has a negative extent: {list(buffer.shape)}")
        strides = buffer.strides
        if strides is not None and (
            len(strides) != len(buffer.shape) or any(step < 0 for step in strides)
        ):
            raise self._error(
                f"{buffer.name} has strides {list(strides)} for shape {list(buffer.shape)}"
            )
        self._buffers[buffer.name] = buffer

    def _buffer(self, name: str) -> Buffer:
        found = self._buffers.get(name)
        if found is None:
            raise self._error(f"there is no buffer {name} here")
        return found

    # --- statements ---

    def _block(self, stmts: Sequence[Stmt], facts: Facts) -> None:
        for stmt in stmts:
            self._stmt(stmt, facts)

    def _stmt(self, stmt: Stmt, facts: Facts) -> None:
        match stmt:
            case For():
                self._for(stmt, facts)
            case Store():
                self._store(stmt, facts)
            case If(condition, then, otherwise):
                self._value(condition, DType.BOOL, "a condition", facts)
                self._block(then, assuming(condition, facts, then))
                self._block(otherwise, facts.assume(condition, False, otherwise))
            case Local(buffer, body):
                if buffer.access is not Access.LOCAL:
                    raise self._error(f"local buffer {buffer.name} is {buffer.access.value}")
                self._declare(buffer)
                self._scope(body, facts)
                del self._buffers[buffer.name]
                self._used.remove(buffer.name)
            case Prefetch():
                self._prefetch(stmt, facts)
            case _:
                for window in own_exprs(stmt):
                    self._type(window)
                problem = misfit(stmt, self._buffers)
                if problem:
                    raise self._error(problem)
                self._block(expanded(stmt), facts)

    def _for(self, loop: For, facts: Facts) -> None:
        self._value(loop.start, DType.I64, f"the start of {loop.var}", facts)
        self._value(loop.stop, DType.I64, f"the stop of {loop.var}", facts)
        constant = isinstance(loop.start, Const) and isinstance(loop.stop, Const)
        if loop.kind is LoopKind.VECTOR and not constant:
            raise self._error(
                f"vector loop {loop.var} runs over {show_expr(loop.start)}.."
                f"{show_expr(loop.stop)}, which is not constant"
            )
        self._name(loop.var)
        self._vars.add(loop.var)
        self._scope(loop.body, facts.enter(loop))
        self._vars.remove(loop.var)
        self._used.remove(loop.var)

    def _scope(self, body: Sequence[Stmt], facts: Facts) -> None:
        """A body that sees a name which is gone after it."""
        outer, self._typed = self._typed, {}
        self._block(body, facts)
        self._typed = outer

    def _store(self, store: Store, facts: Facts) -> None:
        buffer = self._buffer(store.buffer)
        if buffer.access is Access.READ:
            raise self._error(f"{buffer.name} is stored to, but only read")
        self._position(buffer, store.index)
        for where in store.index:
            self._value(where, DType.I64, f"an index of {buffer.name}", facts)
        self._value(store.value, buffer.dtype, f"what is stored to {buffer.name}", facts)
        found = outside(buffer, store.index, facts)
        if found is not None:
            raise self._escape(Unproven(buffer.name, store.index, *found, facts))

    def _prefetch(self, stmt: Prefetch, facts: Facts) -> None:
        buffer = self._buffer(stmt.buffer)
        self._position(buffer, stmt.index)
        for where in stmt.index:
            self._value(where, DType.I64, f"an index of {buffer.name}", facts)
        found = outside(buffer, stmt.index, facts)
        if found is not None and not _somewhere_in(buffer, stmt.index, facts):
            raise self._escape(Unproven(buffer.name, stmt.index, *found, facts))

    def _value(self, expr: Expr, dtype: DType, what: str, facts: Facts) -> None:
        got = self._type(expr)
        if got is not dtype:
            raise self._error(f"{what} is {got.value}, not {dtype.value}: {show_expr(expr)}")
        found = unproven(expr, facts, self._buffers)
        if found is not None:
            raise self._escape(found)

    def _escape(self, found: Unproven) -> BoundsError:
        where = ", ".join(map(show_expr, found.position))
        low, high = found.interval
        extent = self._buffers[found.buffer].shape[found.dimension]
        return BoundsError(
            f"kernel {self._kernel.name}: {found.buffer}[{where}] may leave its buffer: index "
            f"{found.dimension} lies in {low}..{high}, its extent is {extent}; known there: "
            f"{found.facts.describe(show_expr)}",
            show(self._kernel),
        )

    # --- types ---

    def _type(self, expr: Expr) -> DType:
        """The type of an expression that is well typed all through."""
        found = self._typed.get(id(expr))
        if found is not None:
            return found[1]
        operands = [self._type(part) for part in children(expr)]
        problem = self._problem(expr, operands)
        if problem:
            raise self._error(f"{problem}: {show_expr(expr)}")
        dtype = dtype_of(expr)
        self._typed[id(expr)] = (expr, dtype)
        return dtype

    def _problem(self, expr: Expr, operands: Sequence[DType]) -> str:
        match expr:
            case Const(value, dtype):
                return _literal_problem(value, dtype)
            case Var(name):
                return "" if name in self._vars else f"there is no variable {name} here"
            case Load():
                return self._load_problem(expr, operands)
            case Unary(op, _):
                return _unary_problem(op, operands[0])
            case Binary(op, _, _):
                return _binary_problem(op, *operands)
            case Select():
                return _select_problem(*operands)
            case Cast():
                return ""
            case Bits(dtype, _):
                return _bits_problem(dtype, operands[0])
            case Reduce():
                return "a kernel holds no reductions"
            case _:
                assert_never(expr)

    def _load_problem(self, load: Load, operands: Sequence[DType]) -> str:
        buffer = self._buffer(load.buffer)
        self._position(buffer, load.index)
        if load.dtype is not buffer.dtype:
            return f"{buffer.name} is {buffer.dtype.value}, loaded as {load.dtype.value}"
        return "an index is not i64" if any(each is not DType.I64 for each in operands) else ""

    def _position(self, buffer: Buffer, position: Sequence[Expr]) -> None:
        if len(position) != len(buffer.shape):
            raise self._error(
                f"{buffer.name} has {len(buffer.shape)} dimensions, {len(position)} indices "
                "are given"
            )


def _somewhere_in(buffer: Buffer, position: Sequence[Expr], facts: Facts) -> bool:
    """Whether a place is proven to lie between a buffer's first and last element."""
    spans = [facts.range(each) for each in position]
    low = sum(span[0] * step for span, step in zip(spans, buffer.steps, strict=True))
    high = sum(span[1] * step for span, step in zip(spans, buffer.steps, strict=True))
    return low >= 0 and high <= sum(
        (extent - 1) * step for extent, step in zip(buffer.shape, buffer.steps, strict=True)
    )


def _select_problem(condition: DType, then: DType, otherwise: DType) -> str:
    if condition is not DType.BOOL:
        return f"the condition of a select is {condition.value}"
    return "" if then is otherwise else "the sides of a select have different types"


def _bits_problem(target: DType, source: DType) -> str:
    fits = target.bytes == source.bytes and target.bytes in _SIZES_OF_BITS
    return "" if fits else f"the bits of {source.value} are no {target.value}"


def _literal_problem(value: float, dtype: DType) -> str:
    if dtype.is_float:
        return ""
    low, high = dtype.limits
    return "" if low <= value <= high and value == int(value) else "the literal is not of its type"


def _unary_problem(op: str, operand: DType) -> str:
    if op not in UNARY_OPS:
        return f"there is no operation {op}"
    if op == "not":
        fits = not operand.is_float
    elif op in _OF_ANY_NUMBER:
        fits = operand is not DType.BOOL
    else:
        fits = operand.is_float
    return "" if fits else f"{op} is not defined for {operand.value}"


def _binary_problem(op: str, lhs: DType, rhs: DType) -> str:
    if op not in BINARY_OPS:
        return f"there is no operation {op}"
    if lhs is not rhs:
        return f"the sides of {op} are {lhs.value} and {rhs.value}"
    if op in _LOGICAL:
        fits = not lhs.is_float
    elif op in _SHIFTS:
        fits = lhs.is_integer
    else:
        fits = op in _ORDERED or lhs is not DType.BOOL
    return "" if fits else f"{op} is not defined for {lhs.value}"
