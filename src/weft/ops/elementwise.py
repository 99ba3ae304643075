"""What the elementwise families share: types that an op takes, broadcasting, record makers.

Formulas on ``f16`` and ``bf16`` are computed in ``f32`` and rounded once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Cast, Expr
from weft.loops.walk import dtype_of
from weft.ops.accumulate import accumulator
from weft.ops.expr import axes, binary, broadcast, const, variables
from weft.ops.record import WITH_AUTODIFF, Call, Define, Grad, NoGrad, Op, Param
from weft.records import dataclass

PIECEWISE_CONSTANT = NoGrad("the derivative is zero wherever there is one")
NOT_REAL = NoGrad("the output is not a real number")


@dataclass(frozen=True, slots=True)
class Domain:
    """The element types that an op takes, and their name in error messages."""

    words: str
    dtypes: frozenset[DType]


FLOATS = Domain("a floating-point type", frozenset({DType.F64, DType.F32, DType.F16, DType.BF16}))
INTEGERS = Domain("an integer type", frozenset(dtype for dtype in DType if dtype.is_integer))
SIGNED = Domain("a signed type", frozenset(dtype for dtype in DType if dtype.is_signed))
NUMBERS = Domain("a number type", FLOATS.dtypes | INTEGERS.dtypes)
BOOLEANS = Domain("bool", frozenset({DType.BOOL}))
ANY = Domain("any type", frozenset(DType))


def widened(array: np.ndarray) -> np.ndarray:
    """The array in the type in which it is computed with."""
    return array.astype(accumulator(DType.of(array.dtype)).numpy, copy=False)


def fitted(dtype: DType, x: Expr, current: DType) -> Expr:
    """``x``, which is of type ``current``, as ``dtype``."""
    return x if dtype is current else Cast(dtype, x)


def checked(call: Call, position: int, domain: Domain) -> TensorType:
    """The type of an input whose element type must be in the domain."""
    found = call.type(position)
    if found.dtype not in domain.dtypes:
        raise call.error(f"input {position} must be of {domain.words}", got=str(found))
    return found


def same_dtypes(call: Call, domain: Domain) -> DType:
    """The element type that all inputs must share."""
    first = checked(call, 0, domain).dtype
    for position in range(1, len(call.inputs)):
        if call.type(position).dtype is not first:
            raise call.error("the inputs must have the same element type")
    return first


def broadcast_shape(call: Call, shapes: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The common shape, aligned at the right, sizes of 1 repeated (NumPy's rule)."""
    rank = max(len(shape) for shape in shapes)
    found: list[Dim] = [1] * rank
    for shape in shapes:
        for place, dim in enumerate(shape, rank - len(shape)):
            if dim == 1 or dim == found[place]:
                continue
            if found[place] != 1:
                raise call.error("the shapes do not broadcast")
            found[place] = dim
    if any(isinstance(dim, Symbol) for dim in found[1:]):
        raise call.error(
            "the symbolic batch must stay the leading dimension",
            fix="Set the shape of the input with `--input name=shape`",
        )
    return tuple(found)


def broadcast_inputs(call: Call) -> tuple[Dim, ...]:
    """The common shape of all inputs."""
    return broadcast_shape(call, [call.type(place).shape for place in range(len(call.inputs))])


def operands(call: Call, target: Sequence[int], point: Sequence[Expr]) -> tuple[Expr, ...]:
    """All inputs, broadcast and read at the output's ``point``."""
    return tuple(
        call.load(place, *broadcast(call.type(place).dims, target, point))
        for place in range(len(call.inputs))
    )


def elementwise(
    call: Call, shape: Sequence[int], value: Callable[..., Expr]
) -> tuple[Compute, ...]:
    """The definition whose points are ``value`` of the broadcast inputs."""
    ranges = axes(shape)
    return (Compute(ranges, value(*operands(call, shape, variables(ranges)))),)


MapFormula: TypeAlias = Callable[[Expr], Expr] | Callable[[Any, Expr], Expr]
MapFunction: TypeAlias = (
    Callable[[np.ndarray], np.ndarray] | Callable[[Any, np.ndarray], np.ndarray]
)
Formula: TypeAlias = Callable[..., Expr]
"""``formula(x, ...)``, or ``formula(attributes, x, ...)`` for ops with attributes."""
Function: TypeAlias = Callable[..., np.ndarray]


