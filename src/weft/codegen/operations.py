"""Operations on values: which C text computes them, whatever the operands are."""

from __future__ import annotations

from weft.codegen.arithmetic import integer_binary, narrowed, wrapped_negative
from weft.codegen.library import LIBRARY_OPS, library_call
from weft.codegen.naming import STORAGE
from weft.codegen.slots import Slot
from weft.codegen.value import (
    AND,
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    EQUALITY,
    KINDS,
    NEGATIVE,
    OR,
    PRIMARY,
    PRODUCT,
    RELATION,
    SHIFT,
    SUFFIXES,
    SUM,
    TERNARY,
    UNARY,
    Value,
    as_kind,
    cast_text,
    converted,
)
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.arithmetic import HALVES

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_LEVELS = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT}
_LOGICAL = {"and": ("&&", AND), "or": ("||", OR), "xor": ("!=", EQUALITY)}
BITWISE = {"and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR)}
SHIFTS = {"shl": "<<", "shr": ">>"}
BOOL_RANGE = (0, 1)
RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# The longest operands that are written twice in a minimum rather than passed to a helper.
_SHORT = 24
# Operations whose result on 16-bit floats is one again.
_EXACT = frozenset("neg abs sign floor ceil round trunc isnan isinf min max".split())


def integer_unary(op: str, x: Value, dtype: DType) -> Value:
    """A unary operation on integers."""
    kind = KINDS[dtype]
    if op in ("isnan", "isinf"):
        return Value("0", PRIMARY, "int", 0, 0)
    if op == "neg":
        return wrapped_negative(x, dtype)
    if op == "abs":
        if not dtype.is_signed:
            return x
        helper = f"weft_abs_{SUFFIXES[kind]}"
        text = f"{helper}({as_kind(kind, x).text})"
        ends = 0, max(abs(x.low), abs(x.high))
        if ends[1] > dtype.limits[1]:
            ends = (dtype.limits[0], ends[1])
        return narrowed(Value(text, PRIMARY, kind, *ends), dtype)
    if op == "sign":
        if not dtype.is_signed:
            text = f"{x.at(EQUALITY + 1)} != {'0u' if kind != 'int' else '0'}"
            return as_kind(kind, Value(text, EQUALITY, "int", 0, 1))
        helper = f"weft_sign_{SUFFIXES[kind]}"
        return Value(f"{helper}({as_kind(kind, x).text})", PRIMARY, "int", -1, 1)
    raise InternalError(f"{op} of integers has no meaning")


def float_unary(op: str, x: Value, c99: bool) -> Value:
    """A unary operation on floats."""
    kind = x.kind
    if op == "neg":
        return Value(f"-{x.at(UNARY)}", NEGATIVE, kind)
    if op in ("isnan", "isinf", "sign"):
        helper = f"weft_{op}_{SUFFIXES[kind]}"
        result = kind if op == "sign" else "int"
        return Value(f"{helper}({x.text})", PRIMARY, result, *BOOL_RANGE)
    if op in LIBRARY_OPS:
        return library_call(op, (x,), kind, c99)
    raise InternalError(f"{op} of floats has no meaning")


def rounded(value: Value, dtype: DType, op: str = "") -> Value:
    """Rounds a result to 16 bits where it has that type and may need it."""
    if dtype not in HALVES or op in _EXACT:
        return value
    helper = f"weft_round_{dtype.value}"
    return Value(f"{helper}({value.text})", PRIMARY, "float")


def logical(op: str, lhs: Value, rhs: Value) -> Value:
    """An operation on bools."""
    if op in ("min", "max"):
        op = "and" if op == "min" else "or"
    if op not in _LOGICAL:
        raise InternalError(f"{op} of bools has no meaning")
    for this, other in ((lhs, rhs), (rhs, lhs)):
        if this.low == this.high and op != "xor":
            absorbing = this.low == (0 if op == "and" else 1)
            return this if absorbing else other
    symbol, level = _LOGICAL[op]
    inner = RELATION + 1 if op == "xor" else EQUALITY
    sides = [_logical_operand(side, level, inner) for side in (lhs, rhs)]
    return Value(f"{sides[0]} {symbol} {sides[1]}", level, "int", *BOOL_RANGE)


def float_binary(op: str, lhs: Value, rhs: Value, c99: bool) -> Value:
    """A binary operation on floats."""
    if op in _SYMBOLS:
        level = _LEVELS[op]
        text = f"{lhs.at(level)} {_SYMBOLS[op]} {rhs.at(level + 1)}"
        return Value(text, level, lhs.kind)
    if op in ("fmod", "pow"):
        return library_call(op, (lhs, rhs), lhs.kind, c99)
    if op in ("min", "max"):
        return extreme(op, lhs, rhs, lhs.kind)
    helper = f"weft_{op}_{SUFFIXES[lhs.kind]}"
    return Value(f"{helper}({lhs.text}, {rhs.text})", PRIMARY, lhs.kind)


def extreme(op: str, lhs: Value, rhs: Value, kind: str) -> Value:
    """A minimum or maximum, in a computing type."""
    ends = (lhs.low, lhs.high)
    if not kind.startswith(("float", "double")):
        pick = min if op == "min" else max
        ends = pick(lhs.low, rhs.low), pick(lhs.high, rhs.high)
        if lhs.high <= rhs.low:
            return lhs if op == "min" else rhs
        if rhs.high <= lhs.low:
            return rhs if op == "min" else lhs
    if len(lhs.text) + len(rhs.text) < _SHORT and "(" not in lhs.text + rhs.text:
        first, second = (rhs, lhs) if op == "min" else (lhs, rhs)
        text = f"{first.at(SUM)} < {second.at(SUM)} ? {rhs.at(OR)} : {lhs.at(OR)}"
        return Value(text, TERNARY, kind, *ends)
    helper = f"weft_{op}_{SUFFIXES[kind]}"
    return Value(f"{helper}({lhs.text}, {rhs.text})", PRIMARY, kind, *ends)


def integer(op: str, lhs: Value, rhs: Value, dtype: DType) -> Value:
    """Arithmetic of integers, wrapping."""
    if op in ("add", "sub", "mul"):
        return integer_binary(op, lhs, rhs, dtype)
    kind = KINDS[dtype]
    if op in BITWISE:
        symbol, level = BITWISE[op]
        sides = as_kind(kind, lhs), as_kind(kind, rhs)
        text = f"{sides[0].at(UNARY)} {symbol} {sides[1].at(UNARY)}"
        return Value(text, level, kind, *dtype.limits)
    if op in ("min", "max"):
        return extreme(op, as_kind(kind, lhs), as_kind(kind, rhs), kind)
    if op in ("shl", "shr"):
        return _shift(op, lhs, rhs, dtype)
    return by_helper(op, lhs, rhs, dtype)


def _shift(op: str, lhs: Value, rhs: Value, dtype: DType) -> Value:
    if rhs.low == rhs.high and 0 <= rhs.low < 8 * dtype.bytes and op == "shr":
        lhs = as_kind(KINDS[dtype], lhs)
        ends = lhs.low >> rhs.low, lhs.high >> rhs.low
        return Value(f"{lhs.at(UNARY)} >> {rhs.low}", SHIFT, KINDS[dtype], *ends)
    helper = f"weft_{op}_{dtype.value}"
    sides = [converted(side, STORAGE[dtype]) for side in (lhs, rhs)]
    return Value(f"{helper}({sides[0]}, {sides[1]})", PRIMARY, STORAGE[dtype], *dtype.limits)


def by_helper(op: str, lhs: Value, rhs: Value, dtype: DType) -> Value:
    """An operation on integers that C lacks or leaves undefined somewhere."""
    kind = KINDS[dtype]
    if dtype is DType.I64 and lhs.promoted == rhs.promoted == "int" and op != "pow":
        kind = "int"
    if op in ("min", "max"):
        return extreme(op, as_kind(kind, lhs), as_kind(kind, rhs), kind)
    if not dtype.is_signed:
        op = {"floordiv": "div", "mod": "fmod"}.get(op, op)
    literal = rhs.low == rhs.high and rhs.low > 0
    if literal and op in ("div", "fmod"):
        sides = as_kind(kind, lhs), as_kind(kind, rhs)
        text = f"{sides[0].at(PRODUCT)} {'/' if op == 'div' else '%'} {sides[1].at(UNARY)}"
        return Value(text, PRODUCT, kind, *dtype.limits)
    helper = f"weft_{op}_{SUFFIXES[kind]}"
    text = f"{helper}({as_kind(kind, lhs).text}, {as_kind(kind, rhs).text})"
    if op in ("div", "floordiv", "pow") and dtype.bytes < 4:
        # Wider than the type: -128 / -1 and powers wrap.
        return narrowed(Value(text, PRIMARY, kind, *DType.I32.limits), dtype)
    return Value(text, PRIMARY, kind, *dtype.limits)


def cast(dtype: DType, x: Value, source: DType) -> Value:
    """C's conversion, defined everywhere."""
    if dtype is source:
        return x
    if dtype is DType.BOOL:
        return _truth(x, source)
    if dtype in HALVES:
        return _to_half(dtype, x, source)
    if dtype.is_float:
        kind = KINDS[dtype]
        return x if x.kind == kind else Value(cast_text(kind, x), UNARY, kind)
    if source.is_float:
        name = f"weft_{SUFFIXES[x.kind]}_to_{dtype.value}"
        text = f"{name}({x.text})"
        return Value(text, PRIMARY, STORAGE[dtype], *dtype.limits)
    return narrowed(x, dtype)


def bits(dtype: DType, x: Value, source: DType) -> Value:
    """The same bits as another type."""
    if not (dtype.is_float or source.is_float):
        return cast(dtype, x, source)
    if dtype is source:
        return x
    helper = f"weft_bits_{source.value}_{dtype.value}"
    limits = (0, 0) if dtype.is_float else dtype.limits
    text = f"{helper}({converted(x, STORAGE[source])})"
    return Value(text, PRIMARY, KINDS[dtype], *limits)


def _truth(x: Value, source: DType) -> Value:
    zero = {"float": "0.0f", "double": "0.0", "uint32_t": "0u", "uint64_t": "0u"}
    text = f"{x.at(SUM)} != {zero.get(x.kind, '0')}"
    if not source.is_float and x.low == x.high:
        truth = int(x.low != 0)
        return Value(str(truth), PRIMARY, "int", truth, truth)
    return Value(text, EQUALITY, "int", *BOOL_RANGE)


def _to_half(dtype: DType, x: Value, source: DType) -> Value:
    if x.kind == "float":
        return rounded(x, dtype)
    exact = not source.is_float and max(abs(x.low), abs(x.high)) <= 2**24
    if exact:
        return rounded(Value(cast_text("float", x), UNARY, "float"), dtype)
    double = x if x.kind == "double" else Value(cast_text("double", x), UNARY, "double")
    helper = "weft_f64_to_odd"
    return rounded(Value(f"{helper}({double.text})", PRIMARY, "float"), dtype)


def stored(value: Value, slot: Slot) -> str:
    """The text of a value as it is stored in a buffer."""
    dtype = slot.buffer.dtype
    if dtype in HALVES:
        if slot.local:
            return value.text
        text = value.text
        packed = f"weft_{dtype.value}_to_f32("
        if text.startswith(packed) and _closes_last(text):
            return text[len(packed) : -1]
        helper = f"weft_f32_to_{dtype.value}"
        rounding = f"weft_round_{dtype.value}("
        if text.startswith(rounding) and _closes_last(text):
            text = text[len(rounding) : -1]
        return f"{helper}({text})"
    if dtype.is_float:
        return value.text
    return converted(value, slot.ctype)


def _closes_last(text: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for place_, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and char == ")":
            return place_ == len(text) - 1
    return False


def _logical_operand(side: Value, level: int, inner: int) -> str:
    return side.text if side.level == level and level == AND else side.at(inner)
