"""A memory map as SVG: steps go across, addresses of the arena go up, its regions one on another.

Below the arena stand the caller's inputs and outputs, which lie elsewhere, and the weights that
each step reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.cached import cached_property
from weft.ir.short_names import short_names
from weft.pictures.canvas import COLOURS, cut, frame, legend, page, path, rectangle, text
from weft.plan.program import Arena, located
from weft.plan.report import LayerSpan, MemoryPlace, Row, size
from weft.records import dataclass
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
    spans: Sequence[LayerSpan]
    steps: int
    top: int
    rows: Sequence[Row]
    arenas: Sequence[Arena]

    # --- where everything is --------------------------------------------------------------------

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / max(1, self.steps)

    def y(self, address: float) -> float:
        return TOP + ARENA - ARENA * address / max(1, self.top)

    @cached_property
    def outside(self) -> list[LayerSpan]:
        """Inputs and outputs of the network: from the first step that touches one to the last."""
        found: dict[str, tuple[MemoryPlace, list[int]]] = {}
        for row in self.rows:
            for place in (*row.reads, *row.writes):
                if place.region in _OUTSIDE:
                    name = place.within or place.value
                    found.setdefault(name, (place, []))[1].append(row.step)
        names = short_names(found)
        return [
            LayerSpan(
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
                region, offset = located(self.arenas, span.offset)
                where = f"{span.kind}, {span.bytes:,} bytes at {f'{region} {offset:,}'.lstrip()}"
                yield from self._box(span, top, bottom - top, colours[span.kind], where)

    def _box(
        self, span: LayerSpan, top: float, height: float, fill: str, where: str
    ) -> Iterator[str]:
        """A buffer, with as much of its name as there is room for."""
        left, width = self.x(span.first), self.x(span.last + 1) - self.x(span.first)
        name = span.label or span.name
        when = f"step {span.first}" + (f" to {span.last}" if span.last > span.first else "")
        told = f"{name}\n{where}\n{when}"
        yield rectangle(
            left, top, width, height, told, fill=fill, stroke="#ffffff", stroke_width=0.5
        )
        yield from self._told(span, left + width / 2, top + height / 2, width, height)

    def _told(
        self, span: LayerSpan, x: float, y: float, width: float, height: float
    ) -> Iterator[str]:
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
            style = {"font_size": 10, "text_anchor": "middle", "pointer_events": "none"}
            yield text(x, middle + 13 * place, elided(line, letters), **style)

    def bound(self, lower_bound: int, start: int = 0) -> Iterator[str]:
        across = f"M{LEFT} {self.y(start + lower_bound):.2f}H{self.x(self.steps):.2f}"
        told = f"lower bound: {lower_bound:,} bytes"
        yield path(across, told, stroke="#cc0000", stroke_dasharray="6 4")

    def bands(self) -> Iterator[str]:
        """A line below each region, its name and size above the line, and its lower bound."""
        right = self.x(self.steps)
        for each in self.arenas:
            y = self.y(each.start)
            yield path(f"M{LEFT} {y:.2f}H{right:.2f}", stroke="#333333")
            named = f"{each.name}, {each.bytes:,} bytes"
            yield text(right - 4, y - 4, named, text_anchor="end", font_weight="bold")
            yield from self.bound(each.lower_bound, each.start)

    # --- outside of it --------------------------------------------------------------------------

    def callers(self) -> Iterator[str]:
        """A bar for each input and output."""
        if not self.outside:
            return
        top = TOP + ARENA + _GAP
        yield text(LEFT, top - 6, "inputs and outputs, in the caller's memory")
        for place, span in enumerate(self.outside[:_MOST_BARS]):
            where = f"{span.kind}, {span.bytes:,} bytes"
            yield from self._box(span, top + place * _BAR, _BAR - 1, OUTSIDE, where)
            y = top + place * _BAR + 11
            yield from self._beside(span, y)
            yield text(LEFT - 8, y, span.kind, text_anchor="end")
        more = len(self.outside) - _MOST_BARS
        if more > 0:
            yield text(LEFT, top + _MOST_BARS * _BAR + 11, f"and {more} more")

    def _beside(self, span: LayerSpan, y: float) -> Iterator[str]:
        """The name of what is too narrow to hold it, where there is more room."""
        left, right = self.x(span.first), self.x(span.last + 1)
        name = span.label.partition(" ")[0]
        if len(name) <= int((right - left - 6) / _LETTER):
            return
        x, anchor = (right + 4, "start") if left < WIDTH / 2 else (left - 4, "end")
        yield text(x, y, span.label, font_size=10, text_anchor=anchor)

    def read_weights(self) -> Iterator[str]:
        """A column for each step that reads weights."""
        most = max(self.weights, default=0)
        if not most:
            return
        bottom = self.weights_top + _WEIGHTS
        heading = f"weights that a step reads, {size(sum(self.weights))} in all"
        yield text(LEFT, self.weights_top - 6, heading)
        for row, read in zip(self.rows, self.weights, strict=True):
            if read:
                height = max(1.0, _WEIGHTS * read / most)
                left, width = self.x(row.step), self.x(row.step + 1) - self.x(row.step)
                told = f"step {row.step}: {read:,} bytes of weights"
                left, top = left + width * 0.1, bottom - height
                yield rectangle(left, top, width * 0.8, height, told, fill=WEIGHTS)
        yield path(f"M{LEFT} {self.weights_top:g}V{bottom:g}", stroke="#333333")
        for value, y in ((most, self.weights_top), (0, bottom)):
            yield from _mark(y, value)

    # --- axes -----------------------------------------------------------------------------------

    def axes(self) -> Iterator[str]:
        bottom, right = self.y(0), self.x(self.steps)
        yield path(f"M{LEFT} {TOP}V{bottom:.2f}H{right:.2f}", fill="none", stroke="#333333")
        for address in _ticks(self.top, 6):
            yield from _mark(self.y(address), address)
        middle = TOP + ARENA / 2
        turned = {"text_anchor": "middle", "transform": f"rotate(-90 16 {middle:g})"}
        yield text(16, middle, "address in the arena, bytes", **turned)
        if bottom < self.bottom:
            yield path(f"M{LEFT} {self.bottom:g}H{right:.2f}", stroke="#333333")
        yield from self._steps()
        below = self.bottom + self.names_height + 16
        yield text((LEFT + right) / 2, below, "step", text_anchor="middle")

    def _steps(self) -> Iterator[str]:
        """What each step does, or only numbers if there are many."""
        if not 0 < len(self.rows) <= _MOST_NAMED_STEPS:
            for step in _ticks(self.steps, 10):
                x = self.x(step)
                yield path(f"M{x:.2f} {self.bottom:g}v4", stroke="#333333")
                yield text(x, self.bottom + 16, str(step), text_anchor="middle")
            return
        y = self.bottom + 10
        for row in self.rows:
            x = self.x(row.step + 0.5) + 4
            name = cut(f"{row.step} {' + '.join(row.ops)}", _NAME_LETTERS)
            turned = f"rotate(-50 {x:.2f} {y:g})"
            yield text(x, y, name, text_anchor="end", font_size=10, transform=turned)

    def legend(self) -> tuple[list[str], float]:
        top = self.bottom + self.names_height + 30
        return legend(self.colours(), LEFT, WIDTH - RIGHT, top)


def _mark(y: float, value: int) -> Iterator[str]:
    """A number on the vertical axis."""
    yield path(f"M{LEFT - 4} {y:.2f}h4", stroke="#333333")
    yield text(LEFT - 8, y + 4, f"{value:,}", text_anchor="end")


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
    spans: Sequence[LayerSpan],
    steps: int,
    arena_bytes: int,
    lower_bound: int,
    rows: Sequence[Row] = (),
    arenas: Sequence[Arena] = (),
) -> str:
    """The picture.

    Args:
        title: what it is a picture of.
        spans: what lies in the arena.
        steps: how many steps there are.
        arena_bytes: size of the arena.
        lower_bound: drawn as a dashed line.
        rows: the steps, for their names, the inputs and outputs, and the weights.
        arenas: the regions of the arena, each a band; none where it is one.
    """
    drawing = _Map(spans, steps, arena_bytes, rows, arenas)
    over = f"arena {arena_bytes:,} bytes; dashed: lower bound {lower_bound:,} bytes"
    key, last = drawing.legend()
    height = last + 22
    parts = [
        page(WIDTH, height),
        text(LEFT, 24, cut(title, 100), font_size=16),
        text(LEFT, 42, f"{over}; point at a box for what it holds"),
        *drawing.boxes(),
        *drawing.axes(),
        *(drawing.bands() if arenas else drawing.bound(lower_bound)),
        *drawing.callers(),
        *drawing.read_weights(),
        *key,
    ]
    return frame(WIDTH, height, f"memory map of {title}", parts, natural=False)
