"""A file's bytes to a ``ModelProto``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import ModelProto

from weft.errors import UserError
from weft.frontends.onnx.tensors import map_file
from weft.frontends.onnx.wire import without_large

MAX_FILE_BYTES = (1 << 31) - 1
"""Protobuf's own limit; larger models keep their weights in external data."""


def parse_model(data: bytes, where: str = "") -> ModelProto:
    """Parse the bytes of an ONNX file; a ``UserError`` if they are not one."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise UserError(
            "onnx: the file is damaged or not an ONNX model", got=str(error), where=where
        ) from error
    if not model.HasField("graph"):
        raise UserError("onnx: the file holds no graph", where=where)
    return model


def read_model(path: Path) -> tuple[ModelProto, Mapping[int, np.ndarray]]:
    """Read an ONNX file.

    Returns:
        The model without the bytes of large initializers, and these bytes by position
        among the initializers, mapped from the file.
    """
    where = f"file {path.name}"
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise UserError(
                "onnx: a model file has less than 2 GiB",
                got=f"{size} bytes",
                fix="Save the weights as external data",
                where=where,
            )
        data = map_file(path)
    except OSError as error:
        raise UserError(
            "onnx: the file cannot be read", got=error.strerror or str(error), where=where
        ) from error
    text, large = without_large(data)
    return parse_model(text, where), large
