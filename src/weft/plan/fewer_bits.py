"""Weights in 28 bits, nothing lost: eight in the place of seven.

The weights of a layer have nearly all exponents within ``BINADES`` of the largest one's: sign,
four bits that say which, and 23 of the fraction.  Eight weights that lanes read one after
another become seven words of 32 bits.  A word holds one of the first seven, at the places where
single precision has its parts, and in the four bits of the exponent that are free
(``SPARE``) a seventh of the eighth: the lowest bits in the first word, its sign on top in the
last.  So ``(word & KEPT) + (first << 23)`` are the bits of a weight, for exponents from
``first``.

Weights outside the window, such as zeros, stand for ``2 ** (first - 127)``, the least number in
it, and a short list for each lane says where they are and what to add.  Rows behind the last
eight stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar
from weakref import ReferenceType, ref

import numpy as np

from weft.errors import InternalError

BINADES = 16
"""Exponents that four bits tell apart."""
GROUP = 8
"""Weights that share the words of one less."""
SIGN, SIZE = 0x80000000, 0x07FFFFFF
"""The sign of a weight, and its exponent and fraction, in a word."""
KEPT = SIGN | SIZE
SPARE = 0x78000000
"""Bits of the group's last weight in the words of the others."""
FRACTION = 23
"""Bits of a single-precision fraction."""

_BIAS = 127
_ELEMENTS = 1 << 20
"""Weights that are looked at together."""
_NEAR = 1 << 16
"""Weights that are made words of together: what is computed on the way stays in near caches."""


@dataclass(frozen=True, slots=True)
class EncodedWindow:
    """The exponents that most weights of a constant have.

    Attributes:
        first: the smallest one's, as single precision writes it.
        most: weights of one lane that are outside, but for those behind the last whole group;
            the most that any lane has.
    """

    first: int
    most: int


class _Known:
    """What was found of arrays, as long as these live."""

    found: ClassVar[
        dict[
            tuple[int, tuple[int, ...], int], tuple[ReferenceType[np.ndarray], EncodedWindow | None]
        ]
    ] = {}


def window_of(array: np.ndarray, shape: tuple[int, ...], axis: int) -> EncodedWindow | None:
    """The window for an array; ``None`` if its weights are all zero or some are not finite.

    Looked for once for every array: they are large.

    Args:
        array: of single precision.
        shape: two dimensions, as a kernel sees it.
        axis: the dimension of the lanes.
    """
    key = (id(array), shape, axis)
    known = _Known.found.get(key)
    if known is not None and known[0]() is array:
        return known[1]
    found = _window(_grouped(array.reshape(shape), axis), axis)
    _Known.found[key] = ref(array, lambda _: _Known.found.pop(key, None)), found
    return found


