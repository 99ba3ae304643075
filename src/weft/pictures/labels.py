"""Labels beside points: where each finds room, so that none covers another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.pictures.canvas import path, text
from weft.records import dataclass

_LETTER = 0.58
"""Width of a letter, in sizes of the font."""
_DISTANCES = (3.0, 12.0, 24.0)
# Right and above first: text reads on from its point.
_SIDES = ((1, -1), (1, 1), (-1, -1), (-1, 1), (1, 0), (-1, 0), (0, -1), (0, 1))
_FAR = 14.0


class Rectangle(NamedTuple):
    """A part of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Rectangle) -> bool:
        """Whether they overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def holds(self, other: Rectangle) -> bool:
        """Whether the other one lies within."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.top <= other.top and other.bottom <= self.bottom


def around(x: float, y: float, radius: float) -> Rectangle:
    """What a dot takes up."""
    return Rectangle(x - radius, y - radius, x + radius, y + radius)


@dataclass(frozen=True, slots=True)
class Label:
    """Text beside a point.

    Attributes:
        text: the text.
        points: where it may stand, best first; it belongs to all of them alike.
        radius: of the dot at the point.
        size: of the font.
        needed: it is drawn even where there is no room: over dots, but over no other label.
    """

    text: str
    points: tuple[tuple[float, float], ...]
    radius: float = 0.0
    size: float = 10.0
    needed: bool = False

    def places(self) -> Iterator[tuple[Rectangle, tuple[float, float]]]:
        """All places for it, best first, and the points that they are beside."""
        width, height = _LETTER * self.size * len(self.text), self.size * 1.1
        for distance in _DISTANCES:
            for x, y in self.points:
                for across, down in _SIDES:
                    reach = self.radius * (0.75 if across and down else 1) + distance
                    left = x + across * reach - (0, width / 2, width)[1 - across]
                    top = y + down * reach - (0, height / 2, height)[1 - down]
                    yield Rectangle(left, top, left + width, top + height), (x, y)


def drawn(labels: Sequence[Label], taken: Sequence[Rectangle], bounds: Rectangle) -> Iterator[str]:
    """The labels as SVG, the first ones placed first.

    Args:
        labels: the most important first.
        taken: what they must not cover.
        bounds: what they must stay in.
    """
    written: list[Rectangle] = []
    for label in labels:
        places = list(label.places())
        free = _first(places, [*taken, *written], bounds)
        if free is None and label.needed:
            free = _first(places, written, bounds) or places[0]
        if free is None:
            continue
        place, point = free
        written.append(place)
        yield from _text(label, place, point)


def _first(
    places: Sequence[tuple[Rectangle, tuple[float, float]]],
    taken: Sequence[Rectangle],
    bounds: Rectangle,
) -> tuple[Rectangle, tuple[float, float]] | None:
    return next(
        (
            (place, point)
            for place, point in places
            if bounds.holds(place) and not any(place.meets(other) for other in taken)
        ),
        None,
    )


def _text(label: Label, place: Rectangle, point: tuple[float, float]) -> Iterator[str]:
    """A label, and a line to its point if that is far."""
    x = min(max(point[0], place.left), place.right)
    y = min(max(point[1], place.top), place.bottom)
    if abs(x - point[0]) + abs(y - point[1]) > label.radius + _FAR:
        line = f"M{point[0]:.1f} {point[1]:.1f}L{x:.1f} {y:.1f}"
        yield path(line, stroke="#888888", stroke_width=0.7)
    halo = {"stroke": "#ffffff", "stroke_width": 2.5, "paint_order": "stroke"}
    yield text(place.left, place.bottom - 2, label.text, font_size=label.size, **halo)
