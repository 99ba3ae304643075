"""Choosing by value: top-k and hardmax; the determinant, which needs pivots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.cast import CastAttributes
from weft.ops.ctext import C_TYPES, block, count
from weft.ops.expr import binary, const, index, select, total
from weft.ops.indexing import GatherAttributes
from weft.ops.record import Builder, Call, Define, Expand, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.support import WITH_AUTODIFF, axis_of, each_point, known


@dataclass(frozen=True, slots=True)
class TopKAttributes(Attributes):
    """The ``k`` ``largest`` or smallest along ``axis``; always given in order."""

    k: int
    axis: int = -1
    largest: int = 1
    sorted: int = 1


@dataclass(frozen=True, slots=True)
class HardmaxAttributes(Attributes):
    """``axis`` along which one element becomes 1."""

    axis: int = -1


# --- top-k --------------------------------------------------------------------------------


def _infer_places(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    asked: TopKAttributes = call.attributes
    axis = axis_of(call, asked.axis, len(source.shape))
    extent = known(call, source.shape[axis])
    if not 0 <= asked.k <= extent:
        raise call.error(f"k must be within [0, {extent}]", got=str(asked.k))
    shape = (*source.shape[:axis], asked.k, *source.shape[axis + 1 :])
    return (TensorType(DType.I64, shape),)


def _infer_compared(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype not in C_TYPES:
        raise call.error("the input must be f32, f64 or integers", fix="Cast it to f32")
    return _infer_places(call)


def _infer_top_k(call: Call) -> tuple[TensorType, ...]:
    (places,) = _infer_places(call)
    return TensorType(call.type(0).dtype, places.shape), places


def _expand_top_k(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    dtype, x = call.type(0).dtype, inputs[0]
    if dtype not in C_TYPES:
        x = build.op("Cast", x, attributes=CastAttributes(DType.F32))
    places = build.op("TopKIndices", x, attributes=call.attributes)
    axis = GatherAttributes(call.attributes.axis)
    return build.op("GatherElements", inputs[0], places, attributes=axis), places


_INSERT = """\
for (j = 0; j < {extent}; ++j) {{
    if (held == {k} && !{enters})
        continue;
    at = held < {k} ? held++ : {k} - 1;
    while (at > 0 && {rises}) {{
        places[at] = places[at - 1];
        --at;
    }}
    places[at] = j;
}}
"""
"""Insertion into the ordered best so far: equal elements stay in the order of the input."""


_SORT = """\
for (j = 0; j < {extent}; ++j)
    places[j] = j;
