"""Expressions under a vector loop as GNU vector expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias

from weft.codegen import tree as c
from weft.codegen.composite import composite_of, quantized_of, requantized_of, saturated_of
from weft.codegen.helpers_lookup import TABLE16_LANES
from weft.codegen.helpers_vector import LANE_CALLS, mask_dtype, vector_type
from weft.codegen.lanes import (
    Lanes,
    held_as,
    helper_call,
    in_type,
    negative,
    shifted,
    shifted_apart,
    storage,
    unequal,
    wrapping,
)
from weft.codegen.linear import LANE, ZERO, LinearAddress, constant
from weft.codegen.naming import STORAGE
from weft.codegen.operations import ARITHMETIC, BITWISE, RELATIONS, SHIFTS
from weft.codegen.permute import interleaved, looked_up, shuffled, table16_index
from weft.codegen.scalar import Scalar
from weft.codegen.scope import KernelScope
from weft.codegen.slots import Slot, place
from weft.codegen.value import CValue, converted
from weft.dtypes import DType
from weft.loops.nodes import COMPARISONS, Binary, Bits, Cast, Const, Expr, Load, Select, Unary, Var
from weft.loops.python_arithmetic import HALVES
from weft.loops.walk import children, dtype_of, loads

Varying: TypeAlias = dict[int, tuple[Expr, bool]]
"""By identity, expressions of a loop over lanes and whether they differ from lane to lane."""

_ZEROS = frozenset({"0", "0u", "0.0", "0.0f"})
_TWICE = 16  # nodes at the most of an operand that is written twice
_EXACT = frozenset("neg abs sign floor ceil round trunc min max".split())


class VectorExpression:
    """Writes expressions of all lanes of a vector loop at once.

    Args:
        scope: where they stand; ``scope.values`` maps the loop's variable to a form in LANE.
        var: the loop's variable.
        start: its first value.
        lanes: how many lanes there are.
        temporaries: vectors computed before, by identity of their expression.
        varying: what is known of expressions in the same loop; more is added.
    """

    def __init__(
        self,
        scope: KernelScope,
        var: str,
        start: int,
        lanes: int,
        temporaries: dict[int, Lanes] | None = None,
        varying: Varying | None = None,
    ) -> None:
        self.scope = scope
        self.scalar = Scalar(scope)
        self.var, self.start, self.lanes = var, start, lanes
        self.temporaries = temporaries or {}
        self._varies: Varying = {} if varying is None else varying

    def with_temporaries(self, temporaries: dict[int, Lanes]) -> VectorExpression:
        """The same with more vectors known."""
        merged = {**self.temporaries, **temporaries}
        start, lanes = self.start, self.lanes
        return VectorExpression(self.scope, self.var, start, lanes, merged, self._varies)

    def varies(self, expr: Expr) -> bool:
        """Whether an expression differs from lane to lane."""
        found = self._varies.get(id(expr))
        if found is None:
            if isinstance(expr, Var):
                found = expr.name == self.var
            elif isinstance(expr, Load) and self.scope.slots[expr.buffer].private:
                found = True
            else:
                found = any(self.varies(each) for each in children(expr))
            self._varies[id(expr)] = expr, found
            return found
        return found[1]

    def type(self, dtype: DType) -> str:
        """The vector type of an element type."""
        return vector_type(dtype, self.lanes)

    def value(self, expr: Expr) -> CValue | Lanes:
        """Any expression: a scalar if all lanes agree."""
        if not self.varies(expr):
            return self.scalar.value(expr)
        if (found := self.temporaries.get(id(expr))) is not None:
            return found
        match expr:
            case Load():
                result = self._load(expr)
            case Unary():
                result = self._unary(expr)
            case Binary():
                result = self._binary(expr)
            case Select():
                result = self._select(expr)
            case Cast():
                result = self._cast(expr)
            case Bits():
                result = self._bits(expr)
            case _:
                result = None
        return result if result is not None else self._lane_by_lane(expr)

    def vector(self, expr: Expr) -> Lanes:
        """An expression as a vector, spread if all lanes agree."""
        return self.spread(self.value(expr), dtype_of(expr))

    def spread(self, value: CValue | Lanes, dtype: DType) -> Lanes:
        """A scalar in all lanes."""
        if isinstance(value, Lanes):
            return value
        if dtype is DType.BOOL:
            ones = c.CCast("int8_t", c.CGroup(value.node))
            return Lanes(c.CBinary("-", self._zeros(DType.I8), ones), DType.BOOL, 1)
        held = held_as(dtype)
        if isinstance(value.node, c.CNumber) and value.node.text in _ZEROS:
            return Lanes(self._zeros(held), held)
        # x - 0 is x even for -0.0; compilers make it a broadcast.
        return Lanes(c.CBinary("-", self._element(value, held), self._zeros(held)), held)

    def _zeros(self, dtype: DType) -> c.Node:
        return c.Braces(self.type(dtype), (c.CNumber("0"),))

    def _element(self, value: CValue, dtype: DType) -> c.Node:
        """A scalar as an operand beside vectors of a type."""
        ctype, node = STORAGE[dtype], value.node
        if value.kind != ctype and not (ctype == "int32_t" and value.kind == "int"):
            return c.CCast(ctype, node)
        return node if c.level_of(node) >= c.UNARY else c.CGroup(node)

    def operand(self, value: CValue | Lanes, dtype: DType) -> c.Node:
        """A value as an operand beside vectors of a type."""
        if isinstance(value, Lanes):
            return value.node
        return self._element(value, held_as(dtype))

    # --- memory -------------------------------------------------------------------------------

    def _load(self, expr: Load) -> Lanes | None:
        slot = self.scalar.slot(expr.buffer)
        if (byte := looked_up(expr, slot)) is not None:
            table = c.CUnary("&", self.scope.element(slot, slot.name, ZERO))
            x = self.vector(byte)
            op = f"lookup_{slot.dtype.value}"
            return self._helper(op, x.dtype, table, x.node, gives=slot.dtype)
        if self.lanes in TABLE16_LANES and (index := table16_index(expr, slot)) is not None:
            table = c.CUnary("&", self.scope.element(slot, slot.name, ZERO))
            x = self.vector(index)
            return self._helper("table16_f32", DType.I32, table, x.node, gives=DType.F32)
        name, offset = place(slot, [self.scalar.linear(each) for each in expr.index])
        node = self.whole(slot, name, offset)
        if node is None:
            return self._permuted(expr, slot, name)
        dtype = slot.dtype
        if dtype is DType.BOOL:
            return Lanes(unequal(node, c.CNumber("0")), DType.BOOL, 1)
        if dtype in HALVES:
            return self._helper(f"from_{dtype.value}", DType.F32, node)
        return Lanes(node, dtype)

    def _permuted(self, expr: Load, slot: Slot, name: str) -> Lanes | None:
        if slot.registers:
            return shuffled(expr, self.lanes, self._each_lane())
        return interleaved(expr, slot, name, self.lanes, self._each_lane())

    def _helper(
        self, op: str, dtype: DType, *operands: c.Node, gives: DType | None = None
    ) -> Lanes:
        return helper_call(op, dtype, self.lanes, *operands, gives=gives)

    def whole(
        self, slot: Slot, name: str, offset: LinearAddress | None, load: bool = True
    ) -> c.Node | None:
        """The lvalue of a whole vector at a place, if the lanes lie side by side there."""
        if slot.private:
            return c.Name(name)
        if offset is None or offset.lane_factor != 1:
            return None
        first = offset.without_lane()
        if slot.registers:
            return c.Name(name) if first.constant == 0 else None
        kind = self.type(storage(slot.dtype))
        return self.scope.element(slot, name, first, kind, load)

    def packed(self, slot: Slot, value: Lanes) -> c.Node:
        """A vector in the form that a buffer holds."""
        dtype = slot.dtype
        if dtype is DType.BOOL:
            return c.Convert(c.CUnary("-", value.node), self.type(DType.U8))
        if dtype in HALVES:
            return self._half(dtype, value.node)
        return value.node

    def _half(self, dtype: DType, node: c.Node) -> c.Node:
        """A vector of single precision in half precision."""
        if isinstance(node, c.Helper):
            if node.function.startswith(f"weft_from_{dtype.value}_"):
                return node.arguments[0]
            if node.function.startswith(f"weft_round16{dtype.value}_"):
                node = node.arguments[0]  # storing rounds
        return self._helper(f"to_{dtype.value}", DType.F32, node).node

    def at_lane(self, lane: int) -> Scalar:
        """A writer of what one lane computes."""
        values = dict(self.scope.values)
        values[self.var] = constant(self.start + lane)
        values[LANE.name] = constant(lane)
        temporaries = dict(self.scope.temporaries)
        for key, each in self.temporaries.items():
            node = c.Index(each.node, c.CNumber(str(lane)))
            if each.mask:
                temporaries[key] = CValue(unequal(node, c.CNumber("0")), "int", 0, 1)
            else:
                limits = (0, 0) if each.dtype.is_float else each.dtype.limits
                temporaries[key] = CValue(node, STORAGE[each.dtype], *limits)
        return Scalar(replace(self.scope, values=values, temporaries=temporaries))

    def _each_lane(self) -> Iterator[Scalar]:
        return map(self.at_lane, range(self.lanes))

    def _lane_by_lane(self, expr: Expr) -> Lanes:
        """A vector put together from what each lane computes."""
        dtype = dtype_of(expr)
        if dtype is DType.BOOL:
            values = (scalar.value(expr) for scalar in self._each_lane())
            bytes = tuple(c.CCast("int8_t", value.node) for value in values)
            truth = unequal(c.Braces(self.type(DType.I8), bytes), c.CNumber("0"))
            return Lanes(truth, DType.BOOL, 1)
        held = held_as(dtype)
        values = (scalar.value(expr) for scalar in self._each_lane())
        items = tuple(converted(value, STORAGE[held]) for value in values)
        return Lanes(c.Braces(self.type(held), items), held)

    # --- operations ---------------------------------------------------------------------------

    def _unary(self, expr: Unary) -> Lanes | None:
        dtype, op = dtype_of(expr.x), expr.op
        held = held_as(dtype)
        x = self.vector(expr.x)
        if dtype is DType.BOOL:
            return x._replace(node=c.CUnary("~", x.node))
        if op == "neg":
            return negative(x, held, self.lanes)
        if op == "not":
            return Lanes(c.CUnary("~", x.node), held)
        if op == "isnan" and dtype.is_float:
            return self._isnan(expr.x, x)
        if op == "abs" and not dtype.is_signed:
            return x
        fits = op in ("abs", "round", "sign") or op in LANE_CALLS
        if not fits or (not dtype.is_float and op != "abs"):
            return None
        return self._rounded(self._helper(op, held, x.node), dtype, op)

    def _isnan(self, expr: Expr, x: Lanes) -> Lanes | None:
        twice = sum(1 for _ in c.nodes(x.node)) <= _TWICE
        return Lanes(unequal(x.node, x.node), DType.BOOL, x.dtype.bytes) if twice else None

    def _rounded(self, value: Lanes, dtype: DType, op: str) -> Lanes:
        if dtype not in HALVES or op in _EXACT:
            return value
        return self._helper(f"round16{dtype.value}", DType.F32, value.node)

    def _binary(self, expr: Binary) -> Lanes | None:
        op, dtype = expr.op, dtype_of(expr.lhs)
        if dtype is DType.BOOL:
            return self._logical(expr)
        if op in COMPARISONS:
            lhs, rhs = self.value(expr.lhs), self.value(expr.rhs)
            sides = self.operand(lhs, dtype), self.operand(rhs, dtype)
            return Lanes(c.CBinary(RELATIONS[op], *sides), DType.BOOL, held_as(dtype).bytes)
        if dtype.is_float:
            return self._float_binary(op, expr, dtype)
        return self._integer_binary(op, expr, dtype)

    def _logical(self, expr: Binary) -> Lanes | None:
        op = {"min": "and", "max": "or", "ne": "xor"}.get(expr.op, expr.op)
        if op not in BITWISE:
            return None
        lhs, rhs = self.vector(expr.lhs), self.vector(expr.rhs)
        size = max(lhs.mask, rhs.mask)
        lhs, rhs = self.resized(lhs, size), self.resized(rhs, size)
        return Lanes(c.CBinary(BITWISE[op], lhs.node, rhs.node), DType.BOOL, size)

    def resized(self, mask: Lanes, size: int) -> Lanes:
        """A mask with lanes of another width."""
        if mask.mask == size:
            return mask
        return Lanes(c.Convert(mask.node, self.type(mask_dtype(size))), DType.BOOL, size)

    def _float_binary(self, op: str, expr: Binary, dtype: DType) -> Lanes | None:
        held = held_as(dtype)
        composite = composite_of(expr)
        if composite is not None and not any(id(each) in self.temporaries for each in composite[2]):
            operands = (self.vector(each).node for each in composite[1])
            return self._helper(composite[0], DType.F32, *operands)
        if op in ARITHMETIC:
            lhs, rhs = self.value(expr.lhs), self._logistic(expr) or self.value(expr.rhs)
            sides = self.operand(lhs, dtype), self.operand(rhs, dtype)
            return self._rounded(Lanes(c.CBinary(ARITHMETIC[op], *sides), held), dtype, op)
        lhs, rhs = self.vector(expr.lhs), self.vector(expr.rhs)
        return self._rounded(self._helper(op, held, lhs.node, rhs.node), dtype, op)

    def _logistic(self, expr: Binary) -> Lanes | None:
        """The divisor of ``a / (exp(-x) + 1)``, where overflow and subnormals do not count."""
        match expr:
            case Binary(
                "div", _, Binary("add", Unary("exp", Unary("neg", x)) as power, Const(1))
            ) if self.varies(x) and dtype_of(x) is DType.F32:
                if {id(power), id(expr.rhs)} & self.temporaries.keys():
                    return None
                return self._helper("logistic", DType.F32, self.vector(x).node)
            case _:
                return None

    def _integer_binary(self, op: str, expr: Binary, dtype: DType) -> Lanes | None:
        if op in ("min", "max"):
            lhs, rhs = self.vector(expr.lhs), self.vector(expr.rhs)
            return self._helper(op, dtype, lhs.node, rhs.node)
        if op in BITWISE:
            lhs, rhs = self.value(expr.lhs), self.value(expr.rhs)
            sides = self.operand(lhs, dtype), self.operand(rhs, dtype)
            return Lanes(c.CBinary(BITWISE[op], *sides), dtype)
        if op in ("add", "sub", "mul"):
            return wrapping(op, self.value(expr.lhs), self.value(expr.rhs), dtype, self.lanes)
        match expr.rhs:
            case Const(count) if op in SHIFTS and 0 <= count < 8 * dtype.bytes:
                return shifted(op, self.vector(expr.lhs), int(count), dtype, self.lanes)
            case _ if op in SHIFTS and dtype.bytes >= 4:
                sides = self.vector(expr.lhs), self.vector(expr.rhs)
                return shifted_apart(op, *sides, dtype, self.lanes)
            case _:
                return None

    def _select(self, expr: Select) -> Lanes | None:
        picked = shuffled(expr, self.lanes, self._each_lane())
        if picked is not None:
            return picked
        dtype = dtype_of(expr)
        condition = self.value(expr.condition)
        if isinstance(condition, CValue):
            if condition.low == condition.high:
                return self.vector(expr.then if condition.low else expr.otherwise)
            return self._choice(condition, expr, dtype)
        if not (self._harmless(expr.then) and self._harmless(expr.otherwise)):
            return None
        yes, no, size = self.vector(expr.then), self.vector(expr.otherwise), condition.mask
        if dtype is DType.BOOL:
            taken = c.CBinary("&", self.resized(yes, size).node, condition.node)
            left = c.CBinary("&", self.resized(no, size).node, c.CUnary("~", condition.node))
            return Lanes(c.CBinary("|", taken, left), dtype, size)
        held = held_as(dtype)
        mask = self.resized(condition, held.bytes)
        return self._helper("select", held, mask.node, yes.node, no.node)

    def _choice(self, condition: CValue, expr: Select, dtype: DType) -> Lanes:
        self.scope.guards += 1
        yes, no = self.vector(expr.then), self.vector(expr.otherwise)
        self.scope.guards -= 1
        size = max(yes.mask, no.mask)
        if size:
            yes, no = self.resized(yes, size), self.resized(no, size)
        held = held_as(dtype)
        # What is read from memory has a type of its own, and gcc wants one type here.
        sides = yes.node, no.node
        read = (each for side in sides for each in c.nodes(side) if isinstance(each, c.CMemory))
        if not size and any(each.vector for each in read):
            kind = self.type(held)
            sides = c.CCast(kind, yes.node), c.CCast(kind, no.node)
        return Lanes(c.Ternary(condition.node, *sides), held, size)

    def _harmless(self, expr: Expr) -> bool:
        """Whether every load is inside its buffer whatever a condition around says."""
        return all(self.scalar.inside(load) for load in loads(expr))

    def _cast(self, expr: Cast) -> Lanes | None:
        source, target = dtype_of(expr.x), expr.dtype
        if (whole := requantized_of(expr)) is not None:
            parts, op = whole
            nodes = *(self.vector(each).node for each in parts.operands), c.CNumber(str(parts.zero))
            return self._helper(op, DType.I32, *nodes, gives=target)
        if source is DType.I64 and any(True for _ in self._index_vars(expr.x)):
            return None
        if (quantized := quantized_of(expr)) is not None:
            value, zero, op = quantized
            sides = self.vector(value).node, c.CNumber(str(zero))
            return self._helper(op, DType.F32, *sides, gives=target)
        if (inside := saturated_of(expr)) is not None:
            return self._helper(inside[1], DType.I32, self.vector(inside[0]).node, gives=target)
        x = self.vector(expr.x)
        if source is target:
            return x
        if target is DType.BOOL:
            return Lanes(unequal(x.node, c.CNumber("0")), DType.BOOL, held_as(source).bytes)
        if source is DType.BOOL:
            x = Lanes(c.CUnary("-", x.node), mask_dtype(x.mask))
        held = held_as(target)
        if source.is_float and not target.is_float:
            return self._helper(f"saturate_{target.value}", x.dtype, x.node, gives=target)
        if target in HALVES and x.dtype is not DType.F32:
            return None
        return self._rounded(in_type(x, held, self.lanes), target, "")

    def _bits(self, expr: Bits) -> Lanes | None:
        """The same bits, which is what conversions between vector types of a size are."""
        if any(True for _ in self._index_vars(expr.x)):
            return None
        x = self.vector(expr.x)
        return Lanes(c.CCast(self.type(expr.dtype), x.node), expr.dtype)

    def _index_vars(self, expr: Expr) -> list[Expr]:
        """The vector loop's variable where it is used as a number."""
        if isinstance(expr, Var):
            return [expr] if expr.name == self.var else []
        if isinstance(expr, Load):
            return []
        return [found for each in children(expr) for found in self._index_vars(each)]
