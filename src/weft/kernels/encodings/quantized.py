"""Lossless storage of weights that are already quantized: ``weight = (code - zero) * scale``.

Weight-only quantized models store 4-bit or 8-bit codes, with a scale and often a zero point for
each output channel or each group of its rows.  After dequantization the weights of a group are
multiples of a scale.  This encoding recovers the codes from the ``f32`` constant::

    for each group size, the largest first:
      for each group of rows and each lane:
        step = smallest difference of two weights, divided by 1, 2, 3, ...
        codes = weights / step, if all are integers
        scale = the ``f32`` for which every ``code * scale`` equals its weight bit for bit

Kernels are shared with ``scaled``.  They scale partial sums instead of weights, so the weights are
exact but sums round in a different order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

import numpy as np

from weft.dtypes import DType
from weft.kernels.encodings.reading import EncodedBlock
from weft.kernels.encodings.scaled import (
    CODE_VALUES,
    CODES,
    SCALES,
    VALUES,
    ZEROS,
    Codes,
    finite,
    integer_parts,
    looks_up_at_once,
    nibble_operations,
    nibbles,
    widens_loaded,
)
from weft.kernels.refusal import Refusal
from weft.loops.nodes import Stmt
from weft.plan.implementation import Encoded, Packing, StoredPart
from weft.plan.once import once
from weft.records import dataclass
from weft.targets.target import Target

GROUPS = (256, 128, 64, 32, 16)
"""Group sizes that are tried, besides one group of all rows."""
_LANES = 64
"""Lanes that are analysed at a time; bounds memory."""
_SAMPLE = (256, 8)
"""Rows and lanes of the sample that rejects constants that were never quantized."""
_FEW = (16, 4)
"""Rows, no more than the smallest group has, and lanes of the sample that is looked at before."""
_EARLY = 8
"""Divisors after which at least half of the groups must have been solved."""
_MOST_STEPS = 1 << 14
"""Bound on the magnitude of a code without its zero point; fits the stored ``i16``."""
_TOLERANCE = 0.02
"""How far ``weight / step`` may be from an integer; the exact comparison follows."""
_ULPS = (0, 1, -1, 2, -2)
"""Corrections, in units in the last place, to the quotient of a weight and its code."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """Codes of 4 or 8 bits, scales and zero points.

    It stores ``codes``, ``[blocks, rows, bytes]``, and ``scales``, ``[blocks, groups, width]``.
    If some group does not fit two's complement, it also stores ``zeros``, shaped like ``scales``.

    Attributes:
        code_bits: 4 or 8.
        group: rows of a lane that share a scale.
        zero_points: whether zero points are stored.
        table: whether kernels convert 4-bit codes by a lookup table.
        inverted: whether the sign bits of 8-bit codes are.
    """

    code_bits: int
    group: int
    zero_points: bool
    table: bool = False
    inverted: bool = True
    exact: bool = field(default=True, init=False)
    in_order: bool = field(default=False, init=False)
    name: str = field(default="quantized", init=False)

    @property
    def bits(self) -> float:
        """Bits per weight: a code and its share of a scale and a zero point."""
        return self.code_bits + (32 + 16 * self.zero_points) / self.group

    @property
    def key(self) -> str:
        """The format of the codes."""
        return f"quantized {self.code_bits} {self.group} {self.zero_points}"

    @property
    def registers(self) -> int:
        """For a sum, a group's partial sum, and decoding."""
        return 3

    def operations(self, target: Target) -> float:
        """Widen, convert and multiply-add; 4-bit codes are also unpacked."""
        return 3 if self.code_bits == 8 else nibble_operations(target)

    def parts(self, packing: Packing, widths: tuple[int, ...]) -> tuple[StoredPart, ...]:
        """Codes, scales and zero points."""
        found = integer_parts(self.code_bits, self.group, packing, widths, table=self.table)
        if not self.zero_points:
            return found
        (scales,) = (part for part in found if part.name == SCALES)
        return (*found, StoredPart(ZEROS, DType.I16, scales.shape))

    def for_target(self, target: Target) -> Quantized:
        """The encoding as the target's instructions read it."""
        table = self.code_bits == 4 and looks_up_at_once(target)
        return replace(self, table=table, inverted=not widens_loaded(target))

    def pack(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """One of the parts."""
        stored, packing = encoded.stored, encoded.packing
        if encoded.part == VALUES:
            return CODE_VALUES
        found = once(array, _found, packing.shape, packing.axis)
        assert found is not None
        if encoded.part != CODES:
            values = found.scales if encoded.part == SCALES else found.zeros
            lanes = values[:, packing.start :][:, : packing.blocks * packing.width]
            missing = packing.blocks * packing.width - lanes.shape[1]
            lanes = np.pad(lanes, ((0, 0), (0, missing)))
            parts = lanes.reshape(len(values), packing.blocks, packing.width)
            return np.ascontiguousarray(parts.swapaxes(0, 1))
        made = np.empty(stored.shape, stored.dtype.numpy)
        codes = found.codes if packing.axis else found.codes.T
        for block, each in enumerate(packing.apply(codes.reshape(array.shape))):
            if self.code_bits == 4:
                made[block] = nibbles(each, encoded.widths)
            else:  # unsigned, they are signed ones with the sign bit inverted
                made[block] = each.view(np.int8) if self.inverted else (each ^ 128).view(np.int8)
        return made

    def decoded(self, array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """The weights themselves."""
        del shape, axis
        return array

    def read(self, block: EncodedBlock) -> tuple[Stmt, ...]:
        """Group after group of rows, and what they leave over."""
        return Codes(
            block, self.code_bits, self.group, self.zero_points, inverted=self.inverted
        ).all()


@dataclass(frozen=True, eq=False)
class _Found:
    """The recovered codes, scales and zero points of a matrix.

    Attributes:
        bits: of a code.
        group: rows that share a scale.
        codes: unsigned, ``[rows, lanes]``.
        scales: ``[groups, lanes]``.
        zeros: zero points, of unsigned codes with 4 bits and of signed codes with 8.
        zero_points: whether any differs from that of two's complement.
    """

    bits: int
    group: int
    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    zero_points: bool


def quantized(
    array: np.ndarray, shape: tuple[int, ...], axis: int, asked: bool
) -> Quantized | Refusal:
    """The encoding of a matrix, or why it has none; see ``float28`` for the arguments."""
    del asked
    if not once(array, finite):
        return Refusal("some weights are not finite")
    found = once(array, _found, shape, axis)
    if found is None:
        return Refusal(
            "the weights are not 4-bit or 8-bit integers times a scale for each group of rows"
        )
    return Quantized(found.bits, found.group, found.zero_points)


def _found(array: np.ndarray, shape: tuple[int, ...], axis: int) -> _Found | None:
    matrix = array.reshape(shape)
    lanes = matrix if axis else matrix.T
    return next(filter(None, (_codes(lanes, *form) for form in _forms(lanes))), None)


def _forms(lanes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Code widths and group sizes that fit a sample of the weights."""
    rows, count = lanes.shape
    step = max(1, count // _SAMPLE[1])
    sample = lanes[:, ::step][:, : _SAMPLE[1]]
    if not _may_be_multiples(sample[: _FEW[0], : _FEW[1]].T):
        return
    for bits in (4, 8):
        for group in dict.fromkeys((rows, *(each for each in GROUPS if each < rows))):
            few = sample if group == rows else sample[: _SAMPLE[0]]
            if _grid(few, bits, group) is not None:
                yield bits, group


def _codes(lanes: np.ndarray, bits: int, group: int) -> _Found | None:
    """The codes of all weights in a format that fits the sample; ``None`` if it does not fit."""
    rows, count = lanes.shape
    codes = np.empty((rows, count), np.uint8)
    scales = np.empty((-(-rows // group), count), np.float32)
    zeros = np.empty(scales.shape, np.int16)
    usual, first = (8, 0) if bits == 4 else (0, -128)
    zero_points = False
    for at in range(0, count, _LANES):
        part = slice(at, at + _LANES)
        found = _grid(lanes[:, part], bits, group)
        if found is None:
            return None
        whole, scales[:, part] = found
        low, high = whole.min(axis=1), whole.max(axis=1)
        fits = (low >= first - usual) & (high < first - usual + (1 << bits))
        zeros[:, part] = np.where(fits, usual, first - low)
        zero_points |= not fits.all()
        places = whole + zeros[:, None, part] - first
        codes[:, part] = places.reshape(-1, places.shape[-1])[:rows]
    return _Found(bits, group, codes, scales, zeros, zero_points)


def _grid(lanes: np.ndarray, bits: int, group: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Integers ``[groups, rows, lanes]`` and scales whose products equal the weights.

    The last group is padded by repeating its last row.
    """
    missing = -len(lanes) % group
    filled = np.pad(lanes, ((0, missing), (0, 0)), mode="edge") if missing else lanes
    groups = filled.reshape(-1, group, lanes.shape[1]).swapaxes(1, 2)
    # Differences of very large weights overflow; such groups are then rejected.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = _multiples(np.ascontiguousarray(groups).reshape(-1, group), 1 << bits)
    if found is None:
        return None
    whole, scales = found
    return whole.reshape(groups.shape).swapaxes(1, 2), scales.reshape(groups.shape[:2])


def _may_be_multiples(parts: np.ndarray) -> bool:
    """Whether parts of groups (one per row) can be 8-bit codes; most other weights cannot.

    All divisors are tried at once.  The smallest difference may be off by two units in the last
    place of the largest weight, and codes are off by their multiple of that.
    """
    divisors = np.arange(1, 1 << 8)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        steps = _smallest_steps(parts)[:, None] / divisors
        ratios = parts[:, None] / steps[:, :, None]
        near = np.rint(ratios)
        largest = np.abs(near).max(axis=2)
        allowed = _TOLERANCE + largest**2 / (divisors << 22)
        right = (np.abs(ratios - near) <= allowed[:, :, None]).all(axis=2)
        right &= near.max(axis=2) - near.min(axis=2) < 1 << 8
    return bool(right.any(axis=1).all())


def _smallest_steps(groups: np.ndarray) -> np.ndarray:
    """The smallest difference of two weights in each group (one per row), in double precision."""
    gaps: np.ndarray = np.diff(np.sort(groups, axis=1), axis=1)
    least: np.ndarray = np.where(gaps > 0, gaps, np.inf).min(axis=1, initial=np.inf)
    # A group of equal weights is one step of that size.
    steps = np.where(np.isinf(least), np.abs(groups).max(axis=1), least)
    return np.where(steps == 0, 1.0, steps).astype(np.float64)


def _multiples(groups: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Codes and scales of groups (one per row), each with fewer than ``most`` different steps."""
    steps = _smallest_steps(groups)
    whole = np.empty(groups.shape, np.int32)
    scales = np.empty(len(groups), np.float32)
    left = np.arange(len(groups))
    for part in range(1, most):
        if part > _EARLY and 2 * len(left) > len(groups):
            return None
        ratios = groups[left] / (steps[left] / part)[:, None]
        near = np.rint(ratios)
        right = (np.abs(ratios - near) <= _TOLERANCE).all(axis=1)
        right &= near.max(axis=1) - near.min(axis=1) < most
        right &= np.abs(near).max(axis=1) < _MOST_STEPS
        if not right.any():
            continue
        tried = left[right]
        whole[tried] = near[right]
        # If all codes share a divisor, the coarser scale may not be exact in single precision.
        scales[tried], exact = _scales(groups[tried], whole[tried])
        right[right] = exact
        left = left[~right]
        if not left.size:
            return whole, scales
    return None


def _scales(groups: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scale of each group, and whether all its products with the codes are exact."""
    largest = np.abs(whole).argmax(axis=1)[:, None]
    code = np.take_along_axis(whole, largest, axis=1)[:, 0].astype(np.float64)
    weight = np.take_along_axis(groups, largest, axis=1)[:, 0].astype(np.float64)
    middle = (weight / np.where(code == 0, 1, code)).astype(np.float32)
    scales, left = middle.copy(), np.arange(len(groups))
    for units in _ULPS:
        scale = (middle[left].view(np.int32) + np.int32(units)).view(np.float32)
        products = whole[left].astype(np.float32) * scale[:, None]
        right = (products == groups[left]).all(axis=1)
        scales[left[right]] = scale[right]
        left = left[~right]
    exact = np.ones(len(groups), bool)
    exact[left] = False
    return scales, exact
