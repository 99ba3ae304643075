"""The roofline plot: dots at their places, below their roofs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from weft.pictures.roofline import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Dot, Roof, roofline

SVG = "{http://www.w3.org/2000/svg}"
DOTS = [
    Dot("fast <&>", "tiled", 10.0, 100.0, 0.75, "made of this"),
    Dot("slow", "nest", 0.1, 1.0, 0.25),
]
ROOFS = [Roof("L1", 100.0), Roof("DRAM", 10.0)]


def drawn(dots=DOTS, roofs=ROOFS) -> ElementTree.Element:
    return ElementTree.fromstring(roofline("net <&>", "a caption", dots, 100.0, roofs))


def titles(picture: ElementTree.Element, tag: str) -> dict[str, ElementTree.Element]:
    found = {}
    for each in picture.iter(f"{SVG}{tag}"):
        title = each.find(f"{SVG}title")
        if title is not None and title.text:
            found[title.text.split(":")[0]] = each
    return found


def test_every_dot_is_where_it_belongs():
    dots = titles(drawn(), "circle")
    assert set(dots) == {"fast <&>", "slow"}
    # Axes go from 0.1 to 10 and from 1 to 100.
    fast, slow = dots["fast <&>"].attrib, dots["slow"].attrib
    assert (float(fast["cx"]), float(fast["cy"])) == (WIDTH - RIGHT, TOP)
    assert (float(slow["cx"]), float(slow["cy"])) == (LEFT, HEIGHT - BOTTOM)
    assert fast["fill"] != slow["fill"]


def test_areas_are_shares_of_the_time():
    dots = titles(drawn(), "circle")
    ratio = float(dots["fast <&>"].attrib["r"]) / float(dots["slow"].attrib["r"])
    assert ratio == pytest.approx(3**0.5, rel=1e-3)


def test_roofs_meet_at_the_peak():
    paths = titles(drawn(), "path")
    assert set(paths) == {"L1", "DRAM", "100.0 GFLOP/s"}
    for name, ridge in (("L1", 1.0), ("DRAM", 10.0)):
        end = paths[name].attrib["d"].partition("L")[2]
        x, y = map(float, end.split())
        # The ridge is where intensity times bandwidth is the peak.
        across = {1.0: 0.5, 10.0: 1.0}[ridge]
        assert x == pytest.approx(LEFT + across * (WIDTH - LEFT - RIGHT), abs=0.01)
        assert y == TOP


def test_without_dots_or_roofs_there_is_still_a_picture():
    assert titles(drawn([], []), "circle") == {}


def test_labels_do_not_collide():
    roofs = [Roof(f"L{n}", 100.0 + n) for n in range(4)]
    dots = [Dot(f"{n} Conv", "tiled", 10.0 + n / 100, 90.0, 0.1) for n in range(10)]
    places = []
    for each in drawn(dots, roofs).iter(f"{SVG}text"):
        if "paint-order" in each.attrib:
            x, y, size = (float(each.attrib[name]) for name in ("x", "y", "font-size"))
            places.append((x, y - size, x + 0.58 * size * len(each.text), y))
    assert len(places) >= len(roofs) + 1
    for place, one in enumerate(places):
        for other in places[:place]:
            apart = one[0] >= other[2] - 0.1 or other[0] >= one[2] - 0.1
            assert apart or one[1] >= other[3] - 0.1 or other[1] >= one[3] - 0.1


def test_a_legend_that_is_too_long_has_several_lines():
    dots = [Dot(f"{n}", f"a long name of a scheme {n}", 1.0, 1.0, 0.01) for n in range(14)]
    picture = drawn(dots)
    keys = [each for each in picture.iter(f"{SVG}text") if "scheme" in (each.text or "")]
    assert max(float(each.attrib["x"]) for each in keys) < WIDTH - RIGHT - 100
    assert len({each.attrib["y"] for each in keys}) > 1
    assert float(picture.attrib["viewBox"].split()[3]) > HEIGHT
