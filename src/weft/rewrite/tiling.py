"""Recipes that cut layers into parts: along axes of the output, through chains, or their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.errors import UserError
from weft.ir.edit import replace_all
from weft.ir.graph import Graph, Node
from weft.ir.substitute import Replacement
from weft.ops.region_inference import AxisSpan, extent_of
from weft.records import dataclass
from weft.rewrite.places import node_named, replaced
from weft.rewrite.recipe import Recipe, parameter
from weft.rewrite.region_inference import cuts, group_borders
from weft.rewrite.rule import Exactness
from weft.rewrite.tile_inner import inner_extent, tile_inner
from weft.rewrite.tiles import tile

_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv")
_NODES = "names of the layers; all that can be cut if not given"
_PARTS = "how many parts, as even as possible"
_SIZE = "of every part; the last may be smaller"
_SIZES = "the size of each part"


# --- convolution ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TileConvParameters:
    """Of ``tile-conv``."""

    axis: str = parameter(
        "what is cut: an axis of the output by its number (0 the batch, 1 the channels, 2 the "
        "first of the image), `out` for output channels, `in` for input channels",
        "2",
    )
    parts: int | None = parameter(_PARTS, None)
    size: int | None = parameter(_SIZE, None)
    sizes: tuple[int, ...] = parameter(_SIZES, ())
    nodes: tuple[str, ...] = parameter(_NODES, ())


def _tile_conv(graph: Graph, given: TileConvParameters) -> Graph:
    def replace(node: Node) -> Replacement:
        if given.axis == "in":
            spans = _cut(inner_extent(graph, node), given)
            return tile_inner(graph, node, spans, "tile-conv")
        axis = _axis(graph, node, given.axis)
        spans = _cut(extent_of(graph.types[node.outputs[0]], axis), given)
        if axis == 1:
            channels = extent_of(graph.types[node.outputs[0]], 1)
            spans = group_borders(spans, channels // node.attributes.groups)
        return tile(graph, [node], {axis: spans}, "tile-conv")

    return replace_all(graph, replaced(graph, given.nodes, _CONVOLUTIONS, replace))


def _cut(extent: int, given: TileConvParameters | TileMatmulParameters) -> tuple[AxisSpan, ...]:
    return cuts(extent, parts=given.parts, size=given.size, sizes=given.sizes)


def _axis(graph: Graph, node: Node, text: str) -> int:
    rank = len(graph.types[node.outputs[0]].shape)
    if text == "out":
        return 1
    if not text.isdecimal() or int(text) >= rank:
        raise UserError(
            f"tile: axis must be in, out or a number from 0 to {rank - 1}",
            got=text,
            where=f"node {node.name}",
        )
    return int(text)


# --- matrix products --------------------------------------------------------------------------


@dataclass(frozen=True)
class TileMatmulParameters:
    """Of ``tile-matmul``."""

    axis: str = parameter(
        "what is cut: `rows` or `columns` of the product, `inner` for what is summed over, or "
        "an axis of the product by its number",
        "rows",
    )
    parts: int | None = parameter(_PARTS, None)
    size: int | None = parameter(_SIZE, None)
    sizes: tuple[int, ...] = parameter(_SIZES, ())
    nodes: tuple[str, ...] = parameter(_NODES, ())


def _tile_matmul(graph: Graph, given: TileMatmulParameters) -> Graph:
    def replace(node: Node) -> Replacement:
        if given.axis == "inner":
            spans = _cut(inner_extent(graph, node), given)
            return tile_inner(graph, node, spans, "tile-matmul")
        rank = len(graph.types[node.outputs[0]].shape)
        named = {"rows": rank - 2, "columns": rank - 1}
        if given.axis not in named and not given.axis.isdecimal():
            raise UserError(
                "tile: axis must be rows, columns, inner or a number",
                got=given.axis,
                where=f"node {node.name}",
            )
        axis = named[given.axis] if given.axis in named else int(given.axis)
        if not 0 <= axis < rank:
            raise UserError(
                f"tile: the product has no {given.axis}",
                got=str(graph.types[node.outputs[0]]),
                where=f"node {node.name}",
            )
        spans = _cut(extent_of(graph.types[node.outputs[0]], axis), given)
        return tile(graph, [node], {axis: spans}, "tile-matmul")

    return replace_all(graph, replaced(graph, given.nodes, ("Gemm", "MatMul"), replace))


# --- chains -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TileChainParameters:
    """Of ``tile-chain``."""

    first: str = parameter("name of the first node")
    last: str = parameter("name of the last node")
    axes: tuple[int, ...] = parameter("axes of what the last node makes that are cut", (2,))
    parts: tuple[int, ...] = parameter("how many parts along each axis", ())
    size: tuple[int, ...] = parameter("size of the parts along each axis", ())
    sizes: tuple[int, ...] = parameter("the size of each part, where one axis is cut", ())


def _tile_chain(graph: Graph, given: TileChainParameters) -> Graph:
    nodes = between(graph, node_named(graph, given.first), node_named(graph, given.last))
    spans = _chain_spans(graph, nodes[-1], given)
    return replace_all(graph, [tile(graph, nodes, spans, "tile-chain")])


def _chain_spans(
    graph: Graph, last: Node, given: TileChainParameters
) -> Mapping[int, Sequence[AxisSpan]]:
    axes = given.axes
    if not axes or len(set(axes)) < len(axes):
        raise UserError("tile: axes must be named once each", got=str(list(axes)))
    for key, values in (("parts", given.parts), ("size", given.size)):
        if values and len(values) != len(axes):
            raise UserError(
                f"tile: {key} must have one number for each axis", got=str(list(values))
            )
    if given.sizes and len(axes) > 1:
        raise UserError("tile: sizes can be given where one axis is cut", got=str(list(axes)))
    type = graph.types[last.outputs[0]]
    return {
        axis: cuts(
            extent_of(type, axis),
            parts=given.parts[place] if given.parts else None,
            size=given.size[place] if given.size else None,
            sizes=given.sizes,
        )
        for place, axis in enumerate(axes)
    }


def between(graph: Graph, first: Node, last: Node) -> tuple[Node, ...]:
    """The nodes on all ways from one node to another, in order.

    Raises:
        UserError: there is no way, or a value between them is read elsewhere.
    """
    reached: set[str] = {value for value in first.outputs if value}
    found = [first]
    for node in graph.nodes:
        if node.name != first.name and not reached.isdisjoint(node.inputs):
            found.append(node)
            reached.update(value for value in node.outputs if value)
    needed = set(last.inputs)
    kept: list[Node] = [last]
    for node in reversed(found):
        if node.name != last.name and not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    if first.name not in {node.name for node in kept} or last.name not in {
        node.name for node in found
    }:
        raise UserError(f"tile: node {last.name} must depend on node {first.name}")
    kept.reverse()
    _check_first_outputs(kept)
    _check_inner(graph, kept)
    return tuple(kept)


def _check_first_outputs(nodes: Sequence[Node]) -> None:
    for node in nodes:
        if not node.outputs[0]:
            raise UserError(
                "tile: the first output of every node within the chain must be made",
                got=", ".join(value or "none" for value in node.outputs),
                where=f"node {node.name}",
            )


def _check_inner(graph: Graph, nodes: Sequence[Node]) -> None:
    names = {node.name for node in nodes}
    for node in nodes[:-1]:
        if node.outputs[0] in graph.outputs:
            raise UserError(
                f"tile: value {node.outputs[0]} within the chain is a graph output",
                where=f"node {node.name}",
                fix="Cut before or after it.",
            )
        for user in graph.users[node.outputs[0]]:
            if user.name not in names:
                raise UserError(
                    f"tile: value {node.outputs[0]} within the chain is read by node {user.name}",
                    where=f"node {node.name}",
                    fix="Cut before or after it.",
                )


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        "tile-conv",
        "Convolutions are computed part by part: along any axis of the image with the rows that "
        "windows share read twice and padding only where it was, along output channels with the "
        "weights cut, along the batch; the parts are joined. Along input channels the parts are "
        "added, which rounds otherwise. Every other part has the same terms in the same order: "
        "equal bits wherever a kernel adds them up in one order whatever the size of the image "
        "is (`exact=True` and the references of integers do).",
        Exactness.REASSOCIATING,
        _tile_conv,
        TileConvParameters,
        promise=lambda given: (
            Exactness.REASSOCIATING if given.axis == "in" else Exactness.BIT_EXACT
        ),
    ),
    Recipe(
        "tile-matmul",
        "Matrix products (MatMul, Gemm) are computed part by part: rows, columns or an axis of "
        "the batch, which are joined, or parts of the inner axis, which are added and round "
        "otherwise.",
        Exactness.REASSOCIATING,
        _tile_matmul,
        TileMatmulParameters,
        promise=lambda given: (
            Exactness.REASSOCIATING if given.axis == "inner" else Exactness.BIT_EXACT
        ),
    ),
    Recipe(
        "tile-chain",
        "All that lies between two nodes is computed patch by patch, so that only patches of "
        "the values between them exist at a time: convolutions, pools, elementwise ops, joined "
        "branches, matrix products and normalization over other axes. What each patch needs is "
        "followed back through the layers; what two patches need is computed twice.",
        Exactness.BIT_EXACT,
        _tile_chain,
        TileChainParameters,
    ),
)
