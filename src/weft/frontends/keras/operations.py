# pyright: basic
"""Functions of ``keras.ops`` that compute, as they stand in functional models."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.keras.activation import FUNCTIONS
from weft.frontends.keras.record import Emit, Row, Tensor, operation

Operand = Any
"""A tensor, a number or an array."""
EPSILON = 1e-7
"""Keras's number that keeps divisors from 0, where a model gives none."""

_UNARY = {
    "Absolute": "Abs", "Abs": "Abs", "Negative": "Neg", "Exp": "Exp", "Exp2": "Exp2",
    "Expm1": "Expm1", "Log": "Log", "Log10": "Log10", "Log1p": "Log1p", "Log2": "Log2",
    "Sqrt": "Sqrt", "Sin": "Sin", "Cos": "Cos", "Tan": "Tan", "Tanh": "Tanh", "Sinh": "Sinh",
    "Cosh": "Cosh", "Arcsin": "Asin", "Arccos": "Acos", "Arctan": "Atan", "Arcsinh": "Asinh",
    "Arccosh": "Acosh", "Arctanh": "Atanh", "Floor": "Floor", "Ceil": "Ceil", "Sign": "Sign",
    "Erf": "Erf", "Reciprocal": "Reciprocal", "LogicalNot": "Not", "Isnan": "IsNaN",
    "Isinf": "IsInf", "Isfinite": "IsFinite", "Fabs": "Abs", "Erfc": "Erfc", "Sinc": "Sinc",
}  # fmt: skip
_BINARY = {
    "Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min",
    "Power": "Pow", "Arctan2": "Atan2", "Mod": "Mod", "Hypot": "Hypot", "Logaddexp": "LogAddExp",
}  # fmt: skip
_BITS = {
    "BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor",
}  # fmt: skip
_OF_FLOATS = ("Atan2", "Hypot", "LogAddExp")
_COMPARED = {
    "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less",
    "LessEqual": "LessOrEqual",
}  # fmt: skip
_LOGICAL = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}
_REDUCED = {
    "Sum": "ReduceSum", "Mean": "ReduceMean", "Max": "ReduceMax", "Min": "ReduceMin",
    "Amax": "ReduceMax", "Amin": "ReduceMin",
}  # fmt: skip


def tensor(g: Emit, x: Operand, like: DType | None = None) -> Tensor:
    """An operand as a tensor; a number gets the type of the other operand where it fits."""
    if isinstance(x, Tensor):
        return x
    if not isinstance(x, bool | int | float | np.ndarray | np.generic | list | tuple):
        g.refuse(f"its argument {str(x)[:40]} is no tensor")
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        g.refuse(f"its argument {str(x)[:40]} is not numeric")
    if isinstance(x, bool | int | float) and like is not None:
        if not like.is_float and isinstance(x, float):
            return g.number(x, DType.F32)
        return (
            g.number(x, like)
            if like is not DType.BOOL or isinstance(x, bool)
            else g.number(x, DType.I32)
        )
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    return g.constant(array, f"{g.name}/constant")


def both(g: Emit, lhs: Operand, rhs: Operand) -> tuple[Tensor, Tensor]:
    """Two operands in the type that Keras promotes them to."""
    first = lhs if isinstance(lhs, Tensor) else rhs
    like = first.dtype if isinstance(first, Tensor) else None
    a, b = tensor(g, lhs, like), tensor(g, rhs, like)
    dtype = promoted(a.dtype, b.dtype)
    return g.cast(a, dtype), g.cast(b, dtype)


