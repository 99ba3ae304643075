"""Why a generator does not apply."""

from __future__ import annotations

from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a recognizer or a generator returns where it does not apply.

    Attributes:
        reason: a clause without a full stop: ``something is reduced``.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason
