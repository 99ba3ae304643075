"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import Dim, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Axis, Expr, Var
from weft.ops.accumulate import accumulator, narrowed, widened
from weft.ops.expr import binary, broadcast, const, total
from weft.ops.record import Call, Define, Op, Param
from weft.ops.support import known, leading
from weft.ops.window import described
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class GemmAttributes(Attributes):
    """Of ``Gemm``: ``alpha * A' @ B' + beta * C``, transposed as the flags (0 or 1) say."""

    alpha: float = 1.0
    beta: float = 1.0
    transA: int = 0
    transB: int = 0


@dataclass(frozen=True, slots=True)
class EinsumAttributes(Attributes):
    """Of ``Einsum``: NumPy's notation."""

    equation: str


# --- MatMul ---------------------------------------------------------------------------------


def broadcast_dims(call: Call, shapes: Sequence[Sequence[Dim]], got: str) -> tuple[Dim, ...]:
    """NumPy's rule for shapes in which dimensions may be symbolic."""
    rank = max(len(shape) for shape in shapes)
    found: list[Dim] = []
    for place in range(-rank, 0):
        dims = {shape[place] for shape in shapes if -place <= len(shape)} - {1}
        if len(dims) > 1:
            raise call.error("batch dimensions cannot be broadcast", got=got)
        found.append(dims.pop() if dims else 1)
    return tuple(found)


def matmul_shape(call: Call, a: TensorType, b: TensorType) -> tuple[Dim, ...]:
    """The shape of ``a @ b`` by NumPy's rule, or what is wrong with it."""
    got = f"a {a}, b {b}"
    if not a.shape or not b.shape:
        raise call.error("both factors must have at least one dimension", got=got)
    rows, columns = a.shape[:-1][-1:], b.shape[-1:] if len(b.shape) > 1 else ()
    inner: Dim = b.shape[max(0, len(b.shape) - 2)]
    if a.shape[-1] != inner:
        raise call.error(
            f"a has {a.shape[-1]} columns, b has {inner} rows; they must be equal", got=got
        )
    known(call, inner)
    batch = broadcast_dims(call, [a.shape[:-2], b.shape[:-2]], got)
    return leading(call, (*batch, *rows, *columns))


def _infer_matmul(call: Call) -> tuple[TensorType, ...]:
    a, b = call.type(0), call.type(1)
    if a.dtype is not b.dtype:
        raise call.error("inputs must have one element type", got=described(call, "a", "b"))
    return (TensorType(a.dtype, matmul_shape(call, a, b)),)


