"""Tiles of outputs that instructions make of sums of products in one go: bytes, requantized.

An instruction of such a family reads one stream of constants for a group of channels: where sums
start, weights, and multiplier, term and shift of each channel. Outputs are stored where they
belong, or into a few rows of bytes from which the rest of a definition is computed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.kernels.bytes.scaling import RequantizedRow
from weft.kernels.bytes.windows import ByteWindow
from weft.kernels.writer import integer
from weft.loops.nodes import Buffer, Expr, Load, Var
from weft.records import dataclass

STREAM = "stream"
NARROW = "scale_i32"
"""The requantization of these families."""


def narrowed(
    rounding: RequantizedRow,
    weights: np.ndarray,
    channels: int,
    *,
    starts: int = 1,
    ahead: bool = False,
) -> int | None:
    """Puts constants into one stream, where bytes can be made of the sums in one go.

    Args:
        rounding: what follows the sums; its arrays become the stream.
        weights: words by group of channels, in the order in which they are read.
        channels: of a group.
        starts: how often the stream has where sums start.
        ahead: whether weights are read before the sums' starts.

    Returns:
        Whether sums below zero take one less, 0 or 1; nothing where rows are requantized
        by other instructions.
    """
    made = rounding.made
    if made is None or made.family != NARROW:
        return None
    arrays = rounding.output.arrays
    groups = len(weights)
    start = np.tile(arrays.pop("start").reshape(groups, channels), starts)
    first = [start, weights.reshape(groups, -1)]
    last = arrays.pop("factors").reshape(groups, 3 * channels)
    arrays[STREAM] = np.concatenate([*(first[::-1] if ahead else first), last], axis=1)
    return made.sizes[1]


@dataclass(frozen=True)
class Placed:
    """Where the outputs of a tile of neighbouring positions lie.

    Attributes:
        buffer: the output, rows and columns as one dimension if tiles go on from row to row.
        flat: whether they are.
    """

    buffer: Buffer
    flat: bool = False

    def window(self, window: ByteWindow, position: Expr) -> Load:
        """The first channel of a position."""
        channel = window.found.channel
        places: dict[str, Expr] = {channel.var: integer(0)}
        if window.columns:
            places[window.columns[1].out.var] = position
        axes = list(window.found.task.compute.axes)
        if self.flat and window.rows:
            axes.remove(window.rows[1].out)
        index = tuple(places.get(axis.var, Var(axis.var)) for axis in axes)
        return Load(self.buffer.name, index, self.buffer.dtype)


def placed(window: ByteWindow, positions: int, flat: bool) -> Placed | None:
    """Where tiles of so many positions lie; nothing where not side by side.

    Args:
        window: the convolution.
        positions: of a tile.
        flat: whether tiles go on from row to row.
    """
    task = window.found.task
    output, axes = task.output, task.compute.axes
    if axes[-1] != window.found.channel or output.steps[-1] != 1:
        return None
    if positions == 1:
        return Placed(output)
    columns = window.columns
    if columns is None or axes[-2:-1] != (columns[1].out,):
        return None
    if not flat:
        return Placed(output)
    if window.rows is None or axes[-3:-2] != (window.rows[1].out,):
        return None
    steps, shape = output.steps, output.shape
    if steps[-3] != shape[-2] * steps[-2]:
        return None
    shape = (*shape[:-3], shape[-3] * shape[-2], shape[-1])
    return Placed(replace(output, shape=shape, strides=(*steps[:-3], *steps[-2:])), True)
