"""Pools past pointwise convolutions."""

from __future__ import annotations

from math import prod
from typing import Any

from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.rewrite.rule import Exactness, Rule


def _problem(match: Match) -> str | None:
    attributes = match.attributes("c")
    steps = (*match.type("w").dims[2:], *attributes.strides)
    if max(steps, default=1) > 1 or any(attributes.pads):
        return ""  # not a pointwise convolution
    if _pixels(match, "y") >= _pixels(match, "c"):
        return "the pool leaves as many elements as there were"
    if match.has("b") and not _averages_weigh_one(match.root.attributes):
        return "the pool counts padding, which the bias is not added to"
    return None


def _pixels(match: Match, name: str) -> int:
    """Positions of a value; only the batch may be symbolic."""
    return prod(dim for dim in match.type(name).shape[2:] if isinstance(dim, int))


def _averages_weigh_one(attributes: Any) -> bool:
    """Whether the average of a constant is that constant, at the borders too."""
    pads = getattr(attributes, "pads", ())
    return not getattr(attributes, "count_include_pad", 0) or not (
        any(pads) or attributes.ceil_mode
    )


def _swap(match: Match, builder: GraphBuilder) -> str:
    pool, conv = match.root, match.node("c")
    pooled = builder.op(pool.op, match["x"], attributes=pool.attributes)
    operands = [match[name] for name in ("w", "b") if match.has(name)]
    return builder.op(conv.op, pooled, *operands, attributes=conv.attributes)


RULES: tuple[Rule, ...] = (
    Rule(
        name="average-pool-before-pointwise",
        before="""
            c = Conv(x, w, b?) [users=1]
            y = AveragePool(c) | GlobalAveragePool(c)
        """,
        where=_problem,
        after=_swap,
        exactness=Exactness.REASSOCIATING,
        doc="Averages before a pointwise convolution instead of after it: the same sums, and "
        "the convolution has fewer elements to compute, a quarter in a DenseNet's transitions.",
    ),
)
