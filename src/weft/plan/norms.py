"""Which values a norm measures: their rounding counts relative to each row, however small it is.

A row that is divided by its own norm has a length of one after it.  What an algorithm that shares
sums among rows (Strassen's) leaves in a row of zeros, such as that of a padded token, would be
as large as any other row then.
"""

from __future__ import annotations

from weft.loops.nodes import Binary, Expr, Load, Reduce, Unary
from weft.loops.walk import loads, reduces, walk
from weft.plan.tensors import Assembled, Defined, TensorProgram


def measured(program: TensorProgram) -> frozenset[str]:
    """The values whose squares or magnitudes are added, and what these are made of.

    These are values that are only moved in between, or go through functions of one value and
    constants.
    """
    makers = {item.value: item for item in program.items if isinstance(item, Defined | Assembled)}
    found: set[str] = set()
    left = [value for item in makers.values() if isinstance(item, Defined) for value in _by(item)]
    while left:
        value = left.pop()
        if value in found:
            continue
        found.add(value)
        match makers.get(value):
            case Defined(compute=compute) if not reduces(compute.value):
                reads = {load.buffer for load in loads(compute.value)} - program.constants.keys()
                left += reads if len(reads) == 1 else ()
            case Assembled(parts=parts):
                left += parts
            case _:
                pass
    return frozenset(found)


def _by(item: Defined) -> list[str]:
    """The values that one measures: with its sums, or with squares that others add."""
    value = item.compute.value
    terms = [node.value for node in walk(value) if isinstance(node, Reduce) and node.op == "sum"]
    return [found for term in (value, *terms) if (found := _squared(term))]


def _squared(term: Expr) -> str | None:
    match term:
        case Binary("mul", Load() as lhs, Load() as rhs) if lhs == rhs:
            return lhs.buffer
        case Unary("abs", Load() as x):
            return x.buffer
        case _:
            return None
