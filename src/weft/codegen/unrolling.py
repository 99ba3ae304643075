"""What tells compilers how far to unroll loops that are meant for their vectors."""

from __future__ import annotations

from weft.codegen.flavours import LANES, SUMS
from weft.loops.nodes import For, LoopKind, Store
from weft.loops.statements import walk_stmts
from weft.loops.walk import loads

# gcc unrolls loops of so many steps before it makes vectors; and afterwards, by its hint.
_UNROLLED_EARLY, _UNROLLED_LAST = 16, 4


def unroll_hint(loop: For, lanes: int) -> str:
    """The macro before a loop over so many lanes, if any."""
    if loop.kind is not LoopKind.VECTOR:
        return ""
    if lanes > _UNROLLED_EARLY:
        return SUMS if _accumulates(loop) else ""
    # Compilers would unroll it before they look for vectors.
    return LANES if lanes > _UNROLLED_LAST else ""


def _accumulates(loop: For) -> bool:
    """Whether some store in a loop adds to what it replaces."""
    return any(
        isinstance(stmt, Store)
        and any(
            node.buffer == stmt.buffer and node.index == stmt.index for node in loads(stmt.value)
        )
        for stmt in walk_stmts(loop.body)
    )
