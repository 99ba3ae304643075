"""Data sets: samples by name, with what a network should say of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from weft.errors import UserError, fault, is_weft, nearest_or_all
from weft.plugins import Kind, Table, Unusable
from weft.records import dataclass

Sample: TypeAlias = tuple[tuple[np.ndarray, ...], np.ndarray | int | None]
"""The inputs of a network for one sample, without a batch, and the label, if it is known."""


@dataclass(frozen=True)
class DataSet:
    """Samples that networks are measured, calibrated or trained with.

    Attributes:
        doc: one sentence: what they are, how many, where they come from.
        samples: gives them, always the same in the same order; reads what it needs when it is
            called, and ``UserError`` says what is missing.
        classes: names of the labels, if these are classes.
    """

    doc: str
    samples: Callable[[], Iterable[Sample]]
    classes: tuple[str, ...] = ()


def _digits() -> Iterator[Sample]:
    try:
        found: Any = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise UserError(
            "the data set digits needs scikit-learn",
            got=str(error),
            fix="Install it: pip install 'weft[demo]'",
        ) from error
    pixels, labels = found.load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    for image, label in zip(images, labels, strict=True):
        yield (image,), int(label)


def _accept(_: str, part: object) -> DataSet:
    if not isinstance(part, DataSet):
        raise Unusable(f"it must be a DataSet of weft.datasets, but is {type(part).__name__}")
    return part


DATASETS: Table[DataSet] = Table(
    Kind.DATASETS,
    {
        "digits": DataSet(
            "1797 written digits of 8 x 8 points in 0..1, from scikit-learn.",
            _digits,
            tuple("0123456789"),
        )
    },
    _accept,
)
"""Every data set by name."""


def data_set(name: str) -> DataSet:
    """The data set of a name.

    Raises:
        UserError: there is none; names the nearest.
    """
    found = DATASETS.get(name)
    if found is None:
        raise UserError(
            "unknown data set",
            got=name,
            fix=DATASETS.why_missing(name) or nearest_or_all(name, DATASETS),
        )
    return found


def _rows(data: DataSet, most: int | None) -> list[Sample]:
    """The samples; faults of a function that is not Weft's are told as its own."""
    try:
        rows = list(islice(data.samples(), most))
        for inputs, _ in rows:
            if not all(isinstance(each, np.ndarray) for each in inputs):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError("a sample is a tuple of arrays and a label, or none")
        return rows
    except UserError:
        raise
    except Exception as error:
        if is_weft(data.samples):
            raise
        raise fault("data set: `samples`", data.samples, error) from error


def gather(data: DataSet, most: int | None = None) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Samples along a new leading axis, one array for each input, and their labels.

    Args:
        data: the data set.
        most: how many to take at the most; all if not given.

    Raises:
        UserError: there are no samples, or they are not alike.
    """
    rows = _rows(data, most)
    if not rows:
        raise UserError("a data set must have samples", got="none")
    shapes = {tuple((each.shape, each.dtype.name) for each in inputs) for inputs, _ in rows}
    if len(shapes) > 1:
        raise UserError(
            "the samples of a data set must have the same shapes and types",
            got=" and ".join(str(shape) for shape in sorted(shapes)[:2]),
        )
    columns = zip(*(inputs for inputs, _ in rows), strict=True)
    labels = [label for _, label in rows if label is not None]
    if labels and len(labels) < len(rows):
        raise UserError("all samples of a data set must have labels, or none")
    return tuple(np.stack(column) for column in columns), np.array(labels)