def _window(array: np.ndarray, axis: int) -> EncodedWindow | None:
    sizes = [np.abs(each).max(initial=0.0) for each in _pieces(array)]
    largest = float(np.max(sizes, initial=0.0))
    if not 0.0 < largest < np.inf:  # NaN is not, either
        return None
    exponent = int(np.float32(largest).view(np.uint32)) >> FRACTION
    first = max(1, exponent - BINADES + 1)
    least = _least(first)
    counts = np.zeros(array.shape[axis], np.int64)
    done = 0
    for piece in _pieces(array):
        outside = np.abs(piece) < least
        if axis:
            counts += outside.sum(axis=0)
        else:
            counts[done : done + len(piece)] = outside.sum(axis=1)
            done += len(piece)
    return EncodedWindow(first, int(counts.max()))


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Rows, so many together that they stay in caches."""
    step = max(1, _ELEMENTS // max(1, array.shape[1]))
    return (array[at : at + step] for at in range(0, len(array), step))


def _least(first: int) -> np.float32:
    """The least number in a window."""
    return np.float32(2.0 ** (first - _BIAS))


class EncodedPart(Enum):
    """What a kernel reads of weights in fewer bits."""

    WORDS = "words"
    """``[blocks, rows, width]``, seven rows for eight; what is left over as it is."""
    PLACES = "places"
    """``[blocks, fixes, width]``: the rows of the weights outside of the window."""
    CHANGES = "changes"
    """``[blocks, fixes, width]``: what to add to those."""


@dataclass(frozen=True, slots=True)
class FewerBits:
    """A constant of two dimensions in fewer bits, lanes innermost.

    Attributes:
        shape: the constant's dimensions as the kernel sees them.
        axis: the dimension that is cut into lanes; the other one has the rows.
        start: first element of ``axis``.
        blocks: number of blocks.
        width: lanes of each block.
        window: of the whole constant.
        part: what is made.
    """

    shape: tuple[int, int]
    axis: int
    start: int
    blocks: int
    width: int
    window: EncodedWindow
    part: EncodedPart

    @property
    def bytes(self) -> int:
        """Size of the packed array; words, places and changes have 32 bits."""
        rows = self.shape[1 - self.axis]
        height = word_rows(rows) if self.part is EncodedPart.WORDS else self.window.most
        return 4 * self.blocks * height * self.width

    def apply(self, array: np.ndarray) -> np.ndarray:
        """The packed array."""
        match self.part:
            case EncodedPart.WORDS:
                return self._words(array.reshape(self.shape))
            case EncodedPart.PLACES:
                return self._fixes(array.reshape(self.shape), np.dtype(np.uint32))
            case EncodedPart.CHANGES:
                return self._fixes(array.reshape(self.shape), np.dtype(np.float32))

    def _words(self, array: np.ndarray) -> np.ndarray:
        """Rows of words, made of one block after another: the arrays are large."""
        lanes = array if self.axis else array.T
        made = np.empty((self.blocks, word_rows(len(lanes)), self.width), np.uint32)
        for block in range(self.blocks):
            first = self.start + block * self.width
            weights = np.ascontiguousarray(lanes[:, first : first + self.width])
            _words(weights, self.window, made[block])
        return made

    def _fixes(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Rows of the weights outside, or what to add to them, from the top of each lane."""
        least = _least(self.window.first)
        places = _outside(_grouped(array, self.axis), least)
        values = array[places]
        rows, lanes = places[1 - self.axis], places[self.axis] - self.start
        order = np.argsort(lanes, kind="stable")
        order = order[(lanes[order] >= 0) & (lanes[order] < self.blocks * self.width)]
        rows, lanes, values = rows[order], lanes[order], values[order]
        _, begins, counts = np.unique(lanes, return_index=True, return_counts=True)
        if counts.max(initial=0) > self.window.most:
            raise InternalError("more weights are outside of their window than were counted")
        turns = np.arange(len(lanes)) - np.repeat(begins, counts)
        made = np.zeros((self.blocks, self.window.most, self.width), dtype)
        changes = rows if self.part is EncodedPart.PLACES else values - least
        made[lanes // self.width, turns, lanes % self.width] = changes
        return made


def _grouped(array: np.ndarray, axis: int) -> np.ndarray:
    """Without the rows behind the last whole group."""
    whole = array.shape[1 - axis] // GROUP * GROUP
    return array[:whole] if axis else array[:, :whole]


def _outside(array: np.ndarray, least: np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Where the weights are that are less, in both dimensions."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    done = 0
    for piece in _pieces(array):
        # Several times as fast as looking in two dimensions.
        first, second = np.divmod(np.flatnonzero(np.abs(piece) < least), piece.shape[1])
        found.append((first + done, second))
        done += len(piece)
    return np.concatenate([each for each, _ in found]), np.concatenate([each for _, each in found])


def word_rows(rows: int) -> int:
    """Rows of words for so many rows of weights."""
    return rows - rows // GROUP


def _words(weights: np.ndarray, window: EncodedWindow, made: np.ndarray) -> None:
    """Rows of words for rows of weights."""
    bits = weights.view(np.uint32)
    whole = len(bits) // GROUP * GROUP
    made[word_rows(whole) :] = bits[whole:]
    step = max(1, _NEAR // (GROUP * weights.shape[1]))
    groups = bits[:whole].reshape(-1, GROUP, weights.shape[1])
    rows = made[: word_rows(whole)].reshape(-1, GROUP - 1, weights.shape[1])
    for at in range(0, len(groups), step):
        _group_words(groups[at : at + step], window, rows[at : at + step])


def _group_words(groups: np.ndarray, window: EncodedWindow, made: np.ndarray) -> None:
    """Seven words for each eight weights, both ``[groups, rows, lanes]``."""
    codes = groups & np.uint32(~SIGN & 0xFFFFFFFF)
    codes -= np.uint32(window.first << FRACTION)
    # What is less has wrapped around.
    outside = codes >= np.uint32(BINADES << FRACTION)
    codes |= groups & np.uint32(SIGN)
    codes[outside] = 0
    last = codes[:, -1:]
    pieces = last & np.uint32(SIZE) | (last & np.uint32(SIGN)) >> np.uint32(4)
    shifts = np.arange(0, 4 * (GROUP - 1), 4, dtype=np.uint32)[:, None]
    np.right_shift(pieces, shifts, out=made)
    made &= np.uint32(15)
    made <<= np.uint32(27)
    made |= codes[:, :-1]
