"""What is known at one place of a function that is being written."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.codegen.flavours import Flavour
from weft.codegen.linear import Linear
from weft.codegen.pool import Access, Pool
from weft.codegen.slots import Slot
from weft.codegen.value import Value


@dataclass
class Scope:
    """What is known at one place of a function.

    Attributes:
        flavour: the dialect.
        values: what each loop variable is.
        slots: where each buffer is.
        temporaries: values of expressions computed before, by identity.
        pool: collects accesses to memory.
        loops: C names of the loop variables around.
        guards: how many conditions around decide whether this is evaluated.
    """

    flavour: Flavour
    values: dict[str, Linear] = field(default_factory=dict[str, Linear])
    slots: dict[str, Slot] = field(default_factory=dict[str, Slot])
    temporaries: dict[int, Value] = field(default_factory=dict[int, Value])
    pool: Pool | None = None
    loops: set[str] = field(default_factory=set[str])
    guards: int = 0

    def element(
        self, slot: Slot, name: str, offset: Linear, vector: str = "", load: bool = True
    ) -> str:
        """The text of an element, or of a whole vector from there; a mark if it may be pooled."""
        access = Access(slot, name, offset, vector, load)
        plain = self.guards or slot.local or not offset.terms.keys() <= self.loops
        return access.text() if self.pool is None or plain else self.pool.mark(access)
