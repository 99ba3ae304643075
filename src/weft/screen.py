"""What a value shows of itself: one screen of text, or a table in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from itertools import islice

from weft.records import dataclass

LINES, COLUMNS = 24, 100
_PAGE_ROWS = 200
_LEAST = 8  # characters of a column that is made narrower
_GAP = "  "


@dataclass(frozen=True, slots=True)
class Screen:
    """What is told of a value.

    Attributes:
        title: what it is, in one line.
        facts: labels, and what there is to say under each.
        headings: of the table, if there is one.
        rows: of the table.
        numbers: columns of the table that are flush right.
    """

    title: str
    facts: Sequence[tuple[str, str]] = ()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Collection[int] = ()

    def text(self, most: int = LINES) -> str:
        """At most so many lines of at most ``COLUMNS`` characters."""
        lines = [elided(self.title, COLUMNS)]
        width = max((len(label) for label, _ in self.facts), default=0)
        for label, fact in self.facts:
            lines.append(cut(f"{_GAP}{label:<{width}}{_GAP}{fact}", COLUMNS))
        if self.rows:
            lines += self._table(most - len(lines[:most]))
        return "\n".join(lines[:most])

    def _table(self, room: int) -> list[str]:
        shown = self.rows if len(self.rows) < room else self.rows[: room - 2]
        cells = [[_flat(cell) for cell in row] for row in (self.headings, *shown)]
        widths = _widths(cells, self.numbers)
        lines = [
            _GAP
            + _GAP.join(
                _aligned(elided(cell, width), width, place in self.numbers)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        hidden = len(self.rows) - len(shown)
        return [*lines, f"{_GAP}... {hidden:,} more"] if hidden else lines

    def html(self) -> str:
        """The same for a notebook, with up to 200 rows."""
        parts = [f"<b>{escape(self.title)}</b>"]
        if self.facts:
            rows = (f"<tr>{_cell(a, False)}{_cell(b, False)}</tr>" for a, b in self.facts)
            parts.append(f"<table>{''.join(rows)}</table>")
        if self.rows:
            parts.append(self._html_table())
        return f"<div>{''.join(parts)}</div>"

    def _html_table(self) -> str:
        head = "".join(f"<th>{escape(each)}</th>" for each in self.headings)
        body = "".join(
            f"<tr>{''.join(_cell(c, n in self.numbers) for n, c in enumerate(row))}</tr>"
            for row in islice(self.rows, _PAGE_ROWS)
        )
        hidden = len(self.rows) - _PAGE_ROWS
        more = f"<p>... {hidden:,} more</p>" if hidden > 0 else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"


class Shown:
    """Prints as one screen, in notebooks as a table."""

    __slots__ = ()

    def screen(self) -> Screen:
        """What is told of it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.screen().text()

    def _repr_html_(self) -> str:
        return self.screen().html()


def cut(text: str, width: int) -> str:
    """Text of at most so many characters, the last ones left out."""
    return text if len(text) <= width else f"{text[: width - 3]}..."


def elided(text: str, width: int) -> str:
    """Text of at most so many characters: the middle is left out, and more of the end is kept."""
    if len(text) <= width:
        return text
    left = max(0, (width - 1) // 3)
    return f"{text[:left]}…{text[len(text) - (width - 1 - left) :]}"


def several(count: int, noun: str, plural: str = "") -> str:
    """``1 node``, ``14 nodes``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {plural or f'{noun}s'}"


def some(texts: Iterable[str], most: int = 6) -> str:
    """The first few, and how many there are more."""
    found = list(texts)
    more = f", {len(found) - most:,} more" if len(found) > most else ""
    return (", ".join(found[:most]) or "none") + more


def _flat(cell: str) -> str:
    return " ".join(cell.split())


def _widths(rows: Sequence[Sequence[str]], numbers: Collection[int]) -> list[int]:
    """Of the columns, the widest made narrower until the table fits: names before numbers."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    room = COLUMNS - len(_GAP) * len(widths)
    for chosen in ([n for n in range(len(widths)) if n not in numbers], range(len(widths))):
        while sum(widths) > room and any(widths[n] > _LEAST for n in chosen):
            widths[max(chosen, key=widths.__getitem__)] -= 1
    return widths


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _cell(text: str, right: bool) -> str:
    side = "right" if right else "left"
    return f'<td style="text-align:{side}">{escape(text)}</td>'
