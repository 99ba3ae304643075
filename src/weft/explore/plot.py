"""Points in a plane as SVG: what variants cost, and how good they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10

from weft.pictures.canvas import element, frame, page, path, text, title
from weft.pictures.labels import Label, Rectangle, around, drawn
from weft.records import dataclass
from weft.screen import elided

WIDTH, HEIGHT = 900, 540
LEFT, RIGHT, TOP, BOTTOM = 90, 150, 80, 60
_RADIUS = 5.0
_COLOUR = "#0072b2"


@dataclass(frozen=True, slots=True)
class Point:
    """A variant in the plane.

    Attributes:
        name: of the variant.
        x: what it costs; y: how good it is.
        low: the least cost that was measured; high: the most; as ``x`` where it is exact.
    """

    name: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None

    @property
    def span(self) -> tuple[float, float]:
        """The costs that noise leaves possible."""
        return self.x if self.low is None else self.low, self.x if self.high is None else self.high


def front(points: Sequence[Point], *, rising: bool) -> list[Point]:
    """The points that no other one beats in both ways, the cheapest first.

    Args:
        points: all of them; less ``x`` is better.
        rising: more ``y`` is better, else less.
    """
    found: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y if rising else point.y)):
        if not found or (point.y > found[-1].y if rising else point.y < found[-1].y):
            found.append(point)
    return found


def ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers around a range, about so many."""
    # Not so narrow that numbers beside the axis would look alike.
    span = max(high - low, 1e-9 * max(abs(low), abs(high)))
    rough = (span if span > 1e-300 else 1.0) / count
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10, 20) if unit * factor >= rough)
    first = int(low // step)
    found = [first * step]
    while found[-1] < high:
        first += 1
        found.append(first * step)
    return found


def label(value: float) -> str:
    """A number beside an axis."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:.4g}"


@dataclass(frozen=True)
class _Plane:
    across: Sequence[float]
    up: Sequence[float]

    def x(self, value: float) -> float:
        low, high = self.across[0], self.across[-1]
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1)

    def y(self, value: float) -> float:
        low, high = self.up[0], self.up[-1]
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1)

    def axes(self, x_name: str, y_name: str) -> Iterator[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value in self.across:
            x = self.x(value)
            yield path(f"M{x:.1f} {TOP}V{bottom}", stroke="#dddddd")
            yield text(x, bottom + 16, label(value), text_anchor="middle")
        for value in self.up:
            y = self.y(value)
            yield path(f"M{LEFT} {y:.1f}H{right}", stroke="#dddddd")
            yield text(LEFT - 8, y + 4, label(value), text_anchor="end")
        yield text((LEFT + right) / 2, bottom + 38, x_name, text_anchor="middle")
        yield text(LEFT, TOP - 10, y_name, text_anchor="middle")

    def line(self, points: Sequence[Point]) -> Iterator[str]:
        """The front in steps: what a cost buys at the best, up to the next better point."""
        if not points:
            return
        steps = f"M{self.x(points[0].x):.1f} {self.y(points[0].y):.1f}"
        steps += "".join(f"H{self.x(each.x):.1f}V{self.y(each.y):.1f}" for each in points[1:])
        style = {"stroke_width": 2, "stroke_opacity": 0.5, "stroke_dasharray": "6 4"}
        told = "the front: no other is better"
        yield path(f"{steps}H{WIDTH - RIGHT}", told, fill="none", stroke=_COLOUR, **style)

    def noise(self, points: Sequence[Point]) -> Iterator[str]:
        """Bars from the least to the most that was measured."""
        for point in points:
            low, high = point.span
            if low < high:
                y, told = self.y(point.y), f"{point.name}: {low:,.6g} to {high:,.6g}"
                ends = f"M{self.x(low):.1f} {y - 4:.1f}v8m0 -4H{self.x(high):.1f}m0 -4v8"
                yield path(ends, told, fill="none", stroke=_COLOUR)

    def dots(self, points: Sequence[Point], best: Sequence[Point]) -> Iterator[str]:
        for point in points:
            x, y = self.x(point.x), self.y(point.y)
            fill = _COLOUR if point in best else "#ffffff"
            told = title(f"{point.name}: {point.x:,.6g}, {point.y:,.6g}")
            yield element("circle", told, cx=x, cy=y, r=_RADIUS, fill=fill, stroke=_COLOUR)

    def names(self, points: Sequence[Point], best: Sequence[Point]) -> Iterator[str]:
        """Of those on the front first, each where it covers no other."""
        ordered = sorted(points, key=lambda point: point not in best)
        places = {point: (self.x(point.x), self.y(point.y)) for point in points}
        labels = [
            Label(elided(point.name, 40), (places[point],), _RADIUS, 11, needed=point in best)
            for point in ordered
        ]
        taken = [around(x, y, _RADIUS) for x, y in places.values()]
        yield from drawn(labels, taken, Rectangle(LEFT, TOP - 16, WIDTH, HEIGHT - BOTTOM + 4))


def _legend(points: Sequence[Point]) -> Iterator[str]:
    words = "full dots and the dashed line: the front, which no other one beats in both ways"
    if any(low < high for low, high in (point.span for point in points)):
        words += "; bars: the least to the 95th percentile of what was measured"
    yield text(LEFT, 42, words, fill="#555555")


def scatter(
    heading: str, x_name: str, y_name: str, points: Sequence[Point], *, rising: bool
) -> str:
    """The picture: full dots are those that no other one beats.

    Args:
        heading: stands above.
        x_name: what goes across, of which less is better.
        y_name: what goes up.
        points: the variants.
        rising: more of what goes up is better.
    """
    xs, ys = [x for point in points for x in point.span], [point.y for point in points]
    plane = _Plane(ticks(min(xs), max(xs), 6), ticks(min(ys), max(ys), 6))
    best = front(points, rising=rising)
    return frame(
        WIDTH,
        HEIGHT,
        heading,
        [
            page(WIDTH, HEIGHT),
            text(LEFT, 24, heading, font_size=16),
            *plane.axes(x_name, y_name),
            *plane.line(best),
            *plane.noise(points),
            *plane.dots(points, best),
            *plane.names(points, best),
            *_legend(points),
        ],
    )
