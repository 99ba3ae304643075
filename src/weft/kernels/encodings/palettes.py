"""Weights as numbers of a palette's values: of 4 bits up to 16 values, else of 8 bits.

A constant with at most 256 distinct values (bit by bit: ``-0.0`` is one of its own) has them
as its palette, and comes back exactly.  Where the user asks for palettes, other constants get
16 values by k-means (``weft.compress.palette``).  Kernels look weights up::

    for row:   acc[lane] += x[row] * palette[number[row][lane]]

so sums have the order, and of an exact palette the bits, that they have without encoding.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from weft.compress.palette import cluster, nearest_of
from weft.dtypes import DType
from weft.kernels.encodings.reading import EncodedBlock
from weft.kernels.encodings.scaled import (
    finite,
    has_table_lookup,
    looks_up_at_once,
    nibble,
    nibble_bytes,
    nibble_operations,
    nibbles,
)
from weft.kernels.refusal import Refusal
from weft.kernels.writer import for_range, integer
from weft.loops.nodes import Cast, Expr, Load, Stmt, Var
from weft.plan.implementation import Encoded, Packing, StoredPart
from weft.plan.once import once
from weft.records import dataclass
from weft.targets.target import Target

NUMBERS, PALETTE = "numbers", "palette"
"""What is stored."""
MOST = 256
"""Values of a palette."""
_TWO_TABLES = 7
"""Operations on a vector of 4-bit numbers where each half of the palette is looked up in."""
FEW = 16
"""Values that 4 bits number; also those of a palette by k-means."""
_SAMPLES = 1 << 20
"""Weights that k-means looks at: of more, evenly spaced ones."""
_FIRST = 1 << 12
"""Weights that are looked at to find that a constant has too many values."""


@dataclass(frozen=True, slots=True)
class Palette:
    """Numbers of 4 or 8 bits, and the values.

    It stores ``numbers``, ``[blocks, rows, bytes]``, and ``palette``, of one block and row.

    Attributes:
        number_bits: 4 or 8.
        exact: whether the values are all that the constant has.
    """

    number_bits: int
    exact: bool
    name: str = field(default="palette", init=False)
    in_order: bool = field(default=True, init=False)
    registers: int = field(default=3, init=False)

    @property
    def bits(self) -> float:
        """Of a number."""
        return self.number_bits

    @property
    def key(self) -> str:
        """How wide numbers are."""
        return f"palette of {self.number_bits} bits"

    def for_target(self, target: Target) -> Palette:
        """The encoding itself, which has no variants."""
        del target
        return self

    def operations(self, target: Target) -> float:
        """Table lookup of 4-bit numbers; otherwise one load and one insert per lane."""
        lanes = target.lanes(DType.F32)
        if self.number_bits != 4 or not has_table_lookup(target):
            return 1 + 2 * lanes
        return nibble_operations(target) if looks_up_at_once(target) else _TWO_TABLES

    def parts(self, packing: Packing, widths: tuple[int, ...]) -> tuple[StoredPart, ...]:
        """Numbers and values."""
        rows = packing.shape[1 - packing.axis]
        width = nibble_bytes(widths) if self.number_bits == 4 else packing.width
        return (
            StoredPart(NUMBERS, DType.U8, (packing.blocks, rows, width)),
            StoredPart(PALETTE, DType.F32, (1 << self.number_bits,)),
        )

    def pack(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """One of the parts; a palette is filled up with zeros."""
        stored, values = encoded.stored, _values(array)
        if encoded.part == PALETTE:
            return np.pad(values, (0, stored.shape[0] - len(values)))
        made = np.empty(stored.shape, np.uint8)
        for block, weights in enumerate(encoded.packing.apply(array)):
            numbers = _numbers(weights, values, self.exact)
            made[block] = numbers if self.number_bits == 8 else nibbles(numbers, encoded.widths)
        return made

    def decoded(self, array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """The nearest values."""
        del shape, axis
        if self.exact:
            return array
        values, flat = _values(array), array.reshape(-1)
        made = np.empty(flat.shape, np.float32)
        for at in range(0, flat.size, _SAMPLES):
            weights = flat[at : at + _SAMPLES]
            made[at : at + _SAMPLES] = values[_numbers(weights, values, exact=False)]
        return made.reshape(array.shape)

    def read(self, block: EncodedBlock) -> tuple[Stmt, ...]:
        """Row after row."""
        row = Var("row")
        body = block.fetches(NUMBERS, row, block.rows, 1, integer(0))
        for piece, offset, width in block.pieces():
            number: Expr = (
                nibble(block, NUMBERS, row, piece)
                if self.number_bits == 4
                else block.load(NUMBERS, row, offset)
            )
            palette = block.stored[PALETTE].name
            weight = Load(palette, (Cast(DType.I64, number),), DType.F32)
            body.append(block.add(piece, width, row, weight))
        return (for_range("row", block.rows, tuple(body)),)


def _distinct(array: np.ndarray) -> np.ndarray | None:
    """The values that an array has, in the order of their bits; ``None`` if they are too many."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
    if len(np.unique(flat[:_FIRST])) > MOST:
        return None
    found: np.ndarray = np.empty(0, np.uint32)
    for at in range(0, flat.size, 1 << 20):
        found = np.union1d(found, flat[at : at + (1 << 20)])
        if len(found) > MOST:
            return None
    return found.view(np.float32)


def _clustered(array: np.ndarray) -> np.ndarray:
    """The values of a palette by k-means, ascending."""
    flat = array.reshape(-1)
    step = max(1, flat.size // _SAMPLES)
    return cluster(flat[::step], FEW, zero=False).astype(np.float32)


def _values(array: np.ndarray) -> np.ndarray:
    """Of an array's palette."""
    found = once(array, _distinct)
    return found if found is not None else once(array, _clustered)


def _numbers(weights: np.ndarray, values: np.ndarray, exact: bool) -> np.ndarray:
    """Of the values of weights, as bytes."""
    if exact:
        bits = np.ascontiguousarray(weights).view(np.uint32)
        return np.searchsorted(values.view(np.uint32), bits).astype(np.uint8)
    return nearest_of(values.astype(np.float64), weights).astype(np.uint8)


def palette(array: np.ndarray, shape: tuple[int, ...], axis: int, asked: bool) -> Palette | Refusal:
    """The encoding of a matrix, or why it has none; see ``float28`` for the arguments."""
    del shape, axis
    found = once(array, _distinct)
    if found is None and not asked:
        return Refusal(f"the weights have more than {MOST} distinct values")
    if not once(array, finite):
        return Refusal("some weights are not finite")
    if found is None:
        return Palette(4, exact=False)
    made = Palette(4 if len(found) <= FEW else 8, exact=True)
    size = array.size * made.number_bits // 8 + (DType.F32.bytes << made.number_bits)
    if size >= array.nbytes and not asked:
        return Refusal("the palette would take more than the weights")
    return made
