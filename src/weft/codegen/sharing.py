"""Expressions that are graphs in memory: what to compute once and name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.codegen.composite import vector_parts
from weft.dtypes import DType
from weft.loops.nodes import Expr, Load, Operation, Select, Store
from weft.loops.walk import children, dtype_of, loads, walk


def shared_nodes(root: Expr, parts: Callable[[Expr], Iterable[Expr]] = children) -> list[Expr]:
    """Operations with more than one parent, operands first, that may be computed up front.

    What only one side of a selection computes must stay there if it loads: the load may be
    out of bounds on the other side.

    Args:
        root: the expression.
        parts: what an operation is computed from.
    """
    parents: dict[int, int] = {}
    order: list[Expr] = []
    _count(root, parents, order, parts)
    found = [
        node
        for node in order
        if parents[id(node)] > 1
        and isinstance(node, Operation | Select)
        and (dtype_of(node) is not DType.I64 or any(loads(node)))
    ]
    if not found:
        return []
    always: set[int] = set()
    _reach(root, always)
    # Places in buffers are simplified as a whole.
    places = {id(node) for load in loads(root) for node in walk(*load.index)}
    return [
        node
        for node in found
        if (dtype_of(node) is not DType.I64 or id(node) not in places)
        and (id(node) in always or not any(loads(node)))
    ]


class Sharing:
    """``shared_nodes`` and ``guarded_loads`` of the values of stores, which loops write many times
    where they are unrolled.
    """

    def __init__(self) -> None:
        # By identity; the store is kept so that its identity stays its own.
        self._nodes: dict[tuple[int, bool], tuple[Store, list[Expr]]] = {}
        self._guarded: dict[int, tuple[Store, list[Load]]] = {}

    def nodes(self, stmt: Store, *, vectors: bool) -> list[Expr]:
        """What to compute once and name where the value is written as a vector, or is not."""
        found = self._nodes.get((id(stmt), vectors))
        if found is None:
            parts = vector_parts if vectors else children
            found = self._nodes[id(stmt), vectors] = stmt, shared_nodes(stmt.value, parts)
        return found[1]

    def guarded(self, stmt: Store) -> list[Load]:
        """What only one side of a selection loads."""
        found = self._guarded.get(id(stmt))
        if found is None:
            found = self._guarded[id(stmt)] = stmt, guarded_loads(stmt.value)
        return found[1]


def guarded_loads(root: Expr) -> list[Load]:
    """Loads that only one side of a selection asks for."""
    if not any(isinstance(node, Select) for node in walk(root)):
        return []
    always: set[int] = set()
    _reach(root, always)
    return [load for load in loads(root) if id(load) not in always]


def _count(
    node: Expr,
    parents: dict[int, int],
    order: list[Expr],
    parts: Callable[[Expr], Iterable[Expr]],
) -> None:
    seen = id(node) in parents
    parents[id(node)] = parents.get(id(node), 0) + 1
    if seen:
        return
    for child in parts(node):
        _count(child, parents, order, parts)
    order.append(node)


def _reach(node: Expr, always: set[int]) -> None:
    if id(node) in always:
        return
    always.add(id(node))
    for child in (node.condition,) if isinstance(node, Select) else children(node):
        _reach(child, always)
