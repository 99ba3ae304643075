"""Operations on values: which C text computes them, whatever the operands are."""

from __future__ import annotations

from weft.codegen import tree as c
from weft.codegen.element import Element
from weft.codegen.flavours import Dialect
from weft.codegen.library import LIBRARY_OPS, library_call
from weft.codegen.linear import value_of
from weft.codegen.naming import STORAGE
from weft.codegen.slots import Slot
from weft.codegen.value import KINDS, SUFFIXES, CValue, as_kind, converted, known
from weft.codegen.wrapping import integer_binary, narrowed, wrapped_negative
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import Bits, Conversion
from weft.loops.python_arithmetic import HALVES

ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_LOGICAL = {"and": "&&", "or": "||", "xor": "!="}
BITWISE = {"and": "&", "or": "|", "xor": "^"}
SHIFTS = {"shl": "<<", "shr": ">>"}
BOOL_RANGE = (0, 1)
RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# The longest operands that are written twice in a minimum rather than passed to a helper; and how
# long an access counts, whose address may come to be shared.
_SHORT, _POOLED = 24, 4
# Operations whose result on 16-bit floats is one again.
_EXACT = frozenset("neg abs sign floor ceil round trunc isnan isinf min max".split())


def integer_unary(op: str, x: CValue, dtype: DType) -> CValue:
    """A unary operation on integers."""
    kind = KINDS[dtype]
    if op in ("isnan", "isinf"):
        return known(0)
    if op == "neg":
        return wrapped_negative(x, dtype)
    if op == "abs":
        if not dtype.is_signed:
            return x
        helper = f"weft_abs_{SUFFIXES[kind]}"
        call = c.Helper(helper, (as_kind(kind, x).node,))
        ends = 0, max(abs(x.low), abs(x.high))
        if ends[1] > dtype.limits[1]:
            ends = (dtype.limits[0], ends[1])
        return narrowed(CValue(call, kind, *ends), dtype)
    if op == "sign":
        if not dtype.is_signed:
            test = c.CBinary("!=", x.node, c.CNumber("0u" if kind != "int" else "0"))
            return as_kind(kind, CValue(test, "int", 0, 1))
        helper = f"weft_sign_{SUFFIXES[kind]}"
        return CValue(c.Helper(helper, (as_kind(kind, x).node,)), "int", -1, 1)
    raise InternalError(f"{op} of integers has no meaning")


def float_unary(op: str, x: CValue, dialect: Dialect) -> CValue:
    """A unary operation on floats."""
    kind = x.kind
    if op == "neg":
        return CValue(c.CUnary("-", x.node), kind)
    if op in ("isnan", "isinf", "sign"):
        helper = f"weft_{op}_{SUFFIXES[kind]}"
        result = kind if op == "sign" else "int"
        return CValue(c.Helper(helper, (x.node,)), result, *BOOL_RANGE)
    if op in LIBRARY_OPS:
        return library_call(op, (x,), kind, dialect)
    raise InternalError(f"{op} of floats has no meaning")


def rounded(value: CValue, dtype: DType, op: str = "") -> CValue:
    """Rounds a result to 16 bits where it has that type and may need it."""
    if dtype not in HALVES or op in _EXACT:
        return value
    return CValue(c.Helper(f"weft_round_{dtype.value}", (value.node,)), "float")


def logical(op: str, lhs: CValue, rhs: CValue) -> CValue:
    """An operation on bools."""
    if op in ("min", "max"):
        op = "and" if op == "min" else "or"
    if op not in _LOGICAL:
        raise InternalError(f"{op} of bools has no meaning")
    for this, other in ((lhs, rhs), (rhs, lhs)):
        if this.low == this.high and op != "xor":
            absorbing = this.low == (0 if op == "and" else 1)
            return this if absorbing else other
    return CValue(c.CBinary(_LOGICAL[op], lhs.node, rhs.node), "int", *BOOL_RANGE)


