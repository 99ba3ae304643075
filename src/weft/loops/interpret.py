"""The interpreter: what a kernel means.

``run`` translates a kernel to Python once, one statement for each operation, and runs it.
Integers are Python integers wrapped to their type, ``f64`` and ``f32`` are NumPy scalars,
``f16`` and ``bf16`` are ``f32`` scalars rounded to the type after every operation.  Every
access is checked against its buffer, and reading a ``Local`` that was not written raises,
as does an integer division by zero.

Transcendental functions of ``f32`` are computed in double precision and rounded.  Where C
leaves a conversion undefined (a float outside the range of the integer type), the nearest
integer of the type is taken, and 0 for NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.errors import InternalError
from weft.loops.nodes import Access, Buffer, Kernel
from weft.loops.python_arithmetic import HALVES, SCOPE
from weft.loops.translate import python_source, span

__all__ = ["run", "span", "translate"]


def run(kernel: Kernel, arrays: Mapping[str, np.ndarray]) -> None:
    """Runs a kernel on arrays, one for each parameter, and fills those it stores to.

    An array is either shaped as its buffer or flat: the buffer's memory itself, element
    by element.  A written array must be writable; nothing is returned.
    """
    translate(kernel)(arrays)


def translate(kernel: Kernel) -> Callable[[Mapping[str, np.ndarray]], None]:
    """``run`` of one kernel as a function, for running it many times."""
    source = python_source(kernel)
    scope = dict(SCOPE)
    exec(compile(source, f"<kernel {kernel.name}>", "exec"), scope)
    return lambda arrays: _call(kernel, scope["kernel"], arrays)


def _call(kernel: Kernel, function: Callable[..., None], arrays: Mapping[str, np.ndarray]) -> None:
    memories: list[list[Any]] = []
    targets: list[tuple[list[Any], np.ndarray, Buffer]] = []
    for buffer in kernel.params:
        array = _given(kernel, buffer, arrays)
        memory = _memory(buffer, array)
        memories.append(memory)
        if buffer.access is not Access.READ:
            targets.append((memory, array, buffer))
    with np.errstate(all="ignore"):
        try:
            function(*memories)
        except ZeroDivisionError as error:
            raise InternalError(f"kernel {kernel.name}: integer division by zero") from error
        for memory, array, buffer in targets:
            _write_back(memory, array, buffer)


def _given(kernel: Kernel, buffer: Buffer, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    array = arrays.get(buffer.name)
    if array is None:
        raise InternalError(f"kernel {kernel.name}: no array for {buffer.name}")
    flat = array.ndim == 1 and array.size >= span(buffer)
    if array.dtype != buffer.dtype.numpy or not (flat or array.shape == buffer.shape):
        raise InternalError(
            f"kernel {kernel.name}: {buffer.name} is {buffer.dtype.value}{list(buffer.shape)}, "
            f"the array is {array.dtype}{list(array.shape)}"
        )
    return array


def _view(memory: np.ndarray, buffer: Buffer) -> np.ndarray:
    """Memory as the shape of its buffer."""
    strides = [step * memory.itemsize for step in buffer.steps]
    return as_strided(memory, buffer.shape, strides)


def _memory(buffer: Buffer, array: np.ndarray) -> list[Any]:
    """The elements of a buffer's memory as the interpreter's numbers."""
    flat = array
    if array.shape == buffer.shape:
        flat = np.zeros(span(buffer), array.dtype)
        if array.size:
            _view(flat, buffer)[...] = array
    if buffer.dtype in HALVES:
        return list(flat.astype(np.float32))
    return list(flat) if buffer.dtype.is_float else flat.tolist()


def _write_back(memory: list[Any], array: np.ndarray, buffer: Buffer) -> None:
    number = np.float32 if buffer.dtype in HALVES else buffer.dtype.numpy
    flat = np.array(memory, number).astype(buffer.dtype.numpy)
    if array.shape == buffer.shape:
        if array.size:
            array[...] = _view(flat, buffer)
    else:
        array[...] = flat
