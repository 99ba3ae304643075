"""A graph as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.ir.printer import show_node
from weft.pictures.canvas import cut, frame, quoted, title
from weft.pictures.families import FILLS
from weft.pictures.marks import Mark
from weft.pictures.scene import LINE, Box, Placed, type_text

MARGIN = 24.0
_TOP = 46.0
_KEY = 20.0
_MOST_KEYS = 40
_MOST_TOOLTIP = 600
_HEAD = 5.0


@dataclass(frozen=True)
class _Picture:
    placed: Placed
    marks: Sequence[Mark]

    @cached_property
    def names(self) -> list[str]:
        """The kinds that are there, in the order of the table."""
        there = {box.kind for box in self.placed.scene.boxes}
        return [kind for kind in FILLS if kind in there]

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
            *((kind, f'fill="{FILLS[kind]}" stroke="#777777"') for kind in self.names),
            *(
                (cut(mark.caption, 60), f'fill="none" stroke="{mark.colour}" stroke-width="3"')
                for mark in self.marks[:_MOST_KEYS]
            ),
        ]
        if len(self.marks) > _MOST_KEYS:
            rest = len(self.marks) - _MOST_KEYS
            entries.append((f"and {rest} more", 'fill="none" stroke="none"'))
        for text, style in entries:
            width = 30 + 6.3 * len(text)
            if x > MARGIN and x + width > self.width - MARGIN:
                x, y = MARGIN, y + _KEY
            lines.append(f'<rect x="{x:g}" y="{y - 9:g}" width="12" height="11" {style}/>')
            lines.append(f'<text x="{x + 17:g}" y="{y:g}">{quoted(text)}</text>')
            x += width
        return lines, y + 14

    def top(self, row: int) -> float:
        return self.keys[1] + self.placed.tops[row]

    def boxes(self) -> Iterator[str]:
        for place, box in enumerate(self.placed.scene.boxes):
            yield "".join(self._box(place, box))

    def _box(self, place: int, box: Box) -> Iterator[str]:
        left, top = self.x(place) - box.width / 2, self.top(self.placed.layers.row[place])
        dashes = "" if box.node else ' stroke-dasharray="4 3"'
        yield (
            f'<g><rect x="{left:.1f}" y="{top:.1f}" width="{box.width:g}" height="{box.height:g}" '
            f'rx="5" fill="{FILLS[box.kind]}" stroke="#777777"{dashes}/>'
        )
        middle = self.x(place)
        yield (
            f'<text x="{middle:.1f}" y="{top + LINE + 2:.1f}" text-anchor="middle" '
            f'font-weight="bold">{quoted(box.heading)}</text>'
        )
        for line, text in enumerate(box.lines, 2):
            yield (
                f'<text x="{middle:.1f}" y="{top + LINE * line + 1:.1f}" text-anchor="middle" '
                f'font-size="10">{quoted(text)}</text>'
            )
        graph = self.placed.scene.graph
        text = show_node(box.node, graph) if box.node else f"{box.name}: {graph.types[box.name]}"
        yield title(cut(text, _MOST_TOOLTIP)) + "</g>"

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
                yield (
                    f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width + 2 * space:g}" '
                    f'height="{box.height + 2 * space:g}" rx="{5 + space:g}" fill="none" '
                    f'stroke="{mark.colour}" stroke-width="3">{title(mark.caption)}</rect>'
                )

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
            text = f"{value}: {scene.graph.types[value]}"
            path = f'<path d="{"".join(shown)}" fill="none" stroke="#888888"/>'
            yield f"<g>{path}{title(cut(text, _MOST_TOOLTIP))}</g>"

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
            yield (
                f'<text x="{x + 4:.1f}" y="{y + 15:.1f}" font-size="9" fill="#555555" '
                'stroke="#ffffff" stroke-width="2" paint-order="stroke">'
                f"{quoted(type_text(scene.graph.types[value]))}</text>"
            )
            if self.placed.layers.cut[place]:
                yield from self._names_at_ends(place, value)

    def _names_at_ends(self, place: int, value: str) -> Iterator[str]:
        wire = self.placed.scene.wires[place]
        for target in wire.targets:
            x, y = self.arrivals[target, place], self.top(self.placed.layers.row[target])
            yield (
                f'<text x="{x + 4:.1f}" y="{y - 11:.1f}" font-size="9" fill="#555555">'
                f"{quoted(cut(value, 40))}</text>"
            )


def _curve(x: float, y: float, end_x: float, end_y: float) -> str:
    """A path from a point down to another, upright at both ends."""
    middle = (y + end_y) / 2
    return f"M{x:.1f} {y:.1f}C{x:.1f} {middle:.1f} {end_x:.1f} {middle:.1f} {end_x:.1f} {end_y:.1f}"


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
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="{MARGIN:g}" y="24" font-size="16">{quoted(cut(heading, 100))}</text>',
            *keys,
            *picture.wires(),
            *picture.boxes(),
            *picture.frames(),
            *picture.labels(),
        ],
    )
