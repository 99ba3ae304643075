"""Labels find room: none covers another, and each stays in the picture."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from weft.pictures.labels import Label, Rectangle, around, drawn

BOUNDS = Rectangle(0, 0, 400, 300)


def rectangles(lines: list[str], size: float = 10.0) -> list[Rectangle]:
    found = []
    for line in lines:
        match = re.fullmatch(r'<text x="(.*?)" y="(.*?)".*?>(.*)</text>', line)
        if match:
            left, bottom = float(match[1]), float(match[2]) + 2
            width = 0.58 * size * len(match[3])
            found.append(Rectangle(left, bottom - 1.1 * size, left + width, bottom))
    return found


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 300)), max_size=40))
def test_no_label_covers_another_or_a_dot(points):
    dots = [around(x, y, 4) for x, y in points]
    labels = [Label(f"point {n}", ((x, y),), 4) for n, (x, y) in enumerate(points)]
    found = rectangles(list(drawn(labels, dots, BOUNDS)))
    room = Rectangle(-0.1, -0.1, 400.1, 300.1)
    for place, one in enumerate(found):
        inner = Rectangle(one.left + 0.2, one.top + 0.2, one.right - 0.2, one.bottom - 0.2)
        assert room.holds(one)
        assert not any(inner.meets(dot) for dot in dots)
        assert not any(inner.meets(other) for other in found[:place])


def test_a_needed_label_is_drawn_over_dots():
    everywhere = [Rectangle(0, 0, 400, 300)]
    point = ((50.0, 50.0),)
    assert list(drawn([Label("x", point)], everywhere, BOUNDS)) == []
    (line,) = drawn([Label("x <1>", point, needed=True)], everywhere, BOUNDS)
    assert line.endswith(">x &lt;1&gt;</text>")


def test_a_label_far_from_its_point_has_a_line_to_it():
    crowd = [around(100, 100, 22)]
    lines = list(drawn([Label("far", ((100.0, 100.0),), 4)], crowd, BOUNDS))
    assert lines[0].startswith('<path d="M100.0 100.0L')
    assert len(lines) == 2
