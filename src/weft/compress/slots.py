"""Slots: the positions along axes of values, and which of them must go together.

Every position along every axis of every value has a label, a whole number.  Positions that an
op only hands on keep their label; those that it combines are *tied*, so that their labels
stand for one slot.  A slot that must stay is *pinned*, with the reason.  Where an op makes new
positions by multiplying with a weight, slots are *born*; where it sums over an axis, slots end
(a *cut*): what went before may then be left out as if it were zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np

from weft.records import dataclass

Labels: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
"""The labels along one axis; ``None`` stands for an axis of unknown length."""
Axes: TypeAlias = "list[Labels | None]"


@dataclass(frozen=True)
class Birth:
    """Positions that a layer makes.

    Attributes:
        node: name of the layer.
        weight: the value that it multiplies by.
        axis: of the weight, along which its slices make one position each.
        labels: along that axis.
    """

    node: str
    weight: str
    axis: int
    labels: Labels


@dataclass(frozen=True)
class SlotCut:
    """Positions that a node sums over: axis ``axis`` of its input ``position``."""

    node: str
    position: int
    axis: int
    labels: Labels


@dataclass
class Slots:
    """Labels, and what is known of them."""

    parents: list[int] = field(default_factory=list[int])
    reasons: dict[int, str] = field(default_factory=dict[int, str])
    heads: list[Labels] = field(default_factory=list["Labels"])
    births: list[Birth] = field(default_factory=list[Birth])
    cuts: list[SlotCut] = field(default_factory=list[SlotCut])
    _dead: dict[str, int] = field(default_factory=dict[str, int])

    def fresh(self, count: int) -> Labels:
        """New labels."""
        start = len(self.parents)
        self.parents.extend(range(start, start + count))
        return np.arange(start, start + count)

    def dead(self, count: int, reason: str) -> Labels:
        """Labels of positions that were never free."""
        if reason not in self._dead:
            self._dead[reason] = int(self.fresh(1)[0])
            self.reasons[self._dead[reason]] = reason
        return np.full(count, self._dead[reason])

    def find(self, label: int) -> int:
        """The label that stands for all those that are tied to one."""
        parents = self.parents
        root = label
        while parents[root] != root:
            root = parents[root]
        while parents[label] != root:
            parents[label], label = root, parents[label]
        return root

    def tie(self, one: Labels | None, other: Labels | None) -> None:
        """Let positions of two axes go together, one by one."""
        if one is None or other is None or one is other:
            return
        for left, right in zip(one.tolist(), other.tolist(), strict=True):
            if left != right:
                self.parents[self.find(left)] = self.find(right)

    def tie_rows(self, rows: np.ndarray) -> Labels:
        """Let all labels of each row go together; the first of each."""
        for row in rows.tolist():
            for label in row[1:]:
                if label != row[0]:
                    self.parents[self.find(label)] = self.find(row[0])
        return np.ascontiguousarray(rows[:, 0])

    def pin(self, labels: Labels | None, reason: str) -> None:
        """Positions that must stay."""
        if labels is not None:
            for label in set(labels.tolist()):
                self.reasons.setdefault(label, reason)

    def is_free(self, labels: Labels | None) -> bool:
        """Whether any position may go, as far as is known."""
        own: set[int] = set() if labels is None else set(labels.tolist())
        if own <= self.reasons.keys():
            return False
        pinned = {self.find(label) for label in self.reasons}
        return any(self.find(label) not in pinned for label in own)

    def roots(self) -> np.ndarray:
        """For every label the one that stands for its slot."""
        return np.fromiter((self.find(label) for label in range(len(self.parents))), np.int64)

    def pinned(self) -> dict[int, str]:
        """Why slots must stay, by the label that stands for each."""
        found: dict[int, str] = {}
        for label, reason in self.reasons.items():
            found.setdefault(self.find(label), reason)
        return found


def rows_of(labels: Labels, shape: Sequence[int], axis: int) -> np.ndarray:
    """Labels of a flattened axis as one row for each position of one of its factors."""
    grid = np.moveaxis(labels.reshape(tuple(shape)), axis, 0)
    return np.asarray(grid.reshape(shape[axis], -1))
