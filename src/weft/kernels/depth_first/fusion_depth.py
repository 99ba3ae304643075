"""Which groups in a row run depth first, and in bands of how many rows.

The estimate counts bytes through the caches.  Apart, a link is written to, and read from, as
near as there is room for all of it and for what is read and written beside it; in bands, where
there is room for the strips.  A stage
takes as long as its arithmetic or as what it moves, whichever is longer.  Beside that a band
moves the rows that it takes over, reads all weights again, and, if it is the first of a part,
computes rows again that another part computes, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Unpack

from weft.ir.types import TensorType
from weft.kernels.alternatives import Alternative, Sums
from weft.kernels.depth_first.chains import (
    BANDS,
    Bands,
    chained,
    goes_by_rows,
    strip_bytes,
    strips_of,
)
from weft.kernels.depth_first.fusion_pool import POOLED, PooledPair, pooled_as, pooled_pair
from weft.kernels.depth_first.links import ChainStage, Setting, Stages
from weft.kernels.key import definition_key, layer_key
from weft.kernels.selection import (
    Offers,
    TaskChoice,
    alternative_named,
    alternatives,
    offers_of,
    usual,
)
from weft.kernels.task import Asked
from weft.plan.chain import Fuse, Fused
from weft.plan.choice import Reason, Settled
from weft.plan.fusion import Group
from weft.plan.implementation import Constants, Implementation
from weft.plan.strides import StridedView
from weft.plan.text import BodyText, StepText, refused
from weft.records import dataclass
from weft.targets.target import Target

MOST_STAGES = 6
"""So many groups are fused at the most: each has code and strips of its own."""
WORTH = 0.1
"""What must be gained, as a part of what the stages take: estimates are rough."""
MOST_TRIED = 64
"""Heights of bands from the lowest on, and from the highest on, that are weighed."""
KEPT = 0.6
"""Of what is used again after as many bytes as a cache has: the part that it still holds.

Of what is used again after ``n`` times as many it is ``KEPT / n**2``: measured with arrays that
are copied to and fro (Zen 5, 1 MB, 4 KB pages), within 0.03 for 1 to 4 times the cache.  Of less
than that it is too much, by up to 0.2 at 0.75 times.
"""


def fuser(
    target: Target, *, choices: Mapping[str, str] | None = None, **asked: Unpack[Asked]
) -> Fuse:
    """What fuses chains for a target.

    Args:
        target: the machine; without caches nothing is fused.
        choices: names of alternatives by ``layer_key``: these layers are steps of their own.
        asked: what is asked of all tasks.
    """
    costs: dict[str, float] = {}

    def fuse(
        groups: tuple[Group, ...],
        views: Mapping[str, StridedView],
        types: Mapping[str, TensorType],
        constants: Constants,
    ) -> tuple[Fused, ...]:
        if not target.caches:
            return ()
        setting = Setting(views, types, constants, target, asked)
        found: list[Fused] = []
        for start, part in _between(groups, setting, choices or {}):
            inside = _Chooser(part, setting, costs).best()
            found += (replace(e, start=e.start + start, stop=e.stop + start) for e in inside)
        return tuple(found)

    return fuse


def _between(
    groups: Sequence[Group], setting: Setting, choices: Mapping[str, str]
) -> Iterator[tuple[int, Sequence[Group]]]:
    """The parts of a chain around the groups that choices name, and where each begins."""
    start = 0
    for place, group in enumerate(groups if choices else ()):
        if layer_key(setting.task(group, threads=setting.threads)) in choices:
            yield start, groups[start:place]
            start = place + 1
    yield start, groups[start:]


def named_fuser(target: Target, **asked: Unpack[Asked]) -> Callable[[BodyText], Fuse]:
    """What fuses the chains that a plan's text has as one step; see ``fuser``."""

    def of(body: BodyText) -> Fuse:
        chains = {step.stages[0].writes: step for step in body.steps if step.stages}

        def fuse(
            groups: tuple[Group, ...],
            views: Mapping[str, StridedView],
            types: Mapping[str, TensorType],
            constants: Constants,
        ) -> tuple[Fused, ...]:
            setting = Setting(views, types, constants, target, asked)
            found: list[Fused] = []
            for start, group in enumerate(groups):
                step = chains.get((group.value,))
                if step is not None and start >= (found[-1].stop if found else 0):
                    stop = start + len(step.stages)
                    made = _fused_as(step, groups[start:stop], setting)
                    found.append(Fused(start, stop, made))
            return tuple(found)

        return fuse

    return of


