"""A file's bytes to a ``ModelProto``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from weft.errors import UserError
from weft.frontends.onnx.wire import without_large
from weft.frontends.pieces import FilePiece, OpenFile, Window

MAX_FILE_BYTES = (1 << 31) - 1
"""Protobuf's own limit; larger models keep their weights in external data."""


class NoModelError(UserError):
    """A file that holds something else than an ONNX model."""


def parse_model(data: bytes, where: str = "") -> ModelProto:
    """Parse the bytes of an ONNX file; a ``UserError`` if they are not one."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise NoModelError(
            "onnx: the file is damaged or not an ONNX model", got=str(error), where=where
        ) from error
    if not model.HasField("graph"):
        raise NoModelError("onnx: the file holds no graph", where=where)
    return model


def read_model(path: Path) -> tuple[ModelProto, Mapping[int, FilePiece]]:
    """Read an ONNX file.

    Returns:
        The model without the bytes of large initializers, and where these lie in the file, by
        position among the initializers.
    """
    where = f"file {path.name}"
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise UserError(
                "onnx: a model file must be smaller than 2 GiB",
                got=f"{size} bytes",
                fix="Save the weights as external data",
                where=where,
            )
        file = OpenFile(path)
    except OSError as error:
        raise UserError(
            "onnx: the file cannot be read", got=error.strerror or str(error), where=where
        ) from error
    text, large = without_large(Window(file))
    return parse_model(text, where), large


def has_external_data(path: Path) -> bool:
    """Whether an ONNX file names other files, which hold data of its tensors."""
    model, _ = read_model(path)
    nodes = [node for function in model.functions for node in function.node]
    tensors = (*_tensors_of(model.graph), *(each for node in nodes for each in _tensors_in(node)))
    return any(each.data_location == TensorProto.EXTERNAL for each in tensors)


def _tensors_of(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        yield from _tensors_in(node)


def _tensors_in(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        yield attribute.t
        yield from attribute.tensors
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield sparse.values
            yield sparse.indices
        yield from _tensors_of(attribute.g)
        for graph in attribute.graphs:
            yield from _tensors_of(graph)
