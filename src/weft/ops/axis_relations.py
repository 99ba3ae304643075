"""What an op's definition says of the axes of what it reads and makes.

The one place where facts such as "channels pass through", "it is summed over" or "a window
slides along it" come from: they are read off index expressions, never listed by op.  Composite
ops are asked through what they expand to.
"""

from __future__ import annotations

from dataclasses import replace as changed
from functools import lru_cache

from weft.ir.graph import Graph, Node
from weft.ir.types import Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Const, Load, Reduce, Var
from weft.loops.walk import children, walk
from weft.ops.expand import expand
from weft.ops.record import Call, Define, Expand
from weft.ops.table import OPS

_OPEN = 3
"""What an open size is taken to be: what is said of axes does not depend on it."""
_REMEMBERED = 4096


def definition(call: Call) -> tuple[Compute, ...] | None:
    """The index expression of each output; ``None`` for ops that are not defined by any."""
    compute = OPS[call.op].compute
    return _computes(compute, _kind(call)) if isinstance(compute, Define) else None


def expansion(call: Call) -> Graph | None:
    """What a composite op stands for, without composite ops; ``None`` for other ops.

    Its inputs are called ``in0``, ``in1``, ... (absent ones are left out), its outputs
    ``out0``, ``out1``, ...
    """
    compute = OPS[call.op].compute
    return _expanded(compute, _kind(call)) if isinstance(compute, Expand) else None


def is_elementwise(call: Call) -> bool:
    """Whether each element of the one output is computed from the elements at its place.

    Inputs are aligned at the right and repeated along axes of 1, as in NumPy.
    """
    computes = definition(call)
    if computes is None or len(computes) != 1:
        return False
    (compute,) = computes
    point = [Var(axis.var) for axis in compute.axes]
    pending, seen = [compute.value], set[int]()
    while pending:
        expr = pending.pop()
        match expr:
            case Reduce() | Var():
                return False
            case Load(_, where, _):
                aligned = point[len(point) - len(where) :]
                if not all(
                    each == own or (isinstance(each, Const) and each.value == 0)
                    for each, own in zip(where, aligned, strict=True)
                ):
                    return False
            case _ if id(expr) not in seen:
                seen.add(id(expr))
                pending += children(expr)
            case _:
                pass
    return any(isinstance(expr, Load) for expr in walk(compute.value))


def _kind(call: Call) -> Call:
    """What nodes of one kind have in common: no place in a model, no open sizes."""
    return changed(call, inputs=tuple(map(_closed, call.inputs)), where="")


def _closed(type: TensorType | None) -> TensorType | None:
    if type is None or type.is_static:
        return type
    shape = tuple(_OPEN if isinstance(dim, Symbol) else dim for dim in type.shape)
    return TensorType(type.dtype, shape)


@lru_cache(_REMEMBERED)
def _computes(compute: Define, call: Call) -> tuple[Compute, ...]:
    return compute.function(call)


@lru_cache(_REMEMBERED)
def _expanded(compute: Expand, call: Call) -> Graph:
    given = {f"in{n}": type for n, type in enumerate(call.inputs) if type is not None}
    inputs = tuple(f"in{n}" if type else "" for n, type in enumerate(call.inputs))
    made = OPS[call.op].infer(call)[: call.outputs]
    types = {**given, **{f"out{n}": type for n, type in enumerate(made)}}
    outputs = tuple(f"out{n}" for n in range(len(made)))
    node = Node(call.op.lower(), call.op, inputs, outputs, call.attributes)
    return expand(Graph(call.op.lower(), tuple(given), outputs, (node,), types), OPS)
