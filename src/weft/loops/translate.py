"""A kernel as the source of a Python function, for the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.instruction import expanded
from weft.loops.nodes import (
    COMPARISONS,
    Access,
    Binary,
    Buffer,
    Const,
    Conversion,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Local,
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.python_arithmetic import (
    WRAPPING,
    binary_text,
    conversion_text,
    literal_text,
    unary_text,
)
from weft.loops.walk import dtype_of


def python_source(kernel: Kernel) -> str:
    """The text of ``def kernel``, whose parameters are the memories of the buffers."""
    return _Translator(kernel).source()


def span(buffer: Buffer) -> int:
    """How many elements of memory a buffer reaches over."""
    if 0 in buffer.shape:
        return 0
    pairs = zip(buffer.shape, buffer.steps, strict=True)
    return 1 + sum((extent - 1) * step for extent, step in pairs)


class _Translator:
    """Writes a kernel as Python, each operation a statement.

    Names of the kernel get a ``v_`` (variables) or ``m_`` (memory) before them; ``t1``,
    ``t2`` are results of operations.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._lines: list[str] = []
        self._count = 0
        self._buffers = {buffer.name: buffer for buffer in kernel.params}
        # The largest magnitude of each loop variable: what is smaller need not be wrapped.
        self._largest: dict[str, int] = {}
        self._constants: dict[str, str] = {}

    def source(self) -> str:
        params = ", ".join(f"m_{buffer.name}" for buffer in self._kernel.params)
        self._block(self._kernel.body, 1)
        constants = [f"  {name} = {text}" for text, name in self._constants.items()]
        return "\n".join([f"def kernel({params}):", *constants, *self._lines])

    def _line(self, depth: int, text: str) -> None:
        self._lines.append("  " * depth + text)

    def _block(self, stmts: Sequence[Stmt], depth: int) -> None:
        for stmt in stmts:
            self._stmt(stmt, depth)
        if not stmts:
            self._line(depth, "pass")

    def _stmt(self, stmt: Stmt, depth: int) -> None:
        values = _Values(self, depth)
        match stmt:
            case For(var, start, stop, body, _):
                bounds = f"{values.of(start)}, {values.of(stop)}"
                self._largest[var] = max(values.magnitude(start), values.magnitude(stop))
                self._line(depth, f"for v_{var} in range({bounds}):")
                self._block(body, depth + 1)
            case Store(name, position, value):
                # In the order of the text: where first, then what.
                place = values.place(name, position)
                result = values.of(value)
                buffer = self._buffers[name]
                if dtype_of(value) is not buffer.dtype:
                    raise InternalError(
                        f"kernel {self._kernel.name}: {dtype_of(value).value} stored to {name}, "
                        f"which is {buffer.dtype.value}"
                    )
                self._line(depth, f"{place} = {result}")
            case If(condition, then, otherwise):
                self._line(depth, f"if {values.of(condition)}:")
                self._block(then, depth + 1)
                if otherwise:
                    self._line(depth, "else:")
                    self._block(otherwise, depth + 1)
            case Local(buffer, body):
                self._buffers[buffer.name] = buffer
                scalar = buffer.shape == ()
                empty = "None" if scalar else f"[None] * {span(buffer)}"
                self._line(depth, f"m_{buffer.name} = {empty}")
                self._block(body, depth)
            case _:
                self._block(expanded(stmt), depth)

    def fresh(self) -> str:
        """A name for a result."""
        self._count += 1
        return f"t{self._count}"

    def constant(self, text: str) -> str:
        """A name for a constant, computed once at the start."""
        return self._constants.setdefault(text, f"c{len(self._constants)}")

    def buffer(self, name: str) -> Buffer:
        """A buffer in scope."""
        found = self._buffers.get(name)
        if found is None:
            raise InternalError(f"kernel {self._kernel.name}: there is no buffer {name}")
        return found

    def largest(self, var: str) -> int:
        """The largest magnitude of a loop variable."""
        found = self._largest.get(var)
        if found is None:
            raise InternalError(f"kernel {self._kernel.name}: there is no variable {var}")
        return found

    def emit(self, depth: int, text: str) -> None:
        """Adds a line."""
        self._line(depth, text)


