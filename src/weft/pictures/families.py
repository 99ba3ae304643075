"""Kinds of ops and their colours in pictures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from weft.ops import (
    activation,
    along,
    arithmetic,
    channels_last,
    convolution,
    counted,
    deformable,
    generation,
    global_pooling,
    indexing,
    integer,
    linear,
    logic,
    loss,
    normalization,
    ordering,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    regions,
    resampling,
    response,
    rotary,
    sampling,
    scatter,
    selection,
    signal,
    slicing,
    suppression,
)
from weft.ops.attention import OPS as ATTENTION
from weft.ops.cast import OPS as CAST
from weft.ops.record import Op
from weft.ops.shape import OPS as SHAPE
from weft.ops.softmax import OPS as SOFTMAX

OTHER: Final = "other"
INPUT: Final = "input"
OUTPUT: Final = "output"

KINDS: Mapping[str, tuple[Op, ...]] = MappingProxyType(
    {
        "convolution": (*convolution.OPS, *deformable.OPS, *channels_last.OPS),
        "matrix product": (*linear.OPS, *ATTENTION),
        "activation": (*activation.OPS, *SOFTMAX),
        "arithmetic": (*arithmetic.OPS, *logic.OPS),
        "normalization": (*normalization.OPS, *response.OPS),
        "pooling": (*pooling.OPS, *global_pooling.OPS, *regions.OPS),
        "reduction": (*reduction.OPS, *along.OPS, *selection.OPS, *counted.OPS, *suppression.OPS),
        "shape": (*SHAPE, *ordering.OPS),
        "slices": (*slicing.OPS, *indexing.OPS, *scatter.OPS, *padding.OPS),
        "integers": (*CAST, *quantization.OPS, *integer.OPS),
        "recurrence": (*recurrent.OPS,),
        "sampling": (*resampling.OPS, *sampling.OPS),
        "signal": (*signal.OPS, *generation.OPS, *rotary.OPS, *loss.OPS),
    }
)
"""The families of the op table, a few to a colour; ops of no family are ``other``."""

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

_KIND_OF: Mapping[str, str] = {op.name: kind for kind, ops in KINDS.items() for op in ops}


def kind_of(op: str) -> str:
    """What a node of an op is coloured by."""
    return _KIND_OF.get(op, OTHER)