for (width = 1; width < {extent}; width *= 2) {{
    for (start = 0; start < {extent}; start += 2 * width) {{
        middle = start + width < {extent} ? start + width : {extent};
        end = start + 2 * width < {extent} ? start + 2 * width : {extent};
        left = start;
        right = middle;
        for (j = start; j < end; ++j) {{
            if (left < middle && (right >= end || !{turns}))
                other[j] = places[left++];
            else
                other[j] = places[right++];
        }}
    }}
    for (j = 0; j < {extent}; ++j)
        places[j] = other[j];
}}
"""
"""Merge sort of the places, from the bottom up: stable, and quick for any k."""

_SINK = """\
at = 0;
while ((child = 2 * at + 1) < {size}) {{
    if (child + 1 < {size} && {second})
        ++child;
    if (!{below})
        break;
    places[at] = places[child];
    at = child;
}}
places[at] = {item};
"""
"""Puts a place into a heap at whose top it may not belong: the worst place is at the top."""

_HEAP = """\
for (j = 0; j < {k}; ++j) {{
    at = j;
    while (at > 0 && {rises}) {{
        places[at] = places[(at - 1) / 2];
        at = (at - 1) / 2;
    }}
    places[at] = j;
}}
for (; j < {extent}; ++j) {{
    if (!{enters})
        continue;
{replace}}}
for (j = {k} - 1; j > 0; --j) {{
    last = places[j];
    places[j] = places[0];
{shrink}}}
"""
"""A heap of the best so far: most elements are compared with the worst of these only."""

INSERTED = 32
"""Up to this k, insertion is quicker than a heap."""
HEAPED = 4
"""Elements for each that is sought from which a heap is quicker than sorting all."""


Better: TypeAlias = Callable[[str, str], str]
"""Whether the element at one place, as C, goes before the one at another."""


def _better(call: Call, inner: int) -> Better:
    """A NaN counts as larger than any number, as in PyTorch."""
    largest, real = call.attributes.largest, call.type(0).dtype.is_float

    def better(lhs: str, rhs: str) -> str:
        first, second = (f"in0[from + {place} * {inner}]" for place in (lhs, rhs))
        order = f"{first} {'>' if largest else '<'} {second}"
        none, number = (first, second) if largest else (second, first)
        nan = f" || ({none} != {none} && {number} == {number})"
        return f"({order}{nan if real else ''})"

    return better


def _heap(better: Better, extent: int, k: int) -> str:
    def worse(lhs: str, rhs: str) -> str:
        """Whether one place comes after another: of equal elements the later one."""
        return f"({better(rhs, lhs)} || (!{better(lhs, rhs)} && {lhs} > {rhs}))"

    def sink(size: str, item: str) -> str:
        second = worse("places[child + 1]", "places[child]")
        below = worse("places[child]", item)
        return block(_SINK.format(size=size, second=second, below=below, item=item))

    return _HEAP.format(
        extent=extent,
        k=k,
        enters=better("j", "places[0]"),
        rises=worse("j", "places[(at - 1) / 2]"),
        replace=sink(str(k), "j"),
        shrink=sink("j", "last"),
    )


def _places_body(call: Call) -> ExternBody:
    dims, asked = call.type(0).dims, call.attributes
    axis = axis_of(call, asked.axis, len(dims))
    extent, inner = dims[axis], prod(dims[axis + 1 :])
    if 0 in (asked.k, prod(dims)):
        return ExternBody("")
    better, other = _better(call, inner), ""
    if asked.k <= INSERTED:
        names = "j, at, held"
        enters, rises = better("j", f"places[{asked.k} - 1]"), better("j", "places[at - 1]")
        search = _INSERT.format(enters=enters, rises=rises, extent=extent, k=asked.k)
        search = f"held = 0;\n{search}"
    elif asked.k * HEAPED <= extent:
        names = "j, at, child, last"
        search = _heap(better, extent, asked.k)
    else:
        names, other = "j, width, start, middle, end, left, right", f"places + {extent}"
        search = _SORT.format(turns=better("places[right]", "places[left]"), extent=extent)
    row = (
        f"from = i * {extent * inner} + c;\nto = i * {asked.k * inner} + c;\n"
        + search
        + count("j", asked.k, f"out0[to + j * {inner}] = places[j];\n")
    )
    loops = count("i", prod(dims[:axis]), count("c", inner, row))
    return ExternBody(
        "int32_t *places = (int32_t *)(void *)scratch;\n"
        + (f"int32_t *other = {other};\n" if other else "")
        + f"int32_t {names};\nlong i, c, from, to;\n{loops}",
        4 * (2 * extent if other else asked.k),
    )


def _reference_top_k(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    (places,) = _reference_places(call, x)
    return np.take_along_axis(x, places, call.attributes.axis), places


def _reference_places(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    asked: TopKAttributes = call.attributes
    # Numbers are compared by rank, so that nothing wraps when the order is turned.
    _, ranks = np.unique(x, return_inverse=True)
    ranks = ranks.reshape(x.shape).astype(np.int64)
    order = np.argsort(-ranks if asked.largest else ranks, asked.axis, kind="stable")
    return (np.take(order, range(asked.k), asked.axis).astype(np.int64),)


# --- hardmax ------------------------------------------------------------------------------


def _infer_hardmax(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    axis_of(call, call.attributes.axis, len(source.shape))
    if not source.dtype.is_float:
        raise call.error("the input must be of a floating-point type")
    return (source,)


def _define_hardmax(call: Call) -> tuple[Compute, ...]:
    dims = call.type(0).dims
    axis = axis_of(call, call.attributes.axis, len(dims))

    def value(point: tuple[Expr, ...]) -> Expr:
        def at(name: str) -> Expr:
            return call.load(0, *point[:axis], Var(name), *point[axis + 1 :])

        largest = total("max", (Axis("j", dims[axis]),), at("j"))
        candidate = select(binary("eq", at("k"), largest), Var("k"), index(dims[axis]))
        first = total("min", (Axis("k", dims[axis]),), candidate)
        dtype = call.type(0).dtype
        return select(binary("eq", point[axis], first), const(1, dtype), const(0, dtype))

    return each_point(dims, value)


def _reference_hardmax(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    y = np.zeros_like(x)
    first = np.expand_dims(np.argmax(x, call.attributes.axis), call.attributes.axis)
    np.put_along_axis(y, first, 1, call.attributes.axis)
    return (y,)


# --- determinant --------------------------------------------------------------------------


def _infer_det(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    if source.dtype not in (DType.F32, DType.F64):
        raise call.error("the input must be f32 or f64")
    if len(source.shape) < 2 or source.shape[-1] != source.shape[-2]:
        raise call.error("the last two dimensions must be equal")
    return (TensorType(source.dtype, source.shape[:-2]),)


_ELIMINATE = """\
for (j = 0; j < {n}; ++j) {{
    best = j;
    top = 0.0;
    for (row = j; row < {n}; ++row) {{
        held = a[row * {n} + j] < 0.0 ? -a[row * {n} + j] : a[row * {n} + j];
        if (held > top) {{
            best = row;
            top = held;
        }}
    }}
    if (best != j) {{
        for (k = 0; k < {n}; ++k) {{
            held = a[j * {n} + k];
            a[j * {n} + k] = a[best * {n} + k];
            a[best * {n} + k] = held;
        }}
        found = -found;
    }}
    found *= a[j * {n} + j];
    for (row = j + 1; row < {n}; ++row) {{
        held = a[j * {n} + j] != 0.0 ? a[row * {n} + j] / a[j * {n} + j] : 0.0;
        for (k = j; k < {n}; ++k)
            a[row * {n} + k] -= held * a[j * {n} + k];
    }}
}}
"""
"""Gaussian elimination with partial pivots, in double precision."""


def _det_body(call: Call) -> ExternBody:
    dims = call.type(0).dims
    n = dims[-1]
    matrix = (
        count("k", n * n, f"a[k] = (double)in0[i * {n * n} + k];\n")
        + "found = 1.0;\n"
        + _ELIMINATE.format(n=n)
        + f"out0[i] = ({C_TYPES[call.type(0).dtype]})found;\n"
    )
    return ExternBody(
        "double *a = (double *)(void *)scratch;\n"
        "long i, j, k, row, best;\ndouble held, top, found;\n"
        + count("i", prod(dims[:-2]), matrix),
        8 * n * n,
    )


def _reference_det(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(np.linalg.det(x), x.dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="TopK",
        inputs=(Param("x"),),
        outputs=(Param("values"), Param("indices")),
        infer=_infer_top_k,
        reference=_reference_top_k,
        compute=Expand(_expand_top_k),
        grad=WITH_AUTODIFF,
        attributes=TopKAttributes,
        doc="The largest or smallest elements along an axis, and their places; NaN counts as "
        "larger than any number.",
    ),
    Op(
        name="TopKIndices",
        inputs=(Param("x"),),
        outputs=(Param("indices"),),
        infer=_infer_compared,
        reference=_reference_places,
        compute=Extern(_places_body),
        grad=NoGrad("places are integers"),
        attributes=TopKAttributes,
        doc="The places of the largest or smallest elements along an axis, in order.",
    ),
    Op(
        name="Hardmax",
        inputs=(Param("x"),),
        infer=_infer_hardmax,
        reference=_reference_hardmax,
        compute=Define(_define_hardmax),
        grad=NoGrad("the derivative is zero wherever there is one"),
        attributes=HardmaxAttributes,
        doc="1 at the first largest element along an axis, 0 elsewhere.",
    ),
    Op(
        name="Det",
        inputs=(Param("x"),),
        infer=_infer_det,
        reference=_reference_det,
        compute=Extern(_det_body),
        grad=WITH_AUTODIFF,
        doc="Determinants of square matrices.",
    ),
)
