"""Pictures of graphs hold every node and value, and nothing that a model's names smuggle in."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from weft.api import load
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import FAMILIES, OPS
from weft.pictures import draw
from weft.pictures import rows as rows_module
from weft.pictures.families import FILLS, KINDS, OTHER, kind_of

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '</text></svg><script>alert("x")</script>\x1b[31m&\u202e'


def block(name: str = "block", prefix: str = "") -> Graph:
    """Two nodes and a sum with what came in."""
    builder = GraphBuilder(OPS, name)
    x = builder.input(f"{prefix}x", TensorType(DType.F32, (1, 8, 6, 6)))
    half = builder.constant(np.array(0.5, np.float32), f"{prefix}half")
    scaled = builder.op("Mul", x, half, name=f"{prefix}scale", output=f"{prefix}scaled")
    made = builder.op("Relu", scaled, name=f"{prefix}act", output=f"{prefix}made")
    total = builder.op("Add", made, x, name=f"{prefix}sum", output=f"{prefix}total")
    return builder.graph([total])


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in parsed(picture).iter(f"{SVG}text")]


def test_every_family_has_a_colour_once():
    assert sorted(each for families in KINDS.values() for each in families) == sorted(FAMILIES)
    kinds = {kind_of(Node("n", op, (), ("y",)), {}) for op in OPS}
    assert kinds | {"input", "output"} == set(FILLS)
    assert kind_of(Node("n", "Conv", (), ("y",)), {}) == "convolution"
    assert kind_of(Node("n", "NoSuchOp", (), ("y",)), {}) == OTHER


def test_every_node_and_value_is_there():
    found = texts(draw(block()))
    assert found[0] == "block"
    for text in ("Mul", "scale", "0.5", "Relu", "act", "Add", "sum", "input", "x", "output"):
        assert text in found
    # The types of x, scaled, made and total where they begin, and in the ports' boxes.
    assert found.count("1×8×6×6") == 6


def test_tooltips_are_the_lines_of_the_printed_graph():
    titles = [each.text for each in parsed(draw(block())).iter(f"{SVG}title")]
    assert "%made: f32[1,8,6,6] = Relu(%scaled)  # act" in titles
    assert "made: f32[1,8,6,6]" in titles


def test_the_kinds_are_the_legend():
    found = texts(draw(block()))
    assert found[1:5] == ["activation", "arithmetic", "input", "output"]


def test_marks_are_frames_with_a_legend():
    picture = draw(block(), highlight={"first": ["act", "scale"], "second": ["act"]})
    frames = [
        (each.findtext(f"{SVG}title"), each.attrib["stroke"], float(each.attrib["width"]))
        for each in parsed(picture).iter(f"{SVG}rect")
        if each.attrib.get("stroke-width") == "3" and each.find(f"{SVG}title") is not None
    ]
    assert [name for name, _, _ in frames] == ["first", "first", "second"]
    colours = {name: colour for name, colour, _ in frames}
    assert len(set(colours.values())) == 2
    assert frames[2][2] == frames[1][2] + 8  # around the first mark of the same node
    assert {"first", "second"} <= set(texts(picture))


def test_a_legend_of_very_many_marks_is_cut():
    highlight = {f"match {place}": ["act"] for place in range(45)}
    found = texts(draw(block(), highlight=highlight))
    assert "match 39" in found
    assert "match 40" not in found
    assert "and 5 more" in found


def test_only_nodes_of_the_graph_can_be_marked():
    with pytest.raises(UserError) as error:
        draw(block(), highlight={"these": ["scle"]})
    assert str(error.value) == (
        "what is highlighted must be nodes of the graph; got scle. Did you mean scale?"
    )


def test_there_are_formats():
    with pytest.raises(UserError) as error:
        draw(block(), format="png")  # pyright: ignore[reportArgumentType]
    assert str(error.value) == "a picture must be one of svg, dot, html; got png"


def test_names_are_only_text():
    graph = block(EVIL, EVIL)
    picture = draw(graph, highlight={EVIL: [graph.nodes[0].name]}, title=EVIL)
    root = parsed(picture)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == set(
        "svg rect text g path title".split()
    )
    assert "\x1b" not in picture
    assert "\u202e" not in picture


def test_long_names_and_attributes_stay_in_their_boxes():
    graph = block("long", "scope/" * 400)
    for text in texts(draw(graph)):
        assert len(text) <= 100
    assert len(draw(graph)) < 20_000


def test_wires_too_long_to_draw_are_named_at_both_ends(monkeypatch):
    builder = GraphBuilder(OPS, "chain")
    x = value = builder.input("x", TensorType(DType.F32, (4,)))
    for each in range(5):
        value = builder.op("Relu", value, name=f"r{each}")
    graph = builder.graph([builder.op("Add", value, x, name="last")])
    through = draw(graph)
    monkeypatch.setattr(rows_module, "MOST_BENDS", 2)
    named = draw(graph)
    assert texts(through).count("x") == 1
    # The box of the input, and where the sum and the first node of the chain read it.
    assert texts(named).count("x") == 3


def test_dot_has_boxes_and_labelled_edges():
    text = draw(block(), format="dot")
    assert text.startswith('digraph "block" {\n')
    assert 'b1 [label="Mul\\nscale\\n0.5", style="rounded,filled", fillcolor="#80cfb9"' in text
    assert 'b0 -> b3 [label="1×8×6×6", tooltip="x"]' in text
    assert text.count(" -> ") == 5
    assert text.rstrip().endswith("}")


def test_dot_marks_nodes():
    text = draw(block(), format="dot", highlight={'odd "one" \\N': ["act"]})
    (line,) = [each for each in text.splitlines() if each.startswith("  b2 [")]
    assert line.endswith('color="#d55e00", penwidth=3]')
    assert 'm0 [label="odd \\"one\\" \\\\N", color="#d55e00", penwidth=3]' in text


def test_dot_strings_do_not_end_early():
    graph = block(EVIL, '"] evil [\\')
    for line in draw(graph, format="dot").splitlines():
        # Without escaped characters, quotes come in pairs, and nothing evil is outside them.
        outside = re.sub(r'"[^"]*"', "", re.sub(r"\\.", "", line))
        assert '"' not in outside
        assert "evil" not in outside


def test_a_graph_without_nodes():
    builder = GraphBuilder(OPS, "wire")
    x = builder.input("x", TensorType(DType.I8, ()))
    graph = builder.graph([x])
    assert texts(draw(graph))[-1] == "i8 scalar"


def test_pictures_are_the_same_each_time():
    assert draw(block()) == draw(block())


def test_nets_draw_themselves(digits):
    net = load(digits)
    assert net.draw(title="digits") == draw(net.graph, title="digits")
    assert net._repr_svg_() == draw(net.graph)
