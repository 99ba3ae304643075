"""Where a search takes place: what its steps share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.ir.graph import Node
from weft.match.program import Program
from weft.match.view import View
from weft.match.ways import Budget


@dataclass(frozen=True)
class Site:
    """What the steps of one search share.

    Attributes:
        view: the graph.
        program: the query.
        budget: how much may be tried.
        without: nodes that must not take part.
    """

    view: View
    program: Program
    budget: Budget
    without: frozenset[str] = frozenset()

    @cached_property
    def by_op(self) -> Mapping[str, Sequence[Node]]:
        """The nodes of every op."""
        found: dict[str, list[Node]] = {}
        for node in self.view.nodes.values():
            found.setdefault(node.op, []).append(node)
        return found
