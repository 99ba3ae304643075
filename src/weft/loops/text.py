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

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<float>-?(?:inf|nan)\b | -?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))
    | (?P<int>-?\d+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign>\.\.|//|<<|>>|[=!<>]=|[-+*/%<>=(){}\[\],:|])""",
    re.VERBOSE,
)
_BITS = "bits_"
_DTYPES = {dtype.value: dtype for dtype in DType}
_ACCESSES = {access.value: access for access in Access}
_BEFORE_OPERAND = frozenset({"in", "if", "and", "or", "xor"})
_KINDS = {kind.value: kind for kind in LoopKind}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Kernel:
    """Reads what ``show`` prints; layout is free."""
    parser = _Parser(text)
    kernel = parser.kernel()
    parser.end()
    return kernel


class _Parser:
    """Recursive descent, one method for each part of the grammar.

    Positions of a minus sign decide whether it starts a literal: it does where an operand
    may stand, so ``a -1`` is a subtraction and ``-1`` a number.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._dtypes: dict[str, DType] = {}

    # --- tokens ---

    def _peek(self) -> str:
        return self._tokens[self._next].text

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind == "end":
            raise self._error("more text")
        self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._peek() != text or self._tokens[self._next].kind == "end":
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._error(repr(text))

    def _kind(self, kind: str, what: str) -> str:
        if self._tokens[self._next].kind != kind:
            raise self._error(what)
        return self._take().text

    def _error(self, wanted: str) -> InternalError:
        token = self._tokens[self._next]
        line = self._text.count("\n", 0, token.at) + 1
        column = token.at - self._text.rfind("\n", 0, token.at)
        got = repr(token.text) if token.kind != "end" else "the end of the text"
        return InternalError(
            f"kernel text, line {line}, column {column}: expected {wanted}, got {got}"
        )

    def end(self) -> None:
        """Nothing may follow."""
        if self._tokens[self._next].kind != "end":
            raise self._error("the end of the text")

    def _numbers(self, closing: str) -> tuple[int, ...]:
        numbers: list[int] = []
        while not self._accept(closing):
            if numbers:
                self._expect(",")
            numbers.append(int(self._kind("int", "a whole number")))
        return tuple(numbers)

    def _name(self) -> str:
        return self._kind("name", "a name")

    def _word(self, words: dict[str, DType], what: str) -> DType:
        if self._peek() not in words:
            raise self._error(what)
        return words[self._take().text]

    # --- statements ---

    def kernel(self) -> Kernel:
        """A whole kernel."""
        self._expect("kernel")
        name = self._name()
        self._expect("(")
        params: list[Buffer] = []
        while not self._accept(")"):
            if params:
                self._expect(",")
            params.append(self._buffer(Access.READ))
        return Kernel(name, tuple(params), self._block())

    def _buffer(self, access: Access) -> Buffer:
        name = self._name()
        self._expect(":")
        dtype = self._word(_DTYPES, "a type")
        self._expect("[")
        shape = self._numbers("]")
        strides: tuple[int, ...] | None = None
        if self._accept("strides"):
            self._expect("(")
            strides = self._numbers(")")
        if self._peek() in _ACCESSES:
            access = _ACCESSES[self._take().text]
        self._dtypes[name] = dtype
        return Buffer(name, dtype, shape, access, strides)

    def _block(self) -> tuple[Stmt, ...]:
        self._expect("{")
        body: list[Stmt] = []
        while not self._accept("}"):
            body.append(self._stmt())
        return tuple(body)

    def _stmt(self) -> Stmt:
        if self._accept("for"):
            return self._for()
        if self._accept("if"):
            condition = self._expr()
            then = self._block()
            return If(condition, then, self._block() if self._accept("else") else ())
        if self._accept("local"):
            buffer = self._buffer(Access.LOCAL)
            return Local(buffer, self._block())
        if self._accept("prefetch"):
            buffer = self._name()
            self._expect("[")
            return Prefetch(buffer, self._exprs("]"))
        buffer = self._name()
        if self._accept("("):
            windows = self._exprs(")")
            return Instruct(buffer, tuple(each for each in windows if isinstance(each, Load)))
        self._expect("[")
        position = self._exprs("]")
        self._expect("=")
        return Store(buffer, position, self._expr())

    def _for(self) -> For:
        var = self._name()
        self._expect("in")
        start = self._expr()
        self._expect("..")
        stop = self._expr()
        kind = _KINDS[self._take().text] if self._peek() in _KINDS else LoopKind.SERIAL
        return For(var, start, stop, self._block(), kind)

    # --- expressions ---

    def _exprs(self, closing: str) -> tuple[Expr, ...]:
        parts: list[Expr] = []
        while not self._accept(closing):
            if parts:
                self._expect(",")
            parts.append(self._expr())
        return tuple(parts)

    def _expr(self, level: int = 0) -> Expr:
        if level == _TIGHTEST:
            return self._operand()
        lhs = self._expr(level + 1)
        while self._peek() in _LEVELS[level] and self._tokens[self._next].kind != "end":
            op = _LEVELS[level][self._take().text]
            lhs = Binary(op, lhs, self._expr(level + 1))
        return lhs

    def _operand(self) -> Expr:
        token = self._tokens[self._next]
        if self._accept("("):
            inner = self._expr()
            self._expect(")")
            return inner
        if token.kind in ("int", "float"):
            return self._literal()
        name = self._name()
        if name in ("true", "false"):
            return Const(name == "true", DType.BOOL)
        if self._accept("["):
            return self._load(name)
        if self._accept("("):
            return self._call(name, token)
        return Var(name)

    def _literal(self) -> Const:
        token = self._take()
        dtype = DType.I64 if token.kind == "int" else DType.F32
        if self._accept(":"):
            dtype = self._word(_DTYPES, "a type")
        if token.kind == "float" and not dtype.is_float:
            self._next -= 1
            raise self._error("a floating-point type")
        return Const(float(token.text) if dtype.is_float else int(token.text), dtype)

    def _load(self, name: str) -> Load:
        dtype = self._dtypes.get(name)
        if dtype is None:
            raise InternalError(f"kernel text: buffer {name} is loaded but not declared")
        return Load(name, self._exprs("]"), dtype)

    def _call(self, name: str, token: _Token) -> Expr:
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
                self._next = self._tokens.index(token)
                raise self._error(f"a function of {count} arguments")

    def _at_axes(self) -> bool:
        """Whether axes follow: ``k:8`` or none, and not a literal with its type, ``8:i32``."""
        first, second = self._tokens[self._next : self._next + 2]
        return first.text == "|" or (first.kind == "name" and second.text == ":")

    def _reduce(self, op: str) -> Reduce:
        axes: list[Axis] = []
        while not self._accept("|"):
            if axes:
                self._expect(",")
            var = self._name()
            self._expect(":")
            axes.append(Axis(var, int(self._kind("int", "a whole number"))))
        value = self._expr()
        self._expect(")")
        return Reduce(op, tuple(axes), value)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    operand = True
    while at < len(text):
        found = _TOKEN.match(text, at)
        kind = "" if found is None else str(found.lastgroup)
        if found is None:
            line = text.count("\n", 0, at) + 1
            raise InternalError(f"kernel text, line {line}: unexpected character {text[at]!r}")
        token = found.group()
        if kind in ("int", "float") and token.startswith("-") and not operand:
            # After an operand a minus subtracts.
            kind, token = "sign", "-"
        if kind != "space":
            yield _Token(kind, token, at)
            operand = token in _BEFORE_OPERAND or (kind == "sign" and token not in (")", "]"))
        at += len(token)
    yield _Token("end", "", len(text))
