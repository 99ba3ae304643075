"""Kernels cut into parts: each thread runs its share of the loops at the top."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod

from weft.codegen import tree as c
from weft.codegen.block import BlockWriter
from weft.codegen.flavours import Dialect
from weft.codegen.linear import atom
from weft.codegen.value import CValue
from weft.codegen.writer import StatementWriter
from weft.loops.alike import Shared
from weft.loops.nodes import Kernel, Stmt
from weft.plan.work import Range, WorkStage


class PartWriter(StatementWriter):
    """Writes the statements of one stage of a kernel of which a thread runs its part.

    Attributes:
        part: the C name of the part's number.
        parts: the C name of the number of parts.
        stages: the C name of the set of stages to run, as bits, where there are several.
    """

    def __init__(self, kernel: Kernel, flavour: Dialect, shared: Shared | None = None) -> None:
        super().__init__(kernel, flavour, shared)
        self.part, self.parts = self._names.fresh("part"), self._names.fresh("parts")
        self.stages = self._names.fresh("stages")
        self.numbers += self.part, self.parts

    def cut(self, stage: WorkStage, block: BlockWriter) -> None:
        """Ranges, of which each part does a share, and the rest, which is the first part's."""
        whole: list[Stmt] = []
        count = 0
        for place, stmt in enumerate(stage.stmts):
            if place not in stage.ranges:
                whole.append(stmt)
                continue
            self._first_part(whole, block)
            whole = []
            self._share(stage.ranges[place], block, early=count % 2 == 1)
            count += 1
        self._first_part(whole, block)

    def _first_part(self, stmts: Sequence[Stmt], block: BlockWriter) -> None:
        if stmts:
            inner = BlockWriter()
            self.block(stmts, inner)
            test = c.CBinary("==", c.Name(self.part), c.CNumber("0"))
            block.add(c.CIf(test, self._close(inner, block)))

    def _share(self, cut: Range, block: BlockWriter, early: bool) -> None:
        """This part's share of a range; what is left over goes to the first parts or the last."""
        outer = BlockWriter()
        alone = len(cut.loops) == 1
        moved, start = alone and cut.starts[0], c.CNumber(str(cut.starts[0]))
        first, last = self._names.fresh("first"), self._names.fresh("last")
        self._keep(outer, (first, last))
        for name, step in ((first, 0), (last, 1)):
            total, parts = c.CNumber(str(cut.total)), c.Name(self.parts)
            number: c.Node = c.Name(self.part)
            number = c.CBinary("-", parts, number) if early else number
            if step:
                number = c.CBinary("-" if early else "+", number, c.CNumber(str(step)))
            share: c.Node = c.Helper("weft_first", (total, number, parts))
            if early:
                share = c.CBinary("-", c.CBinary("+", start, total) if moved else total, share)
            elif moved:
                share = c.CBinary("+", start, share)
            outer.declare(c.Declare("int", name, share))
        if alone:
            low, high = cut.starts[0], cut.starts[0] + cut.total
            begin, stop = (CValue(c.Name(name), "int", low, high) for name in (first, last))
            self._loop(cut.loops[0], begin, stop, outer)
        else:
            self._flat(cut, first, last, outer)
        block.add(c.Braced(self._close(outer, block)))

    def _flat(self, cut: Range, first: str, last: str, block: BlockWriter) -> None:
        """One loop over what several would run through."""
        at = self._loop_variable("at", "int")
        inner = BlockWriter()
        run = partial(self.block, cut.body, inner)
        places: dict[str, c.Node] = {}
        found = self._places(cut, at, block) if cut.along else []
        for number, (loop, extent, start) in enumerate(
            zip(cut.loops, cut.extents, cut.starts, strict=True)
        ):
            name = self._names.fresh(loop.var)
            place = found[number] if found else _place(at, cut.extents, number)
            places[name] = _plus(place, start)
            value = atom(CValue(c.Name(name), "int", start, start + extent - 1))
            run = partial(self._with_value, loop.var, value, run)
        self._keep(inner, places)
        self.scope.loops |= set(map(c.Name, places))
        self._stored.append(set[c.Node]())
        run()
        self._stored.pop()
        self.scope.loops -= set(map(c.Name, places))
        body = self._close(inner, block)
        used: set[str] = set()
        for statement in body:
            c.mentions(statement, used)
        # Before the pointers that the block begins with.
        body = [*(c.Declare("int", name, places[name]) for name in places if name in used), *body]
        block.add(c.CFor("int", at, c.Name(first), c.Name(last), body))
        block.inner.add(at)
        if self._flavour.loop_declarations:
            self._names.release(at)

    def _places(self, cut: Range, at: str, block: BlockWriter) -> list[c.Node]:
        """The variables of loops of which parts share one: all of its share, then what is around.

        Each part's share is a whole number of that loop's iterations, or else all of them are one
        share, which leaves the order of the loops.
        """
        own, piece = self._names.fresh("own"), self._names.fresh("piece")
        self._keep(block, (own, piece))
        extents, along = cut.extents, cut.along
        whole, parts = c.CNumber(str(extents[along])), c.Name(self.parts)
        even = c.CBinary("==", c.CBinary("%", whole, parts), c.CNumber("0"))
        block.declare(c.Declare("int", own, c.Ternary(even, c.CBinary("/", whole, parts), whole)))
        others = prod(extents) // extents[along]
        block.declare(c.Declare("int", piece, c.CBinary("*", c.Name(own), c.CNumber(str(others)))))
        rest = c.CBinary("%", c.Name(at), c.Name(piece))
        found: list[c.Node] = []
        for number, extent in enumerate(extents):
            if number > along:
                found.append(_place(at, extents, number))
                continue
            below = prod(extents[number + 1 :]) // (extents[along] if number < along else 1)
            node: c.Node = c.CBinary("/", rest, c.CNumber(str(below))) if below > 1 else rest
            if number < along:
                node = c.CBinary("/", node, c.Name(own))
                found.append(c.CBinary("%", node, c.CNumber(str(extent))) if number else node)
            else:
                before = c.CBinary("*", c.CBinary("/", c.Name(at), c.Name(piece)), c.Name(own))
                found.append(c.CBinary("+", before, c.CBinary("%", node, c.Name(own))))
        return found

    def _keep(self, block: BlockWriter, names: Iterable[str]) -> None:
        """Constants of a block: free again at its end, if no loop variable is declared above it."""
        if self._flavour.loop_declarations:
            block.names += names
        else:
            block.inner.update(names)


def _place(at: str, extents: Sequence[int], number: int) -> c.Node:
    """A variable of perfectly nested loops at an iteration of them all."""
    below = prod(extents[number + 1 :])
    node = c.CBinary("/", c.Name(at), c.CNumber(str(below))) if below > 1 else c.Name(at)
    return c.CBinary("%", node, c.CNumber(str(extents[number]))) if number else node


def _plus(node: c.Node, number: int) -> c.Node:
    return c.CBinary("+", node, c.CNumber(str(number))) if number else node
