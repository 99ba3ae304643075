"""Graphs as quantization takes them: batch norm folded, activations behind their layers."""

from __future__ import annotations

from dataclasses import replace as changed

from weft.ir.graph import Graph
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.quantize.scaled_products import with_scales_in_weights
from weft.rewrite.engine import rewrite
from weft.rewrite.recipes import simplify
from weft.rewrite.rule import Exactness, Rule


def _padded(match: Match) -> str | None:
    """Why an activation stays behind a max pool."""
    attributes = match.attributes("p")
    # A window in the padding alone gives minus infinity, which the activation bounds.
    return "the pool has padding" if any(getattr(attributes, "pads", ())) else None


def _before(match: Match, builder: GraphBuilder) -> str:
    pool, activation = match.node("p"), match.root
    bounded = builder.op(activation.op, match["x"], attributes=activation.attributes)
    return builder.op(pool.op, bounded, attributes=pool.attributes)


_RULES: tuple[Rule, ...] = (
    Rule(
        name="activation-before-max-pool",
        before="""
            p = MaxPool(x) [users=1] | GlobalMaxPool(x) [users=1]
              | MaxPoolChannelsLast(x) [users=1] | GlobalMaxPoolChannelsLast(x) [users=1]
            y = Relu(p) | Clip(p)
        """,
        where=_padded,
        after=_before,
        exactness=Exactness.BIT_EXACT,
        doc="ReLU and Clip before max pooling: as part of the layer before, which is quantized "
        "once it is bounded.",
    ),
)


def prepared(graph: Graph) -> Graph:
    """The graph after the recipes that every model goes through, ready to be quantized."""
    simple = simplify(graph)[0]
    done, _ = rewrite(simple, _RULES, allow=Exactness.BIT_EXACT)
    return changed(with_scales_in_weights(done), history=simple.history)
