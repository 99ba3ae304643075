"""Nodes that hand their input on: removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.rewrite.rule import Exactness, Rule

Condition: TypeAlias = Callable[[Match], bool]


def _type_alone(_: Match) -> bool:
    """Equal types of input and output say it all."""
    return True


def _positive_steps(match: Match) -> bool:
    steps = match.root.attributes.steps
    return steps is None or all(step > 0 for step in steps)


def _one_input(match: Match) -> bool:
    return len(match.root.inputs) == 1


def _identity_permutation(match: Match) -> bool:
    rank = len(match.type("x").shape)
    perm = match.root.attributes.perm
    return rank < 2 if perm is None else list(perm) == list(range(rank))


def _single_taps(match: Match) -> bool:
    attributes = match.root.attributes
    unit = {*attributes.kernel, *attributes.strides} <= {1}
    return unit and not any(attributes.pads)


NO_OPS: Mapping[str, Condition] = {
    "Identity": _type_alone,
    "Dropout": _type_alone,
    "Cast": _type_alone,
    "CastLike": _type_alone,
    "BitCast": _type_alone,
    "Reshape": _type_alone,
    "Flatten": _type_alone,
    "Squeeze": _type_alone,
    "Unsqueeze": _type_alone,
    "Expand": _type_alone,
    "Tile": _type_alone,
    "Split": _type_alone,
    "DepthToSpace": _type_alone,
    "SpaceToDepth": _type_alone,
    "ReduceSum": _type_alone,
    "ReduceMean": _type_alone,
    "ReduceMax": _type_alone,
    "ReduceMin": _type_alone,
    "ReduceProd": _type_alone,
    "GlobalAveragePool": _type_alone,
    "GlobalMaxPool": _type_alone,
    "Slice": _positive_steps,
    "Concat": _one_input,
    "Sum": _one_input,
    "Mean": _one_input,
    "Max": _one_input,
    "Min": _one_input,
    "Pad": lambda match: not any(match.root.attributes.pads),
    "Transpose": _identity_permutation,
    "MaxPool": _single_taps,
    "AveragePool": _single_taps,
}
"""When an op hands its first input on, given that input and output have one type."""


def changes_something(match: Match) -> str | None:
    """A condition: only where the root hands its input ``x`` on as ``y``."""
    if not match["y"] or match.type("x") != match.type("y") or not NO_OPS[match.root.op](match):
        return ""
    return None


def _not_all(value: float) -> Callable[[Match], str | None]:
    def where(match: Match) -> str | None:
        neutral = bool(np.all(match.array("k") == value))
        return None if neutral and match.type("x") == match.type("y") else ""

    return where


EXACTLY_HELD: Mapping[DType, frozenset[DType]] = {
    DType.F16: frozenset({DType.F32, DType.F64}),
    DType.BF16: frozenset({DType.F32, DType.F64}),
    DType.F32: frozenset({DType.F64}),
    DType.I8: frozenset({DType.I16, DType.I32, DType.I64, DType.F16, DType.F32, DType.F64}),
    DType.U8: frozenset(set(DType) - {DType.I8, DType.BF16, DType.U8, DType.BOOL}),
    DType.I16: frozenset({DType.I32, DType.I64, DType.F32, DType.F64}),
    DType.U16: frozenset({DType.U32, DType.U64, DType.I32, DType.I64, DType.F32, DType.F64}),
    DType.I32: frozenset({DType.I64, DType.F64}),
    DType.U32: frozenset({DType.U64, DType.I64, DType.F64}),
    DType.BOOL: frozenset(set(DType) - {DType.BOOL}),
}
"""Wider types that hold every value of a type."""


def _loses_bits(match: Match) -> str | None:
    held = EXACTLY_HELD.get(match.type("x").dtype, frozenset())
    if match.type("c").dtype in held:
        return None
    return f"{match.type('c').dtype.value} does not hold every {match.type('x').dtype.value}"


def _cast_once(match: Match, builder: GraphBuilder) -> str:
    return builder.op("Cast", match["x"], attributes=CastAttributes(match.type("y").dtype))


RULES: tuple[Rule, ...] = (
    Rule(
        name="remove-no-op",
        before="y = " + " | ".join(f"{op}(x, ...)" for op in NO_OPS),
        where=changes_something,
        after=lambda match, _: match["x"],
        exactness=Exactness.BIT_EXACT,
        doc="Identity, Dropout at inference, and every Slice, Cast, Concat, Expand, Reshape, "
        "Pad, Transpose, reduction or pool that hands its input on as it is.",
    ),
    Rule(
        name="remove-multiply-by-one",
        before="y = Mul{x, const k} | Div(x, const k) | Pow(x, const k)",
        where=_not_all(1),
        after=lambda match, _: match["x"],
        exactness=Exactness.BIT_EXACT,
        doc="Multiplying by one, dividing by one, the first power.",
    ),
    Rule(
        name="remove-add-zero",
        before="y = Add{x, const k} | Sub(x, const k)",
        where=_not_all(0),
        after=lambda match, _: match["x"],
        exactness=Exactness.BIT_EXACT,
        doc="Adding or subtracting zero.",
    ),
    Rule(
        name="merge-casts",
        before="c = Cast(x)\ny = Cast(c)",
        where=_loses_bits,
        after=_cast_once,
        exactness=Exactness.BIT_EXACT,
        doc="A cast to a wider type and on is one cast.",
    ),
    Rule(
        name="merge-relu",
        before="r = Relu(x)\ny = Relu(r)",
        after=lambda match, _: match["r"],
        exactness=Exactness.BIT_EXACT,
        doc="ReLU of ReLU is ReLU.",
    ),
)
