"""Addresses of a block that differ by constants: one pointer, vectors loaded once.

While statements are written, an access to memory stands as a mark.  When a block is done
its marks are replaced: where several accesses share the part of the address that varies,
a pointer is declared at the head of the block; where a run of statements loads the same
vector more than once, it is loaded into a name first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from weft.codegen.block import Block
from weft.codegen.linear import Linear, print_linear
from weft.codegen.naming import Names
from weft.codegen.slots import Slot
from weft.codegen.value import SUM

# From this many accesses on, a pointer makes the text shorter and the compiler faster.
_WORTH_A_POINTER = 3
_MARK = re.compile("\x02(\\d+)\x03")


class Access(NamedTuple):
    """An access to memory: an element, or a whole vector.

    Attributes:
        slot: what is accessed.
        name: its C name.
        offset: in elements.
        vector: the vector type, empty for an element.
        load: whether it is read.
    """

    slot: Slot
    name: str
    offset: Linear
    vector: str = ""
    load: bool = True

    @property
    def base(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """What it shares with accesses that differ by a constant."""
        return self.name, tuple((text, term.factor) for text, term in self.offset.terms.items())

    def text(self, pointer: str = "", first: int = 0) -> str:
        """The C text, from the buffer's name or from a pointer to element ``first``."""
        name = pointer or self.name
        offset = self.offset
        if pointer:
            offset = Linear(offset.const - first, {})
        position = print_linear(offset).text
        if not self.vector:
            return f"{name}[{position}]"
        const = "const " if self.load else ""
        target = name if position == "0" else f"({name} + {position})"
        return f"*({const}{self.vector}_mem *){target}"


class Pool:
    """The accesses of a function.

    Args:
        names: the function's names.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._accesses: list[Access] = []
        self._marks: dict[tuple[object, ...], int] = {}

    def mark(self, access: Access) -> str:
        """What stands for an access until its block is done."""
        key = (*access.base, access.offset.const, access.vector, access.load)
        number = self._marks.get(key)
        if number is None:
            number = self._marks[key] = len(self._accesses)
            self._accesses.append(access)
        return f"\x02{number}\x03"

    def resolve(self, block: Block, boundary: Callable[[str], bool]) -> list[str]:
        """The lines of a block with their accesses written out.

        Args:
            block: blocks inside it are done already.
            boundary: whether vectors loaded before a line must not be used after it.
        """
        lines = block.lines
        if not any("\x02" in line for line in lines):
            return lines
        texts, pointers = self._pointers(block)
        done: list[str] = []
        run: list[str] = []
        for line in lines:
            if boundary(line):
                done += [*self._loaded_once(run, texts, block), self._plain(line, texts)]
                run = []
            else:
                run.append(line)
        done += self._loaded_once(run, texts, block)
        return [*pointers, *done]

    def _pointers(self, block: Block) -> tuple[dict[int, str], list[str]]:
        """The text of each access, and the declarations of the pointers that they use."""
        counts = Counter(int(number) for line in block.lines for number in _MARK.findall(line))
        groups: dict[object, list[int]] = {}
        for number in counts:
            groups.setdefault(self._accesses[number].base, []).append(number)
        texts: dict[int, str] = {}
        declared: list[str] = []
        for members in groups.values():
            accesses = [self._accesses[number] for number in members]
            uses = sum(counts[number] for number in members)
            pointer, first = "", 0
            if uses >= _WORTH_A_POINTER and _varies_much(accesses[0].offset):
                pointer = self._fresh(f"{accesses[0].name}_at", block)
                first = min(access.offset.const for access in accesses)
                declared.append(block.indent + _declaration(pointer, accesses, first))
            for number, access in zip(members, accesses, strict=True):
                texts[number] = access.text(pointer, first)
        return texts, declared

    def _loaded_once(self, run: list[str], texts: dict[int, str], block: Block) -> list[str]:
        """A run of statements, vectors that it loads repeatedly loaded where it first does."""
        counts = Counter(int(number) for line in run for number in _MARK.findall(line))
        known = dict(texts)
        held = 0
        done: list[str] = []
        for line in run:
            for number in map(int, _MARK.findall(line)):
                access = self._accesses[number]
                if counts[number] > 1 and access.vector and access.load:
                    name = self._fresh(f"{access.name}_{held}", block)
                    done.append(f"{block.indent}const {access.vector} {name} = {texts[number]};")
                    known[number] = name
                    counts[number] = 0
                    held += 1
            done.append(self._plain(line, known))
        return done

    def _fresh(self, wish: str, block: Block) -> str:
        """A name for a block that nothing around or inside it has."""
        name = self._names.fresh(wish, block.inner)
        block.names.append(name)
        return name

    @staticmethod
    def _plain(line: str, texts: dict[int, str]) -> str:
        return _MARK.sub(lambda found: texts[int(found[1])], line)


def _varies_much(offset: Linear) -> bool:
    """Whether the varying part of an offset is more than a variable."""
    return len(offset.terms) > 1 or any(term.factor != 1 for term in offset.terms.values())


def _declaration(pointer: str, accesses: list[Access], first: int) -> str:
    slot = accesses[0].slot
    const = "const " if all(access.load for access in accesses) and slot.constant else ""
    start = print_linear(Linear(first, accesses[0].offset.terms)).at(SUM)
    return f"{const}{slot.ctype} *const {pointer} = {accesses[0].name} + {start};"
