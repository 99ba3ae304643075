"""Rounds in which contestants are timed in turn, on a machine that is checked in between.

A virtual machine does not always have the processors that it shows: two of them may be two
threads of one core for a while, or wait for another machine.  Multiply-adds from registers
need nothing but cores, so their rate is measured between turns; rounds in which it falls are
taken again, for all contestants.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.figures import Result, median
from bench.remote import Late, Remote
from weft.runtime.limits import Limits, Meter

_TRIALS = 3
_HOPELESS = 8.0
_WHOLE = 0.8
"""Of the rate that was measured at best.  Clocks vary by less, a core that two share by more."""
_PROBES = 5
_AGAIN = 3
"""Rounds that are measured at the most, times those that count."""


@dataclass(frozen=True)
class Options:
    """How it is measured; ``simd``: the vector instructions of Weft, as ``Net.compile`` has it."""

    contestants: tuple[str, ...]
    rounds: int
    seconds: float
    clock: str
    cache: Path | None
    patience: float
    before: Path | None = None
    simd: str = ""


@dataclass
class Watch:
    """Whether the machine gives what it can.

    Attributes:
        meter: of as many threads as the contestants have; limits: the best it measured.
        memory: bytes that each thread reads to measure memory in every round; 0 to leave it.
        gbytes: that memory gave in each round that counted.
        repeated: rounds that did not count; disturbed: that count although they should not.
    """

    meter: Meter
    limits: Limits
    memory: int = 0
    gbytes: list[float] = field(default_factory=list[float])
    repeated: int = 0
    disturbed: int = 0

    def whole(self) -> bool:
        """Whether all processors multiply as fast as they can at this moment."""
        return median(self.meter.gflops(_PROBES)) >= _WHOLE * self.limits.gflops

    def bandwidth(self) -> float:
        """What memory gives at this moment, in GB/s; 0 if nobody asks."""
        return median(self.meter.gbytes(self.memory, _PROBES)) if self.memory else 0.0


def stolen_seconds() -> float:
    """Seconds that other virtual machines took of this one's cores, since it started.

    Linux counts them in hundredths of a second for all cores together; elsewhere it is 0.
    """
    try:
        with Path("/proc/stat").open() as counters:
            return int(counters.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def taken_in_turn(
    remotes: Sequence[Remote], results: list[Result], options: Options, watch: Watch | None
) -> dict[str, list[float]]:
    """Milliseconds of every round, by contestant; who fails in between is taken out.

    Args:
        remotes: the contestants; results: what is known of each, in the same order.
        options: how many rounds count.
        watch: rounds during which it finds the machine short are repeated, so often that at
            the most three times as many are measured; the last ones count as they are.
    """
    ready = [r for r, each in zip(remotes, results, strict=True) if not each.why]
    times: dict[str, list[float]] = {remote.contestant: [] for remote in ready}
    spare = (_AGAIN - 1) * options.rounds
    turn = counted = 0
    while counted < options.rounds:
        if counted == _TRIALS:
            ready = [remote for remote in ready if remote not in beaten(ready, times)]
        # The order turns, so that nobody always follows the same neighbour.
        first = turn % max(1, len(ready))
        turn += 1
        whole = watch is None or watch.whole()
        found: dict[str, float] = {}
        for remote in [*ready[first:], *ready[:first]]:
            answer = measured(remote, options)
            if isinstance(answer, str):
                place = remotes.index(remote)
                results[place] = replace(results[place], why=answer)
                ready.remove(remote)
                continue
            found[remote.contestant] = answer
            whole = whole and (watch is None or watch.whole())
        if not whole and spare:
            spare -= 1
            continue
        counted += 1
        for contestant, each in found.items():
            times[contestant].append(each)
        if watch is not None:
            watch.gbytes.append(watch.bandwidth())
    if watch is not None:
        watch.repeated = turn - counted
    return times


def measured(remote: Remote, options: Options) -> float | str:
    """Milliseconds of a contestant's turn, or why there are none."""
    try:
        answer = remote.ask(
            options.patience, do="measure", seconds=options.seconds, clock=options.clock
        )
        remote.settle()
    except Late as error:
        return str(error)
    return answer["why"] if "why" in answer else median(answer["times"]) / 1e6


def beaten(remotes: Sequence[Remote], times: Mapping[str, Sequence[float]]) -> list[Remote]:
    """Who is so slow that more rounds would tell nothing."""
    medians = {remote.contestant: median(times[remote.contestant]) for remote in remotes}
    best = min(medians.values(), default=0.0)
    return [remote for remote in remotes if medians[remote.contestant] > _HOPELESS * best]
