"""All modules with rows; importing this one fills the table."""

from weft.frontends.litert import (
    arithmetic,
    control,
    convolution,
    images,
    indexing,
    linear,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    shape,
    slicing,
)
from weft.frontends.litert.record import TABLE, Row

MODULES = (
    arithmetic,
    control,
    convolution,
    images,
    indexing,
    linear,
    normalization,
    pooling,
    quantize,
    recurrent,
    reduction,
    shape,
    slicing,
)


def table() -> dict[str, Row]:
    """Every row by the name of its builtin operator."""
    return TABLE
