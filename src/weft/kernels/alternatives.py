"""What is known of one way to compute a task before its kernel is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from weft.kernels.task import Task
from weft.plan.implementation import Implementation


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to compute a task.

    Attributes:
        name: what it is called, in reports and in the database of measurements; it says all
            that sets it apart from the task's other alternatives (``tiled-14x2``,
            ``winograd-f4-28``).
        cost: about how many cycles it takes on one core; infinite where nobody knows, which
            puts it behind those that are known.
        make: writes the kernel; ``None`` if it turns out that the loops do not apply.
    """

    name: str
    cost: float
    make: Callable[[], Implementation | None]


Propose: TypeAlias = Callable[[Task], tuple[Alternative, ...]]
"""``propose(task)``: a generator's alternatives; none where it does not apply."""


def only(name: str, generate: Callable[[Task], Implementation | None]) -> Propose:
    """What a generator proposes that knows one way only."""

    def propose(task: Task) -> tuple[Alternative, ...]:
        return (Alternative(name, math.inf, lambda: generate(task)),)

    return propose
