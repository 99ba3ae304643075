"""Ops that exporters take apart, put together again."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np

from weft.match.view import Match
from weft.ops.activation import GeluAttributes, HardSigmoidAttributes, SwishAttributes
from weft.ops.build import GraphBuilder
from weft.ops.normalization import GroupNormalizationAttributes, LayerNormalizationAttributes
from weft.rewrite.rule import Exactness, Rule


def _other_type(match: Match) -> str | None:
    same = match.type("x") == match.type("y")
    return None if same and match.type("x").dtype.is_float else "a constant broadcasts the input"


def _form(name: str, before: str, op: str, doc: str, attributes: object | None = None) -> Rule:
    """A rule that forms an op of one input."""

    def after(match: Match, builder: GraphBuilder) -> str:
        if attributes is None:
            return builder.op(op, match["x"])
        return builder.op(op, match["x"], attributes=attributes)

    return Rule(
        name=name,
        before=before,
        where=_other_type,
        after=after,
        exactness=Exactness.REASSOCIATING,
        doc=doc,
    )


# --- activations ----------------------------------------------------------------------------

_HALF_OF_PRODUCT = "y = Mul{Mul{x, a}, 0.5} | Mul{Mul{x, 0.5}, a} | Mul{x, Mul{a, 0.5}}"
_SIXTH = 0.16666666666666666

_ACTIVATIONS: tuple[Rule, ...] = (
    _form(
        "form-gelu",
        f"""
        a = Add{{Erf(Div(x, 1.4142135623730951) | Mul{{x, 0.7071067811865476}}), 1}}
        {_HALF_OF_PRODUCT}
        """,
        "Gelu",
        "x / 2 times 1 + erf(x / sqrt(2)) is Gelu.",
    ),
    _form(
        "form-gelu-tanh",
        f"""
        c = Mul{{Pow(x, 3) | Mul{{x, Mul(x, x)}}, 0.044715}}
        a = Add{{Tanh(Mul{{Add{{x, c}}, 0.7978845608028654}}), 1}}
        {_HALF_OF_PRODUCT}
        """,
        "Gelu",
        "The approximation of Gelu by tanh is Gelu of that kind.",
        GeluAttributes("tanh"),
    ),
    _form(
        "form-swish",
        "y = Mul{x, Sigmoid(x)}",
        "Swish",
        "x times its sigmoid is Swish (SiLU).",
        SwishAttributes(),
    ),
    _form(
        "form-mish",
        "y = Mul{x, Tanh(Softplus(x))}",
        "Mish",
        "x times tanh of its softplus is Mish.",
    ),
    _form(
        "form-hard-swish",
        f"""
        h = Clip(Add{{x, 3}}) [min=0, max=6]
        y = Mul{{x, Div(h, 6)}} | Mul{{x, Mul{{h, {_SIXTH}}}}}
          | Div(Mul{{x, h}}, 6) | Mul{{Mul{{x, h}}, {_SIXTH}}}
          | Mul{{x, HardSigmoid(x) [alpha={_SIXTH}, beta=0.5]}}
        """,
        "HardSwish",
        "x times the line x / 6 + 1 / 2 held within [0, 1] is HardSwish.",
    ),
    _form(
        "form-hard-sigmoid",
        f"""
        h = Clip(Add{{x, 3}}) [min=0, max=6]
        y = Div(h, 6) | Mul{{h, {_SIXTH}}}
        """,
        "HardSigmoid",
        "The line x / 6 + 1 / 2 held within [0, 1] is HardSigmoid.",
        HardSigmoidAttributes(_SIXTH, 0.5),
    ),
)


# --- normalization --------------------------------------------------------------------------


def _normalized_axis(match: Match, *means: str) -> int | None:
    """The first of the last axes, over all of which every mean is taken; negative."""
    rank = len(match.type("x").shape)
    found: set[tuple[int, ...]] = set()
    for name in means:
        attributes = match.attributes(name)
        if not attributes.keepdims or not attributes.axes:
            return None
        found.add(tuple(sorted(axis % rank for axis in attributes.axes)))
    axes = found.pop()
    return None if found or axes != tuple(range(axes[0], rank)) else axes[0] - rank


def _normal_problem(match: Match, *means: str) -> str | None:
    if _normalized_axis(match, *means) is None:
        return "the means are not both over the same last axes"
    if match.array("e").size != 1:
        return "the epsilon is not one number"
    return _other_type(match)


def _form_normal(op: str, match: Match, builder: GraphBuilder, *means: str) -> str:
    type = match.type("x")
    axis = _normalized_axis(match, *means) or -1
    shape = tuple(dim for dim in type.shape[axis:] if isinstance(dim, int))
    scale = builder.constant(np.ones(shape, type.dtype.numpy), "scale")
    epsilon = float(match.array("e").reshape(-1)[0])
    attributes = LayerNormalizationAttributes(axis, epsilon)
    return builder.op(op, match["x"], scale, attributes=attributes)


def _parameter(match: Match, name: str) -> np.ndarray | None:
    """A constant as one number for each normalized element, if it is that."""
    type, axis = match.type("x"), match.attributes("n").axis
    shape = type.shape[axis:]
    array = match.constant(name)
    if array is None or array.ndim > len(type.shape):
        return None
    own = array.reshape(array.shape[-len(shape) :]) if _leading_ones(array, len(shape)) else None
    if own is None or not all(isinstance(dim, int) for dim in shape):
        return None
    if any(have not in (1, dim) for have, dim in zip(own.shape[::-1], shape[::-1], strict=False)):
        return None
    return np.broadcast_to(own, [dim for dim in shape if isinstance(dim, int)])


def _leading_ones(array: np.ndarray, rank: int) -> bool:
    return all(dim == 1 for dim in array.shape[: max(0, array.ndim - rank)])


def _parameter_problem(match: Match) -> str | None:
    names = ["s", "k"] + (["b"] if match.values.get("b") else [])
    if any(_parameter(match, name) is None for name in names):
        return "a parameter is not one constant for each normalized element"
    return None


def _with(match: Match, builder: GraphBuilder, scale: np.ndarray, shift: np.ndarray | None) -> str:
    node, dtype = match.node("n"), match.type("x").dtype.numpy
    inputs = [match["x"], builder.constant(scale.astype(dtype), match["s"])]
    if shift is not None:
        inputs.append(builder.constant(shift.astype(dtype), match.values.get("b") or match["k"]))
    return builder.op(node.op, *inputs, attributes=node.attributes)


def _wide(match: Match, name: str) -> np.ndarray:
    array = _parameter(match, name)
    return np.zeros(()) if array is None else array.astype(np.float64)


def _scaled(match: Match, builder: GraphBuilder) -> str:
    k = _wide(match, "k")
    shift = _wide(match, "b") * k if match.values.get("b") else None
    return _with(match, builder, _wide(match, "s") * k, shift)


def _shifted(match: Match, builder: GraphBuilder) -> str:
    shift = _wide(match, "k") + (_wide(match, "b") if match["b"] else 0)
    return _with(match, builder, _wide(match, "s"), shift)


def _group_problem(match: Match) -> str | None:
    shape, parts = match.type("x").shape, match.type("v").shape
    if match.type("x") != match.type("y") or len(shape) < 3 or len(parts) != 3:
        return ""
    if parts[0] != shape[0] or not isinstance(shape[1], int) or not isinstance(parts[1], int):
        return "the images are not normalized one by one"
    return "groups are not whole channels" if shape[1] % parts[1] else None


def _form_group(match: Match, builder: GraphBuilder) -> str:
    channels, groups = (cast(int, match.type(name).shape[1]) for name in ("x", "v"))
    parameters = [
        builder.constant(match.array(name).repeat(channels // groups), match[name])
        for name in ("s", "b")
    ]
    attributes = GroupNormalizationAttributes(groups, match.attributes("n").epsilon)
    return builder.op("GroupNormalization", match["x"], *parameters, attributes=attributes)


def _of_channels(match: Match) -> np.ndarray | None:
    """A constant as one number for each channel, if it is that."""
    rank, array = len(match.type("x").shape), match.array("k")
    channels = match.type("x").shape[1]
    if array.ndim > rank or not isinstance(channels, int):
        return None
    own = array.reshape((1,) * (rank - array.ndim) + array.shape)
    spread = own.shape[:1] + own.shape[2:]
    fits = all(size == 1 for size in spread) and own.shape[1] in (1, channels)
    return np.broadcast_to(own.reshape(-1), (channels,)) if fits else None


def _channels_problem(match: Match) -> str | None:
    return None if _of_channels(match) is not None else "the constant is not one for each channel"


def _of_groups(match: Match, builder: GraphBuilder, factor: bool) -> str:
    node, dtype = match.node("n"), match.type("x").dtype.numpy
    found = _of_channels(match)
    assert found is not None
    k, scale, bias = (
        each.astype(np.float64) for each in (found, match.array("s"), match.array("b"))
    )
    scale, bias = (scale * k, bias * k) if factor else (scale, bias + k)
    parameters = [
        builder.constant(array.astype(dtype), match[name])
        for array, name in ((scale, "s"), (bias, "b"))
    ]
    return builder.op(node.op, match["x"], *parameters, attributes=node.attributes)


_NORMALIZATION: tuple[Rule, ...] = (
    Rule(
        name="form-layer-norm",
        before="""
            m = ReduceMean(x)
            d = Sub(x, m)
            v = ReduceMean(Pow(d, 2) | Mul(d, d))
            r = Sqrt(Add{v, const e})
            y = Div(d, r) | Mul{d, Reciprocal(r)}
        """,
        where=lambda match: _normal_problem(match, "m", "v"),
        after=lambda match, builder: _form_normal("LayerNormalization", match, builder, "m", "v"),
        exactness=Exactness.REASSOCIATING,
        doc="The difference from the mean over the standard deviation is LayerNormalization.",
    ),
    Rule(
        name="form-rms-norm",
        before="""
            v = ReduceMean(Pow(x, 2) | Mul(x, x))
            r = Sqrt(Add{v, const e})
            y = Div(x, r) | Mul{x, Reciprocal(r)}
        """,
        where=lambda match: _normal_problem(match, "v"),
        after=lambda match, builder: _form_normal("RMSNormalization", match, builder, "v"),
        exactness=Exactness.REASSOCIATING,
        doc="A value over the root of its mean square is RMSNormalization.",
    ),
    Rule(
        name="form-group-norm",
        before="""
            v = Reshape(x)
            n = InstanceNormalization(v, const s, const b)
            y = Reshape(n)
        """,
        where=_group_problem,
        after=_form_group,
        exactness=Exactness.REASSOCIATING,
        doc="InstanceNormalization of channels that a Reshape joins is GroupNormalization.",
    ),
    *(
        Rule(
            name=f"{name}-group-norm",
            before=f"""
                n = GroupNormalization(x, const s, const b) [users=1]
                y = {op}{{n, const k}}
            """,
            where=_channels_problem,
            after=partial(_of_groups, factor=op == "Mul"),
            exactness=Exactness.REASSOCIATING,
            doc=f"A constant {what} of each channel after a group normalization goes into it.",
        )
        for name, op, what in (("scale", "Mul", "factor"), ("shift", "Add", "term"))
    ),
    Rule(
        name="scale-normalization",
        before="""
            n = LayerNormalization(x, const s, b?) [users=1]
              | RMSNormalization(x, const s) [users=1]
            y = Mul{n, const k}
        """,
        where=_parameter_problem,
        after=_scaled,
        exactness=Exactness.REASSOCIATING,
        doc="A constant factor after a normalization goes into its scale.",
    ),
    Rule(
        name="shift-normalization",
        before="""
            n = LayerNormalization(x, const s, b?) [users=1]
            y = Add{n, const k}
        """,
        where=_parameter_problem,
        after=_shifted,
        exactness=Exactness.REASSOCIATING,
        doc="A constant term after a layer normalization goes into its shift.",
    ),
)

RULES: tuple[Rule, ...] = (*_ACTIVATIONS, *_NORMALIZATION)
