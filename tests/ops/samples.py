"""Records of the op tests: good samples, bad samples and inference alone.

A family's samples stand in ``samples_<family>.py`` as ``SAMPLES``, ``BAD`` and ``TYPES``;
``test_oracle.py`` runs them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import NO_ATTRIBUTES
from weft.ir.types import Symbol, TensorType
from weft.ops.record import Call


def tensor(text: str) -> TensorType | None:
    """``f32[N,3]`` as a type; the empty string is an absent input."""
    if not text:
        return None
    dtype, dims = text.removesuffix("]").split("[")
    sizes = [size.strip() for size in dims.split(",") if size.strip()]
    return TensorType(
        DType(dtype),
        tuple(int(size) if size.isdigit() else Symbol(size) for size in sizes),
    )


def random(text: str, low: float = -3.0, high: float = 3.0, seed: int = 0) -> np.ndarray:
    """Random values of a type in ``[low, high)``, the same in every run."""
    type = tensor(text)
    assert type is not None
    source = np.random.default_rng([crc32(text.encode()), seed])
    if type.dtype is DType.BOOL:
        return source.integers(0, 2, type.dims).astype(np.bool_)
    if type.dtype.is_integer:
        least = max(int(low), type.dtype.limits[0])
        return source.integers(least, max(int(high), least + 1), type.dims).astype(type.dtype.numpy)
    return source.uniform(low, high, type.dims).astype(type.dtype.numpy)


@dataclass(frozen=True)
class Sample:
    """One use of an op that must work.

    Attributes:
        op: its name in the op table.
        inputs: arrays, or types as text (``f32[2,3]``) for random values; ``None`` or
            ``""`` where absent.
        attributes: the op's attribute record.
        tolerance: how far loops or expansion may be from the reference, relative to the
            largest finite magnitude of the output (at least 1); 0 asks for equal values.
        outputs: how many outputs are asked for.
        expected: the outputs, if known from outside (a paper, a standard, by hand).
    """

    op: str
    inputs: tuple[np.ndarray | str | None, ...]
    attributes: Any = NO_ATTRIBUTES
    tolerance: float = 0.0
    outputs: int = 1
    expected: tuple[Any, ...] = field(default=())

    @property
    def arrays(self) -> tuple[np.ndarray | None, ...]:
        """The inputs' values."""
        return tuple(
            (random(each, seed=place) if each else None) if isinstance(each, str) else each
            for place, each in enumerate(self.inputs)
        )

    @property
    def call(self) -> Call:
        """The call that this sample is."""
        types = tuple(
            None if each is None else TensorType(DType.of(each.dtype), each.shape)
            for each in self.arrays
        )
        return Call(self.op, self.attributes, types, self.outputs, "node sample")

    def __str__(self) -> str:
        inputs = ",".join(str(each) if each else "" for each in self.call.inputs)
        return f"{self.op}({inputs})"


@dataclass(frozen=True)
class Bad:
    """One use of an op that ``infer`` must refuse.

    Attributes:
        op: its name in the op table.
        inputs: types as text, ``""`` where absent.
        message: the whole text of the error.
        attributes: the op's attribute record.
        outputs: how many outputs are asked for.
    """

    op: str
    inputs: tuple[str, ...]
    message: str
    attributes: Any = NO_ATTRIBUTES
    outputs: int = 1

    @property
    def call(self) -> Call:
        """The call that this sample is; it stands at ``node bad``."""
        types = tuple(tensor(text) for text in self.inputs)
        return Call(self.op, self.attributes, types, self.outputs, "node bad")

    def __str__(self) -> str:
        return f"{self.op}({','.join(self.inputs)})"


@dataclass(frozen=True)
class Typed:
    """What ``infer`` must give, for types that no array has (symbolic sizes).

    Attributes:
        op: its name in the op table.
        inputs: types as text, ``""`` where absent.
        expected: types of the outputs as text.
        attributes: the op's attribute record.
    """

    op: str
    inputs: tuple[str, ...]
    expected: tuple[str, ...]
    attributes: Any = NO_ATTRIBUTES

    @property
    def call(self) -> Call:
        """The call that this sample is."""
        types = tuple(tensor(text) for text in self.inputs)
        return Call(self.op, self.attributes, types, len(self.expected), "node typed")

    def __str__(self) -> str:
        return f"{self.op}({','.join(self.inputs)})"
