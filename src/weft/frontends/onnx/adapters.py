"""Older versions of ops, and forms that the op table does not have, in its terms.

The table says what stands behind an op's name in which versions.  Where a version only
kept as an attribute what the newest takes as an input (``Slice`` 1, ``Clip`` 6,
``ReduceSum`` 1, ...) there is nothing to do: Weft keeps it as an attribute, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from weft.frontends.onnx.adapt_counted import counted
from weft.frontends.onnx.adapt_data import (
    clip,
    constant_of_shape,
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
from weft.frontends.onnx.lowering import Lowering
from weft.frontends.onnx.request import Request
from weft.frontends.onnx.values import Value
from weft.frontends.onnx.windows import transposed_window, window

Adapter: TypeAlias = Callable[[Request, Lowering], Request | tuple[Value, ...]]
"""Gives a request in the newest version's terms, or the outputs if it is done."""

ANY = 1 << 16


@dataclass(frozen=True, slots=True)
class Entry:
    """What to do with versions ``since`` to ``until`` of an op."""

    op: str
    since: int
    until: int
    adapter: Adapter


def _windows(op: str) -> Entry:
    return Entry(op, 1, ANY, lambda request, _: window(request))


ENTRIES: tuple[Entry, ...] = (
    *(
        Entry(op, 1, 6, broadcast_axis)
        for op in "Add And Div Equal Greater Less Mul Or Pow Sub Xor PRelu".split()
    ),
    *(Entry(op, 1, 11, softmax_1) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    *(
        Entry(f"Reduce{kind}", 1, ANY, reduce_empty_axes)
        for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
    ),
    *(_windows(op) for op in "Conv ConvInteger QLinearConv MaxPool AveragePool".split()),
    Entry("LpPool", 1, 1, lp_pool_1),
    _windows("LpPool"),
    Entry("ConvTranspose", 1, ANY, lambda request, _: transposed_window(request)),
    Entry("BatchNormalization", 1, ANY, batch_normalization),
    Entry("Cast", 1, 5, cast_1),
    Entry("Clip", 1, ANY, clip),
    Entry("ConstantOfShape", 1, ANY, constant_of_shape),
    Entry("Dropout", 1, ANY, dropout),
    Entry("Gemm", 1, 6, gemm_1),
    Entry("GroupNormalization", 18, 20, group_normalization_18),
    Entry("InstanceNormalization", 1, 5, drop_is_test),
    *(Entry(op, 1, ANY, many_operands) for op in ("Max", "Min", "Sum")),
    Entry("Mean", 1, ANY, many_mean),
    Entry("NonMaxSuppression", 1, ANY, counted),
    Entry("NonZero", 1, ANY, counted),
    Entry("Pad", 1, 1, pad_1),
    Entry("Pad", 18, ANY, pad_axes),
    Entry("PRelu", 1, 6, prelu_1),
    Entry("RNN", 1, ANY, rnn_activations),
    Entry("Range", 1, ANY, range_type),
    Entry("Reshape", 1, ANY, reshape),
    Entry("Resize", 10, 10, resize_10),
    Entry("Resize", 11, ANY, resize),
    Entry("Scatter", 1, ANY, scatter),
    Entry("Tile", 1, 5, tile_1),
    Entry("Unique", 1, ANY, counted),
    Entry("Upsample", 1, ANY, upsample),
)


def _by_op() -> Mapping[str, tuple[Entry, ...]]:
    found: dict[str, list[Entry]] = {}
    for entry in ENTRIES:
        found.setdefault(entry.op, []).append(entry)
    return MappingProxyType({op: tuple(entries) for op, entries in found.items()})


ADAPTERS: Mapping[str, tuple[Entry, ...]] = _by_op()


def adapt(request: Request, lowering: Lowering) -> Request | tuple[Value, ...]:
    """Carry out the entries for an op's version, one after the other."""
    for entry in ADAPTERS.get(request.op, ()):
        if entry.since <= request.version <= entry.until:
            done = entry.adapter(request, lowering)
            if isinstance(done, tuple):
                return done
            request = done
    return request
