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
from dataclasses import field

import numpy as np

from weft.dtypes import DType
from weft.errors import InternalError
from weft.kernels.encodings.reading import EncodedBlock
from weft.kernels.refusal import Refusal
from weft.kernels.writer import LANE, for_range, integer, plus, times, with_locals
from weft.loops.nodes import Access, Binary, Bits, Buffer, Cast, Const, Expr, Load, Stmt, Var
from weft.plan.implementation import Encoded, Packing, StoredPart
from weft.plan.once import once
from weft.records import dataclass
from weft.targets.target import Target

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

FIXES = 256
"""At most one weight of a lane in so many is outside of the window: each costs as much time as
many others save."""
WORDS, PLACES, CHANGES = "words", "places", "changes"
"""What is stored."""

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


def window_of(array: np.ndarray, shape: tuple[int, ...], axis: int) -> EncodedWindow | None:
    """The window for an array; ``None`` if its weights are all zero or some are not finite.

    Args:
        array: of single precision.
        shape: two dimensions, as a kernel sees it.
        axis: the dimension of the lanes.
    """
    return once(array, _found, shape, axis)


def _found(array: np.ndarray, shape: tuple[int, ...], axis: int) -> EncodedWindow | None:
    return _window(_grouped(array.reshape(shape), axis), axis)


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


