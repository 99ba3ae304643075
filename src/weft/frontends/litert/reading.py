"""LiteRT files to records, through the schema's classes.

Offsets and lengths in a file are not to be trusted: every read is bounded by the file, the
number of records by its size, and whatever the schema's classes raise becomes a ``UserError``.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weft.deferred import installed
from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.litert.model import (
    ModelInfo,
    OperatorInfo,
    Quantization,
    Signature,
    SubgraphInfo,
    TensorInfo,
)

IDENTIFIER = b"TFL3"
MAX_RANK = 16
MAX_BYTES = 1 << 40
_MOST = 1 << 31  # bytes that offsets of 32 bits reach


class NoModelError(UserError):
    """A file that is not LiteRT's."""


_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError, AttributeError)

DTYPES: dict[str, DType] = {
    "FLOAT32": DType.F32,
    "FLOAT16": DType.F16,
    "FLOAT64": DType.F64,
    "BFLOAT16": DType.BF16,
    "INT4": DType.I8,
    "INT8": DType.I8,
    "INT16": DType.I16,
    "INT32": DType.I32,
    "INT64": DType.I64,
    "UINT8": DType.U8,
    "UINT16": DType.U16,
    "UINT32": DType.U32,
    "UINT64": DType.U64,
    "BOOL": DType.BOOL,
}


@contextmanager
def undamaged() -> Generator[None]:
    """Says of whatever the schema's classes raise that the file is damaged."""
    try:
        yield
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError("litert: the file is damaged", got=str(error)[:200]) from error


def schema() -> Any:
    """The package with the schema's classes."""
    if not installed("tflite"):
        raise UserError(
            "LiteRT files need the package tflite",
            got="no such package",
            fix="pip install weft[litert]",
        )
    return importlib.import_module("tflite")


def names_of(enumeration: type) -> dict[int, str]:
    """The names of an enumeration of the schema by number."""
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def read_bytes(path: Path) -> bytes:
    """The bytes of a file that claims to be LiteRT's."""
    try:
        if path.stat().st_size > _MOST:
            raise UserError(
                "litert: a file has at most 2 GiB", got=f"{path.stat().st_size:,} bytes"
            )
        content = path.read_bytes()
    except OSError as error:
        raise UserError(
            "litert: the file cannot be read",
            got=error.strerror or str(error),
            where=f"file {path.name}",
        ) from None
    if content[4:8] != IDENTIFIER:
        raise NoModelError(
            "litert: a file must have the identifier TFL3 at byte 4",
            got=repr(content[4:8]),
            where=f"file {path.name}",
        )
    return content


