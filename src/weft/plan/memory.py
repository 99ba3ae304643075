"""Memory: an offset in the arena for everything that is live for a while.

Two intervals that are live at one step may not overlap in memory.  The lower bound is
what is live at the worst step.  Greedy placement in several orders, repaired by moving
what reaches the top ahead, meets it on every known network; where it does not, a solver
tries, if there is one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from weft.plan.interval import Interval
from weft.plan.program import Arena
from weft.plan.solver import improve, is_installed
from weft.records import dataclass

REPAIRS = 2000
"""Attempts to repair the best greedy placement; fewer where there is much to place."""
REPAIR_BUDGET = 3_000_000
"""Pairs of intervals live together that repairs may look at; about a second."""
SWAPS = 0.3
"""Share of the attempts that exchange two others as well."""
SOLVER_PAIRS = 2_000
"""Where more are live together, a solver is worth its time only if much is to be gained."""
MUCH = 1.05


@dataclass(frozen=True)
class Placement:
    """Where everything lies.

    Attributes:
        offsets: by name of the interval, multiples of the alignment.
        bytes: size of the arena.
        lower_bound: no arena can be smaller.
        method: ``greedy``, ``repaired`` or ``solver``: what found this placement.
        arenas: the regions of the arena; none where it is one.
    """

    offsets: dict[str, int]
    bytes: int
    lower_bound: int
    method: str
    arenas: tuple[Arena, ...] = ()

    @property
    def ratio(self) -> float:
        """Size over lower bound."""
        return self.bytes / self.lower_bound if self.lower_bound else 1.0


METHODS = ("greedy", "repaired", "solver")
"""What finds placements, the least effort first."""


def joined(parts: Mapping[str, Placement], method: str = "") -> Placement:
    """The placements in several regions as one; of one region, that alone.

    Args:
        parts: by name of the region, in order; an interval is in one of them.
        method: what found them, if they do not say.
    """
    offsets: dict[str, int] = {}
    arenas: list[Arena] = []
    start = 0
    for name, part in parts.items():
        offsets |= {each: start + offset for each, offset in part.offsets.items()}
        arenas.append(Arena(name, start, part.bytes, part.lower_bound))
        start += part.bytes
    method = method or max((each.method for each in parts.values()), key=METHODS.index)
    bound = sum(each.lower_bound for each in arenas)
    return Placement(offsets, start, bound, method, tuple(arenas) if len(arenas) > 1 else ())


def aligned(size: int, alignment: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // alignment) * alignment


def live_bytes(intervals: Iterable[Interval], alignment: int = 64) -> list[int]:
    """Bytes live at each step, every interval rounded up to the alignment."""
    changes: dict[int, int] = {}
    for each in intervals:
        size = aligned(each.bytes, alignment)
        changes[each.first] = changes.get(each.first, 0) + size
        changes[each.last + 1] = changes.get(each.last + 1, 0) - size
    found: list[int] = []
    live = 0
    for step in range(max(changes, default=0)):
        live += changes.get(step, 0)
        found.append(live)
    return found


# --- greedy ---------------------------------------------------------------------------------

Offsets: TypeAlias = "list[int]"


class _Table:
    """Intervals by number: sizes, and which are live together."""

    def __init__(self, intervals: Sequence[Interval], alignment: int) -> None:
        self.intervals = intervals
        self.sizes = [aligned(each.bytes, alignment) for each in intervals]
        self.together: list[list[int]] = [[] for _ in intervals]
        order = sorted(range(len(intervals)), key=lambda number: intervals[number].first)
        live: list[int] = []
        for number in order:
            live = [other for other in live if intervals[other].last >= intervals[number].first]
            for other in live:
                self.together[number].append(other)
                self.together[other].append(number)
            live.append(number)
        self.pairs = sum(map(len, self.together)) // 2

    def fit(self, order: Iterable[int], best: bool, start: Offsets | None = None) -> Offsets:
        """Places intervals in an order, each in the lowest or the tightest gap.

        Those that ``start`` has at an offset that is not negative are there already.
        """
        offsets = list(start) if start else [-1] * len(self.sizes)
        for number in order:
            around = sorted(
                (offsets[other], offsets[other] + self.sizes[other])
                for other in self.together[number]
                if offsets[other] >= 0
            )
            offsets[number] = _gap(around, self.sizes[number], best)
        return offsets

    def height(self, offsets: Offsets) -> int:
        """Size of the arena."""
        return max((o + s for o, s in zip(offsets, self.sizes, strict=True)), default=0)


def _gap(around: Sequence[tuple[int, int]], size: int, best: bool) -> int:
    """Start of a gap of at least ``size`` between sorted ranges."""
    end, found, slack = 0, -1, 0
    for start, stop in around:
        room = start - end
        if room >= size and (found < 0 or room - size < slack):
            found, slack = end, room - size
            if not best or slack == 0:
                return found
        end = max(end, stop)
    return found if found >= 0 else end


def _orders(table: _Table) -> list[list[int]]:
    """Orders that do well on different kinds of networks."""

    def by(key: Callable[[int], tuple[int, ...]]) -> list[int]:
        return sorted(range(len(table.sizes)), key=lambda number: (*key(number), number))

    size = table.sizes
    first = [each.first for each in table.intervals]
    length = [each.last - each.first + 1 for each in table.intervals]
    live = live_bytes(table.intervals, 1)
    busiest = [max(live[each.first : each.last + 1]) for each in table.intervals]
    return [
        by(lambda n: (-size[n], -length[n])),
        by(lambda n: (-busiest[n], -size[n])),
        by(lambda n: (-size[n] * length[n], first[n])),
        by(lambda n: (-length[n], -size[n])),
        by(lambda n: (first[n], -size[n])),
        by(lambda n: (-busiest[n], -length[n])),
        by(lambda n: (-busiest[n], first[n], -length[n])),
    ]


Candidate: TypeAlias = "tuple[int, list[int], Offsets, bool]"


def _greedy(table: _Table, bound: int) -> Candidate:
    """The best of all orders: height, order, offsets, whether gaps were chosen tightest."""
    found: Candidate | None = None
    for order in _orders(table):
        for best in (False, True):
            offsets = table.fit(order, best)
            height = table.height(offsets)
            if found is None or height < found[0]:
                found = (height, order, offsets, best)
            if height <= bound:
                return found
    assert found is not None
    return found


def _repair(table: _Table, start: Candidate, bound: int) -> Candidate:
    """Moves what reaches the top ahead of something that is live with it, over and over.

    What needs no more memory is gone on with, so that plateaus are left; what is drawn is the
    same in every run.
    """
    chance = random.Random(0)

    def draw(count: int) -> int:
        return int(chance.random() * count)

    height, order, offsets, best = start
    for _ in range(min(REPAIRS, REPAIR_BUDGET // (1 + table.pairs))):
        if height <= bound:
            break
        top = max(range(len(order)), key=lambda n: (offsets[n] + table.sizes[n], n))
        moved = [number for number in order if number != top]
        around = table.together[top]
        moved.insert(moved.index(around[draw(len(around))]) if around else 0, top)
        if chance.random() < SWAPS:
            one, other = draw(len(moved)), draw(len(moved))
            moved[one], moved[other] = moved[other], moved[one]
        trial = table.fit(moved, best)
        found = table.height(trial)
        if found <= height:
            height, order, offsets = found, moved, trial
    return height, order, offsets, best


# --- everything -----------------------------------------------------------------------------


def place(intervals: Sequence[Interval], alignment: int = 64, seconds: float = 0.5) -> Placement:
    """Gives every interval an offset.

    Args:
        intervals: with different names.
        alignment: of every offset.
        seconds: about how long a solver may try where greedy placement misses the lower
            bound; counted in the solver's own work, so that results do not depend on
            the machine.  0 for no solver; nor is there one where OR-tools is not installed.

    Returns:
        Offsets and the lower bound.  Equal arguments give equal results, with a solver and
        without.
    """
    bound = max(live_bytes(intervals, alignment), default=0)
    real = [each for each in intervals if each.bytes > 0]
    offsets = {each.name: 0 for each in intervals}
    if not real:
        return Placement(offsets, 0, 0, "greedy")
    table = _Table(real, alignment)
    method = "greedy"
    candidate = _greedy(table, bound)
    if candidate[0] > bound:
        repaired = _repair(table, candidate, bound)
        if repaired[0] < candidate[0]:
            candidate, method = repaired, "repaired"
    height, _, found, _ = candidate
    small = table.pairs <= SOLVER_PAIRS
    if height > (bound if small else bound * MUCH) and seconds > 0 and is_installed():
        solved = improve(real, table.sizes, found, bound, alignment, seconds)
        if solved is not None and table.height(solved) < height:
            found, height, method = solved, table.height(solved), "solver"
    offsets.update({each.name: offset for each, offset in zip(real, found, strict=True)})
    return Placement(offsets, height, bound, method)


def completed(
    intervals: Sequence[Interval], given: Mapping[str, int], alignment: int, method: str
) -> Placement:
    """The placement that has given offsets; an interval without one gets the lowest gap.

    Args:
        intervals: with different names.
        given: offsets by name, none of them negative.
        alignment: of every offset.
        method: what found the offsets.

    Raises:
        Overlap: two intervals that are live together share bytes.
    """
    real = [each for each in intervals if each.bytes > 0]
    table = _Table(real, alignment)
    start = [given.get(each.name, -1) for each in real]
    missing = [number for number, offset in enumerate(start) if offset < 0]
    found = table.fit(missing, False, start)
    for number, others in enumerate(table.together):
        for other in others:
            low, high = sorted((number, other), key=lambda each: found[each])
            if found[low] + table.sizes[low] > found[high]:
                raise Overlap(real[low].name, real[high].name)
    offsets = {each.name: 0 for each in intervals}
    offsets.update({each.name: offset for each, offset in zip(real, found, strict=True)})
    lower_bound = max(live_bytes(intervals, alignment), default=0)
    return Placement(offsets, table.height(found), lower_bound, method)


class Overlap(Exception):
    """Two intervals share bytes while both are live: their names."""
