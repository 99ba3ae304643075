"""Contractions of bytes taken apart: the window of the input that output pixels read.

What is summed is ``x[.., stride * y + dilation * i - before, .., k]`` times a weight: at most two
dimensions of the input that windows move along (rows and columns), others that outputs walk
plainly (images of a batch), and channels, which all outputs of a pixel read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.kernels.contraction import Contraction, SlidingWindow, contraction_of
from weft.kernels.integer.sums import IntegerContraction, integer_contraction
from weft.kernels.refusal import Refusal
from weft.kernels.row_copies import joined, side_by_side
from weft.kernels.task import Task
from weft.loops.nodes import Axis, Binary, Buffer, Cast, Const, Expr, Load, Var
from weft.loops.walk import loads, map_expr
from weft.records import dataclass

_I32 = DType.I32
NO_WINDOW = Refusal("it is no convolution of rows and columns over all channels")


@dataclass(frozen=True)
class ByteWindow:
    """A contraction of bytes as a convolution, with what it reads of the input.

    Attributes:
        found: the contraction.
        image: the load of the input; source: what it loads from.
        rows, columns: dimensions of the input along which windows move, and how; outputs of a
            tile follow one another along the columns.
        channels: dimensions of the input that are summed as they are, the fastest last, and the
            reduction's axes along them.
    """

    found: IntegerContraction
    image: Load
    source: Buffer
    rows: tuple[int, SlidingWindow] | None
    columns: tuple[int, SlidingWindow] | None
    channels: tuple[tuple[int, Axis], ...]

    @property
    def depth(self) -> int:
        """Channels in all."""
        return prod(axis.extent for _, axis in self.channels)

    @property
    def contiguous(self) -> bool:
        """Whether channels lie side by side."""
        return not self.channels or self.source.steps[self.channels[-1][0]] == 1

    @property
    def outer(self) -> tuple[Axis, ...]:
        """Output axes that are neither rows, columns nor channels."""
        moved = [each[1].out for each in (self.rows, self.columns) if each]
        return tuple(axis for axis in self.found.positions if axis not in moved)

    def moves(self, dtype: DType, shift: int) -> bool:
        """Whether shifted activations are the input's bytes, but for their highest bit."""
        added = shift + _added(self.found.inside)
        if self.image.dtype is dtype:
            return added == 0
        return (self.image.dtype, dtype, added) == (DType.I8, DType.U8, 1 << 7)

    def value(self, place: dict[int, Expr], dtype: DType, shift: int) -> Expr:
        """An activation as a type that holds all of them.

        Args:
            place: indices of the input by dimension, of all that are not the outer axes'.
            dtype: an integer type.
            shift: what is added.
        """
        index = tuple(place.get(at, part) for at, part in enumerate(self.image.index))
        return self.shifted(replace(self.image, index=index), dtype, shift)

    def shifted(self, load: Load, dtype: DType, shift: int) -> Expr:
        """The activation of an element of the input as a type that holds all of them."""
        if self.moves(dtype, shift):
            # Another sign is another highest bit.
            same, high = Cast(dtype, load), Const(1 << 7, dtype)
            return load if load.dtype is dtype else Binary("xor", same, high)
        # Bytes less a zero point, shifted, are computed in 16 bits: twice as many at a time.
        value = _in_words(self.found.inside)
        total = Binary("add", value, Const(shift, DType.I16)) if shift else value
        moved = map_expr(total, lambda node: load if node == self.image else node)
        return moved if dtype is DType.I16 else Cast(dtype, moved)

    @property
    def runs(self) -> bool:
        """Whether all channels of all columns of a row lie side by side."""
        if self.columns is None or not self.channels:
            return False
        packed = side_by_side(self.source, self.channels)
        return packed and self.source.steps[self.columns[0]] == self.depth

    def pixels(self) -> Buffer | None:
        """The input with channels as one dimension, the last, where they lie side by side."""
        if not self.channels or not side_by_side(self.source, self.channels):
            return None
        return joined(self.source, {place for place, _ in self.channels})[0]

    def joined(self) -> tuple[Buffer, tuple[int, ...]]:
        """The input with columns and channels as one dimension, the last, where rows are runs.

        Returns:
            The input, and its other dimensions as they are numbered in ``source``.
        """
        assert self.columns is not None
        return joined(self.source, {self.columns[0], *(place for place, _ in self.channels)})

    def ordered(self, weights: np.ndarray) -> np.ndarray:
        """Weights by output, tap of rows, tap of columns and channel (in memory's order)."""
        axes = self.found.reduce.axes
        wanted = [each[1].tap for each in (self.rows, self.columns) if each and each[1].tap]
        summed = [axis for _, axis in self.channels if axis != self.found.channel]
        order = [axes.index(axis) for axis in (*wanted, *summed)]
        cut = weights.reshape(-1, *(axis.extent for axis in axes))
        moved = cut.transpose(0, *(1 + place for place in order))
        taps = [each[1].taps if each else 1 for each in (self.rows, self.columns)]
        return moved.reshape(len(weights), *taps, -1)