def parse(content: bytes) -> ModelInfo:
    """The records of a file's bytes.

    Raises:
        UserError: the file is damaged.
    """
    return _Reader(content).model()


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.schema = schema()
        self.content = content
        # A record takes 8 bytes at least, with the offset that leads to it.
        self.left = len(content) // 4 + 64
        self.kinds = names_of(self.schema.TensorType)
        self.builtins = names_of(self.schema.BuiltinOperator)
        self.unions = (names_of(self.schema.BuiltinOptions), names_of(self.schema.BuiltinOptions2))
        self.buffers: dict[int, np.ndarray | None] = {}

    def model(self) -> ModelInfo:
        with undamaged():
            file = self.schema.Model.GetRootAs(self.content, 0)
            if file.Version() != 3:
                raise UserError("litert: version 3 of the format is supported", got=file.Version())
            codes = [self.code(each) for each in self.listed(file, "OperatorCodes")]
            buffers = list(self.listed(file, "Buffers"))
            subgraphs = tuple(
                self.subgraph(index, each, codes, buffers)
                for index, each in enumerate(self.listed(file, "Subgraphs"))
            )
            if not subgraphs:
                raise UserError("litert: the file holds no graph")
            signatures = tuple(
                self.signature(each, subgraphs) for each in self.listed(file, "SignatureDefs")
            )
            metadata = tuple(self.text(each.Name()) for each in self.listed(file, "Metadata"))
            description = self.text(file.Description())
        return ModelInfo(description, subgraphs, signatures, metadata, len(self.content))

    def listed(self, owner: Any, field: str) -> Iterator[Any]:
        """The tables of a vector."""
        count = getattr(owner, f"{field}Length")()
        self.spend(count)
        get = getattr(owner, field)
        for place in range(count):
            yield get(place)

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise UserError("litert: the file is damaged", got="more records than its bytes hold")

    def numbers(self, owner: Any, field: str) -> np.ndarray:
        """The elements of a vector of numbers."""
        if getattr(owner, f"{field}IsNone")():
            return np.zeros(0, np.int64)
        found = getattr(owner, f"{field}AsNumpy")()
        self.spend(len(found) // 2)
        return np.asarray(found)

    def integers(self, owner: Any, field: str) -> tuple[int, ...]:
        return tuple(int(each) for each in self.numbers(owner, field))

    def text(self, found: bytes | None) -> str:
        return (found or b"").decode("utf-8", "replace").replace("\0", "")

    # --- parts ----------------------------------------------------------------------------

    def code(self, found: Any) -> tuple[str, bool, int]:
        """An operator's name, whether it is a custom one, and its version."""
        number = max(found.BuiltinCode(), found.DeprecatedBuiltinCode())
        name = self.builtins.get(number, f"OPERATOR_{number}")
        if name == "CUSTOM":
            return self.text(found.CustomCode()) or "CUSTOM", True, found.Version()
        return name, False, found.Version()

    def subgraph(
        self, index: int, found: Any, codes: list[tuple[str, bool, int]], buffers: list[Any]
    ) -> SubgraphInfo:
        tensors = tuple(
            self.tensor(place, each, buffers)
            for place, each in enumerate(self.listed(found, "Tensors"))
        )

        def indices(owner: Any, field: str, absent: bool = False) -> tuple[int, ...]:
            numbers = self.integers(owner, field)
            for each in numbers:
                if not (0 <= each < len(tensors) or (absent and each == -1)):
                    raise UserError(
                        "litert: an index of a tensor must exist",
                        got=f"{each} of {len(tensors)}",
                        where=f"subgraph {index}",
                    )
            return numbers

        operators: list[OperatorInfo] = []
        for place, each in enumerate(self.listed(found, "Operators")):
            number = int(each.OpcodeIndex())
            if number >= len(codes):
                raise UserError(
                    "litert: an operator must have a code",
                    got=f"{number} of {len(codes)}",
                    where=f"subgraph {index}, operator {place}",
                )
            name, custom, version = codes[number]
            operators.append(
                OperatorInfo(
                    place,
                    name,
                    custom,
                    version,
                    indices(each, "Inputs", absent=True),
                    indices(each, "Outputs"),
                    self.options(each),
                    indices(each, "Intermediates"),
                )
            )
        return SubgraphInfo(
            index,
            self.text(found.Name()),
            tensors,
            indices(found, "Inputs"),
            indices(found, "Outputs"),
            tuple(operators),
        )

    def options(self, operator: Any) -> Any:
        """The object of the schema for an operator's options."""
        for names, kind, table in (
            (self.unions[0], operator.BuiltinOptionsType(), operator.BuiltinOptions()),
            (self.unions[1], operator.BuiltinOptions2Type(), operator.BuiltinOptions2()),
        ):
            made: Callable[[], Any] | None = getattr(self.schema, names.get(kind, ""), None)
            if kind and made is not None and table is not None:
                found = made()
                found.Init(table.Bytes, table.Pos)
                return found
        return None

    def tensor(self, index: int, found: Any, buffers: list[Any]) -> TensorInfo:
        name = self.text(found.Name())
        where = f"tensor {index}, {name[:80]}"
        kind = self.kinds.get(found.Type(), f"TYPE_{found.Type()}")
        dtype = DTYPES.get(kind)
        shape = _checked(self.integers(found, "Shape"), dtype, where)
        signature = self.integers(found, "ShapeSignature")
        if len(signature) != len(shape) or any(each < -1 for each in signature):
            signature = shape
        if found.Buffer() >= max(1, len(buffers)):
            raise UserError(
                "litert: a tensor's buffer must exist",
                got=f"{found.Buffer()} of {len(buffers)}",
                where=where,
            )
        return TensorInfo(
            index,
            name,
            kind,
            dtype,
            shape,
            signature,
            self.quantization(found.Quantization(), kind, shape, where),
            found.Buffer(),
            self.buffer(found.Buffer(), buffers, where),
            bool(found.IsVariable()),
            found.Sparsity() is not None,
        )

    def buffer(self, index: int, buffers: list[Any], where: str) -> np.ndarray | None:
        """The bytes of a buffer; buffer 0 is empty, and is that of computed tensors."""
        if index not in self.buffers and buffers:
            found = buffers[index]
            if found.Offset() > 1:
                begin, end = found.Offset(), found.Offset() + found.Size()
                if end > len(self.content):
                    raise UserError(
                        "litert: a buffer must lie within the file",
                        got=f"bytes {begin} to {end} of {len(self.content)}",
                        where=where,
                    )
                self.buffers[index] = np.frombuffer(self.content, np.uint8, found.Size(), begin)
            else:
                data = None if found.DataIsNone() else found.DataAsNumpy()
                self.buffers[index] = data if data is not None and len(data) else None
        return self.buffers.get(index)

    def quantization(
        self, found: Any, kind: str, shape: tuple[int, ...], where: str
    ) -> Quantization | None:
        if found is None or kind not in ("INT4", "INT8", "UINT8", "INT16", "INT32", "INT64"):
            return None
        scale = np.array(self.numbers(found, "Scale"), np.float32)
        if not scale.size:
            return None
        zero_point = np.array(self.numbers(found, "ZeroPoint"), np.int64)
        if not zero_point.size:
            zero_point = np.zeros(scale.size, np.int64)
        if zero_point.size == 1:
            zero_point = np.repeat(zero_point, scale.size)
        axis = found.QuantizedDimension()
        if scale.size == 1:
            axis = 0
        elif not 0 <= axis < len(shape) or shape[axis] != scale.size:
            raise UserError(
                "litert: there must be one scale for each position along an axis",
                got=f"{scale.size} scales along axis {axis} of {list(shape)}",
                where=where,
            )
        low, high = DTYPES[kind].limits
        sound = np.isfinite(scale).all() and (scale >= 0).all()
        if zero_point.size != scale.size or not sound:
            raise UserError("litert: scales must be finite and have zero points", where=where)
        if zero_point.min() < low or zero_point.max() > high:
            raise UserError(
                f"litert: zero points of {kind} must lie within it",
                got=f"{zero_point.min()} to {zero_point.max()}",
                where=where,
            )
        if not scale.any():
            return None
        return Quantization(scale, zero_point, axis)

    def signature(self, found: Any, subgraphs: tuple[SubgraphInfo, ...]) -> Signature:
        index = found.SubgraphIndex()
        if index >= len(subgraphs):
            raise UserError(
                "litert: a signature's subgraph must exist", got=f"{index} of {len(subgraphs)}"
            )

        def named(field: str) -> dict[int, str]:
            each = self.listed(found, field)
            return {int(entry.TensorIndex()): self.text(entry.Name()) for entry in each}

        return Signature(self.text(found.SignatureKey()), index, named("Inputs"), named("Outputs"))


def _checked(shape: tuple[int, ...], dtype: DType | None, where: str) -> tuple[int, ...]:
    if len(shape) > MAX_RANK:
        raise UserError(
            f"litert: a tensor has at most {MAX_RANK} axes", got=str(len(shape)), where=where
        )
    shape = tuple(1 if each == -1 else each for each in shape)
    if any(each < 0 for each in shape):
        raise UserError("litert: a size must not be negative", got=str(list(shape)), where=where)
    if prod(max(each, 1) for each in shape) * (dtype.bytes if dtype else 1) > MAX_BYTES:
        raise UserError(
            f"litert: a tensor has at most {MAX_BYTES >> 30} GiB", got=str(list(shape)), where=where
        )
    return shape


def elements(tensor: TensorInfo) -> np.ndarray:
    """The elements of a constant; a view of the file where its alignment allows.

    Raises:
        UserError: there are not as many bytes as the shape needs.
    """
    where = f"tensor {tensor.index}, {tensor.name[:80]}"
    if tensor.dtype is None or tensor.sparse:
        kind = "a sparse constant" if tensor.sparse else f"a constant of {tensor.kind}"
        raise UserError(f"litert: {kind} is not supported", where=where)
    data = tensor.data if tensor.data is not None else np.zeros(0, np.uint8)
    count = prod(tensor.shape)
    needed = -(-count // 2) if tensor.kind == "INT4" else count * tensor.dtype.bytes
    if data.size != needed:
        raise UserError(
            "litert: a constant must have as many bytes as its type and shape need",
            got=f"{data.size} instead of {needed} for {tensor.kind}{list(tensor.shape)}",
            where=where,
        )
    if tensor.kind == "INT4":
        pairs = np.stack([data << 4, data & 0xF0], axis=1).reshape(-1)[:count]
        return (pairs.view(np.int8) >> 4).reshape(tensor.shape)
    if tensor.kind == "BOOL":
        return (data != 0).reshape(tensor.shape)
    found = data.view(tensor.dtype.numpy).reshape(tensor.shape)
    return found if found.flags.aligned else found.copy()
