"""Attention of bfloat16: both products by instructions that multiply pairs.

Queries, keys and values are multiplied as they are stored.  Weights are rounded to bfloat16 for the
second product; their sum is that of the unrounded ones::

    for outer axes (batch, heads):                                           (parallel)
      keys[panel][pair of width][lane][2], values[panel][pair of keys][lane][2]
      for block of queries:
        scores[query][key] = sum over pairs of width of queries * keys
        weights[query][key] = exp(scaled and masked scores - their maximum)
        totals[query] = 1 / sum over keys of the unrounded weights
        out[query][lane] = (sum over pairs of keys of weights * values) * totals[query]

Lanes past the last key are computed, too, and never read: the mask is added behind the product, to
the scores that there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from weft.cached import cached_property
from weft.dtypes import DType
from weft.kernels.attention.pair_panels import PairPanels
from weft.kernels.attention.panels import Chunk
from weft.kernels.attention.query_blocks import (
    FEW_ROWS,
    KEYS,
    SCORES,
    TOTALS,
    VALUES,
    AttentionWriter,
)
from weft.kernels.contraction import Contraction
from weft.kernels.paired_factors import PairedFactors, depth_of, positions_of
from weft.kernels.products.microkernel import replaced
from weft.kernels.products.pairs import PAIR, neighbours_last, rows_of
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock, blocks_of, tile_shape, whole_vectors
from weft.kernels.writer import (
    CHEAP,
    LANE,
    for_range,
    integer,
    plus,
    spans,
    times,
    vector,
    with_locals,
)
from weft.loops.definition import Compute
from weft.loops.instruction import Instruction
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Load,
    Reduce,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import blocks, with_blocks
from weft.loops.walk import free_vars, loads, substitute
from weft.plan.attention import TOTAL, Attention, attention_of
from weft.records import dataclass

_F32, _BF16 = DType.F32, DType.BF16
QUERIES, WEIGHTS = "queries", "weights"
_ZERO = Const(0.0, _BF16)
ROUNDING = 0.0017
"""What rounding the weights adds to the error of the second product: root mean square over standard
deviation, for independent values and weights with log-uniform significands."""


@dataclass(frozen=True)
class Reads:
    """What the products of attention read.

    Attributes:
        task: whose inputs have elements that lie side by side in their last dimension.
        found: the attention.
        query, keys, values: the loads, of bfloat16.
    """

    task: Task
    found: Attention
    query: Load
    keys: Load
    values: Load

    @property
    def queries(self) -> int:
        """How many there are."""
        return self.found.row.extent if self.found.row else 1


def reads_of(task: Task) -> Reads | Refusal:
    """What the products read, or why no pairs can be multiplied."""
    if task.exact:
        return Refusal("weights would be rounded")
    if all(each.dtype is not _BF16 for each in task.inputs):
        return Refusal("it reads no bf16")
    if attention_of(task.compute) is None:
        return Refusal("it is no sum of values weighted by the softmax of products")
    task = neighbours_last(task)
    found = attention_of(task.compute)
    assert found is not None
    if found.row is None or found.row.extent < FEW_ROWS:
        return Refusal(f"there are fewer than {FEW_ROWS} queries")
    loads: list[Load] = []
    for factor in (found.queries, found.keys, found.values):
        match factor:
            case Cast(DType.F32, Load(dtype=DType.BF16) as load):
                loads.append(load)
            case _:
                return Refusal("what is multiplied is not bf16 on both sides")
    return Reads(task, found, *loads)


def pair_rows(task: Task) -> Mapping[int, Instruction] | None:
    """The instructions that multiply pairs of one position, by lanes."""
    rows = rows_of(task.target, exact=False)
    return next((each for each in rows if depth_of(each) == PAIR and positions_of(each) == 1), None)


@dataclass
class Paired(AttentionWriter):
    """Writes the loops for some rows of queries at a time."""

    reads: Reads

    # --- what is laid out -----------------------------------------------------------------

    @cached_property
    def packs_keys(self) -> bool:
        """Keys are laid out."""
        return True

    @cached_property
    def packs_values(self) -> bool:
        """Values are laid out."""
        return True

    @cached_property
    def depth(self) -> int:
        """Elements of a query, padded to whole pairs."""
        return -(-self.found.width.extent // PAIR) * PAIR

    @cached_property
    def length(self) -> int:
        """Weights of a query, padded to whole pairs."""
        return -(-self.found.key.extent // PAIR) * PAIR

    @cached_property
    def key_blocks(self) -> list[LaneBlock]:
        """Blocks of keys, in whole vectors."""
        found = blocks_of(self.found.key.extent, self.lanes, self.shape[1])
        return whole_vectors(found, self.lanes, self.lanes)

    @cached_property
    def column_blocks(self) -> list[LaneBlock]:
        """Blocks of the elements of values."""
        return blocks_of(self.found.column.extent, self.lanes, self.shape[1])

    @cached_property
    def keys(self) -> PairPanels:
        """The keys."""
        found, pairs = self.found, self.depth // PAIR
        return PairPanels(
            KEYS, self.reads.keys, found.key, found.width, pairs, tuple(self.key_blocks)
        )

    @cached_property
    def values(self) -> PairPanels:
        """The values."""
        found, pairs = self.found, self.length // PAIR
        return PairPanels(
            VALUES, self.reads.values, found.column, found.key, pairs, tuple(self.column_blocks)
        )

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and vectors of a register tile."""
        spot, wide = Axis("spot", self.rows), Axis("wide", self.found.key.extent)
        parts = self.pairs(QUERIES, KEYS, self.depth, wide, spot, Var("spot"))
        return tile_shape(parts, self.lanes)

    @property
    def held(self) -> int:
        """Queries that there is space for."""
        return self.rows

    @property
    def queries_buffer(self) -> Buffer:
        """Queries of a block, one after another."""
        return Buffer(QUERIES, _BF16, (1, self.held * self.depth), Access.LOCAL)

    @property
    def weights_buffer(self) -> Buffer:
        """Weights of a block, one query's after another's."""
        return Buffer(WEIGHTS, _BF16, (1, self.held * self.length), Access.LOCAL)

    # --- loops ----------------------------------------------------------------------------

    def with_panels(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loops over queries; the padding of pairs is zero and stays so."""
        buffers = [self.queries_buffer, self.weights_buffer]
        zeros = [stmt for each in buffers for stmt in self.cleared(each)]
        return with_locals(buffers, (*zeros, *super().with_panels(body)))

    def cleared(self, buffer: Buffer) -> Iterator[Stmt]:
        """Zeros everywhere."""

        def clear(_: int, width: int, first: Expr) -> Sequence[Stmt]:
            place = (integer(0), plus(first, Var(LANE)))
            return [vector(width, Store(buffer.name, place, _ZERO))]

        yield from spans(blocks_of(buffer.shape[1], PAIR * self.lanes, CHEAP), clear)

    def block(self, first: Expr | None, size: int) -> tuple[Stmt, ...] | None:
        """The outputs of some queries."""
        chunk = self.whole
        softmax = self.softmax(size)
        if softmax is None:
            return None
        scores = self.scores(size, chunk)
        stages = (
            *self.fetched(first, size),
            *self.products(scores, first, chunk),
            *self.masked(first, size),
            *softmax,
            *self.mixtures(scores, first, chunk),
        )
        space = replace(scores, shape=(self.held, scores.shape[1]))
        return with_locals([space, Buffer(TOTALS, _F32, (size,), Access.LOCAL)], stages)

    def fetched(self, first: Expr | None, size: int) -> Iterator[Stmt]:
        """Copies the queries of a block."""

        def copy(_: int, width: int, start: Expr) -> Sequence[Stmt]:
            lane = plus(start, Var(LANE))
            at = {self.found.width.var: lane, **self.query(first, Var("spot"))}
            place = (integer(0), plus(times(Var("spot"), self.depth), lane))
            return [vector(width, Store(QUERIES, place, substitute(self.reads.query, at)))]

        copies = spans(blocks_of(self.found.width.extent, PAIR * self.lanes, 1), copy)
        yield for_range("spot", size, tuple(copies))

    def query(self, first: Expr | None, row: Expr) -> dict[str, Expr]:
        """The query of a row of a block."""
        return {self.found.row.var: plus(first, row)} if self.found.row and first else {}

    # --- scores ---------------------------------------------------------------------------

    def pairs(
        self, image: str, weight: str, length: int, lanes: Axis, tile: Axis, row: Expr
    ) -> Contraction:
        """A product by pairs.

        Args:
            image: the buffer of its positions.
            weight: that of its panels.
            length: numbers of each sum.
            lanes: the axis of vectors.
            tile: the axis of positions.
            row: of the first buffer, by that axis.
        """
        rows = pair_rows(self.task)
        assert rows is not None
        step = Axis("point", length // PAIR)
        place = plus(times(row, length), times(Var(step.var), PAIR))
        moved = Load(image, (integer(0), place), _BF16)
        held = Load(weight, (Var(step.var), Var(lanes.var)), _BF16)
        value = Binary("mul", Cast(_F32, moved), Cast(_F32, held))
        reduce = Reduce("sum", (step,), value)
        task = replace(self.task, compute=Compute((tile, lanes), reduce))
        factors = PairedFactors(step.var, moved, rows)
        return Contraction(task, reduce, value, (), lanes, tile, (), weight, None, factors)

    def products(self, scores: Buffer, first: Expr | None, chunk: Chunk) -> Iterator[Stmt]:
        """``scores = queries * keys``."""
        spot, wide = Axis("spot", scores.shape[0]), Axis("wide", scores.shape[1])
        parts = self.pairs(QUERIES, KEYS, self.depth, wide, spot, Var("spot"))
        parts = replace(parts, task=replace(parts.task, output=scores))
        yield from self.tiles(parts, self.keys, chunk.pieces, integer(0), spot.extent)

    @cached_property
    def scaled_late(self) -> bool:
        """Whether scores are products times a constant at most, so that the softmax scales them."""
        return not free_vars(self.bare) and all(load == TOTAL for load in loads(self.bare))

    def masked(self, first: Expr | None, size: int) -> Iterator[Stmt]:
        """Scales and masks what was summed."""
        if self.scaled_late:
            return

        def mask(_: int, width: int, start: Expr) -> Sequence[Stmt]:
            lane = plus(start, Var(LANE))
            at = {self.found.key.var: lane, **self.query(first, Var("spot"))}
            sum = Load(SCORES, (Var("spot"), lane), _F32)
            value = replaced(substitute(self.bare, at), TOTAL, sum)
            return [vector(width, Store(SCORES, sum.index, value))]

        inner = spans(blocks_of(self.found.key.extent, self.lanes, 1), mask)
        yield for_range("spot", size, tuple(inner))

    # --- softmax --------------------------------------------------------------------------

    def score(self, row: Expr) -> Expr:
        """What the softmax reads of a query."""
        read = super().score(row)
        return replaced(self.bare, TOTAL, read) if self.scaled_late else read

    def softmax(self, size: int) -> tuple[Stmt, ...] | None:
        """Weights, and the reciprocals of their sums, from scores."""
        found = super().softmax(size)
        return None if found is None else tuple(map(self.rounded, found))

    def rounded(self, stmt: Stmt) -> Stmt:
        """Stores weights rounded, too, behind each store of them."""

        def narrow(store: Store) -> Store:
            row, key = store.index
            place = (integer(0), plus(times(row, self.length), key))
            return Store(WEIGHTS, place, Cast(_BF16, Load(SCORES, store.index, _F32)))

        def visit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
            found: list[Stmt] = []
            for each in body:
                match each:
                    case Store(buffer) if buffer == SCORES:
                        found += (each, narrow(each))
                    case For(body=(Store(buffer) as store,)) if buffer == SCORES:
                        found += (each, replace(each, body=(narrow(store),)))
                    case _:
                        found.append(self.rounded(each))
            return tuple(found)

        return with_blocks(stmt, [visit(inner) for inner in blocks(stmt)])

    def divisor(self, total: Expr) -> Expr:
        """What mixtures are multiplied by."""
        return Binary("div", Const(1.0, _F32), total)

    # --- means of values ------------------------------------------------------------------

    def mixtures(self, scores: Buffer, first: Expr | None, chunk: Chunk) -> Iterator[Stmt]:
        """``out = weights * values``, times the reciprocals of the sums of weights."""
        found, compute, row = self.found, self.task.compute, self.local_row(first)
        assert found.row is not None
        parts = self.pairs(WEIGHTS, VALUES, self.length, found.column, found.row, row)
        assert parts.reduce is not None
        mean = Binary("mul", parts.reduce, Load(TOTALS, (row,), _F32))
        value = replaced(compute.value, found.mixed, mean)
        parts = replace(parts, task=replace(self.task, compute=replace(compute, value=value)))
        pieces = [(n, integer(0), block) for n, block in enumerate(self.values.blocks)]
        yield from self.tiles(parts, self.values, pieces, first, scores.shape[0])
