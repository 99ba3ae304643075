"""The rows of the tables, imported so that they enter them."""

from weft.frontends.keras import (
    activation,
    attention,
    convolution,
    core,
    legacy,
    lookup,
    merging,
    normalization,
    operations,
    pooling,
    preprocessing,
    recurrent,
    recurrent_images,
    reshaping,
    shape_operations,
)

__all__ = [
    "activation",
    "attention",
    "convolution",
    "core",
    "legacy",
    "lookup",
    "merging",
    "normalization",
    "operations",
    "pooling",
    "preprocessing",
    "recurrent",
    "recurrent_images",
    "reshaping",
    "shape_operations",
]
