"""Vectors whose lanes are taken from registers or memory in an order of their own."""

from __future__ import annotations

from collections.abc import Iterable

from weft.codegen import tree as c
from weft.codegen.helpers_vector import vector_type
from weft.codegen.lanes import Lanes, held_as, helper_call
from weft.codegen.linear import LinearAddress
from weft.codegen.scalar import Scalar
from weft.codegen.slots import Slot, place
from weft.dtypes import DType
from weft.loops.nodes import Binary, Cast, Const, Expr, Load, Select
from weft.loops.python_arithmetic import HALVES
from weft.loops.walk import dtype_of

BYTES = (DType.I8, DType.U8)


def interleaved(
    expr: Load, slot: Slot, name: str, lanes: int, scalars: Iterable[Scalar]
) -> Lanes | None:
    """Lanes that lie side by side in two places, read from one and the other in turn.

    Args:
        expr: what each lane loads.
        slot: where it is.
        name: its C name.
        lanes: how many there are.
        scalars: the writer of each lane.
    """
    if slot.dtype is DType.BOOL or slot.dtype in HALVES or lanes < 4:
        return None
    offsets: list[LinearAddress] = []
    scope = None
    for scalar in scalars:
        offset = place(slot, [scalar.linear(each) for each in expr.index])[1]
        if offset is None:
            return None
        offsets.append(offset)
        scope = scope or scalar.scope
    assert scope is not None
    steps = [offset.plus(offsets[0], -1).constant for offset in offsets]
    if steps == [lane % 2 for lane in range(lanes)] and slot.dtype.bytes == DType.F32.bytes:
        pair = c.CUnary("&", scope.element(slot, name, offsets[0]))
        return helper_call("pair", slot.dtype, lanes, pair)
    steps = [offset.plus(offsets[lane % 2], -1).constant for lane, offset in enumerate(offsets)]
    if steps != [lane // 2 for lane in range(lanes)]:
        return None
    kind = vector_type(slot.dtype, lanes // 2)
    halves = [scope.element(slot, name, each, kind) for each in offsets[:2]]
    return helper_call("zip", slot.dtype, lanes, *halves)


def looked_up(expr: Load, slot: Slot) -> Expr | None:
    """The byte by which an element of a table of 256 is loaded; the smallest is the first."""
    if slot.dtype not in BYTES or slot.registers or slot.given or slot.buffer.shape != (256,):
        return None
    match expr.index[0]:
        case Binary("add", Cast(_, x), Const(128)) if dtype_of(x) is DType.I8:
            return x
        case Cast(_, x) if dtype_of(x) is DType.U8:
            return x
        case _:
            return None


def table16_index(expr: Load, slot: Slot) -> Expr | None:
    """The 4-bit index, half a byte, of a load from a table of 16 floats; ``None`` for others."""
    if slot.dtype is not DType.F32 or slot.registers or slot.given or slot.buffer.shape != (16,):
        return None
    match expr.index[0]:
        case Cast(_, Binary("and" | "shr" as op, Cast(DType.I32, byte), Const(value)) as x) if (
            dtype_of(byte) is DType.U8 and value == (15 if op == "and" else 4)
        ):
            return x
        case _:
            return None


def shuffled(expr: Select | Load, lanes: int, scalars: Iterable[Scalar]) -> Lanes | None:
    """Lanes picked from one or two registers, if that is what an expression does."""
    picks: list[tuple[str, int]] = []
    for scalar in scalars:
        pick = _picked(expr, scalar, lanes)
        if pick is None:
            return None
        picks.append(pick)
    names = list(dict.fromkeys(name for name, _ in picks))
    if len(names) > 2:
        return None
    numbers = (lane + lanes * names.index(name) for name, lane in picks)
    order = (c.CNumber(str(number)) for number in numbers)
    registers = c.Name(names[0]), c.Name(names[-1])
    return helper_call("shuffle", held_as(dtype_of(expr)), lanes, *registers, *order)


def _picked(expr: Expr, lane: Scalar, lanes: int) -> tuple[str, int] | None:
    """The register and the lane of it that one lane of a selection takes."""
    while isinstance(expr, Select):
        sides = [each for each in (expr.then, expr.otherwise) if isinstance(each, Load)]
        if not any(lane.slot(each.buffer).registers for each in sides):
            return None
        test = lane.value(expr.condition)
        if test.low != test.high:
            return None
        expr = expr.then if test.low else expr.otherwise
    if not isinstance(expr, Load):
        return None
    slot = lane.slot(expr.buffer)
    if slot.private or slot.lanes != lanes:
        return None
    name, offset = place(slot, [lane.linear(each) for each in expr.index])
    number = offset.constant if offset else None
    return None if number is None else (name, number)
