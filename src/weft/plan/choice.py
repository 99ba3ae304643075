"""Why a step has its kernel: the alternatives, the refusals, and what decided."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from weft.records import dataclass

MAX_ROUNDING = 0.005
"""The largest error that a faster algorithm may add where nobody says (``weft.Options``)."""


class Reason(Enum):
    """What decided for a kernel."""

    CHEAPEST = "cheapest"
    """The least estimated cost of those that apply."""
    MEASURED = "measured"
    """The fastest measured."""
    ASKED = "asked-for"
    """Named by the caller, or in a plan's text."""
    FIRST = "first"
    """No estimates: the generators' order."""
    ONLY = "only"
    """No other alternative applies."""


@dataclass(frozen=True, slots=True)
class Offered:
    """An alternative of a generator.

    Attributes:
        name: of the alternative.
        cycles: estimate for one core; ``None`` where there is none.
        sums: the order in which it adds up: alternatives with equal ones give the same bits.
        applies: whether its loops turn out to apply, and it rounds no more than is allowed.
        chosen: whether it is the one of the plan.
        micros: measured microseconds, where it was tuned.
        error: what its algorithm adds to the rounding error of the layer, as is expected for
            random data, at the root mean square over the standard deviation.
    """

    name: str
    cycles: float | None
    sums: str
    applies: bool
    chosen: bool
    micros: float | None = None
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one generator offers for a layer.

    Attributes:
        generator: its name.
        refusal: why it offers nothing; empty if it does.
        alternatives: what it offers, by estimated cost.
    """

    generator: str
    refusal: str
    alternatives: tuple[Offered, ...]


class KernelChoice(Protocol):
    """How a kernel was chosen."""

    @property
    def reason(self) -> Reason:
        """What decided."""
        ...

    def answers(self) -> tuple[Answer, ...]:
        """The alternatives and refusals of all generators; found when asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Settled:
    """The choice of a kernel that nothing else is an alternative for, such as a chain's."""

    reason: Reason

    def answers(self) -> tuple[Answer, ...]:
        """None."""
        return ()


class Measured(dict[str, str]):
    """Names of alternatives by layer (``weft.kernels.key``), from measurements.

    Attributes:
        micros: microseconds by layer and alternative, as far as they are known.
    """

    def __init__(
        self,
        names: Mapping[str, str] = MappingProxyType({}),
        micros: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> None:
        super().__init__(names)
        self.micros = micros
