"""ONNX tensors to NumPy arrays, distrusting every length and every path.

Nothing is allocated before the claimed shape was compared with the bytes that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import MappingProxyType
from weakref import WeakValueDictionary

import numpy as np
from onnx import SparseTensorProto, TensorProto

from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx.nibbles import NIBBLES, unpacked
from weft.frontends.pieces import FilePiece, OpenFile
from weft.loops.shapes import row_major

MAX_RANK = 32
MAX_BYTES = 1 << 36
"""No value of a graph is larger: what claims to be is taken for a malformed file."""

_RENAMED = {DType.F64: "DOUBLE", DType.F32: "FLOAT"}
DTYPES: Mapping[int, DType] = MappingProxyType(
    {
        TensorProto.DataType.Value(_RENAMED.get(each) or each.full_name.upper()): each
        for each in DType
    }
)
ONNX_TYPES: Mapping[DType, int] = MappingProxyType({ours: onnx for onnx, ours in DTYPES.items()})
# Where values stand that are not raw bytes.
_FIELDS: Mapping[DType, str] = MappingProxyType(
    {
        DType.F64: "double_data",
        DType.F32: "float_data",
        DType.I64: "int64_data",
        DType.U32: "uint64_data",
        DType.U64: "uint64_data",
    }
)
# Halves are stored as their bits, one in each 32-bit integer.
_BITS: Mapping[DType, np.dtype] = MappingProxyType(
    {DType.F16: np.dtype(np.uint16), DType.BF16: np.dtype(np.uint16)}
)


def check_text(*names: object) -> None:
    """Names are text: protobuf hands over bytes where a file holds something else."""
    for name in names:
        if not isinstance(name, str):
            raise UserError("onnx: names must be UTF-8", got=repr(name))


def type_name(onnx_type: int) -> str:
    """How ONNX calls an element type, for errors."""
    try:
        return TensorProto.DataType.Name(onnx_type)
    except ValueError:
        return str(onnx_type)


def dtype_of(onnx_type: int, where: str) -> DType:
    """The element type for ONNX's number of it."""
    found = DTYPES.get(onnx_type)
    if found is None:
        raise UserError(
            f"onnx: element type {type_name(onnx_type)} is not supported",
            fix=f"Supported are {', '.join(type_name(each) for each in DTYPES)}",
            where=where,
        )
    return found


def checked_shape(dims: tuple[int, ...], dtype: DType, where: str) -> tuple[int, ...]:
    """The shape, if its rank, extents and size are believable."""
    if len(dims) > MAX_RANK:
        raise UserError(
            f"onnx: a tensor has at most {MAX_RANK} axes", got=str(len(dims)), where=where
        )
    if any(dim < 0 for dim in dims):
        raise UserError("onnx: an extent must not be negative", got=str(list(dims)), where=where)
    # An extent of 0 must not hide others that no array can have.
    if prod(max(dim, 1) for dim in dims) * dtype.bytes > MAX_BYTES:
        raise UserError(
            f"onnx: a tensor has at most {MAX_BYTES >> 30} GiB",
            got=f"{dtype.value}{list(dims)}",
            where=where,
        )
    return dims


