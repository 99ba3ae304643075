"""The table of weight encodings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from weft.errors import UserError, nearest
from weft.kernels.encodings.fewer_bits import float28
from weft.kernels.encodings.palettes import palette
from weft.kernels.encodings.quantized import quantized
from weft.kernels.encodings.reading import Encoding
from weft.kernels.encodings.scaled import int4, int8
from weft.kernels.refusal import Refusal
from weft.records import dataclass

Fit: TypeAlias = Callable[[np.ndarray, tuple[int, ...], int, bool], Encoding | Refusal]
"""``fit(array, shape, axis, asked)``: the encoding of a matrix with lanes along an axis."""


@dataclass(frozen=True, slots=True)
class EncodingRow:
    """A weight encoding.

    Attributes:
        name: by which it is asked for.
        doc: what it stores, in a clause.
        fit: the encoding of a constant.
        label: what names of alternatives have beside ``packed``.
    """

    name: str
    doc: str
    fit: Fit
    label: str = ""


ENCODINGS: tuple[EncodingRow, ...] = (
    EncodingRow("float28", "lossless, eight weights in seven words", float28),
    EncodingRow(
        "palette",
        "numbers of 16 or 256 values, lossless where the weights have no more, else 16 by k-means",
        palette,
        "-palette",
    ),
    EncodingRow(
        "quantized",
        "codes of weights that are already quantized to 4 or 8 bits by groups, lossless",
        quantized,
        "-quantized",
    ),
    EncodingRow("int8", "8-bit integers, a scale for each output channel", int8, "-int8"),
    EncodingRow("int4", "4-bit integers, a scale for every 32 weights of a channel", int4, "-int4"),
)
"""Those that are lossless may be chosen where they are cheaper, the others where asked for."""


def checked_encoding(name: str) -> str:
    """The name of an encoding.

    Raises:
        UserError: there is none of that name.
    """
    names = [each.name for each in ENCODINGS]
    if name not in names:
        rule = f"encoding must be one of {', '.join(names)}"
        raise UserError(rule, got=repr(name), fix=nearest(name, names, 1))
    return name
