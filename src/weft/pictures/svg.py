"""A graph as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.cached import cached_property
from weft.ir.printer import show_node
from weft.pictures.canvas import cut, frame, page, path, rectangle, text, title
from weft.pictures.families import FILLS, ROLES
from weft.pictures.marks import Mark
from weft.pictures.scene import LINE, ROW, STEP, Box, Placed, type_text
from weft.records import dataclass

MARGIN = 24.0
_TOP = 46.0
_KEY = 20.0
_MOST_KEYS = 40
_MOST_TOOLTIP = 600
_HEAD = 5.0
_INSET = 6.0


@dataclass(frozen=True)
class _Picture:
    placed: Placed
    marks: Sequence[Mark]

    @cached_property
    def names(self) -> list[str]:
        """The kinds that are there, in the order of the table."""
        there = {box.kind for box in self.placed.scene.boxes}
        return [kind for kind in FILLS if kind in there]

    @cached_property
    def roles(self) -> list[tuple[str, str]]:
        """What rows there are, and their colours, in the order of the table."""
        there = {row.role for box in self.placed.scene.boxes for row in box.rows}
        return [said for role, said in ROLES.items() if role in there]

    def x(self, vertex: int) -> float:
        return MARGIN + self.placed.x[vertex]

    @cached_property
    def width(self) -> float:
        return max(self.placed.width, 420.0) + 2 * MARGIN

    @cached_property
    def keys(self) -> tuple[list[str], float]:
        """The legends, and where they end."""
        lines: list[str] = []
        x, y = MARGIN, _TOP
        entries = [
            *((kind, {"fill": FILLS[kind], "stroke": "#777777"}) for kind in self.names),
            *((words, {"fill": fill, "stroke": "#bbbbbb"}) for words, fill in self.roles),
            *((cut(mark.caption, 60), _frame(mark)) for mark in self.marks[:_MOST_KEYS]),
        ]
        if len(self.marks) > _MOST_KEYS:
            rest = len(self.marks) - _MOST_KEYS
            entries.append((f"and {rest} more", {"fill": "none", "stroke": "none"}))
        for words, style in entries:
            width = 30 + 6.3 * len(words)
            if x > MARGIN and x + width > self.width - MARGIN:
                x, y = MARGIN, y + _KEY
            lines.append(rectangle(x, y - 9, 12, 11, **style))
            lines.append(text(x + 17, y, words))
            x += width
        return lines, y + 14

    def top(self, row: int) -> float:
        return self.keys[1] + self.placed.tops[row]

    def boxes(self) -> Iterator[str]:
        for place, box in enumerate(self.placed.scene.boxes):
            yield "".join(self._box(place, box))

    def _box(self, place: int, box: Box) -> Iterator[str]:
        left, top = self.x(place) - box.width / 2, self.top(self.placed.layers.row[place])
        style = {"rx": 5, "fill": FILLS[box.kind], "stroke": "#777777"}
        dashes = {"stroke_dasharray": "4 3"} if box.is_port else {}
        yield "<g>" + rectangle(left, top, box.width, box.height, **style, **dashes)
        x, centred = self.x(place), {"text_anchor": "middle"}
        yield text(x, top + LINE + 2, box.heading, font_weight="bold", **centred)
        for line, words in enumerate(box.lines, 2):
            yield text(x, top + LINE * line + 1, words, font_size=10, **centred)
        yield from _rows(box, left, top)
        scene = self.placed.scene
        if box.node:
            told = show_node(box.node, scene.graph)
        else:
            told = box.facts.told if box.facts else f"{box.name}: {scene.types[box.name]}"
        yield title(cut(told, _MOST_TOOLTIP)) + "</g>"

    def frames(self) -> Iterator[str]:
        """Frames around marked nodes; who has several gets one around the other."""
        around: dict[int, int] = {}
        for mark in self.marks:
            for name in mark.nodes:
                place = self.placed.scene.place_of[name]
                depth = around[place] = around.get(place, 0) + 1
                box, space = self.placed.scene.boxes[place], 4.0 * min(depth, 4)
                left = self.x(place) - box.width / 2 - space
                top = self.top(self.placed.layers.row[place]) - space
                width, height = box.width + 2 * space, box.height + 2 * space
                style = {"rx": 5 + space, **_frame(mark)}
                yield rectangle(left, top, width, height, mark.caption, **style)

    # --- wires ------------------------------------------------------------------------------

    @cached_property
    def arrivals(self) -> dict[tuple[int, int], float]:
        """Where a wire ends at the top of a box, by box and wire."""
        ends: dict[int, list[tuple[float, int]]] = {}
        for place, wire in enumerate(self.placed.scene.wires):
            bends = self.placed.layers.bends[place]
            for target in wire.targets:
                depth = self.placed.layers.row[target] - self.placed.layers.row[wire.source] - 1
                before = bends[depth - 1] if depth and bends else wire.source
                ends.setdefault(target, []).append((self.placed.x[before], place))
        return {
            (target, wire): self.x(target) + shift
            for target, all_ends in ends.items()
            for (_, wire), shift in zip(
                sorted(all_ends), self._spread(target, len(all_ends)), strict=True
            )
        }

    @cached_property
    def departures(self) -> list[float]:
        """Where each wire leaves the bottom of its box."""
        leaving: dict[int, list[int]] = {}
        for place, wire in enumerate(self.placed.scene.wires):
            leaving.setdefault(wire.source, []).append(place)
        found = [0.0] * len(self.placed.scene.wires)
        for source, places in leaving.items():
            for place, shift in zip(places, self._spread(source, len(places)), strict=True):
                found[place] = self.x(source) + shift
        return found

    def _spread(self, place: int, count: int) -> list[float]:
        """Offsets from the middle of a box for some wires."""
        step = min(22.0, self.placed.scene.boxes[place].width * 0.8 / max(1, count))
        return [step * (each - (count - 1) / 2) for each in range(count)]

    def wires(self) -> Iterator[str]:
        scene = self.placed.scene
        for place, value in enumerate(scene.values):
            shown = self._named(place) if self.placed.layers.cut[place] else self._drawn(place)
            told = title(cut(f"{value}: {scene.types[value]}", _MOST_TOOLTIP))
            yield f"<g>{path(''.join(shown), fill='none', stroke='#888888')}{told}</g>"

    def _bottom(self, place: int) -> float:
        return self.top(self.placed.layers.row[place]) + self.placed.scene.boxes[place].height

    def _drawn(self, place: int) -> Iterator[str]:
        """A trunk from bend to bend, and a branch to each target."""
        wire, made = self.placed.scene.wires[place], self.placed.layers
        x, y = self.departures[place], self._bottom(wire.source)
        start = made.row[wire.source]
        branches: dict[int, list[int]] = {}
        for target in wire.targets:
            branches.setdefault(made.row[target] - start - 1, []).append(target)
        bends = made.bends[place]
        for depth in range(len(bends) + 1):
            for target in branches.get(depth, ()):
                end = self.arrivals[target, place]
                yield _curve(x, y, end, self.top(made.row[target]) - _HEAD)
                yield f"m-3 0h6l-3 {_HEAD:g}z"
            if depth < len(bends):
                bend = self.x(bends[depth])
                top = self.top(start + depth + 1)
                yield _curve(x, y, bend, top)
                x, y = bend, top + self.placed.heights[start + depth + 1]
                yield f"V{y:.1f}"

    def _named(self, place: int) -> Iterator[str]:
        """Stubs at the ends of a wire that is too long to be drawn."""
        wire = self.placed.scene.wires[place]
        yield f"M{self.departures[place]:.1f} {self._bottom(wire.source):.1f}v9m-4 0h8"
        for target in wire.targets:
            end = self.top(self.placed.layers.row[target])
            yield f"M{self.arrivals[target, place]:.1f} {end - 9:.1f}m-4 0h8m-4 0v9"

    def labels(self) -> Iterator[str]:
        """The type of each value, where it leaves its box."""
        scene = self.placed.scene
        for place, value in enumerate(scene.values):
            wire = scene.wires[place]
            x, y = self.departures[place], self._bottom(wire.source)
            halo = {"stroke": "#ffffff", "stroke_width": 2, "paint_order": "stroke"}
            kind = type_text(scene.types[value])
            yield text(x + 4, y + 15, kind, font_size=9, fill="#555555", **halo)
            if self.placed.layers.cut[place]:
                yield from self._names_at_ends(place, value)

    def _names_at_ends(self, place: int, value: str) -> Iterator[str]:
        wire = self.placed.scene.wires[place]
        for target in wire.targets:
            x, y = self.arrivals[target, place], self.top(self.placed.layers.row[target])
            yield text(x + 4, y - 11, cut(value, 40), font_size=9, fill="#555555")


def _rows(box: Box, left: float, top: float) -> Iterator[str]:
    """Rows below the lines of a box; coloured ones lie within one another."""
    top += box.row_top
    for place, row in enumerate(box.rows):
        x, y = left + _INSET + STEP * row.depth, top + ROW * place
        if row.role:
            width, height = box.width - _INSET - (x - left), ROW * row.span - 1
            yield rectangle(x, y, width, height, rx=2, fill=ROLES[row.role][1], stroke="#cccccc")
        weight = "bold" if row.role == "chosen" else "normal"
        words = {"font_size": 9, "font_weight": weight, "xml:space": "preserve"}
        yield text(x + 3, y + ROW - 3, row.text, **words)


def _curve(x: float, y: float, end_x: float, end_y: float) -> str:
    """A path from a point down to another, upright at both ends."""
    middle = (y + end_y) / 2
    return f"M{x:.1f} {y:.1f}C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}"


def _frame(mark: Mark) -> dict[str, object]:
    return {"fill": "none", "stroke": mark.colour, "stroke_width": 3}


def svg(what: Placed, heading: str, marks: Sequence[Mark] = ()) -> str:
    """The picture.

    Args:
        what: boxes and wires with their positions.
        heading: stands above it.
        marks: nodes to frame.
    """
    picture = _Picture(what, marks)
    keys, top = picture.keys
    width, height = picture.width, top + what.height + MARGIN
    return frame(
        width,
        height,
        f"graph {heading}",
        [
            page(width, height),
            text(MARGIN, 24, cut(heading, 100), font_size=16),
            *keys,
            *picture.wires(),
            *picture.boxes(),
            *picture.frames(),
            *picture.labels(),
        ],
    )
