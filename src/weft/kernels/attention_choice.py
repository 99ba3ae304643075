"""How many queries at a time attention computes, and about what that costs."""

from __future__ import annotations

from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels import attention
from weft.kernels.alternatives import Alternative
from weft.kernels.task import Task
from weft.plan.attention import Attention, attention_of

_EXP_CYCLES = 20
"""For what softmax does with one vector of scores."""
_LAYOUT_CYCLES = 1.0
"""For one element of keys and values that is laid out for the products."""
_START_CYCLES = 40
"""To begin a register tile."""


def propose(task: Task) -> tuple[Alternative, ...]:
    """One register tile of rows, or two, or four; some more rows share what is read of keys."""
    found = attention_of(task.compute)
    if found is None:
        return ()
    most = 1 if found.row is None else found.row.extent
    tile, _ = attention.register_tile(task, found, most)
    costs = {
        min(most, count * tile): cycles(task, found, min(most, count * tile)) for count in (2, 1, 4)
    }
    return tuple(
        Alternative(f"attention-{rows}", cost, partial(attention.write, task, rows))
        for rows, cost in costs.items()
    )


def cycles(task: Task, found: Attention, rows: int) -> float:
    """An estimate, ``rows`` queries at a time."""
    lanes = task.target.lanes(DType.F32)
    heads = prod(axis.extent for axis in found.outer)
    queries = found.row.extent if found.row else 1
    keys, width, columns = (a.extent for a in (found.key, found.width, found.column))
    products = queries * keys * (width + columns) / (2 * lanes)
    tile, vectors = attention.register_tile(task, found, rows)
    tiles = queries / tile * (keys + columns) / (vectors * lanes)
    softmax = queries * keys / lanes * _EXP_CYCLES
    layout = keys * (width + columns) * _LAYOUT_CYCLES
    # What does not stay in the first cache between the stages is read from the second.
    near = task.target.caches[0] / 2 if task.target.caches else 0
    spilled = (
        max(0.0, rows * keys * DType.F32.bytes - near) / 32 * 3 * queries / rows if near else 0
    )
    return heads * (products + tiles * _START_CYCLES + softmax + layout + spilled)
