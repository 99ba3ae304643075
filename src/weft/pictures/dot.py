"""A graph as text for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.pictures.canvas import clean
from weft.pictures.families import FILLS
from weft.pictures.marks import Mark
from weft.pictures.scene import Box, Scene, type_text

_LEFT = "\\l"


def _string(text: str) -> str:
    r"""Text in quotes: DOT's own escapes, such as ``\\N``, must not act."""
    escaped = clean(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _box(place: int, box: Box, colours: Sequence[str]) -> str:
    label = _string("\n".join((box.heading, *box.lines)))
    if box.rows:
        # What ends in \l stands at the left.
        rows = ("  " * row.depth + row.text for row in box.rows)
        label = f'{label[:-1]}\\n{"".join(_string(row)[1:-1] + _LEFT for row in rows)}"'
    style = "rounded,filled,dashed" if box.is_port else "rounded,filled"
    frame = f', color="{":".join(colours)}", penwidth=3' if colours else ""
    return (
        f'b{place} [label={label}, style="{style}", fillcolor="{FILLS[box.kind]}", '
        f"tooltip={_string(box.name)}{frame}]"
    )


def _lines(what: Scene, heading: str, marks: Sequence[Mark]) -> Iterator[str]:
    colours: dict[int, list[str]] = {}
    for mark in marks:
        for name in mark.nodes:
            colours.setdefault(what.place_of[name], []).append(mark.colour)
    yield f"digraph {_string(heading)} {{"
    yield '  node [shape=box, fontname="sans-serif", fontsize=11, margin="0.1,0.04"]'
    yield '  edge [fontname="sans-serif", fontsize=9, color="#888888"]'
    for place, box in enumerate(what.boxes):
        # A frame has one colour in Graphviz: the first mark's.
        yield f"  {_box(place, box, colours.get(place, [])[:1])}"
    for value, wire in zip(what.values, what.wires, strict=True):
        label = _string(type_text(what.types[value]))
        for target in wire.targets:
            yield f"  b{wire.source} -> b{target} [label={label}, tooltip={_string(value)}]"
    if marks:
        yield "  subgraph cluster_legend {"
        yield '    label="marked"'
        for place, mark in enumerate(marks):
            yield (
                f'    m{place} [label={_string(mark.caption)}, color="{mark.colour}", penwidth=3]'
            )
        yield "  }"
    yield "}"


def dot(what: Scene, heading: str, marks: Sequence[Mark] = ()) -> str:
    """The text.

    Args:
        what: boxes and wires.
        heading: name of the graph.
        marks: nodes to frame.
    """
    return "\n".join(_lines(what, heading, marks)) + "\n"
