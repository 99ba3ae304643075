"""A memory map as SVG: steps go across, addresses of the arena go up.

Below the arena stand the caller's inputs and outputs, which lie elsewhere, and the weights that
each step reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.ir.short_names import short_names
from weft.pictures.canvas import COLOURS, cut, frame, quoted
from weft.pictures.canvas import title as tooltip
from weft.plan.report import Place, Row, Span, size
from weft.screen import elided

WIDTH = 1000
LEFT, RIGHT, TOP = 100, 20, 60
ARENA = 350
"""Height of the arena."""
SCRATCH, OUTSIDE, WEIGHTS = "#999999", "#dddddd", "#8b5a00"
_BAR, _GAP, _WEIGHTS = 15, 26, 70
_MOST_BARS = 8
_MOST_NAMED_STEPS = 40
_NAME_LETTERS, _NAMES = 22, 96
_LETTER = 6.2
_LEAST_LETTERS = 5
_OUTSIDE = ("input", "output", "state")


@dataclass(frozen=True)
class _Map:
    spans: Sequence[Span]
    steps: int
    top: int
    rows: Sequence[Row]

    # --- where everything is --------------------------------------------------------------------

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, self.steps)

    def y(self, address: float) -> float:
        return TOP + ARENA - ARENA * address / max(1, self.top)

    @cached_property
    def outside(self) -> list[Span]:
        """Inputs and outputs of the network: from the first step that touches one to the last."""
        found: dict[str, tuple[Place, list[int]]] = {}
        for row in self.rows:
            for place in (*row.reads, *row.writes):
                if place.region in _OUTSIDE:
                    name = place.within or place.value
                    found.setdefault(name, (place, []))[1].append(row.step)
        names = short_names(found)
        return [
            Span(
                name, place.region, min(at), max(at), 0, place.bytes, f"{names[name]} {place.type}"
            )
            for name, (place, at) in found.items()
        ]

    @cached_property
    def weights(self) -> list[int]:
        """Bytes of weights that each step reads."""
        return [
            sum(place.bytes for place in row.reads if place.region == "weights")
            for row in self.rows
        ]

    @property
    def weights_top(self) -> float:
        bars = min(len(self.outside), _MOST_BARS + 1)
        return TOP + ARENA + (_GAP + bars * _BAR if bars else 0) + _GAP

    @property
    def bottom(self) -> float:
        """Of all that goes along the steps."""
        if any(self.weights):
            return self.weights_top + _WEIGHTS
        return self.weights_top - _GAP

    @property
    def names_height(self) -> float:
        return _NAMES if 0 < len(self.rows) <= _MOST_NAMED_STEPS else 18.0

    # --- the arena ------------------------------------------------------------------------------

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
            if span.bytes:
                top, bottom = self.y(span.offset + span.bytes), self.y(span.offset)
                where = f"{span.kind}, {span.bytes:,} bytes at {span.offset:,}"
                yield from self._box(span, top, bottom - top, colours[span.kind], where)

    def _box(self, span: Span, top: float, height: float, fill: str, where: str) -> Iterator[str]:
        """A buffer, with as much of its name as there is room for."""
        left, width = self.x(span.first), self.x(span.last + 1) - self.x(span.first)
        name = span.label or span.name
        when = f"step {span.first}" + (f" to {span.last}" if span.last > span.first else "")
        told = tooltip(f"{name}\n{where}\n{when}")
        yield (
            f'<rect x="{left:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{fill}" stroke="#ffffff" stroke-width="0.5">{told}</rect>'
        )
        yield from self._told(span, left + width / 2, top + height / 2, width, height)

    def _told(self, span: Span, x: float, y: float, width: float, height: float) -> Iterator[str]:
        """The name of a buffer in its box, and its size where there is room for two lines."""
        name = span.label or span.name
        short = name.partition(" ")[0]
        letters = int((width - 6) / _LETTER)
        least = len(short) if span.kind in _OUTSIDE else _LEAST_LETTERS
        if letters < least or height < 12:
            return
        lines = [name if len(name) <= letters else short]
        if height >= 30:
            lines = [short, size(span.bytes)]
        middle = y - 6.5 * (len(lines) - 1) + 4
        for place, line in enumerate(lines):
            yield (
                f'<text x="{x:.2f}" y="{middle + 13 * place:.2f}" font-size="10" '
                f'text-anchor="middle" pointer-events="none">{quoted(elided(line, letters))}</text>'
            )

    def bound(self, lower_bound: int) -> Iterator[str]:
        y = self.y(lower_bound)
        yield (
            f'<path d="M{LEFT} {y:.2f}H{self.x(self.steps):.2f}" stroke="#cc0000" '
            f'stroke-dasharray="6 4">{tooltip(f"lower bound: {lower_bound:,} bytes")}</path>'
        )

    # --- outside of it --------------------------------------------------------------------------

    def callers(self) -> Iterator[str]:
        """A bar for each input and output."""
        if not self.outside:
            return
        top = TOP + ARENA + _GAP
        yield f'<text x="{LEFT}" y="{top - 6:g}">inputs and outputs, in the caller\'s memory</text>'
        for place, span in enumerate(self.outside[:_MOST_BARS]):
            where = f"{span.kind}, {span.bytes:,} bytes"
            yield from self._box(span, top + place * _BAR, _BAR - 1, OUTSIDE, where)
            y = top + place * _BAR + 11
            yield from self._beside(span, y)
            yield f'<text x="{LEFT - 8}" y="{y:g}" text-anchor="end">{span.kind}</text>'
        more = len(self.outside) - _MOST_BARS
        if more > 0:
            yield f'<text x="{LEFT}" y="{top + _MOST_BARS * _BAR + 11:g}">and {more} more</text>'

    def _beside(self, span: Span, y: float) -> Iterator[str]:
        """The name of what is too narrow to hold it, where there is more room."""
        left, right = self.x(span.first), self.x(span.last + 1)
        name = span.label.partition(" ")[0]
        if len(name) <= int((right - left - 6) / _LETTER):
            return
        x, anchor = (right + 4, "start") if left < WIDTH / 2 else (left - 4, "end")
        yield (
            f'<text x="{x:.2f}" y="{y:g}" font-size="10" text-anchor="{anchor}">'
            f"{quoted(span.label)}</text>"
        )

    def read_weights(self) -> Iterator[str]:
        """A column for each step that reads weights."""
        most = max(self.weights, default=0)
        if not most:
            return
        bottom = self.weights_top + _WEIGHTS
        yield (
            f'<text x="{LEFT}" y="{self.weights_top - 6:g}">weights that a step reads, '
            f"{size(sum(self.weights))} in all</text>"
        )
        for row, read in zip(self.rows, self.weights, strict=True):
            if read:
                height = max(1.0, _WEIGHTS * read / most)
                left, width = self.x(row.step), self.x(row.step + 1) - self.x(row.step)
                yield (
                    f'<rect x="{left + width * 0.1:.2f}" y="{bottom - height:.2f}" '
                    f'width="{width * 0.8:.2f}" height="{height:.2f}" fill="{WEIGHTS}">'
                    f"{tooltip(f'step {row.step}: {read:,} bytes of weights')}</rect>"
                )
        yield f'<path d="M{LEFT} {self.weights_top:g}V{bottom:g}" stroke="#333333"/>'
        for value, y in ((most, self.weights_top), (0, bottom)):
            yield f'<path d="M{LEFT - 4} {y:g}h4" stroke="#333333"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:g}" text-anchor="end">{value:,}</text>'

    # --- axes -----------------------------------------------------------------------------------

    def axes(self) -> Iterator[str]:
        bottom, right = self.y(0), self.x(self.steps)
        yield f'<path d="M{LEFT} {TOP}V{bottom:.2f}H{right:.2f}" fill="none" stroke="#333333"/>'
        for address in _ticks(self.top, 6):
            y = self.y(address)
            yield f'<path d="M{LEFT - 4} {y:.2f}h4" stroke="#333333"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.2f}" text-anchor="end">{address:,}</text>'
        middle = TOP + ARENA / 2
        yield (
            f'<text x="16" y="{middle:g}" text-anchor="middle" '
            f'transform="rotate(-90 16 {middle:g})">address in the arena, bytes</text>'
        )
        if bottom < self.bottom:
            yield f'<path d="M{LEFT} {self.bottom:g}H{right:.2f}" stroke="#333333"/>'
        yield from self._steps()
        yield (
            f'<text x="{(LEFT + right) / 2:g}" y="{self.bottom + self.names_height + 16:g}" '
            'text-anchor="middle">step</text>'
        )

    def _steps(self) -> Iterator[str]:
        """What each step does, or only numbers if there are many."""
        if not 0 < len(self.rows) <= _MOST_NAMED_STEPS:
            for step in _ticks(self.steps, 10):
                x = self.x(step)
                yield f'<path d="M{x:.2f} {self.bottom:g}v4" stroke="#333333"/>'
                yield (
                    f'<text x="{x:.2f}" y="{self.bottom + 16:g}" text-anchor="middle">{step}</text>'
                )
            return
        y = self.bottom + 10
        for row in self.rows:
            x = self.x(row.step + 0.5) + 4
            name = cut(f"{row.step} {' + '.join(row.ops)}", _NAME_LETTERS)
            yield (
                f'<text x="{x:.2f}" y="{y:g}" text-anchor="end" font-size="10" '
                f'transform="rotate(-50 {x:.2f} {y:g})">{quoted(name)}</text>'
            )

    def legend(self) -> Iterator[str]:
        x, y = LEFT, self.bottom + self.names_height + 30
        entries = self.colours()
        for kind, colour in entries.items():
            width = 24 + 7 * len(kind)
            if x + width > WIDTH - RIGHT:
                x, y = LEFT, y + 16
            yield f'<rect x="{x}" y="{y:g}" width="10" height="10" fill="{colour}"/>'
            yield f'<text x="{x + 14}" y="{y + 9:g}">{quoted(kind)}</text>'
            x += width

    @property
    def height(self) -> float:
        widths = [24 + 7 * len(kind) for kind in self.colours()]
        lines = 1 + sum(widths) // (WIDTH - LEFT - RIGHT - 100)
        return self.bottom + self.names_height + 36 + 16 * lines


def _ticks(top: int, count: int) -> Iterator[int]:
    """Round numbers from 0 to ``top``, about ``count`` of them."""
    rough = max(1, top) / count
    unit = 1
    while unit * 10 <= rough:
        unit *= 10
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    yield from range(0, max(1, top) + 1, step)


def memory_map(
    title: str,
    spans: Sequence[Span],
    steps: int,
    arena_bytes: int,
    lower_bound: int,
    rows: Sequence[Row] = (),
) -> str:
    """The picture.

    Args:
        title: what it is a picture of.
        spans: what lies in the arena.
        steps: how many steps there are.
        arena_bytes: size of the arena.
        lower_bound: drawn as a dashed line.
        rows: the steps, for their names, the inputs and outputs, and the weights.
    """
    drawing = _Map(spans, steps, arena_bytes, rows)
    over = f"arena {arena_bytes:,} bytes; dashed: lower bound {lower_bound:,} bytes"
    parts = [
        f'<rect width="{WIDTH}" height="{drawing.height:g}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{quoted(cut(title, 100))}</text>',
        f'<text x="{LEFT}" y="42">{quoted(over)}; point at a box for what it holds</text>',
        *drawing.boxes(),
        *drawing.axes(),
        *drawing.bound(lower_bound),
        *drawing.callers(),
        *drawing.read_weights(),
        *drawing.legend(),
    ]
    return frame(WIDTH, drawing.height, f"memory map of {title}", parts, natural=False)
