"""Running variants beside each other: on the same samples, and in turns for time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from pathlib import Path
from typing import TypeAlias

import numpy as np

from weft.errors import UserError, nearest
from weft.explore.comparison import Quality
from weft.ir.npz import read_arrays
from weft.ir.types import TensorType
from weft.records import dataclass
from weft.runtime.compare import compare
from weft.runtime.timing import Timer, Timing, summary

LABELS = "labels"
ROUNDS = 11
_SLICE_SECONDS = 0.002

Call: TypeAlias = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]
"""Inputs in order to outputs in order."""


@dataclass(frozen=True)
class Samples:
    """Inputs, and what they are.

    Attributes:
        arrays: for each input by name, or one under any name for networks with one input;
            samples along the first axis.
        labels: the class of each sample, if it is known.
    """

    arrays: Mapping[str, np.ndarray]
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and not _are_whole(self.labels):
            raise UserError(
                f"{LABELS} must be integers: indices into the first output",
                got=f"{self.labels.dtype} {self.labels.reshape(-1)[:1]}",
            )
        sizes = {name: len(array) for name, array in self.arrays.items() if array.ndim}
        if self.labels is not None:
            sizes[LABELS] = self.labels.size
        if len(set(sizes.values())) != 1 or min(sizes.values()) == 0:
            text = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise UserError(
                "data must have the same number of samples for all inputs, at least one",
                got=text or "none",
            )

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(next(iter(self.arrays.values())))

    def inputs(self, place: int, types: Mapping[str, TensorType], where: str) -> list[np.ndarray]:
        """One sample as the inputs of a network."""
        return [self._input(place, name, type, types, where) for name, type in types.items()]

    def _input(
        self,
        place: int,
        name: str,
        type: TensorType,
        types: Mapping[str, TensorType],
        where: str,
    ) -> np.ndarray:
        array = self.arrays.get(name)
        if array is None and len(types) == len(self.arrays) == 1:
            array = next(iter(self.arrays.values()))
        if array is None:
            raise UserError(
                f"data must have an array for each input: {', '.join(types)}",
                got=", ".join(self.arrays),
                where=where,
            )
        sample = array[place]
        if not _fits(sample.shape, type.dims):
            turned = sorted(_long(sample.shape)) == sorted(_long(type.dims))
            raise UserError(
                f"a sample of input {name} must be {type}",
                got=f"{sample.dtype}{list(sample.shape)}",
                where=where,
                fix="Transpose the axes of the data." if turned else "",
            )
        return np.asarray(sample.reshape(type.dims).astype(type.dtype.numpy), order="C")


def _are_whole(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "iub" or (
        labels.dtype.kind == "f" and bool(np.all(labels == np.floor(labels)))
    )


def _fits(sample: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether a sample has a network's sizes; those of 1 may be missing, or all be one row."""
    return _long(sample) == _long(wanted) or (len(sample) == 1 and sample[0] == prod(wanted))


def _long(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in sizes if size != 1)


def _require_all_read(samples: Samples, types: Mapping[str, Mapping[str, TensorType]]) -> None:
    """Refuse an array that is no network's input: most likely its name is misspelt."""
    known = list(dict.fromkeys(name for each in types.values() for name in each))
    if len(known) == len(samples.arrays) == 1:
        return
    for name in samples.arrays:
        if name not in known:
            raise UserError(
                f"data have an array {name}, which no network has as an input",
                got=", ".join(known),
                fix=nearest(name, [*known, LABELS]),
            )


def read_samples(path: Path) -> Samples:
    """Samples from an ``.npz``: an array for each input, and perhaps ``labels``."""
    try:
        arrays = read_arrays(path)
    except (OSError, ValueError) as error:
        raise UserError("data must be a NumPy file (.npz, .npy)", got=f"{path}: {error}") from None
    labels = arrays.pop(LABELS, None)
    if not arrays:
        raise UserError("data must have an array for each input", got=f"only {LABELS} in {path}")
    return Samples(arrays, None if labels is None else labels.reshape(-1))


def right(output: np.ndarray, label: int, where: str) -> bool:
    """Whether the greatest element is the one that it should be."""
    if not 0 <= label < output.size:
        raise UserError(
            "labels must be indices into the first output",
            got=f"{label} of {output.size}",
            where=where,
        )
    return int(output.reshape(-1).argmax()) == label


def qualities(
    calls: Mapping[str, Call],
    types: Mapping[str, Mapping[str, TensorType]],
    samples: Samples,
) -> dict[str, Quality]:
    """How good the outputs of each network are.

    Args:
        calls: the networks by name.
        types: of their inputs.
        samples: what they run on.
    """
    _require_all_read(samples, types)
    outputs: dict[str, list[list[np.ndarray]]] = {name: [] for name in calls}
    for place in range(samples.count):
        for name, call in calls.items():
            # Copies: a network may give the same memory each time.
            made = [np.array(each) for each in call(samples.inputs(place, types[name], name))]
            outputs[name].append(made)
    first = outputs[next(iter(calls))]
    return {name: _quality(name, made, first, samples.labels) for name, made in outputs.items()}


def _quality(
    name: str,
    made: Sequence[Sequence[np.ndarray]],
    first: Sequence[Sequence[np.ndarray]],
    labels: np.ndarray | None,
) -> Quality:
    """The figures of one network beside the first one's outputs, sample by sample."""
    correct = None
    if labels is not None:
        pairs = zip(made, labels.tolist(), strict=True)
        correct = sum(right(outputs[0], int(label), name) for outputs, label in pairs)
    if len(made[0]) != len(first[0]):
        return Quality(len(made), correct, inf, inf)
    found = [
        compare("", _joined(left), _joined(right))
        for left, right in zip(zip(*made, strict=True), zip(*first, strict=True), strict=True)
    ]
    largest = max((each.largest for each in found), default=0.0)
    return Quality(len(made), correct, largest, max((each.relative for each in found), default=0.0))


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """One output of all samples; leading ones and element types may differ between variants."""
    return np.stack([array.reshape(-1).astype(np.float64) for array in arrays])


def timings(timers: Mapping[str, Timer], seconds: float) -> dict[str, Timing]:
    """Times of one run each, measured in turns so that a machine's moods hit all alike.

    Args:
        timers: what to run.
        seconds: about how long all of it takes.
    """
    share = seconds / max(1, len(timers)) / ROUNDS
    runs = {name: timer.batch(max(share, _SLICE_SECONDS)) for name, timer in timers.items()}
    found: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(ROUNDS):
        for name, timer in timers.items():
            found[name] += timer.micros(runs[name], 1)
    return {name: summary(timers[name], found[name], runs[name]) for name in timers}
