"""Accesses to buffers: nodes of the tree with a slot and a linear offset."""

from __future__ import annotations

from collections.abc import Sequence, Set

from weft.codegen import tree as c
from weft.codegen.linear import LinearAddress, Term
from weft.codegen.slots import Slot


class Element(c.CMemory):
    """An element of a buffer, or a whole vector from there on.

    Attributes:
        slot: of the buffer.
        offset: in elements.
        numbers: parameters of the function, multiples of which tell places apart as constants do.
    """

    __slots__ = ("numbers", "offset", "slot")

    def __init__(
        self,
        slot: Slot,
        name: str,
        offset: LinearAddress,
        vector: str,
        load: bool,
        pooled: bool,
        numbers: Set[c.Node] = frozenset(),
    ) -> None:
        super().__init__(name, vector, load, pooled)
        self.slot, self.offset, self.numbers = slot, offset, numbers

    def copy(self) -> Element:
        """The same access once more."""
        other = Element(
            self.slot, self.name, self.offset, self.vector, self.load, self.pooled, self.numbers
        )
        other.pointer, other.first = self.pointer, self.first
        return other

    @property
    def indices(self) -> Sequence[c.Node]:
        """What its offset is a sum of multiples of."""
        return tuple(self.offset.terms)

    @property
    def varying(self) -> dict[c.Node, Term]:
        """The terms of its offset that differ from turn to turn of some loop."""
        if not self.numbers:
            return self.offset.terms
        return {n: term for n, term in self.offset.terms.items() if n not in self.numbers}

    @property
    def rest(self) -> LinearAddress:
        """What is left of its offset beside the varying terms and ``first``."""
        terms = {n: term for n, term in self.offset.terms.items() if n in self.numbers}
        return LinearAddress(self.offset.const - self.first, terms)

    @property
    def base(self) -> tuple[object, ...]:
        """What it shares with accesses that differ by a constant."""
        return self.name, *((node, term.factor) for node, term in self.varying.items())

    @property
    def key(self) -> tuple[object, ...]:
        """What it shares with accesses that are the same."""
        terms = ((node, term.factor) for node, term in self.offset.terms.items())
        return self.offset.const, self.vector, self.load, self.name, *terms