def _with(attributes: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    if type(attributes) is Attributes:
        return function
    return lambda *values: function(attributes, *values)


def map_op(
    name: str,
    domain: Domain,
    formula: MapFormula,
    function: MapFunction,
    doc: str,
    *,
    attributes: type = Attributes,
    grad: Grad | NoGrad = WITH_AUTODIFF,
    check: Callable[[Call], None] | None = None,
) -> Op:
    """The record of an op that gives one value of the same type for each element of x.

    Args:
        name: the op's name.
        domain: the element types that it takes.
        formula: the index expression; half types arrive as ``f32`` and are rounded back.
        function: the same in NumPy.
        doc: one sentence.
        attributes: the attribute class; unless it is plain ``Attributes``, formula and
            function get the attributes first.
        grad: the derivative, or why there is none.
        check: raises the error of wrong attributes.
    """

    def infer(call: Call) -> tuple[TensorType, ...]:
        if check:
            check(call)
        return (checked(call, 0, domain),)

    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        value = _with(call.attributes, function)(widened(x))
        return (np.asarray(value).astype(x.dtype, copy=False),)

    def define(call: Call) -> tuple[Compute, ...]:
        dtype = call.type(0).dtype

        def point(x: Expr) -> Expr:
            value = _with(call.attributes, formula)(fitted(accumulator(dtype), x, dtype))
            return fitted(dtype, value, accumulator(dtype))

        return elementwise(call, call.type(0).dims, point)

    return Op(
        name=name,
        infer=infer,
        reference=reference,
        compute=Define(define),
        grad=grad,
        doc=doc,
        attributes=attributes,
    )


def broadcast_op(
    name: str,
    domain: Domain,
    formula: Formula,
    function: Function,
    doc: str,
    *,
    gives: DType | None = None,
    variadic: bool = False,
    attributes: type = Attributes,
    grad: Grad | NoGrad = WITH_AUTODIFF,
) -> Op:
    """The record of an op over inputs of one element type that are broadcast together.

    Args:
        name: the op's name.
        domain: the element types that it takes.
        formula: the index expression; half types arrive as ``f32`` and are rounded back.
        function: the same in NumPy.
        doc: one sentence.
        gives: the output's element type, if it is not the inputs'.
        variadic: takes any number of inputs, at least one; otherwise two.
        attributes: the attribute class, as for ``map_op``.
        grad: the derivative, or why there is none.
    """

    def infer(call: Call) -> tuple[TensorType, ...]:
        if not variadic:
            call.type(1)
        dtype = same_dtypes(call, domain)
        return (TensorType(gives or dtype, broadcast_inputs(call)),)

    def reference(call: Call, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        value = _with(call.attributes, function)(*(widened(each) for each in inputs))
        dtype = gives.numpy if gives else inputs[0].dtype
        return (np.asarray(value).astype(dtype, copy=False),)

    def define(call: Call) -> tuple[Compute, ...]:
        dtype = call.type(0).dtype

        def point(*inputs: Expr) -> Expr:
            wider = [fitted(accumulator(dtype), each, dtype) for each in inputs]
            value = _with(call.attributes, formula)(*wider)
            return value if gives else fitted(dtype, value, accumulator(dtype))

        return elementwise(call, infer(call)[0].dims, point)

    return Op(
        name=name,
        inputs=(Param("x", variadic=True),) if variadic else (Param("a"), Param("b")),
        infer=infer,
        reference=reference,
        compute=Define(define),
        grad=grad,
        doc=doc,
        attributes=attributes,
    )


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, in ``f64`` (NumPy has none)."""
    values = [math.erf(value) for value in x.ravel().tolist()]
    return np.array(values, np.float64).reshape(x.shape)


def erfc(x: np.ndarray) -> np.ndarray:
    """1 less the error function, in ``f64``."""
    values = [math.erfc(value) for value in x.ravel().tolist()]
    return np.array(values, np.float64).reshape(x.shape)


def like(x: Expr, value: float) -> Expr:
    """A literal of the type of ``x``."""
    return const(value, dtype_of(x))


def plus(lhs: Expr, rhs: Expr | float) -> Expr:
    """The sum; a number is of the other's type, here and below."""
    return binary("add", lhs, like(lhs, rhs) if isinstance(rhs, int | float) else rhs)


def times(lhs: Expr, rhs: Expr | float) -> Expr:
    """The product."""
    return binary("mul", lhs, like(lhs, rhs) if isinstance(rhs, int | float) else rhs)


def over(lhs: Expr | float, rhs: Expr) -> Expr:
    """The quotient."""
    return binary("div", like(rhs, lhs) if isinstance(lhs, int | float) else lhs, rhs)


def less(lhs: Expr, rhs: float) -> Expr:
    """Whether it is less than a number."""
    return binary("lt", lhs, like(lhs, rhs))
