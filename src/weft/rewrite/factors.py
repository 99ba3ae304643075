"""Multiplications and additions of constants: into layers, into one another, made cheaper."""

from __future__ import annotations

from math import prod

import numpy as np

from weft.ir.unknown import all_finite
from weft.match.view import Match
from weft.ops.accumulate import accumulator
from weft.ops.build import GraphBuilder
from weft.ops.linear import GemmAttributes
from weft.rewrite.affine import (
    ChannelAffine,
    absorb_at_input,
    absorb_at_output,
    channel_axis,
    layer_problem,
    layers,
    per_channel,
)
from weft.rewrite.rule import Exactness, Rule
from weft.rewrite.transposes import permutation

# --- into layers ----------------------------------------------------------------------------


def _affine(match: Match, combine: str, value: str) -> ChannelAffine | None:
    """What a constant ``k`` does to the channels of a value beside a layer ``c``."""
    found = _channels(match, "k", value)
    if found is None:
        return None
    return ChannelAffine(found, None) if combine == "Mul" else ChannelAffine(None, found)


def _channels(match: Match, name: str, value: str) -> np.ndarray | None:
    """A constant beside a value as one number per channel of a layer ``c``.

    A Transpose ``t`` may stand between the value and the layer.
    """
    type, array = match.type(value), match.array(name)
    axis = channel_axis(match.node("c").op, len(type.shape))
    if "t" in match.values:
        axis = permutation(match, "t")[axis]
    return per_channel(array, type, axis)


def _into_output(op: str) -> Rule:
    return Rule(
        name="fold-multiply" if op == "Mul" else "fold-add",
        before=f"""
            c = {layers("[users=1]")}
            y = {op}{{c, const k}}
        """,
        where=lambda match: layer_problem(match, _affine(match, op, "c")),
        after=lambda match, builder: absorb_at_output(
            match, builder, _affine(match, op, "c") or ChannelAffine(None, None)
        ),
        exactness=Exactness.REASSOCIATING,
        doc="A constant for each channel that multiplies the output of a convolution or matrix "
        "product goes into its weights."
        if op == "Mul"
        else "A constant for each channel that is added to the output of a convolution or "
        "matrix product goes into its bias.",
    )


def _into_input(op: str, *, turned: bool) -> Rule:
    name = "fold-multiply-before" if op == "Mul" else "fold-add-before"
    return Rule(
        name=f"{name}-transpose" if turned else name,
        before=f"""
            m = {op}{{x, const k}} [users=1]
            {_layer_of("m", turned)}
        """,
        where=lambda match: _input_problem(match, op),
        after=lambda match, builder: absorb_at_input(
            match,
            builder,
            _affine(match, op, "x") or ChannelAffine(None, None),
            _turned(match, builder, match["x"]),
        ),
        exactness=Exactness.REASSOCIATING,
        doc=(
            "A constant for each channel that multiplies the input of a convolution or matrix "
            "product goes into its weights"
            if op == "Mul"
            else "A constant for each channel that is added to the input of a convolution without "
            "padding or a matrix product goes into its bias"
        )
        + (", across a Transpose, too." if turned else "."),
    )


def _layer_of(value: str, turned: bool) -> str:
    """Pattern of a layer of a value, or of its Transpose ``t``."""
    given = "t" if turned else value
    between = f"t = Transpose({value}) [users=1]\n" if turned else ""
    return between + f"c = {layers('').replace('(x,', f'({given},')}"


def _turned(match: Match, builder: GraphBuilder, value: str) -> str:
    """The value, by the Transpose ``t`` of a match that has one."""
    if "t" not in match.values:
        return value
    return builder.op("Transpose", value, attributes=match.attributes("t"))


def _input_problem(match: Match, op: str) -> str | None:
    if match.type("x") != match.type("m"):
        return "the constant broadcasts the input"
    return layer_problem(match, _affine(match, op, "x"), at_input=True)


def _shift_first(turned: bool) -> Rule:
    return Rule(
        name="multiply-after-add-transpose" if turned else "multiply-after-add",
        before=f"""
            m = Mul{{x, const j}} [users=1]
            a = Add{{m, const k}} [users=1]
            {_layer_of("a", turned)}
        """,
        where=_shift_problem,
        after=_shifted_first,
        exactness=Exactness.REASSOCIATING,
        doc="A factor goes into the weights past a term that cannot go into the bias, for the "
        "convolution pads: the term is divided by the factor. So images of bytes are cast, less "
        "their mean, in one pass. What is padded is 0 after the term was added, before and after"
        + (", here across a Transpose." if turned else "."),
    )


