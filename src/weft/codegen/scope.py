"""What is known at one place of a function that is being written."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.codegen.element import Element
from weft.codegen.flavours import Dialect
from weft.codegen.linear import LinearAddress
from weft.codegen.slots import Slot
from weft.codegen.tree import Node
from weft.codegen.value import CValue


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
    """

    flavour: Dialect
    values: dict[str, LinearAddress] = field(default_factory=dict[str, LinearAddress])
    slots: dict[str, Slot] = field(default_factory=dict[str, Slot])
    temporaries: dict[int, CValue] = field(default_factory=dict[int, CValue])
    loops: set[Node] = field(default_factory=set["Node"])
    guards: int = 0

    def element(
        self, slot: Slot, name: str, offset: LinearAddress, vector: str = "", load: bool = True
    ) -> Element:
        """An element, or a whole vector from there; a pass may share its address or its value."""
        fixed = self.guards or slot.local or not offset.terms.keys() <= self.loops
        return Element(slot, name, offset, vector, load, not fixed)
