"""Plots of the benchmarks as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from weft.pictures.canvas import COLOURS

BAR, GAP, LEFT, TOP, HEIGHT, BOTTOM = 9, 14, 50, 60, 320, 110


def _steps(most: float) -> Iterator[float]:
    """Round numbers from 0 to ``most``."""
    step = next(unit for unit in (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 1e9) if most / unit <= 10)
    count = 0
    while count * step <= most:
        yield count * step
        count += 1


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """A group of bars for each network, one for each contestant; a line at 1."""
    kinds = list(dict.fromkeys(kind for group in groups.values() for kind in group))
    colours = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    most = max((value for group in groups.values() for value in group.values()), default=1.0)
    most = max(most * 1.05, 1.0)
    bottom = TOP + HEIGHT
    parts: list[str] = []
    x = float(LEFT + GAP)
    for name, group in groups.items():
        start = x
        for kind, value in group.items():
            height = HEIGHT * value / most
            parts.append(
                f'<rect x="{x:.1f}" y="{bottom - height:.1f}" width="{BAR}" '
                f'height="{height:.1f}" fill="{colours[kind]}">'
                f"<title>{escape(name)}, {escape(kind)}: {value:.2f}</title></rect>"
            )
            x += BAR
        middle = (start + x) / 2
        parts.append(
            f'<text transform="translate({middle:.1f} {bottom + 10}) rotate(-35)" '
            f'text-anchor="end">{escape(name)}</text>'
        )
        x += GAP
    width = max(x, 480.0)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} '
            f'{bottom + BOTTOM}" role="img" aria-label={quoteattr(title)} '
            'font-family="sans-serif" font-size="11" fill="#333333">',
            f'<rect width="{width:.0f}" height="{bottom + BOTTOM}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="20" font-size="16">{escape(title)}</text>',
            *_legend(colours),
            *_axis(most, bottom, width),
            *parts,
            "</svg>\n",
        ]
    )


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = LEFT
    for kind, colour in colours.items():
        yield f'<rect x="{x}" y="32" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="41">{escape(kind)}</text>'
        x += 30 + 7 * len(kind)


def _axis(most: float, bottom: float, width: float) -> Iterator[str]:
    for value in _steps(most):
        y = bottom - HEIGHT * value / most
        colour = "#333333" if value == 1 else "#dddddd"
        yield f'<path d="M{LEFT} {y:.1f}H{width:.0f}" stroke="{colour}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
