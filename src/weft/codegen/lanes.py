"""A vector expression in C, and the types that lanes are held, stored and wrapped in."""

from __future__ import annotations

from typing import NamedTuple

from weft.codegen import tree as c
from weft.codegen.helpers_vector import vector_type
from weft.codegen.helpers_widen import widens
from weft.codegen.naming import STORAGE
from weft.codegen.operations import ARITHMETIC, SHIFTS
from weft.codegen.value import CValue
from weft.dtypes import DType
from weft.loops.python_arithmetic import HALVES


class Lanes(NamedTuple):
    """A vector expression in C.

    Attributes:
        node: the expression.
        dtype: element type; f16 and bf16 are held as f32, bool as a mask.
        mask: bytes of each lane of a mask (all ones or zero), 0 if it is none.
    """

    node: c.Node
    dtype: DType
    mask: int = 0


def held_as(dtype: DType) -> DType:
    """The type that lanes of a type are computed in."""
    return DType.F32 if dtype in HALVES else dtype


def storage(dtype: DType) -> DType:
    """The integer or float type whose vectors are stored for a type."""
    if dtype in HALVES:
        return DType.U16
    return DType.U8 if dtype is DType.BOOL else dtype


def unsigned_of(dtype: DType) -> DType:
    """The unsigned integer of the same width."""
    return DType(f"u{dtype.bytes * 8}")


def helper_call(
    op: str, dtype: DType, lanes: int, *operands: c.Node, gives: DType | None = None
) -> Lanes:
    """A call of a helper on vectors of a type; ``gives`` is the type of its result, if another."""
    return Lanes(c.Helper(f"weft_{op}_{vector_type(dtype, lanes)}", operands), gives or dtype)


def wrapping(op: str, lhs: CValue | Lanes, rhs: CValue | Lanes, dtype: DType, lanes: int) -> Lanes:
    """``add``, ``sub`` or ``mul`` of integers, modulo their width."""
    unsigned = unsigned_of(dtype)
    sides: list[c.Node] = []
    for side in (lhs, rhs):
        if isinstance(side, CValue):
            sides.append(c.CCast(STORAGE[unsigned], side.node))
        else:
            cast = unsigned is not dtype
            sides.append(c.CCast(vector_type(unsigned, lanes), side.node) if cast else side.node)
    node = c.CBinary(ARITHMETIC[op], *sides)
    return Lanes(node if unsigned is dtype else c.CCast(vector_type(dtype, lanes), node), dtype)


def shifted(op: str, x: Lanes, count: int, dtype: DType, lanes: int) -> Lanes:
    """All lanes shifted by a number that is less than the width of the type."""
    held = unsigned_of(dtype) if op == "shl" else dtype
    node = x.node if held is dtype else c.CCast(vector_type(held, lanes), x.node)
    node = c.CBinary(SHIFTS[op], node, c.CNumber(str(count)))
    return Lanes(node if held is dtype else c.CCast(vector_type(dtype, lanes), node), dtype)


def shifted_apart(op: str, x: Lanes, counts: Lanes, dtype: DType, lanes: int) -> Lanes:
    """Each lane shifted by its own number; by the width of the type or more, 0."""
    unsigned, bits = vector_type(unsigned_of(dtype), lanes), 8 * dtype.bytes
    result = vector_type(dtype, lanes)
    held = unsigned if op == "shl" else result
    many = c.CCast(unsigned, counts.node)
    inside = c.CBinary("<", many, c.CNumber(str(bits)))
    within = c.CBinary("&", many, c.CNumber(str(bits - 1)))
    moved = c.CBinary(SHIFTS[op], c.CCast(held, x.node), c.CCast(held, within))
    return Lanes(c.CBinary("&", c.CCast(result, moved), c.CCast(result, inside)), dtype)


def negative(x: Lanes, dtype: DType, lanes: int) -> Lanes:
    """All lanes with the other sign, integers modulo their width."""
    if dtype.is_float:
        return Lanes(c.CUnary("-", x.node), dtype)
    unsigned = c.CCast(vector_type(unsigned_of(dtype), lanes), x.node)
    return Lanes(c.CCast(vector_type(dtype, lanes), c.CUnary("-", unsigned)), dtype)


def in_type(x: Lanes, dtype: DType, lanes: int) -> Lanes:
    """All lanes in another type.

    Compilers know instructions for integers of twice and half the size, and of the same size as a
    float; other conversions they make lane by lane.
    """
    while x.dtype is not dtype:
        near = _nearer(x.dtype, dtype, lanes)
        if widens(x.dtype, near, lanes):
            x = helper_call(f"widen_{near.value}", x.dtype, lanes, x.node, gives=near)
        else:
            x = Lanes(c.Convert(x.node, vector_type(near, lanes)), near)
    return x


def _nearer(source: DType, target: DType, lanes: int) -> DType:
    """The next type on the way from one to another."""
    if not source.is_integer:
        return target
    narrow = source.bytes < 4 and source.bytes < target.bytes
    if narrow and (target.is_float or target is DType.I32) and widens(source, DType.I32, lanes):
        return DType.I32
    if narrow and (target.is_float or 2 * source.bytes < target.bytes):
        # An `i32` holds all of `u16`, and more machines make floats of it.
        return DType.I32 if source.bytes == 2 else DType("i16" if source.is_signed else "u16")
    if target.is_integer and source.bytes > 2 * target.bytes:
        return DType(f"{'i' if source.is_signed else 'u'}{4 * source.bytes}")
    return target


def unequal(lhs: c.Node, rhs: c.Node) -> c.Node:
    """Which lanes differ."""
    return c.CBinary("!=", lhs, rhs)
