"""The op table: every op that Weft knows, one record each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from weft.errors import InternalError, is_weft
from weft.ops import (
    activation,
    along,
    arithmetic,
    channels_last,
    control,
    convolution,
    counted,
    deformable,
    dynamic,
    fixed_point,
    fourier,
    framing,
    generation,
    global_pooling,
    indexing,
    integer,
    integer16,
    linear,
    logic,
    loss,
    lstm_cell,
    normalization,
    ordering,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    regions,
    requantization,
    resampling,
    response,
    rotary,
    sampling,
    scatter,
    selection,
    signal,
    slicing,
    special,
    suppression,
)
from weft.ops.attention import OPS as ATTENTION
from weft.ops.cast import OPS as CAST
from weft.ops.guard import guarded
from weft.ops.native import Native, identity, native_op
from weft.ops.record import Op
from weft.ops.shape import OPS as SHAPE
from weft.ops.softmax import OPS as SOFTMAX
from weft.plugins import Kind, Loaded, Table, Unusable

FAMILIES: Mapping[str, tuple[Op, ...]] = {
    "activation": activation.OPS,
    "along": along.OPS,
    "arithmetic": arithmetic.OPS,
    "attention": ATTENTION,
    "cast": CAST,
    "channels_last": channels_last.OPS,
    "convolution": convolution.OPS,
    "counted": counted.OPS,
    "deformable": deformable.OPS,
    "dynamic": dynamic.OPS,
    "fixed_point": fixed_point.OPS,
    "fourier": fourier.OPS,
    "framing": framing.OPS,
    "generation": generation.OPS,
    "global_pooling": global_pooling.OPS,
    "integer16": integer16.OPS,
    "indexing": indexing.OPS,
    "integer": integer.OPS,
    "linear": linear.OPS,
    "logic": logic.OPS,
    "loss": loss.OPS,
    "lstm_cell": lstm_cell.OPS,
    "normalization": normalization.OPS,
    "ordering": ordering.OPS,
    "padding": padding.OPS,
    "pooling": pooling.OPS,
    "quantization": quantization.OPS,
    "recurrent": recurrent.OPS,
    "reduction": reduction.OPS,
    "regions": regions.OPS,
    "requantization": requantization.OPS,
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
    "special": special.OPS,
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
    return part if is_weft(part.infer) else guarded(part)


class _Ops(Table[Op]):
    """The ops by name, and what kernels of plugins compute by the names of these."""

    def get(self, name: str, default: Any = None) -> Any:
        """The record of a name."""
        found = super().get(name)
        if found is not None:
            return found
        for each in KERNELS.loaded:
            if name == native_name(each):
                return native_op(super().get(each.part.op), each.part, name)
        return default

    def plain(self, name: str) -> Op | None:
        """The record of a name that is not a kernel's."""
        return super().get(name)


OPS: _Ops = _Ops(Kind.OPS, _collect(), _accept)


def _accept_kernel(_: str, part: object) -> Native:
    if not isinstance(part, Native):
        raise Unusable(f"it must be a Native of weft.ops.native, but is {type(part).__name__}")
    if OPS.plain(part.op) is None:
        raise Unusable(f"it is for the op {part.op}, which does not exist")
    for file in part.files:
        if not file.is_file():
            raise Unusable(f"its file {file} does not exist")
    return part


KERNELS: Table[Native] = Table(Kind.KERNELS, {}, _accept_kernel)
"""Kernels of plugins: functions in C and C++ for an op."""


def native_name(kernel: Loaded[Native]) -> str:
    """The name of the op that a kernel in C or C++ computes."""
    return f"{kernel.part.op}_by_{re.sub(r'[^A-Za-z0-9]+', '_', kernel.plugin.name)}"


def kernels_identity() -> list[str | bytes]:
    """What the loaded kernels of plugins consist of: a file may lie outside of its package."""
    return [part for kernel in KERNELS.loaded for part in identity(kernel.part)]