def _fused_as(step: StepText, groups: Sequence[Group], setting: Setting) -> Implementation:
    """The kernel of a chain as a plan's text has it."""
    if [(group.value,) for group in groups] != [each.writes for each in step.stages]:
        got = ", ".join(value for each in step.stages for value in each.writes)
        raise refused("the stages of a step must be groups in a row", got, step.line)
    if step.kernel == POOLED:
        return pooled_as(step, groups, setting)
    stages = Stages(setting).of(groups)
    if stages is None or len(stages) < 2:
        raise refused("a chain must go by rows", step.kernel, step.line, "Make them steps.")
    made: list[Implementation] = []
    for place, (stage, text) in enumerate(zip(stages, step.stages, strict=True)):
        each = alternative_named(text, alternatives(stage.task))
        kernel = each.make()
        if kernel is None or not goes_by_rows(stage, stages[place - 1] if place else None, kernel):
            raise refused("the kernel of a stage must go by rows", text.kernel, text.line)
        choice = TaskChoice(stage.task, each.name, text.reason or Reason.ASKED)
        made.append(replace(kernel, scheme=each.name, choice=choice))
    rows, height = stages[-1].rows, step.kernel.removeprefix(BANDS)
    if not (height.isdecimal() and height.isascii() and 0 < int(height) <= rows):
        rule = f"the kernel of a chain is {BANDS}N, N rows of {rows}"
        raise refused(rule, step.kernel, step.line)
    bands = Bands(int(height), min(setting.threads, -(-rows // int(height))))
    found = chained(stages, made, bands, setting.target)
    return replace(found, choice=Settled(step.reason or Reason.ASKED))


@dataclass
class _Chooser:
    """Finds the parts of a chain whose fusion gains the most.

    Attributes:
        groups: of the chain.
        setting: what they stand in.
        known: cycles of stages by ``definition_key``, of all chains of a network.
    """

    groups: Sequence[Group]
    setting: Setting
    known: dict[str, float]

    def __post_init__(self) -> None:
        self.stages = Stages(self.setting)
        self.offers: dict[int, tuple[ChainStage, Offers]] = {}
        self.costs: dict[int, float] = {}
        self.kernels: dict[int, _Made | None] = {}

    def best(self) -> tuple[Fused, ...]:
        """The parts, in order."""
        found = self._best()
        for stage, offers in self.offers.values():
            stage.task.forget()
            offers.task.forget()
        return found

    def _best(self) -> tuple[Fused, ...]:
        best: list[tuple[float, tuple[_Part | PooledPair, ...]]] = [(0.0, ())]
        for stop in range(1, len(self.groups) + 1):
            best.append(best[-1])
            pair = pooled_pair(stop - 2, self.groups, self.setting) if stop > 1 else None
            if pair and best[stop - 2][0] + pair.gain > best[stop][0]:
                gain, before = best[stop - 2]
                best[stop] = gain + pair.gain, (*before, pair)
            for start, stages in self.ending(stop):
                gain, before = best[start]
                found = self.fused(start, stages, best[stop][0] - gain)
                if found is not None:
                    best[stop] = gain + found.gain, (*before, found)
        return tuple(part.fused(self.setting.target) for part in best[-1][1])

    def ending(self, stop: int) -> Iterator[tuple[int, tuple[ChainStage, ...]]]:
        """The parts of the chain before a place, the shortest first.

        A core's own caches do not hold all of their first and of their last link.
        """
        large = self.setting.target.caches[-1] * math.sqrt(KEPT)
        if stop < 2 or self.reused(stop - 2) <= large:
            return
        for start in range(stop - 2, max(-1, stop - 1 - MOST_STAGES), -1):
            if self.reused(start) <= large:
                continue
            stages = self.stages.of(self.groups[start:stop])
            if stages is None:
                return
            yield start, stages

    def reused(self, place: int) -> float:
        """After how many bytes the link behind a group is used again, run one by one."""
        return _reused(self.groups[place], self.groups[place + 1], self.setting)

    def fused(self, start: int, stages: tuple[ChainStage, ...], least: float) -> _Part | None:
        """A part from a place on, if fusing it is worth it and gains more than so many cycles."""
        costs = [self.cost(stage) for stage in stages]
        least = max(least, WORTH * sum(costs))
        gain, bands = _best_bands(stages, costs, self.setting)
        made: list[Implementation] = []
        for place, stage in enumerate(stages):
            if gain <= least:
                return None
            kernel = self.kernel(stage, stages[place - 1] if place else None)
            if kernel is None:
                return None
            gain -= kernel.extra
            made.append(kernel.implementation)
        return _Part(start, stages, tuple(made), bands, gain) if gain > least else None

    def offered(self, stage: ChainStage) -> tuple[Alternative, ...]:
        """The alternatives of a stage."""
        if id(stage) not in self.offers:
            offers = offers_of(stage.task)
            self.offers[id(stage)] = stage, offers
            if offers.shared:
                self.known.setdefault(definition_key(stage.task), offers.alternatives[0].cost)
        return self.offers[id(stage)][1].alternatives

    def cost(self, stage: ChainStage) -> float:
        """Cycles that a stage takes by itself; 0 where nobody knows."""
        if id(stage) not in self.costs:
            cost = self.known.get(definition_key(stage.task))
            self.costs[id(stage)] = self.offered(stage)[0].cost if cost is None else cost
        cost = self.costs[id(stage)]
        return cost if math.isfinite(cost) else 0.0

    def kernel(self, stage: ChainStage, before: ChainStage | None) -> _Made | None:
        """The best kernel of a stage whose loops go by rows."""
        if id(stage) not in self.kernels:
            self.kernels[id(stage)] = self.by_rows(stage, before)
        return self.kernels[id(stage)]

    def by_rows(self, stage: ChainStage, before: ChainStage | None) -> _Made | None:
        least = self.cost(stage)
        # Sums in another order would make results depend on whether a chain is fused, and
        # so on the number of threads.
        wanted = self.usual(stage.group)
        for each in self.offered(stage):
            extra = each.cost - least if math.isfinite(each.cost) else 0.0
            if extra > least:
                return None
            made = each.make() if each.sums == wanted else None
            if made is not None and goes_by_rows(stage, before, made):
                choice = TaskChoice(stage.task, each.name, Reason.CHEAPEST)
                return _Made(replace(made, scheme=each.name, choice=choice), extra)
        return None

    def usual(self, group: Group) -> Sums:
        """In which order the kernel that a group alone would have adds up."""
        # It is the same for any number of threads.
        task = self.setting.task(group)
        sums = usual(task).sums
        task.forget()
        return sums


@dataclass(frozen=True, slots=True)
class _Part:
    """Stages of a chain from a place on, their kernels, and the cycles that fusing them gains."""

    start: int
    stages: tuple[ChainStage, ...]
    kernels: tuple[Implementation, ...]
    bands: Bands
    gain: float

    def fused(self, target: Target) -> Fused:
        found = chained(self.stages, self.kernels, self.bands, target)
        made = replace(found, choice=Settled(Reason.CHEAPEST))
        return Fused(self.start, self.start + len(self.stages), made)


@dataclass(frozen=True, slots=True)
class _Made:
    """A kernel, and how many cycles it takes more than the best one."""

    implementation: Implementation
    extra: float


def _best_bands(
    stages: Sequence[ChainStage], costs: Sequence[float], setting: Setting
) -> tuple[float, Bands]:
    """The bands that gain the most cycles, and how many."""
    rows = stages[-1].rows
    reused = [_reused(one.group, after.group, setting) for one, after in pairwise(stages)]
    found: list[tuple[float, int]] = []
    for height in heights_of(rows):
        bands = Bands(height, min(setting.threads, -(-rows // height)))
        found.append((_gain(stages, bands, costs, reused, setting.target), height))
    gain, height = max(found)
    return gain, Bands(height, min(setting.threads, -(-rows // height)))


def heights_of(rows: int) -> list[int]:
    """Heights of bands that cut so many rows evenly, the least first.

    All there are up to the square of ``MOST_TRIED`` rows; of more the lowest and the highest.
    """
    few = range(1, min(rows, MOST_TRIED) + 1)
    high = {-(-rows // count) for count in few}
    low = {-(-rows // -(-rows // height)) for height in few}
    return sorted(high | low)


def _gain(
    stages: Sequence[ChainStage],
    bands: Bands,
    costs: Sequence[float],
    reused: Sequence[float],
    target: Target,
) -> float:
    """Cycles that a chain takes less than its groups one by one, all parts together.

    Args:
        stages: of the chain.
        bands: that it goes by.
        costs: cycles of each stage.
        reused: for each link, after how many bytes it is used again, one group after the other.
        target: the machine.
    """
    rows = stages[-1].rows
    count = -(-rows // bands.rows)
    strips = strips_of(stages, bands.rows)
    sizes = strip_bytes(stages, strips)
    weights = sum(map(_weights, stages))
    apart: list[float] = []
    inside: list[float] = []
    extra = (count - 1) * _moved(weights, weights, target)
    # All wait for the part of the most rows.
    longest = min(rows, -(-count // bands.parts) * bands.rows)
    extra += (longest * bands.parts / rows - 1) * sum(costs)
    for place, (stage, strip, size) in enumerate(zip(stages, strips, sizes, strict=False)):
        link = stage.group.type.bytes
        beside = size + (sizes[place + 1] if place + 1 < len(sizes) else 0)
        beside = max(beside, reused[place] * size / link)
        # Threads' caches do not add up: half of what one reads the other has written.
        apart.append(_moved(link, reused[place], target))
        inside.append(_moved(link, beside, target))
        kept = size / strip.rows * strip.kept
        extra += 2 * (count - bands.parts) * _moved(kept, beside, target)
        extra += (bands.parts - 1) * strip.kept / stage.rows * costs[place]
    return _together(costs, apart) - _together(costs, inside) - extra


def _together(costs: Sequence[float], links: Sequence[float]) -> float:
    """Cycles of stages, each of which writes the next link and reads the one before."""
    moves = [after + before for after, before in zip([*links, 0.0], [0.0, *links], strict=True)]
    return sum(map(max, costs, moves))


def _weights(stage: ChainStage) -> int:
    """Bytes of a stage's constants."""
    task = stage.task
    return sum(
        prod(buffer.shape) * buffer.dtype.bytes
        for buffer in task.inputs
        if buffer.name in task.constants
    )


def _reused(group: Group, reader: Group, setting: Setting) -> float:
    """Bytes from the use of an element of a link to the next one, one group after the other.

    The link lies between, and half of what its two groups read and write beside it: of the first
    elements all that the writer still moves, of the last ones all that the reader has moved.
    """
    link = group.type.bytes
    beside = _read(group, setting) + _read(reader, setting) - link + reader.type.bytes
    return link + beside / 2


def _read(group: Group, setting: Setting) -> int:
    """Bytes of what a group reads, but for constants."""
    values = (name for name in group.reads if name not in setting.constants)
    return sum(setting.types[name].bytes for name in values)


def _moved(size: float, again: float, target: Target) -> float:
    """Cycles to write, or to read, bytes of memory that is used again after so many bytes."""
    if again <= target.caches[0] * 3 / 4:
        return 0.0  # counted with the arithmetic
    far = max(0.0, 1 - KEPT * (target.caches[-1] / again) ** 2)
    return size * ((1 - far) / target.near + far / target.far)
