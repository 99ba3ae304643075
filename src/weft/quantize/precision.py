"""Mixed precision: the fewest layers with more bits that keep a network's accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from weft.errors import UserError
from weft.records import dataclass
from weft.reporting import announce

Bits: TypeAlias = int | None
"""Of a weight; nothing where a layer stays in floating point."""


@dataclass(frozen=True)
class PrecisionChoice:
    """The bits of every layer, and the accuracy with them.

    Attributes:
        bits: by name of the node.
        accuracy: as measured with them.
        reference: in floating point.
        tried: how many combinations were measured.
    """

    bits: Mapping[str, Bits]
    accuracy: float
    reference: float
    tried: int


def choose_precision(
    ordered: Sequence[str],
    bits: Mapping[str, Bits],
    measure: Callable[[Mapping[str, Bits]], float],
    reference: float,
    max_drop: float,
) -> PrecisionChoice:
    """Gives more bits to the layers that hurt most, until the accuracy is high enough.

    Weights of fewer than 8 bits get 8 first; where that is not enough, layers stay in floating
    point. On each of these steps the number of layers is found by bisection: with all of them the
    step is enough or the next one comes, with more of them accuracy is taken to rise.

    Args:
        ordered: names of nodes, those that hurt most first.
        bits: what they have at first.
        measure: the accuracy for bits of all nodes.
        reference: accuracy in floating point.
        max_drop: by how much it may be less.

    Raises:
        UserError: even with all of them in floating point it is too low.
    """
    found = _Search(measure, reference - max_drop)
    best = dict(bits)
    if found.enough(best):
        return PrecisionChoice(best, found.last(best), reference, len(found.known))
    steps: list[tuple[list[str], Bits]] = []
    low = [name for name in ordered if (bits[name] or 8) < 8]
    if low:
        steps.append((low, 8))
    steps.append(([name for name in ordered if bits[name] is not None], None))
    for names, more in steps:
        whole = {**best, **dict.fromkeys(names, more)}
        if found.enough(whole):
            chosen = found.fewest(best, names, more)
            return PrecisionChoice(chosen, found.last(chosen), reference, len(found.known))
        best = whole
    raise UserError(
        "accuracy must not drop by more than max_drop",
        got=f"{found.last(best):g} with all layers in floating point, {reference:g} before",
        fix="The metric must give the same for the same outputs.",
    )


class _Search:
    """Combinations that were measured."""

    def __init__(self, measure: Callable[[Mapping[str, Bits]], float], needed: float) -> None:
        self.measure, self.needed = measure, needed
        self.known: dict[tuple[tuple[str, Bits], ...], float] = {}

    def last(self, bits: Mapping[str, Bits]) -> float:
        """The accuracy of a combination."""
        key = tuple(bits.items())
        if key not in self.known:
            announce(f"measuring accuracy, {len(self.known) + 1}. combination")
            self.known[key] = self.measure(bits)
        return self.known[key]

    def enough(self, bits: Mapping[str, Bits]) -> bool:
        # Written so that a metric that is no number is not enough.
        return self.last(bits) >= self.needed

    def fewest(self, bits: Mapping[str, Bits], names: Sequence[str], more: Bits) -> dict[str, Bits]:
        """The combination in which as few names as possible, from the first on, have more bits."""
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            if self.enough({**bits, **dict.fromkeys(names[:middle], more)}):
                high = middle
            else:
                low = middle
        return {**bits, **dict.fromkeys(names[:high], more)}
