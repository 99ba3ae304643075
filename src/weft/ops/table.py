"""The op table: every op that Weft knows, one record each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from weft.errors import InternalError
from weft.ops import (
    activation,
    along,
    arithmetic,
    control,
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
from weft.plugins import Kind, Table, Unusable
