"""Golden data: inputs, the outputs that they must give, and how far off those may be."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from weft.dtypes import DType
from weft.records import dataclass

# Relative to the range of an output; what a 32-bit float network may lose to another order
# of summation, and what coarser types lose to their own rounding.
_RELATIVE = {DType.F64: 1e-9, DType.F32: 1e-4, DType.F16: 2e-2, DType.BF16: 1e-1}
STORED = {"bfloat16": 5e-2, "float16": 1e-2}
"""The same where values between layers are stored in less: some units in the last place, grown."""
_QUANTIZED = (DType.I8, DType.U8, DType.I16, DType.U16)


@dataclass(frozen=True)
class TestVector:
    """One array of golden data.

    Attributes:
        array: the data.
        tolerance: how far an element may be off.
    """

    array: np.ndarray
    tolerance: float = 0.0


@dataclass(frozen=True)
class Golden:
    """Inputs and outputs of one run, or of several that hand on state.

    Attributes:
        inputs: one for each port; with several runs, they lie one after the other.
        outputs: likewise.
        runs: how many there are.
    """

    inputs: tuple[TestVector, ...]
    outputs: tuple[TestVector, ...]
    runs: int = 1

    @property
    def first_inputs(self) -> tuple[np.ndarray, ...]:
        """The inputs of the first run."""
        return tuple(each.array if self.runs == 1 else each.array[0] for each in self.inputs)


def golden(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    precision: str = "",
    inexact: Container[int] = (),
) -> Golden:
    """Golden data with the tolerances that the outputs' types and the precision deserve.

    Args:
        inputs: of a run.
        outputs: of the same run.
        precision: of the values between layers, an option of builds.
        inexact: places of outputs that depend on how floats are added.
    """
    return Golden(
        tuple(TestVector(np.ascontiguousarray(each)) for each in inputs),
        tuple(
            TestVector(np.ascontiguousarray(each), tolerance(each, precision, place in inexact))
            for place, each in enumerate(outputs)
        ),
    )


def golden_runs(
    inputs: Sequence[Sequence[np.ndarray]],
    outputs: Sequence[Sequence[np.ndarray]],
    precision: str = "",
    inexact: Container[int] = (),
) -> Golden:
    """Golden data of several runs in a row, each with its inputs and outputs."""

    def stacked(runs: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        return [np.stack(arrays) for arrays in zip(*runs, strict=True)]

    return replace(golden(stacked(inputs), stacked(outputs), precision, inexact), runs=len(inputs))


def tolerance(output: np.ndarray, precision: str = "", inexact: bool = False) -> float:
    """How far an output may be off: nothing for integers, part of the range for floats.

    Quantized numbers may be one step off where the floats that they were rounded from are inexact.

    Args:
        output: as it should be.
        precision: of the values between layers, an option of builds.
        inexact: whether it depends on how floats are added (``inexact_values``).
    """
    dtype = DType.of(output.dtype)
    if not dtype.is_float:
        return 1.0 if inexact and dtype in _QUANTIZED else 0.0
    finite = output[np.isfinite(output)].astype(np.float64)
    spread = float(finite.max() - finite.min()) if finite.size else 0.0
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    return max(_RELATIVE[dtype], STORED.get(precision, 0.0)) * max(spread, largest, 1e-6)


def sample_inputs(
    ports: Sequence[tuple[DType, tuple[int, ...]]], seed: int = 0
) -> list[np.ndarray]:
    """Inputs to make golden data from where the user gives none."""
    random = np.random.default_rng(seed)
    found: list[np.ndarray] = []
    for dtype, shape in ports:
        if dtype.is_float:
            found.append(random.normal(0, 1, shape).astype(dtype.numpy))
        elif dtype is DType.BOOL:
            found.append(random.integers(0, 2, shape).astype(np.bool_))
        else:
            low, high = dtype.limits
            values = random.integers(max(low, -128), min(high, 127), shape, endpoint=True)
            found.append(values.astype(dtype.numpy))
    return found