def _shift(match: Match) -> np.ndarray:
    """The term ``k`` divided by the factor ``j``."""
    j, k = match.array("j").astype(np.float64), match.array("k").astype(np.float64)
    with np.errstate(all="ignore"):
        return (k / j).astype(match.array("k").dtype)


def _shift_problem(match: Match) -> str | None:
    if not match.type("x") == match.type("m") == match.type("a"):
        return "a constant broadcasts the input"
    factor, term = _channels(match, "j", "x"), _channels(match, "k", "x")
    if factor is None or term is None:
        return "a constant is not one number per channel"
    if layer_problem(match, ChannelAffine(None, term), at_input=True) is None:
        return ""  # the bias takes the term
    if not all_finite(_shift(match)):
        return "the term divided by the factor is not a finite number"
    return layer_problem(match, ChannelAffine(factor, None), at_input=True)


def _shifted_first(match: Match, builder: GraphBuilder) -> str:
    shifted = builder.op("Add", match["x"], builder.constant(_shift(match), match["k"]))
    factor = ChannelAffine(_channels(match, "j", "x"), None)
    return absorb_at_input(match, builder, factor, _turned(match, builder, shifted))


# --- matrix product with bias ---------------------------------------------------------------


def _not_gemm(match: Match) -> str | None:
    if len(match.type("a").shape) != 2 or len(match.type("b").shape) != 2:
        return "both factors must be matrices"
    if match.type("y") != match.type("p") or match.array("k").ndim > 2:
        return "the constant broadcasts the product"
    if accumulator(match.type("p").dtype) is not match.type("p").dtype:
        return "the product was rounded before the addition"
    return None


