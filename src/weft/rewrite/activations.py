"""Activations: past pooling, and bounds merged."""

from __future__ import annotations

from weft.match.view import Match
from weft.ops.arithmetic import ClipAttributes
from weft.ops.build import GraphBuilder
from weft.rewrite.rule import Exactness, Rule


def _no_gain(match: Match) -> str | None:
    pool = match.root
    if pool.op.startswith("GlobalMaxPool"):
        return None
    attributes = pool.attributes
    kernel = attributes.kernel
    dilations = attributes.dilations or (1,) * len(kernel)
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilations, strict=True)]
    pads = attributes.pads or (0,) * (2 * len(kernel))
    if any(pad >= size for pad, size in zip(pads, reach * 2, strict=True)):
        return "a window lies in the padding, where the pool gives minus infinity"
    return None


def _past(match: Match, builder: GraphBuilder) -> str:
    pool, relu = match.root, match.node("r")
    pooled = builder.op(pool.op, match["x"], attributes=pool.attributes)
    return builder.op(relu.op, pooled, attributes=relu.attributes)


def _bounds(match: Match, name: str) -> tuple[float | None, float | None]:
    node = match.node(name)
    return (0, None) if node.op == "Relu" else (node.attributes.min, node.attributes.max)


def _disjoint(match: Match) -> str | None:
    low, high = _common(match)
    if low is not None and high is not None and low > high:
        return "the bounds leave nothing between them"
    return None


def _common(match: Match) -> tuple[float | None, float | None]:
    (low, high), (lower, upper) = _bounds(match, "r"), _bounds(match, "y")
    lows = [each for each in (low, lower) if each is not None]
    highs = [each for each in (high, upper) if each is not None]
    return (max(lows) if lows else None, min(highs) if highs else None)


def _clip(match: Match, builder: GraphBuilder) -> str:
    low, high = _common(match)
    if low == 0 and high is None:
        return builder.op("Relu", match["x"])
    return builder.op("Clip", match["x"], attributes=ClipAttributes(low, high))


def _is_relu(match: Match) -> str | None:
    attributes = match.attributes("y")
    return None if attributes.min == 0 and attributes.max is None else ""


RULES: tuple[Rule, ...] = (
    Rule(
        name="relu-past-max-pool",
        before="""
            r = Relu(x) [users=1] | Clip(x) [users=1]
            y = MaxPool(r) | GlobalMaxPool(r) | MaxPoolChannelsLast(r)
              | GlobalMaxPoolChannelsLast(r)
        """,
        where=_no_gain,
        after=_past,
        exactness=Exactness.BIT_EXACT,
        doc="ReLU and Clip after max pooling instead of before: the same, on fewer elements.",
    ),
    Rule(
        name="merge-bounds",
        before="""
            r = Relu(x) [users=1] | Clip(x) [users=1]
            y = Relu(r) | Clip(r)
        """,
        where=_disjoint,
        after=_clip,
        exactness=Exactness.BIT_EXACT,
        doc="ReLU and Clip in a row are one Clip.",
    ),
    Rule(
        name="clip-to-relu",
        before="y = Clip(x)",
        where=_is_relu,
        after=lambda match, builder: builder.op("Relu", match["x"]),
        exactness=Exactness.BIT_EXACT,
        doc="A Clip at zero from below is ReLU.",
    ),
)
