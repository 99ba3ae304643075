"""Activation functions."""

from __future__ import annotations

import math

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.loops.walk import dtype_of
from weft.ops.elementwise import (
    FLOATS,
    NUMBERS,
    SIGNED,
    Domain,
    MapFormula,
    MapFunction,
    broadcast_inputs,
    broadcast_op,
    elementwise,
    erfc,
    fitted,
    less,
    like,
    map_op,
    over,
    plus,
    same_dtypes,
    times,
)
from weft.ops.expr import binary, select, unary
from weft.ops.record import Call, Define, Op, Param
from weft.records import dataclass

SLOPES = Domain(
    "a floating-point or wide integer type",
    FLOATS.dtypes | {DType.I32, DType.I64, DType.U32, DType.U64},
)


@dataclass(frozen=True, slots=True)
class LeakyReluAttributes(Attributes):
    """``alpha`` is the slope below zero."""

    alpha: float = 0.01


@dataclass(frozen=True, slots=True)
class EluAttributes(Attributes):
    """``alpha`` scales the exponential below zero."""

    alpha: float = 1.0


@dataclass(frozen=True, slots=True)
class SeluAttributes(Attributes):
    """``alpha`` scales the exponential below zero, ``gamma`` the whole."""

    alpha: float = 1.6732631921768188
    gamma: float = 1.0507010221481323


@dataclass(frozen=True, slots=True)
class CeluAttributes(Attributes):
    """``alpha`` sets where the exponential saturates."""

    alpha: float = 1.0


@dataclass(frozen=True, slots=True)
class GeluAttributes(Attributes):
    """``approximate`` is ``none`` (by erf) or ``tanh``."""

    approximate: str = "none"


@dataclass(frozen=True, slots=True)
class HardSigmoidAttributes(Attributes):
    """The line ``alpha * x + beta``, held within [0, 1]."""

    alpha: float = 0.20000000298023224
    beta: float = 0.5


@dataclass(frozen=True, slots=True)
class ThresholdedReluAttributes(Attributes):
    """Values up to ``alpha`` become 0."""

    alpha: float = 1.0


@dataclass(frozen=True, slots=True)
class ShrinkAttributes(Attributes):
    """Values within ``lambd`` of 0 become 0; the others move towards 0 by ``bias``."""

    bias: float = 0.0
    lambd: float = 0.5


@dataclass(frozen=True, slots=True)
class SwishAttributes(Attributes):
    """``alpha`` scales x inside the sigmoid."""

    alpha: float = 1.0


