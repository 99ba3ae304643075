"""Attention in a definition: means of values, weighted by the softmax of scores.

Exporters write ``softmax(q k^T * scale + mask) v`` as three ops and more.  Computed one after
the other they keep a matrix of all scores, which for long inputs is larger than everything
else; as one definition,

    out[q, v] = sum over k of exp(s[q, k] - top[q]) / total[q] * value[k, v]
    top[q] = max over k of s[q, k],  total[q] = sum over k of exp(s[q, k] - top[q])

a kernel can compute the scores of a few queries at a time (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
"""

from __future__ import annotations

from weft.dtypes import DType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Binary, Expr, Load, Reduce, Select, Unary, Var
from weft.loops.value_numbering import Numbering
from weft.loops.walk import dtype_of, free_vars, map_expr, reduces, substitute, walk
from weft.records import dataclass


@dataclass(frozen=True)
class Attention:
    """A definition taken apart.

    Attributes:
        mixed: the sum over keys of weights times values.
        key: its axis.
        values: the factor that is no weight.
        scores: of ``key``: the scaled and masked product.
        product: the sum in it, of ``queries`` times ``keys``, over ``width``.
        top: what is subtracted from scores, with a load of ``TOP`` for their maximum.
        total: the divisor, with a load of ``TOTAL`` for the sum of exponentials.
        row: the axis of the output that tells queries apart, and nothing else; the longest
            if there are several, ``None`` if there is one query.
        column: the axis that tells elements of values apart.
        outer: the others, slowest first.
    """

    mixed: Reduce
    key: Axis
    values: Expr
    scores: Expr
    product: Reduce
    queries: Expr
    keys: Expr
    width: Axis
    top: Expr
    total: Expr
    row: Axis | None
    column: Axis
    outer: tuple[Axis, ...]


TOP = Load("top", (), DType.F32)
TOTAL = Load("total", (), DType.F32)


@dataclass(frozen=True)
class _Softmax:
    key: str
    scores: Expr
    top: Expr
    total: Expr


def attention_of(compute: Compute) -> Attention | None:
    """The attention that a definition is, maybe followed by elementwise operations."""
    mixed = next((node for node in walk(compute.value) if isinstance(node, Reduce)), None)
    if mixed is None or not _sums(mixed):
        return None
    rest = map_expr(compute.value, lambda node: TOTAL if node == mixed else node)
    if not isinstance(mixed.value, Binary) or reduces(rest):
        return None
    factors = (mixed.value.lhs, mixed.value.rhs)
    for weights, values in (factors, factors[::-1]):
        soft = _softmax(weights, mixed.axes[0])
        if soft is not None and not reduces(values):
            return _attention(compute, mixed, values, soft)
    return None


def _sums(reduce: Reduce) -> bool:
    """Whether a reduction sums products along one axis."""
    return (
        reduce.op == "sum"
        and len(reduce.axes) == 1
        and isinstance(reduce.value, Binary)
        and reduce.value.op == "mul"
        and dtype_of(reduce.value) is DType.F32
    )


def _own_reduce(value: Expr, op: str) -> Reduce | None:
    """The one reduction of an expression but for those inside of it, which has one axis."""
    match value:
        case Reduce():
            return value if value.op == op and len(value.axes) == 1 else None
        case Select(Binary("eq", condition), then, otherwise):
            # Rows of nothing but minus infinity are guarded: either side may be a constant.
            found = _own_reduce(condition, op)
            sides = [side for side in (then, otherwise) if reduces(side)]
            return found if sides == [condition] else None
        case _:
            return None


def _softmax(weights: Expr, key: Axis) -> _Softmax | None:
    """The parts of ``exp(scores - top) / total``."""
    match weights:
        case Binary("div", Unary("exp", Binary("sub", scores, top)) as power, total):
            pass
        case _:
            return None
    most, sum = _own_reduce(top, "max"), _own_reduce(total, "sum")
    if most is None or sum is None:
        return None
    if not most.axes[0].extent == sum.axes[0].extent == key.extent:
        return None
    number = Numbering()
    own = Var(key.var)
    same = (
        number(substitute(most.value, {most.axes[0].var: own})) == number(scores)
        and number(substitute(sum.value, {sum.axes[0].var: own})) == number(power)
        and dtype_of(power) is DType.F32
    )
    if not same:
        return None
    return _Softmax(key.var, scores, _with(top, most, TOP), _with(total, sum, TOTAL))


def _with(value: Expr, old: Expr, new: Expr) -> Expr:
    return map_expr(value, lambda node: new if node == old else node)


def _attention(compute: Compute, mixed: Reduce, values: Expr, soft: _Softmax) -> Attention | None:
    number = Numbering()
    products = [node for node in walk(soft.scores) if isinstance(node, Reduce)]
    if not products or len({number(each) for each in products}) != 1 or not _sums(products[0]):
        return None
    product = products[0]
    if soft.key not in free_vars(product) or reduces(product.value):
        return None
    assert isinstance(product.value, Binary)
    sides = (product.value.lhs, product.value.rhs)
    apart = [(a, b) for a, b in (sides, sides[::-1]) if soft.key not in free_vars(a)]
    if len(apart) != 1:
        return None
    queries, keys = apart[0]
    weighed, valued = free_vars(soft.scores) | free_vars(soft.top), free_vars(values)
    beside = (free_vars(keys) | valued) & {axis.var for axis in compute.axes}
    columns = [a for a in compute.axes if a.var in valued and a.var not in weighed]
    rows = [a for a in compute.axes if a.var in free_vars(queries) and a.var not in beside]
    columns = [axis for axis in columns if axis.extent > 1] or columns
    used = free_vars(mixed)
    if len(columns) != 1 or any(a.var not in used for a in compute.axes if a.extent > 1):
        return None
    column, row = columns[0], max(rows, key=lambda axis: axis.extent, default=None)
    return Attention(
        mixed=mixed,
        key=mixed.axes[0],
        values=values,
        scores=soft.scores,
        product=product,
        queries=queries,
        keys=keys,
        width=product.axes[0],
        top=soft.top,
        total=soft.total,
        row=row,
        column=column,
        outer=tuple(axis for axis in compute.axes if axis not in (row, column)),
    )
