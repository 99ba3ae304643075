"""The memory map: every buffer is drawn where and when it lies in the arena."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from weft.pictures.memory import ARENA, LEFT, RIGHT, TOP, WIDTH, memory_map
from weft.plan.report import LayerSpan, MemoryPlace, Row

SVG = "{http://www.w3.org/2000/svg}"
SPANS = [
    LayerSpan("a", "Conv", 0, 1, 0, 64, "a f32[16] <&>"),
    LayerSpan("b", "Relu", 1, 3, 64, 64),
    LayerSpan("s", "scratch", 2, 2, 0, 32),
    LayerSpan("none", "Relu", 0, 3, 0, 0),
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
    width, height = WIDTH - LEFT - RIGHT, ARENA
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


ROWS = [
    Row(
        step,
        "f",
        (op,),
        (op,),
        "map",
        "only",
        reads,
        (MemoryPlace("y", "f32[4]", "output", 0, 16),) if step == 3 else (),
        "",
        0,
        64,
    )
    for step, (op, reads) in enumerate(
        (
            (
                "Conv",
                (
                    MemoryPlace("image", "f32[8]", "input", 0, 32),
                    MemoryPlace("w", "", "weights", 0, 99),
                ),
            ),
            ("Relu", (MemoryPlace("part", "f32[4]", "input", 0, 16, "image"),)),
            ("Gemm", (MemoryPlace("w2", "", "weights", 0, 1000),)),
            ("Softmax", ()),
        )
    )
]


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_axes_have_titles_and_boxes_names():
    said = texts(memory_map("net", SPANS, 4, 128, 128, ROWS))
    assert {"address in the arena, bytes", "step"} <= set(said)
    steps = [each for each in said if each[:1].isdecimal() and each[1:2] == " "]
    assert steps == ["0 Conv", "1 Relu", "2 Gemm", "3 Softmax"]
    # A name and a size where there is room for both.
    assert said[said.index("b") :][:2] == ["b", "64 B"]


def test_inputs_outputs_and_weights_are_shown():
    picture = memory_map("net", SPANS, 4, 128, 128, ROWS)
    drawn = boxes(picture)
    titles = [each for each in drawn if each.startswith(("image", "y", "step"))]
    assert titles == [
        "image f32[8]",
        "y f32[4]",
        "step 0: 99 bytes of weights",
        "step 2: 1,000 bytes of weights",
    ]
    step = (WIDTH - LEFT - RIGHT) / 4
    image = [float(drawn["image f32[8]"].attrib[name]) for name in ("x", "width")]
    assert image == [LEFT, 2 * step]
    low, high = (float(drawn[each].attrib["height"]) for each in titles[2:])
    assert high > 9 * low
    assert "weights that a step reads, 1,099 B in all" in texts(picture)


def test_a_name_is_cut_to_its_box():
    name = "a_very_long_name_of_a_value_that_does_not_fit"
    spans = [LayerSpan(name, "Conv", step, step, 64 * step, 64) for step in range(14)]
    said = texts(memory_map("net", spans, 14, 14 * 64, 14 * 64))
    assert name not in said
    assert sum("…" in each and each.endswith("_fit") for each in said) == 14
