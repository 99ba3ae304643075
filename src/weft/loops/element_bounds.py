"""Bounds of what definitions compute, from bounds of what they read, element by element.

An abstract interpretation of index expressions with NumPy.  Bounds of a value have its shape,
except that an axis of length 1 may stand for all positions: a feature map whose channels each
have one interval is ``[1, c, 1, 1]``.  Axes along which nothing that is read differs are not
enumerated: their variables are intervals, so a convolution costs as much as it has weights, and a
condition of its padding that holds at some positions only gives the hull of both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.loops.bound_arithmetic import (
    BOUNDED,
    Pair,
    anything,
    binary,
    converted,
    hull,
    is_exact,
    representation,
    unary,
    within,
)
from weft.loops.definition import Compute
from weft.loops.nodes import (
    Axis,
    Binary,
    Bits,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.walk import dtype_of, free_vars, loads, walk
from weft.records import dataclass

MOST_POINTS = 1 << 25
"""Beyond so many points nothing is enumerated: then only the type is known."""


@dataclass(frozen=True, eq=False)
class ElementBounds:
    """Smallest and largest value of the elements of a value, both inclusive.

    Attributes:
        low, high: of the value's rank; an axis is as long as the value's or 1, which stands for
            all positions.  ``i64`` for integers, the type itself for floats, whose infinite
            bounds may stand for a NaN.
    """

    low: np.ndarray
    high: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        """Which elements are known."""
        return self.low == self.high

    def merged(self, axis: int) -> ElementBounds:
        """The same with one interval along an axis."""
        return ElementBounds(self.low.min(axis, keepdims=True), self.high.max(axis, keepdims=True))

    def compact(self, most: int) -> ElementBounds:
        """The same, axes merged along which nothing differs or, the longest first, must."""
        found = self
        for axis, extent in enumerate(self.low.shape):
            first = [each.take([0], axis) for each in (found.low, found.high)]
            if extent > 1 and (found.low == first[0]).all() and (found.high == first[1]).all():
                found = ElementBounds(*first)
        while found.low.size > most:
            found = found.merged(int(np.argmax(found.low.shape)))
        return found


def along_axis(bounds: ElementBounds, axis: int, count: int) -> Pair:
    """Bounds of all elements at each of ``count`` positions along an axis."""
    others = tuple(each for each in range(bounds.low.ndim) if each != axis)
    low, high = bounds.low.min(axis=others), bounds.high.max(axis=others)
    return np.broadcast_to(low, (count,)), np.broadcast_to(high, (count,))


def known_only_by(dtype: DType, rank: int) -> ElementBounds:
    """Bounds of any value of a type, for those that have bounds."""
    low, high = anything(dtype)
    return ElementBounds(low.reshape((1,) * rank), high.reshape((1,) * rank))


def of_array(array: np.ndarray) -> ElementBounds:
    """Bounds of a constant, of a type that has bounds."""
    exact = array.astype(representation(DType.of(array.dtype)))
    if exact.dtype.kind == "f" and not np.isfinite(exact).all():
        return known_only_by(DType.of(array.dtype), array.ndim)
    return ElementBounds(exact, exact)


def element_bounds(compute: Compute, buffers: Mapping[str, ElementBounds]) -> ElementBounds | None:
    """Bounds of a definition's output.

    Args:
        compute: the definition.
        buffers: bounds of what it reads, by buffer.

    Returns:
        Bounds; ``None`` if only the type is known.
    """
    evaluation = _evaluation(compute, buffers)
    if evaluation is None:
        return None
    low, high = evaluation.value(compute.value, evaluation.outer)
    rank = len(compute.axes)
    ends = [each.reshape(each.shape[:rank]) for each in (low, high)]
    shape = np.broadcast_shapes(ends[0].shape, ends[1].shape)
    found = (np.asarray(np.broadcast_to(each, shape), order="C") for each in ends)
    return ElementBounds(*found)


def sum_bounds(compute: Compute, buffers: Mapping[str, ElementBounds]) -> ElementBounds | None:
    """Bounds of the one sum in a definition, of the output's rank; ``None`` if there are more."""
    sums = [each for each in walk(compute.value) if isinstance(each, Reduce)]
    if len(sums) != 1:
        return None
    return element_bounds(Compute(compute.axes, sums[0]), buffers)


