"""Large initializers of an ONNX file, without protobuf's copies of them.

Protobuf would hold the whole file, its own copy of every tensor, and one more for Python.
Here the bytes of large initializers are left out of what protobuf gets to see, and each is read
once, to where it is aligned.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.frontends.pieces import FilePiece, Window
from weft.records import dataclass

LEAST_BYTES = 1 << 12
"""Smaller tensors are left to protobuf."""

# Numbers of fields in onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: where it starts, and where its content lies."""

    number: int
    wire: int
    begin: int
    start: int
    end: int


class _Malformed(Exception):
    """What is no message; protobuf words the error."""


def without_large(data: Window) -> tuple[bytes, dict[int, FilePiece]]:
    """The file with large ``raw_data`` of initializers left out, and these by position.

    Args:
        data: the file.

    Returns:
        All of the file and nothing if it is no well-formed message.
    """
    found: dict[int, FilePiece] = {}
    try:
        pieces = _model(data, found)
    except _Malformed:
        return data.bytes(0, len(data)), {}
    return b"".join(pieces), found


def _model(view: Window, found: dict[int, FilePiece]) -> list[bytes]:
    pieces: list[bytes] = []
    count = 0  # initializers; several graph fields would be merged into one
    for field in _fields(view, 0, len(view)):
        if field.number != _MODEL_GRAPH or field.wire != _BYTES:
            pieces.append(view.bytes(field.begin, field.end))
            continue
        inner: list[bytes] = []
        for each in _fields(view, field.start, field.end):
            if each.number == _GRAPH_INITIALIZER and each.wire == _BYTES:
                inner += _initializer(view, each, count, found)
                count += 1
            else:
                inner.append(view.bytes(each.begin, each.end))
        pieces += _wrapped(_MODEL_GRAPH, inner)
    return pieces


def _initializer(
    view: Window, field: _Field, place: int, found: dict[int, FilePiece]
) -> list[bytes]:
    kept: list[bytes] = []
    raw: list[_Field] = []
    for each in _fields(view, field.start, field.end):
        if each.number == _TENSOR_RAW_DATA and each.wire == _BYTES:
            raw.append(each)
        else:
            kept.append(view.bytes(each.begin, each.end))
    if len(raw) != 1 or raw[0].end - raw[0].start < LEAST_BYTES:
        return [view.bytes(field.begin, field.end)]
    found[place] = view.piece(raw[0].start, raw[0].end)
    return _wrapped(_GRAPH_INITIALIZER, kept)


def _wrapped(number: int, pieces: list[bytes]) -> list[bytes]:
    """Pieces as the content of a field."""
    size = sum(len(piece) for piece in pieces)
    return [_varint_bytes(number << 3 | _BYTES) + _varint_bytes(size), *pieces]


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def _fields(view: Window, start: int, end: int) -> Iterator[_Field]:
    while start < end:
        begin = start
        key, start = _varint(view, start, end)
        wire = key & 7
        if wire == _BYTES:
            size, start = _varint(view, start, end)
            stop = start + size
        elif wire == _VARINT:
            _, stop = _varint(view, start, end)
        elif wire in (_FIXED64, _FIXED32):
            stop = start + (8 if wire == _FIXED64 else 4)
        else:
            raise _Malformed
        if stop > end:
            raise _Malformed
        yield _Field(key >> 3, wire, begin, start, stop)
        start = stop


def _varint(view: Window, start: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while start < end and shift < 70:
        byte = view.byte(start)
        start += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, start
        shift += 7
    raise _Malformed
