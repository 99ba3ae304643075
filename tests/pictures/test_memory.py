"""The memory map: every buffer is drawn where and when it lies in the arena."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from weft.pictures.memory import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, memory_map
from weft.plan.report import Span

SVG = "{http://www.w3.org/2000/svg}"
SPANS = [
    Span("a", "Conv", 0, 1, 0, 64, "a f32[16] <&>"),
    Span("b", "Relu", 1, 3, 64, 64),
    Span("s", "scratch", 2, 2, 0, 32),
    Span("none", "Relu", 0, 3, 0, 0),
]


def boxes(picture: str) -> dict[str, ElementTree.Element]:
    found = {}
    for box in ElementTree.fromstring(picture).iter(f"{SVG}rect"):
        title = box.find(f"{SVG}title")
        if title is not None and title.text:
            found[title.text.split("\n")[0]] = box
    return found


def test_every_buffer_is_a_box_at_its_place():
    drawn = boxes(memory_map("net", SPANS, steps=4, arena_bytes=128, lower_bound=128))
    assert set(drawn) == {"a f32[16] <&>", "b", "s"}
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    box = drawn["b"]
    place = [float(box.attrib[name]) for name in ("x", "y", "width", "height")]
    assert place == [LEFT + width / 4, TOP, width * 3 / 4, height / 2]


def test_kinds_have_colours_of_their_own():
    drawn = boxes(memory_map("net", SPANS, steps=4, arena_bytes=128, lower_bound=128))
    assert len({box.attrib["fill"] for box in drawn.values()}) == 3


def test_tooltips_and_the_bound():
    picture = memory_map("a & b", SPANS, steps=4, arena_bytes=160, lower_bound=128)
    titles = [each.text for each in ElementTree.fromstring(picture).iter(f"{SVG}title")]
    assert "a f32[16] <&>\nConv, 64 bytes at 0\nstep 0 to 1" in titles
    assert "s\nscratch, 32 bytes at 0\nstep 2" in titles
    assert "lower bound: 128 bytes" in titles


def test_nothing_to_draw():
    assert boxes(memory_map("empty", [], steps=0, arena_bytes=0, lower_bound=0)) == {}
