"""Exchange weights, and move them to and from files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from weft.atomic import replacing
from weft.errors import UserError, nearest_names
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.edit import set_constants
from weft.ir.graph import Graph
from weft.ir.naming import type_of
from weft.ir.npz import read_arrays, write_arrays
from weft.ir.safetensors import read_tensors, write_tensors

_MOST_TOLD = 8
SAFETENSORS = ".safetensors"
NPZ = ".npz"


def swap_weights(graph: Graph, arrays: Mapping[str, ArrayLike], *, partial: bool = True) -> Graph:
    """Exchange weights for others of the same element types and shapes.

    Args:
        graph: the graph.
        arrays: by name of the constant.
        partial: constants without an array stay; else every one needs an array.

    Raises:
        UserError: names or types do not fit; all that is wrong is told at once.
    """
    given = {name: as_array(array, f"weight {name}") for name, array in arrays.items()}
    wrong = [each for name, array in given.items() if (each := _wrong(graph, name, array))]
    if not partial:
        wrong += [f"{name} is not given" for name in graph.constants if name not in given]
    if wrong:
        more = [f"and {len(wrong) - _MOST_TOLD} more"] if len(wrong) > _MOST_TOLD else []
        raise UserError(
            f"weights: {len(wrong)} of {len(given)} do not fit graph {graph.name}"
            if partial
            else f"weights: {len(wrong)} do not fit graph {graph.name}",
            got="; ".join(wrong[:_MOST_TOLD] + more),
        )
    return set_constants(graph, {name: _like(graph, name, given[name]) for name in given})


def _wrong(graph: Graph, name: str, array: np.ndarray) -> str:
    """What keeps an array from being the constant of that name."""
    if name not in graph.constants:
        near = nearest_names(name, graph.constants, 1)
        return f"there is no constant {name}" + (f" (did you mean {near[0]}?)" if near else "")
    found = type_of(_like(graph, name, array), name)
    if found != graph.types[name]:
        return f"{name} is {graph.types[name]}, not {found}"
    return ""


def _like(graph: Graph, name: str, array: np.ndarray) -> np.ndarray:
    # NumPy's files know no bfloat16: its elements come back as two bytes without a meaning.
    wanted = graph.types[name].dtype.numpy
    if array.dtype.kind == "V" and array.dtype.itemsize == wanted.itemsize:
        return array.view(wanted)
    return array


def save_weights(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write the constants, by their names, to a ``.safetensors`` or ``.npz`` file."""
    path = Path(path)
    _suffix(path)
    with replacing(path) as file:
        write = write_tensors if path.suffix == SAFETENSORS else write_arrays
        write(graph.constants, file)


def load_weights(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a ``.safetensors`` or ``.npz`` file, by name; nothing is executed."""
    path = Path(path)
    _suffix(path)
    try:
        if path.suffix == SAFETENSORS:
            return read_tensors(path.read_bytes())
        return read_arrays(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{path} is not a valid weights file", got=str(error)) from None


def _suffix(path: Path) -> None:
    if path.suffix not in (SAFETENSORS, NPZ):
        raise UserError(f"weights files must be {SAFETENSORS} or {NPZ}", got=path.name or str(path))
