"""Donation: an output in the memory of an input, as state is handed from run to run.

The new value may be written where the old one lies once every other step that reads the old
one has run.  A step that itself reads what it overwrites must do so point by point.  Where
that cannot be had, the new value is computed elsewhere and copied at the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import replace

from weft.plan.fusion import Group
from weft.plan.implementation import Implementation
from weft.plan.in_place import overwrites
from weft.plan.storage import Storage
from weft.records import dataclass

_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Donation:
    """Steps in an order in which no state is overwritten before it was read.

    Attributes:
        storage: with its steps in a possible order.
        made: kernels of steps that were made already, by step.
        before: further steps that must have run, by step.
        in_place: the root of the old value that a step overwrites point by point.
    """

    storage: Storage
    made: Mapping[int, Implementation]
    before: Mapping[int, frozenset[int]]
    in_place: Mapping[int, str]


def donate(storage: Storage, made: Mapping[int, Implementation]) -> tuple[Donation, frozenset[str]]:
    """Orders the steps that touch states.

    Args:
        storage: the steps, in a possible order, and where values lie.
        made: kernels of steps that were made already.

    Returns:
        The donation, and the roots of new values that cannot lie where the old ones do: the
        donation leaves them out.
    """
    if not storage.states:
        return Donation(storage, made, {}, {}), frozenset()
    needs = [_needed(storage, place) for place in range(len(storage.steps))]
    readers, writers = _users(storage)
    before: dict[int, frozenset[int]] = {}
    in_place: dict[int, str] = {}
    refused: set[str] = set()
    for old, new in storage.states.items():
        if storage.roots[new].bytes == 0:
            continue
        reads, writes = readers.get(old, _NONE), writers.get(new, _NONE)
        both = reads & writes
        if both and (len(writes) > 1 or not _overwrites(storage, min(both), old, new)):
            refused.add(new)
            continue
        tried = {**before, **{each: before.get(each, _NONE) | reads - {each} for each in writes}}
        if _order(needs, tried) is None:
            refused.add(new)
            continue
        before = tried
        in_place |= dict.fromkeys(both, old)
    order = _order(needs, before) or []
    return _reordered(Donation(storage, made, before, in_place), order), frozenset(refused)


def _overwrites(storage: Storage, place: int, old: str, new: str) -> bool:
    """Whether a step reads an old value just where, and before, it writes the new one."""
    step = storage.steps[place]
    if not isinstance(step, Group) or step.value != new:
        return False
    values = [value for value in step.reads if storage.views[value].root == old]
    return len(values) == 1 and overwrites(step, values[0], storage)


def _needed(storage: Storage, place: int) -> frozenset[int]:
    """The steps that must have run before a step."""
    return frozenset[int]().union(
        *(storage.ready.get(value, frozenset()) for value in storage.steps[place].reads)
    )


def _users(
    storage: Storage,
) -> tuple[dict[str, frozenset[int]], dict[str, frozenset[int]]]:
    """The steps that read a root, and those that write one."""
    reads: dict[str, frozenset[int]] = {}
    writes: dict[str, frozenset[int]] = {}
    for place, step in enumerate(storage.steps):
        made = (step.value,) if isinstance(step, Group) else step.node.outputs
        for found, values in ((reads, step.reads), (writes, made)):
            for value in filter(None, values):
                root = storage.views[value].root
                found[root] = found.get(root, frozenset()) | {place}
    return reads, writes


def _order(needs: list[frozenset[int]], before: Mapping[int, frozenset[int]]) -> list[int] | None:
    """The steps in a possible order, as near to the given one as can be, if there is one."""
    waits = [set(each) | before.get(place, frozenset()) for place, each in enumerate(needs)]
    after: list[list[int]] = [[] for _ in needs]
    for place, earlier in enumerate(waits):
        for each in earlier:
            after[each].append(place)
    ready = [place for place, earlier in enumerate(waits) if not earlier]
    found: list[int] = []
    while ready:
        place = heapq.heappop(ready)
        found.append(place)
        for later in after[place]:
            waits[later].discard(place)
            if not waits[later]:
                heapq.heappush(ready, later)
    return found if len(found) == len(needs) else None


def _reordered(donation: Donation, order: list[int]) -> Donation:
    if order == sorted(order):
        return donation
    storage, place = donation.storage, {old: new for new, old in enumerate(order)}

    def moved(steps: frozenset[int]) -> frozenset[int]:
        return frozenset(place[each] for each in steps)

    return Donation(
        replace(
            storage,
            steps=tuple(storage.steps[each] for each in order),
            ready={value: moved(steps) for value, steps in storage.ready.items()},
        ),
        {place[each]: made for each, made in donation.made.items()},
        {place[each]: moved(steps) for each, steps in donation.before.items()},
        {place[each]: root for each, root in donation.in_place.items()},
    )
