"""What a LiteRT file holds, checked and in plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.records import dataclass


@dataclass(frozen=True)
class Quantization:
    """How integers stand for numbers: ``scale * (integer - zero_point)``.

    Attributes:
        scale: one, or one for each position along the axis.
        zero_point: as many.
        axis: of the scales, if there are several.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Quantization)
            and self.scale.tobytes() == other.scale.tobytes()
            and self.zero_point.tobytes() == other.zero_point.tobytes()
            and (self.axis == other.axis or self.scale.size == 1)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class TensorInfo:
    """A tensor of a subgraph.

    Attributes:
        index: in its subgraph.
        name: as the file has it.
        kind: the element type's name in the schema: ``INT4``, ``RESOURCE``.
        dtype: the element type in Weft; ``None`` for those without one.
        shape: its sizes.
        signature: sizes with -1 for those that are open; ``shape`` if nothing is open.
        quantization: what integers mean; ``None`` for plain numbers.
        buffer: index of the buffer with its elements.
        data: the elements' bytes; ``None`` if they are computed.
        variable: whether it keeps its value from run to run.
        sparse: whether the elements are stored in a sparse format.
    """

    index: int
    name: str
    kind: str
    dtype: DType | None
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    quantization: Quantization | None
    buffer: int
    data: np.ndarray | None
    variable: bool = False
    sparse: bool = False


@dataclass(frozen=True, eq=False)
class OperatorInfo:
    """A use of an operator.

    Attributes:
        index: in its subgraph.
        name: of the operator in the schema, ``CONV_2D``; of a custom one its own.
        custom: whether it is none of LiteRT's.
        version: of the operator.
        inputs: indices of tensors, -1 where absent.
        outputs: indices of tensors.
        options: the schema's object for its options; ``None`` if it has none.
        intermediates: indices of tensors that say how values inside of it are quantized.
    """

    index: int
    name: str
    custom: bool
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class SubgraphInfo:
    """A graph of the file; the first one is the model, others are called by it."""

    index: int
    name: str
    tensors: tuple[TensorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorInfo, ...]


@dataclass(frozen=True)
class Signature:
    """A function that a file offers: names of inputs and outputs of a subgraph."""

    key: str
    subgraph: int
    inputs: Mapping[int, str] = field(default_factory=dict[int, str])
    outputs: Mapping[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, eq=False)
class ModelInfo:
    """A file.

    Attributes:
        description: what the file says about itself.
        subgraphs: its graphs.
        signatures: its functions.
        metadata: names of the metadata in it.
        size: bytes of the file.
    """

    description: str
    subgraphs: tuple[SubgraphInfo, ...]
    signatures: tuple[Signature, ...]
    metadata: tuple[str, ...]
    size: int
