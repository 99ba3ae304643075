"""Expressions of the loop grammar as scalar C expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from weft.codegen.arithmetic import integer_binary, inverted, narrowed, wrapped_negative
from weft.codegen.flavours import Flavour
from weft.codegen.library import LIBRARY_OPS, library_call
from weft.codegen.linear import Linear, atom, constant, print_linear, split
from weft.codegen.literals import float_literal, integer_literal
from weft.codegen.naming import STORAGE
from weft.codegen.pool import Access, Pool
from weft.codegen.slots import Slot, place
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
    SUFFIXES,
    SUM,
    TERNARY,
    UNARY,
    Value,
    as_kind,
    cast_text,
)
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.walk import dtype_of

HALVES = frozenset({DType.F16, DType.BF16})
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_LEVELS = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT}
_RELATIONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_FLIPPED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}
_LOGICAL = {"and": ("&&", AND), "or": ("||", OR), "xor": ("!=", EQUALITY)}
_BITWISE = {"and": ("&", BIT_AND), "or": ("|", BIT_OR), "xor": ("^", BIT_XOR)}
_BOOL_RANGE = (0, 1)
# The longest operand that is written twice in a minimum rather than passed to a helper.
_SHORT = 24


@dataclass
class Scope:
    """What is known at one place of a function.

    Attributes:
        flavour: the dialect.
        values: what each loop variable is.
        slots: where each buffer is.
        temporaries: values of expressions computed before, by identity.
        pool: collects accesses to memory.
        loops: C names of the loop variables around.
        guards: how many conditions around decide whether this is evaluated.
    """

    flavour: Flavour
    values: dict[str, Linear] = field(default_factory=dict[str, Linear])
    slots: dict[str, Slot] = field(default_factory=dict[str, Slot])
    temporaries: dict[int, Value] = field(default_factory=dict[int, Value])
    pool: Pool | None = None
    loops: set[str] = field(default_factory=set[str])
    guards: int = 0

    def element(
        self, slot: Slot, name: str, offset: Linear, vector: str = "", load: bool = True
    ) -> str:
        """The text of an element, or of a whole vector from there; a mark if it may be pooled."""
        access = Access(slot, name, offset, vector, load)
        plain = self.guards or slot.local or not offset.terms.keys() <= self.loops
        return access.text() if self.pool is None or plain else self.pool.mark(access)


class Scalar:
    """Writes scalar expressions.

    Args:
        scope: where they stand.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    # --- indices ------------------------------------------------------------------------------

    def linear(self, expr: Expr) -> Linear:
        """An ``i64`` expression as a linear form."""
        match expr:
            case Const(value=value):
                return constant(int(value))
            case Var(name):
                return self.scope.values[name]
            case Binary("add", lhs, rhs):
                return self._checked(expr, self.linear(lhs).plus(self.linear(rhs)))
            case Binary("sub", lhs, rhs):
                return self._checked(expr, self.linear(lhs).plus(self.linear(rhs), -1))
            case Binary("mul", lhs, rhs):
                return self._product(expr, self.linear(lhs), self.linear(rhs))
            case Binary("floordiv" | "mod", lhs, rhs):
                return self._division(expr, self.linear(lhs), self.linear(rhs))
            case Binary("min" | "max", lhs, rhs):
                return self._extreme(expr, self.linear(lhs), self.linear(rhs))
            case Select(condition, then, otherwise):
                return self._chosen(expr, condition, then, otherwise)
            case Cast(_, x) if dtype_of(x) is DType.I64:
                return self.linear(x)
            case _:
                return _opaque(self.generic(expr))

    def _checked(self, expr: Binary, form: Linear) -> Linear:
        return form if form.fits() else self._wrapping(expr)

    def _wrapping(self, expr: Binary) -> Linear:
        sides = [print_linear(self.linear(side)) for side in (expr.lhs, expr.rhs)]
        return _opaque(integer_binary(expr.op, sides[0], sides[1], DType.I64))

    def _product(self, expr: Binary, left: Linear, right: Linear) -> Linear:
        if left.constant is not None:
            left, right = right, left
        if right.constant is not None:
            return self._checked(expr, left.times(right.constant))
        return self._wrapping(expr)

    def _division(self, expr: Binary, left: Linear, right: Linear) -> Linear:
        divisor = right.constant
        if divisor is None or divisor <= 0 or not left.fits():
            return self._divided(expr.op, left, right)
        quotient, rest = split(left, divisor)
        low, high = rest.range()
        if low // divisor == high // divisor:
            if expr.op == "mod":
                return Linear(rest.const - low // divisor * divisor, rest.terms)
            return Linear(quotient.const + low // divisor, quotient.terms)
        if expr.op == "mod":
            return self._divided("mod", rest, right)
        return quotient.plus(self._divided("floordiv", rest, right))

    def _divided(self, op: str, left: Linear, right: Linear) -> Linear:
        lhs, rhs = print_linear(left), print_linear(right)
        low, high = _division_range(op, lhs, rhs)
        if lhs.low >= 0 and rhs.low > 0:
            kind = "int" if lhs.promoted == rhs.promoted == "int" else "int64_t"
            symbol = "/" if op == "floordiv" else "%"
            text = f"{as_kind(kind, lhs).at(PRODUCT)} {symbol} {as_kind(kind, rhs).at(UNARY)}"
            return _opaque(Value(text, PRODUCT, kind, low, high))
        found = self._helper_call(op, lhs, rhs, DType.I64)
        return _opaque(found._replace(low=low, high=high))

    def _extreme(self, expr: Binary, left: Linear, right: Linear) -> Linear:
        low, high = right.plus(left, -1).range()
        if left.fits() and right.fits():
            if low >= 0:
                return left if expr.op == "min" else right
            if high <= 0:
                return right if expr.op == "min" else left
        lhs, rhs = print_linear(left), print_linear(right)
        pick = min if expr.op == "min" else max
        found = self._helper_call(expr.op, lhs, rhs, DType.I64)
        ends = pick(lhs.low, rhs.low), pick(lhs.high, rhs.high)
        return _opaque(found._replace(low=ends[0], high=ends[1]))

    def _chosen(self, expr: Select, condition: Expr, then: Expr, otherwise: Expr) -> Linear:
        test = self.value(condition)
        if test.low == test.high:
            return self.linear(then if test.low else otherwise)
        return _opaque(self._ternary(test, then, otherwise, expr))

    # --- values -------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """Any expression."""
        found = self.scope.temporaries.get(id(expr))
        if found is not None:
            return found
        if dtype_of(expr) is DType.I64:
            return print_linear(self.linear(expr))
        return self.generic(expr)

    def generic(self, expr: Expr) -> Value:
        """Any expression that is not a linear form."""
        found = self.scope.temporaries.get(id(expr))
        if found is not None:
            return found
        match expr:
            case Const():
                return self.literal(expr)
            case Var():
                return print_linear(self.linear(expr))
            case Load():
                return self.load(expr)
            case Unary():
                return self.unary(expr)
            case Binary():
                return self.binary(expr)
            case Select(condition, then, otherwise):
                test = self.value(condition)
                if test.low == test.high:
                    return self.value(then if test.low else otherwise)
                return self._ternary(test, then, otherwise, expr)
            case Cast():
                return self.cast(expr.dtype, self.value(expr.x), dtype_of(expr.x))
            case Reduce():
                raise InternalError("a reduction is left in a kernel")
            case _:
                assert_never(expr)

    def literal(self, expr: Const) -> Value:
        """A number."""
        if expr.dtype.is_float:
            text = float_literal(float(expr.value), expr.dtype, self.scope.flavour.c99_library)
            level = NEGATIVE if text.startswith("-") else PRIMARY
            return Value(text, level, KINDS[expr.dtype])
        number = int(expr.value)
        text = integer_literal(number, expr.dtype)
        level = NEGATIVE if text.startswith(("-", "(int64_t)")) else PRIMARY
        return Value(text, level, KINDS[expr.dtype], number, number)

    def load(self, expr: Load) -> Value:
        """An element."""
        slot = self.slot(expr.buffer)
        name, offset = place(slot, [self.linear(each) for each in expr.index])
        text = name if offset is None else self.scope.element(slot, name, offset)
        if slot.private:
            lane = self.scope.values["<lane>"]
            text = f"{text}[{print_linear(lane).text}]"
        return self.loaded(slot, text)

    def loaded(self, slot: Slot, text: str) -> Value:
        """The value of an element whose text is given."""
        dtype = slot.buffer.dtype
        if dtype in HALVES:
            if slot.local:
                return Value(text, PRIMARY, "float")
            helper = f"weft_{dtype.value}_to_f32"
            return Value(f"{helper}({text})", PRIMARY, "float")
        low, high = (0, 0) if dtype.is_float else dtype.limits
        return Value(text, PRIMARY, slot.ctype, low, high)

    def slot(self, name: str) -> Slot:
        """Where a buffer is."""
        return self.scope.slots[name]

    def inside(self, load: Load) -> bool:
        """Whether an element is inside its buffer whatever a condition around says."""
        shape = self.scope.slots[load.buffer].buffer.shape
        for index, extent in zip(load.index, shape, strict=True):
            low, high = self.linear(index).range()
            if low < 0 or high >= extent:
                return False
        return True

    def _ternary(self, test: Value, then: Expr, otherwise: Expr, expr: Select) -> Value:
        self.scope.guards += 1
        yes, no = self.value(then), self.value(otherwise)
        self.scope.guards -= 1
        kind = KINDS[dtype_of(expr)]
        if yes.promoted == no.promoted == "int":
            kind = "int"
        text = f"{test.at(OR)} ? {as_kind(kind, yes).at(OR)} : {as_kind(kind, no).at(TERNARY)}"
        ends = min(yes.low, no.low), max(yes.high, no.high)
        return Value(text, TERNARY, kind, *ends)

    # --- unary --------------------------------------------------------------------------------

    def unary(self, expr: Unary) -> Value:
        """One of ``UNARY_OPS``."""
        dtype, x = dtype_of(expr.x), self.value(expr.x)
        if expr.op == "not":
            return self._not(expr.x, x, dtype)
        if not dtype.is_float:
            return self._integer_unary(expr.op, x, dtype)
        return self.rounded(self._float_unary(expr.op, x), dtype, expr.op)

    def _not(self, operand: Expr, x: Value, dtype: DType) -> Value:
        if dtype is not DType.BOOL:
            return inverted(x, dtype)
        if isinstance(operand, Binary) and operand.op in COMPARISONS:
            lhs, rhs = operand.lhs, operand.rhs
            if not dtype_of(lhs).is_float and id(operand) not in self.scope.temporaries:
                return self.binary(Binary(_FLIPPED[operand.op], lhs, rhs))
        if x.low == x.high:
            return Value("0" if x.low else "1", PRIMARY, "int", 1 - x.low, 1 - x.low)
        return Value(f"!{x.at(UNARY)}", UNARY, "int", 0, 1)

    def _integer_unary(self, op: str, x: Value, dtype: DType) -> Value:
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

    def _float_unary(self, op: str, x: Value) -> Value:
        kind = x.kind
        if op == "neg":
            return Value(f"-{x.at(UNARY)}", NEGATIVE, kind)
        if op in ("isnan", "isinf", "sign"):
            helper = f"weft_{op}_{SUFFIXES[kind]}"
            result = kind if op == "sign" else "int"
            return Value(f"{helper}({x.text})", PRIMARY, result, *_BOOL_RANGE)
        if op in LIBRARY_OPS:
            return self._library(op, (x,), kind)
        raise InternalError(f"{op} of floats has no meaning")

    def _library(self, op: str, arguments: tuple[Value, ...], kind: str) -> Value:
        return library_call(op, arguments, kind, self.scope.flavour.c99_library)

    def rounded(self, value: Value, dtype: DType, op: str = "") -> Value:
        """Rounds a result to 16 bits where it has that type and may need it."""
        if dtype not in HALVES or op in _EXACT:
            return value
        helper = f"weft_round_{dtype.value}"
        return Value(f"{helper}({value.text})", PRIMARY, "float")

    # --- binary -------------------------------------------------------------------------------

    def binary(self, expr: Binary) -> Value:
        """One of ``BINARY_OPS``."""
        op, dtype = expr.op, dtype_of(expr.lhs)
        if op in COMPARISONS:
            return self._comparison(op, expr.lhs, expr.rhs, dtype)
        lhs, rhs = self.value(expr.lhs), self.value(expr.rhs)
        if dtype is DType.BOOL:
            return self._logical(op, lhs, rhs)
        if dtype.is_float:
            return self.rounded(self._float_binary(op, lhs, rhs), dtype, op)
        return self.integer(op, lhs, rhs, dtype)

    def _comparison(self, op: str, left: Expr, right: Expr, dtype: DType) -> Value:
        if dtype is DType.I64:
            decided = self._decided(op, left, right)
            if decided is not None:
                return decided
        lhs, rhs = self.value(left), self.value(right)
        if not dtype.is_float:
            ends = (lhs.low - rhs.high, lhs.high - rhs.low)
            outcome = _DECISIONS[op](*((0, 0) if lhs.text == rhs.text else ends))
            if outcome is not None:
                return _truth_value(outcome)
            if lhs.promoted != rhs.promoted:
                kind = KINDS[dtype]
                lhs, rhs = as_kind(kind, lhs), as_kind(kind, rhs)
        level = EQUALITY if op in ("eq", "ne") else RELATION
        text = f"{lhs.at(SUM)} {_RELATIONS[op]} {rhs.at(SUM)}"
        return Value(text, level, "int", *_BOOL_RANGE)

    def _decided(self, op: str, left: Expr, right: Expr) -> Value | None:
        lhs, rhs = self.linear(left), self.linear(right)
        if not (lhs.fits() and rhs.fits()):
            return None
        low, high = lhs.plus(rhs, -1).range()
        outcome = _DECISIONS[op](low, high)
        return None if outcome is None else _truth_value(outcome)

    def _logical(self, op: str, lhs: Value, rhs: Value) -> Value:
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
        return Value(f"{sides[0]} {symbol} {sides[1]}", level, "int", *_BOOL_RANGE)

    def _float_binary(self, op: str, lhs: Value, rhs: Value) -> Value:
        if op in _SYMBOLS:
            level = _LEVELS[op]
            text = f"{lhs.at(level)} {_SYMBOLS[op]} {rhs.at(level + 1)}"
            return Value(text, level, lhs.kind)
        if op in ("fmod", "pow"):
            return self._library(op, (lhs, rhs), lhs.kind)
        if op in ("min", "max"):
            return self._extreme_of(op, lhs, rhs, lhs.kind)
        helper = f"weft_{op}_{SUFFIXES[lhs.kind]}"
        return Value(f"{helper}({lhs.text}, {rhs.text})", PRIMARY, lhs.kind)

    def _extreme_of(self, op: str, lhs: Value, rhs: Value, kind: str) -> Value:
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

    def integer(self, op: str, lhs: Value, rhs: Value, dtype: DType) -> Value:
        """Arithmetic of integers, wrapping."""
        if op in ("add", "sub", "mul"):
            return integer_binary(op, lhs, rhs, dtype)
        kind = KINDS[dtype]
        if op in _BITWISE:
            symbol, level = _BITWISE[op]
            sides = as_kind(kind, lhs), as_kind(kind, rhs)
            text = f"{sides[0].at(UNARY)} {symbol} {sides[1].at(UNARY)}"
            return Value(text, level, kind, *dtype.limits)
        if op in ("min", "max"):
            return self._extreme_of(op, as_kind(kind, lhs), as_kind(kind, rhs), kind)
        if op in ("shl", "shr"):
            return self._shift(op, lhs, rhs, dtype)
        return self._helper_call(op, lhs, rhs, dtype)

    def _shift(self, op: str, lhs: Value, rhs: Value, dtype: DType) -> Value:
        if rhs.low == rhs.high and 0 <= rhs.low < 8 * dtype.bytes and op == "shr":
            lhs = as_kind(KINDS[dtype], lhs)
            ends = lhs.low >> rhs.low, lhs.high >> rhs.low
            return Value(f"{lhs.at(UNARY)} >> {rhs.low}", 11, KINDS[dtype], *ends)
        helper = f"weft_{op}_{dtype.value}"
        sides = [self.converted(side, STORAGE[dtype]) for side in (lhs, rhs)]
        return Value(f"{helper}({sides[0]}, {sides[1]})", PRIMARY, STORAGE[dtype], *dtype.limits)

    def _helper_call(self, op: str, lhs: Value, rhs: Value, dtype: DType) -> Value:
        kind = KINDS[dtype]
        if dtype is DType.I64 and lhs.promoted == rhs.promoted == "int" and op != "pow":
            kind = "int"
        if op in ("min", "max"):
            return self._extreme_of(op, as_kind(kind, lhs), as_kind(kind, rhs), kind)
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

    # --- conversions --------------------------------------------------------------------------

    def cast(self, dtype: DType, x: Value, source: DType) -> Value:
        """C's conversion, defined everywhere."""
        if dtype is source:
            return x
        if dtype is DType.BOOL:
            return self._truth(x, source)
        if dtype in HALVES:
            return self._to_half(dtype, x, source)
        if dtype.is_float:
            kind = KINDS[dtype]
            return x if x.kind == kind else Value(cast_text(kind, x), UNARY, kind)
        if source.is_float:
            name = f"weft_{SUFFIXES[x.kind]}_to_{dtype.value}"
            text = f"{name}({x.text})"
            return Value(text, PRIMARY, STORAGE[dtype], *dtype.limits)
        return narrowed(x, dtype)

    def _truth(self, x: Value, source: DType) -> Value:
        zero = {"float": "0.0f", "double": "0.0", "uint32_t": "0u", "uint64_t": "0u"}
        text = f"{x.at(SUM)} != {zero.get(x.kind, '0')}"
        if not source.is_float and x.low == x.high:
            truth = int(x.low != 0)
            return Value(str(truth), PRIMARY, "int", truth, truth)
        return Value(text, EQUALITY, "int", *_BOOL_RANGE)

    def _to_half(self, dtype: DType, x: Value, source: DType) -> Value:
        if x.kind == "float":
            return self.rounded(x, dtype)
        exact = not source.is_float and max(abs(x.low), abs(x.high)) <= 2**24
        if exact:
            return self.rounded(Value(cast_text("float", x), UNARY, "float"), dtype)
        double = x if x.kind == "double" else Value(cast_text("double", x), UNARY, "double")
        helper = "weft_f64_to_odd"
        return self.rounded(Value(f"{helper}({double.text})", PRIMARY, "float"), dtype)

    def converted(self, value: Value, ctype: str) -> str:
        """The text of a value as an initialiser or argument of a C type."""
        if value.kind == ctype or (ctype == "int32_t" and value.kind == "int"):
            return value.text
        if value.low == value.high and value.promoted == "int" and value.level >= NEGATIVE:
            return (
                value.text
                if value.low >= 0 or not ctype.startswith("u")
                else cast_text(ctype, value)
            )
        return cast_text(ctype, value)

    def stored(self, value: Value, slot: Slot) -> str:
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
        return self.converted(value, slot.ctype)


# Operations whose result on 16-bit floats is one again.
_EXACT = frozenset("neg abs sign floor ceil round trunc isnan isinf min max".split())


def _closes_last(text: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for place_, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and char == ")":
            return place_ == len(text) - 1
    return False


def _truth_value(truth: bool) -> Value:
    return Value("1" if truth else "0", PRIMARY, "int", int(truth), int(truth))


def _opaque(value: Value) -> Linear:
    if value.low == value.high:
        return constant(value.low)
    return atom(value)


def _logical_operand(side: Value, level: int, inner: int) -> str:
    return side.text if side.level == level and level == AND else side.at(inner)


def _division_range(op: str, lhs: Value, rhs: Value) -> tuple[int, int]:
    if rhs.low > 0:
        if op == "mod":
            top = min(rhs.high - 1, lhs.high) if lhs.low >= 0 else rhs.high - 1
            return 0, top
        corners = [x // y for x in (lhs.low, lhs.high) for y in (rhs.low, rhs.high)]
        return min(corners), max(corners)
    return DType.I64.limits


def _less(low: int, high: int) -> bool | None:
    return True if high < 0 else (False if low >= 0 else None)


def _at_most(low: int, high: int) -> bool | None:
    return True if high <= 0 else (False if low > 0 else None)


def _equal(low: int, high: int) -> bool | None:
    if low == high == 0:
        return True
    return False if low > 0 or high < 0 else None


def _inverse(decide: Callable[[int, int], bool | None]) -> Callable[[int, int], bool | None]:
    def inverted(low: int, high: int) -> bool | None:
        outcome = decide(low, high)
        return None if outcome is None else not outcome

    return inverted


_DECISIONS: dict[str, Callable[[int, int], bool | None]] = {
    "lt": _less,
    "le": _at_most,
    "gt": _inverse(_at_most),
    "ge": _inverse(_less),
    "eq": _equal,
    "ne": _inverse(_equal),
}
