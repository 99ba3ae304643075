"""Batch normalization with known statistics: into the layer beside it, or two operations."""

from __future__ import annotations

from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.rewrite.affine import (
    LAST,
    ChannelAffine,
    absorb_at_input,
    absorb_at_output,
    batch_norm,
    channel_axis,
    layer_problem,
    layers,
)
from weft.rewrite.rule import Exactness, Rule

_PARAMETERS = "const scale, const shift, const mean, const variance"
_NAMES = ("scale", "shift", "mean", "variance")
_INFERENCE = "[training_mode=0]"


def _after(match: Match) -> ChannelAffine | None:
    """What follows the layer, if its axis of channels is the normalized one."""
    if match.node("c").op == "MatMul" and len(match.type("c").shape) != 2:
        return None
    if not _same_axis(match, "y"):
        return None
    return batch_norm(match, "y", *_NAMES)


def _same_axis(match: Match, name: str) -> bool:
    """Whether a normalization and the layer ``c`` have their channels along one axis."""
    rank, op = len(match.type("c").shape), match.node("c").op
    normalized = rank - 1 if match.node(name).op.endswith(LAST) else 1
    return channel_axis(op, rank) == normalized


def _before(match: Match) -> ChannelAffine | None:
    if match.node("c").op in ("MatMul", "Gemm") and len(match.type("x").shape) != 2:
        return None
    if not _same_axis(match, "n"):
        return None
    return batch_norm(match, "n", *_NAMES)


def _split_problem(match: Match) -> str | None:
    affine = batch_norm(match, "y", *_NAMES)
    return None if affine.is_finite else "a factor or shift is not a finite number"


def _split(match: Match, builder: GraphBuilder) -> str:
    affine, type = batch_norm(match, "y", *_NAMES), match.type("x")
    last = match.root.op.endswith(LAST)
    shape = (-1,) if last else (-1, *[1] * (len(type.shape) - 2))
    factor, shift = (
        builder.constant(each.astype(type.dtype.numpy).reshape(shape), name)
        for each, name in ((affine.factor, match["scale"]), (affine.shift, match["shift"]))
        if each is not None
    )
    return builder.op("Add", builder.op("Mul", match["x"], factor), shift)


FOLD: tuple[Rule, ...] = (
    Rule(
        name="fold-batch-norm",
        before=f"""
            c = {layers("[users=1]")}
            y = BatchNormalization(c, {_PARAMETERS}) {_INFERENCE}
              | BatchNormalizationChannelsLast(c, {_PARAMETERS}) {_INFERENCE}
        """,
        where=lambda match: layer_problem(match, _after(match)),
        after=lambda match, builder: absorb_at_output(
            match, builder, batch_norm(match, "y", *_NAMES)
        ),
        exactness=Exactness.REASSOCIATING,
        doc="Batch normalization after a convolution, transposed convolution or matrix product "
        "goes into its weights and bias.",
    ),
    Rule(
        name="fold-batch-norm-before",
        before=f"""
            n = BatchNormalization(x, {_PARAMETERS}) [training_mode=0, users=1]
              | BatchNormalizationChannelsLast(x, {_PARAMETERS}) [training_mode=0, users=1]
            c = {layers("").replace("(x,", "(n,")}
        """,
        where=lambda match: layer_problem(match, _before(match), at_input=True),
        after=lambda match, builder: absorb_at_input(
            match, builder, batch_norm(match, "n", *_NAMES)
        ),
        exactness=Exactness.REASSOCIATING,
        doc="Batch normalization before a convolution without padding or a matrix product goes "
        "into its weights and bias.",
    ),
)

SPLIT: tuple[Rule, ...] = (
    Rule(
        name="split-batch-norm",
        before=f"""
            y = BatchNormalization(x, {_PARAMETERS}) {_INFERENCE}
              | BatchNormalizationChannelsLast(x, {_PARAMETERS}) {_INFERENCE}
        """,
        where=_split_problem,
        after=_split,
        exactness=Exactness.REASSOCIATING,
        doc="Batch normalization that no layer can take is one multiplication and one addition "
        "per element.",
    ),
)
