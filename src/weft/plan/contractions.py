"""Contractions in definitions: sums of products of two tensors, and separable transforms."""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import TypeGuard

from weft.dtypes import DType
from weft.loops.definition import Compute
from weft.loops.nodes import Binary, Cast, Const, Expr, Load, Reduce, Select
from weft.loops.walk import free_vars, loads, walk

FEW_TERMS = 8
"""Of a sum that is written out."""


def contraction(value: Expr) -> Reduce | None:
    """The sum of products of two tensors in an expression, if there is one."""
    for node in walk(value):
        if isinstance(node, Reduce) and node.op == "sum":
            if _is_separable(node):
                return None
            product = _product(node.value)
            if product and {load.buffer for load in loads(product.lhs)} != {
                load.buffer for load in loads(product.rhs)
            }:
                return node
    return None


def is_gated(compute: Compute, constants: Collection[str]) -> bool:
    """Whether all sums of a definition are products of an f32 vector and a constant matrix."""
    sums = [node for node in walk(compute.value) if isinstance(node, Reduce)]
    return bool(sums) and all(_is_gate(each, compute, constants) for each in sums)


def _is_gate(sum: Reduce, compute: Compute, constants: Collection[str]) -> bool:
    axes = [axis for axis in compute.axes if axis.extent > 1]
    match sum:
        case Reduce("sum", (along,), Binary("mul", Load() as lhs, Load() as rhs)):
            matrix, vector = (lhs, rhs) if lhs.buffer in constants else (rhs, lhs)
        case _:
            return False
    both = frozenset((along.var, *(axis.var for axis in axes)))
    return (
        len(axes) == 1
        and matrix.buffer in constants
        and vector.buffer not in constants
        and matrix.dtype is vector.dtype is DType.F32
        and both <= free_vars(matrix)
        and both & free_vars(vector) == frozenset((along.var,))
    )


def separable(value: Expr) -> Reduce | None:
    """The outer one of two sums of few products where one is a factor of the other's terms."""
    return next((node for node in walk(value) if _is_separable(node)), None)


def _is_separable(node: Expr) -> TypeGuard[Reduce]:
    match node:
        case Reduce("sum", value=Binary("mul", lhs, rhs)):
            return is_short(node) and (is_short(lhs) or is_short(rhs))
        case _:
            return False


def is_short(node: Expr) -> bool:
    """Whether an expression is a sum of products with few terms."""
    match node:
        case Reduce("sum", axes, Binary("mul")):
            return prod(axis.extent for axis in axes) <= FEW_TERMS
        case _:
            return False


def _product(value: Expr) -> Binary | None:
    match value:
        case Binary("mul", lhs, rhs) if any(loads(lhs)) and any(loads(rhs)):
            return value
        case Select(_, then, Const()):
            return _product(then)
        case Cast(_, inner):
            return _product(inner)
        case _:
            return None
