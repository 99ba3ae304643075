"""Operators that call subgraphs, and variables.

A branch is chosen at import if its condition is known; else both are computed.  A loop is unrolled:
its condition must be known in every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from weft.frontends.emit import Tensor
from weft.frontends.litert.importer import Importer
from weft.frontends.litert.record import Emit, Kind, Resource, Value, litert

MOST_ROUNDS = 1024


def _called(g: Emit, subgraph: int, given: Sequence[Value]) -> list[Value]:
    """What a subgraph gives for these inputs."""
    importer = cast(Importer, g.importer)
    frame = importer.frame(subgraph)
    if len(frame.graph.inputs) != len(given):
        g.refuse(f"subgraph {subgraph} takes {len(frame.graph.inputs)} inputs, not {len(given)}")
    frame.values.update(zip(frame.graph.inputs, given, strict=True))
    refused = len(importer.refusals)
    found = importer.run(frame)
    if len(importer.refusals) > refused or any(each is None for each in found):
        g.refuse(f"subgraph {subgraph} cannot be imported")
    return [each for each in found if each is not None]


def _truth(g: Emit, x: Value) -> bool | None:
    """A condition; ``None`` if it is computed."""
    array = g.array(x) if isinstance(x, Tensor) else None
    if array is not None and array.size != 1:
        g.refuse("a condition must be one value")
    return bool(array.reshape(-1)[0]) if array is not None else None


@litert("CALL", kind=Kind.RAW)
def call(g: Emit, *given: Tensor, subgraph: int) -> list[Value]:
    return _called(g, subgraph, given)


@litert("CALL_ONCE", kind=Kind.RAW)
def call_once(g: Emit, *, init_subgraph_index: int) -> None:
    importer = cast(Importer, g.importer)
    importer.initializing = True
    try:
        _called(g, init_subgraph_index, ())
    finally:
        importer.initializing = False


@litert("IF", kind=Kind.RAW)
def if_(
    g: Emit, condition: Tensor, *given: Tensor, then_subgraph_index: int, else_subgraph_index: int
) -> list[Value]:
    branches = (else_subgraph_index, then_subgraph_index)
    truth = _truth(g, condition)
    if truth is not None:
        return _called(g, branches[truth], given)
    if condition.type.size != 1:
        g.refuse("a condition must be one value")
    _refuse_assignments(g, branches)
    below, above = (_called(g, each, given) for each in branches)
    scalar = g.reshape(condition, ())
    made: list[Value] = []
    for one, other in zip(above, below, strict=True):
        if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.type != other.type:
            g.refuse("both branches must give the same types")
        made.append(g("Where", scalar, one, other))
    return made


def _refuse_assignments(g: Emit, branches: Sequence[int]) -> None:
    importer = cast(Importer, g.importer)
    for branch in branches:
        for each in importer.frame(branch).graph.operators:
            if each.name in ("ASSIGN_VARIABLE", "CALL_ONCE", "IF", "WHILE", "CALL"):
                g.refuse(f"{each.name} under a condition that is computed is not supported")


@litert("WHILE", kind=Kind.RAW)
def while_(
    g: Emit, *given: Tensor, cond_subgraph_index: int, body_subgraph_index: int
) -> list[Value]:
    state: list[Value] = list(given)
    for _ in range(MOST_ROUNDS):
        (condition,) = _called(g, cond_subgraph_index, state)
        truth = _truth(g, condition)
        if truth is None:
            g.refuse("the condition of a loop must be known before the model runs")
        if not truth:
            return state
        state = _called(g, body_subgraph_index, state)
        if len(state) != len(given):
            g.refuse("the body of a loop must give as many values as it takes")
    g.refuse(f"a loop may have {MOST_ROUNDS} rounds")


# --- variables --------------------------------------------------------------------------------


@litert("VAR_HANDLE", kind=Kind.RAW)
def var_handle(
    g: Emit, *, container: bytes | None = None, shared_name: bytes | None = None
) -> Resource:
    parts = [(each or b"").decode("utf-8", "replace") for each in (container, shared_name)]
    return Resource("/".join(part for part in parts if part) or "variable")


@litert("READ_VARIABLE", kind=Kind.RAW)
def read_variable(g: Emit, resource: Value) -> Tensor:
    if not isinstance(resource, Resource):
        g.refuse("a variable must be read")
    importer = cast(Importer, g.importer)
    found = importer.variables.get(resource.name)
    begun = found.initial if found is not None and found.value is None else None
    if begun is not None and not importer.assigns():
        return g.constant(np.ascontiguousarray(begun), f"{resource.name}/value")
    return importer.variable(resource.name, g.result)


@litert("ASSIGN_VARIABLE", kind=Kind.RAW)
def assign_variable(g: Emit, resource: Value, value: Tensor) -> None:
    if not isinstance(resource, Resource):
        g.refuse("a variable must be assigned")
    cast(Importer, g.importer).assign(resource.name, value)