def _in_words(value: Expr) -> Expr:
    """An activation, a byte less a byte, in ``i16``."""
    match value:
        case Cast(DType.I32, Load() as load):
            return Cast(DType.I16, load)
        case Const(number, DType.I32):
            return Const(number, DType.I16)
        case Binary("sub" | "add" as op, lhs, rhs):
            return Binary(op, _in_words(lhs), _in_words(rhs))
        case _:
            raise ValueError(value)


def _added(value: Expr) -> int:
    """What is added to the byte that an activation is."""
    match value:
        case Binary("sub", _, Const(number)):
            return -int(number)
        case Binary("add", _, Const(number)):
            return int(number)
        case _:
            return 0


def _is_byte(value: Expr) -> bool:
    """Whether ``_in_words`` takes an activation."""
    match value:
        case Cast(DType.I32, Load()):
            return True
        case Binary("sub" | "add", Cast(DType.I32, Load()), Const(number, DType.I32)):
            return abs(int(number)) <= 255
        case _:
            return False


def byte_window(task: Task) -> ByteWindow | Refusal:
    """The convolution of bytes over all channels that a task is, or why it is none."""
    return task.fact(_over_channels)


def depthwise_window(task: Task) -> ByteWindow | Refusal:
    """The depthwise convolution of bytes that a task is, or why it is none.

    Its one channel is that of the output.
    """
    return task.fact(_by_channel)


def _over_channels(task: Task) -> ByteWindow | Refusal:
    found = integer_contraction(task)
    if isinstance(found, Refusal):
        return found
    if found.depthwise:
        return Refusal("every channel of the output reads one of the input")
    return _recognized(task, found)


def _by_channel(task: Task) -> ByteWindow | Refusal:
    found = integer_contraction(task)
    if isinstance(found, Refusal):
        return found
    if not found.depthwise:
        return Refusal("an output channel reads several of the input")
    return _recognized(task, found)


def _recognized(task: Task, found: IntegerContraction) -> ByteWindow | Refusal:
    parts = contraction_of(task)
    if isinstance(parts, Refusal):
        return parts
    if parts.lanes != found.channel:
        return Refusal("output channels are not the fastest in memory")
    images = set(loads(found.inside))
    if len(images) != 1 or not _is_byte(found.inside):
        return Refusal("what it sums is not a byte less a zero point")
    (image,) = images
    source = next(buffer for buffer in task.inputs if buffer.name == image.buffer)
    return _window(found, parts, image, source)


def _window(
    found: IntegerContraction, parts: Contraction, image: Load, source: Buffer
) -> ByteWindow | Refusal:
    taps = {axis.var: axis for axis in found.reduce.axes}
    if found.depthwise:
        taps[found.channel.var] = found.channel
    channels: list[tuple[int, Axis]] = []
    moving: list[tuple[int, SlidingWindow]] = []
    for place, (part, window) in enumerate(zip(image.index, parts.windows_of(image), strict=True)):
        if isinstance(part, Var) and part.name in taps:
            channels.append((place, taps[part.name]))
        elif window is not None:
            moving.append((place, window))
        elif not isinstance(part, Const):
            return NO_WINDOW
    channels.sort(key=lambda each: source.steps[each[0]], reverse=True)
    summed = [*(axis for _, axis in channels), *(w.tap for _, w in moving if w.tap)]
    wanted = [*found.reduce.axes, *([found.channel] if found.depthwise else [])]
    if sorted(map(str, summed)) != sorted(map(str, wanted)):
        return NO_WINDOW
    if not parts.guarded_by_borders([window for _, window in moving if window.tap]):
        return Refusal("its conditions are not those of an image's borders")
    slid = _slid(found.positions, moving)
    if slid is None:
        return NO_WINDOW
    return ByteWindow(found, image, source, *slid, tuple(channels))


_Moving: TypeAlias = tuple[int, SlidingWindow]


def _slid(
    positions: Sequence[Axis], moving: Sequence[_Moving]
) -> tuple[_Moving | None, _Moving | None] | None:
    """Rows and columns: what windows slide along, and the fastest positions beside it."""
    if len({window.out for _, window in moving}) != len(moving):
        return None
    chosen = [each for each in moving if not _is_plain(each[1])]
    for last in reversed(positions):
        if len(chosen) < 2:
            chosen += [each for each in moving if each[1].out == last and each not in chosen]
    if len(chosen) > 2:
        return None
    chosen.sort(key=lambda each: positions.index(each[1].out))
    columns = chosen.pop() if chosen else None
    return (chosen.pop() if chosen else None), columns


def _is_plain(window: SlidingWindow) -> bool:
    return window.tap is None and window.stride == 1 and window.before == 0
