"""How many queries at a time attention computes, and about what that costs."""

from __future__ import annotations

from functools import partial
from math import prod

from weft.dtypes import DType
from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.attention.query_blocks import AttentionWriter, register_tile
from weft.kernels.attention.streamed import Streamed
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.plan.attention import Attention, attention_of
from weft.plan.implementation import Implementation, Operand
from weft.targets.target import Target

CHUNKS = (128, 256, 512)
"""Keys at a time that are worth trying."""


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """Some register tiles of rows, which share what is read of keys; all keys or chunks of them.

    Scaling what was summed rounds, so that ``exact`` takes all keys.
    """
    found = attention_of(task.compute)
    if found is None:
        return Refusal("it is no sum of values weighted by the softmax of products")
    rows = AttentionWriter(task, found, 1).row_task(1)
    if rows is None or rows.held is None:
        return Refusal("its scores cannot be computed row by row")
    most = 1 if found.row is None else found.row.extent
    tile, vectors = register_tile(task, found, most)
    panel = vectors * task.target.lanes(DType.F32)
    # Where there are no caches memory is short; else the more rows share panels the better.
    tiles = (4, 2, 1) if task.target.caches else (1, 2, 4)
    spans = [0]
    if not task.exact:
        spans += [
            size // panel for size in CHUNKS if panel <= size and 2 * size <= found.key.extent
        ]
    costs = {
        (rows, span): cycles(task, found, rows, span * panel or found.key.extent)
        for rows in dict.fromkeys(min(most, count * tile) for count in tiles)
        for span in spans
    }
    return tuple(
        Alternative(
            named(rows, span),
            cost,
            sums(task, found, rows, span),
            partial(write, task, rows, span),
            always,
        )
        for (rows, span), cost in costs.items()
    )


def sums(task: Task, found: Attention, rows: int, span: int) -> Sums:
    """In which order it adds up: only chunks matter, of so many panels of so many vectors."""
    if not span:
        return Sums("attention")
    _, vectors = register_tile(task, found, rows)
    return Sums("attention", (span, vectors))


def named(rows: int, span: int) -> str:
    """What the alternative is called."""
    return f"attention-{rows}x{span}" if span else f"attention-{rows}"


def write(task: Task, rows: int, span: int = 0) -> Implementation | None:
    """The kernel of a task that is attention, or ``None``.

    Args:
        task: what to compute.
        rows: queries at a time.
        span: panels of keys at a time; 0 for all keys.
    """
    found = attention_of(task.compute)
    if found is None:
        return None
    writer = Streamed(task, found, rows, span) if span else AttentionWriter(task, found, rows)
    kernel = writer.kernel()
    if kernel is None:
        return None
    return Implementation(kernel, tuple(map(Operand, task.values)), named(rows, span))


def cycles(task: Task, found: Attention, rows: int, span: int) -> float:
    """An estimate, ``rows`` queries and ``span`` keys at a time."""
    target, costs = task.target, task.target.costs
    lanes = target.lanes(DType.F32)
    heads = prod(axis.extent for axis in found.outer)
    queries = found.row.extent if found.row else 1
    keys, width, columns = (a.extent for a in (found.key, found.width, found.column))
    products = queries * keys * (width + columns) / (target.multiply_adds * lanes)
    tile, vectors = register_tile(task, found, rows)
    chunks = -(-keys // span)
    tiles = queries / tile * (keys + columns * chunks) / (vectors * lanes)
    scores = queries * keys / lanes * costs.softmax
    scaled = queries * (chunks - 1) * (costs.row + columns / lanes)
    layout = keys * (width + columns) * costs.layout
    far = spilled(target, rows * span, queries * keys)
    return heads * (products + tiles * costs.row + scores + scaled + layout + far)


def spilled(target: Target, held: int, scores: int) -> float:
    """Cycles to wait for scores of which so many are there at a time, if caches are too small.

    They are written, and read by every stage, from beyond a core's own caches; out of the second
    one they come in time.
    """
    if not target.caches or held * DType.F32.bytes <= target.caches[-1] / 2:
        return 0.0
    return 4 * scores * DType.F32.bytes / target.far


GENERATOR = Generator(
    "attention",
    "Scores, softmax and mixture of a few queries at a time, without the matrix of all "
    "scores in memory; keys whole or in chunks.",
    (
        "a sum of values weighted by the softmax of products, in f32, fused into one definition",
        "scores that can be computed row by row",
    ),
    propose,
)
