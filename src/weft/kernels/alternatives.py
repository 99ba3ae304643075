"""What is known of one way to compute a task before its kernel is written."""

from __future__ import annotations

from collections.abc import Callable

from weft.kernels.task import Task
from weft.plan.implementation import Implementation
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Sums:
    """In which order an alternative adds up what its sums are of.

    Alternatives of one task with equal ones make the same bits; others may round otherwise.

    Attributes:
        loops: whose order it is: a generator's name.
        sizes: of that generator, what else the order depends on: the outputs of a Winograd
            tile, the parts of a sum that lanes have, the keys of a chunk.
    """

    loops: str
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to compute a task.

    Attributes:
        name: what it is called, in reports and in the database of measurements; it says all
            that sets it apart from the task's other alternatives (``tiled-14x2``,
            ``winograd-f4-28``).
        cost: about how many cycles it takes on one core; infinite where nobody knows, which
            puts it behind those that are known.
        sums: in which order it adds up.
        error: what its algorithm adds to the rounding error of the layer, at the root mean
            square over the standard deviation of what the layer gives, as is expected for random
            data; 0 where only the order of sums is another one.
        allowed: whether the task allows this error; reports have what is not allowed, too.
        make: writes the kernel; ``None`` if it turns out that the loops do not apply.
        known: whether they apply, where that can be known without writing the kernel.
        outside: whether it calls a library: it is taken where it is named, never by itself.
            ``weft.kernels.selection`` sets it for generators that have a library.
        pooled: writes the kernel of the task and of another one that reads its values, by a
            name, and computes the maxima of windows; ``None`` if it cannot.
    """

    name: str
    cost: float
    sums: Sums
    make: Callable[[], Implementation | None]
    known: Callable[[], bool] | None = None
    outside: bool = False
    error: float = 0.0
    allowed: bool = True
    pooled: Callable[[Task, str], Implementation | None] | None = None

    def applies(self) -> bool:
        """Whether ``make`` gives a kernel."""
        return self.make() is not None if self.known is None else self.known()


def always() -> bool:
    """Known of loops that apply wherever they are proposed."""
    return True
