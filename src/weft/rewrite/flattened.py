"""Images that a dense layer reads: its weights follow the order in which images lie in memory."""

from __future__ import annotations

import numpy as np

from weft.ir.unknown import IN_PLACE_BYTES, Array, Unknown, contiguous
from weft.match.view import Match
from weft.ops.axis_relations import is_elementwise
from weft.ops.build import GraphBuilder
from weft.ops.channels_last import DOMAIN as CHANNELS_LAST
from weft.ops.evaluate import call_of
from weft.ops.ordering import TransposeAttributes
from weft.ops.shape import ReshapeAttributes
from weft.ops.table import OPS
from weft.rewrite.rule import Exactness, Rule

FARTHEST = 8
"""Elementwise ops between the op that makes an image and the view."""


def _problem(match: Match) -> str | None:
    image, rows = match.type("x"), match.type("v")
    if len(image.shape) < 3 or not image.is_static or image.dims[1] == 1:
        return ""
    if int(np.prod(image.dims[2:])) == 1 or not _is_image(match):
        return ""
    if rows.dims != (image.dims[0], int(np.prod(image.dims[1:]))):
        return "the view keeps something else than the batch apart"
    if match.root.op == "Gemm" and match.root.attributes.transA:
        return "the product reads columns of the view"
    if len(match.type("w").shape) != 2:
        return "the weights are not one matrix"
    if match.view.use_count(match["w"]) > 1:
        return "the weights are used elsewhere"
    if image.dims[0] == 1 and _lies_elsewhere(match.array("w")):
        return "many weights that are given at run time stay where they are, the image is copied"
    return None


def _lies_elsewhere(weights: Array) -> bool:
    """Whether these are as many as one row may read where they lie."""
    return isinstance(weights, Unknown) and weights.nbytes >= IN_PLACE_BYTES


def _is_image(match: Match) -> bool:
    """Whether an op over images, channels first, made the value, maybe elementwise ops after it."""
    value = match["x"]
    for _ in range(FARTHEST):
        node = match.view.producers.get(value)
        if node is None:
            return False
        op = OPS.plain(node.op)
        if op is not None and op.inputs and op.inputs[0].role == "image":
            # Those whose channels are the last axis lie in memory in this order already.
            return op.domain != CHANNELS_LAST
        if not is_elementwise(call_of(node, match.view.types)):
            return False
        value = node.inputs[0]
    return False


def _channels_last(match: Match, builder: GraphBuilder) -> str:
    root, image, w = match.root, match.type("x"), match.array("w")
    columns = root.op == "Gemm" and root.attributes.transB
    matrix = w.T if columns else w
    channels, *places = image.dims[1:]
    moved = matrix.reshape(channels, *places, -1)
    moved = np.moveaxis(moved, 0, len(places)).reshape(matrix.shape)
    perm = (0, *range(2, len(image.shape)), 1)
    last = builder.op("Transpose", match["x"], attributes=TransposeAttributes(perm))
    rows = builder.op("Reshape", last, attributes=ReshapeAttributes(match.type("v").dims))
    weights = builder.constant(contiguous(moved.T if columns else moved), match["w"])
    rest = root.inputs[2:]
    return builder.op(root.op, rows, weights, *rest, attributes=root.attributes)


RULES: tuple[Rule, ...] = (
    Rule(
        name="flatten-channels-last",
        before="""
            v = Flatten(x) [users=1] | Reshape(x) [users=1]
            y = Gemm(v, const w, b?) | MatMul(v, const w)
        """,
        where=_problem,
        after=_channels_last,
        exactness=Exactness.REASSOCIATING,
        doc="A dense layer that reads an image reads it channels last, as images lie in memory, "
        "with its weights in that order: no copy in another order comes between.",
    ),
)
