"""Functions of one quantized byte as tables of 256 bytes.

``onnx`` tables hold what the float graph gives, ``litert`` tables what LiteRT's reference kernels
give: most of these fill tables themselves, in float, and some compute in fixed point.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.ir.types import TensorType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of
from weft.ops.gemmlowp import divided
from weft.ops.quantization import QuantizeAttributes, is_single
from weft.ops.requantization import fixed_point, requantized
from weft.ops.table import OPS
from weft.rewrite.dequantized import BYTES, DATA, REST, scale_of, target, zero_of, zeros_problem
from weft.rewrite.rule import Exactness, Rule

FUNCTIONS = (
    *("Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Swish", "Gelu", "Mish", "Elu", "Selu"),
    *("Celu", "LeakyRelu", "Softplus", "Softsign", "ThresholdedRelu", "Exp", "Log", "Sqrt"),
    *("Reciprocal", "Erf", "Sin", "Cos", "Abs"),
)
_NARROW = 1 << 15


def _not_byte(match: Match) -> str | None:
    if match.type("x").dtype not in BYTES or target(match) not in BYTES:
        return "it is not in 8 bits"
    given = match.attributes("y")
    if not (is_single(match.type("xs")) and is_single(match.type("ys"))):
        return "there are several scales"
    if not isinstance(given, QuantizeAttributes) or given.block_size:
        return "the output is quantized in blocks"
    if match.type("xs").dtype != match.type("ys").dtype:
        return "its scales are of two types"
    return zeros_problem(match, "xz", "yz")


def _whole(match: Match) -> np.ndarray:
    """Every byte less the zero point, the smallest first; ``i32``."""
    low, high = match.type("x").dtype.limits
    return np.arange(int(low), int(high) + 1, dtype=np.int32) - zero_of(match, "xz")


def _numbers(match: Match) -> np.ndarray:
    """The function of every byte, in the type of the scales."""
    node = match.node("u")
    data = (_whole(match).astype(np.float32) * scale_of(match, "xs")).astype(np.float32)
    dtype = match.type("xs").dtype
    call = call_of(node, {node.inputs[0]: TensorType(dtype, data.shape)})
    with np.errstate(all="ignore"):
        return np.asarray(OPS[node.op].reference(call, data.astype(dtype.numpy))[0])


def _looked_up(
    values: Callable[[Match], np.ndarray],
) -> Callable[[Match, GraphBuilder], str]:
    def after(match: Match, builder: GraphBuilder) -> str:
        dtype = target(match)
        # Floats may overflow as they are divided by the scale.
        with np.errstate(over="ignore"):
            whole = values(match).astype(np.float64) + zero_of(match, "yz")
        # What is no number becomes the smallest, as in QuantizeLinear.
        least = np.where(np.isnan(whole), -np.inf, whole)
        table = np.clip(least, *dtype.limits).astype(dtype.numpy)
        return builder.op("Lookup", match["x"], builder.constant(table, "table"))

    return after


def _as_floats(match: Match) -> np.ndarray:
    return np.rint(_numbers(match) / match.array("ys").reshape(()))


# --- LiteRT's -----------------------------------------------------------------------------------


def _as_litert(match: Match) -> np.ndarray:
    special = {"LeakyRelu": _leaky, "HardSwish": _hard_swish, "Abs": _absolute, "Sqrt": _root}
    return special.get(match.node("u").op, _rounded)(match)


def _rounded(match: Match) -> np.ndarray:
    """``PopulateLookupTable``: times the reciprocal of the scale, halves away from zero."""
    steps = (_numbers(match) * (np.float32(1) / scale_of(match, "ys"))).astype(np.float64)
    return np.copysign(np.floor(np.abs(steps) + 0.5), steps)


def _root(match: Match) -> np.ndarray:
    """Fractions of steps are cut off."""
    return np.floor(_numbers(match) / scale_of(match, "ys"))


def _scaled(x: np.ndarray, factor: float) -> np.ndarray:
    multiplier, shift = fixed_point(factor)
    return requantized(x, np.array(multiplier, np.int32), np.array(shift, np.int32))


def _leaky(match: Match) -> np.ndarray:
    x, xs, ys = _whole(match), scale_of(match, "xs"), scale_of(match, "ys")
    alpha = np.float32(match.attributes("u").alpha)
    return np.where(x >= 0, _scaled(x, float(xs / ys)), _scaled(x, float(xs * alpha / ys)))


def _absolute(match: Match) -> np.ndarray:
    x, xs, ys = np.abs(_whole(match)), scale_of(match, "xs"), scale_of(match, "ys")
    return x if xs == ys else _scaled(x, float(np.float64(xs) / np.float64(ys)))


def _factor16(value: np.float32) -> tuple[int, int]:
    """A factor as a multiplier of 15 bits and a shift."""
    multiplier, shift = fixed_point(float(value))
    return min((multiplier + _NARROW) >> 16, _NARROW - 1), shift


def _held16(x: int) -> int:
    return max(-_NARROW, min(_NARROW - 1, x))


def _hard_swish(match: Match) -> np.ndarray:
    """In 16 bits, as LiteRT's kernel: of its three doubling products the last does not round."""
    fine = scale_of(match, "xs") * np.float32(1 / 128)
    out = _factor16(fine / scale_of(match, "ys"))
    inner = _factor16(fine / np.float32(3 / 32768))
    return np.array([_swished(int(x), out, inner) for x in _whole(match)])


def _swished(x: int, out: tuple[int, int], inner: tuple[int, int]) -> int:
    (factor, shift), (slope, left) = out, inner
    x *= 128
    value = _held16((x * factor + (1 << 14)) >> 15)
    gate = _held16(x << (left - 1)) if left > 0 else x
    gate = _held16((gate * slope + (1 << 14)) >> 15)
    gate = _held16(gate * 2) if left > 0 else divided(gate, -left)
    gate = (gate + _NARROW) >> 1
    product = gate * value
    # C's division: towards zero.
    high = product // _NARROW if product >= 0 else -(-product // _NARROW)
    return divided(high, -shift)


def _before() -> str:
    either = " | ".join(f"{name}({DATA}) [users=1]" for name in FUNCTIONS)
    return f"u = {either}\ny = QuantizeLinear(u, {REST})"


AS_FLOATS = Rule(
    name="quantized-function",
    before=_before(),
    where=_not_byte,
    after=_looked_up(_as_floats),
    exactness=Exactness.BIT_EXACT,
    doc="A function of one number between DequantizeLinear and QuantizeLinear of bytes is a table "
    "of 256 bytes.",
)
AS_LITERT = Rule(
    name="fixed-point-function",
    before=_before(),
    where=_not_byte,
    after=_looked_up(_as_litert),
    exactness=Exactness.APPROXIMATE,
    doc="A function of one number between DequantizeLinear and QuantizeLinear of bytes is a table "
    "of 256 bytes, which holds what LiteRT's kernel gives.",
)
