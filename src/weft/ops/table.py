"""The op table: every op that Weft knows, one record each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weft.errors import InternalError
from weft.ops import (
    activation,
    along,
    arithmetic,
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
    signal,
    slicing,
    suppression,
)
from weft.ops.attention import OPS as ATTENTION
from weft.ops.cast import OPS as CAST
from weft.ops.record import Op
from weft.ops.shape import OPS as SHAPE
from weft.ops.softmax import OPS as SOFTMAX
from weft.plugins import Kind, Table, Unusable

FAMILIES = (
    activation.OPS,
    along.OPS,
    arithmetic.OPS,
    ATTENTION,
    CAST,
    convolution.OPS,
    counted.OPS,
    deformable.OPS,
    generation.OPS,
    global_pooling.OPS,
    indexing.OPS,
    integer.OPS,
    linear.OPS,
    logic.OPS,
    loss.OPS,
    normalization.OPS,
    ordering.OPS,
    padding.OPS,
    pooling.OPS,
    quantization.OPS,
    recurrent.OPS,
    reduction.OPS,
    regions.OPS,
    resampling.OPS,
    response.OPS,
    rotary.OPS,
    sampling.OPS,
    scatter.OPS,
    selection.OPS,
    SHAPE,
    signal.OPS,
    slicing.OPS,
    SOFTMAX,
    suppression.OPS,
)


def _table() -> Mapping[str, Op]:
    return OPS


def _collect() -> Mapping[str, Op]:
    table: dict[str, Op] = {}
    # Control flow runs bodies made of any op, so its records ask for the table when used.
    for op in (*(op for family in FAMILIES for op in family), *control.ops(_table)):
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
