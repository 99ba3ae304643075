"""Where a search takes place: what its steps share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.cached import cached_property
from weft.ir.graph import Node
from weft.match.program import QueryProgram
from weft.match.search_state import Budget
from weft.match.view import QueryableGraph
from weft.records import dataclass


@dataclass(frozen=True)
class Site:
    """What the steps of one search share.

    Attributes:
        view: the graph.
        program: the query.
        budget: how much may be tried.
        without: nodes that must not take part.
    """

    view: QueryableGraph
    program: QueryProgram
    budget: Budget
    without: frozenset[str] = frozenset()

    @cached_property
    def by_op(self) -> Mapping[str, Sequence[Node]]:
        """The nodes of every op."""
        found: dict[str, list[Node]] = {}
        for node in self.view.nodes.values():
            found.setdefault(node.op, []).append(node)
        return found