def float_binary(op: str, lhs: CValue, rhs: CValue, dialect: Dialect) -> CValue:
    """A binary operation on floats."""
    if op in ARITHMETIC:
        return CValue(c.CBinary(ARITHMETIC[op], lhs.node, rhs.node), lhs.kind)
    if op in ("fmod", "pow"):
        return library_call(op, (lhs, rhs), lhs.kind, dialect)
    if op in ("min", "max"):
        return extreme(op, lhs, rhs, lhs.kind)
    return CValue(c.Helper(f"weft_{op}_{SUFFIXES[lhs.kind]}", (lhs.node, rhs.node)), lhs.kind)


def extreme(op: str, lhs: CValue, rhs: CValue, kind: str) -> CValue:
    """A minimum or maximum, in a computing type."""
    ends = (lhs.low, lhs.high)
    if not kind.startswith(("float", "double")):
        pick = min if op == "min" else max
        ends = pick(lhs.low, rhs.low), pick(lhs.high, rhs.high)
        if lhs.high <= rhs.low:
            return lhs if op == "min" else rhs
        if rhs.high <= lhs.low:
            return rhs if op == "min" else lhs
    if is_brief(lhs.node, rhs.node):
        first, second = (rhs, lhs) if op == "min" else (lhs, rhs)
        test = c.CBinary("<", first.node, second.node)
        return CValue(c.Ternary(test, rhs.node, lhs.node), kind, *ends)
    return CValue(c.Helper(f"weft_{op}_{SUFFIXES[kind]}", (lhs.node, rhs.node)), kind, *ends)


def integer(op: str, lhs: CValue, rhs: CValue, dtype: DType) -> CValue:
    """Arithmetic of integers, wrapping."""
    if op in ("add", "sub", "mul"):
        return integer_binary(op, lhs, rhs, dtype)
    kind = KINDS[dtype]
    if op in BITWISE:
        node = c.CBinary(BITWISE[op], as_kind(kind, lhs).node, as_kind(kind, rhs).node)
        return CValue(node, kind, *dtype.limits)
    if op in ("min", "max"):
        return extreme(op, as_kind(kind, lhs), as_kind(kind, rhs), kind)
    if op in ("shl", "shr"):
        return _shift(op, lhs, rhs, dtype)
    return by_helper(op, lhs, rhs, dtype)


def _shift(op: str, lhs: CValue, rhs: CValue, dtype: DType) -> CValue:
    if rhs.low == rhs.high and 0 <= rhs.low < 8 * dtype.bytes and op == "shr":
        lhs = as_kind(KINDS[dtype], lhs)
        ends = lhs.low >> rhs.low, lhs.high >> rhs.low
        return CValue(c.CBinary(">>", lhs.node, c.CNumber(str(rhs.low))), KINDS[dtype], *ends)
    kind = STORAGE[dtype]
    call = c.Helper(f"weft_{op}_{dtype.value}", (converted(lhs, kind), converted(rhs, kind)))
    return CValue(call, kind, *dtype.limits)


def by_helper(op: str, lhs: CValue, rhs: CValue, dtype: DType) -> CValue:
    """An operation on integers that C lacks or leaves undefined somewhere."""
    kind = KINDS[dtype]
    if dtype is DType.I64 and lhs.promoted == rhs.promoted == "int" and op != "pow":
        kind = "int"
    if op in ("min", "max"):
        return extreme(op, as_kind(kind, lhs), as_kind(kind, rhs), kind)
    if not dtype.is_signed:
        op = {"floordiv": "div", "mod": "fmod"}.get(op, op)
    literal = rhs.low == rhs.high and rhs.low > 0
    sides = as_kind(kind, lhs).node, as_kind(kind, rhs).node
    if literal and op in ("div", "fmod"):
        return CValue(c.CBinary("/" if op == "div" else "%", *sides), kind, *dtype.limits)
    call = c.Helper(f"weft_{op}_{SUFFIXES[kind]}", sides)
    if op in ("div", "floordiv", "pow") and dtype.bytes < 4:
        # Wider than the type: -128 / -1 and powers wrap.
        return narrowed(CValue(call, kind, *DType.I32.limits), dtype)
    return CValue(call, kind, *dtype.limits)


