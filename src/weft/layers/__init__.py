"""Layers with weights, and how layers are put together."""

from weft.layers.combine import Block, parallel, residual, sequential
from weft.layers.convolution import Conv, ConvTranspose
from weft.layers.dense import Embedding, Linear
from weft.layers.normalization import BatchNorm, GroupNorm, LayerNorm
from weft.layers.pooling import AveragePool, Flatten, GlobalAveragePool, MaxPool

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
