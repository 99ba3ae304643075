"""Inputs that a network is calibrated with: read once, checked, and kept for several passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

import numpy as np

from weft.errors import UserError, nearest_or_all
from weft.ir.types import TensorType
from weft.records import dataclass

RunInputs: TypeAlias = Mapping[str, np.ndarray]
"""One run's inputs, by name."""
SampleSource: TypeAlias = (
    np.ndarray | Mapping[str, np.ndarray] | Iterable[np.ndarray | Mapping[str, np.ndarray] | Any]
)


@dataclass(frozen=True)
class CalibrationSamples:
    """Samples of a network's inputs.

    Attributes:
        inputs: one mapping for each run.
        labels: class of each, if they are known.
    """

    inputs: Sequence[RunInputs]
    labels: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[RunInputs]:
        return iter(self.inputs)

    def first(self, count: int) -> CalibrationSamples:
        """Some samples, evenly spread."""
        if count >= len(self.inputs):
            return self
        places = np.linspace(0, len(self.inputs) - 1, count).astype(int)
        labels = None if self.labels is None else self.labels[places]
        kept: list[RunInputs] = [self.inputs[place] for place in places.tolist()]
        return CalibrationSamples(kept, labels)


def collect_samples(
    source: SampleSource,
    types: Mapping[str, TensorType],
    most: int | None = None,
    labels: np.ndarray | None = None,
) -> CalibrationSamples:
    """Samples as runs of a network.

    Args:
        source: an array, or one for each input by name, with samples along the first axis; or what
            gives samples one by one: arrays, tuples in the order of the inputs, or mappings.
        types: of the inputs, all sizes known; the leading one is the batch of a run.
        most: take no more than so many runs.
        labels: class of each sample.

    Raises:
        UserError: there are none, or they do not fit the inputs.
    """
    runs: Iterable[RunInputs]
    if isinstance(source, np.ndarray | Mapping):
        runs = _runs(cast("np.ndarray | Mapping[str, np.ndarray]", source), types)
    elif isinstance(source, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        runs = (run for each in source for run in _runs(each, types))
    else:
        raise UserError(
            "quantize: samples are arrays, or what gives them one by one", got=type(source).__name__
        )
    found: list[RunInputs] = list(islice(runs, most))
    if not found:
        raise UserError("quantize: at least one sample is needed", got="none")
    if labels is not None:
        labels = np.asarray(labels).reshape(-1)
        if most is not None:
            labels = labels[: len(found)]
        if len(labels) != len(found):
            raise UserError(
                "quantize: labels must be one for each sample",
                got=f"{len(labels)} labels, {len(found)} samples",
            )
    return CalibrationSamples(found, labels)


def _runs(given: Any, types: Mapping[str, TensorType]) -> Iterator[RunInputs]:
    """The runs that an array, a tuple or a mapping of them is."""
    named = _named(given, types)
    parts = {name: _parts(name, np.asarray(array), types[name]) for name, array in named.items()}
    counts = {name: len(each) for name, each in parts.items()}
    if len(set(counts.values())) > 1:
        raise UserError(
            "quantize: all inputs must have the same number of samples",
            got=", ".join(f"{name} {count}" for name, count in counts.items()),
        )
    for place in range(next(iter(counts.values()))):
        run = {name: each[place] for name, each in parts.items()}
        for name, array in run.items():
            _check_finite(name, array)
        yield run


def _named(given: Any, types: Mapping[str, TensorType]) -> Mapping[str, Any]:
    if isinstance(given, Mapping):
        return _by_name(cast("Mapping[str, Any]", given), types)
    ordered: Sequence[Any] = (
        cast("Sequence[Any]", given) if isinstance(given, tuple | list) else [given]
    )
    if len(ordered) != len(types):
        raise UserError(
            f"quantize: a sample has an array for each input: {', '.join(types)}",
            got=f"{len(ordered)} arrays",
        )
    return dict(zip(types, ordered, strict=True))


def _by_name(given: Mapping[str, Any], types: Mapping[str, TensorType]) -> Mapping[str, Any]:
    if len(given) == len(types) == 1:
        # An array of an .npz file may have any name if there is one input.
        return dict(zip(types, given.values(), strict=True))
    for name in given:
        if name not in types:
            raise UserError(
                f"quantize: the network has no input {name}", fix=nearest_or_all(name, list(types))
            )
    missing = [name for name in types if name not in given]
    if missing:
        raise UserError(
            f"quantize: a sample has an array for each input: {', '.join(types)}",
            got=f"nothing for {', '.join(missing)}",
        )
    return {name: given[name] for name in types}


def _parts(name: str, array: np.ndarray, type: TensorType) -> Sequence[np.ndarray]:
    """An array as runs of an input."""
    dims = type.dims
    if array.dtype.kind not in "fiub":
        raise UserError(f"quantize: input {name} needs numbers", got=str(array.dtype))
    converted = array.dtype != type.dtype.numpy
    if array.shape == dims:
        parts = array[None]
    elif array.ndim == len(dims) and array.shape[1:] == dims[1:] and len(array) % dims[0] == 0:
        parts = array.reshape(-1, *dims)
    elif dims[:1] == (1,) and array.shape == dims[1:]:
        parts = array.reshape(1, *dims)
    elif array.shape[1:] == dims:
        parts = array
    else:
        raise UserError(
            f"quantize: samples of input {name} must be {type}, or several along the first axis",
            got=f"{array.dtype}{list(array.shape)}",
        )
    made = parts.astype(type.dtype.numpy) if converted else np.ascontiguousarray(parts)
    return list(made)


def _check_finite(name: str, array: np.ndarray) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError(
            f"quantize: samples of input {name} must be finite",
            got="NaN" if np.isnan(array).any() else "infinity",
        )
