"""The op table: every op that Weft knows, one record each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weft.errors import InternalError
from weft.ops import (
    activation,
    along,
    arithmetic,
    attention,
    cast,
    control,
    convolution,
    counted,
    deformable,
    generation,
    global_pooling,
    indexing,
    integer,
    linear,
    logic,
    loss,
    normalization,
    ordering,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    regions,
    resampling,
    response,
    rotary,
    sampling,
    scatter,
    selection,
    shape,
    signal,
    slicing,
    softmax,
    suppression,
)
from weft.ops.record import Op
from weft.plugins import Kind, Table, Unusable

FAMILIES = (
    activation,
    along,
    arithmetic,
    attention,
    cast,
    convolution,
    counted,
    deformable,
    generation,
    global_pooling,
    indexing,
    integer,
    linear,
    logic,
    loss,
    normalization,
    ordering,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    regions,
    resampling,
    response,
    rotary,
    sampling,
    scatter,
    selection,
    shape,
    signal,
    slicing,
    softmax,
    suppression,
)


def _table() -> Mapping[str, Op]:
    return OPS


def _collect() -> Mapping[str, Op]:
    table: dict[str, Op] = {}
    # Control flow runs bodies made of any op, so its records ask for the table when used.
    for op in (*(op for family in FAMILIES for op in family.OPS), *control.ops(_table)):
        if op.name in table:
            raise InternalError(f"op {op.name} stands twice in the table")
        table[op.name] = op
    return MappingProxyType(table)


def _accept(name: str, part: object) -> Op:
    if not isinstance(part, Op):
        raise Unusable(f"it must be an Op of weft.ops.record, but is {type(part).__name__}")
    if part.name != name:
        raise Unusable(f"the entry point must have the op's name, which is {part.name}")
    return part


OPS: Table[Op] = Table(Kind.OPS, _collect(), _accept)
