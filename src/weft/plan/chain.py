"""Chains: groups that may run together, band of rows by band of rows.

A link is a value that one group makes, in memory of its own, and one other group reads.  A
chain that is fused is one step: what its links hold is never in memory as a whole.  Which
parts of a chain are worth that is for those to say who write the kernels (``Fuse``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from weft.ir.types import TensorType
from weft.loops.definition import substitute_load
from weft.plan.fusion import Group
from weft.plan.implementation import Constants, Implementation
from weft.plan.program import Region
from weft.plan.storage import Storage
from weft.plan.strides import StridedView
from weft.plan.tensors import Opaque
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Fused:
    """Groups of a chain that one kernel computes: those in ``[start, stop)``."""

    start: int
    stop: int
    implementation: Implementation


Fuse: TypeAlias = Callable[
    [tuple[Group, ...], Mapping[str, StridedView], Mapping[str, TensorType], Constants],
    tuple[Fused, ...],
]
"""``fuse(chain, views, types, constants)``: what is worth fusing, disjoint and in order."""


def joined(groups: Sequence[Group]) -> Group:
    """A chain as one group, whose definition is that of the last with all others inside."""
    last = groups[-1]
    compute = last.compute
    for group in reversed(groups[:-1]):
        compute = substitute_load(compute, group.value, group.compute)
    nodes = {node.name: node for group in groups for node in group.nodes}
    members = [member for group in reversed(groups) for member in group.members]
    return replace(
        last,
        compute=compute,
        members=tuple(members),
        nodes=tuple(nodes.values()),
        stages=tuple(groups),
    )


def chains(storage: Storage) -> list[tuple[int, ...]]:
    """The steps of all longest chains, each step in one of them at the most."""
    users: dict[str, list[int]] = {}
    for place, step in enumerate(storage.steps):
        for value in step.reads:
            users.setdefault(storage.views[value].root, []).append(place)
    shared = Counter(view.root for view in storage.views.values())
    after: dict[int, int] = {}
    before: dict[int, int] = {}
    for place, step in enumerate(storage.steps):
        if not isinstance(step, Group):
            continue
        links = [
            (storage.types[value].bytes, maker)
            for value in step.reads
            if (maker := _maker(storage, value, users, shared)) is not None
        ]
        if links:
            before[place] = max(links)[1]
            after[before[place]] = place
    found: list[tuple[int, ...]] = []
    for first in sorted(after.keys() - before.keys()):
        chain = [first]
        while chain[-1] in after:
            chain.append(after[chain[-1]])
        found.append(tuple(chain))
    return found


def _maker(
    storage: Storage, value: str, users: Mapping[str, list[int]], shared: Counter[str]
) -> int | None:
    """The step that makes a value which only its one reader needs, if it is such a value."""
    root = storage.roots.get(value)
    if root is None or root.region is not Region.ARENA or shared[value] > 1:
        return None
    if len(users[value]) > 1 or len(storage.ready[value]) != 1:
        return None
    (maker,) = storage.ready[value]
    step = storage.steps[maker]
    return maker if isinstance(step, Group) and step.value == value else None


def fused(
    storage: Storage, fuse: Fuse, constants: Constants
) -> tuple[Storage, dict[int, Implementation]]:
    """The storage with chains as single steps where that is worth it, and their kernels."""
    steps: dict[int, Group | Opaque] = dict(enumerate(storage.steps))
    home = {place: place for place in steps}
    made: dict[int, Implementation] = {}
    links: set[str] = set()
    for chain in chains(storage):
        groups = tuple(step for step in map(steps.__getitem__, chain) if isinstance(step, Group))
        for part in fuse(groups, storage.views, storage.types, constants):
            places, stages = chain[part.start : part.stop], groups[part.start : part.stop]
            steps[places[-1]] = joined(stages)
            made[places[-1]] = part.implementation
            links |= {group.value for group in stages[:-1]}
            for place in places[:-1]:
                del steps[place]
                home[place] = places[-1]
    if not made:
        return storage, {}
    order = {place: number for number, place in enumerate(sorted(steps))}
    return replace(
        storage,
        views={value: view for value, view in storage.views.items() if value not in links},
        roots={value: root for value, root in storage.roots.items() if value not in links},
        steps=tuple(steps[place] for place in order),
        ready={
            value: frozenset(order[home[place]] for place in places)
            for value, places in storage.ready.items()
        },
    ), {order[place]: each for place, each in made.items()}
