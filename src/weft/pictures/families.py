"""Kinds of ops and their colours in pictures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from weft.ir.graph import Node
from weft.ir.types import TensorType
from weft.ops.axis_relations import is_elementwise, is_layer, moves, sums
from weft.ops.evaluate import call_of
from weft.ops.record import Call
from weft.ops.table import FAMILIES, OPS

OTHER: Final = "other"
INPUT: Final = "input"
OUTPUT: Final = "output"

KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "convolution": ("convolution", "deformable", "channels_last"),
        "matrix product": ("linear", "attention"),
        "activation": ("activation", "softmax"),
        "arithmetic": ("arithmetic", "special", "logic"),
        "normalization": ("normalization", "response"),
        "pooling": ("pooling", "global_pooling", "regions"),
        "reduction": ("reduction", "along", "selection", "counted", "suppression"),
        "shape": ("shape", "ordering"),
        "slices": ("slicing", "indexing", "scatter", "padding"),
        "integers": (
            *("cast", "quantization", "requantization", "dynamic", "integer"),
            *("fixed_point", "integer16"),
        ),
        "recurrence": ("recurrent", "lstm_cell"),
        "sampling": ("resampling", "sampling"),
        "signal": ("signal", "fourier", "framing", "generation", "rotary", "loss"),
    }
)
"""The families of the op table, a few to a colour; ops of plugins have that of what they do."""

# Tints on which black text reads well; neighbours in a network are far apart in hue.
FILLS: Mapping[str, str] = MappingProxyType(
    {
        "convolution": "#a6d8f4",
        "matrix product": "#80b9d9",
        "activation": "#f3cf80",
        "arithmetic": "#80cfb9",
        "normalization": "#f8f2a1",
        "pooling": "#e6bcd3",
        "reduction": "#eaaf80",
        "shape": "#d9d9d9",
        "slices": "#c9c2e3",
        "integers": "#f4b6b6",
        "recurrence": "#b5dd8b",
        "sampling": "#c3e6e8",
        "signal": "#e3d3b0",
        OTHER: "#eeeeee",
        INPUT: "#ffffff",
        OUTPUT: "#ffffff",
    }
)

# Loops lie within one another, so these are light.
ROLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "chosen": ("chosen alternative", "#ffffff"),
        "grid": ("grid loop", "#f6d5e5"),
        "parallel": ("parallel loop", "#cfe8d5"),
        "serial": ("serial loop", "#f4f4f4"),
        "unroll": ("unrolled loop", "#fdebc8"),
        "vector": ("vector loop", "#d3e5f7"),
        "guard": ("condition", "#eadcf4"),
    }
)
"""What rows below a box are, by role: for the legend, and their colours."""

_KIND_OF: Mapping[str, str] = {
    op.name: kind
    for kind, families in KINDS.items()
    for family in families
    for op in FAMILIES[family]
}


def kind_of(node: Node, types: Mapping[str, TensorType]) -> str:
    """What a node is coloured by: the family of its op, or what the op of a plugin does."""
    known = _KIND_OF.get(node.op)
    return known or (_derived(call_of(node, types)) if node.op in OPS else OTHER)


def _derived(call: Call) -> str:
    if is_layer(call):
        return "convolution" if len(call.type(0).shape) > 2 else "matrix product"
    if is_elementwise(call):
        return "activation" if len(call.inputs) == 1 else "arithmetic"
    if moves(call):
        return "shape"
    return "reduction" if sums(call) else OTHER
