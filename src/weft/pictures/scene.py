"""What there is to draw of a graph: boxes with their texts, wires with theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from math import ceil
from typing import Any, cast

from weft.cached import cached_property
from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.ir.short_names import names_of
from weft.ir.types import TensorType
from weft.pictures.canvas import cut
from weft.pictures.columns import columns
from weft.pictures.crossings import uncross
from weft.pictures.families import INPUT, OUTPUT, kind_of
from weft.pictures.rows import Layers, Wire, layers
from weft.records import dataclass
from weft.screen import elided

_LETTER = 6.1
_PADDING = 18.0
_NARROWEST, _WIDEST = 76.0, 236.0
MOST_LETTERS = int((_WIDEST - _PADDING) / _LETTER)
LINE = 14.0
ROW, STEP, ROW_LETTER = 12.0, 8.0, 5.0
"""Of a row below a box's lines, in pixels: its height, how far it is set in, a letter."""
_AROUND = 10.0
_BETWEEN = 40.0


@dataclass(frozen=True, slots=True)
class BoxRow:
    """A row of text below the lines of a box, set in from the left.

    Attributes:
        text: the text.
        depth: how often it is set in.
        role: what it is coloured by (``families.ROLES``); empty for none.
        span: rows that its colour covers, itself and those that are within it.
    """

    text: str
    depth: int
    role: str = ""
    span: int = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What a page tells of a box that is no node.

    Attributes:
        record: by heading; reads, writes: values; sources: names of nodes that it stands for.
        told: in a tooltip.
    """

    record: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sources: tuple[str, ...]
    told: str


@dataclass(frozen=True, slots=True)
class Box:
    """A node, a step of a plan, an input or an output of the graph.

    Attributes:
        name: of the node or of the value.
        kind: what it is coloured by.
        heading: in bold: the op.
        lines: smaller, below: the name, attributes, weights.
        node: the node, if it is one.
        rows: below the lines: alternatives and loops.
        facts: of a step.
    """

    name: str
    kind: str
    heading: str
    lines: tuple[str, ...]
    node: Node | None = None
    rows: tuple[BoxRow, ...] = ()
    facts: Facts | None = None

    @property
    def is_port(self) -> bool:
        """Whether it is an input or an output of the graph."""
        return self.node is None and self.facts is None

    @property
    def width(self) -> float:
        """In pixels, estimated: whoever shows it has fonts of their own."""
        letters = max(len(self.heading) * 1.1, *(len(line) for line in self.lines))
        width = min(_WIDEST, max(_NARROWEST, ceil(letters * _LETTER + _PADDING)))
        rows = (STEP * row.depth + ROW_LETTER * len(row.text) + _PADDING for row in self.rows)
        return max(width, ceil(max(rows, default=0.0)))

    @property
    def row_top(self) -> float:
        """Where the rows begin, in pixels from the top."""
        return LINE * (1 + len(self.lines)) + _AROUND

    @property
    def height(self) -> float:
        """In pixels."""
        return self.row_top + (ROW * len(self.rows) + _AROUND / 2 if self.rows else 0.0)


@dataclass(frozen=True)
class Scene:
    """A graph, or the plan of one, as boxes and wires.

    Attributes:
        graph: the graph.
        boxes: inputs, nodes or steps in their order, outputs.
        values: the value of each wire.
        wires: between boxes.
        types: of all values.
        names: what nodes and values are called in front of people.
        figures: what boxes can be coloured by on a page, by name: numbers by box.
    """

    graph: Graph
    boxes: tuple[Box, ...]
    values: tuple[str, ...]
    wires: tuple[Wire, ...]
    types: Mapping[str, TensorType]
    names: Mapping[str, str]
    figures: Mapping[str, Mapping[str, float]]

    @cached_property
    def place_of(self) -> Mapping[str, int]:
        """The box of each node."""
        return {box.node.name: place for place, box in enumerate(self.boxes) if box.node}


@dataclass(frozen=True)
class Placed:
    """A scene with positions.

    Attributes:
        scene: what is placed.
        layers: rows and bends.
        x: the middles of all vertices.
        tops: the upper edges of all rows.
        heights: of all rows.
    """

    scene: Scene
    layers: Layers
    x: tuple[float, ...]
    tops: tuple[float, ...]
    heights: tuple[float, ...]

    @property
    def width(self) -> float:
        """Of the whole drawing."""
        boxes = self.scene.boxes
        rights = [x + box.width / 2 for x, box in zip(self.x, boxes, strict=False)]
        return max([*rights, *self.x[len(boxes) :]], default=0.0)

    @property
    def height(self) -> float:
        """Of the whole drawing."""
        return self.tops[-1] + self.heights[-1] if self.tops else 0.0


def type_text(type: TensorType) -> str:
    """A type as edges show it: ``64×56×56``, with the element type unless it is f32."""
    sizes = "×".join(str(dim) for dim in type.shape) or "scalar"
    return sizes if type.dtype is DType.F32 else f"{type.dtype.value} {sizes}"


def attribute_text(value: Any) -> str:
    """An attribute's value for people."""
    match value:
        case None:
            return "none"
        case Graph():
            return f"{len(value.nodes)} nodes"
        case DType():
            return str(value.value)
        case Enum():
            return value.name.lower()
        case tuple():
            texts = [attribute_text(each) for each in cast(tuple[Any, ...], value)]
            return f"({', '.join(texts)})"
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def attributes_of(node: Node) -> Iterator[tuple[str, Any, bool]]:
    """Name and value of every attribute, and whether it is the default."""
    record = node.attributes
    if not is_dataclass(record):
        return
    for each in fields(record):
        value = getattr(record, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        yield each.name, value, repr(value) == repr(default)


_UNSAID = ("", "0", "1")
"""Sizes that are the same in all dimensions and so ordinary that a box does not name them."""


def _short(value: Any) -> str:
    """An attribute's value in a box: equal sizes once, others as ``3×1``."""
    if not isinstance(value, tuple):
        return attribute_text(value)
    texts = [attribute_text(each) for each in cast(tuple[Any, ...], value)]
    if len(set(texts)) <= 1:
        return "".join(texts[:1])
    return "×".join(texts)


def _attributes_line(node: Node) -> str:
    shown = [
        f"{name} {_short(value)}"
        for name, value, default in attributes_of(node)
        if not default and not (isinstance(value, tuple) and _short(value) in _UNSAID)
    ]
    return cut(", ".join(shown), MOST_LETTERS)


def _constants_line(node: Node, graph: Graph) -> str:
    """The constants that a node reads, by shape; small ones by value."""
    found: list[str] = []
    for value in node.inputs:
        array = graph.constants.get(value) if value else None
        if array is None:
            continue
        if array.size == 1:
            found.append(f"{array.reshape(-1)[0]:.5g}")
        else:
            found.append(type_text(graph.types[value]))
    return cut("  ".join(found), MOST_LETTERS)


def _node_box(node: Node, graph: Graph, names: Mapping[str, str]) -> Box:
    lines = (
        elided(names[node.name], MOST_LETTERS),
        _attributes_line(node),
        _constants_line(node, graph),
    )
    heading = cut(node.op, MOST_LETTERS)
    return Box(
        node.name, kind_of(node, graph.types), heading, tuple(each for each in lines if each), node
    )


def port_box(
    value: str, kind: str, types: Mapping[str, TensorType], names: Mapping[str, str]
) -> Box:
    """The box of an input or an output."""
    text = type_text(types[value])
    return Box(value, kind, kind, (elided(names[value], MOST_LETTERS), text))


def scene(graph: Graph) -> Scene:
    """The boxes and wires of a graph; constants are lines in the boxes that read them."""
    names = names_of(graph)
    boxes = [
        *(port_box(value, INPUT, graph.types, names) for value in graph.inputs),
        *(_node_box(node, graph, names) for node in graph.nodes),
        *(port_box(value, OUTPUT, graph.types, names) for value in graph.outputs),
    ]
    reads = [node.inputs for node in graph.nodes]
    writes = [node.outputs for node in graph.nodes]
    values, wires = joined(graph, reads, writes)
    return Scene(graph, tuple(boxes), values, wires, graph.types, names, {})


def joined(
    graph: Graph,
    reads: Sequence[Sequence[str]],
    writes: Sequence[Sequence[str]],
    ends: Mapping[str, Sequence[str]] | None = None,
) -> tuple[tuple[str, ...], tuple[Wire, ...]]:
    """The values that have wires, and these.

    Args:
        graph: whose inputs are the first boxes, and whose outputs the last.
        reads: values that the boxes between read.
        writes: that they make.
        ends: by output, what is made of it, where that is not itself.
    """
    sources = {value: place for place, value in enumerate(graph.inputs)}
    targets: dict[str, dict[int, None]] = {}
    first = len(graph.inputs)
    last = ((ends or {}).get(value, (value,)) for value in graph.outputs)
    for place, values in enumerate([*reads, *last], first):
        for value in values:
            targets.setdefault(value, {})[place] = None
    for place, values in enumerate(writes, first):
        sources.update({value: place for value in values if value})
    wired = tuple(value for value in sources if value in targets)
    return wired, tuple(Wire(sources[value], tuple(targets[value])) for value in wired)


def placed(what: Scene) -> Placed:
    """Positions for a scene, the same ones for the same scene."""
    made = layers(len(what.boxes), what.wires)
    uncross(made)
    middles = columns(made, [box.width for box in what.boxes])
    heights = [
        max((what.boxes[vertex].height for vertex in row if vertex < made.boxes), default=0.0)
        for row in made.rows
    ]
    tops: list[float] = []
    top = 0.0
    for height in heights:
        tops.append(top)
        top += height + _BETWEEN
    return Placed(what, made, tuple(middles), tuple(tops), tuple(heights))