@dataclass
class _Scope:
    """Where an expression stands: its variables, and what was computed there already."""

    variables: dict[str, Pair]
    known: dict[int, Pair] = field(default_factory=dict[int, "Pair"])


@dataclass
class _Evaluation:
    """Of one definition: arrays have a dimension for each axis, reductions' behind the output's.

    Attributes:
        buffers: bounds of what is read.
        dimensions: the dimension of each reduction's first axis, by identity.
        rank: of all arrays.
        enumerated: variables that are arrays of all their values.
        lies: the dimension and the extent of enumerated variables of one axis only.
        outer: the scope of the output's axes.
    """

    buffers: Mapping[str, ElementBounds]
    dimensions: dict[int, int]
    rank: int
    enumerated: frozenset[str]
    lies: dict[str, tuple[int, int]]
    outer: _Scope = field(default_factory=lambda: _Scope({}))

    def variable(self, axis: Axis, dimension: int) -> Pair:
        """The values of an axis' variable: each at its place, or the interval of all."""
        if axis.var in self.enumerated:
            values = np.arange(axis.extent).reshape(
                (1,) * dimension + (-1,) + (1,) * (self.rank - dimension - 1)
            )
            return values, values
        ends = (0, axis.extent - 1)
        low, high = (np.full((1,) * self.rank, end, np.int64) for end in ends)
        return low, high

    def value(self, expr: Expr, scope: _Scope) -> Pair:
        """Bounds of an expression."""
        found = scope.known.get(id(expr))
        if found is None:
            low, high = self._computed(expr, scope)
            if low.ndim != self.rank:
                low, high = (end.reshape((1,) * self.rank) for end in (low, high))
            found = scope.known[id(expr)] = low, high
        return found

    def _computed(self, expr: Expr, scope: _Scope) -> Pair:
        match expr:
            case Const(value, dtype):
                exact = np.full((1,) * self.rank, value, representation(dtype))
                return within((exact, exact), dtype)
            case Var(name):
                return scope.variables[name]
            case Load():
                return self._load(expr, scope)
            case Unary(op, x):
                return unary(op, self.value(x, scope), dtype_of(x))
            case Binary(op, lhs, rhs):
                sides = self.value(lhs, scope), self.value(rhs, scope)
                return binary(op, *sides, dtype_of(lhs))
            case Select(condition, then, otherwise):
                return self._select(condition, then, otherwise, scope)
            case Cast(dtype, x):
                return converted(self.value(x, scope), dtype_of(x), dtype)
            case Bits(dtype, _):
                return anything(dtype)
            case Reduce():
                return self._reduce(expr, scope)

    def _select(self, condition: Expr, then: Expr, otherwise: Expr, scope: _Scope) -> Pair:
        never, always = self.value(condition, scope)
        if never.all():
            return self.value(then, scope)
        if not always.any():
            return self.value(otherwise, scope)
        one, other = self.value(then, scope), self.value(otherwise, scope)
        both = hull(one, other)
        low, high = (
            np.where(never == 1, one[end], np.where(always == 0, other[end], both[end]))
            for end in (0, 1)
        )
        return low, high

    def _load(self, load: Load, scope: _Scope) -> Pair:
        bounds = self.buffers[load.buffer]
        seen = self._seen(load, bounds)
        if seen is not None:
            low = self._spread(bounds.low, seen)
            return low, low if bounds.low is bounds.high else self._spread(bounds.high, seen)
        places: list[np.ndarray] = []
        for axis, expr in enumerate(load.index):
            if bounds.low.shape[axis] == 1:
                places.append(np.zeros((1,) * self.rank, np.int64))
                continue
            at = self.value(expr, scope)
            if not is_exact(at):
                bounds = bounds.merged(axis)
                at = (np.zeros((1,) * self.rank, np.int64),) * 2
            # Loads outside stand on the side of a selection that is not taken.
            places.append(np.clip(at[0], 0, bounds.low.shape[axis] - 1))
        if not places:
            shape = (1,) * self.rank
            return bounds.low.reshape(shape), bounds.high.reshape(shape)
        low = bounds.low[tuple(places)]
        return (low, low) if bounds.low is bounds.high else (low, bounds.high[tuple(places)])

    def _seen(self, load: Load, bounds: ElementBounds) -> list[int] | None:
        """The dimension that each axis of what is loaded lies along, if each has one; -1 of 1."""
        found: list[int] = []
        for extent, expr in zip(bounds.low.shape, load.index, strict=True):
            dimension, whole = (
                self.lies.get(expr.name, (-1, 0)) if isinstance(expr, Var) else (-1, 0)
            )
            if extent > 1 and (extent != whole or dimension in found):
                return None
            found.append(dimension if extent > 1 else -1)
        return found

    def _spread(self, array: np.ndarray, seen: Sequence[int]) -> np.ndarray:
        """An array whose axes are brought to their dimensions: a view."""
        axes = [axis for axis, dimension in enumerate(seen) if dimension >= 0]
        others = [axis for axis, dimension in enumerate(seen) if dimension < 0]
        order = sorted(axes, key=lambda axis: seen[axis])
        shape = [1] * self.rank
        for axis in axes:
            shape[seen[axis]] = array.shape[axis]
        return array.transpose((*others, *order)).reshape(shape)

    def _reduce(self, node: Reduce, scope: _Scope) -> Pair:
        first = self.dimensions[id(node)]
        dims = range(first, first + len(node.axes))
        inner = {
            axis.var: self.variable(axis, dim) for axis, dim in zip(node.axes, dims, strict=True)
        }
        low, high = self.value(node.value, _Scope({**scope.variables, **inner}))
        shape = np.broadcast_shapes(low.shape, high.shape)
        repeated = prod(
            axis.extent for axis, dim in zip(node.axes, dims, strict=True) if shape[dim] == 1
        )
        low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        dtype = dtype_of(node.value)
        if node.op == "sum":
            return _sum(low, high, tuple(dims), repeated, dtype)
        if node.op in ("min", "max") and all(axis.extent for axis in node.axes):
            combine = np.min if node.op == "min" else np.max
            return (
                combine(low, axis=tuple(dims), keepdims=True),
                combine(high, axis=tuple(dims), keepdims=True),
            )
        return anything(dtype)


