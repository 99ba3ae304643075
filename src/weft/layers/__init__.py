"""Layers with weights, and how layers are put together."""

from weft.errors import nearest
from weft.layers.combine import Block, parallel, residual, sequential
from weft.layers.convolution import Conv, ConvTranspose
from weft.layers.dense import Embedding, Linear
from weft.layers.normalization import BatchNorm, GroupNorm, LayerNorm
from weft.layers.pooling import AveragePool, Flatten, GlobalAveragePool, MaxPool
from weft.ops.functions import FUNCTIONS

__all__ = [
    "AveragePool",
    "BatchNorm",
    "Block",
    "Conv",
    "ConvTranspose",
    "Embedding",
    "Flatten",
    "GlobalAveragePool",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "MaxPool",
    "parallel",
    "residual",
    "sequential",
]


def __getattr__(name: str) -> object:
    """Says which layer, or which op, may have been meant."""
    function = next((each for each in FUNCTIONS if each.replace("_", "") == name.lower()), "")
    meant = f"It is the function weft.ops.{function}." if function else nearest(name, __all__)
    raise AttributeError(f"weft.layers has no layer {name}. {meant}".strip())
