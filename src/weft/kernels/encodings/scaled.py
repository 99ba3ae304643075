"""Weights as integers of 8 or 4 bits with scales: ``weight = code * scale``.

The weights of a lane are scaled together, in groups of successive rows: ``int8`` has one scale
for all rows of a lane (an output channel), ``int4`` one for every 32 rows.  Codes are signed,
without zero points.  Those of 4 bits are stored with 8 added, two lanes in a byte: one vector of a
block in the low halves, the next vector in the high halves.  Those of 8 bits are stored with the
sign bit inverted, but for AVX2 and AVX-512, for which there is a helper: compilers widen what was
computed by an instruction, but what was loaded element by element.

Kernels scale sums instead of weights::

    for group of rows:
      part[lane] = 0
      for row of the group:   part[lane] += x[row] * code[row][lane]
      acc[lane] += part[lane] * scale[group][lane]

With zero points (encoding ``quantized``), kernels subtract ``zero * sum(x)`` of the group from
``part`` before scaling.  AVX-512 converts 4-bit codes by a lookup in a table of 16 floats; AVX2's,
two permutations and a selection, takes longer than converting integers.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from weft.dtypes import DType
from weft.kernels.encodings.reading import EncodedBlock
from weft.kernels.refusal import Refusal
from weft.kernels.writer import LANE, for_range, integer, plus, times, with_locals
from weft.loops.nodes import Access, Binary, Buffer, Cast, Const, Expr, Load, Stmt, Store, Var
from weft.plan.implementation import Encoded, Packing, StoredPart
from weft.plan.once import once
from weft.records import dataclass
from weft.targets.target import Target

CODES, SCALES, ZEROS, VALUES = "codes", "scales", "zeros", "values"
"""Names of the stored parts; only the encoding ``quantized`` has zero points."""
_LOOKUP_LANES, _WHOLE_TABLE = 8, 16
"""The fewest lanes of a vector that x86 looks up in a table of 16 floats, and at once."""
GROUP = 32
"""Rows of a lane that share a scale of 4-bit codes."""
_PART, _INPUTS = "part", "inputs"
_LANES = 64
"""That are encoded together."""


@dataclass(frozen=True, slots=True)
class ScaledIntegers:
    """Codes of 8 or 4 bits, and scales.

    It stores ``codes``, ``[blocks, rows, bytes]``, and ``scales``, ``[blocks, groups, width]``.

    Attributes:
        code_bits: 8 or 4.
        group: rows of a lane that share a scale.
        table: whether kernels convert 4-bit codes by a lookup table.
        inverted: whether the sign bits of 8-bit codes are.
    """

    code_bits: int
    group: int
    table: bool = False
    inverted: bool = True
    exact: bool = field(default=False, init=False)
    in_order: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """``int8`` or ``int4``."""
        return f"int{self.code_bits}"

    @property
    def bits(self) -> float:
        """Of a code and its share of a scale."""
        return self.code_bits + 32 / self.group

    @property
    def key(self) -> str:
        """Its name."""
        return self.name

    @property
    def registers(self) -> int:
        """For a sum, the sum of a group, and what weights are made in."""
        return 3

    def operations(self, target: Target) -> float:
        """Widen, convert and multiply-add; 4-bit codes are also unpacked."""
        return 3 if self.code_bits == 8 else nibble_operations(target)

    def parts(self, packing: Packing, widths: tuple[int, ...]) -> tuple[StoredPart, ...]:
        """Codes and scales."""
        return integer_parts(self.code_bits, self.group, packing, widths, table=self.table)

    def for_target(self, target: Target) -> ScaledIntegers:
        """The encoding as the target's instructions read it."""
        table = self.code_bits == 4 and looks_up_at_once(target)
        return replace(self, table=table, inverted=not widens_loaded(target))

    def pack(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """One of the parts."""
        stored = encoded.stored
        if encoded.part == VALUES:
            return CODE_VALUES
        made = np.empty(stored.shape, stored.dtype.numpy)
        for block, weights in enumerate(encoded.packing.apply(array)):
            scales = self.scales(weights)
            if encoded.part == SCALES:
                made[block] = scales
                continue
            codes = self.codes(weights, scales)
            if self.code_bits == 8:
                made[block] = codes ^ np.int8(-128) if self.inverted else codes
            else:
                made[block] = nibbles(codes + 8, encoded.widths)
        return made

    def scales(self, weights: np.ndarray) -> np.ndarray:
        """Of every group of rows and lane, ``[groups, lanes]``.

        The largest weight of a group becomes the extreme code: 127 of 8 bits, -8 of 4 bits,
        which have one more negative code than positive ones to lose.
        """
        groups = _grouped(weights, self.group)
        largest = np.abs(groups).max(axis=1)
        if self.code_bits == 8:
            return largest / np.float32(127)
        signs = np.where(groups.max(axis=1) == largest, np.float32(-1), np.float32(1))
        return signs * largest / np.float32(8)

    def codes(self, weights: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Of weights ``[rows, lanes]``, as ``int8``; of a scale that is 0, zeros."""
        most = (1 << (self.code_bits - 1)) - 1
        least = -most - (self.code_bits == 4)
        groups = _grouped(weights, self.group).astype(np.float64)
        steps = np.where(scales == 0, np.inf, scales.astype(np.float64))[:, None]
        groups /= steps
        np.rint(groups, out=groups)
        np.clip(groups, least, most, out=groups)
        return groups.reshape(-1, weights.shape[1])[: len(weights)].astype(np.int8)

    def decoded(self, array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """Codes times scales, rounded to single precision."""
        matrix = array.reshape(shape)
        lanes = matrix if axis else matrix.T
        made = np.empty(lanes.shape, np.float32)
        for first in range(0, lanes.shape[1], _LANES):
            weights = np.ascontiguousarray(lanes[:, first : first + _LANES])
            scales = self.scales(weights)
            each = np.repeat(scales, self.group, axis=0)[: len(weights)]
            made[:, first : first + _LANES] = self.codes(weights, scales) * each
        return (made if axis else made.T).reshape(array.shape)

    def read(self, block: EncodedBlock) -> tuple[Stmt, ...]:
        """Group after group of rows, and what they leave over."""
        return Codes(block, self.code_bits, self.group, inverted=self.inverted).all()


def _grouped(weights: np.ndarray, size: int) -> np.ndarray:
    """``[groups, rows, lanes]``, the last group filled up with zeros."""
    rows, lanes = weights.shape
    missing = -rows % size
    if missing:
        weights = np.concatenate([weights, np.zeros((missing, lanes), weights.dtype)])
    return weights.reshape(-1, size, lanes)


# --- two codes in a byte ------------------------------------------------------------------------


def nibble_bytes(widths: tuple[int, ...]) -> int:
    """Bytes of a row of a block, whose vectors share bytes in pairs."""
    return sum(widths[::2])


def nibbles(codes: np.ndarray, widths: tuple[int, ...]) -> np.ndarray:
    """Rows of codes from 0 to 15, ``[rows, lanes]``, as ``[rows, bytes]``."""
    codes = codes.astype(np.uint8)
    made = np.zeros((len(codes), nibble_bytes(widths)), np.uint8)
    first = 0
    for piece, width in enumerate(widths):
        at = nibble_bytes(widths[: piece - piece % 2])
        made[:, at : at + width] |= codes[:, first : first + width] << 4 * (piece % 2)
        first += width
    return made


def nibble(block: EncodedBlock, part: str, row: Expr, piece: int) -> Expr:
    """The codes from 0 to 15 of a vector, widened first: x86 cannot shift bytes."""
    at = nibble_bytes(block.block.widths[: piece - piece % 2])
    byte = Cast(DType.I32, block.load(part, row, at))
    if piece % 2:
        return Binary("shr", byte, Const(4, DType.I32))
    return Binary("and", byte, Const(15, DType.I32))


CODE_VALUES = np.arange(-8, 8, dtype=np.float32)
"""The lookup table: the number that each 4-bit code represents, before scaling."""


def integer_parts(
    bits: int, group: int, packing: Packing, widths: tuple[int, ...], *, table: bool
) -> tuple[StoredPart, ...]:
    """The stored codes and scales, and the lookup table of 4-bit codes if kernels use one."""
    rows, blocks = packing.shape[1 - packing.axis], packing.blocks
    dtype, width = (DType.U8, nibble_bytes(widths)) if bits == 4 else (DType.I8, packing.width)
    found = (
        StoredPart(CODES, dtype, (blocks, rows, width)),
        StoredPart(SCALES, DType.F32, (blocks, -(-rows // group), packing.width)),
    )
    return (*found, StoredPart(VALUES, DType.F32, CODE_VALUES.shape)) if table else found


def has_table_lookup(target: Target) -> bool:
    """Whether a few instructions look a vector up in a table of 16 floats."""
    return "avx2" in target.features and target.lanes(DType.F32) >= _LOOKUP_LANES


def looks_up_at_once(target: Target) -> bool:
    """Whether one instruction does."""
    return has_table_lookup(target) and target.lanes(DType.F32) >= _WHOLE_TABLE


def widens_loaded(target: Target) -> bool:
    """Whether a vector of bytes becomes wider by an instruction as it is loaded."""
    return "avx2" in target.features


def nibble_operations(target: Target) -> float:
    """Operations on a vector of 4-bit codes: unpack, widen, look up or convert, multiply-add."""
    return 4 if looks_up_at_once(target) else 5


# --- reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Codes:
    """The loops over the codes of one block of lanes.

    Attributes:
        block: the lanes.
        bits: of a code; group: rows of a lane that share a scale.
        zero_points: whether zero points are stored; otherwise 4-bit codes have the zero point 8.
        inverted: whether the sign bits of 8-bit codes are.
    """

    block: EncodedBlock
    bits: int
    group: int
    zero_points: bool = False
    inverted: bool = True

    def all(self) -> tuple[Stmt, ...]:
        """Group after group of rows, and what they leave over."""
        whole, left = divmod(self.block.rows, self.group)
        found: list[Stmt] = []
        if whole == 1:
            found += self.rows(integer(0), self.group)
        elif whole:
            found.append(for_range("group", whole, self.rows(Var("group"), self.group)))
        if left:
            found += self.rows(integer(whole), left)
        return tuple(found)

    def rows(self, group: Expr, count: int) -> tuple[Stmt, ...]:
        """The rows of a group: summed by themselves, then scaled."""
        block = self.block
        body: list[Stmt] = [
            block.store(_PART, piece, width, Const(0.0, DType.F32))
            for piece, _, width in block.pieces()
        ]
        locals = [
            Buffer(f"{_PART}{piece}", DType.F32, (width,), Access.LOCAL)
            for piece, _, width in block.pieces()
        ]
        if self.zero_points:
            locals.append(Buffer(_INPUTS, DType.F32, (1,), Access.LOCAL))
            body.append(Store(_INPUTS, (integer(0),), Const(0.0, DType.F32)))
        body.append(for_range("row", count, self.row(group)))
        for piece, offset, width in block.pieces():
            part: Expr = Load(f"{_PART}{piece}", (Var(LANE),), DType.F32)
            if self.zero_points:
                zero = Cast(DType.F32, block.load(ZEROS, group, offset))
                if self.bits == 4:
                    zero = Binary("sub", zero, Const(8.0, DType.F32))
                part = Binary("sub", part, Binary("mul", zero, _inputs()))
            scaled = Binary("mul", part, block.load(SCALES, group, offset))
            body.append(block.set_sum(piece, width, Binary("add", block.sum(piece), scaled)))
        return with_locals(locals, tuple(body))

    def row(self, group: Expr) -> tuple[Stmt, ...]:
        """The products of one row."""
        block = self.block
        at = plus(times(group, self.group), Var("row"))
        found = block.fetches(CODES, at, block.rows, 1, integer(0))
        if self.zero_points:
            total = Binary("add", _inputs(), block.factor(at))
            found.append(Store(_INPUTS, (integer(0),), total))
        for piece, offset, width in block.pieces():
            part = Load(f"{_PART}{piece}", (Var(LANE),), DType.F32)
            product = block.product(at, self.code(at, piece, offset))
            found.append(block.store(_PART, piece, width, Binary("add", part, product)))
        return tuple(found)

    def code(self, row: Expr, piece: int, offset: int) -> Expr:
        """The codes of a vector, as numbers of single precision."""
        if self.bits == 8:
            stored = self.block.load(CODES, row, offset)
            if self.inverted:
                stored = Binary("xor", stored, Const(-128, DType.I8))
            return Cast(DType.F32, Cast(DType.I32, stored))
        half = nibble(self.block, CODES, row, piece)
        if VALUES in self.block.stored:
            return Load(self.block.stored[VALUES].name, (Cast(DType.I64, half),), DType.F32)
        return Cast(DType.F32, Binary("sub", half, Const(8, DType.I32)))


def _inputs() -> Expr:
    """The sum of the inputs of a group."""
    return Load(_INPUTS, (integer(0),), DType.F32)


# --- rows of the table ------------------------------------------------------------------------


def int8(
    array: np.ndarray, shape: tuple[int, ...], axis: int, asked: bool
) -> ScaledIntegers | Refusal:
    """8-bit codes, one scale for each lane; see ``float28`` for the arguments."""
    return _scaled(ScaledIntegers(8, shape[1 - axis]), array, asked)


def int4(
    array: np.ndarray, shape: tuple[int, ...], axis: int, asked: bool
) -> ScaledIntegers | Refusal:
    """4-bit codes, a scale for every 32 rows of a lane; see ``float28`` for the arguments."""
    return _scaled(ScaledIntegers(4, min(GROUP, shape[1 - axis])), array, asked)


def _scaled(encoding: ScaledIntegers, array: np.ndarray, asked: bool) -> ScaledIntegers | Refusal:
    if not asked:
        return Refusal(f"{encoding.name} rounds weights, and was not asked for")
    return encoding if once(array, finite) else Refusal("some weights are not finite")


def finite(array: np.ndarray) -> bool:
    """Whether all elements are."""
    flat, step = array.reshape(-1), 1 << 20
    return all(np.isfinite(flat[at : at + step]).all() for at in range(0, flat.size, step))
