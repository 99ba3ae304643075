"""Whether two expressions are the same function of their loads, over ranges of variables.

Looser than ``weft.loops.value_numbering``: index arithmetic is compared by what it gives,
conditions that always or never hold are left out, and so are reduced axes of one place.  So the
definition of an op on a part of its inputs is recognised as that part of the definition on the
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.loops.affine import affine
from weft.loops.nodes import (
    Axis,
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
from weft.loops.walk import FreeVars, children, dtype_of, index, substitute

_MOST_POINTS = 1 << 20
"""Expressions over more points are only compared by their form."""
NO_ARRAYS: Mapping[str, np.ndarray] = MappingProxyType({})
_BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY: Mapping[str, Callable[[Any], Any]] = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.logical_not,
}


def values_of(
    expr: Expr, places: Mapping[str, np.ndarray], arrays: Mapping[str, np.ndarray] = NO_ARRAYS
) -> np.ndarray | None:
    """What an expression gives where its variables are at ``places``.

    ``None`` where it reads other buffers than ``arrays``, or does arithmetic that NumPy's is
    not known to agree with: integers divide without truncation here, and only ``bool`` is taken
    for logic.  A load out of bounds, which a condition keeps from being done, gives anything.
    """
    match expr:
        case Const(value, dtype):
            return np.asarray(value, dtype.numpy)
        case Var(name):
            return places[name]
        case Load(buffer, where, _) if buffer in arrays:
            return loaded(arrays[buffer], where, places, arrays)
        case Cast(dtype, x):
            inner = values_of(x, places, arrays)
            # Rounding to an integer is C's business.
            kept = inner is not None and (dtype.is_float or inner.dtype.kind != "f")
            return inner.astype(dtype.numpy) if inner is not None and kept else None
        case Unary(op, x) if op in _UNARY:
            inner = values_of(x, places, arrays)
            return None if inner is None else np.asarray(_UNARY[op](inner))
        case Binary(op, lhs, rhs) if op in _BINARY and (op != "div" or dtype_of(lhs).is_float):
            left, right = (values_of(each, places, arrays) for each in (lhs, rhs))
            if left is None or right is None or (op in ("and", "or") and left.dtype != bool):
                return None
            with np.errstate(all="ignore"):
                return np.asarray(_BINARY[op](left, right))
        case Select(condition, then, otherwise):
            held, left, right = (values_of(x, places, arrays) for x in (condition, then, otherwise))
            if held is None or left is None or right is None:
                return None
            return np.where(held, left, right)
        case _:
            return None


def loaded(
    array: np.ndarray,
    where: Sequence[Expr],
    places: Mapping[str, np.ndarray],
    arrays: Mapping[str, np.ndarray] = NO_ARRAYS,
) -> np.ndarray | None:
    """What loads of an array give; it is repeated along its axes of 1."""
    at: list[np.ndarray] = []
    for each, extent in zip(where, array.shape, strict=True):
        found = np.zeros((), np.int64) if extent == 1 else values_of(each, places, arrays)
        if found is None or not extent:
            return None
        at.append(np.clip(found, 0, extent - 1))
    return np.asarray(array[tuple(at)])


def grid(names: Sequence[str], ranges: Mapping[str, int]) -> dict[str, np.ndarray] | None:
    """All points of the variables' ranges, as arrays that broadcast; ``None`` if too many."""
    extents = [ranges[name] for name in names]
    if prod(extents) > _MOST_POINTS:
        return None
    return dict(zip(names, np.ogrid[tuple(slice(extent) for extent in extents)], strict=True))


