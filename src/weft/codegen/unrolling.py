"""What tells compilers how far to unroll loops that are meant for their vectors."""

from __future__ import annotations

from collections.abc import Sequence

from weft.codegen import tree as c
from weft.codegen.flavours import FOUR, LANES, STEPS, SUMS
from weft.loops.nodes import For, LoopKind, Store
from weft.loops.statements import walk_stmts
from weft.loops.walk import loads

# gcc unrolls loops of so many steps before it makes vectors; and afterwards, by its hint.
_UNROLLED_EARLY, _UNROLLED_LAST = 16, 4
# Steps of a tile that share the instructions of its loop, and from how many statements on a step is
# so long that these do not matter.
_STEPS, _LONG = 4, 40


def unroll_hint(loop: For, lanes: int) -> str:
    """The macro before a loop over so many lanes, if any."""
    if loop.kind is not LoopKind.VECTOR:
        return ""
    if lanes > _UNROLLED_EARLY:
        return SUMS if _accumulates(loop) else ""
    return lane_hint(lanes)


def lane_hint(lanes: int) -> str:
    """The macro before a loop over so many lanes that is to become one of vectors, if any.

    Compilers would unroll it before they look for vectors.
    """
    if lanes == _UNROLLED_LAST:
        return FOUR
    return LANES if _UNROLLED_LAST < lanes <= _UNROLLED_EARLY else ""


def step_hint(extent: int | None, statements: Sequence[c.Statement]) -> str:
    """The macro before the loop over the steps of a register tile, if any.

    Args:
        extent: steps, if they are known; those left over would be a switch.
        statements: of a step.
    """
    if extent is None or extent % _STEPS or extent <= _STEPS or len(statements) >= _LONG:
        return ""
    return "" if any(isinstance(each, c.CFor | c.CIf) for each in statements) else STEPS


def _accumulates(loop: For) -> bool:
    """Whether some store in a loop adds to what it replaces."""
    return any(
        isinstance(stmt, Store)
        and any(
            node.buffer == stmt.buffer and node.index == stmt.index for node in loads(stmt.value)
        )
        for stmt in walk_stmts(loop.body)
    )