def matmul_points(
    a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[tuple[Axis, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """The output's axes ``b0.., m, n`` and where both factors are read, summed over ``k``."""
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    axes = tuple(Axis(f"b{place}", extent) for place, extent in enumerate(batch))
    points = tuple(Var(axis.var) for axis in axes)
    left: tuple[Expr, ...] = (*broadcast(a[:-2], batch, points), Var("m"), Var("k"))
    right: tuple[Expr, ...] = (*broadcast(b[:-2], batch, points), Var("k"), Var("n"))
    if len(a) == 1:
        left = (Var("k"),)
    else:
        axes += (Axis("m", a[-2]),)
    if len(b) == 1:
        right = (Var("k"),)
    else:
        axes += (Axis("n", b[-1]),)
    return axes, left, right


def _define_matmul(call: Call) -> tuple[Compute, ...]:
    a, b = call.type(0), call.type(1)
    axes, left, right = matmul_points(a.dims, b.dims)
    factors = binary(
        "mul", widened(call.load(0, *left), a.dtype), widened(call.load(1, *right), b.dtype)
    )
    value = total("sum", (Axis("k", a.dims[-1]),), factors)
    return (Compute(axes, narrowed(value, a.dtype)),)


def _reference_matmul(call: Call, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    dtype = call.type(0).dtype
    exact = accumulator(dtype).numpy
    # NumPy multiplies by BLAS only what is contiguous, and one matrix at a time.
    a, b = np.ascontiguousarray(a, exact), np.ascontiguousarray(b, exact)
    if a.ndim > 2 and b.ndim == 2:
        rows = a.reshape(prod(a.shape[:-1]), a.shape[-1])
        value = np.matmul(rows, b).reshape(*a.shape[:-1], b.shape[-1])
    else:
        value = np.asarray(np.matmul(a, b))
    return (value.astype(dtype.numpy),)


# --- Gemm -----------------------------------------------------------------------------------


def _infer_gemm(call: Call) -> tuple[TensorType, ...]:
    a, b, flags = call.type(0), call.type(1), call.attributes
    got = described(call, "a", "b", "c")
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise call.error("both factors must be matrices", got=got)
    if len({type.dtype for type in call.inputs if type is not None}) > 1:
        raise call.error("inputs must have one element type", got=got)
    rows, inner = reversed(a.shape) if flags.transA else a.shape
    height, columns = reversed(b.shape) if flags.transB else b.shape
    if inner != height:
        raise call.error(f"a has {inner} columns, b has {height} rows; they must be equal", got=got)
    known(call, inner)
    if call.has(2):
        target = (rows, columns)
        shape = call.type(2).shape
        offset = 2 - len(shape)
        fits = offset >= 0 and all(
            dim in (1, target[offset + place]) for place, dim in enumerate(shape)
        )
        if not fits:
            raise call.error(f"c cannot be broadcast to [{rows},{columns}]", got=got)
    return (TensorType(a.dtype, leading(call, (rows, columns))),)


def _define_gemm(call: Call) -> tuple[Compute, ...]:
    a, b, flags = call.type(0), call.type(1), call.attributes
    exact = accumulator(a.dtype)
    m, n, k = Var("m"), Var("n"), Var("k")
    rows, inner = reversed(a.dims) if flags.transA else a.dims
    columns = b.dims[0] if flags.transB else b.dims[1]
    left = call.load(0, *((k, m) if flags.transA else (m, k)))
    right = call.load(1, *((n, k) if flags.transB else (k, n)))
    factors = binary("mul", widened(left, a.dtype), widened(right, b.dtype))
    value = total("sum", (Axis("k", inner),), factors)
    if flags.alpha != 1:
        value = binary("mul", value, const(flags.alpha, exact))
    if call.has(2):
        c = call.type(2)
        bias = widened(call.load(2, *broadcast(c.dims, (rows, columns), (m, n))), c.dtype)
        if flags.beta != 1:
            bias = binary("mul", bias, const(flags.beta, exact))
        value = binary("add", value, bias)
    value = narrowed(value, a.dtype)
    return (Compute((Axis("m", rows), Axis("n", columns)), value),)


def _reference_gemm(
    call: Call, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None
) -> tuple[np.ndarray, ...]:
    flags, dtype = call.attributes, call.type(0).dtype
    exact = accumulator(dtype).numpy
    a, b = a.astype(exact), b.astype(exact)
    value = (a.T if flags.transA else a) @ (b.T if flags.transB else b)
    value = value * exact.type(flags.alpha)
    if c is not None:
        value = value + exact.type(flags.beta) * c.astype(exact)
    return (value.astype(dtype.numpy),)


# --- Einsum ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Contraction:
    """A parsed equation: a label for each dimension of the inputs and of the output.

    Dimensions that ``...`` stands for have the labels ``e0``, ``e1``, ... counted so that
    the last ones of all inputs agree.
    """

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    sizes: dict[str, Dim]


def _labels(call: Call, term: str, rank: int, dots: int) -> tuple[str, ...]:
    """The labels of a term, where ``...`` stands for what the letters leave of ``rank``."""
    head, *rest = term.split("...")
    letters = head + "".join(rest)
    if len(rest) > 1 or not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise call.error("equation must be letters, '...', ',' and '->'", got=repr(term))
    count = rank - len(letters)
    if count < 0 or (count and not rest):
        raise call.error(f"term {term!r} does not fit an input of rank {rank}")
    hidden = tuple(f"e{dots - count + place}" for place in range(count))
    return (*head, *hidden, *"".join(rest))


def _implicit(terms: Sequence[str]) -> str:
    """The output's term where the equation has none: what stands once, in order."""
    letters = [letter for term in terms for letter in term if letter not in ". "]
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return ("..." if any("..." in term for term in terms) else "") + "".join(once)


def _parse(call: Call) -> _Contraction:
    left, arrow, right = call.attributes.equation.replace(" ", "").partition("->")
    terms = left.split(",")
    types = [call.type(place) for place in range(len(call.inputs))]
    if len(terms) != len(types):
        raise call.error(f"equation {call.attributes.equation!r} has {len(terms)} inputs")
    ranks = [len(type.shape) for type in types]
    hidden = [
        rank - len(term.replace(".", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    dots = max(hidden, default=0)
    inputs = tuple(_labels(call, term, rank, dots) for term, rank in zip(terms, ranks, strict=True))
    target = right if arrow else _implicit(terms)
    rank = len(target.replace(".", "")) + (dots if "..." in target else 0)
    output = _labels(call, target, rank, dots)
    sizes = _sizes(call, inputs, types)
    unknown = [label for label in output if label not in sizes]
    if unknown or len(set(output)) < len(output):
        raise call.error(
            "the output's letters must each stand once and in some input",
            got=repr(call.attributes.equation),
        )
    return _Contraction(inputs, output, sizes)


def _sizes(
    call: Call, inputs: Sequence[tuple[str, ...]], types: Sequence[TensorType]
) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for labels, type in zip(inputs, types, strict=True):
        for label, dim in zip(labels, type.shape, strict=True):
            if sizes.setdefault(label, dim) == 1:
                sizes[label] = dim
            if dim not in (1, sizes[label]):
                raise call.error(f"{label!r} is both {sizes[label]} and {dim}")
    return sizes


def _infer_einsum(call: Call) -> tuple[TensorType, ...]:
    parsed = _parse(call)
    if len({type.dtype for type in call.inputs if type is not None}) > 1:
        raise call.error("inputs must have one element type")
    for label, size in parsed.sizes.items():
        if label not in parsed.output:
            known(call, size)
    shape = leading(call, tuple(parsed.sizes[label] for label in parsed.output))
    return (TensorType(call.type(0).dtype, shape),)


def _define_einsum(call: Call) -> tuple[Compute, ...]:
    parsed = _parse(call)
    dtype = call.type(0).dtype
    ranges = {label: Axis(label, known(call, size)) for label, size in parsed.sizes.items()}
    factors: list[Expr] = []
    for place, labels in enumerate(parsed.inputs):
        type = call.type(place)
        points = tuple(Var(label) for label in labels)
        extents = tuple(ranges[label].extent for label in labels)
        load = call.load(place, *broadcast(type.dims, extents, points))
        factors.append(widened(load, type.dtype))
    value = reduce(lambda lhs, rhs: binary("mul", lhs, rhs), factors)
    reduced = [axis for label, axis in ranges.items() if label not in parsed.output]
    value = total("sum", reduced, value)
    value = narrowed(value, dtype)
    return (Compute(tuple(ranges[label] for label in parsed.output), value),)


def _reference_einsum(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    dtype = call.type(0).dtype
    exact = accumulator(dtype).numpy
    # NumPy wants broadcast dimensions only under '...', ONNX and Weft anywhere.
    parsed = _parse(call)
    numbers = {label: place for place, label in enumerate(parsed.sizes)}
    operands: list[Any] = []
    for labels, array in zip(parsed.inputs, inputs, strict=True):
        kept = [
            place for place, label in enumerate(labels) if array.shape[place] == parsed.sizes[label]
        ]
        shape = tuple(array.shape[place] for place in kept)
        operands += [array.reshape(shape).astype(exact), [numbers[labels[at]] for at in kept]]
    result: np.ndarray = np.einsum(
        *operands, [numbers[label] for label in parsed.output], optimize=True
    )
    return (np.asarray(result).astype(dtype.numpy),)


OPS: tuple[Op, ...] = (
    Op(
        name="MatMul",
        inputs=(Param("a", role="lhs"), Param("b", role="rhs")),
        infer=_infer_matmul,
        reference=_reference_matmul,
        compute=Define(_define_matmul),
        doc="The product of matrices, or of stacks of them, by NumPy's rule.",
    ),
    Op(
        name="Gemm",
        inputs=(
            Param("a", role="lhs"),
            Param("b", role="rhs"),
            Param("c", optional=True, role="bias"),
        ),
        infer=_infer_gemm,
        reference=_reference_gemm,
        compute=Define(_define_gemm),
        attributes=GemmAttributes,
        doc="The scaled product of two matrices plus a scaled, broadcast third.",
    ),
    Op(
        name="Einsum",
        inputs=(Param("inputs", variadic=True),),
        infer=_infer_einsum,
        reference=_reference_einsum,
        compute=Define(_define_einsum),
        attributes=EinsumAttributes,
        doc="A sum of products of elements, by Einstein's notation.",
    ),
)
