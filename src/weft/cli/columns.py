"""Tables that fit a terminal: a row is a line, whatever its cells hold.

Where a table is too wide, columns of text are made narrower by leaving out the middle of what is
in them; where that is not enough, whole columns are left out, the least important first.
Numbers are never cut.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from rich.cells import cell_len, set_cell_size

from weft.records import dataclass
from weft.screen import elided

GAP = 2
_COMFORTABLE = 20
"""Letters that a column of text keeps while others can be left out instead."""
_FIRST_COMFORTABLE = 30
"""As well, of a first column: the names of what the rows are about."""
_LEAST = 8
_LEAST_PROSE = 24
_MOST_HEADING = 14
_ANY = 10**9


@dataclass(frozen=True)
class Columns:
    """A table.

    Attributes:
        headings: of the columns.
        rows: of cells; all have as many as there are headings.
        numbers: places of the columns that are flush right and never cut.
        drop: headings of columns that may be left out, those that go first first.
        prose: the last column is text to read, which is broken between words instead of cut.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()
    drop: Sequence[str] = ()
    prose: bool = False

    def fitted(self, width: int) -> tuple[list[str], list[str]]:
        """The lines, headings first, and the headings of the columns that were left out."""
        found = self._laid_out(width)
        lines = [self._line(self.headings, found)]
        for row in self.rows:
            lines += self._lines(row, found)
        return lines, [name for place, name in enumerate(self.headings) if place not in found]

    def _laid_out(self, width: int) -> dict[int, int]:
        """The columns that there is room for, and how wide they are."""
        headings = [cell_len(heading) for heading in self.headings]
        cells = [max((cell_len(row[at]) for row in self.rows), default=0) for at in self._places]
        whole = [max(pair) for pair in zip(headings, cells, strict=True)]
        kept = list(self._places)
        if _total(whole) <= width:
            return dict(zip(kept, whole, strict=True))
        # Long headings give way to short numbers.
        wish = [
            whole[at] if self._is_text(at) else max(cells[at], min(headings[at], _MOST_HEADING))
            for at in kept
        ]
        for name in self.drop:
            if self._need(kept, wish, _COMFORTABLE, _FIRST_COMFORTABLE) <= width:
                break
            kept = [place for place in kept if self.headings[place] != name]
        while len(kept) > 1 and self._need(kept, wish, _LEAST, _LEAST) > width:
            kept.pop()
        return self._shared(kept, wish, width)

    @property
    def _places(self) -> range:
        return range(len(self.headings))

    def _is_text(self, place: int) -> bool:
        return place not in self.numbers

    def _is_prose(self, place: int) -> bool:
        return self.prose and place == len(self.headings) - 1

    def _need(self, kept: Sequence[int], wish: Sequence[int], text: int, first: int) -> int:
        """What columns need if those of text are at most so wide, and the first one."""
        return _total([min(wish[place], self._most(place, text, first)) for place in kept])

    def _most(self, place: int, text: int, first: int) -> int:
        if not self._is_text(place):
            return _ANY
        if self._is_prose(place):
            return _LEAST_PROSE
        return text if place else first

    def _shared(self, kept: Sequence[int], wish: Sequence[int], width: int) -> dict[int, int]:
        """How wide columns are: numbers as they are, of text all alike beyond what is needed."""
        texts = [place for place in kept if self._is_text(place)]
        # Prose gets what is left over.
        texts.sort(key=lambda place: (self._is_prose(place), wish[place]))
        room = width - _total([0 if place in texts else wish[place] for place in kept])
        widths = {
            place: min(wish[place], self._most(place, _COMFORTABLE, _FIRST_COMFORTABLE))
            for place in texts
        }
        if sum(widths.values()) > room:
            widths = dict.fromkeys(texts, 1)
        room -= sum(widths.values())
        for count, place in enumerate(texts):
            more = max(0, min(wish[place] - widths[place], room // (len(texts) - count)))
            widths[place] += more
            room -= more
        return {place: widths.get(place, wish[place]) for place in kept}

    def _lines(self, row: Sequence[str], widths: dict[int, int]) -> list[str]:
        last = len(self.headings) - 1
        if not self._is_prose(last) or last not in widths:
            return [self._line(row, widths)]
        parts = textwrap.wrap(row[last], widths[last]) or [""]
        first = self._line([*row[:last], parts[0]], widths)
        indent = " " * sum(widths[place] + GAP for place in widths if place != last)
        return [first, *(indent + part for part in parts[1:])]

    def _line(self, row: Sequence[str], widths: dict[int, int]) -> str:
        cells = [
            _cell(row[place], width, flush_right=not self._is_text(place))
            for place, width in widths.items()
        ]
        return (" " * GAP).join(cells).rstrip()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _cell(text: str, width: int, *, flush_right: bool) -> str:
    """A cell as wide as its column."""
    if cell_len(text) > width:
        text = _cut(text, width)
    space = " " * (width - cell_len(text))
    return space + text if flush_right else text + space


def _cut(text: str, width: int) -> str:
    """Text without its middle, so that it is at most so wide on a terminal."""
    if cell_len(text) == len(text):
        return elided(text, width)
    letters = width
    while cell_len(elided(text, letters)) > width and letters > 1:
        letters -= 1
    return set_cell_size(elided(text, letters), width).rstrip()
