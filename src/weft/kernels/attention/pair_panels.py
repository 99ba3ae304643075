"""Factors of bfloat16 laid out in pairs along the sum, for instructions that multiply pairs.

Elements that are contiguous along the sum are transposed in squares of 16 lanes by 16 pairs; of
elements that are contiguous along the lanes two rows are interleaved; others are copied one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.dtypes import DType
from weft.kernels.elementwise.passes import step_of
from weft.kernels.products.pairs import PAIR
from weft.kernels.task import Task
from weft.kernels.tiling import LaneBlock
from weft.kernels.writer import for_range, integer, nested, plus, times
from weft.loops.instruction import instruction, member
from weft.loops.nodes import (
    Access,
    Axis,
    Buffer,
    Const,
    Expr,
    Instruct,
    Load,
    Stmt,
    Store,
    Var,
)
from weft.loops.walk import free_vars, substitute
from weft.records import dataclass

SQUARE = 16
"""Lanes, and pairs of each, that are turned at a time."""
_STEP, _LANE, _GROUP = "chunk", "spot", "group"
_ZERO = Const(0.0, DType.BF16)


@dataclass(frozen=True)
class PairPanels:
    """A factor of a product, laid out for it: ``[panel][pair of the sum][lane][2]``.

    Attributes:
        name: of the first buffer; value: the load of an element, of bfloat16, whose last
            dimension is the one of neighbours.
        lanes: the axis of vectors; depth: of the sum.
        pairs: of a lane; those that nothing belongs to are zeros.
        blocks: of lanes; those past the last one hold anything.
    """

    name: str
    value: Load
    lanes: Axis
    depth: Axis
    pairs: int
    blocks: tuple[LaneBlock, ...]

    def buffer(self, number: int) -> Buffer:
        """The panels of a block."""
        block = self.blocks[number]
        shape = (block.count, self.pairs, block.width, PAIR)
        return Buffer(f"{self.name}_{number}", DType.BF16, shape, Access.LOCAL)

    def laid_out(self, task: Task) -> Iterator[Stmt]:
        """The loops that fill the panels."""
        way = self.way(task)
        write = {"turned": self._turned, "woven": self._woven, "": self._each}[way]
        for number, block in enumerate(self.blocks):
            body = (*write(number), *self._ends(number, way))
            yield from (for_range(_GROUP, block.count, body),) if block.count > 1 else body

    def way(self, task: Task) -> str:
        """How they are filled: ``turned``, ``woven``, or else number by number."""
        if instruction(member("weave_pairs", SQUARE)).needs not in task.target.features:
            return ""
        steps = next(each.steps for each in task.inputs if each.name == self.value.buffer)
        if self._neighbours(self.depth, steps):
            return "" if any(block.width % SQUARE for block in self.blocks) else "turned"
        return "woven" if self._neighbours(self.lanes, steps) else ""

    def _neighbours(self, axis: Axis, steps: Sequence[int]) -> bool:
        """Whether the elements along an axis lie side by side, in the last dimension."""
        others = self.value.index[:-1]
        apart = not any(axis.var in free_vars(part) for part in others)
        return apart and step_of(self.value, axis.var, steps) == 1

    def _own(self, number: int) -> int:
        """Lanes of a block that something belongs to."""
        block = self.blocks[number]
        return min(block.width, self.lanes.extent - block.start)

    def _first(self, number: int) -> Expr:
        """The first lane of a panel."""
        block = self.blocks[number]
        group = times(Var(_GROUP), block.width) if block.count > 1 else integer(0)
        return plus(group, block.start)

    def _place(self, number: int, step: Expr | int, lane: Expr | int, half: int = 0) -> Load:
        """An element of a panel."""
        group = Var(_GROUP) if self.blocks[number].count > 1 else integer(0)
        index = (group, *(integer(p) if isinstance(p, int) else p for p in (step, lane, half)))
        return Load(self.buffer(number).name, index, DType.BF16)

    def _element(self, lane: Expr, step: Expr) -> Load:
        """The element of a lane at a step of the sum."""
        found = substitute(self.value, {self.lanes.var: lane, self.depth.var: step})
        assert isinstance(found, Load)
        return found

    def _turned(self, number: int) -> Iterator[Stmt]:
        """Squares of lanes by pairs; lanes past the last one repeat it."""
        block, own, first = self.blocks[number], self._own(number), self._first(number)
        whole, rest = divmod(self.depth.extent // PAIR, SQUARE)
        for start, count, pairs in ((0, whole, SQUARE), (whole * SQUARE, 1, rest)):
            if not count * pairs:
                continue
            step = plus(times(Var(_STEP), SQUARE) if count > 1 else integer(0), start)
            body = tuple(
                Instruct(
                    member("turn_pairs", pairs, block.width),
                    (
                        self._place(number, step, lane),
                        *(
                            self._element(plus(first, min(lane + row, own - 1)), times(step, PAIR))
                            for row in range(SQUARE)
                        ),
                    ),
                )
                for lane in range(0, block.width, SQUARE)
            )
            yield from (for_range(_STEP, count, body),) if count > 1 else body

    def _woven(self, number: int) -> Iterator[Stmt]:
        """Two steps of all lanes at a time."""
        own, first = self._own(number), self._first(number)
        body: list[Stmt] = []
        for lane in range(0, own, SQUARE):
            rows = (
                self._element(plus(first, lane), plus(times(Var(_STEP), PAIR), half))
                for half in range(PAIR)
            )
            name = member("weave_pairs", min(SQUARE, own - lane))
            body.append(Instruct(name, (self._place(number, Var(_STEP), lane), *rows)))
        yield for_range(_STEP, self.depth.extent // PAIR, tuple(body))

    def _each(self, number: int) -> Iterator[Stmt]:
        """Number by number."""
        lane = plus(self._first(number), Var(_LANE))
        axes = Axis(_STEP, self.depth.extent // PAIR), Axis(_LANE, self._own(number))
        body = tuple(
            self._store(
                self._place(number, Var(_STEP), Var(_LANE), half),
                self._element(lane, plus(times(Var(_STEP), PAIR), half)),
            )
            for half in range(PAIR)
        )
        yield from nested(axes, body)

    def _ends(self, number: int, way: str) -> Iterator[Stmt]:
        """A last step without a partner, and zeros where there is nothing."""
        whole, odd = divmod(self.depth.extent, PAIR)
        own, width = self._own(number), self.blocks[number].width
        if odd:
            lane = plus(self._first(number), Var(_LANE))
            last = self._element(lane, integer(self.depth.extent - 1))
            stores = (
                self._store(self._place(number, whole, Var(_LANE)), last),
                self._store(self._place(number, whole, Var(_LANE), 1), _ZERO),
            )
            yield for_range(_LANE, own, stores)
        done = whole if way == "turned" else 0
        yield from self._zeros(number, (done, whole + odd), (own, width))
        yield from self._zeros(number, (whole + odd, self.pairs), (0, width))

    def _zeros(
        self, number: int, steps: tuple[int, int], lanes: tuple[int, int]
    ) -> tuple[Stmt, ...]:
        """Zeros for a range of pairs and of lanes."""
        axes = Axis(_STEP, steps[1] - steps[0]), Axis(_LANE, lanes[1] - lanes[0])
        if not all(axis.extent for axis in axes):
            return ()
        step, lane = plus(Var(_STEP), steps[0]), plus(Var(_LANE), lanes[0])
        places = (self._place(number, step, lane, half) for half in range(PAIR))
        return nested(axes, tuple(self._store(place, _ZERO) for place in places))

    @staticmethod
    def _store(place: Load, value: Expr) -> Store:
        return Store(place.buffer, place.index, value)
