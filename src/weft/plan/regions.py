"""Several memory regions: which of them each buffer lies in.

What is read and written most for its size goes to the nearest region that has room for it while
it is live; the rest goes on to the next.  Where that leaves too much for the last one, other
orders are tried, which waste less.  No buffer is in two regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from weft.errors import UserError
from weft.plan.interval import Interval
from weft.plan.memory import Placement, aligned, joined, live_bytes, place
from weft.records import dataclass
from weft.targets.target import Memory

Filled: TypeAlias = "dict[str, list[Interval]]"
"""What lies in each region."""
_ANY = 1 << 60


def place_in(
    intervals: Sequence[Interval],
    carried: Mapping[str, int],
    regions: Sequence[Memory],
    alignment: int,
    steps: Sequence[str],
) -> Placement:
    """Gives every interval a region and an offset.

    Args:
        intervals: with different names.
        carried: bytes that are read and written of each.
        regions: one or more, with their sizes, the nearest first.
        alignment: of every offset.
        steps: what each step does, for people.

    Raises:
        UserError: the regions are too small; says what is live where, and what would fit.
    """
    far = {region.name: distance for distance, region in enumerate(regions)}

    def cost(filled: Filled) -> int:
        return sum(far[name] * carried.get(each.name, 0) for name in far for each in filled[name])

    search = _Search(intervals, carried, alignment)
    found = min(search.filled(regions), key=cost, default=None)
    if found is None:
        raise _too_small(search, regions, steps)
    return joined({name: place(search.as_given(found[name]), alignment) for name in far})


@dataclass(frozen=True)
class _Search:
    intervals: Sequence[Interval]
    carried: Mapping[str, int]
    alignment: int

    def as_given(self, some: Sequence[Interval]) -> list[Interval]:
        """Some intervals in the order in which all are given, on which placements depend."""
        names = {each.name for each in some}
        return [each for each in self.intervals if each.name in names]

    def placed(self, some: Sequence[Interval]) -> Placement:
        return place(self.as_given(some), self.alignment, seconds=0)

    def filled(self, regions: Sequence[Memory]) -> Iterator[Filled]:
        """What lies in each region, for every priority with which all has room."""
        for key in self.priorities():
            found: Filled = {}
            rest = sorted(self.intervals, key=key)
            for region in regions:
                found[region.name], rest = self.taken(rest, region.bytes)
            if not rest:
                yield found

    def priorities(self) -> Iterator[Callable[[Interval], float]]:
        """What is placed first: by traffic, and where that does not fit, the awkward first."""
        live = live_bytes(self.intervals, 1)

        def share(each: Interval) -> float:
            return self.carried.get(each.name, 0) / max(1, each.bytes)

        yield lambda each: -share(each)
        yield lambda each: -share(each) / (each.last - each.first + 1)
        yield lambda each: -each.bytes
        yield lambda each: -max(live[each.first : each.last + 1], default=0)

    def taken(self, some: Sequence[Interval], room: int) -> tuple[list[Interval], list[Interval]]:
        """The intervals that a region takes, the first ones first, and those that it does not."""
        live = [0] * (1 + max((each.last for each in some), default=0))
        taken: list[Interval] = []
        for each in some:
            size, span = aligned(each.bytes, self.alignment), range(each.first, each.last + 1)
            if max(live[step] for step in span) + size <= room:
                taken.append(each)
                for step in span:
                    live[step] += size
        while (placed := self.placed(taken)).bytes > room:
            # What is live at once has room, but no placement of it was found.
            del taken[
                max(
                    number
                    for number, each in enumerate(taken)
                    if placed.offsets[each.name] + aligned(each.bytes, self.alignment) > room
                )
            ]
        names = {each.name for each in taken}
        return taken, [each for each in some if each.name not in names]


def _too_small(search: _Search, regions: Sequence[Memory], steps: Sequence[str]) -> UserError:
    """What does not fit, and how large the last region must be."""
    live = live_bytes(search.intervals, search.alignment)
    worst = max(range(len(live)), key=lambda step: live[step])
    largest = max(search.intervals, key=lambda each: each.bytes)
    *others, last = regions
    open_ended = [*others, Memory(last.name, "ram", _ANY)]
    needed = min(search.placed(each[last.name]).bytes for each in search.filled(open_ended))
    told = ", ".join(f"{each.name} ({each.bytes:,} bytes)" for each in regions)
    return UserError(
        f"intermediate values must fit into the memory regions {told}",
        got=(
            f"{live[worst]:,} bytes that are live at once; the largest buffer, which must lie in "
            f"one region, is {largest.name} of {largest.bytes:,}"
        ),
        where=f"step {worst}, {steps[worst]}",
        fix=(
            f"They fit where {last.name} has {needed:,} bytes (--region {last.name}={needed}). Or "
            "name a further region, or cut the layers around that step into parts (`weft apply "
            "MODEL tile-chain`)"
        ),
    )
