"""Integers of 4 bits: two in a byte of an ONNX file, one in each byte of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
from onnx import TensorProto

from weft.dtypes import DType
from weft.ir.graph import Graph, Node

NIBBLES: Mapping[int, DType] = MappingProxyType(
    {TensorProto.INT4: DType.I8, TensorProto.UINT4: DType.U8}
)
"""Types of 4 bits, as the types that constants of them become."""


def packed(array: np.ndarray) -> bytes:
    """Integers of 4 bits, two in a byte, the first in the low half."""
    flat = array.reshape(-1).astype(np.uint8) & 15
    flat = np.pad(flat, (0, flat.size % 2))
    return (flat[::2] | flat[1::2] << 4).tobytes()


def unpacked(pairs: np.ndarray, count: int, dtype: DType) -> np.ndarray:
    """So many integers of a type of 8 bits."""
    halves = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[:count]
    if dtype is DType.U8:
        return halves
    return (halves.astype(np.int8) ^ np.int8(8)) - np.int8(8)


def narrow_weights(graph: Graph, nodes: Iterable[Node]) -> frozenset[str]:
    """Bytes with a sign that 4 bits hold, and that only DequantizeLinear reads, as its data.

    Args:
        graph: the graph.
        nodes: all of it, those of bodies too.
    """
    read: set[str] = set()
    others = set(graph.outputs)
    for node in nodes:
        read.update(node.inputs)
        alone = node.op == "DequantizeLinear" and not any(node.inputs[2:])
        others.update(node.inputs[1:] if alone else node.inputs)
    held = {
        name
        for name, array in graph.constants.items()
        if array.dtype == np.int8 and ((array >= -8) & (array <= 7)).all()
    }
    return frozenset((held & read) - others)
