"""Accesses to buffers: nodes of the tree with a slot and a linear offset."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen import tree as c
from weft.codegen.linear import LinearAddress
from weft.codegen.slots import Slot


class Element(c.CMemory):
    """An element of a buffer, or a whole vector from there on; ``offset`` is in elements."""

    __slots__ = ("offset", "slot")

    def __init__(
        self, slot: Slot, name: str, offset: LinearAddress, vector: str, load: bool, pooled: bool
    ) -> None:
        super().__init__(name, vector, load, pooled)
        self.slot, self.offset = slot, offset

    def copy(self) -> Element:
        """The same access once more."""
        other = Element(self.slot, self.name, self.offset, self.vector, self.load, self.pooled)
        other.pointer, other.first = self.pointer, self.first
        return other

    @property
    def indices(self) -> Sequence[c.Node]:
        """What its offset is a sum of multiples of."""
        return tuple(self.offset.terms)

    @property
    def base(self) -> tuple[object, ...]:
        """What it shares with accesses that differ by a constant."""
        return self.name, *((node, term.factor) for node, term in self.offset.terms.items())

    @property
    def key(self) -> tuple[object, ...]:
        """What it shares with accesses that are the same."""
        return self.offset.const, self.vector, self.load, self.base