class ExternalData:
    """Files beside the model, opened once each; never outside its folder.

    Args:
        folder: where the model lies; ``None`` if it came from memory, without files.
        linked: where the file lies that the model is a symbolic link to, if it is one: its data
            may be links to files there, as in caches of downloads.
    """

    def __init__(self, folder: Path | None, linked: Path | None = None) -> None:
        self._folder = folder
        self._linked = linked
        self._files: dict[Path, OpenFile] = {}
        # What several tensors name is in memory once.
        self._read: WeakValueDictionary[FilePiece, np.ndarray] = WeakValueDictionary()

    def read(self, tensor: TensorProto, size: int, where: str) -> np.ndarray:
        """The ``size`` bytes of a tensor that is stored in another file."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        check_text(*entries.keys(), *entries.values())
        file = self._open(self._path(entries.get("location", ""), where), where)
        offset = _number(entries, "offset", 0, where)
        length = _number(entries, "length", size, where)
        if length != size:
            raise UserError(
                f"onnx: external data of {tensor.name} must have {size} bytes for its shape",
                got=f"length {length}",
                where=where,
            )
        if offset + length > file.size:
            raise UserError(
                f"onnx: external data of {tensor.name} lies past the end of its file",
                got=f"offset {offset}, length {length}, file of {file.size} bytes",
                where=where,
            )
        piece = FilePiece(file, offset, length)
        found = self._read.get(piece)
        if found is None:
            found = self._read[piece] = piece.read()
        return found

    def _path(self, location: str, where: str) -> Path:
        if self._folder is None:
            raise UserError(
                "onnx: external data needs the folder of the model",
                fix="Load the model from its file",
                where=where,
            )
        foreign = PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive
        if not location or "\0" in location or foreign or ".." in Path(location).parts:
            raise _outside(location, where)
        root = self._folder.resolve()
        try:
            path = (root / location).resolve()
        except (OSError, RuntimeError) as error:
            raise _outside(location, where) from error
        allowed = [root] if self._linked is None else [root, self._linked.resolve()]
        if not any(path.is_relative_to(each) for each in allowed):
            raise _outside(location, where)
        return path

    def _open(self, path: Path, where: str) -> OpenFile:
        if path not in self._files:
            try:
                if not path.is_file():
                    raise FileNotFoundError("no such file")
                self._files[path] = OpenFile(path)
            except OSError as error:
                raise UserError(
                    f"onnx: external data {path.name} cannot be read", got=str(error), where=where
                ) from error
        return self._files[path]


def _outside(location: str, where: str) -> UserError:
    return UserError(
        "onnx: external data must lie in the folder of the model",
        got=f"location {location!r}",
        where=where,
    )


def _number(entries: Mapping[str, str], key: str, default: int, where: str) -> int:
    text = entries.get(key, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UserError(
            f"onnx: {key} of external data must be a number", got=repr(text), where=where
        )
    return int(text)


def array_of(
    tensor: TensorProto, external: ExternalData, raw: FilePiece | None = None
) -> np.ndarray:
    """The values of a tensor, not writable.

    Args:
        tensor: the tensor.
        external: where external data are found.
        raw: where its raw bytes lie, if they were left out of it.
    """
    where = f"tensor {tensor.name}" if tensor.name else ""
    nibbles = NIBBLES.get(tensor.data_type)
    dtype = nibbles or dtype_of(tensor.data_type, where)
    shape = checked_shape(tuple(tensor.dims), dtype, where)
    if tensor.HasField("segment"):
        raise UserError("onnx: segmented tensors are not supported", where=where)
    count = prod(shape)
    if nibbles is None:
        array = _flat(tensor, external, raw, dtype, count, where).reshape(shape)
    else:
        pairs = _flat(tensor, external, raw, DType.U8, (count + 1) // 2, where)
        array = unpacked(pairs, count, nibbles).reshape(shape)
    array.flags.writeable = False
    return array


def _flat(
    tensor: TensorProto,
    external: ExternalData,
    raw: FilePiece | None,
    dtype: DType,
    count: int,
    where: str,
) -> np.ndarray:
    """So many values of a tensor, in order."""
    if tensor.data_location == TensorProto.EXTERNAL:
        return _from_raw(external.read(tensor, count * dtype.bytes, where), dtype, count, where)
    if raw is not None:
        _check_size(raw.size, dtype, count, where)
        return _from_raw(raw.read(), dtype, count, where)
    if tensor.HasField("raw_data"):
        return _from_raw(tensor.raw_data, dtype, count, where)
    return _from_field(tensor, dtype, count, where)


def _little(dtype: DType) -> np.dtype:
    return dtype.numpy.newbyteorder("<") if dtype is not DType.BF16 else dtype.numpy


def _from_raw(raw: bytes | np.ndarray, dtype: DType, count: int, where: str) -> np.ndarray:
    _check_size(len(raw), dtype, count, where)
    if dtype is DType.BOOL:
        # Any non-zero byte is true; NumPy takes only 1 for it.
        return np.frombuffer(raw, np.uint8) != 0
    return np.frombuffer(raw, _little(dtype))


def _check_size(size: int, dtype: DType, count: int, where: str) -> None:
    if size != count * dtype.bytes:
        raise _mismatch(f"{size} bytes", f"{count * dtype.bytes} bytes", where)


def _from_field(tensor: TensorProto, dtype: DType, count: int, where: str) -> np.ndarray:
    field = getattr(tensor, _FIELDS.get(dtype, "int32_data"))
    if len(field) != count:
        raise _mismatch(f"{len(field)} values", f"{count} values", where)
    if dtype in (DType.F32, DType.F64, DType.I64, DType.U64):
        return np.fromiter(field, dtype.numpy, count)
    wide = np.fromiter(field, np.uint64 if dtype is DType.U32 else np.int32, count)
    bits = _BITS.get(dtype)
    return wide.astype(bits).view(dtype.numpy) if bits else wide.astype(dtype.numpy)


def _mismatch(got: str, wanted: str, where: str) -> UserError:
    return UserError(f"onnx: the shape of the tensor needs {wanted}", got=got, where=where)


def dense_of(sparse: SparseTensorProto, external: ExternalData, limit: int) -> np.ndarray:
    """The dense array for a sparse tensor.

    Args:
        sparse: values and where they stand.
        external: where external data are found.
        limit: largest size of the result in bytes, as it is made up of zeros.
    """
    values = array_of(sparse.values, external)
    where = f"sparse tensor {sparse.values.name}"
    dtype = DType.of(values.dtype)
    shape = checked_shape(tuple(sparse.dims), dtype, where)
    places = array_of(sparse.indices, external)
    size = prod(shape)
    if size * dtype.bytes > limit:
        raise UserError(
            "onnx: a sparse tensor must not be larger than 64 times its values and 1 MiB",
            got=f"{dtype.value}{list(shape)} of {len(values)} values",
            where=where,
        )
    if places.dtype != np.int64 or values.ndim != 1 or places.shape[:1] != values.shape:
        raise UserError("onnx: indices of a sparse tensor must match its values", where=where)
    if places.ndim == 2 and places.shape[1] == len(shape):
        inside = ((places >= 0) & (places < np.array(shape))).all()
        flat = (places * np.array(row_major(shape))).sum(1)
    else:
        inside = places.ndim == 1 and ((places >= 0) & (places < size)).all()
        flat = places
    if not inside:
        raise UserError("onnx: indices of a sparse tensor must lie inside its shape", where=where)
    dense = np.zeros(size, values.dtype)
    dense[flat] = values
    dense = dense.reshape(shape)
    dense.flags.writeable = False
    return dense
