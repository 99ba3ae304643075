"""Long sums of products in blocks of terms, each added up by itself.

The rounding of a sum of n terms grows with the root of n, of a sum of blocks with that of a block
and of their number: of 256 terms it is half (N. Higham, *The Accuracy of Floating Point
Summation*, 1993).  A block costs a load, an addition and a store for each accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.loops.walk import dtype_of

BLOCK = 64
"""About how many terms a block has: for each accumulator, one addition more in 64."""


def block_size(parts: Contraction, extents: Sequence[int], terms: int = BLOCK) -> int:
    """How many steps of the outermost loop make a block of a sum; 0 if the sum is one.

    Short sums are one, those of integers are exact, those of pairs round in other places, and
    memory without caches is short for the sums of other blocks.

    Args:
        parts: what is summed.
        extents: steps of the loops over taps and channels, the outermost first.
        terms: about how many make a block.
    """
    assert parts.reduce is not None
    floats = parts.reduce.op == "sum" and dtype_of(parts.reduce.value) is DType.F32
    slides = parts.slide is not None and len(extents) == 1
    if not floats or parts.pairs or slides or not parts.task.target.caches:
        return 0
    if prod(extents) < 2 * terms:
        return 0
    steps = max(1, round(terms / prod(extents[1:])))
    count = -(-extents[0] // steps)
    return -(-extents[0] // count) if count > 1 else 0
