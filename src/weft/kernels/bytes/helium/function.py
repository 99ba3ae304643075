"""Functions of one byte: tables of what a definition is for each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.dtypes import DType
from weft.kernels.writer import for_range
from weft.loops.interpret import run
from weft.loops.nodes import Access, Buffer, Expr, Kernel, Load, Store, Var
from weft.loops.walk import dtype_of, free_vars, loads, map_expr, reduces

_I8 = DType.I8
_BYTES = 256


def byte_table(
    value: Expr, byte: str, constants: Mapping[str, np.ndarray] | None = None
) -> np.ndarray | None:
    """What a value is for every byte, the smallest first, if it depends on one alone.

    Args:
        value: the definition.
        byte: the buffer of the byte.
        constants: other buffers that it may read.
    """
    arrays = dict(constants or {})
    found = {load for load in loads(value) if load.buffer == byte}
    if len(found) != 1 or reduces(value):
        return None
    (load,) = found
    x = Load("x", (Var("v"),), _I8)
    moved = map_expr(value, lambda node: x if node == load else node)
    read = {each.buffer for each in loads(moved)} - {"x"}
    if load.dtype is not _I8 or set(free_vars(moved)) != {"v"} or not read <= arrays.keys():
        return None
    dtype, shape = dtype_of(value), (_BYTES,)
    params = (
        Buffer("x", _I8, shape),
        *(Buffer(name, DType.of(arrays[name].dtype), arrays[name].shape) for name in sorted(read)),
        Buffer("table", dtype, shape, Access.WRITE),
    )
    loop = for_range("v", _BYTES, (Store("table", (Var("v"),), moved),))
    low, high = (int(each) for each in _I8.limits)
    memory = {
        **{name: arrays[name].ravel() for name in read},
        "x": np.arange(low, high + 1).astype(np.int8),
        "table": np.zeros(shape, dtype.numpy),
    }
    run(Kernel("table", params, (loop,)), memory)
    return memory["table"]
