"""Kernels cut into parts: each thread runs its share of the loops at the top."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from math import prod

from weft.codegen.block import Block
from weft.codegen.flavours import Flavour
from weft.codegen.linear import atom
from weft.codegen.value import PRIMARY, Value
from weft.codegen.writer import Writer
from weft.loops.nodes import Kernel, Stmt
from weft.plan.work import Range, Stage


class PartWriter(Writer):
    """Writes the statements of one stage of a kernel of which a thread runs its part.

    Attributes:
        part: the C name of the part's number.
        parts: the C name of the number of parts.
        stages: the C name of the set of stages to run, as bits, where there are several.
    """

    def __init__(self, kernel: Kernel, flavour: Flavour) -> None:
        super().__init__(kernel, flavour)
        self.part, self.parts = self._names.fresh("part"), self._names.fresh("parts")
        self.stages = self._names.fresh("stages")

    @property
    def numbers(self) -> list[str]:
        """Names of the parameters that say what to run."""
        return [self.part, self.parts]

    def cut(self, stage: Stage, block: Block) -> None:
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

    def _first_part(self, stmts: Sequence[Stmt], block: Block) -> None:
        if stmts:
            inner = Block(block.depth + 1)
            self.block(stmts, inner)
            self._close(inner, block, f"if ({self.part} == 0) {{")

    def _share(self, cut: Range, block: Block, early: bool) -> None:
        """This part's share of a range; what is left over goes to the first parts or the last."""
        outer = Block(block.depth + 1)
        alone = len(cut.loops) == 1
        base = f"{cut.starts[0]} + " if alone and cut.starts[0] else ""
        first, last = self._names.fresh("first"), self._names.fresh("last")
        self._keep(outer, (first, last))
        for name, step in ((first, 0), (last, 1)):
            number = f"{self.part} + {step}" if step else self.part
            share = f"weft_first({cut.total}, {number}, {self.parts})"
            if early:
                number = f"{self.parts} - {self.part}" + (f" - {step}" if step else "")
                share = f"{cut.total} - weft_first({cut.total}, {number}, {self.parts})"
            outer.add(f"const int {name} = {base}{share};")
        if alone:
            low, high = cut.starts[0], cut.starts[0] + cut.total
            start, stop = (Value(name, PRIMARY, "int", low, high) for name in (first, last))
            self._loop(cut.loops[0], start, stop, outer)
        else:
            self._flat(cut, first, last, outer)
        self._close(outer, block, "{")

    def _flat(self, cut: Range, first: str, last: str, block: Block) -> None:
        """One loop over what several would run through."""
        at = self._loop_variable("at", "int")
        inner = Block(block.depth + 1)
        run = partial(self.block, cut.body, inner)
        places: dict[str, str] = {}
        for number, (loop, extent, start) in enumerate(
            zip(cut.loops, cut.extents, cut.starts, strict=True)
        ):
            name = self._names.fresh(loop.var)
            places[name] = _place(at, cut.extents, number) + (f" + {start}" if start else "")
            value = atom(Value(name, PRIMARY, "int", start, start + extent - 1))
            run = partial(self._with_value, loop.var, value, run)
        self._keep(inner, places)
        self.scope.loops |= places.keys()
        self._stored.append(set())
        run()
        self._stored.pop()
        self.scope.loops -= places.keys()
        lines = self.finish(inner)
        text = "\n".join(lines)
        used = {name: where for name, where in places.items() if re.search(rf"\b{name}\b", text)}
        declared = "int " if self._flavour.loop_declarations else ""
        block.statement(f"for ({declared}{at} = {first}; {at} < {last}; ++{at}) {{")
        # Before the pointers that the block begins with.
        block.lines += [f"{inner.indent}const int {name} = {used[name]};" for name in used]
        block.lines += lines
        block.add("}")
        block.inner |= inner.inner.union(inner.names, (at,))
        if self._flavour.loop_declarations:
            self._names.release(at)

    def _keep(self, block: Block, names: Iterable[str]) -> None:
        """Constants of a block: free again at its end, if no loop variable is declared above it."""
        if self._flavour.loop_declarations:
            block.names += names
        else:
            block.inner.update(names)


def _place(at: str, extents: Sequence[int], number: int) -> str:
    """A variable of perfectly nested loops at an iteration of them all."""
    below = prod(extents[number + 1 :])
    text = f"{at} / {below}" if below > 1 else at
    return f"{text} % {extents[number]}" if number else text
