"""The interpreter: what a kernel means.

``run`` translates a kernel to Python once, one statement for each operation, and runs it.
Integers are Python integers wrapped to their type, ``f64`` and ``f32`` are NumPy scalars,
``f16`` and ``bf16`` are ``f32`` scalars rounded to the type after every operation.  Every
access is checked against its buffer, and reading a ``Local`` that was not written raises,
as does an integer division by zero.

Transcendental functions of ``f32`` are computed in double precision and rounded.  Where C
leaves a conversion undefined (a float outside the range of the integer type), the nearest
integer of the type is taken, and 0 for NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf
from typing import Any, assert_never

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import (
    COMPARISONS,
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
    Reduce,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import dtype_of

_HALVES = frozenset({DType.F16, DType.BF16})


def run(kernel: Kernel, arrays: Mapping[str, np.ndarray]) -> None:
    """Runs a kernel on arrays, one for each parameter, and fills those it stores to.

    An array is either shaped as its buffer or flat: the buffer's memory itself, element
    by element.  A written array must be writable; nothing is returned.
    """
    translate(kernel)(arrays)


def translate(kernel: Kernel) -> Callable[[Mapping[str, np.ndarray]], None]:
    """``run`` of one kernel as a function, for running it many times."""
    source = _Translator(kernel).source()
    scope = dict(_SCOPE)
    exec(compile(source, f"<kernel {kernel.name}>", "exec"), scope)
    return lambda arrays: _call(kernel, scope["kernel"], arrays)


def _call(kernel: Kernel, function: Callable[..., None], arrays: Mapping[str, np.ndarray]) -> None:
    memories: list[list[Any]] = []
    targets: list[tuple[list[Any], np.ndarray, Buffer]] = []
    for buffer in kernel.params:
        array = _given(kernel, buffer, arrays)
        memory = _memory(buffer, array)
        memories.append(memory)
        if buffer.access is not Access.READ:
            targets.append((memory, array, buffer))
    with np.errstate(all="ignore"):
        try:
            function(*memories)
        except ZeroDivisionError as error:
            raise InternalError(f"kernel {kernel.name}: integer division by zero") from error
        for memory, array, buffer in targets:
            _write_back(memory, array, buffer)


def span(buffer: Buffer) -> int:
    """How many elements of memory a buffer reaches over."""
    if 0 in buffer.shape:
        return 0
    pairs = zip(buffer.shape, buffer.steps, strict=True)
    return 1 + sum((extent - 1) * step for extent, step in pairs)


def _given(kernel: Kernel, buffer: Buffer, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    array = arrays.get(buffer.name)
    if array is None:
        raise InternalError(f"kernel {kernel.name}: no array for {buffer.name}")
    flat = array.ndim == 1 and array.size >= span(buffer)
    if array.dtype != buffer.dtype.numpy or not (flat or array.shape == buffer.shape):
        raise InternalError(
            f"kernel {kernel.name}: {buffer.name} is {buffer.dtype.value}{list(buffer.shape)}, "
            f"the array is {array.dtype}{list(array.shape)}"
        )
    return array


def _view(memory: np.ndarray, buffer: Buffer) -> np.ndarray:
    """Memory as the shape of its buffer."""
    strides = [step * memory.itemsize for step in buffer.steps]
    return as_strided(memory, buffer.shape, strides)


def _memory(buffer: Buffer, array: np.ndarray) -> list[Any]:
    """The elements of a buffer's memory as the interpreter's numbers."""
    flat = array
    if array.shape == buffer.shape:
        flat = np.zeros(span(buffer), array.dtype)
        if array.size:
            _view(flat, buffer)[...] = array
    if buffer.dtype in _HALVES:
        return list(flat.astype(np.float32))
    return list(flat) if buffer.dtype.is_float else flat.tolist()


def _write_back(memory: list[Any], array: np.ndarray, buffer: Buffer) -> None:
    number = np.float32 if buffer.dtype in _HALVES else buffer.dtype.numpy
    flat = np.array(memory, number).astype(buffer.dtype.numpy)
    if array.shape == buffer.shape:
        if array.size:
            array[...] = _view(flat, buffer)
    else:
        array[...] = flat


# --- what the generated Python calls ----------------------------------------------------------


def _out_of_bounds(buffer: str, dimension: int, where: int, extent: int) -> None:
    raise InternalError(f"{buffer}: index {where} of dimension {dimension} is outside 0..{extent}")


def _poisoned(buffer: str) -> None:
    raise InternalError(f"{buffer}: read before it was written")


def _truncated_quotient(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _integer_power(a: int, b: int) -> int:
    # Modulo the widest type, which the result's wrapping divides.
    if b >= 0:
        return pow(a, b, 1 << 64)
    return a ** (b % 2) if a in (1, -1) else 0


def _sign(x: Any) -> Any:
    return x if x != x else type(x)(int(x > 0) - int(x < 0))


def _to_integer(low: int, high: int) -> Callable[[Any], int]:
    def convert(x: Any) -> int:
        if x != x:
            return 0
        if np.isinf(x):
            return high if x > 0 else low
        return max(low, min(high, int(x)))

    return convert


def _rounder(dtype: DType) -> Callable[[Any], Any]:
    convert = dtype.numpy.type
    return lambda x: np.float32(convert(x))


def _from_wide(convert: Callable[[Any], Any], wide: Callable[[int], Any]) -> Callable[[int], Any]:
    # Straight from 64 bits: a Python integer would be rounded to double precision first.
    return lambda x: convert(wide(x).astype(convert))


_UNARY_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": erf,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
}

_SCOPE: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "r_f16": _rounder(DType.F16),
    "r_bf16": _rounder(DType.BF16),
    "f32_i64": _from_wide(np.float32, np.int64),
    "f32_u64": _from_wide(np.float32, np.uint64),
    "inf": np.inf,
    "nan": np.nan,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "sign": _sign,
    "tdiv": _truncated_quotient,
    "ipow": _integer_power,
    "power": np.power,
    "ffmod": np.fmod,
    "ffloordiv": np.floor_divide,
    "fmodulo": np.mod,
    "out_of_bounds": _out_of_bounds,
    "poisoned": _poisoned,
    **{f"u_{name}": function for name, function in _UNARY_FUNCTIONS.items()},
    **{f"to_{dtype.value}": _to_integer(*dtype.limits) for dtype in DType if dtype.is_integer},
}

# --- translation --------------------------------------------------------------------------------

_INTEGER_FORMS: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "tdiv({a}, {b})",
    "fmod": "{a} - {b} * tdiv({a}, {b})",
    "floordiv": "{a} // {b}",
    "mod": "{a} % {b}",
    "pow": "ipow({a}, {b})",
    "shl": "{a} << {b} if 0 <= {b} < {bits} else 0",
    "shr": "{a} >> {b} if 0 <= {b} < {bits} else 0",
}
_WRAPPING = frozenset({"add", "sub", "mul", "div", "floordiv", "pow", "shl"})
_FLOAT_FORMS: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "fmod": "ffmod({a}, {b})",
    "floordiv": "ffloordiv({a}, {b})",
    "mod": "fmodulo({a}, {b})",
    "pow": "power(f64({a}), f64({b}))",
}
_ANY_FORMS: dict[str, str] = {
    "min": "{b} if {b} < {a} else {a}",
    "max": "{b} if {a} < {b} else {a}",
    "and": "{a} & {b}",
    "or": "{a} | {b}",
    "xor": "{a} ^ {b}",
    "eq": "{a} == {b}",
    "ne": "{a} != {b}",
    "lt": "{a} < {b}",
    "le": "{a} <= {b}",
    "gt": "{a} > {b}",
    "ge": "{a} >= {b}",
}
# Of floats: what is exact in f32 is computed there, the rest in double precision.
_EXACT_UNARY = frozenset({"sqrt", "floor", "ceil", "round", "trunc"})


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
                assert_never(stmt)

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
                text = _literal(expr)
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
                return self._name(_unary(op, self.of(x), dtype_of(x)))
            case Binary(op, lhs, rhs):
                text = _binary(op, self.of(lhs), self.of(rhs), dtype_of(lhs))
                if op in _WRAPPING and dtype_of(lhs).is_integer:
                    text = self._wrapped(text, expr)
                return self._name(text)
            case Cast(dtype, x):
                return self._name(_cast(self.of(x), dtype_of(x), dtype))
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


def _literal(const: Const) -> str:
    if const.dtype is DType.BOOL:
        return str(bool(const.value))
    if not const.dtype.is_float:
        return f"({int(const.value)})"
    value = f"({float(const.value)!r})"
    return _rounded(f"f32({value})" if const.dtype is DType.F32 else f"f64({value})", const.dtype)


def _rounded(text: str, dtype: DType) -> str:
    return f"r_{dtype.value}({text})" if dtype in _HALVES else text


def _unary(op: str, x: str, dtype: DType) -> str:
    if dtype.is_float:
        return _float_unary(op, x, dtype)
    if op == "not":
        if dtype is DType.BOOL:
            return f"not {x}"
        return f"~{x}" if dtype.is_signed else f"{x} ^ {dtype.limits[1]}"
    low, high = dtype.limits
    forms = {
        "neg": f"(-{x} - {low} & {high - low}) + {low}",
        "abs": f"(abs({x}) - {low} & {high - low}) + {low}",
        "sign": f"({x} > 0) - ({x} < 0)",
    }
    if op not in forms:
        raise InternalError(f"{op} is not defined for {dtype.value}")
    return forms[op]


def _float_unary(op: str, x: str, dtype: DType) -> str:
    match op:
        case "neg":
            return f"-{x}"
        case "abs":
            return f"abs({x})"
        case "sign" | "isnan" | "isinf":
            text = f"{op}({x})"
            return f"bool({text})" if op != "sign" else text
        case "not":
            raise InternalError(f"not is not defined for {dtype.value}")
        case _:
            if op in _EXACT_UNARY or dtype is DType.F64:
                text = f"u_{op}({x})"
            else:
                text = f"u_{op}(f64({x}))"
            number = "f64" if dtype is DType.F64 else "f32"
            return _rounded(f"{number}({text})", dtype)


def _binary(op: str, a: str, b: str, dtype: DType) -> str:
    if op in _ANY_FORMS:
        text = _ANY_FORMS[op].format(a=a, b=b)
        return f"bool({text})" if op in COMPARISONS and dtype.is_float else text
    if dtype.is_float:
        text = _FLOAT_FORMS[op].format(a=a, b=b)
        number = "f64" if dtype is DType.F64 else "f32"
        return _rounded(f"{number}({text})" if op == "pow" else text, dtype)
    if dtype is DType.BOOL:
        raise InternalError(f"{op} is not defined for bool")
    return _INTEGER_FORMS[op].format(a=a, b=b, bits=8 * dtype.bytes)


def _cast(x: str, source: DType, target: DType) -> str:
    if source is target:
        return x
    if target is DType.BOOL:
        return f"bool({x} != 0)"
    if target.is_float:
        return _to_float(x, source, target)
    if source.is_float:
        return f"to_{target.value}({x})"
    low, high = target.limits
    return f"(({x}) - {low} & {high - low}) + {low}"


def _to_float(x: str, source: DType, target: DType) -> str:
    if target is DType.F64:
        return f"f64({x})"
    if target in _HALVES:
        return _rounded(x if source.is_float else f"f64({x})", target)
    wide = source in (DType.I64, DType.U64)
    return f"f32_{source.value}({x})" if wide else f"f32({x})"
