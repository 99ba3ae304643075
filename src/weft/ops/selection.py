"""Choosing by value: top-k and hardmax; the determinant, which needs pivots."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.cast import CastAttributes
from weft.ops.ctext import C_TYPES, body_text
from weft.ops.expr import binary, const, index, select, total
from weft.ops.indexing import GatherAttributes
from weft.ops.record import Builder, Call, Define, Expand, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.support import axis_of, each_point, known
from weft.records import dataclass


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
        return body_text("selection", "sink", size=size, second=second, below=below, item=item)

    return body_text(
        "selection",
        "heap",
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
        words = {
            "enters": better("j", f"places[{asked.k} - 1]"),
            "rises": better("j", "places[at - 1]"),
        }
        search = body_text("selection", "insert", **words, extent=extent, k=asked.k)
    elif asked.k * HEAPED <= extent:
        names = "j, at, child, last"
        search = _heap(better, extent, asked.k)
    else:
        names, other = "j, width, start, middle, end, left, right", f"places + {extent}"
        turns = better("places[right]", "places[left]")
        search = body_text("selection", "sort", turns=turns, extent=extent)
    text = body_text(
        "selection",
        "places",
        other=f"int32_t *other = {other};\n" if other else "",
        names=names,
        search=search,
        outer=prod(dims[:axis]),
        inner=inner,
        extent=extent,
        k=asked.k,
    )
    return ExternBody(text, 4 * (2 * extent if other else asked.k))


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
    if not y.size:
        return (y,)
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


def _det_body(call: Call) -> ExternBody:
    dims, kind = call.type(0).dims, C_TYPES[call.type(0).dtype]
    n = dims[-1]
    text = body_text("selection", "determinant", n=n, matrices=prod(dims[:-2]), type=kind)
    return ExternBody(text, 8 * n * n)


def _reference_det(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(np.linalg.det(x), x.dtype),)


OPS: tuple[Op, ...] = (
    Op(
        name="TopK",
        outputs=(Param("values"), Param("indices")),
        infer=_infer_top_k,
        reference=_reference_top_k,
        compute=Expand(_expand_top_k),
        attributes=TopKAttributes,
        doc="The largest or smallest elements along an axis, and their places; NaN counts as "
        "larger than any number.",
    ),
    Op(
        name="TopKIndices",
        outputs=(Param("indices"),),
        infer=_infer_compared,
        reference=_reference_places,
        compute=Extern(_places_body, along_axis=True),
        grad=NoGrad("places are integers"),
        attributes=TopKAttributes,
        doc="The places of the largest or smallest elements along an axis, in order.",
    ),
    Op(
        name="Hardmax",
        infer=_infer_hardmax,
        reference=_reference_hardmax,
        compute=Define(_define_hardmax),
        grad=NoGrad("the derivative is zero wherever there is one"),
        attributes=HardmaxAttributes,
        doc="1 at the first largest element along an axis, 0 elsewhere.",
    ),
    Op(
        name="Det",
        infer=_infer_det,
        reference=_reference_det,
        compute=Extern(_det_body),
        doc="Determinants of square matrices.",
    ),
)
