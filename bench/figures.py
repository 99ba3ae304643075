"""What the benchmarks compute from their raw numbers: means, slopes, tables.  No measuring here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One contestant on one network with some threads; ``why`` says why there is no time.

    Attributes:
        network, contestant, threads: which.
        times: milliseconds of one run: the median of every round.
        error: largest difference from the reference over the reference's range.
        ready: seconds from the model's file to the first result, with nothing in a cache.
        again: the same once more with what the first time left in a cache, if it leaves any.
        peak_bytes: resident memory at most, over that of the process before.
        resident_bytes: the same once everything is ready.
        code_bytes: compiled for this network; weight_bytes: what it reads beside that.
        runtime_bytes: of the libraries that have to be there.
        repeated: rounds that did not count, since the machine was short of its processors.
        gbytes: GB/s that memory gave in the rounds that counted, their median, where that sets
            the limit.
        note: what was chosen for it.
        deviation: root mean square of the difference over the reference's standard deviation.
    """

    network: str
    contestant: str
    threads: int
    times: tuple[float, ...] = ()
    error: float = math.nan
    ready: float = math.nan
    again: float = math.nan
    peak_bytes: int = 0
    resident_bytes: int = 0
    code_bytes: int = 0
    weight_bytes: int = 0
    runtime_bytes: int = 0
    repeated: int = 0
    gbytes: float = math.nan
    note: str = ""
    why: str = ""
    deviation: float = math.nan

    @property
    def median(self) -> float:
        """Milliseconds; NaN if there are none."""
        return median(self.times) if self.times else math.nan


def median(values: Iterable[float]) -> float:
    """The middle of some values, which must not be none."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def geometric_mean(values: Iterable[float]) -> float:
    """The n-th root of the product of n positive values; NaN of none."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else math.nan


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent k of the power law ``value = c * size**k`` that fits best."""
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((each - x) ** 2 for each in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / across


def best_peer(results: Sequence[Result], ours: str) -> Result | None:
    """The fastest of those that are not ours."""
    timed = [each for each in results if each.times and not each.contestant.startswith(ours)]
    return min(timed, key=lambda each: each.median, default=None)


@dataclass(frozen=True)
class Race:
    """Our best result on a network, beside the best peer's.

    Attributes:
        network, threads: which.
        ours, peer: the results.
    """

    network: str
    threads: int
    ours: Result
    peer: Result

    @property
    def ratio(self) -> float:
        """How many times faster we are."""
        return self.peer.median / self.ours.median


def races(results: Sequence[Result], ours: str = "weft") -> list[Race]:
    """One for each network and number of threads where there is something to compare."""
    found: list[Race] = []
    for network, threads in dict.fromkeys((each.network, each.threads) for each in results):
        here = [each for each in results if (each.network, each.threads) == (network, threads)]
        own = [each for each in here if each.contestant == ours and each.times]
        peer = best_peer(here, ours)
        if own and peer is not None:
            found.append(Race(network, threads, own[0], peer))
    return found


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table, the first column flush left."""
    return [markdown_row(heads), f"|---|{'---:|' * (len(heads) - 1)}", *map(markdown_row, rows)]


def markdown_row(cells: Sequence[str]) -> str:
    """A row of such a table."""
    return f"| {' | '.join(cells)} |"


def number(value: float) -> str:
    """About three digits; a dash for none."""
    if math.isnan(value):
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def megabytes(size: float) -> str:
    return "-" if size <= 0 else number(size / 1e6)


def time_rows(
    results: Sequence[Result], threads: int, contestants: Sequence[str]
) -> list[list[str]]:
    """Milliseconds by network and contestant, and the best peer over ours."""
    ratios = {(race.network, race.threads): race for race in races(results)}
    rows: list[list[str]] = []
    for network in dict.fromkeys(each.network for each in results):
        by = {
            each.contestant: each
            for each in results
            if each.network == network and each.threads == threads
        }
        if not by:
            continue
        cells = [number(by[name].median) if name in by else "-" for name in contestants]
        race = ratios.get((network, threads))
        last = ["-", "-"] if race is None else [race.peer.contestant, f"{race.ratio:.2f}"]
        rows.append([network, *cells, *last])
    return rows


def summary(results: Sequence[Result], groups: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Geometric mean and worst case of best peer over ours, by group and threads."""
    found = races(results)
    rows: list[list[str]] = []
    for threads in sorted({race.threads for race in found}):
        for name, members in groups.items():
            here = [race for race in found if race.threads == threads and race.network in members]
            if not here:
                continue
            worst = min(here, key=lambda race: race.ratio)
            rows.append(
                [
                    f"{name} ({len(here)})",
                    str(threads),
                    f"{geometric_mean(race.ratio for race in here):.2f}",
                    f"{worst.ratio:.2f}",
                    f"{worst.network}, {worst.peer.contestant}",
                ]
            )
    return rows