class Agreement:
    """Compares expressions over ``ranges``: the extents of their free variables."""

    def __init__(self, ranges: Mapping[str, int]) -> None:
        self._ranges = dict(ranges)
        self._free = FreeVars()
        self._settled: dict[int, Expr] = {}
        self._equal: dict[tuple[int, int], bool] = {}
        self._plain: dict[int, bool] = {}
        # What is remembered by identity must stay alive.
        self._alive: list[Expr] = []

    def __call__(self, lhs: Expr, rhs: Expr) -> bool:
        """Whether both are the same function of their loads; ``False`` where it is not seen."""
        lhs, rhs = self._settle(lhs), self._settle(rhs)
        key = (id(lhs), id(rhs))
        if key not in self._equal:
            self._alive += (lhs, rhs)
            self._equal[key] = self._same(lhs, rhs)
        return self._equal[key]

    def _same(self, lhs: Expr, rhs: Expr) -> bool:
        if lhs == rhs:
            return True
        if self._is_plain(lhs) and self._is_plain(rhs):
            return self._same_numbers(lhs, rhs)
        match lhs, rhs:
            case Reduce(op, axes, value), Reduce(other, others, second):
                extents = [axis.extent for axis in axes]
                if op != other or extents != [axis.extent for axis in others]:
                    return False
                names = {b.var: Var(a.var) for a, b in zip(axes, others, strict=True)}
                self._ranges.update((axis.var, axis.extent) for axis in axes)
                return self(value, substitute(second, names))
            case Select(), Select():
                pairs = zip(_conjuncts(lhs.condition), _conjuncts(rhs.condition), strict=False)
                same = len(_conjuncts(lhs.condition)) == len(_conjuncts(rhs.condition))
                return (
                    same
                    and all(self(left, right) for left, right in pairs)
                    and self(lhs.then, rhs.then)
                    and self(lhs.otherwise, rhs.otherwise)
                )
            case (Load(name, _, _), Load(other, _, _)) | (Unary(name, _), Unary(other, _)):
                alike = name == other
            case Binary(op, _, _), Binary(other, _, _):
                alike = op == other
            case Conversion(), Conversion():
                alike = type(lhs) is type(rhs) and lhs.dtype is rhs.dtype
            case _:
                alike = False
        left, right = children(lhs), children(rhs)
        return alike and len(left) == len(right) and all(map(self, left, right))

    def _same_numbers(self, lhs: Expr, rhs: Expr) -> bool:
        if dtype_of(lhs) is not dtype_of(rhs):
            return False
        if dtype_of(lhs).is_integer:
            difference = affine(lhs).plus(affine(rhs), -1)
            if not difference.terms:
                return not difference.const
        places = grid(sorted(self._free(lhs) | self._free(rhs)), self._ranges)
        if places is None:
            return False
        left, right = values_of(lhs, places), values_of(rhs, places)
        return left is not None and right is not None and bool((left == right).all())

    def _is_plain(self, expr: Expr) -> bool:
        found = self._plain.get(id(expr))
        if found is None:
            found = not isinstance(expr, Load | Reduce) and all(
                self._is_plain(each) for each in children(expr)
            )
            self._plain[id(expr)] = found
            self._alive.append(expr)
        return found

    # --- without what has no effect ---------------------------------------------------------

    def _settle(self, expr: Expr) -> Expr:
        found = self._settled.get(id(expr))
        if found is None:
            self._alive.append(expr)
            found = self._settled[id(expr)] = self._settled_once(expr)
        return found

    def _settled_once(self, expr: Expr) -> Expr:
        match expr:
            case Reduce(op, axes, value) if any(axis.extent == 1 for axis in axes):
                ones = {axis.var: index(0) for axis in axes if axis.extent == 1}
                rest: tuple[Axis, ...] = tuple(axis for axis in axes if axis.extent != 1)
                inner = substitute(value, ones)
                return self._settle(Reduce(op, rest, inner) if rest else inner)
            case Select(condition, then, otherwise):
                left: list[Expr] = []
                for each in _conjuncts(condition):
                    held = self._decided(each)
                    if held is False:
                        return self._settle(otherwise)
                    if held is None:
                        left.append(each)
                if not left:
                    return self._settle(then)
                whole = left[0]
                for each in left[1:]:
                    whole = Binary("and", whole, each)
                return Select(whole, then, otherwise)
            case _:
                return expr

    def _decided(self, condition: Expr) -> bool | None:
        """Whether a condition holds everywhere (or nowhere) in the ranges."""
        self._alive.append(condition)
        if not self._is_plain(condition) or not self._free(condition) <= self._ranges.keys():
            return None
        places = grid(sorted(self._free(condition)), self._ranges)
        found = None if places is None else values_of(condition, places)
        if found is None:
            return None
        return True if found.all() else (None if found.any() else False)


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        return _conjuncts(condition.lhs) + _conjuncts(condition.rhs)
    return [condition]
