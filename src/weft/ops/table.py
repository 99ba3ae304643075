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

FAMILIES: Mapping[str, tuple[Op, ...]] = {
    "activation": activation.OPS,
    "along": along.OPS,
    "arithmetic": arithmetic.OPS,
    "attention": ATTENTION,
    "cast": CAST,
    "convolution": convolution.OPS,
    "counted": counted.OPS,
    "deformable": deformable.OPS,
    "generation": generation.OPS,
    "global_pooling": global_pooling.OPS,
    "indexing": indexing.OPS,
    "integer": integer.OPS,
    "linear": linear.OPS,
    "logic": logic.OPS,
    "loss": loss.OPS,
    "normalization": normalization.OPS,
    "ordering": ordering.OPS,
    "padding": padding.OPS,
    "pooling": pooling.OPS,
    "quantization": quantization.OPS,
    "recurrent": recurrent.OPS,
    "reduction": reduction.OPS,
    "regions": regions.OPS,
    "resampling": resampling.OPS,
    "response": response.OPS,
    "rotary": rotary.OPS,
    "sampling": sampling.OPS,
    "scatter": scatter.OPS,
    "selection": selection.OPS,
    "shape": SHAPE,
    "signal": signal.OPS,
    "slicing": slicing.OPS,
    "softmax": SOFTMAX,
    "suppression": suppression.OPS,
}
"""The ops by family, which is the file that they stand in."""


def _table() -> Mapping[str, Op]:
    return OPS


def _collect() -> Mapping[str, Op]:
    table: dict[str, Op] = {}
    # Control flow runs bodies made of any op, so its records ask for the table when used.
    for op in (*(op for family in FAMILIES.values() for op in family), *control.ops(_table)):
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