class _Values:
    """Writes the expressions of one statement; what was computed is used again.

    Args:
        host: where lines go.
        depth: how far they are indented.
        known: results that may be used here, by the identity of their expression.
    """

    def __init__(self, host: _Translator, depth: int, known: dict[int, str] | None = None) -> None:
        self._host = host
        self._depth = depth
        self._known = known or {}
        self._magnitudes: dict[int, int] = {}

    def of(self, expr: Expr) -> str:
        """The name of an expression's result, computed by the lines added."""
        match expr:
            case Const():
                text = literal_text(expr)
                return self._host.constant(text) if expr.dtype.is_float else text
            case Var(name):
                self._host.largest(name)
                return f"v_{name}"
            case _:
                found = self._known.get(id(expr))
                if found is None:
                    found = self._known[id(expr)] = self._compute(expr)
                return found

    def _name(self, text: str) -> str:
        name = self._host.fresh()
        self._host.emit(self._depth, f"{name} = {text}")
        return name

    def _compute(self, expr: Expr) -> str:
        match expr:
            case Load(name, position, _):
                return self._load(name, position)
            case Unary(op, x):
                return self._name(unary_text(op, self.of(x), dtype_of(x)))
            case Binary(op, lhs, rhs):
                text = binary_text(op, self.of(lhs), self.of(rhs), dtype_of(lhs))
                if op in WRAPPING and dtype_of(lhs).is_integer:
                    text = self._wrapped(text, expr)
                return self._name(text)
            case Conversion():
                text = conversion_text(expr, self.of(expr.x), dtype_of(expr.x))
                return self._name(text)
            case Select():
                return self._select(expr)
            case Reduce():
                raise InternalError("a kernel holds no reductions: lower them with naive()")
            case Const() | Var():
                return self.of(expr)
            case _:
                assert_never(expr)

    def _select(self, expr: Select) -> str:
        name = self._host.fresh()
        arms, last = _chain(expr)
        if len(arms) > _NESTED:
            self._flat_select(name, arms, last)
            return name
        self._host.emit(self._depth, f"if {self.of(expr.condition)}:")
        self._assign(name, expr.then, self._depth + 1)
        self._host.emit(self._depth, "else:")
        self._assign(name, expr.otherwise, self._depth + 1)
        return name

    def _flat_select(self, name: str, arms: list[tuple[Expr, Expr]], last: Expr) -> None:
        """A long chain of selections, which Python could not nest."""
        self._host.emit(self._depth, "while True:")
        inner = _Values(self._host, self._depth + 1, dict(self._known))
        for condition, then in arms:
            self._host.emit(self._depth + 1, f"if {inner.of(condition)}:")
            inner._assign(name, then, self._depth + 2)
            self._host.emit(self._depth + 2, "break")
        inner._assign(name, last, self._depth + 1)
        self._host.emit(self._depth + 1, "break")

    def _assign(self, name: str, side: Expr, depth: int) -> None:
        inner = _Values(self._host, depth, dict(self._known))
        result = inner.of(side)
        self._host.emit(depth, f"{name} = {result}")

    def _load(self, name: str, position: Sequence[Expr]) -> str:
        buffer = self._host.buffer(name)
        result = self._name(self.place(name, position))
        if buffer.access is Access.LOCAL:
            self._host.emit(self._depth, f"if {result} is None: poisoned({name!r})")
        return result

    def place(self, name: str, position: Sequence[Expr]) -> str:
        """An element, its index checked, as Python that can be read and assigned."""
        buffer = self._host.buffer(name)
        if len(position) != len(buffer.shape):
            raise InternalError(
                f"{name} has {len(buffer.shape)} dimensions, {len(position)} indices are given"
            )
        terms: list[str] = []
        for dimension, (where, extent) in enumerate(zip(position, buffer.shape, strict=True)):
            index = self.of(where)
            problem = f"out_of_bounds({name!r}, {dimension}, {index}, {extent})"
            self._host.emit(self._depth, f"if not 0 <= {index} < {extent}: {problem}")
            terms.append(f"{index} * {buffer.steps[dimension]}")
        if buffer.access is Access.LOCAL and not buffer.shape:
            return f"m_{name}"
        return f"m_{name}[{' + '.join(terms) or '0'}]"

    def _wrapped(self, text: str, expr: Expr) -> str:
        """Integer arithmetic modulo the width of its type, where it can leave it."""
        low, high = dtype_of(expr).limits
        if dtype_of(expr) is DType.I64 and self.magnitude(expr) <= high:
            return text
        return f"(({text}) - {low} & {high - low}) + {low}" if low else f"({text}) & {high}"

    def magnitude(self, expr: Expr) -> int:
        """A bound on the absolute value of an index, as it is before it is wrapped."""
        found = self._magnitudes.get(id(expr))
        if found is None:
            found = self._magnitudes[id(expr)] = self._bound(expr)
        return found

    def _bound(self, expr: Expr) -> int:
        largest = max(map(abs, dtype_of(expr).limits)) if dtype_of(expr).is_integer else 1 << 64
        match expr:
            case Const(value=value):
                return abs(int(value)) if expr.dtype.is_integer else largest
            case Var(name):
                return self._host.largest(name)
            case Binary(op, _, _) if op in COMPARISONS or op not in _BOUNDS:
                return largest
            case Binary(op, lhs, rhs):
                parts = [min(self.magnitude(each), largest) for each in (lhs, rhs)]
                return _BOUNDS[op](*parts)
            case _:
                return largest


# Longer chains of selections are not nested: Python allows 100 levels of indentation.
_NESTED = 8


def _chain(expr: Select) -> tuple[list[tuple[Expr, Expr]], Expr]:
    """``a if c else b if d else e`` as its arms and what is left."""
    arms = [(expr.condition, expr.then)]
    last = expr.otherwise
    while isinstance(last, Select):
        arms.append((last.condition, last.then))
        last = last.otherwise
    return arms, last


_BOUNDS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a + 1,
    "min": max,
    "max": max,
}
