"""Older versions of ops, and forms that the op table does not have, in its terms.

The table says what stands behind an op's name in which versions.  Where a version only
kept as an attribute what the newest takes as an input (``Slice`` 1, ``Clip`` 6,
``ReduceSum`` 1, ...) there is nothing to do: Weft keeps it as an attribute, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from weft.frontends.onnx.adapt_data import (
    clip,
    constant_of_shape,
    counted,
    pad_1,
    pad_axes,
    reshape,
    resize,
    resize_10,
    scatter,
    tile_1,
    upsample,
)
from weft.frontends.onnx.adapt_math import (
    batch_normalization,
    broadcast_axis,
    cast_1,
    drop_is_test,
    dropout,
    gemm_1,
    group_normalization_18,
    lp_pool_1,
    many_mean,
    many_operands,
    prelu_1,
    range_type,
    reduce_empty_axes,
    rnn_activations,
    softmax_1,
)
from weft.frontends.onnx.lowering import NodeLowering
from weft.frontends.onnx.request import Request
from weft.frontends.onnx.values import Value
from weft.frontends.onnx.windows import transposed_window, window
from weft.records import dataclass

Adapter: TypeAlias = Callable[[Request, NodeLowering], Request | tuple[Value, ...]]
"""Gives a request in the newest version's terms, or the outputs if it is done."""

ANY = 1 << 16


@dataclass(frozen=True, slots=True)
class AdapterEntry:
    """What to do with versions ``since`` to ``until`` of an op."""

    op: str
    since: int
    until: int
    adapter: Adapter


def _windows(op: str) -> AdapterEntry:
    return AdapterEntry(op, 1, ANY, lambda request, _: window(request))


ENTRIES: tuple[AdapterEntry, ...] = (
    *(
        AdapterEntry(op, 1, 6, broadcast_axis)
        for op in "Add And Div Equal Greater Less Mul Or Pow Sub Xor PRelu".split()
    ),
    *(AdapterEntry(op, 1, 11, softmax_1) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    *(
        AdapterEntry(f"Reduce{kind}", 1, ANY, reduce_empty_axes)
        for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
    ),
    *(_windows(op) for op in "Conv ConvInteger QLinearConv MaxPool AveragePool".split()),
    AdapterEntry("LpPool", 1, 1, lp_pool_1),
    _windows("LpPool"),
    AdapterEntry("ConvTranspose", 1, ANY, lambda request, _: transposed_window(request)),
    AdapterEntry("BatchNormalization", 1, ANY, batch_normalization),
    AdapterEntry("Cast", 1, 5, cast_1),
    AdapterEntry("Clip", 1, ANY, clip),
    AdapterEntry("ConstantOfShape", 1, ANY, constant_of_shape),
    AdapterEntry("Dropout", 1, ANY, dropout),
    AdapterEntry("Gemm", 1, 6, gemm_1),
    AdapterEntry("GroupNormalization", 18, 20, group_normalization_18),
    AdapterEntry("InstanceNormalization", 1, 5, drop_is_test),
    *(AdapterEntry(op, 1, ANY, many_operands) for op in ("Max", "Min", "Sum")),
    AdapterEntry("Mean", 1, ANY, many_mean),
    AdapterEntry("NonMaxSuppression", 1, ANY, counted),
    AdapterEntry("NonZero", 1, ANY, counted),
    AdapterEntry("Pad", 1, 1, pad_1),
    AdapterEntry("Pad", 18, ANY, pad_axes),
    AdapterEntry("PRelu", 1, 6, prelu_1),
    AdapterEntry("RNN", 1, ANY, rnn_activations),
    AdapterEntry("Range", 1, ANY, range_type),
    AdapterEntry("Reshape", 1, ANY, reshape),
    AdapterEntry("Resize", 10, 10, resize_10),
    AdapterEntry("Resize", 11, ANY, resize),
    AdapterEntry("Scatter", 1, ANY, scatter),
    AdapterEntry("Tile", 1, 5, tile_1),
    AdapterEntry("Unique", 1, ANY, counted),
    AdapterEntry("Upsample", 1, ANY, upsample),
)


def _by_op() -> Mapping[str, tuple[AdapterEntry, ...]]:
    found: dict[str, list[AdapterEntry]] = {}
    for entry in ENTRIES:
        found.setdefault(entry.op, []).append(entry)
    return MappingProxyType({op: tuple(entries) for op, entries in found.items()})


ADAPTERS: Mapping[str, tuple[AdapterEntry, ...]] = _by_op()


def adapt(request: Request, lowering: NodeLowering) -> Request | tuple[Value, ...]:
    """Carry out the entries for an op's version, one after the other."""
    for entry in ADAPTERS.get(request.op, ()):
        if entry.since <= request.version <= entry.until:
            done = entry.adapter(request, lowering)
            if isinstance(done, tuple):
                return done
            request = done
    return request
