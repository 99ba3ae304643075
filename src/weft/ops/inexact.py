"""Which values depend on how floats are added, and on whose functions compute them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.loops.nodes import Binary, Reduce, Unary
from weft.loops.walk import dtype_of, walk
from weft.ops.evaluate import call_of
from weft.ops.record import Define, Op

# Of these, any correct implementation gives the same bits.
_EXACT = frozenset(
    {"neg", "abs", "sqrt", "floor", "ceil", "round", "trunc", "sign", "not", "isnan", "isinf"}
)


def inexact_values(
    nodes: Iterable[Node], types: Mapping[str, TensorType], ops: Mapping[str, Op]
) -> frozenset[str]:
    """What nodes compute from sums of floats or from functions such as exponentials.

    Kernels add in different orders, compilers fuse products with sums, and libraries differ in
    such functions, so the last bits of these floats vary. Where one lies half way between two
    integers, it may be rounded to either.

    Args:
        nodes: in order; what other nodes compute counts as exact.
        types: of the values.
        ops: the op table.
    """
    found: set[str] = set()
    for node in nodes:
        if not found.isdisjoint(node.inputs) or _sums_floats(node, types, ops):
            found.update(name for name in node.outputs if name)
    return frozenset(found)


def _sums_floats(node: Node, types: Mapping[str, TensorType], ops: Mapping[str, Op]) -> bool:
    op = ops.get(node.op)
    if op is None or not any(name and types[name].dtype.is_float for name in node.inputs):
        return False
    if not isinstance(op.compute, Define):
        return True
    parts = (
        each for made in op.compute.function(call_of(node, types)) for each in walk(made.value)
    )
    return any(_varies(each) and dtype_of(each).is_float for each in parts)


def _varies(part: object) -> bool:
    match part:
        case Reduce(op=op):
            return op in ("sum", "prod")
        case Unary(op=op):
            return op not in _EXACT
        case Binary(op=op):
            return op in ("pow", "atan2")
        case _:
            return False
