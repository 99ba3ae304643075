"""Functions of 32-bit fixed-point numbers, bit by bit as gemmlowp's ``fixedpoint.h`` has them.

A number with ``i`` integer bits is an ``i32`` that counts ``2**(i - 31)``.  LiteRT's reference
kernels for softmax, logistic and tanh compute with them.  Here they are Python's integers: what
depends on bytes alone becomes a table when a graph is made.
"""

from __future__ import annotations

from functools import cache

import numpy as np

LARGEST, SMALLEST = (1 << 31) - 1, -(1 << 31)
_ONE_EIGHTH, _EXP_MINUS_EIGHTH, _THIRD = 1 << 28, 1895147668, 715827883
BARREL = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""``exp(-2**exponent)`` in 0 integer bits."""


def product(a: int, b: int) -> int:
    """The high half of the doubled product, to nearest, halves up."""
    return LARGEST if a == b == SMALLEST else (a * b + (1 << 30)) >> 31


def divided(x: int, exponent: int) -> int:
    """Division by a power of two to nearest, halves away from zero."""
    half = (1 << exponent) >> 1
    return (x + half - min(half, x < 0)) >> exponent


def multiplied(x: int, exponent: int) -> int:
    """The product with a power of two, saturated; a negative exponent divides."""
    return divided(x, -exponent) if exponent < 0 else max(SMALLEST, min(LARGEST, x << exponent))


def _exp_near_zero(a: int) -> int:
    """``exp(a)`` of -1/4 <= a < 0, both in 0 integer bits."""
    x = a + _ONE_EIGHTH
    x2 = product(x, x)
    x3, x4 = product(x2, x), product(x2, x2)
    rest = multiplied(product(multiplied(x4, -2) + x3, _THIRD) + x2, -1)
    return _EXP_MINUS_EIGHTH + product(_EXP_MINUS_EIGHTH, x + rest)


def exponential(a: int, integer_bits: int) -> int:
    """``exp(a)`` in 0 integer bits, of an ``a`` not above 0 in some integer bits."""
    if a == 0:
        return LARGEST
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    near = (a & (quarter - 1)) - quarter
    result = _exp_near_zero(multiplied(near, integer_bits))
    remainder = near - a
    for exponent, factor in BARREL:
        if integer_bits > exponent and remainder >> (fraction_bits + exponent) & 1:
            result = product(result, factor)
    if integer_bits > 5 and a < -(1 << (36 - integer_bits)):
        return 0
    return result


DIFFERENCE_BITS = 5
"""Integer bits of the differences of softmax."""
SUM_BITS = 12
"""Integer bits of the sum of its exponentials."""


@cache
def softmax_table(multiplier: int, shift: int) -> np.ndarray:
    """Exponentials of how far bytes are below the largest of their row.

    Args:
        multiplier: of the differences, 31 bits.
        shift: of the differences, to the left; at least 0.

    Returns:
        ``i32[256]`` by difference, in 0 integer bits; 0 where a difference would not fit
        ``DIFFERENCE_BITS``.
    """
    most = ((1 << DIFFERENCE_BITS) - 1) << (31 - DIFFERENCE_BITS) >> shift
    powers = [
        exponential(product(-below << shift, multiplier), DIFFERENCE_BITS) if below <= most else 0
        for below in range(256)
    ]
    table = np.array(powers, np.int32)
    table.flags.writeable = False
    return table


def reciprocal(sum: int) -> tuple[int, int]:
    """A positive sum's reciprocal.

    Args:
        sum: in ``SUM_BITS`` integer bits.

    Returns:
        ``1 / sum`` in 0 integer bits, scaled to a half and more, and how many bits it was scaled.
    """
    headroom = 32 - sum.bit_length()
    half = sum << headroom >> 1
    one, x = 1 << 29, 1515870810 + product(half, -1010580540)
    for _ in range(3):
        x += multiplied(product(x, one - product(half, x)), 2)
    return multiplied(x, 1), SUM_BITS - headroom