@dataclass(frozen=True, slots=True)
class FewerBits:
    """Weights in 28 bits.

    It stores ``words``, ``[blocks, rows, width]``, seven rows for eight, what is left over as it
    is; and where some weights are outside of the window ``places``, ``[blocks, fixes, width]``,
    their rows, and ``changes``, what to add to them.

    Attributes:
        window: of the constant.
    """

    window: EncodedWindow
    name: str = field(default="float28", init=False)
    bits: float = field(default=32 * (GROUP - 1) / GROUP, init=False)
    registers: int = field(default=3, init=False)

    @property
    def exact(self) -> bool:
        """Without weights that are the sums of two numbers."""
        return not self.window.most

    @property
    def in_order(self) -> bool:
        """Changes come last."""
        return not self.window.most

    @property
    def key(self) -> str:
        """How many weights are sums of two numbers."""
        return f"fewer bits but {self.window.most}"

    def for_target(self, target: Target) -> FewerBits:
        """The encoding itself, which has no variants."""
        del target
        return self

    def operations(self, target: Target) -> float:
        """Two that make a weight, one that uses it, and two that collect a group's eighth."""
        del target
        return 5

    def parts(self, packing: Packing, widths: tuple[int, ...]) -> tuple[StoredPart, ...]:
        """Words, places and changes."""
        del widths
        rows, most = packing.shape[1 - packing.axis], self.window.most
        words = StoredPart(WORDS, DType.U32, (packing.blocks, word_rows(rows), packing.width))
        if not most:
            return (words,)
        shape = (packing.blocks, most, packing.width)
        return (
            words,
            StoredPart(PLACES, DType.U32, shape),
            StoredPart(CHANGES, DType.F32, shape),
        )

    def pack(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """One of the parts."""
        packing = encoded.packing
        matrix = array.reshape(packing.shape)
        if encoded.part == WORDS:
            return self._words(matrix, packing)
        return self._fixes(matrix, encoded)

    def decoded(self, array: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
        """The same, but for the rounding of changes."""
        del shape, axis
        return array

    def read(self, block: EncodedBlock) -> tuple[Stmt, ...]:
        """Groups, what they leave over, and the weights outside of the window."""
        words = _Words(block, self.window)
        fixes = (words.fixes(),) if self.window.most else ()
        return (words.groups(), *words.left(), *fixes)

    def _words(self, array: np.ndarray, packing: Packing) -> np.ndarray:
        """Rows of words, made of one block after another: the arrays are large."""
        lanes = array if packing.axis else array.T
        made = np.empty((packing.blocks, word_rows(len(lanes)), packing.width), np.uint32)
        for block in range(packing.blocks):
            first = packing.start + block * packing.width
            weights = np.ascontiguousarray(lanes[:, first : first + packing.width])
            _words(weights, self.window, made[block])
        return made

    def _fixes(self, array: np.ndarray, encoded: Encoded) -> np.ndarray:
        """Rows of the weights outside, or what to add to them, from the top of each lane."""
        packing, stored = encoded.packing, encoded.stored
        least = _least(self.window.first)
        places = _outside(_grouped(array, packing.axis), least)
        values = array[places]
        rows, lanes = places[1 - packing.axis], places[packing.axis] - packing.start
        order = np.argsort(lanes, kind="stable")
        order = order[(lanes[order] >= 0) & (lanes[order] < packing.blocks * packing.width)]
        rows, lanes, values = rows[order], lanes[order], values[order]
        _, begins, counts = np.unique(lanes, return_index=True, return_counts=True)
        if counts.max(initial=0) > self.window.most:
            raise InternalError("more weights are outside of their window than were counted")
        turns = np.arange(len(lanes)) - np.repeat(begins, counts)
        made = np.zeros(stored.shape, stored.dtype.numpy)
        changes = rows if encoded.part == PLACES else values - least
        made[lanes // packing.width, turns, lanes % packing.width] = changes
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


def float28(
    array: np.ndarray, shape: tuple[int, ...], axis: int, asked: bool
) -> FewerBits | Refusal:
    """The encoding of a matrix, or why it has none.

    Args:
        array: of single precision.
        shape: two dimensions, as a kernel sees it.
        axis: the dimension of the lanes.
        asked: whether the user named the encoding, which changes nothing: it is lossless.
    """
    del asked
    rows = shape[1 - axis]
    if rows < GROUP:
        return Refusal(f"the sums have fewer than {GROUP} terms")
    window = window_of(array, shape, axis)
    if window is None:
        return Refusal("the weights are all zero, or some are not finite")
    if window.most * FIXES > rows:
        return Refusal(
            f"up to {window.most} of {rows} weights of a sum are too small beside the "
            "largest of all"
        )
    return FewerBits(window)


# --- reading ----------------------------------------------------------------------------------


def _word(value: int) -> Const:
    """A word that is the same for all lanes."""
    return Const(value, DType.U32)


@dataclass(frozen=True, slots=True)
class _Words:
    """The loops over the words of one block of lanes."""

    block: EncodedBlock
    window: EncodedWindow

    @property
    def whole(self) -> int:
        """How many groups there are."""
        return self.block.rows // GROUP

    def groups(self) -> Stmt:
        """The loop over groups of eight weights."""
        block = self.block
        body: list[Stmt] = [
            block.store("rest", piece, width, _word(0)) for piece, _, width in block.pieces()
        ]
        body.append(for_range("row", GROUP - 1, self.row()))
        for piece, _, width in block.pieces():
            rest = self.rest(piece)
            sign = Binary("and", Binary("shl", rest, _word(1)), _word(SIGN))
            size = Binary("and", Binary("shr", rest, _word(3)), _word(SIZE))
            last = self.weight(Binary("or", sign, size))
            at = plus(times(Var("group"), GROUP), GROUP - 1)
            body.append(block.add(piece, width, at, last))
        rests = [
            Buffer(f"rest{piece}", DType.U32, (width,), Access.LOCAL)
            for piece, _, width in block.pieces()
        ]
        return for_range("group", self.whole, with_locals(rests[::-1], tuple(body)))

    def row(self) -> tuple[Stmt, ...]:
        """One row of words: a weight of each lane, and a part of the group's last one."""
        block = self.block
        found = block.fetches(WORDS, Var("group"), self.whole, GROUP - 1, Var("row"))
        row = plus(times(Var("group"), GROUP - 1), Var("row"))
        at = plus(times(Var("group"), GROUP), Var("row"))
        for piece, offset, width in block.pieces():
            words = block.load(WORDS, row, offset)
            weight = self.weight(Binary("and", words, _word(KEPT)))
            found.append(block.add(piece, width, at, weight))
            shifted = Binary("shr", self.rest(piece), _word(4))
            rest = Binary("or", shifted, Binary("and", words, _word(SPARE)))
            found.append(block.store("rest", piece, width, rest))
        return tuple(found)

    def left(self) -> tuple[Stmt, ...]:
        """What is left over of the axis, in words of its own."""
        block = self.block
        found: list[Stmt] = []
        for row in range(self.whole * GROUP, block.rows):
            for piece, offset, width in block.pieces():
                words = block.load(WORDS, integer(row - self.whole), offset)
                found.append(block.add(piece, width, integer(row), Bits(DType.F32, words)))
        return tuple(found)

    def fixes(self) -> Stmt:
        """The loop over the weights outside of the window."""
        block = self.block
        body: list[Stmt] = []
        last = Const(block.rows - 1, DType.U32)
        for piece, offset, width in block.pieces():
            place = Binary("min", block.load(PLACES, Var("chunk"), offset), last)
            change = block.load(CHANGES, Var("chunk"), offset)
            body.append(block.add(piece, width, Cast(DType.I64, place), change))
        return for_range("chunk", self.window.most, tuple(body))

    def rest(self, piece: int) -> Expr:
        """What was collected of the last weights of a group."""
        return Load(f"rest{piece}", (Var(LANE),), DType.U32)

    def weight(self, code: Expr) -> Expr:
        """The weights whose parts are at their places, exponents from zero."""
        return Bits(DType.F32, Binary("add", code, _word(self.window.first << FRACTION)))
