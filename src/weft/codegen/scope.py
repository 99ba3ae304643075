"""What is known at one place of a function that is being written."""

from __future__ import annotations

from dataclasses import field

from weft.codegen.element import Element
from weft.codegen.flavours import Dialect
from weft.codegen.linear import LinearAddress
from weft.codegen.slots import Slot
from weft.codegen.tree import CBinary, CCast, Node
from weft.codegen.value import CValue
from weft.records import dataclass


@dataclass
class KernelScope:
    """What is known at one place of a function.

    Attributes:
        flavour: the dialect.
        values: what each loop variable is.
        slots: where each buffer is.
        temporaries: values of expressions computed before, by identity.
        loops: the loop variables around.
        guards: how many conditions around decide whether this is evaluated.
        numbers: parameters that are no buffers, but numbers in places and bounds.
    """

    flavour: Dialect
    values: dict[str, LinearAddress] = field(default_factory=dict[str, LinearAddress])
    slots: dict[str, Slot] = field(default_factory=dict[str, Slot])
    temporaries: dict[int, CValue] = field(default_factory=dict[int, CValue])
    loops: set[Node] = field(default_factory=set["Node"])
    guards: int = 0
    numbers: set[Node] = field(default_factory=set["Node"])

    def element(
        self, slot: Slot, name: str, offset: LinearAddress, vector: str = "", load: bool = True
    ) -> Element:
        """An element, or a whole vector from there; a pass may share its address or its value."""
        fixed = self.guards or slot.local or not self._steady(offset)
        return Element(slot, name, offset, vector, load, not fixed, self.numbers)

    def _steady(self, offset: LinearAddress) -> bool:
        """Whether an offset is made of loop variables and numbers alone."""
        if offset.terms.keys() <= self.loops:
            return True
        return bool(self.numbers) and all(map(self._is_steady, offset.terms))

    def _is_steady(self, node: Node) -> bool:
        match node:
            case CBinary("*", lhs, rhs):
                return self._is_steady(lhs) and self._is_steady(rhs)
            case CCast(_, x):
                return self._is_steady(x)
            case _:
                return node in self.loops or node in self.numbers
