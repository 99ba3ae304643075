"""Comparisons decided by the range of a difference."""

from __future__ import annotations

from collections.abc import Callable

from weft.codegen.value import CValue, known


def truth(holds: bool) -> CValue:
    """A bool that is known."""
    return known(int(holds))


def _less(low: int, high: int) -> bool | None:
    return True if high < 0 else (False if low >= 0 else None)


def _at_most(low: int, high: int) -> bool | None:
    return True if high <= 0 else (False if low > 0 else None)


def _equal(low: int, high: int) -> bool | None:
    if low == high == 0:
        return True
    return False if low > 0 or high < 0 else None


def _inverse(decide: Callable[[int, int], bool | None]) -> Callable[[int, int], bool | None]:
    def inverted(low: int, high: int) -> bool | None:
        outcome = decide(low, high)
        return None if outcome is None else not outcome

    return inverted


DECISIONS: dict[str, Callable[[int, int], bool | None]] = {
    "lt": _less,
    "le": _at_most,
    "gt": _inverse(_at_most),
    "ge": _inverse(_less),
    "eq": _equal,
    "ne": _inverse(_equal),
}
"""Whether ``lhs op rhs`` holds where ``lhs - rhs`` lies in ``[low, high]``, if that tells."""
