"""One use of an op, to ask who could compute it: typical shapes, or those that were given."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError, nearest
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.functions import function_name, function_of
from weft.ops.record import Op
from weft.ops.trace import graph_of
from weft.ops.values import Value, input_value
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """A typical use of an op.

    Attributes:
        shapes: of the inputs.
        attributes: that are not as by default.
        weights: all inputs but the first are constants.
    """

    shapes: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    weights: bool = True


_IMAGE, _TOKENS = (1, 64, 56, 56), (1, 128, 768)
_POOL = Example((_IMAGE,), {"kernel": (3, 3), "strides": (2, 2)})
_CHANNELS = (64,)

EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        "Attention": Example(((1, 12, 128, 64),) * 3, weights=False),
        "AveragePool": _POOL,
        "BatchNormalization": Example((_IMAGE, *[_CHANNELS] * 4)),
        "Concat": Example((_IMAGE, _IMAGE), {"axis": 1}, weights=False),
        "Conv": Example((_IMAGE, (64, 64, 3, 3)), {"pads": (1, 1, 1, 1)}),
        "ConvTranspose": Example((_IMAGE, (64, 32, 2, 2)), {"strides": (2, 2)}),
        "GRU": Example(((16, 1, 64), (1, 192, 64), (1, 192, 64)), {"hidden_size": 64}),
        "Gemm": Example(((1, 512), (512, 1000))),
        "GroupNormalization": Example((_IMAGE, _CHANNELS, _CHANNELS), {"num_groups": 8}),
        "InstanceNormalization": Example((_IMAGE, _CHANNELS, _CHANNELS)),
        "LSTM": Example(((16, 1, 64), (1, 256, 64), (1, 256, 64)), {"hidden_size": 64}),
        "LayerNormalization": Example((_TOKENS, (768,), (768,))),
        "LogSoftmax": Example(((1, 12, 128, 128),)),
        "LpPool": _POOL,
        "MatMul": Example((_TOKENS, (768, 768))),
        "MaxPool": _POOL,
        "RNN": Example(((16, 1, 64), (1, 64, 64), (1, 64, 64)), {"hidden_size": 64}),
        "RMSNormalization": Example((_TOKENS, (768,))),
        "Softmax": Example(((1, 12, 128, 128),)),
        "Transpose": Example((_TOKENS,), {"perm": (0, 2, 1)}),
    }
)
"""Ops for which inputs of one shape, and attributes as by default, are no typical use."""


def op_named(name: str, ops: Mapping[str, Op]) -> Op:
    """The op of a name, whatever its case."""
    lower = {each.lower(): each for each in ops}
    found = lower.get(name.lower())
    if found is None:
        raise UserError(
            "expected an op or a model file",
            got=name,
            fix=nearest(name, ops) or "`weft ops` lists the ops.",
        )
    return ops[found]


def typical(op: Op) -> Example:
    """The example of an op: inputs of one shape unless the table knows better."""
    count = sum(2 if each.variadic else 1 for each in op.inputs if not each.optional)
    return EXAMPLES.get(op.name, Example((_IMAGE,) * count, weights=False))


def parse_attributes(texts: Sequence[str]) -> dict[str, Any]:
    """Attributes from ``key=value``; values as in Python, tuples without parentheses too."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError("attributes must be KEY=VALUE", got=text)
        try:
            found[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[key] = value
    return found


def example_graph(
    op: Op,
    dtype: DType = DType.F32,
    types: Sequence[TensorType] = (),
    attributes: Mapping[str, Any] | None = None,
) -> Graph:
    """A graph of one node.

    Args:
        op: of the node.
        dtype: of the inputs, where types are not given.
        types: of the inputs; by default typical ones.
        attributes: that are not as in the example.
    """
    example = typical(op)
    chosen = list(types) or [TensorType(dtype, shape) for shape in example.shapes]
    ports: list[Value] = []
    inputs: list[Value | np.ndarray] = []
    for place, type in enumerate(chosen):
        if place and example.weights:
            inputs.append(np.zeros(type.dims, type.dtype.numpy))
        else:
            ports.append(input_value(f"x{place}", type))
            inputs.append(ports[-1])
    given = {**({} if types else example.attributes), **(attributes or {})}
    word = function_name(op.name)
    made = function_of(op)(*inputs, **given, name=word)
    outputs = [made] if isinstance(made, Value) else list(made)
    return graph_of(ports, outputs, word)
