"""Campaigns: how often damage or compression changes what a network says, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import sqrt

from weft.explore.bars import Bar, bars
from weft.records import dataclass
from weft.screen import Screen, Shown, several

CONFIDENCE, _Z = 0.95, 1.959963984540054


@dataclass(frozen=True, slots=True)
class Rate:
    """A share, and the interval that it lies in with 95 % confidence (Wilson's).

    Attributes:
        value: the share that was seen.
        low: the lower end of the interval; high: the upper one.
        count: independent observations that the interval counts.
    """

    value: float
    low: float
    high: float
    count: float

    def __str__(self) -> str:
        return f"{self.value:.2%} [{self.low:.2%}, {self.high:.2%}]"


def wilson(share: float, count: float) -> Rate:
    """Wilson's score interval of a share of so many independent observations."""
    if count <= 0:
        return Rate(share, 0.0, 1.0, 0.0)
    square = _Z * _Z / count
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * sqrt(share * (1 - share) / count + square / (4 * count))
    # At the ends the bound is the share itself, but for rounding.
    low = 0.0 if share == 0 else max(0.0, middle - half)
    high = 1.0 if share == 1 else min(1.0, middle + half)
    return Rate(share, low, high, count)


def clustered(shares: Sequence[float], samples: int) -> Rate:
    """The mean of the trials' shares, each of so many samples.

    The samples of a trial have its damage in common, so they are not independent.  The
    interval counts as many observations as would vary as much as the trials do (Kish's
    effective sample size): at least the trials, at most all samples.
    """
    trials = len(shares)
    if trials == 1:  # of a recipe without a seed: only the samples vary
        return wilson(shares[0], samples)
    mean = sum(shares) / trials
    variance = sum((each - mean) ** 2 for each in shares) / max(1, trials - 1) / trials
    most = float(trials * samples)
    count = mean * (1 - mean) / variance if variance > 0 else float(trials)
    return wilson(mean, min(max(count, float(trials)), most))


@dataclass(frozen=True, slots=True)
class Trial:
    """One variant, run on all samples.

    Attributes:
        seed: of the recipe; nothing where it takes none.
        changed: samples whose prediction is another than without the recipe.
        correct: samples whose prediction is the label; nothing without labels.
        invalid: samples with an infinity or a NaN among the outputs.
    """

    seed: int | None
    changed: int
    correct: int | None
    invalid: int


@dataclass(frozen=True, slots=True)
class Cell:
    """The trials with one set of parameters.

    Attributes:
        parameters: of the recipe, but for the seed.
        layer: the tensor or layer that alone was hit; empty where all were.
        samples: of each trial.
        trials: in the order of their seeds.
    """

    parameters: Mapping[str, str]
    layer: str
    samples: int
    trials: tuple[Trial, ...]

    @property
    def changed(self) -> Rate:
        """The share of predictions that changed."""
        return clustered([each.changed / self.samples for each in self.trials], self.samples)

    @property
    def hit(self) -> Rate:
        """The share of trials in which at least one prediction changed; says little of one."""
        return wilson(sum(each.changed > 0 for each in self.trials) / len(self.trials), len(self))

    @property
    def accuracy(self) -> Rate | None:
        """The share of predictions that were right."""
        found = [each.correct for each in self.trials if each.correct is not None]
        if not found:
            return None
        return clustered([each / self.samples for each in found], self.samples)

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def text(self) -> str:
        """The parameters as they are typed."""
        return " ".join(f"{name}={value}" for name, value in self.parameters.items())

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        accuracy = self.accuracy
        return {
            "parameters": dict(self.parameters),
            "layer": self.layer,
            "samples": self.samples,
            "changed": asdict(self.changed),
            "hit": asdict(self.hit),
            "accuracy": asdict(accuracy) if accuracy else None,
            "trials": [asdict(each) for each in self.trials],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Campaign(Shown):
    """What a campaign found.

    Attributes:
        network: its name; recipe: the recipe's.
        accuracy: of the network without the recipe, if there were labels.
        cells: one for each set of parameters, with all layers hit.
        layers: one for each layer and set of parameters, the most sensitive first.
        builds: networks that were compiled.
        seconds: that the trials took, without building.
    """

    network: str
    recipe: str
    accuracy: float | None
    cells: tuple[Cell, ...]
    layers: tuple[Cell, ...]
    builds: int
    seconds: float

    @property
    def trials(self) -> int:
        """How many variants were run."""
        return sum(len(each) for each in (*self.cells, *self.layers))

    @property
    def rate(self) -> float:
        """Trials in a second, without building."""
        return self.trials / self.seconds if self.seconds else 0.0

    def headings(self) -> tuple[str, ...]:
        """Of the table's columns."""
        found = ("parameters", "layer") if self.layers else ("parameters",)
        found += ("trials", "predictions changed", "trials with a change", "invalid")
        return (*found, "accuracy") if self.accuracy is not None else found

    def rows(self) -> list[tuple[str, ...]]:
        """Of the table: all layers together first, then each alone."""
        return [self._row(each) for each in (*self.cells, *self.layers)]

    def _row(self, cell: Cell) -> tuple[str, ...]:
        found = (cell.text, cell.layer or "all") if self.layers else (cell.text,)
        invalid = sum(each.invalid for each in cell.trials)
        found += (str(len(cell)), str(cell.changed), str(cell.hit), str(invalid))
        return found if self.accuracy is None else (*found, str(cell.accuracy))

    def summary(self) -> str:
        """What was done, in one line; intervals are said to be whose."""
        told = "" if self.accuracy is None else f", accuracy {self.accuracy:.2%} without it"
        return (
            f"{self.recipe} on {self.network}: {several(self.trials, 'trial')} on "
            f"{several(self.builds, 'build')}, {self.rate:,.0f} trials/s{told}; "
            f"95 % intervals (Wilson)"
        )

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        headings = self.headings()
        first = 2 if self.layers else 1
        numbers = range(first, len(headings))
        return Screen("Campaign", (("", self.summary()),), headings, self.rows(), numbers)

    def record(self) -> dict[str, object]:
        """Plain data, for JSON."""
        return {
            "network": self.network,
            "recipe": self.recipe,
            "confidence": CONFIDENCE,
            "interval": "Wilson",
            "accuracy": self.accuracy,
            "builds": self.builds,
            "seconds": self.seconds,
            "trials_per_second": self.rate,
            "cells": [each.record() for each in self.cells],
            "layers": [each.record() for each in self.layers],
        }

    def plot(self) -> str:
        """The shares of predictions that changed, with their intervals, as SVG."""
        shown = self.layers or self.cells
        several_cells = len(self.cells) > 1
        found = [
            Bar(
                " ".join(filter(None, (each.layer, each.text if several_cells else ""))),
                each.changed.value,
                each.changed.low,
                each.changed.high,
            )
            for each in shown
        ]
        only = "" if several_cells else f" {self.cells[0].text}"
        return bars(
            f"{self.recipe}{only} on {self.network}", "share of predictions that changed", found
        )
