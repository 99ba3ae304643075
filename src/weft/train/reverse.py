"""Reverse-mode differentiation: nodes that compute gradients, added to a graph.

The gradient of a value is accumulated from its users to its producers, as in
Griewank and Walther, *Evaluating Derivatives*, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import UserError
from weft.ir.graph import Node
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import call_of
from weft.ops.record import NoGrad
from weft.ops.steps import Steps


def gradients(builder: GraphBuilder, y: str, xs: Sequence[str]) -> tuple[str, ...]:
    """Adds the gradients of the sum of a value's elements.

    Args:
        builder: knows the nodes between ``xs`` and ``y``, whose types are static.
        y: a value of floating-point type.
        xs: the values to differentiate by; what lies behind them counts as constant.

    Returns:
        For each of ``xs`` the name of a value of its type: ``d sum(y) / d x``.

    Raises:
        UserError: an op on the way has no derivative; says which, and why.
    """
    steps = Steps(builder)
    found: dict[str, str] = {y: builder.constant(_filled(builder, y, 1), "one")}
    for node in reversed(_between(builder.nodes, y, xs)):
        wanted = [found.get(value, "") if value else "" for value in node.outputs]
        if any(wanted):
            _propagate(builder, steps, node, wanted, found, frozenset(xs))
    return tuple(found.get(x) or builder.constant(_filled(builder, x, 0), "zero") for x in xs)


def _filled(builder: GraphBuilder, value: str, number: int) -> np.ndarray:
    type = builder.types[value]
    return np.full(type.dims, number, type.dtype.numpy)


def _between(nodes: Sequence[Node], y: str, xs: Sequence[str]) -> list[Node]:
    """The nodes that depend on ``xs``, up to the one that makes ``y``."""
    reached = set(xs)
    found: list[Node] = []
    if y in reached:
        return found
    for node in nodes:
        if not reached.isdisjoint(node.inputs) and reached.isdisjoint(node.outputs):
            reached.update(value for value in node.outputs if value)
            found.append(node)
        if y in node.outputs:
            break
    return found


def _propagate(
    builder: GraphBuilder,
    steps: Steps,
    node: Node,
    wanted: list[str],
    found: dict[str, str],
    xs: frozenset[str],
) -> None:
    """Adds what a node hands on to the gradients of its inputs."""
    record = builder.ops[node.op]
    if isinstance(record.grad, NoGrad):
        raise UserError(
            f"{node.op} cannot be differentiated: {record.grad.why}", where=f"node {node.name}"
        )
    whole = [
        gradient or builder.constant(_filled(builder, value, 0), "zero")
        for gradient, value in zip(wanted, node.outputs, strict=True)
        if value
    ]
    call = call_of(node, builder.types)
    made = record.grad(call, builder, node.inputs, node.outputs, whole)
    for value, gradient in zip(node.inputs, made, strict=True):
        if value and gradient:
            before = found.get(value)
            found[value] = steps.op("Add", before, gradient) if before else gradient
    for value in node.outputs:
        if value not in xs:
            found.pop(value, None)