def conversion(expr: Conversion, x: CValue, source: DType) -> CValue:
    """A conversion of a value."""
    convert = _bits if isinstance(expr, Bits) else cast
    return convert(expr.dtype, x, source)


def cast(dtype: DType, x: CValue, source: DType) -> CValue:
    """C's conversion, defined everywhere."""
    if dtype is source:
        return x
    if dtype is DType.BOOL:
        return _truth(x, source)
    if dtype in HALVES:
        return _to_half(dtype, x, source)
    if dtype.is_float:
        kind = KINDS[dtype]
        return x if x.kind == kind else CValue(c.CCast(kind, x.node), kind)
    if source.is_float:
        name = f"weft_{SUFFIXES[x.kind]}_to_{dtype.value}"
        return CValue(c.Helper(name, (x.node,)), STORAGE[dtype], *dtype.limits)
    return narrowed(x, dtype)


def _bits(dtype: DType, x: CValue, source: DType) -> CValue:
    """The same bits as another type."""
    if not (dtype.is_float or source.is_float):
        return cast(dtype, x, source)
    if dtype is source:
        return x
    helper = f"weft_bits_{source.value}_{dtype.value}"
    limits = (0, 0) if dtype.is_float else dtype.limits
    return CValue(c.Helper(helper, (converted(x, STORAGE[source]),)), KINDS[dtype], *limits)


def _truth(x: CValue, source: DType) -> CValue:
    zero = {"float": "0.0f", "double": "0.0", "uint32_t": "0u", "uint64_t": "0u"}
    if not source.is_float and x.low == x.high:
        return known(int(x.low != 0))
    test = c.CBinary("!=", x.node, c.CNumber(zero.get(x.kind, "0")))
    return CValue(test, "int", *BOOL_RANGE)


def _to_half(dtype: DType, x: CValue, source: DType) -> CValue:
    if x.kind == "float":
        return rounded(x, dtype)
    exact = not source.is_float and max(abs(x.low), abs(x.high)) <= 2**24
    if exact:
        return rounded(CValue(c.CCast("float", x.node), "float"), dtype)
    double = x.node if x.kind == "double" else c.CCast("double", x.node)
    return rounded(CValue(c.Helper("weft_f64_to_odd", (double,)), "float"), dtype)


def stored(value: CValue, slot: Slot) -> c.Node:
    """A value as it is stored in a buffer."""
    dtype, node = slot.buffer.dtype, value.node
    if dtype in HALVES:
        if slot.dtype is DType.F32:
            return node
        if isinstance(node, c.Helper) and node.function == f"weft_{dtype.value}_to_f32":
            return node.arguments[0]
        if isinstance(node, c.Helper) and node.function == f"weft_round_{dtype.value}":
            node = node.arguments[0]
        return c.Helper(f"weft_f32_to_{dtype.value}", (node,))
    return node if dtype.is_float else converted(value, slot.ctype)


def is_brief(*operands: c.Node) -> bool:
    """Whether operands are so short that they may be written twice."""
    return sum(map(_length, operands)) < _SHORT


def _length(node: c.Node, level: int = 0) -> int:
    """Characters of an expression; many if it has brackets, as calls do."""
    if c.level_of(node) < level:
        return _SHORT
    match node:
        case c.Name(text) | c.CNumber(text):
            return _SHORT if "(" in text else len(text)
        case c.CBinary(op, lhs, rhs):
            _, left, right = c.BINARY_LEVELS[op]
            return _length(lhs, left) + len(op) + 2 + _length(rhs, right)
        case c.CUnary(op, x):
            return len(op) + _length(x, c.UNARY)
        case c.Ternary(test, yes, no):
            return _length(test, c.OR) + _length(yes, c.OR) + _length(no, c.TERNARY) + 6
        case c.Index(base, at):
            return _length(base) + _length(at) + 2
        case Element() if not node.vector:
            return (
                _POOLED if node.pooled else len(node.name) + _length(value_of(node.offset).node) + 2
            )
        case _:
            return _SHORT
