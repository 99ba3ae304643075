"""The op table: every op that Weft knows, one record each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weft.errors import InternalError
from weft.ops import (
    activation,
    arithmetic,
    attention,
    cast,
    control,
    convolution,
    generation,
    indexing,
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
    resampling,
    response,
    selection,
    shape,
    signal,
    slicing,
    softmax,
)
from weft.ops.record import Op

FAMILIES = (
    activation,
    arithmetic,
    attention,
    cast,
    control,
    convolution,
    generation,
    indexing,
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
    resampling,
    response,
    selection,
    shape,
    signal,
    slicing,
    softmax,
)


def _collect() -> Mapping[str, Op]:
    table: dict[str, Op] = {}
    for family in FAMILIES:
        for op in family.OPS:
            if op.name in table:
                raise InternalError(f"op {op.name} stands twice in the table")
            table[op.name] = op
    return MappingProxyType(table)


OPS: Mapping[str, Op] = _collect()
