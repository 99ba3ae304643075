# pyright: basic
"""Mathematical functions of one element."""

from __future__ import annotations

import math

import ml_dtypes

from weft.torch.aten.arithmetic import truncated
from weft.torch.aten.record import Emit, Row, Tensor, aten

PLAIN = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
"""Functions that are ops of Weft."""
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctanh": "atanh",
    "negative": "neg",
    "special_erf": "erf",
    "special_expit": "sigmoid",
    "special_round": "round",
}


def _plain(op: str) -> Row:
    def row(g: Emit, self: Tensor) -> Tensor:
        whole = op in ("Ceil", "Floor", "Round") and not self.dtype.is_float
        return self if whole else g(op, g.cast(self, g.dtype))

    return row


for _name, _op in PLAIN.items():
    aten(f"{_name}.default")(_plain(_op))
for _name, _other in ALIASES.items():
    aten(f"{_name}.default")(_plain(PLAIN[_other]))


@aten("positive.default", "real.default", "conj.default", "resolve_conj.default")
@aten("resolve_neg.default")
def same(g: Emit, self: Tensor) -> Tensor:
    return self


@aten("sign.default", "sgn.default")
def sign(g: Emit, self: Tensor) -> Tensor:
    if not self.dtype.is_float:
        return g("Sign", self)
    # That of NaN is 0 in PyTorch.
    return g("Where", g("IsNaN", self), g.number(0, self.dtype), g("Sign", self))


@aten("trunc.default", "fix.default")
def trunc(g: Emit, self: Tensor) -> Tensor:
    return truncated(g, self)


@aten("frac.default")
def frac(g: Emit, self: Tensor) -> Tensor:
    return g("Sub", self, truncated(g, self))


@aten("round.decimals")
def round_decimals(g: Emit, self: Tensor, decimals: int) -> Tensor:
    scale = g.number(10.0 ** abs(decimals), g.dtype)
    there, back = ("Mul", "Div") if decimals >= 0 else ("Div", "Mul")
    return g(back, g("Round", g(there, self, scale)), scale)


@aten("square.default")
def square(g: Emit, self: Tensor) -> Tensor:
    return g("Mul", self, self)


@aten("rsqrt.default")
def rsqrt(g: Emit, self: Tensor) -> Tensor:
    return g("Reciprocal", g("Sqrt", g.cast(self, g.dtype)))


def _logarithm(base: float) -> Row:
    def row(g: Emit, self: Tensor) -> Tensor:
        return g("Mul", g("Log", g.cast(self, g.dtype)), g.number(1 / math.log(base), g.dtype))

    return row


aten("log2.default")(_logarithm(2))
aten("log10.default")(_logarithm(10))


@aten("exp2.default", "special_exp2.default")
def exp2(g: Emit, self: Tensor) -> Tensor:
    return g("Pow", g.number(2, g.dtype), g.cast(self, g.dtype))


@aten("expm1.default", "special_expm1.default")
def expm1(g: Emit, self: Tensor) -> Tensor:
    x = g.cast(self, g.dtype)
    # Below zero the exponential linear unit is this function; above, exp(x) - 1 is
    # (1 - exp(-x)) exp(x), in which nothing cancels.
    below = g("Elu", g("Neg", g("Abs", x)))
    above = g("Mul", g("Neg", below), g("Exp", x))
    return g("Where", g("Less", x, g.number(0, g.dtype)), below, above)


@aten("log1p.default", "special_log1p.default")
def log1p(g: Emit, self: Tensor) -> Tensor:
    x = g.cast(self, g.dtype)
    one, two = g.number(1, g.dtype), g.number(2, g.dtype)
    # Near zero 1 + x loses what x is; 2 atanh(x / (2 + x)) is the same.
    near = g("Mul", two, g("Atanh", g("Div", x, g("Add", x, two))))
    far = g("Log", g("Add", x, one))
    return g("Where", g("Less", g("Abs", x), g.number(0.5, g.dtype)), near, far)


@aten("erfc.default", "special_erfc.default")
def erfc(g: Emit, self: Tensor) -> Tensor:
    return g("Sub", g.number(1, g.dtype), g("Erf", g.cast(self, g.dtype)))


@aten("sinc.default", "special_sinc.default")
def sinc(g: Emit, self: Tensor) -> Tensor:
    turned = g("Mul", g.cast(self, g.dtype), g.number(math.pi, g.dtype))
    zero = g("Equal", turned, g.number(0, g.dtype))
    return g("Where", zero, g.number(1, g.dtype), g("Div", g("Sin", turned), turned))


def _factor(value: float) -> Row:
    def row(g: Emit, self: Tensor) -> Tensor:
        return g("Mul", g.cast(self, g.dtype), g.number(value, g.dtype))

    return row


aten("deg2rad.default")(_factor(math.pi / 180))
aten("rad2deg.default")(_factor(180 / math.pi))


@aten("logit.default", "special_logit.default")
def logit(g: Emit, self: Tensor, eps: float | None = None) -> Tensor:
    x = g.cast(self, g.dtype)
    if eps is not None:
        x = g("Clip", x, min=eps, max=1 - eps)
    return g("Log", g("Div", x, g("Sub", g.number(1, g.dtype), x)))


@aten("nan_to_num.default")
def nan_to_num(
    g: Emit,
    self: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    if not self.dtype.is_float:
        return self
    top = float(ml_dtypes.finfo(self.dtype.numpy).max)
    zero = g.number(0, self.dtype)
    infinite = g("IsInf", self)
    high = g.number(top if posinf is None else posinf, self.dtype)
    low = g.number(-top if neginf is None else neginf, self.dtype)
    end = g("Where", g("Less", self, zero), low, high)
    found = g("Where", infinite, end, self)
    return g("Where", g("IsNaN", self), g.number(nan or 0, self.dtype), found)
