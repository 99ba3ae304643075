"""What a generator gives for a group: loops, and what stands for each of their buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from math import prod
from typing import Protocol, TypeAlias

import numpy as np

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.ir.unknown import contiguous, is_known
from weft.loops.nodes import Kernel
from weft.ops.record import ExternBody
from weft.plan.choice import KernelChoice
from weft.plan.fusion import Group
from weft.plan.once import once
from weft.plan.strides import StridedView
from weft.records import dataclass

_CACHED = 1 << 13
"""Filters that are transformed at a time."""
_ELEMENTS = 1 << 20
"""Weights that are compared at a time."""


@dataclass(frozen=True, slots=True)
class Packing:
    """A constant rearranged for a kernel: blocks of lanes outermost and innermost.

    ``packed[block, others..., lane] = constant[..., start + block * width + lane, ...]``
    with the vector dimension taken out and the other dimensions in ``order``.  With a
    ``depth``, so many neighbours along the last of these lie side by side for each lane; what
    is left over of it is not there: ``packed[block, others..., last, lane * depth + k] =
    constant[..., last * depth + k, ...]``.  Lanes behind the last of the constant are zeros.

    Attributes:
        shape: the constant's dimensions as the kernel sees them.
        axis: the dimension that is cut into lanes.
        order: the other dimensions, outermost first.
        start: first element of ``axis``.
        blocks: number of blocks.
        width: lanes of each block.
        depth: elements along the last of the other dimensions for every lane.
        apart: whether these are a dimension of their own, the innermost; zeros fill its last.
        joined: how many of the last of the other dimensions are one.
    """

    shape: tuple[int, ...]
    axis: int
    order: tuple[int, ...]
    start: int
    blocks: int
    width: int
    depth: int = 1
    apart: bool = False
    joined: int = 1

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array, ``[blocks, others..., width * depth]``."""
        blocks = self.cut(array)
        if self.depth == 1:
            return contiguous(np.moveaxis(blocks, 1, -1))
        missing = -blocks.shape[-1] % self.depth
        if self.apart and missing:
            blocks = np.pad(blocks, [(0, 0)] * (blocks.ndim - 1) + [(0, missing)])
        whole = blocks[..., : blocks.shape[-1] // self.depth * self.depth]
        cut = whole.reshape(*whole.shape[:-1], -1, self.depth)
        sides = np.moveaxis(cut, 1, -2)
        if self.apart:
            return contiguous(sides)
        return contiguous(sides.reshape(*sides.shape[:-2], -1))

    def cut(self, array: np.ndarray) -> np.ndarray:
        """The constant in blocks, ``[blocks, width, others...]``."""
        moved = array.reshape(self.shape).transpose(self.axis, *self.order)
        part = moved[self.start : self.start + self.blocks * self.width]
        missing = self.blocks * self.width - len(part)
        if missing:
            part = np.pad(part, [(0, missing)] + [(0, 0)] * (part.ndim - 1))
        blocks = part.reshape(self.blocks, self.width, *part.shape[1:])
        if self.joined > 1:
            blocks = blocks.reshape(*blocks.shape[: -self.joined], -1)
        return blocks


@dataclass(frozen=True, slots=True)
class FilterTransform:
    """A filter packed, then transformed for Winograd convolution.

    ``packing`` makes ``[blocks, rows, columns, channels, lanes]`` of a filter, or ``[blocks,
    columns, channels, lanes]`` of one that slides along one axis.  Every window
    ``w`` of it, rows and columns, then becomes the points of ``matrix w matrix^T``, computed in
    float64: ``[blocks, points, channels, lanes]``, or with pairs of channels apart
    ``[blocks, points, channels / 2, lanes, 2]``; or those of ``matrix w``: ``[blocks, points,
    columns * channels, lanes]``, or with points side by side ``[blocks, points / 2, columns *
    channels, lanes * 2]``.  Windows along one axis become ``matrix w`` as if square.

    Attributes:
        packing: of the filter.
        matrix: applied along rows and columns.
        square: whether along columns, too.
        beside: points that lie side by side for each lane, if not along columns.
        groups: the constant's first dimension, which ``packing`` does not know of: the blocks of
            each group are those of a filter of its own, and follow those of the group before.
    """

    packing: Packing
    matrix: tuple[tuple[float, ...], ...]
    square: bool = True
    beside: int = 1
    groups: int = 1

    @property
    def _sides(self) -> int:
        """How many sides of a window are transformed."""
        taps = len(self.packing.order) - self.packing.joined
        return taps if self.square else 1

    def _windows(self, packed: np.ndarray, columns: int) -> np.ndarray:
        """Packed windows, with a dimension of columns where they have none."""
        if len(self.packing.order) - self.packing.joined > 1:
            return packed
        return packed.reshape(*packed.shape[:columns], 1, *packed.shape[columns:])

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array."""
        if self.groups > 1:
            each = replace(self, groups=1)
            parts = array.reshape(self.groups, *self.packing.shape)
            return np.concatenate([each.apply(parts[group]) for group in range(self.groups)])
        if not is_known(array):
            return self._recorded(array)
        packed = self._windows(self.packing.apply(array), 2)
        # Some channels of a block at a time: what is in between stays in the cache.
        shape = packed.shape
        blocks, rows, columns, channels, lanes = *shape[:4], prod(shape[4:])
        packed = packed.reshape(blocks, rows, columns, channels, lanes)
        points = len(self.matrix) * (len(self.matrix) if self._sides > 1 else columns)
        made = np.empty((blocks, points, channels, lanes), packed.dtype)
        step = max(1, _CACHED // lanes)
        for block in range(blocks):
            for first in range(0, channels, step):
                part = packed[block : block + 1, ..., first : first + step, :]
                made[block, :, first : first + step] = self._points(part)[0]
        if not self.square:
            return self._beside(made)
        return made.reshape(blocks, -1, *shape[3:])

    def _recorded(self, array: np.ndarray) -> np.ndarray:
        """The same sums of an unknown array: products of windows, which one kernel computes."""
        windows = self._windows(self.packing.cut(array), 3).transpose(0, 4, 1, 2, 3)
        matrix = np.array(self.matrix)
        points = matrix @ windows.astype(np.float64)
        points = (points @ matrix.T if self._sides > 1 else points).astype(windows.dtype)
        blocks, channels, lanes, *_ = points.shape
        moved = points.transpose(0, 3, 4, 1, 2).reshape(blocks, -1, channels, lanes)
        depth = self.packing.depth
        if not self.square:
            return self._beside(moved)
        if depth == 1:
            return moved
        cut = moved.reshape(blocks, -1, channels // depth, depth, lanes)
        return cut.transpose(0, 1, 2, 4, 3)

    def _beside(self, points: np.ndarray) -> np.ndarray:
        """Points along rows, some of them side by side."""
        blocks, lanes, groups = len(points), points.shape[-1], len(self.matrix) // self.beside
        moved = points.reshape(blocks, groups, self.beside, -1, lanes).transpose(0, 1, 3, 4, 2)
        return contiguous(moved.reshape(blocks, groups, -1, lanes * self.beside))

    def _points(self, windows: np.ndarray) -> np.ndarray:
        """The points of ``[blocks, rows, columns, channels, lanes]``."""
        blocks, rows, columns, channels, lanes = windows.shape
        matrix = np.array(self.matrix)
        # Two matrix products: a sum over four indices takes several times as long.
        points = matrix @ windows.reshape(blocks, rows, -1).astype(np.float64)
        if self._sides > 1:
            points = matrix @ points.reshape(blocks, len(matrix), columns, -1)
        return points.astype(windows.dtype).reshape(blocks, -1, channels, lanes)


@dataclass(frozen=True, slots=True)
class QuarterSums:
    """A matrix cut into quarters, of which sums are packed for Strassen's algorithm.

    ``[blocks * sums, terms / 2, width]``: all sums for a block of lanes of half of the matrix, then
    those for the next one.

    Attributes:
        shape: the constant's dimensions as the kernel sees them.
        axis: the dimension of the lanes.
        width: lanes of a block.
        sums: factors of the four quarters, lanes fastest, for each sum.
    """

    shape: tuple[int, ...]
    axis: int
    width: int
    sums: tuple[tuple[float, ...], ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array."""
        matrix = array.reshape(self.shape)
        matrix = matrix.transpose(1, 0) if self.axis == 0 else matrix
        terms, lanes = (extent // 2 for extent in matrix.shape)
        quarters = matrix.reshape(2, terms, 2, lanes).transpose(0, 2, 1, 3).reshape(4, -1)
        sums = np.array(self.sums) @ quarters.astype(np.float64)
        cut = sums.astype(matrix.dtype).reshape(len(self.sums), terms, -1, self.width)
        return contiguous(cut.transpose(2, 0, 1, 3)).reshape(-1, terms, self.width)


@dataclass(frozen=True, slots=True)
class Blocking:
    """A constant in blocks along some of its dimensions, as libraries lay out filters.

    ``OIhw16i16o`` is ``order`` 0, 1, 2, 3 with ``blocks`` of 16 along 1, then of 16 along 0.
    What is left of a dimension behind its last whole block is filled up with zeros.

    Attributes:
        seen: the constant's dimensions as the kernel sees them.
        axes: these in the order in which the library counts them.
        shape: their sizes there, some of 1 put in between.
        order: dimensions outside of the blocks, outermost first.
        blocks: dimensions and sizes of the blocks inside, outermost first.
    """

    seen: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    order: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array, one dimension for each of ``order`` and of ``blocks``."""
        moved = array.reshape(self.seen).transpose(self.axes).reshape(self.shape)
        sizes = [[size for axis, size in self.blocks if axis == each] for each in self.order]
        sizes = [sizes[self.order.index(axis)] for axis in range(len(self.shape))]
        moved = np.pad(
            moved,
            [(0, -extent % prod(cut)) for extent, cut in zip(self.shape, sizes, strict=True)],
        )
        parts: list[int] = []
        outside: list[int] = []
        inside: list[list[int]] = []
        for extent, cut in zip(moved.shape, sizes, strict=True):
            outside.append(len(parts))
            inside.append([len(parts) + 1 + place for place in range(len(cut))])
            parts += [extent // prod(cut), *cut]
        moves = [outside[axis] for axis in self.order]
        moves += [inside[axis].pop(0) for axis, _ in self.blocks]
        return contiguous(moved.reshape(parts).transpose(moves))


@dataclass(frozen=True, slots=True)
class Folded:
    """An array that was computed of constants when the kernel was written.

    Attributes:
        digest: of its bytes, by which equal ones are known.
        array: itself.
        shape: of the constant in whose place it is read.
    """

    digest: str
    array: np.ndarray = field(compare=False, repr=False)
    shape: tuple[int, ...]

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The computed array, whatever the constant is."""
        return self.array


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One of the arrays that an encoding stores for a block of weights.

    Attributes:
        name: unique within the encoding: ``codes``, ``scales``.
        dtype: of its elements.
        shape: of the packed array.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of the packed array."""
        return self.dtype.bytes * prod(self.shape)


class WeightEncoding(Protocol):
    """How one constant of single precision is stored in fewer bits.

    Encodings are values: equal ones store equal constants alike.  The table of them, and the
    loops that read them, are in ``weft.kernels.encodings``.
    """

    @property
    def name(self) -> str:
        """Of the encoding's row in the table."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the weights that kernels compute with are those of the constant."""
        ...

    def parts(self, packing: Packing, widths: tuple[int, ...]) -> tuple[StoredPart, ...]:
        """What is stored of a matrix whose blocks of lanes are vectors of these widths.

        Of parts of many megabytes whose first dimension is that of the blocks, each block must
        depend on its own weights only: they are packed some blocks at a time.
        """
        ...

    def pack(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """One of the parts."""
        ...

    def decoded(self, array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """The weights that kernels compute with, of the array's shape.

        Args:
            array: the constant.
            shape: two dimensions, as a kernel sees it.
            axis: the dimension of the lanes.
        """
        ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """A matrix packed for a kernel, then encoded.

    Attributes:
        encoding: of the constant.
        part: of what the encoding stores.
        packing: which lanes and rows, and in what order.
        widths: lanes of the vectors of a block.
    """

    encoding: WeightEncoding
    part: str
    packing: Packing
    widths: tuple[int, ...]

    @property
    def stored(self) -> StoredPart:
        """Type and shape of the packed array."""
        parts = self.encoding.parts(self.packing, self.widths)
        return next(each for each in parts if each.name == self.part)

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array."""
        return self.encoding.pack(array, self)

    def blocks(self, first: int, count: int) -> Encoded:
        """The same of some of the blocks."""
        start = self.packing.start + first * self.packing.width
        return replace(self, packing=replace(self.packing, start=start, blocks=count))

    def decoded(self, array: np.ndarray) -> np.ndarray:
        """The weights that kernels compute with."""
        packing = self.packing
        return self.encoding.decoded(array, packing.shape, packing.axis)

    def error(self, array: np.ndarray) -> float:
        """Root mean square of what encoding changes, relative to that of the weights."""
        return 0.0 if self.encoding.exact else once(array, _error, self)


def _error(array: np.ndarray, encoded: Encoded) -> float:
    old, new = array.reshape(-1), encoded.decoded(array).reshape(-1)
    wrong = whole = 0.0
    for at in range(0, old.size, _ELEMENTS):
        weights = old[at : at + _ELEMENTS].astype(np.float64)
        wrong += float(((new[at : at + _ELEMENTS] - weights) ** 2).sum())
        whole += float((weights**2).sum())
    return (wrong / whole) ** 0.5 if whole else 0.0


Packed: TypeAlias = Packing | FilterTransform | QuarterSums | Blocking | Encoded | Folded
"""How a constant is rearranged."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The value that stands for a parameter, possibly packed."""

    value: str
    packing: Packed | None = None


@dataclass(frozen=True, slots=True)
class Outside:
    """A function of a library, called in place of a kernel's loops.

    Attributes:
        body: the call; ``in0``, ``in1``, ... are the operands, ``out`` is the output.
        operands: what stands for the inputs, in order.
    """

    body: ExternBody
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Implementation:
    """A kernel for a group.

    Attributes:
        kernel: its last parameter is the output ``out``.
        operands: what stands for the other parameters, in order.
        scheme: the alternative that made it.
        scratch: where in the step's scratch memory each of the kernel's scratch buffers
            begins, in bytes; these stand before the output.
        outside: what is called instead; the kernel then says what it computes.
        choice: how it was chosen, where there was a choice.
        stages: the kernels that a fused chain's was made of, in the order of the groups.
    """

    kernel: Kernel
    operands: tuple[Operand, ...]
    scheme: str
    scratch: tuple[int, ...] = ()
    outside: Outside | None = None
    choice: KernelChoice | None = field(default=None, compare=False, repr=False)
    stages: tuple[Implementation, ...] = field(default=(), compare=False, repr=False)


Constants: TypeAlias = Mapping[str, np.ndarray]
"""What is known now, by value."""
Implement: TypeAlias = Callable[
    [str, Group, Mapping[str, StridedView], Mapping[str, TensorType], Constants], Implementation
]
"""``implement(name, group, views, types, constants)``."""