def _gemm(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Gemm", match["a"], match["b"], match["k"], attributes=GemmAttributes())


# --- constants among themselves -------------------------------------------------------------


def _grows(match: Match) -> str | None:
    inner, outer = match.array("j"), match.array("k")
    if not match.type("y").dtype.is_float:
        return ""
    size = prod(np.broadcast_shapes(inner.shape, outer.shape))
    if size > max(inner.size, outer.size):
        return "together the constants would be larger"
    return None


def _merged(match: Match, builder: GraphBuilder) -> str:
    dtype, op = match.type("y").dtype.numpy, match.root.op
    inner, outer = (match.array(name).astype(np.float64) for name in ("j", "k"))
    both = (inner * outer if op == "Mul" else inner + outer).astype(dtype)
    return builder.op(op, match["x"], builder.constant(both, match["k"]))


def _merge(op: str) -> Rule:
    return Rule(
        name="merge-multiply" if op == "Mul" else "merge-add",
        before=f"m = {op}{{x, const j}} [users=1]\ny = {op}{{m, const k}}",
        where=_grows,
        after=_merged,
        exactness=Exactness.REASSOCIATING,
        doc=f"Two {'factors' if op == 'Mul' else 'terms'} that are constant become one.",
    )


def _distributed(match: Match, builder: GraphBuilder) -> str:
    k, dtype = match.array("k").astype(np.float64), match.type("y").dtype.numpy
    term = builder.constant((match.array("j") * k).astype(dtype), match["j"])
    return builder.op("Add", builder.op("Mul", match["c"], match["k"]), term)


def _add_negative(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Add", match["x"], builder.constant(-match.array("k"), match["k"]))


def _reciprocal(match: Match) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (1 / match.array("k").astype(np.float64)).astype(match.array("k").dtype)


def _no_power_of_two(match: Match) -> str | None:
    if not match.type("y").dtype.is_float:
        return ""
    k = match.array("k").astype(np.float64)
    mantissa, _ = np.frexp(k)
    exact = np.abs(mantissa) == 0.5
    back = _reciprocal(match).astype(np.float64)
    if exact.all() and np.all(back * k == 1):
        return None
    return "a divisor is no power of two whose reciprocal is a normal number"


def _no_reciprocal(match: Match) -> str | None:
    if not match.type("y").dtype.is_float:
        return ""
    back = _reciprocal(match)
    tiny = np.finfo(np.float32).tiny if back.dtype.itemsize > 2 else np.float32(6.2e-5)
    normal = np.isfinite(back) & (np.abs(back.astype(np.float64)) >= tiny)
    return None if normal.all() else "a divisor has no reciprocal that is a normal number"


def _multiply(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Mul", match["x"], builder.constant(_reciprocal(match), match["k"]))


def _power(match: Match, builder: GraphBuilder) -> str:
    square = builder.op("Mul", match["x"], match["x"])
    return square if match.array("k").reshape(-1)[0] == 2 else builder.op("Mul", square, match["x"])


def _power_problem(match: Match) -> str | None:
    k = match.array("k")
    small = k.size == 1 and k.reshape(-1)[0] in (2, 3)
    same = match.type("x") == match.type("y")
    return None if small and same and match.type("x").dtype.is_float else ""


def _no_scale(match: Match) -> str | None:
    if any(match.constant(name) is not None for name in ("a", "b") if name in match.values):
        return ""  # the other factor takes it
    if match.array("k").size != 1 or match.type("m") != match.type("x"):
        return "the factor is not one number"
    same = accumulator(match.type("y").dtype) is match.type("y").dtype
    return None if same else "the product would be rounded before the factor"


def _scaled_after(match: Match, builder: GraphBuilder) -> str:
    scaled, bare = match["m"], match["x"]
    if "t" in match.values:
        scaled = match["t"]
        bare = builder.op("Transpose", bare, attributes=match.attributes("t"))
    factors = [bare if value == scaled else value for value in match.root.inputs]
    return builder.op("Mul", builder.op("MatMul", *factors), match["k"])


FOLD: tuple[Rule, ...] = (
    _into_output("Mul"),
    _into_output("Add"),
    _into_input("Mul", turned=False),
    _into_input("Mul", turned=True),
    _into_input("Add", turned=False),
    _into_input("Add", turned=True),
    _shift_first(turned=False),
    _shift_first(turned=True),
    Rule(
        name="multiply-before-add",
        before=f"""
            c = {layers("[users=1]")}
            a = Add{{c, const j}} [users=1]
            y = Mul{{a, const k}}
        """,
        where=_grows,
        after=_distributed,
        exactness=Exactness.REASSOCIATING,
        doc="A factor after a layer and its bias multiplies both, so that the layer can take it.",
    ),
    Rule(
        name="matmul-add-to-gemm",
        before="p = MatMul(a, b) [users=1]\ny = Add{p, const k}",
        where=_not_gemm,
        after=_gemm,
        exactness=Exactness.BIT_EXACT,
        doc="A product of two matrices plus a constant is one Gemm.",
    ),
)

CHEAPEN: tuple[Rule, ...] = (
    _merge("Mul"),
    _merge("Add"),
    Rule(
        name="scale-after-product",
        before="""
            m = Mul{x, const k} [users=1]
            t = Transpose(m) [users=1]
            y = MatMul(m, b) | MatMul(a, m) | MatMul(t, b) | MatMul(a, t)
        """,
        where=_no_scale,
        after=_scaled_after,
        exactness=Exactness.REASSOCIATING,
        doc="A number that multiplies one factor of a matrix product may multiply the product, "
        "which costs nothing where the product is stored; the factor is then read as it lies.",
    ),
    Rule(
        name="subtract-to-add",
        before="y = Sub(x, const k)",
        where=lambda match: None if match.type("y").dtype.is_float else "",
        after=_add_negative,
        exactness=Exactness.BIT_EXACT,
        doc="Subtracting a constant is adding its negative, which other rules can use.",
    ),
    Rule(
        name="divide-by-power-of-two",
        before="y = Div(x, const k)",
        where=_no_power_of_two,
        after=_multiply,
        exactness=Exactness.BIT_EXACT,
        doc="Dividing by a power of two is multiplying by its reciprocal.",
    ),
    Rule(
        name="divide-by-constant",
        before="y = Div(x, const k)",
        where=_no_reciprocal,
        after=_multiply,
        exactness=Exactness.REASSOCIATING,
        doc="Dividing by a constant is multiplying by its reciprocal, up to rounding.",
    ),
    Rule(
        name="expand-power",
        before="y = Pow(x, const k)",
        where=_power_problem,
        after=_power,
        exactness=Exactness.REASSOCIATING,
        doc="Squares and cubes are products.",
    ),
)
