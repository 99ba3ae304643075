# pyright: basic
"""Mathematical functions of one element."""

from __future__ import annotations

import math

import ml_dtypes

from weft.frontends.emit import Tensor
from weft.torch.aten.record import Emit, Row, aten

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
    "erfc": "Erfc",
    "exp": "Exp",
    "exp2": "Exp2",
    "expm1": "Expm1",
    "floor": "Floor",
    "log": "Log",
    "log10": "Log10",
    "log1p": "Log1p",
    "log2": "Log2",
    "neg": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinc": "Sinc",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
    "trunc": "Trunc",
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
    "fix": "trunc",
    "negative": "neg",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "special_round": "round",
    "special_sinc": "sinc",
}


def _plain(op: str) -> Row:
    def row(g: Emit, self: Tensor) -> Tensor:
        whole = op in ("Ceil", "Floor", "Round", "Trunc") and not self.dtype.is_float
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


@aten("frac.default")
def frac(g: Emit, self: Tensor) -> Tensor:
    return g("Sub", self, g("Trunc", self))


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
