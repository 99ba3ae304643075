"""Several memory regions: which of them each buffer lies in.

What is read and written most for its size goes to the nearest region that has room for it while
it is live; the rest goes on to the next.  Where that leaves too much for the last one, other
orders are tried, which waste less.  No buffer is in two regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from weft.errors import UserError
from weft.plan.interval import Interval
from weft.plan.memory import Placement, aligned, joined, live_bytes, place
from weft.targets.target import Memory

Filled: TypeAlias = "dict[str, list[Interval]]"
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
    order = {region.name: far for far, region in enumerate(regions)}

    def cost(filled: Filled) -> int:
        return sum(
            order[name] * carried.get(each.name, 0) for name in filled for each in filled[name]
        )

    found = [
        filled
        for key in _priorities(intervals, carried)
        if (filled := _fill(sorted(intervals, key=key), regions, alignment)) is not None
    ]
    if not found:
        raise _too_small(intervals, carried, regions, alignment, steps)
    best = min(found, key=cost)
    return joined({name: place(best[name], alignment) for name in order})


Priority: TypeAlias = Callable[[Interval], tuple[float, str]]


def _priorities(intervals: Sequence[Interval], carried: Mapping[str, int]) -> tuple[Priority, ...]:
    """What is placed first: by traffic, and where that does not fit, the awkward first."""
    live = live_bytes(intervals, 1)

    def share(each: Interval) -> float:
        return carried.get(each.name, 0) / max(1, each.bytes)

    def busiest(each: Interval) -> int:
        return max(live[each.first : each.last + 1], default=0)

    return (
        lambda each: (-share(each), each.name),
        lambda each: (-share(each) / (each.last - each.first + 1), each.name),
        lambda each: (-each.bytes, each.name),
        lambda each: (-busiest(each), each.name),
    )


def _fill(
    intervals: Iterable[Interval], regions: Sequence[Memory], alignment: int
) -> Filled | None:
    """What lies in each region, the first intervals in the first one that takes them."""
    found: Filled = {}
    rest = list(intervals)
    for region in regions:
        taken, rest = _taken(rest, region.bytes, alignment)
        found[region.name] = taken
    return None if rest else found


def _taken(
    intervals: Sequence[Interval], room: int, alignment: int
) -> tuple[list[Interval], list[Interval]]:
    """The intervals that a region takes, and those that it does not."""
    live = [0] * (1 + max((each.last for each in intervals), default=0))
    taken: list[Interval] = []
    for each in intervals:
        size, span = aligned(each.bytes, alignment), range(each.first, each.last + 1)
        if max(live[step] for step in span) + size <= room:
            taken.append(each)
            for step in span:
                live[step] += size
    placed = place(taken, alignment, seconds=0)
    while placed.bytes > room:
        # What is live at once has room, but no placement of it was found.
        last = max(
            number
            for number, each in enumerate(taken)
            if placed.offsets[each.name] + aligned(each.bytes, alignment) > room
        )
        del taken[last]
        placed = place(taken, alignment, seconds=0)
    names = {each.name for each in taken}
    return taken, [each for each in intervals if each.name not in names]


def _too_small(
    intervals: Sequence[Interval],
    carried: Mapping[str, int],
    regions: Sequence[Memory],
    alignment: int,
    steps: Sequence[str],
) -> UserError:
    """What does not fit, and how large the last region must be."""
    live = live_bytes(intervals, alignment)
    worst = max(range(len(live)), key=lambda step: live[step])
    largest = max(intervals, key=lambda each: each.bytes)
    *others, last = regions
    open_ended = [*others, Memory(last.name, "ram", _ANY)]
    needed = min(
        place(filled[last.name], alignment, seconds=0).bytes
        for key in _priorities(intervals, carried)
        if (filled := _fill(sorted(intervals, key=key), open_ended, alignment)) is not None
    )
    told = " and ".join(f"{each.name} of {each.bytes:,}" for each in regions)
    noun = "the memory region" if len(regions) == 1 else "the memory regions"
    return UserError(
        f"intermediate values must fit into {noun} {told} bytes",
        got=(
            f"{live[worst]:,} bytes that are live at once; the largest buffer, which must lie in "
            f"one region, is {largest.name} of {largest.bytes:,}"
        ),
        where=f"step {worst}, {steps[worst]}",
        fix=(
            f"Name a {last.name} of {needed:,} bytes (--region {last.name}={needed}), a further "
            "region, or cut the layers around that step into parts (`weft apply MODEL tile-chain`)."
        ),
    )
