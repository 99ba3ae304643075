# pyright: basic
"""Inputs of the graph: their types, and the shapes or constant values given for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.errors import UserError
from weft.frontends.keras.config import element_type
from weft.frontends.keras.hdf5 import broken
from weft.frontends.keras.layers import MOST_BYTES
from weft.frontends.keras.record import Emit, Tensor
from weft.frontends.keras.spec import Spec
from weft.ir.types import TensorType

BATCH = "batch"
"""The name under which the size of an open batch is given."""


class Inputs:
    """Makes the inputs of a graph.

    Args:
        emit: makes nodes of the graph.
        shapes: by name, where the file leaves sizes open.
        constants: values by name of inputs that are none of the graph's.
    """

    def __init__(
        self,
        emit: Emit,
        shapes: Mapping[str, Sequence[int]],
        constants: Mapping[str, np.ndarray],
    ) -> None:
        self.emit = emit
        self._shapes, self._constants = dict(shapes), dict(constants)
        self._batch = int((*self._shapes.pop(BATCH, (1,)), 1)[0])

    def unused(self) -> list[str]:
        """Names that shapes or values are given for, of no input so far."""
        return [*self._shapes, *self._constants]

    def __call__(self, spec: Spec) -> Tensor:
        """An input of the graph."""
        where = f"input {spec.name}"
        shape = spec.config.get("batch_shape", spec.config.get("batch_input_shape"))
        if spec.config.get("sparse") or spec.config.get("ragged"):
            raise UserError("keras: inputs must be dense", where=where)
        dtype = element_type(spec.config.get("dtype"))
        if spec.name in self._constants:
            array = np.asarray(self._constants.pop(spec.name)).astype(dtype.numpy)
            return self.emit.constant(array, spec.name)
        dims = self._dims(spec.name, shape, where)
        type = TensorType(dtype, dims)
        if prod(dims) * dtype.bytes > MOST_BYTES:
            raise UserError("keras: a value has at most 16 GiB", got=str(type), where=where)
        return self.emit.of(self.emit.builder.input(spec.name, type))

    def _dims(self, name: str, shape: Any, where: str) -> tuple[int, ...]:
        given = self._shapes.pop(name, None)
        if given is not None:
            dims = tuple(int(each) for each in given)
            fits = not isinstance(shape, list) or (
                len(shape) == len(dims)
                and all(
                    want is None or want == have for want, have in zip(shape, dims, strict=True)
                )
            )
            if not fits or any(each < 1 for each in dims):
                raise UserError(
                    "the shape of an input must fit the model's",
                    got=f"{list(dims)} for {_told(shape)}",
                    where=where,
                )
            return dims
        if not isinstance(shape, list) or None in shape[1:]:
            wanted = [str(each or "SIZE") for each in shape] if isinstance(shape, list) else ["..."]
            wanted[0] = str(self._batch) if isinstance(shape, list) else "..."
            raise UserError(
                "keras: only the batch of an input may be open",
                got=f"{name} {_told(shape)}",
                fix=f"Give its shape: --input {name}={'x'.join(wanted)}; in Python: "
                f'weft.load(path, {{"{name}": [{", ".join(wanted)}]}})',
            )
        if any(each is not None and (not isinstance(each, int) or each < 1) for each in shape):
            raise broken(f"an input of shape {_told(shape)}")
        return tuple(self._batch if each is None else each for each in shape)


def _told(shape: Any) -> str:
    if not isinstance(shape, list):
        return "without a shape"
    return f"[{','.join('?' if each is None else str(each) for each in shape)}]"
