"""What made a graph: one entry for each edit, rewrite and recipe."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Entry:
    """One edit, rewrite or recipe.

    Attributes:
        name: of the edit or recipe (``replace``, ``rewrite``, ``tile-convolution``).
        what: it was done to (``2 nodes by 1: conv, relu``).
    """

    name: str
    what: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.what}" if self.what else self.name


def noted(graph: Graph, name: str, what: str = "") -> Graph:
    """The graph with one more entry in its history: the one way to add to it."""
    return changed(graph, history=(*graph.history, Entry(name, what)))
