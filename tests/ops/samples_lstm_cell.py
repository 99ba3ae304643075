"""Samples of the cell of an LSTM in 16 bits; LiteRT's tests are in `tests/frontends/litert`."""

from __future__ import annotations

import numpy as np

from tests.ops.samples import Bad, Sample, Typed
from weft.ops.lstm_cell import FixedPointLstmCellAttributes

RNG = np.random.default_rng(8)


def halves(*shape: int) -> np.ndarray:
    """All of the type, its ends and 0 among them."""
    found = RNG.integers(-32768, 32768, shape).astype(np.int16)
    found.reshape(-1)[:6] = (-32768, -32767, -1, 0, 1, 32767)
    return found


SAMPLES = [
    # By hand: halves of nothing are nothing, and the output its zero point.
    Sample(
        "FixedPointLstmCell",
        (np.zeros((1, 8), np.int16), np.zeros((1, 2), np.int16)),
        FixedPointLstmCellAttributes(4, 1 << 30, -5, zero_point=-9),
        outputs=2,
        expected=([[-9, -9]], [[0, 0]]),
    ),
    *(
        Sample(
            "FixedPointLstmCell",
            (halves(2, count * 512), halves(2, 512)),
            FixedPointLstmCellAttributes(bits, 1518500250, shift, 7, clip, coupled),
            outputs=2,
        )
        for bits, shift, clip, coupled, count in (
            (4, -22, 0, 0, 4),
            (0, -23, 9999, 0, 4),
            (6, -22, 0, 1, 3),
            (3, 0, 0, 0, 4),
        )
    ),
]
BAD = [
    Bad(
        "FixedPointLstmCell",
        ("i16[2,6]", "i16[2,2]"),
        "fixedpointlstmcell: the gates must be i16[2,8]; got i16[2,6] (node bad)",
        FixedPointLstmCellAttributes(4, 1, 0),
    ),
    Bad(
        "FixedPointLstmCell",
        ("i16[2,8]", "i16[2,2]"),
        "fixedpointlstmcell: the state must have 0 to 6 integer bits; got 7 (node bad)",
        FixedPointLstmCellAttributes(7, 1, 0),
    ),
]
TYPES = [
    Typed(
        "FixedPointLstmCell",
        ("i16[N,8]", "i16[N,2]"),
        ("i8[N,2]", "i16[N,2]"),
        FixedPointLstmCellAttributes(4, 1, 0),
    ),
]
