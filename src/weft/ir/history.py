"""What made a graph: one entry for each edit, rewrite and recipe."""

from __future__ import annotations

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One edit, rewrite or recipe.

    Attributes:
        name: of the edit or recipe (``replace``, ``rewrite``, ``tile-convolution``).
        what: it was done to (``2 nodes by 1: conv, relu``).
    """

    name: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.what}" if self.what else self.name
