"""Attention by pairs of bfloat16: which kernels there are, and about what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.attention.choice import spilled
from weft.kernels.attention.pair_panels import SQUARE, PairPanels
from weft.kernels.attention.paired import ROUNDING, Paired, Reads, pair_rows, reads_of
from weft.kernels.attention.tiles import MOST, Tiles
from weft.kernels.generator import Generator
from weft.kernels.products.amx_choice import FAMILY, instruction_rate, step_cycles
from weft.kernels.products.amx_lines import LANES, PAIR, ROWS
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.instruction import families
from weft.plan.implementation import Implementation, Operand

_BLOCKS = (4, 2, 1)
"""Register tiles of queries in a block."""
_TURN, _WEAVE, _COPY = 80.0, 3.0, 2.0
"""Cycles to turn a square of pairs, to weave two vectors, to copy one."""


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """Tiles of 32 queries, and some register tiles of pairs."""
    tiles = families()[FAMILY][0] in task.target.features
    rows = pair_rows(task)
    if rows is None and not tiles:
        return Refusal("the target has no instruction for pairs of bf16")
    reads = reads_of(task)
    if isinstance(reads, Refusal):
        return reads
    found = tuple(_tiles(reads)) if tiles else ()
    if rows is not None and reads.found.column.extent % min(rows) == 0:
        found += tuple(_register_tiles(reads, rows[max(rows)].name))
    return found or Refusal(f"the elements of a value are no multiple of {min(rows or (1,))}")


def _tiles(reads: Reads) -> Iterator[Alternative]:
    writer = Tiles(reads.task, reads.found, min(MOST, reads.queries), reads)
    yield _offered(writer, FAMILY, tile_cycles(writer), (writer.step_pairs,))


def _register_tiles(reads: Reads, instruction: str) -> Iterator[Alternative]:
    high, _ = Paired(reads.task, reads.found, reads.queries, reads).shape
    for size in dict.fromkeys(min(reads.queries, high * count) for count in _BLOCKS):
        writer = Paired(reads.task, reads.found, size, reads)
        yield _offered(writer, instruction, pair_cycles(writer), ())


def _offered(writer: Paired, instruction: str, cost: float, sizes: tuple[int, ...]) -> Alternative:
    name = f"attention-{instruction}-{writer.rows}"
    return Alternative(
        name,
        cost,
        Sums(f"attention-{instruction}", sizes),
        partial(_write, writer, name),
        always,
        error=ROUNDING,
        allowed=writer.task.max_rounding >= ROUNDING,
    )


def _write(writer: Paired, name: str) -> Implementation | None:
    kernel = writer.kernel()
    if kernel is None:
        return None
    return Implementation(kernel, tuple(map(Operand, writer.task.values)), name)


def tile_cycles(writer: Tiles) -> float:
    """An estimate for AMX's tiles on one core."""
    target = writer.task.target
    high, wide = writer.held // ROWS, writer.wide // LANES
    step = step_cycles(target, high, wide)
    stores = high * wide * instruction_rate(target, "tilestored")
    products = 0.0
    for panels in (writer.keys, writer.values):
        count = sum(block.count for block in panels.blocks)
        products += count * (panels.pairs // writer.step_pairs * step + stores)
    assert writer.found.row is not None
    blocks = -(-writer.found.row.extent // writer.rows)
    configured = sum(instruction_rate(target, name) for name in ("ldtilecfg", "tilerelease"))
    return _heads(writer) * (blocks * products + configured + _around(writer))


def pair_cycles(writer: Paired) -> float:
    """An estimate for an instruction on pairs on one core."""
    found, target = writer.found, writer.task.target
    assert found.row is not None
    rows = pair_rows(writer.task)
    assert rows is not None
    queries, keys, columns = found.row.extent, found.key.extent, found.column.extent
    rate = target.multiply_adds * writer.lanes / target.cycles(rows[max(rows)])
    products = queries * keys * (found.width.extent + columns) / PAIR / rate
    high, vectors = writer.shape
    tiles = queries / high * (keys + columns) / (vectors * writer.lanes)
    return _heads(writer) * (products + tiles * target.costs.row + _around(writer))


def _heads(writer: Paired) -> int:
    return prod(axis.extent for axis in writer.found.outer)


def _around(writer: Paired) -> float:
    """Cycles for all of a head but its products."""
    found, target = writer.found, writer.task.target
    assert found.row is not None
    queries, keys = found.row.extent, found.key.extent
    copied = queries * writer.depth + writer.held * (writer.depth + writer.length)
    total = copied / (PAIR * writer.lanes) * _COPY
    scores = queries * keys / writer.lanes
    total += scores * (target.costs.softmax + (0 if writer.scaled_late else _COPY))
    total += spilled(target, writer.held * keys, queries * keys)
    total += queries * (target.costs.row + found.column.extent / writer.lanes * _COPY)
    return total + sum(_layout(writer, each) for each in (writer.keys, writer.values))


def _layout(writer: Paired, panels: PairPanels) -> float:
    """Cycles to lay a factor out."""
    pairs, lanes = panels.pairs, panels.lanes.extent
    match panels.way(writer.task):
        case "turned":
            return -(-pairs // SQUARE) * -(-lanes // SQUARE) * _TURN
        case "woven":
            return pairs * -(-lanes // SQUARE) * _WEAVE
        case _:
            return PAIR * pairs * lanes * writer.task.target.costs.layout


GENERATOR = Generator(
    "attention-pairs",
    "Attention of bfloat16, some queries at a time: an instruction of the target multiplies pairs "
    "of numbers (AVX-512 BF16) or tiles of them (AMX); weights are rounded for it.",
    (
        "a sum of values weighted by the softmax of products, fused into one definition",
        "queries, keys and values of bf16, read as f32; at least 8 queries",
        "the target has the instruction",
        "the rounding of weights is allowed (--max-rounding)",
    ),
    propose,
)
