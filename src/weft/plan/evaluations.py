"""How often values are computed, and which of them are worth computing once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from weft.loops.definition import Compute
from weft.loops.nodes import FUNCTIONS, Binary, Expr, Load, Reduce, Unary
from weft.loops.walk import children, free_vars, walk

_COSTLY = FUNCTIONS | frozenset("pow floordiv mod fmod".split())


def is_costly(value: Expr) -> bool:
    """Whether an expression has functions or divisions."""
    return any(
        isinstance(node, (Unary, Binary)) and (node.op in _COSTLY or node.op == "div")
        for node in walk(value)
    )


def uses_of(compute: Compute, buffer: str) -> Iterator[tuple[Load, int]]:
    """Every place where a buffer is loaded, and how often its element changes there.

    What does not depend on an inner loop is taken to be computed outside of it, unless
    the innermost axis of the output is among what it depends on.
    """
    extents = {axis.var: axis.extent for axis in compute.axes}
    innermost = compute.axes[-1].var if compute.axes else ""
    yield from _Uses(buffer, extents, innermost).of(compute.value, extents)


class _Uses(NamedTuple):
    """What ``uses_of`` looks for; no function inside of it, which would be a cycle."""

    buffer: str
    extents: Mapping[str, int]
    innermost: str

    def of(self, value: Expr, ranges: Mapping[str, int]) -> Iterator[tuple[Load, int]]:
        if isinstance(value, Load) and value.buffer == self.buffer:
            names = frozenset[str]().union(*map(free_vars, value.index))
            names = ranges.keys() if self.innermost in names else names
            yield value, prod(ranges.get(name, 1) for name in names)
        if isinstance(value, Reduce):
            known = self.extents
            outer = {name: known[name] for name in free_vars(value) if name in known}
            ranges = outer | {axis.var: axis.extent for axis in value.axes}
        for child in children(value):
            yield from self.of(child, ranges)
