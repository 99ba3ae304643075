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


OPS: Mapping[str, Op] = _collect()