def _relu(x: Expr) -> Expr:
    return binary("max", x, like(x, 0))


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + exp(-x))``; ``exp`` may overflow to infinity, which gives 0."""
    return over(1.0, _sigmoid_divisor(x))


def _sigmoid_divisor(x: Expr) -> Expr:
    return plus(unary("exp", unary("neg", x)), 1.0)


def softplus(x: Expr) -> Expr:
    """``log(1 + exp(x))`` without overflow, and exact where it is small."""
    decay = unary("exp", unary("neg", unary("abs", x)))
    return plus(_relu(x), unary("log1p", decay))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _leaky_formula(attributes: LeakyReluAttributes, x: Expr) -> Expr:
    return select(less(x, 0), times(x, attributes.alpha), x)


def _leaky(attributes: LeakyReluAttributes, x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x * x.dtype.type(attributes.alpha), x)


def _elu_formula(attributes: EluAttributes, x: Expr) -> Expr:
    return select(less(x, 0), times(unary("expm1", x), attributes.alpha), x)


def _elu(attributes: EluAttributes, x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.expm1(x) * x.dtype.type(attributes.alpha), x)


def _selu_formula(attributes: SeluAttributes, x: Expr) -> Expr:
    below = times(unary("expm1", x), attributes.alpha)
    return times(select(less(x, 0), below, x), attributes.gamma)


def _selu(attributes: SeluAttributes, x: np.ndarray) -> np.ndarray:
    below = np.expm1(x) * x.dtype.type(attributes.alpha)
    return np.where(x < 0, below, x) * x.dtype.type(attributes.gamma)


def _celu_formula(attributes: CeluAttributes, x: Expr) -> Expr:
    inner = unary("expm1", over(x, like(x, attributes.alpha)))
    return select(less(x, 0), times(inner, attributes.alpha), x)


def _celu(attributes: CeluAttributes, x: np.ndarray) -> np.ndarray:
    alpha = x.dtype.type(attributes.alpha)
    return np.where(x < 0, np.expm1(x / alpha) * alpha, x)


def _gelu_formula(attributes: GeluAttributes, x: Expr) -> Expr:
    # 1 + tanh(u) is 2 / (1 + exp(-2 u)) and 1 + erf(u) is erfc(-u): exact where they are small.
    if attributes.approximate == "tanh":
        cubic = times(times(times(x, x), x), 0.044715)
        return over(x, _sigmoid_divisor(times(plus(x, cubic), math.sqrt(8 / math.pi))))
    return times(times(x, 0.5), unary("erfc", times(x, -math.sqrt(0.5))))


def _gelu(attributes: GeluAttributes, x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    if attributes.approximate == "tanh":
        curve = _sigmoid((wide + wide**3 * 0.044715) * math.sqrt(8 / math.pi))
    else:
        curve = erfc(wide * -math.sqrt(0.5)) * 0.5
    return (wide * curve).astype(x.dtype)


def _check_gelu(call: Call) -> None:
    if call.attributes.approximate not in ("none", "tanh"):
        raise call.error("approximate must be none or tanh", got=repr(call.attributes.approximate))


def _hard(x: Expr, alpha: float, beta: float) -> Expr:
    line = plus(times(x, alpha), beta)
    return binary("min", binary("max", line, like(x, 0)), like(x, 1))


def _hard_value(x: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1)


def _shrink_formula(attributes: ShrinkAttributes, x: Expr) -> Expr:
    dtype = dtype_of(x)
    # Bias and threshold are fractions: integers are computed with as f64.
    wider = dtype if dtype.is_float else DType.F64
    wide = fitted(wider, x, dtype)
    below = plus(wide, attributes.bias)
    above = plus(wide, -attributes.bias)
    beyond = binary("gt", wide, like(wide, attributes.lambd))
    inner = select(beyond, above, like(wide, 0))
    return fitted(dtype, select(less(wide, -attributes.lambd), below, inner), wider)


def _shrink(attributes: ShrinkAttributes, x: np.ndarray) -> np.ndarray:
    wide = x if x.dtype.kind == "f" else x.astype(np.float64)
    bias, lambd = wide.dtype.type(attributes.bias), wide.dtype.type(attributes.lambd)
    inner = np.where(wide > lambd, wide - bias, wide.dtype.type(0))
    return np.where(wide < -lambd, wide + bias, inner)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _infer_prelu(call: Call) -> tuple[TensorType, ...]:
    call.type(1)
    dtype = same_dtypes(call, SLOPES)
    if broadcast_inputs(call) != call.type(0).shape:
        raise call.error("the slope must broadcast to the shape of x")
    return (TensorType(dtype, call.type(0).shape),)


def _prelu(call: Call, x: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.where(x < 0, x * slope, x),)


def _prelu_point(x: Expr, slope: Expr) -> Expr:
    return select(less(x, 0), binary("mul", x, slope), x)


def _define_prelu(call: Call) -> tuple[Compute, ...]:
    return elementwise(call, call.type(0).dims, _prelu_point)


def _smooth(
    name: str,
    formula: MapFormula,
    function: MapFunction,
    doc: str,
    attributes: type = Attributes,
) -> Op:
    return map_op(name, FLOATS, formula, function, doc, attributes=attributes)


def _swiglu_formula(attributes: SwishAttributes, a: Expr, b: Expr) -> Expr:
    return times(over(a, _sigmoid_divisor(times(a, attributes.alpha))), b)


def _swiglu(attributes: SwishAttributes, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * _sigmoid(a * a.dtype.type(attributes.alpha)) * b


OPS: tuple[Op, ...] = (
    map_op(
        "Relu",
        SIGNED,
        _relu,
        lambda x: np.maximum(x, x.dtype.type(0)),
        "The larger of x and 0.",
    ),
    _smooth("LeakyRelu", _leaky_formula, _leaky, "x, or alpha * x below 0.", LeakyReluAttributes),
    Op(
        name="PRelu",
        inputs=(Param("x"), Param("slope")),
        infer=_infer_prelu,
        reference=_prelu,
        compute=Define(_define_prelu),
        doc="x, or x times the slope below 0.",
    ),
    _smooth("Elu", _elu_formula, _elu, "x, or alpha * (exp(x) - 1) below 0.", EluAttributes),
    _smooth(
        "Selu",
        _selu_formula,
        _selu,
        "gamma * x, or gamma * alpha * (exp(x) - 1) below 0.",
        SeluAttributes,
    ),
    _smooth(
        "Celu",
        _celu_formula,
        _celu,
        "x, or alpha * (exp(x / alpha) - 1) below 0.",
        CeluAttributes,
    ),
    map_op(
        "Gelu",
        FLOATS,
        _gelu_formula,
        _gelu,
        "x times the standard normal distribution function at x.",
        attributes=GeluAttributes,
        check=_check_gelu,
    ),
    _smooth(
        "HardSigmoid",
        lambda attributes, x: _hard(x, attributes.alpha, attributes.beta),
        lambda attributes, x: _hard_value(x, attributes.alpha, attributes.beta),
        "The line alpha * x + beta, held within [0, 1].",
        HardSigmoidAttributes,
    ),
    _smooth(
        "HardSwish",
        lambda x: times(x, _hard(x, 1 / 6, 0.5)),
        lambda x: x * _hard_value(x, 1 / 6, 0.5),
        "x times the line x / 6 + 1 / 2 held within [0, 1].",
    ),
    _smooth("Sigmoid", sigmoid, _sigmoid, "1 / (1 + exp(-x))."),
    _smooth("Softplus", softplus, _softplus, "log(1 + exp(x))."),
    _smooth(
        "Softsign",
        lambda x: over(x, plus(unary("abs", x), 1.0)),
        lambda x: x / (1 + np.abs(x)),
        "x / (1 + |x|).",
    ),
    _smooth(
        "Mish",
        lambda x: times(x, unary("tanh", softplus(x))),
        lambda x: x * np.tanh(_softplus(x)),
        "x * tanh(log(1 + exp(x))).",
    ),
    _smooth(
        "ThresholdedRelu",
        lambda attributes, x: select(binary("gt", x, like(x, attributes.alpha)), x, like(x, 0)),
        lambda attributes, x: np.where(x > x.dtype.type(attributes.alpha), x, x.dtype.type(0)),
        "x above alpha, 0 elsewhere.",
        ThresholdedReluAttributes,
    ),
    map_op(
        "Shrink",
        NUMBERS,
        _shrink_formula,
        _shrink,
        "x moved towards 0 by bias; 0 within lambd of 0.",
        attributes=ShrinkAttributes,
    ),
    _smooth(
        "Swish",
        lambda attributes, x: over(x, _sigmoid_divisor(times(x, attributes.alpha))),
        lambda attributes, x: x * _sigmoid(x * x.dtype.type(attributes.alpha)),
        "x times the sigmoid of alpha * x.",
        SwishAttributes,
    ),
    broadcast_op(
        "SwiGLU",
        FLOATS,
        _swiglu_formula,
        _swiglu,
        "The Swish of a, a gate, times b.",
        attributes=SwishAttributes,
    ),
)
