# pyright: basic
"""Pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Tensor
from weft.torch.aten.convolution import batched, per_axis, unbatched
from weft.torch.aten.record import Emit, Row, aten


def _window(
    rank: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> dict[str, Any]:
    """Attributes of a pool."""
    kernel = per_axis(kernel_size, rank)
    return {
        "kernel": kernel,
        "strides": per_axis(stride, rank) if stride else kernel,
        "pads": per_axis(padding, rank) * 2,
        "ceil_mode": int(ceil_mode),
    }


# --- the largest ------------------------------------------------------------------------------


def _max_pool(rank: int, *, indices: bool) -> Row:
    def row(
        g: Emit,
        self: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        window = _window(rank, kernel_size, stride, padding, ceil_mode)
        window["dilations"] = per_axis(dilation, rank)
        x = batched(g, self, rank)
        largest = unbatched(g, g("MaxPool", x, **window), self)
        if not indices:
            return largest
        # A node of its own, which goes where nothing reads the indices.
        _, places = g.several("MaxPool", x, outputs=2, **window)
        plane = g.number(prod(x.shape[2:]), DType.I64)
        return largest, unbatched(g, g("Mod", places, plane), self)

    return row


for _rank in (1, 2, 3):
    aten(f"max_pool{_rank}d.default")(_max_pool(_rank, indices=False))
    aten(f"max_pool{_rank}d_with_indices.default")(_max_pool(_rank, indices=True))


# --- the mean ---------------------------------------------------------------------------------


def _avg_pool(rank: int) -> Row:
    def row(
        g: Emit,
        self: Tensor,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None = None,
    ) -> Tensor:
        window = _window(rank, kernel_size, stride, padding, ceil_mode)
        x = batched(g, self, rank)
        if divisor_override:
            made = _sum_pool(g, x, window)
            made = g("Mul", made, g.number(prod(window["kernel"]) / divisor_override, made.dtype))
        else:
            made = g("AveragePool", x, count_include_pad=int(count_include_pad), **window)
        return unbatched(g, made, self)

    return row


def _sum_pool(g: Emit, x: Tensor, window: dict[str, Any]) -> Tensor:
    """Sums of windows over their size, wherever they lie: padded by as much as they reach."""
    sizes = g.result.dims[-len(window["kernel"]) :]
    begins = window["pads"][: len(sizes)]
    reach = zip(sizes, window["strides"], window["kernel"], begins, x.shape[2:], strict=True)
    ends = [
        max(0, (size - 1) * stride + taps - begin - extent)
        for size, stride, taps, begin, extent in reach
    ]
    padded = g("Pad", x, pads=(0, 0, *begins, 0, 0, *ends)) if any((*begins, *ends)) else x
    window = {**window, "pads": (0,) * 2 * len(sizes), "ceil_mode": 0}
    return g("AveragePool", padded, **window)


for _rank in (1, 2, 3):
    aten(f"avg_pool{_rank}d.default")(_avg_pool(_rank))


# --- to a size that is given ------------------------------------------------------------------

Along = Callable[[Emit, Tensor, int, int], Tensor]


def _adaptive(rank: int, kind: str, along: Along, *, indices: bool) -> Row:
    """Windows of sizes that divide the extent are a pool; others are pooled axis by axis."""

    def row(
        g: Emit, self: Tensor, output_size: Sequence[int]
    ) -> Tensor | tuple[Tensor | None, ...]:
        x = batched(g, self, rank)
        sizes, wanted = x.shape[2:], g.result.dims[-rank:]
        if sizes == wanted:
            made = x
        elif wanted == (1,) * rank:
            made = g(f"Global{kind}Pool", x)
        elif all(size % count == 0 for size, count in zip(sizes, wanted, strict=True)):
            kernel = tuple(size // count for size, count in zip(sizes, wanted, strict=True))
            made = g(f"{kind}Pool", x, kernel=kernel, strides=kernel)
        else:
            made = x
            for place, count in enumerate(wanted):
                if made.shape[2 + place] != count:
                    made = along(g, made, 2 + place, count)
        made = unbatched(g, made, self)
        return (made, None) if indices else made

    return row


def _ranges(size: int, count: int) -> list[range]:
    """The elements of each window."""
    return [range(at * size // count, -(-(at + 1) * size // count)) for at in range(count)]


def _mean_along(g: Emit, x: Tensor, axis: int, count: int) -> Tensor:
    windows = _ranges(x.shape[axis], count)
    longest = max(map(len, windows))
    # Shorter windows have a zero behind the others.  Weights of a product would be zero, too,
    # elsewhere, and infinity times zero is NaN.
    places = [[*window, *[x.shape[axis]] * (longest - len(window))] for window in windows]
    ends = [int(each == axis) for each in range(x.rank)]
    padded = g("Pad", x, pads=(*[0] * x.rank, *ends))
    taken = g("Gather", padded, g.constant(np.array(places, np.int64)), axis=axis)
    total = g("ReduceSum", taken, axes=(axis + 1,), keepdims=0)
    lengths = np.array([len(window) for window in windows], x.dtype.numpy)
    shape = [count if each == axis else 1 for each in range(x.rank)]
    return g("Mul", total, g.constant((1 / lengths).astype(lengths.dtype).reshape(shape)))


def _largest_along(g: Emit, x: Tensor, axis: int, count: int) -> Tensor:
    windows = _ranges(x.shape[axis], count)
    longest = max(map(len, windows))
    # Shorter windows have their last element more than once.
    places = [[*window, *[window[-1]] * (longest - len(window))] for window in windows]
    taken = g("Gather", x, g.constant(np.array(places, np.int64)), axis=axis)
    return g("ReduceMax", taken, axes=(axis + 1,), keepdims=0)


for _rank in (1, 2, 3):
    _row = _adaptive(_rank, "Average", _mean_along, indices=False)
    aten(f"adaptive_avg_pool{_rank}d.default")(_row)
    if _rank > 1:
        aten(f"_adaptive_avg_pool{_rank}d.default")(_row)
    aten(f"adaptive_max_pool{_rank}d.default")(
        _adaptive(_rank, "Max", _largest_along, indices=True)
    )