def _sum(
    low: np.ndarray, high: np.ndarray, dims: tuple[int, ...], repeated: int, dtype: DType
) -> Pair:
    """Bounds of a sum in any order, each of its terms ``repeated`` times."""
    wide = np.float64 if dtype.is_float else np.int64
    ends = [each.sum(axis=dims, keepdims=True, dtype=wide) * repeated for each in (low, high)]
    largest = np.maximum(np.abs(low.astype(np.float64)), np.abs(high.astype(np.float64)))
    size = largest.sum(axis=dims, keepdims=True) * repeated
    if not dtype.is_float:
        return within((ends[0], ends[1]), dtype, float(size.max(initial=0)))
    terms = prod(low.shape[dim] for dim in dims) * repeated
    # Twice what rounding may do in any order (N. J. Higham, Accuracy and Stability, 2002, 4.2).
    error = 2 * terms * float(np.finfo(dtype.numpy).eps) * size
    kind = representation(dtype)
    with np.errstate(all="ignore"):
        outer = (ends[0] - error).astype(kind), (ends[1] + error).astype(kind)
    return within(outer, dtype)


def _evaluation(compute: Compute, buffers: Mapping[str, ElementBounds]) -> _Evaluation | None:
    """How a definition is evaluated; ``None`` if it is not."""
    nodes = list(walk(compute.value))
    reads = list(loads(compute.value))
    if any(load.buffer not in buffers for load in reads):
        return None
    if any(dtype_of(node) not in BOUNDED for node in nodes):
        return None
    dimensions: dict[int, int] = {}
    axes = list(compute.axes)
    for node in nodes:
        if isinstance(node, Reduce):
            dimensions[id(node)] = len(axes)
            axes += node.axes
    enumerated = frozenset[str]().union(
        *(
            free_vars(expr)
            for load in reads
            for axis, expr in enumerate(load.index)
            if buffers[load.buffer].low.shape[axis] > 1
        )
    )
    if prod(axis.extent for axis in axes if axis.var in enumerated) > MOST_POINTS:
        return None
    names = Counter(axis.var for axis in axes)
    lies = {
        axis.var: (dimension, axis.extent)
        for dimension, axis in enumerate(axes)
        if axis.var in enumerated and names[axis.var] == 1
    }
    found = _Evaluation(buffers, dimensions, len(axes), enumerated, lies)
    for dimension, axis in enumerate(compute.axes):
        found.outer.variables[axis.var] = found.variable(axis, dimension)
    return found
