"""Compute a value part by part, through one node or several.

For each part of the last value, what is needed of every value before it is followed back
through the nodes; the nodes are then repeated on these parts, which may overlap, and the parts
joined.  What windows need beyond the border of a value is padded, as it was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import product

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.substitute import Replacement
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of
from weft.ops.region_inference import AxisSpan, Box, Part, extent_of, hull, part_of
from weft.ops.slicing import ConcatAttributes, SliceAttributes
from weft.records import dataclass
from weft.rewrite.places import instead


def tile(
    graph: Graph, nodes: Sequence[Node], spans: Mapping[int, Sequence[AxisSpan]], rule: str
) -> Replacement:
    """Nodes computed part by part.

    Args:
        graph: the graph.
        nodes: in order; the last makes the value that is cut, the others make values that
            nothing else reads.
        spans: what each axis of that value is cut into.
        rule: what the new nodes are said to be made by.

    Raises:
        UserError: a node cannot be cut so; says which and why.
    """
    return instead(graph, nodes, rule, lambda builder: _Tiling(graph, nodes, builder).run(spans))


@dataclass
class _Tiling:
    graph: Graph
    nodes: Sequence[Node]
    builder: GraphBuilder
    pieces: dict[tuple[str, tuple[tuple[int, AxisSpan], ...]], str] = field(
        default_factory=dict[tuple[str, tuple[tuple[int, AxisSpan], ...]], str]
    )

    def run(self, spans: Mapping[int, Sequence[AxisSpan]]) -> Sequence[str]:
        """Nodes for all parts; the name of the whole."""
        for node in self.nodes:
            if any(node.outputs[1:]):
                raise UserError(
                    f"tile: {node.op} cannot be cut: it has several outputs",
                    where=f"node {node.name}",
                )
        axes = list(spans)
        parts = [
            self.part(dict(zip(axes, places, strict=True)), number)
            for number, places in enumerate(product(*(spans[axis] for axis in axes)))
        ]
        for axis in reversed(axes):
            parts = self.joined(parts, axis, len(spans[axis]))
        return [parts[0], *[""] * (len(self.nodes[-1].outputs) - 1)]

    def joined(self, parts: Sequence[str], axis: int, count: int) -> list[str]:
        """Each ``count`` parts in a row as one value."""
        wish = self.nodes[-1].outputs[0]
        return [
            self.builder.op(
                "Concat",
                *parts[start : start + count],
                attributes=ConcatAttributes(axis),
                output=f"{wish}_joined",
                name=f"{self.nodes[-1].name}_joined",
            )
            for start in range(0, len(parts), count)
        ]

    # --- what is needed -------------------------------------------------------------------------

    def part(self, box: Box, number: int) -> str:
        """Nodes for one part of the last value."""
        wanted: dict[str, Box] = {self.nodes[-1].outputs[0]: box}
        found: dict[str, Part] = {}
        made = {node.outputs[0] for node in self.nodes}
        for node in reversed(self.nodes):
            part = found[node.name] = part_of(
                call_of(node, self.graph.types), wanted[node.outputs[0]]
            )
            for position, value in enumerate(node.inputs):
                if value in made:
                    if not part.needs.get(position):
                        raise self.whole(value)
                    own = self.inside(value, part.needs[position])
                    wanted[value] = hull(wanted[value], own) if value in wanted else own
        names: dict[str, str] = {}
        for node in self.nodes:
            names[node.outputs[0]] = self.copy(node, wanted, found[node.name], names, number)
        return names[self.nodes[-1].outputs[0]]

    def whole(self, value: str) -> UserError:
        """That each part would need all of a value that the nodes make."""
        return UserError(
            f"tile: every part would recompute all of {value}",
            where=f"node {self.graph.producers[value].name}",
            fix="Start after it, or tile along another axis.",
        )

    def inside(self, value: str, box: Box) -> Box:
        """What of a box lies in a value; axes that are needed whole are left out."""
        type = self.graph.types[value]
        clipped = {axis: span.within(extent_of(type, axis)) for axis, span in box.items()}
        for axis, span in clipped.items():
            if span.length < 1:
                raise UserError(
                    f"tile: a part would read nothing but padding of {value} along axis {axis}",
                    fix="Cut into fewer parts.",
                )
        return {axis: span for axis, span in clipped.items() if span.length != type.shape[axis]}

    # --- nodes ------------------------------------------------------------------------------------

    def copy(
        self,
        node: Node,
        wanted: Mapping[str, Box],
        part: Part,
        names: Mapping[str, str],
        number: int,
    ) -> str:
        """The node for what is wanted of its output."""
        inputs: list[str] = []
        for position, value in enumerate(node.inputs):
            inputs.append(self.input(value, part.needs.get(position, {}), wanted, names))
        return self.builder.nodes_of(
            node.op,
            inputs,
            part.attributes,
            outputs=[f"{node.outputs[0]}_{number}"],
            name=f"{node.name}_{number}",
        )[0]

    def input(
        self, value: str, needed: Box, wanted: Mapping[str, Box], names: Mapping[str, str]
    ) -> str:
        """What a node reads: a piece of a value, or of the part of it that was made."""
        if not value:
            return ""
        box = self.inside(value, needed)
        if value not in names:
            return self.piece(value, box)
        return self.piece(names[value], _relative(box, wanted[value], self.graph, value))

    def piece(self, value: str, box: Box) -> str:
        """A part of a value: constants are cut now, and nothing is cut twice."""
        if not box:
            return value
        key = (value, tuple(sorted(box.items())))
        if key not in self.pieces:
            self.pieces[key] = self.cut(value, box)
        return self.pieces[key]

    def cut(self, value: str, box: Box) -> str:
        axes = tuple(sorted(box))
        array = self.builder.constants.get(value)
        if array is not None:
            where = [slice(None)] * array.ndim
            for axis in axes:
                where[axis] = slice(box[axis].start, box[axis].stop)
            return self.builder.constant(np.array(array[tuple(where)], order="C"), value)
        starts = tuple(box[axis].start for axis in axes)
        stops = tuple(box[axis].stop for axis in axes)
        attributes = SliceAttributes(starts, stops, axes, (1,) * len(axes))
        return self.builder.op(
            "Slice", value, attributes=attributes, output=f"{value}_cut", name=f"{value}_cut"
        )


def _relative(box: Box, own: Box, graph: Graph, value: str) -> Box:
    """A box of a value as places in a part of it."""
    found: dict[int, AxisSpan] = {}
    for axis in own.keys() | box.keys():
        extent = extent_of(graph.types[value], axis)
        there = own.get(axis, AxisSpan(0, extent))
        here = box.get(axis, AxisSpan(0, extent))
        if here != there:
            found[axis] = AxisSpan(here.start - there.start, here.stop - there.start)
    return found
