"""Weights that were quantized before: ``weight = (code - zero) * scale``, and nothing is lost.

Files of networks whose weights alone are quantized hold codes of 4 or 8 bits, with a scale and
often a zero point for each output channel or each group of its rows.  Read as numbers they are
multiples of a step; here they become codes again::

    for group size, the largest first:
      for every group of rows and lane:
        step = least distance of two of its weights, or a half, a third ... of it
        codes = weights / step, if they are whole numbers
        scale = the number with which all products of codes are the weights, bit by bit

Kernels are those of ``scaled``: they scale sums instead of weights, so weights are the same and
sums round otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace

import numpy as np

from weft.dtypes import DType
from weft.kernels.encodings.reading import EncodedBlock
from weft.kernels.encodings.scaled import (
    CODES,
    SCALES,
    STEP_VALUES,
    STEPS,
    ZEROS,
    Codes,
    finite,
    nibble_bytes,
    nibble_operations,
    nibbles,
    picks,
    steps_of,
)
from weft.kernels.refusal import Refusal
from weft.loops.nodes import Stmt
from weft.plan.implementation import Encoded, Packing, StoredPart
from weft.plan.once import once
from weft.records import dataclass
from weft.targets.target import Target

GROUPS = (256, 128, 64, 32, 16)
"""Rows of a lane that may share a scale, beside all of them."""
_LANES = 64
"""That are looked at together."""
_SAMPLE = (256, 8)
"""Rows and lanes that are looked at to find that a constant was never quantized."""
_USUAL = 8
"""The least distance of weights is at most so many steps in half of the groups or more."""
_FAR = 1 << 14
"""Weights are fewer steps than this."""
_WHOLE = 0.02
"""Of a step: multiples of it are no further off a whole number."""
_UNITS = (0, 1, -1, 2, -2)
"""A scale is so many units in its last place off the quotient of a weight and its code."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """Codes of 4 or 8 bits, scales and zero points.

    It stores ``codes``, ``[blocks, rows, bytes]``, and ``scales``, ``[blocks, groups, width]``;
    where some codes are not those of two's complement also ``zeros``, of the shape of scales.

    Attributes:
        code_bits: 4 or 8.
        group: rows of a lane that share a scale.
        shifted: whether there are zero points.
        picked: whether vectors look codes of 4 bits up in a table of what they stand for.
    """

    code_bits: int
    group: int
    shifted: bool
    picked: bool = False
    exact: bool = field(default=True, init=False)
    in_order: bool = field(default=False, init=False)
    name: str = field(default="quantized", init=False)

    @property
    def bits(self) -> float:
        """Of a code and its share of a scale and a zero point."""
        return self.code_bits + (32 + 16 * self.shifted) / self.group

    @property
    def key(self) -> str:
        """How codes are stored."""
        return f"quantized {self.code_bits} {self.group} {self.shifted}"

    @property
    def registers(self) -> int:
        """For a sum, the sum of a group, and what weights are made in."""
        return 3

    def operations(self, target: Target) -> float:
        """Widening, converting and multiplying; of 4 bits, taking apart and looking up."""
        return 3 if self.code_bits == 8 else nibble_operations(target)

    def parts(self, packing: Packing, widths: tuple[int, ...]) -> tuple[StoredPart, ...]:
        """Codes, scales and zero points."""
        rows, blocks = packing.shape[1 - packing.axis], packing.blocks
        dtype, width = DType.I8, packing.width
        if self.code_bits == 4:
            dtype, width = DType.U8, nibble_bytes(widths)
        shape = (blocks, -(-rows // self.group), packing.width)
        found = (
            StoredPart(CODES, dtype, (blocks, rows, width)),
            StoredPart(SCALES, DType.F32, shape),
        )
        zeros = (StoredPart(ZEROS, DType.I16, shape),) if self.shifted else ()
        return (*found, *zeros, *steps_of(self.picked))

    def on(self, target: Target) -> Quantized:
        """With a table where the target looks vectors up in it."""
        return replace(self, picked=self.code_bits == 4 and picks(target))

    def pack(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """One of the parts."""
        stored, packing = encoded.stored, encoded.packing
        if encoded.part == STEPS:
            return STEP_VALUES
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
            else:  # the sign bit inverted, as `scaled` has it
                made[block] = each.view(np.int8)
        return made

    def decoded(self, array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """The weights themselves."""
        del shape, axis
        return array

    def read(self, block: EncodedBlock) -> tuple[Stmt, ...]:
        """Group after group of rows, and what they leave over."""
        return Codes(block, self.code_bits, self.group, self.shifted).all()


@dataclass(frozen=True, eq=False)
class _Found:
    """What the weights of a matrix are made of.

    Attributes:
        bits: of a code.
        group: rows that share a scale.
        codes: from 0 on, ``[rows, lanes]``.
        scales: ``[groups, lanes]``.
        zeros: to be taken off codes: from 0 on those of 4 bits, from -128 on those of 8.
        shifted: whether they are other than in two's complement.
    """

    bits: int
    group: int
    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    shifted: bool


def quantized(
    array: np.ndarray, shape: tuple[int, ...], axis: int, asked: bool
) -> Quantized | Refusal:
    """The encoding of a matrix, or why it has none; see ``float28`` for the arguments."""
    del asked
    if not once(array, finite):
        return Refusal("some weights are not finite")
    found = once(array, _found, shape, axis)
    if found is None:
        return Refusal("the weights were not quantized before, to 4 or 8 bits by groups of rows")
    return Quantized(found.bits, found.group, found.shifted)


def _found(array: np.ndarray, shape: tuple[int, ...], axis: int) -> _Found | None:
    matrix = array.reshape(shape)
    lanes = matrix if axis else matrix.T
    return next(filter(None, (_codes(lanes, *form) for form in _forms(lanes))), None)


def _forms(lanes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Bits and groups that a sample has."""
    rows, count = lanes.shape
    step = max(1, count // _SAMPLE[1])
    sample = lanes[:, ::step][:, : _SAMPLE[1]]
    for bits in (4, 8):
        for group in dict.fromkeys((rows, *(each for each in GROUPS if each < rows))):
            few = sample if group == rows else sample[: _SAMPLE[0]]
            if _grid(few, bits, group) is not None:
                yield bits, group


def _codes(lanes: np.ndarray, bits: int, group: int) -> _Found | None:
    """All weights in a form that a sample has, if they are."""
    rows, count = lanes.shape
    codes = np.empty((rows, count), np.uint8)
    scales = np.empty((-(-rows // group), count), np.float32)
    zeros = np.empty(scales.shape, np.int16)
    usual, first = (8, 0) if bits == 4 else (0, -128)
    shifted = False
    for at in range(0, count, _LANES):
        part = slice(at, at + _LANES)
        found = _grid(lanes[:, part], bits, group)
        if found is None:
            return None
        whole, scales[:, part] = found
        low, high = whole.min(axis=1), whole.max(axis=1)
        fits = (low >= first - usual) & (high < first - usual + (1 << bits))
        zeros[:, part] = np.where(fits, usual, first - low)
        shifted |= not fits.all()
        places = whole + zeros[:, None, part] - first
        codes[:, part] = places.reshape(-1, places.shape[-1])[:rows]
    return _Found(bits, group, codes, scales, zeros, shifted)


def _grid(lanes: np.ndarray, bits: int, group: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Whole numbers ``[groups, rows, lanes]`` and scales whose products the weights are.

    The last group is filled up with its last row.
    """
    missing = -len(lanes) % group
    filled = np.pad(lanes, ((0, missing), (0, 0)), mode="edge") if missing else lanes
    groups = filled.reshape(-1, group, lanes.shape[1]).swapaxes(1, 2)
    # Of large weights differences are infinite, and no steps.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        found = _multiples(np.ascontiguousarray(groups).reshape(-1, group), 1 << bits)
    if found is None:
        return None
    whole, scales = found
    return whole.reshape(groups.shape).swapaxes(1, 2), scales.reshape(groups.shape[:2])


def _multiples(groups: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Codes and scales of groups, which are rows; of at most so many codes in a row."""
    gaps: np.ndarray = np.diff(np.sort(groups, axis=1), axis=1)
    least: np.ndarray = np.where(gaps > 0, gaps, np.inf).min(axis=1, initial=np.inf)
    # Of a single value: itself, and one step.
    steps = np.where(np.isinf(least), np.abs(groups).max(axis=1), least)
    steps = np.where(steps == 0, 1.0, steps).astype(np.float64)
    whole = np.empty(groups.shape, np.int32)
    scales = np.empty(len(groups), np.float32)
    left = np.arange(len(groups))
    for part in range(1, most):
        if part > _USUAL and 2 * len(left) > len(groups):
            return None
        ratios = groups[left] / (steps[left] / part)[:, None]
        near = np.rint(ratios)
        right = (np.abs(ratios - near) <= _WHOLE).all(axis=1)
        right &= near.max(axis=1) - near.min(axis=1) < most
        right &= np.abs(near).max(axis=1) < _FAR
        tried = left[right]
        whole[tried] = near[right]
        # Few codes may be multiples of others, and their steps no numbers of single precision.
        scales[tried], exact = _scales(groups[tried], whole[tried])
        right[right] = exact
        left = left[~right]
        if not left.size:
            return whole, scales
    return None


def _scales(groups: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each group the scale whose products with codes are its weights, and if they all are."""
    largest = np.abs(whole).argmax(axis=1)[:, None]
    code = np.take_along_axis(whole, largest, axis=1)[:, 0].astype(np.float64)
    weight = np.take_along_axis(groups, largest, axis=1)[:, 0].astype(np.float64)
    middle = (weight / np.where(code == 0, 1, code)).astype(np.float32)
    scales, left = middle.copy(), np.arange(len(groups))
    for units in _UNITS:
        scale = (middle[left].view(np.int32) + np.int32(units)).view(np.float32)
        products = whole[left].astype(np.float32) * scale[:, None]
        right = (products == groups[left]).all(axis=1)
        scales[left[right]] = scale[right]
        left = left[~right]
    exact = np.ones(len(groups), bool)
    exact[left] = False
    return scales, exact
