"""Read and write the safetensors format, bfloat16 included, without copies of the weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import IO, Any, cast

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError

_NAMES = {dtype: dtype.value.upper() for dtype in DType}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_RESERVED = "__metadata__"
_ALIGNMENT = 8


def write_tensors(tensors: Mapping[str, np.ndarray], file: IO[bytes]) -> None:
    """Write arrays; the widest elements come first, so that all are aligned."""
    if _RESERVED in tensors:
        raise UserError(f"a constant in a file cannot be named {_RESERVED}", fix="Rename it.")
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    header: dict[str, Any] = {}
    offset = 0
    for name, array in ordered:
        header[name] = {
            "dtype": _NAMES[DType.of(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for _, array in ordered:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def read_tensors(data: bytes) -> dict[str, np.ndarray]:
    """The arrays in the bytes of a file: read-only views.

    Raises:
        ValueError: if the header is not sound.
    """
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("the header of the weights is longer than the weights")
    try:
        header = json.loads(data[8 : 8 + length])
    except RecursionError:
        raise ValueError("the header of the weights is nested too deeply") from None
    if not isinstance(header, dict):
        raise ValueError("the header of the weights is not an object")
    entries = cast(dict[str, Any], header)
    return {
        name: _tensor(data, 8 + length, name, entry)
        for name, entry in entries.items()
        if name != _RESERVED
    }


def _tensor(data: bytes, start: int, name: str, entry: Any) -> np.ndarray:
    try:
        dtype = _DTYPES[entry["dtype"]]
        shape = [_size(dim) for dim in entry["shape"]]
        begin, end = (_size(offset) for offset in entry["data_offsets"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"the weights' entry of {name[:60]} is not sound") from None
    if end - begin != prod(shape) * dtype.bytes or start + end > len(data):
        raise ValueError(f"the weights' entry of {name[:60]} does not fit its data")
    found = np.frombuffer(data, np.uint8, end - begin, start + begin)
    if dtype is DType.BOOL and found.size and found.max() > 1:
        raise ValueError(f"{name[:60]} holds bytes that are not bool")
    return found.view(dtype.numpy).reshape(shape)


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value
