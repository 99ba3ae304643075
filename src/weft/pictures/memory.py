"""A memory map as SVG: steps go across, addresses go up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.pictures.canvas import COLOURS, frame, quoted
from weft.pictures.canvas import title as tooltip
from weft.plan.report import Span

WIDTH, HEIGHT = 1000, 480
LEFT, RIGHT, TOP, BOTTOM = 90, 20, 60, 70
SCRATCH = "#999999"


@dataclass(frozen=True)
class _Map:
    spans: Sequence[Span]
    steps: int
    top: int

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, self.steps)

    def y(self, address: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * address / max(1, self.top)

    def colours(self) -> dict[str, str]:
        """A colour for each kind, the most common first."""
        counts: dict[str, int] = {}
        for span in self.spans:
            counts[span.kind] = counts.get(span.kind, 0) + 1
        kinds = sorted(
            (kind for kind in counts if kind != "scratch"), key=lambda k: (-counts[k], k)
        )
        found = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
        return {**found, "scratch": SCRATCH} if "scratch" in counts else found

    def boxes(self) -> Iterator[str]:
        colours = self.colours()
        for span in self.spans:
            if span.bytes == 0:
                continue
            left, right = self.x(span.first), self.x(span.last + 1)
            top, bottom = self.y(span.offset + span.bytes), self.y(span.offset)
            when = f"step {span.first}" + (f" to {span.last}" if span.last > span.first else "")
            title = (
                f"{span.label or span.name}\n{span.kind}, {span.bytes:,} bytes at {span.offset:,}\n"
                f"{when}"
            )
            yield (
                f'<rect x="{left:.2f}" y="{top:.2f}" width="{right - left:.2f}" '
                f'height="{bottom - top:.2f}" fill="{colours[span.kind]}" stroke="#ffffff" '
                f'stroke-width="0.5">{tooltip(title)}</rect>'
            )

    def axes(self) -> Iterator[str]:
        bottom, right = self.y(0), self.x(self.steps)
        yield f'<path d="M{LEFT} {TOP}V{bottom:.2f}H{right:.2f}" fill="none" stroke="#333333"/>'
        for address in _ticks(self.top, 6):
            y = self.y(address)
            yield f'<path d="M{LEFT - 4} {y:.2f}h4" stroke="#333333"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.2f}" text-anchor="end">{address:,}</text>'
        for step in _ticks(self.steps, 10):
            x = self.x(step)
            yield f'<path d="M{x:.2f} {bottom:.2f}v4" stroke="#333333"/>'
            yield f'<text x="{x:.2f}" y="{bottom + 16:.2f}" text-anchor="middle">{step}</text>'

    def bound(self, lower_bound: int) -> Iterator[str]:
        y = self.y(lower_bound)
        yield (
            f'<path d="M{LEFT} {y:.2f}H{self.x(self.steps):.2f}" stroke="#cc0000" '
            f'stroke-dasharray="6 4">{tooltip(f"lower bound: {lower_bound:,} bytes")}</path>'
        )

    def legend(self) -> Iterator[str]:
        x, y = LEFT, HEIGHT - 34
        for kind, colour in self.colours().items():
            width = 24 + 7 * len(kind)
            if x + width > WIDTH - RIGHT:
                x, y = LEFT, y + 16
            yield f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour}"/>'
            yield f'<text x="{x + 14}" y="{y + 9}">{quoted(kind)}</text>'
            x += width


def _ticks(top: int, count: int) -> Iterator[int]:
    """Round numbers from 0 to ``top``, about ``count`` of them."""
    rough = max(1, top) / count
    unit = 1
    while unit * 10 <= rough:
        unit *= 10
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    yield from range(0, max(1, top) + 1, step)


def memory_map(
    title: str, spans: Sequence[Span], steps: int, arena_bytes: int, lower_bound: int
) -> str:
    """The picture.

    Args:
        title: what it is a picture of.
        spans: what lies in the arena.
        steps: how many steps there are.
        arena_bytes: size of the arena.
        lower_bound: drawn as a dashed line.
    """
    drawing = _Map(spans, steps, arena_bytes)
    over = f"arena {arena_bytes:,} bytes, lower bound {lower_bound:,} bytes"
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{quoted(title)}</text>',
        f'<text x="{LEFT}" y="42">{quoted(over)}; steps across, addresses up</text>',
        *drawing.boxes(),
        *drawing.axes(),
        *drawing.bound(lower_bound),
        *drawing.legend(),
    ]
    return frame(WIDTH, HEIGHT, f"memory map of {title}", parts, natural=False)
