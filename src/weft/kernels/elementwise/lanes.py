"""How many lanes vectors of an expression have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weft.dtypes import DType
from weft.loops.fixed_point import requantization_of
from weft.loops.nodes import Cast, Conversion, Expr, Load
from weft.loops.python_arithmetic import HALVES
from weft.loops.walk import children, dtype_of
from weft.targets.target import Target


def lanes_of(target: Target, value: Expr) -> int:
    """Lanes that fit a register whatever is computed in them; wider vectors are cut badly."""
    held = (*_computed(value), dtype_of(value))
    return min(target.lanes(DType.F32 if each in HALVES else each) for each in held)


def _computed(value: Expr) -> Iterator[DType]:
    """Types of all values of an expression but for indices and conditions."""
    for node in distinct(value, _parts):
        if isinstance(node, Load | Conversion):
            yield dtype_of(node)


def _parts(node: Expr) -> Sequence[Expr]:
    """What a value is computed from; requantizations hold their products in pairs of vectors."""
    found = requantization_of(node) if isinstance(node, Cast) else None
    return children(node) if found is None else found.operands


def distinct(value: Expr, parts: Callable[[Expr], Sequence[Expr]]) -> Iterator[Expr]:
    """An expression and its parts, each once, not going into the indices of loads."""
    stack, seen = [value], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if not isinstance(node, Load):
            stack.extend(reversed(parts(node)))
