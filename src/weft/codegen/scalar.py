"""Expressions of the loop grammar as scalar C expressions."""

from __future__ import annotations

from typing import assert_never

from weft.codegen import tree as c
from weft.codegen.decide import DECISIONS, truth
from weft.codegen.linear import LANE, LinearAddress, atom, constant, scaled, split, value_of
from weft.codegen.literals import float_number, integer_number
from weft.codegen.operations import (
    BOOL_RANGE,
    RELATIONS,
    by_helper,
    conversion,
    float_binary,
    float_unary,
    integer,
    integer_unary,
    logical,
    rounded,
)
from weft.codegen.scope import KernelScope
from weft.codegen.slots import Slot, place
from weft.codegen.value import KINDS, CValue, as_kind, known
from weft.codegen.wrapping import integer_binary, inverted
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.nodes import (
    COMPARISONS,
    Binary,
    Cast,
    Const,
    Conversion,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.python_arithmetic import HALVES
from weft.loops.ranges import FLIPPED
from weft.loops.walk import dtype_of


class Scalar:
    """Writes scalar expressions.

    Args:
        scope: where they stand.
    """

    def __init__(self, scope: KernelScope) -> None:
        self.scope = scope
        self._dialect = scope.flavour

    # --- indices ------------------------------------------------------------------------------

    def linear(self, expr: Expr) -> LinearAddress:
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

    def _checked(self, expr: Binary, form: LinearAddress) -> LinearAddress:
        return form if form.fits() else self._wrapping(expr)

    def _wrapping(self, expr: Binary) -> LinearAddress:
        sides = [value_of(self.linear(side)) for side in (expr.lhs, expr.rhs)]
        return _opaque(integer_binary(expr.op, sides[0], sides[1], DType.I64))

    def _product(self, expr: Binary, left: LinearAddress, right: LinearAddress) -> LinearAddress:
        if left.constant is not None:
            left, right = right, left
        if right.constant is not None:
            return self._checked(expr, left.times(right.constant))
        for form, other in ((left, right), (right, left)):
            number = self._number(other)
            if number is not None:
                return self._checked(expr, scaled(form, number))
        return self._wrapping(expr)

    def _number(self, form: LinearAddress) -> CValue | None:
        """The parameter that a form is, if it is one."""
        if form.const or len(form.terms) != 1:
            return None
        ((node, (factor, value)),) = form.terms.items()
        return value if factor == 1 and node in self.scope.numbers else None

    def _division(self, expr: Binary, left: LinearAddress, right: LinearAddress) -> LinearAddress:
        divisor = right.constant
        if divisor is None or divisor <= 0 or not left.fits():
            return self._divided(expr.op, left, right)
        quotient, rest = split(left, divisor)
        low, high = rest.range()
        if low // divisor == high // divisor:
            if expr.op == "mod":
                return LinearAddress(rest.const - low // divisor * divisor, rest.terms)
            return LinearAddress(quotient.const + low // divisor, quotient.terms)
        if expr.op == "mod":
            return self._divided("mod", rest, right)
        return quotient.plus(self._divided("floordiv", rest, right))

    def _divided(self, op: str, left: LinearAddress, right: LinearAddress) -> LinearAddress:
        lhs, rhs = value_of(left), value_of(right)
        low, high = _division_range(op, lhs, rhs)
        if lhs.low >= 0 and rhs.low > 0:
            kind = "int" if lhs.promoted == rhs.promoted == "int" else "int64_t"
            sides = as_kind(kind, lhs).node, as_kind(kind, rhs).node
            node = c.CBinary("/" if op == "floordiv" else "%", *sides)
            return _opaque(CValue(node, kind, low, high))
        found = by_helper(op, lhs, rhs, DType.I64)
        return _opaque(found._replace(low=low, high=high))

    def _extreme(self, expr: Binary, left: LinearAddress, right: LinearAddress) -> LinearAddress:
        low, high = right.plus(left, -1).range()
        if left.fits() and right.fits():
            if low >= 0:
                return left if expr.op == "min" else right
            if high <= 0:
                return right if expr.op == "min" else left
        lhs, rhs = value_of(left), value_of(right)
        pick = min if expr.op == "min" else max
        found = by_helper(expr.op, lhs, rhs, DType.I64)
        ends = pick(lhs.low, rhs.low), pick(lhs.high, rhs.high)
        return _opaque(found._replace(low=ends[0], high=ends[1]))

    def _chosen(self, expr: Select, condition: Expr, then: Expr, otherwise: Expr) -> LinearAddress:
        test = self.value(condition)
        if test.low == test.high:
            return self.linear(then if test.low else otherwise)
        return _opaque(self._ternary(test, then, otherwise, expr))

    # --- values -------------------------------------------------------------------------------

    def value(self, expr: Expr) -> CValue:
        """Any expression."""
        found = self.scope.temporaries.get(id(expr))
        if found is not None:
            return found
        if dtype_of(expr) is DType.I64:
            return value_of(self.linear(expr))
        return self.generic(expr)

    def generic(self, expr: Expr) -> CValue:
        """Any expression that is not a linear form."""
        found = self.scope.temporaries.get(id(expr))
        if found is not None:
            return found
        match expr:
            case Const():
                return self.literal(expr)
            case Var():
                return value_of(self.linear(expr))
            case Load():
                return self.load(expr)
            case Unary():
                return self.unary(expr)
            case Binary():
                return self.binary(expr)
            case Select():
                return self.select(expr)
            case Conversion():
                return conversion(expr, self.value(expr.x), dtype_of(expr.x))
            case Reduce():
                raise InternalError("a reduction is left in a kernel")
            case _:
                assert_never(expr)

    def literal(self, expr: Const) -> CValue:
        """A number."""
        if expr.dtype.is_float:
            node = float_number(float(expr.value), expr.dtype, self._dialect)
            return CValue(node, KINDS[expr.dtype])
        number = int(expr.value)
        return CValue(integer_number(number, expr.dtype), KINDS[expr.dtype], number, number)

    def load(self, expr: Load) -> CValue:
        """An element."""
        slot = self.slot(expr.buffer)
        name, offset = place(slot, [self.linear(each) for each in expr.index])
        node = self.at(slot, name, offset)
        if slot.private:
            node = c.Index(node, value_of(self.scope.values[LANE.name]).node)
        dtype = slot.buffer.dtype
        if dtype in HALVES:
            if slot.dtype in HALVES:
                node = c.Helper(f"weft_{dtype.value}_to_f32", (node,))
            return CValue(node, "float")
        low, high = (0, 0) if dtype.is_float else dtype.limits
        return CValue(node, slot.ctype, low, high)

    def at(self, slot: Slot, name: str, offset: LinearAddress | None, load: bool = True) -> c.Node:
        """The register or the element at a place."""
        if offset is None:
            return c.Name(name)
        if slot.registers:  # a lane of a vector that has a name
            return c.Index(c.Name(name), value_of(offset).node)
        return self.scope.element(slot, name, offset, load=load)

    def slot(self, name: str) -> Slot:
        """Where a buffer is."""
        return self.scope.slots[name]

    def select(self, expr: Select) -> CValue:
        """A selection; one of its sides if the condition is known."""
        test = self.value(expr.condition)
        if test.low == test.high:
            return self.value(expr.then if test.low else expr.otherwise)
        return self._ternary(test, expr.then, expr.otherwise, expr)

    def inside(self, load: Load) -> bool:
        """Whether an element is inside its buffer whatever a condition around says."""
        shape = self.scope.slots[load.buffer].buffer.shape
        for index, extent in zip(load.index, shape, strict=True):
            low, high = self.linear(index).range()
            if low < 0 or high >= extent:
                return False
        return True

    def _ternary(self, test: CValue, then: Expr, otherwise: Expr, expr: Select) -> CValue:
        self.scope.guards += 1
        yes, no = self.value(then), self.value(otherwise)
        self.scope.guards -= 1
        kind = KINDS[dtype_of(expr)]
        if yes.promoted == no.promoted == "int":
            kind = "int"
        node = c.Ternary(test.node, as_kind(kind, yes).node, as_kind(kind, no).node)
        return CValue(node, kind, min(yes.low, no.low), max(yes.high, no.high))

    # --- unary --------------------------------------------------------------------------------

    def unary(self, expr: Unary) -> CValue:
        """One of ``UNARY_OPS``."""
        dtype, x = dtype_of(expr.x), self.value(expr.x)
        if expr.op == "not":
            return self._not(expr.x, x, dtype)
        if not dtype.is_float:
            return integer_unary(expr.op, x, dtype)
        return rounded(float_unary(expr.op, x, self._dialect), dtype, expr.op)

    def _not(self, operand: Expr, x: CValue, dtype: DType) -> CValue:
        if dtype is not DType.BOOL:
            return inverted(x, dtype)
        if isinstance(operand, Binary) and operand.op in COMPARISONS:
            lhs, rhs = operand.lhs, operand.rhs
            if not dtype_of(lhs).is_float and id(operand) not in self.scope.temporaries:
                return self.binary(Binary(FLIPPED[operand.op], lhs, rhs))
        if x.low == x.high:
            return known(1 - x.low)
        return CValue(c.CUnary("!", x.node), "int", 0, 1)

    # --- binary -------------------------------------------------------------------------------

    def binary(self, expr: Binary) -> CValue:
        """One of ``BINARY_OPS``."""
        op, dtype = expr.op, dtype_of(expr.lhs)
        if op in COMPARISONS:
            return self._comparison(op, expr.lhs, expr.rhs, dtype)
        lhs, rhs = self.value(expr.lhs), self.value(expr.rhs)
        if dtype is DType.BOOL:
            return logical(op, lhs, rhs)
        if dtype.is_float:
            return rounded(float_binary(op, lhs, rhs, self._dialect), dtype, op)
        return integer(op, lhs, rhs, dtype)

    def _comparison(self, op: str, left: Expr, right: Expr, dtype: DType) -> CValue:
        if dtype is DType.I64:
            decided = self._decided(op, left, right)
            if decided is not None:
                return decided
        lhs, rhs = self.value(left), self.value(right)
        if not dtype.is_float:
            ends = (lhs.low - rhs.high, lhs.high - rhs.low)
            outcome = DECISIONS[op](*((0, 0) if lhs.node == rhs.node else ends))
            if outcome is not None:
                return truth(outcome)
            if lhs.promoted != rhs.promoted:
                kind = KINDS[dtype]
                lhs, rhs = as_kind(kind, lhs), as_kind(kind, rhs)
        return CValue(c.CBinary(RELATIONS[op], lhs.node, rhs.node), "int", *BOOL_RANGE)

    def _decided(self, op: str, left: Expr, right: Expr) -> CValue | None:
        lhs, rhs = self.linear(left), self.linear(right)
        if not (lhs.fits() and rhs.fits()):
            return None
        low, high = lhs.plus(rhs, -1).range()
        outcome = DECISIONS[op](low, high)
        return None if outcome is None else truth(outcome)

    # --- conversions --------------------------------------------------------------------------


def _opaque(value: CValue) -> LinearAddress:
    if value.low == value.high:
        return constant(value.low)
    return atom(value)


def _division_range(op: str, lhs: CValue, rhs: CValue) -> tuple[int, int]:
    if rhs.low > 0:
        if op == "mod":
            top = min(rhs.high - 1, lhs.high) if lhs.low >= 0 else rhs.high - 1
            return 0, top
        corners = [x // y for x in (lhs.low, lhs.high) for y in (rhs.low, rhs.high)]
        return min(corners), max(corners)
    return DType.I64.limits