def promoted(a: DType, b: DType) -> DType:
    """The type that Keras computes in with operands of two types."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if DType.BOOL in (a, b):
        return b if a is DType.BOOL else a
    if {a, b} == {DType.F16, DType.BF16}:
        return DType.F32
    return (
        DType.of(np.promote_types(a.numpy, b.numpy))
        if not a.is_float
        else max(a, b, key=lambda each: each.bytes)
    )


def floating(g: Emit, x: Operand) -> Tensor:
    """A tensor of floating-point numbers."""
    made = tensor(g, x)
    return made if made.dtype.is_float else g.cast(made, DType.F32)


def _enter(rows: dict[str, str], make: Any) -> None:
    for name, op in rows.items():
        operation(name)(make(op))


def _unary(op: str) -> Row:
    whole = op in ("Abs", "Neg", "Sign", "Not")
    return lambda g, x: g(op, tensor(g, x) if whole else floating(g, x))


def _binary(op: str) -> Row:
    def row(g: Emit, x1: Operand, x2: Operand) -> Tensor:
        if op in _OF_FLOATS:
            return g(op, *both(g, floating(g, x1), x2))
        return g(op, *both(g, x1, x2))

    return row


def _logical(op: str) -> Row:
    return lambda g, x1, x2: g(op, *(g.cast(tensor(g, each), DType.BOOL) for each in (x1, x2)))


_enter(_UNARY, _unary)
_enter(_BINARY | _COMPARED, _binary)
_enter(_LOGICAL, _logical)
_enter(_BITS, lambda op: lambda g, x, y: g(op, *both(g, x, y)))


def _function(name: str) -> Row:
    return lambda g, x: FUNCTIONS[name](g, floating(g, x))


for _name, _function_name in {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Softplus": "softplus",
    "Softsign": "softsign", "Silu": "silu", "LogSigmoid": "log_sigmoid", "HardSilu": "hard_silu",
    "HardSigmoid": "hard_sigmoid", "HardTanh": "hard_tanh", "TanhShrink": "tanh_shrink",
    "Selu": "selu", "SparsePlus": "sparse_plus", "SparseSigmoid": "sparse_sigmoid",
}.items():  # fmt: skip
    operation(_name)(_function(_function_name))


# Functions whose other arguments have the names that operations have.
for _name, _function_name in {
    "LeakyRelu": "leaky_relu", "Elu": "elu", "Celu": "celu", "SoftShrink": "soft_shrink",
    "HardShrink": "hard_shrink", "Squareplus": "squareplus", "Sparsemax": "sparsemax",
}.items():  # fmt: skip
    operation(_name)(FUNCTIONS[_function_name])


@operation("Gelu")
def gelu(g: Emit, x: Tensor, approximate: bool = True) -> Tensor:
    return FUNCTIONS["gelu"](g, x, approximate)


@operation("Glu")
def glu(g: Emit, x: Tensor, axis: int = -1) -> Tensor:
    return FUNCTIONS["glu"](g, x, axis)


@operation("Threshold")
def threshold(
    g: Emit, x: Tensor, threshold: float, default_value: float | None = None, value: float = 0.0
) -> Tensor:
    return FUNCTIONS["threshold"](
        g, x, threshold, value if default_value is None else default_value
    )


@operation("Softmax")
def softmax(g: Emit, x: Tensor, axis: int | None = -1) -> Tensor:
    return _over_all(g, "Softmax", x, axis)


@operation("LogSoftmax")
def log_softmax(g: Emit, x: Tensor, axis: int | None = -1) -> Tensor:
    return _over_all(g, "LogSoftmax", x, axis)


def _over_all(g: Emit, op: str, x: Tensor, axis: int | None) -> Tensor:
    if axis is not None:
        return g(op, x, axis=axis)
    flat = g(op, g.reshape(x, (x.type.size,)), axis=0)
    return g.reshape(flat, x.shape)


# --- arithmetic -------------------------------------------------------------------------------


@operation("Divide", "TrueDivide")
def divide(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = both(g, x1, x2)
    return g("Div", floating(g, a), floating(g, b))


@operation("FloorDivide")
def floor_divide(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    return g("FloorDivide", *both(g, x1, x2))


@operation("Square")
def square(g: Emit, x: Tensor) -> Tensor:
    return g("Mul", x, x)


@operation("Rsqrt")
def rsqrt(g: Emit, x: Tensor) -> Tensor:
    return g("Reciprocal", g("Sqrt", floating(g, x)))


@operation("NotEqual")
def not_equal(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    return g("Not", g("Equal", *both(g, x1, x2)))


@operation("Clip")
def clip(g: Emit, x: Tensor, x_min: float, x_max: float) -> Tensor:
    return g("Clip", x, min=x_min, max=x_max)


@operation("Where")
def where(g: Emit, condition: Tensor, x1: Operand = None, x2: Operand = None) -> Tensor:
    return g("Where", g.cast(condition, DType.BOOL), *both(g, x1, x2))


@operation("Cast", masking=True)
def cast(g: Emit, x: Tensor, dtype: Any = "float32") -> Tensor:
    return g.cast(x, DType.of(np.dtype(str(dtype))))


@operation("ConvertToTensor", masking=True)
def convert_to_tensor(
    g: Emit, x: Tensor, dtype: Any = None, sparse: Any = None, ragged: Any = None
) -> Tensor:
    return x if dtype is None else cast(g, x, dtype)


# --- reductions -------------------------------------------------------------------------------


def _reduced(op: str) -> Row:
    def row(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        x = floating(g, x) if op == "ReduceMean" else x
        if axis is not None and not isinstance(axis, int) and not len(axis):
            return x
        return g(op, x, axes=g.axes(x, axis), keepdims=int(keepdims))

    return row


_enter(_REDUCED, _reduced)


@operation("Prod")
def product(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    return _reduced("ReduceProd")(g, x if dtype is None else cast(g, x, dtype), axis, keepdims)


@operation("Var")
def variance(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    x, axes = floating(g, x), g.axes(x, axis)
    away = g("Sub", x, g("ReduceMean", x, axes=axes, keepdims=1))
    return g("ReduceMean", g("Mul", away, away), axes=axes, keepdims=int(keepdims))


@operation("Std")
def deviation(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return g("Sqrt", variance(g, x, axis, keepdims))


@operation("Logsumexp")
def log_sum_exp(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    return g("ReduceLogSumExp", floating(g, x), axes=g.axes(x, axis), keepdims=int(keepdims))


@operation("Norm")
def norm(g: Emit, x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    if ord not in (None, 1, 2, "euclidean") or (
        ord in (1, 2) and isinstance(axis, list | tuple) and len(axis) > 1
    ):
        g.refuse(f"norm {ord} over axes {axis} is not supported")
    op = "ReduceL1" if ord == 1 else "ReduceL2"
    return g(op, floating(g, x), axes=g.axes(x, axis), keepdims=int(keepdims))


@operation("Normalize")
def normalize(
    g: Emit, x: Tensor, axis: Any = -1, order: int = 2, epsilon: float | None = None
) -> Tensor:
    over = {"axes": g.axes(x, axis), "keepdims": 1}
    if order in (1, 2):
        length = g(f"ReduceL{order}", x, **over)
    else:
        powers = g.pair("Pow", g("Abs", x), float(order))
        length = g.pair("Pow", g("ReduceSum", powers, **over), 1 / order)
    return g("Div", x, g.pair("Max", length, EPSILON if epsilon is None else epsilon))


def _some(op: str) -> Row:
    """Any and all: extremes of 0 and 1."""

    def row(g: Emit, x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        truth = g.cast(g.cast(x, DType.BOOL), DType.I32)
        found = g(op, truth, axes=g.axes(x, axis), keepdims=int(keepdims))
        return g.pair("Greater", found, 0)

    return row


operation("Any")(_some("ReduceMax"))
operation("All")(_some("ReduceMin"))


def _extreme(op: str) -> Row:
    def row(g: Emit, x: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
        if axis is None:
            x, axis = g.reshape(x, (x.type.size,)), 0
        return g.cast(g(op, x, axis=axis, keepdims=int(keepdims)), DType.I32)

    return row


operation("Argmax")(_extreme("ArgMax"))
operation("Argmin")(_extreme("ArgMin"))


@operation("Cumsum")
def cumsum(g: Emit, x: Tensor, axis: int | None = None, dtype: Any = None) -> Tensor:
    if dtype is not None:
        x = cast(g, x, dtype)
    if axis is None:
        x, axis = g.reshape(x, (x.type.size,)), 0
    return g("CumSum", x, axis=axis)


# --- products ---------------------------------------------------------------------------------


@operation("Matmul", "Dot")
def matmul(g: Emit, x1: Operand, x2: Operand) -> Tensor:
    a, b = both(g, x1, x2)
    return g("MatMul", a, b)


@operation("Einsum")
def einsum(g: Emit, *operands: Operand, subscripts: str) -> Tensor:
    return g("Einsum", *(tensor(g, each) for each in operands), equation=subscripts)
