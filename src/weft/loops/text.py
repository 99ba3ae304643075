"""Kernels as text: ``show`` prints, ``parse`` reads, ``parse(show(kernel)) == kernel``.

    kernel relu(x: f32[4, 8] read, y: f32[4, 8] write strides(16, 1)) {
      for i in 0..4 parallel {
        for j in 0..8 vector {
          y[i, j] = max(x[i, j], 0.0)
        }
      }
    }

Whole numbers are ``i64`` and decimal ones ``f32``; other literals carry their type
(``3:i32``, ``0.5:f16``).  A type's name used as a function is a cast, with ``bits_`` before
it the same bits (``bits_f32(x[i])``).  The indices of a scalar are empty: ``acc[]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.definition import Compute
from weft.loops.nodes import (
    BINARY_OPS,
    REDUCTIONS,
    UNARY_OPS,
    Access,
    Axis,
    Binary,
    Bits,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    If,
    Instruct,
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
from weft.loops.tokens import Token, Tokens

# Loosest first; all bind to the left.
_LEVELS: tuple[dict[str, str], ...] = (
    {"or": "or"},
    {"xor": "xor"},
    {"and": "and"},
    {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"},
    {"<<": "shl", ">>": "shr"},
    {"+": "add", "-": "sub"},
    {"*": "mul", "/": "div", "//": "floordiv", "%": "mod"},
)
_INFIX = {op: (sign, level) for level, row in enumerate(_LEVELS) for sign, op in row.items()}
_TIGHTEST = len(_LEVELS)
_FUNCTIONS = BINARY_OPS - _INFIX.keys()
_DEFAULTS = {DType.I64, DType.F32, DType.BOOL}


def show(kernel: Kernel) -> str:
    """A kernel as text."""
    params = ", ".join(f"{_buffer(param)} {param.access.value}" for param in kernel.params)
    lines = [f"kernel {kernel.name}({params}) {{", *_block(kernel.body, 1), "}"]
    return "\n".join(lines) + "\n"


def show_stmts(stmts: Sequence[Stmt]) -> str:
    """Statements as text."""
    return "\n".join(_block(stmts, 0))


def show_compute(name: str, compute: Compute) -> str:
    """A definition as text: ``y[i:4] = sum(k:8 | x[i, k])``."""
    return f"{name}[{_axes(compute.axes)}] = {show_expr(compute.value)}"


def show_expr(expr: Expr) -> str:
    """An expression as text."""
    return _expr(expr, 0)


def _buffer(buffer: Buffer) -> str:
    text = f"{buffer.name}: {buffer.dtype.value}[{_numbers(buffer.shape)}]"
    return text if buffer.strides is None else f"{text} strides({_numbers(buffer.strides)})"


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _axes(axes: Sequence[Axis]) -> str:
    return ", ".join(f"{axis.var}:{axis.extent}" for axis in axes)


def _block(stmts: Sequence[Stmt], depth: int) -> Iterator[str]:
    for stmt in stmts:
        yield from _stmt(stmt, depth)


def _stmt(stmt: Stmt, depth: int) -> Iterator[str]:
    indent = "  " * depth
    match stmt:
        case For(var, start, stop, body, kind):
            how = "" if kind is LoopKind.SERIAL else f" {kind.value}"
            yield f"{indent}for {var} in {show_expr(start)}..{show_expr(stop)}{how} {{"
            yield from _block(body, depth + 1)
        case Store(buffer, position, value):
            yield f"{indent}{buffer}[{_list(position)}] = {show_expr(value)}"
            return
        case Prefetch(buffer, position):
            yield f"{indent}prefetch {buffer}[{_list(position)}]"
            return
        case Instruct(name, operands):
            yield f"{indent}{name}({_list(operands)})"
            return
        case If(condition, then, otherwise):
            yield f"{indent}if {show_expr(condition)} {{"
            yield from _block(then, depth + 1)
            if otherwise:
                yield f"{indent}}} else {{"
                yield from _block(otherwise, depth + 1)
        case Local(buffer, body):
            how = "" if buffer.access is Access.LOCAL else f" {buffer.access.value}"
            yield f"{indent}local {_buffer(buffer)}{how} {{"
            yield from _block(body, depth + 1)
        case _:
            assert_never(stmt)
    yield f"{indent}}}"


def _list(parts: Sequence[Expr]) -> str:
    return ", ".join(map(show_expr, parts))


def _expr(expr: Expr, level: int) -> str:
    match expr:
        case Const():
            return _const(expr)
        case Var(name):
            return name
        case Load(buffer, position, _):
            return f"{buffer}[{_list(position)}]"
        case Unary(op, x):
            return f"{op}({show_expr(x)})"
        case Cast(dtype, x) | Bits(dtype, x):
            how = _BITS if isinstance(expr, Bits) else ""
            return f"{how}{dtype.value}({show_expr(x)})"
        case Select(condition, then, otherwise):
            return f"select({_list((condition, then, otherwise))})"
        case Reduce(op, axes, value):
            return f"{op}({_axes(axes)} | {show_expr(value)})"
        case Binary(op, lhs, rhs) if op in _INFIX:
            sign, own = _INFIX[op]
            text = f"{_expr(lhs, own)} {sign} {_expr(rhs, own + 1)}"
            return f"({text})" if own < level else text
        case Binary(op, lhs, rhs):
            return f"{op}({_list((lhs, rhs))})"
        case _:
            assert_never(expr)


def _const(const: Const) -> str:
    value, dtype = const.value, const.dtype
    if dtype is DType.BOOL:
        return "true" if value else "false"
    text = repr(float(value)) if dtype.is_float else str(int(value))
    return text if dtype in _DEFAULTS else f"{text}:{dtype.value}"


# --- parsing ------------------------------------------------------------------------------------

_BITS = "bits_"
_DTYPES = {dtype.value: dtype for dtype in DType}
_ACCESSES = {access.value: access for access in Access}
_KINDS = {kind.value: kind for kind in LoopKind}


def parse(text: str) -> Kernel:
    """Reads what ``show`` prints; layout is free."""
    parser = _Parser(text)
    kernel = parser.kernel()
    parser.end()
    return kernel


class _Parser(Tokens):
    """Recursive descent, one method for each part of the grammar.

    Positions of a minus sign decide whether it starts a literal: it does where an operand
    may stand, so ``a -1`` is a subtraction and ``-1`` a number.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._dtypes: dict[str, DType] = {}

    # --- statements ---

    def kernel(self) -> Kernel:
        """A whole kernel."""
        self.expect("kernel")
        name = self.name()
        self.expect("(")
        params: list[Buffer] = []
        while not self.accept(")"):
            if params:
                self.expect(",")
            params.append(self._buffer(Access.READ))
        return Kernel(name, tuple(params), self._block())

    def _buffer(self, access: Access) -> Buffer:
        name = self.name()
        self.expect(":")
        dtype = self.word(_DTYPES, "a type")
        self.expect("[")
        shape = self.numbers("]")
        strides: tuple[int, ...] | None = None
        if self.accept("strides"):
            self.expect("(")
            strides = self.numbers(")")
        if self.peek() in _ACCESSES:
            access = _ACCESSES[self.take().text]
        self._dtypes[name] = dtype
        return Buffer(name, dtype, shape, access, strides)

    def _block(self) -> tuple[Stmt, ...]:
        self.expect("{")
        body: list[Stmt] = []
        while not self.accept("}"):
            body.append(self._stmt())
        return tuple(body)

    def _stmt(self) -> Stmt:
        if self.accept("for"):
            return self._for()
        if self.accept("if"):
            condition = self._expr()
            then = self._block()
            return If(condition, then, self._block() if self.accept("else") else ())
        if self.accept("local"):
            buffer = self._buffer(Access.LOCAL)
            return Local(buffer, self._block())
        if self.accept("prefetch"):
            buffer = self.name()
            self.expect("[")
            return Prefetch(buffer, self._exprs("]"))
        buffer = self.name()
        if self.accept("("):
            windows = self._exprs(")")
            return Instruct(buffer, tuple(each for each in windows if isinstance(each, Load)))
        self.expect("[")
        position = self._exprs("]")
        self.expect("=")
        return Store(buffer, position, self._expr())

    def _for(self) -> For:
        var = self.name()
        self.expect("in")
        start = self._expr()
        self.expect("..")
        stop = self._expr()
        kind = _KINDS[self.take().text] if self.peek() in _KINDS else LoopKind.SERIAL
        return For(var, start, stop, self._block(), kind)

    # --- expressions ---

    def _exprs(self, closing: str) -> tuple[Expr, ...]:
        parts: list[Expr] = []
        while not self.accept(closing):
            if parts:
                self.expect(",")
            parts.append(self._expr())
        return tuple(parts)

    def _expr(self, level: int = 0) -> Expr:
        if level == _TIGHTEST:
            return self._operand()
        lhs = self._expr(level + 1)
        while self.peek() in _LEVELS[level] and self.next.kind != "end":
            op = _LEVELS[level][self.take().text]
            lhs = Binary(op, lhs, self._expr(level + 1))
        return lhs

    def _operand(self) -> Expr:
        token = self.next
        if self.accept("("):
            inner = self._expr()
            self.expect(")")
            return inner
        if token.kind in ("int", "float"):
            return self._literal()
        name = self.name()
        if name in ("true", "false"):
            return Const(name == "true", DType.BOOL)
        if self.accept("["):
            return self._load(name)
        if self.accept("("):
            return self._call(name, token)
        return Var(name)

    def _literal(self) -> Const:
        token = self.take()
        dtype = DType.I64 if token.kind == "int" else DType.F32
        if self.accept(":"):
            named = self.next
            dtype = self.word(_DTYPES, "a type")
            if token.kind == "float" and not dtype.is_float:
                raise self.error("a floating-point type", named)
        return Const(float(token.text) if dtype.is_float else int(token.text), dtype)

    def _load(self, name: str) -> Load:
        dtype = self._dtypes.get(name)
        if dtype is None:
            raise InternalError(f"kernel text: buffer {name} is loaded but not declared")
        return Load(name, self._exprs("]"), dtype)

    def _call(self, name: str, token: Token) -> Expr:
        if name in REDUCTIONS and self._at_axes():
            return self._reduce(name)
        args = self._exprs(")")
        match len(args):
            case 1 if name in _DTYPES:
                return Cast(_DTYPES[name], args[0])
            case 1 if name.removeprefix(_BITS) in _DTYPES:
                return Bits(_DTYPES[name.removeprefix(_BITS)], args[0])
            case 1 if name in UNARY_OPS:
                return Unary(name, args[0])
            case 2 if name in _FUNCTIONS:
                return Binary(name, args[0], args[1])
            case 3 if name == "select":
                return Select(args[0], args[1], args[2])
            case count:
                raise self.error(f"a function of {count} arguments", token)

    def _at_axes(self) -> bool:
        """Whether axes follow: ``k:8`` or none, and not a literal with its type, ``8:i32``."""
        return self.peek() == "|" or (self.next.kind == "name" and self.peek(1) == ":")

    def _reduce(self, op: str) -> Reduce:
        axes: list[Axis] = []
        while not self.accept("|"):
            if axes:
                self.expect(",")
            var = self.name()
            self.expect(":")
            axes.append(Axis(var, int(self.kind("int", "a whole number"))))
        value = self._expr()
        self.expect(")")
        return Reduce(op, tuple(axes), value)
