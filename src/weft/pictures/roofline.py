"""A roofline plot as SVG: how fast each step is, beside what arithmetic and memory allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10, sqrt

from weft.pictures.canvas import COLOURS, cut, element, frame, legend, page, path, text, title
from weft.pictures.labels import Label, Rectangle, around, drawn
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Dot:
    """A step.

    Attributes:
        name: what it does.
        kind: what it is coloured by.
        intensity: operations per byte; more than 0.
        gflops: thousand million operations per second; more than 0.
        share: of the whole time, from 0 to 1; the dot's area.
        label: what the tooltip says beside the name and the figures.
    """

    name: str
    kind: str
    intensity: float
    gflops: float
    share: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Roof:
    """A slope: thousand million bytes per second of a level of memory."""

    name: str
    gbytes: float


WIDTH, HEIGHT = 1000, 600
LEFT, RIGHT, TOP, BOTTOM = 80, 30, 60, 80
_SMALLEST, _LARGEST = 3.0, 22.0
_MOST_NAMED, _MOST_LETTERS = 12, 28


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some values."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


@dataclass(frozen=True)
class _Plot:
    dots: Sequence[Dot]
    peak: float
    roofs: Sequence[Roof]

    @property
    def across(self) -> tuple[int, int]:
        ridges = [self.peak / roof.gbytes for roof in self.roofs]
        return _decades([1.0, *ridges, *(dot.intensity for dot in self.dots)])

    @property
    def up(self) -> tuple[int, int]:
        return _decades([self.peak, *(dot.gflops for dot in self.dots)])

    def x(self, intensity: float) -> float:
        low, high = self.across
        return LEFT + (WIDTH - LEFT - RIGHT) * (log10(intensity) - low) / (high - low)

    def y(self, gflops: float) -> float:
        low, high = self.up
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (log10(gflops) - low) / (high - low)

    def axes(self) -> Iterator[str]:
        left, right = LEFT, WIDTH - RIGHT
        top, bottom = TOP, HEIGHT - BOTTOM
        for power in range(self.across[0], self.across[1] + 1):
            x = self.x(10.0**power)
            yield path(f"M{x:.2f} {top}V{bottom}", stroke="#dddddd")
            yield text(x, bottom + 16, f"{10.0**power:g}", text_anchor="middle")
        for power in range(self.up[0], self.up[1] + 1):
            y = self.y(10.0**power)
            yield path(f"M{left} {y:.2f}H{right}", stroke="#dddddd")
            yield text(left - 8, y + 4, f"{10.0**power:g}", text_anchor="end")
        yield text((left + right) / 2, bottom + 34, "FLOP per byte", text_anchor="middle")
        yield text(left, top - 6, "GFLOP/s", text_anchor="middle")

    def limits(self) -> Iterator[str]:
        """The roof over arithmetic, and the slopes of memory up to it."""
        low, high = self.across
        slowest = min((roof.gbytes for roof in self.roofs), default=self.peak)
        start = max(10.0**low, min(10.0**high, self.peak / slowest))
        for roof in self.roofs:
            start = min(start, self.peak / roof.gbytes)
            # A slope begins where it enters the picture, on its left or at its bottom.
            first = max(10.0**low, 10.0 ** self.up[0] / roof.gbytes)
            last = min(10.0**high, self.peak / roof.gbytes)
            ends = (f"{self.x(at):.2f} {self.y(at * roof.gbytes):.2f}" for at in (first, last))
            told = f"{roof.name}: {roof.gbytes:,.1f} GB/s"
            yield path(f"M{'L'.join(ends)}", told, stroke="#333333")
        across = f"M{self.x(max(start, 10.0**low)):.2f} {self.y(self.peak):.2f}H{WIDTH - RIGHT}"
        yield path(across, f"{self.peak:,.1f} GFLOP/s", stroke="#333333")

    def colours(self) -> dict[str, str]:
        kinds = sorted({dot.kind for dot in self.dots})
        return {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}

    def points(self) -> Iterator[str]:
        colours = self.colours()
        # The largest first, so that they hide nothing.
        for dot in sorted(self.dots, key=lambda dot: -dot.share):
            figures = (
                f"{dot.name}: {dot.gflops:,.1f} GFLOP/s at {dot.intensity:,.2f} FLOP/byte, "
                f"{dot.share:.1%} of the time"
            )
            told = "\n".join(part for part in (figures, dot.label) if part)
            yield element(
                "circle",
                title(told),
                cx=self.x(dot.intensity),
                cy=self.y(dot.gflops),
                r=self.radius(dot),
                fill=colours[dot.kind],
                fill_opacity=0.7,
                stroke="#333333",
                stroke_width=0.5,
            )

    def radius(self, dot: Dot) -> float:
        return max(_SMALLEST, _LARGEST * sqrt(dot.share))

    def labels(self) -> Iterator[str]:
        """Names of the roofs, then of the dots, those of the longest steps first."""
        slopes = [
            Label(
                f"{roof.name} {roof.gbytes:,.0f} GB/s",
                tuple(self._along(roof)),
                size=11,
                needed=True,
            )
            for roof in self.roofs
        ]
        middles = [WIDTH - RIGHT - 60 - 120 * place for place in range(5)]
        peak = Label(
            f"{self.peak:,.0f} GFLOP/s",
            tuple((x, self.y(self.peak)) for x in middles),
            size=11,
            needed=True,
        )
        named = [
            Label(
                cut(dot.name, _MOST_LETTERS),
                ((self.x(dot.intensity), self.y(dot.gflops)),),
                self.radius(dot),
            )
            for dot in sorted(self.dots, key=lambda dot: -dot.share)[:_MOST_NAMED]
        ]
        taken = [
            around(self.x(dot.intensity), self.y(dot.gflops), self.radius(dot)) for dot in self.dots
        ]
        taken += self._lines()
        bounds = Rectangle(LEFT, TOP - 16, WIDTH - 2, HEIGHT - BOTTOM)
        # Roofs are named whatever is there; a dot without room has its tooltip.
        yield from drawn([peak, *slopes, *named], taken, bounds)

    def _along(self, roof: Roof, count: int = 12) -> Iterator[tuple[float, float]]:
        """Points of a slope, from where it enters the picture."""
        low, high = self.across
        first = max(10.0**low, 10.0 ** self.up[0] / roof.gbytes)
        last = min(10.0**high, self.peak / roof.gbytes)
        for part in range(count):
            at = first * (last / first) ** ((part + 0.3) / count)
            yield self.x(at), self.y(at * roof.gbytes)

    def _lines(self) -> Iterator[Rectangle]:
        """What the roofs take up."""
        for roof in self.roofs:
            yield from (around(x, y, 1.5) for x, y in self._along(roof, 200))
        y = self.y(self.peak)
        yield Rectangle(LEFT, y - 1, WIDTH, y + 1)


def roofline(
    heading: str, caption: str, dots: Sequence[Dot], peak: float, roofs: Sequence[Roof]
) -> str:
    """The picture, with both axes logarithmic.

    Args:
        heading: what it is a picture of.
        caption: a line below the title.
        dots: the steps.
        peak: thousand million operations per second that registers allow.
        roofs: what memory allows.
    """
    plot = _Plot(dots, peak, roofs)
    key, last = legend(plot.colours(), LEFT, WIDTH - RIGHT, HEIGHT - 26)
    parts = [
        page(WIDTH, last + 26),
        text(LEFT, 22, heading, font_size=16),
        text(LEFT, 38, caption),
        *plot.axes(),
        *plot.limits(),
        *plot.points(),
        *plot.labels(),
        *key,
    ]
    return frame(WIDTH, last + 26, f"roofline of {heading}", parts, natural=False)
