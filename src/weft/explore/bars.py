"""Shares with their intervals as SVG: one bar below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.explore.plot import label, ticks
from weft.pictures.canvas import (
    element,
    frame,
    page,
    path,
    quoted,
    rectangle,
    shortened,
    text,
    title,
)
from weft.records import dataclass

WIDTH, LEFT, RIGHT, TOP, BOTTOM, STEP = 900, 280, 90, 60, 50, 22
_COLOUR, _MOST = "#56b4e9", 200


@dataclass(frozen=True, slots=True)
class Bar:
    """A share from 0 to 1, and the ends of its interval."""

    name: str
    value: float
    low: float
    high: float


def bars(heading: str, axis: str, shown: Sequence[Bar]) -> str:
    """The picture; of more than 200 bars the first ones.

    Args:
        heading: stands above.
        axis: what the bars are shares of.
        shown: from above to below.
    """
    rows = shown[:_MOST]
    height = TOP + BOTTOM + STEP * len(rows)
    # Small shares would be no bars at all on a scale up to one.
    top = min(1.0, max((each.high for each in rows), default=1.0) or 1.0)
    marks = [each for each in ticks(0.0, top, 5) if each >= 0]
    scale = (WIDTH - LEFT - RIGHT) / marks[-1]
    return frame(
        WIDTH,
        height,
        heading,
        [
            page(WIDTH, height),
            text(20, 24, heading, font_size=16),
            *_axis(axis, marks, scale, height - BOTTOM),
            *(part for n, each in enumerate(rows) for part in _bar(each, TOP + STEP * n, scale)),
        ],
    )


def _axis(name: str, marks: Sequence[float], scale: float, bottom: float) -> Iterator[str]:
    for value in marks:
        x = LEFT + scale * value
        yield path(f"M{x:.1f} {TOP - 6}V{bottom}", stroke="#dddddd")
        yield text(x, bottom + 16, label(value), text_anchor="middle")
    yield text(LEFT, bottom + 36, f"{name}, with 95 % intervals")


def _bar(bar: Bar, y: float, scale: float) -> Iterator[str]:
    low, end, high = (LEFT + scale * each for each in (bar.low, bar.value, bar.high))
    middle = y + STEP / 2
    told = f"{bar.name}: {bar.value:.2%} [{bar.low:.2%}, {bar.high:.2%}]"
    yield rectangle(LEFT, y + 4, end - LEFT, STEP - 8, told, fill=_COLOUR)
    ends = "".join(f"M{x:.1f} {middle - 4:.1f}v8" for x in (low, high))
    yield path(f"M{low:.1f} {middle:.1f}H{high:.1f}{ends}", told, stroke="#333333", fill="none")
    name = quoted(shortened(bar.name, 42)) + title(bar.name)
    yield element("text", name, x=LEFT - 8, y=middle + 4, text_anchor="end")
    yield text(high + 8, middle + 4, f"{bar.value:.2%}")
