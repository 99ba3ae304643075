"""The call of a network in C, for arrays of NumPy that fit; see ``data/call.c``."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from ctypes import c_int, c_int64, c_ssize_t, c_void_p
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from weft.errors import WeftError
from weft.plan.program import Port
from weft.runtime.compiler import end_compilers
from weft.runtime.native import MOST_ARGUMENTS, build_native, usable

_SOURCE = Path(__file__).parent / "data" / "call.c"
_SECONDS = 5

Call: TypeAlias = Callable[
    [tuple[Any, ...], Any, tuple[int, ...], list[int]], tuple[np.ndarray, ...] | None
]
"""``call(inputs, out, scratch, fixed)``: the outputs; ``None`` where Python has to look at it."""


class _Port(ctypes.Structure):
    """``weft_port``."""

    _fields_ = (
        ("dtype", c_void_p),
        ("shape", c_void_p),
        ("sizes", c_void_p),
        ("ndim", c_int64),
        ("bytes", c_int64),
    )


class _Net(ctypes.Structure):
    """``weft_net``."""

    _fields_ = (
        *((name, c_void_p) for name in "array_type tuple_type list_type empty miss".split()),
        ("inputs", c_void_p),
        ("input_count", c_int64),
        ("outputs", c_void_p),
        ("output_count", c_int64),
        ("state_bytes", c_int64),
        ("function", c_void_p),
        ("runs", c_int64),
        ("nanoseconds", c_int64),
    )


class _Array(ctypes.Structure):
    """``array``: how NumPy lays its arrays out."""

    _fields_ = (
        ("references", c_ssize_t),
        ("type", c_void_p),
        ("data", c_void_p),
        ("ndim", c_int),
        ("shape", ctypes.POINTER(c_ssize_t)),
        ("strides", ctypes.POINTER(c_ssize_t)),
        ("base", c_void_p),
        ("dtype", c_void_p),
        ("flags", c_int),
    )


def call_in_c(
    function: int, inputs: Sequence[Port], outputs: Sequence[Port], more: int, state_bytes: int = 0
) -> Call:
    """Calls a run function from C.

    Where that cannot be, as without a compiler or on another interpreter than CPython with its
    lock, the callable returned always gives ``None``.

    Args:
        function: the address of the run function.
        inputs: its inputs.
        outputs: its outputs.
        more: how many addresses it takes after theirs.
        state_bytes: of the state, whose address is the last of ``scratch``; 0 without one.
    """
    if len(inputs) + len(outputs) + more > MOST_ARGUMENTS:
        return in_python
    make = _native()
    if make is None:
        return in_python
    kept: list[Any] = [np.ndarray, tuple, list, np.empty, None]
    net = _Net(*map(id, kept), state_bytes=state_bytes, function=function)
    for word, ports in (("input", inputs), ("output", outputs)):
        table = _table(ports, kept)
        setattr(net, f"{word}s", ctypes.addressof(table))
        setattr(net, f"{word}_count", len(ports))
        kept.append(table)
    return make((ctypes.addressof(net), net, kept))


@contextmanager
def prepared_calls() -> Generator[None]:
    """A context in which a thread builds what ``call_in_c`` needs, if that was not done before.

    It may still do so at the end; but an interrupt ends its compiler, too.
    """
    if not usable():
        yield
        return
    ahead = _built_ahead()
    try:
        yield
    except Exception:
        raise
    except BaseException:
        ahead.end()
        raise


class Ahead:
    """What is built on a thread of its own.

    Attributes:
        future: the library.
    """

    def __init__(self) -> None:
        self._folders: list[Path] = []
        pool = ThreadPoolExecutor(1)
        self.future = pool.submit(
            build_native, "weft-arrays", [], [_SOURCE], begun=self._folders.append
        )
        pool.shutdown(wait=False)

    def wait(self) -> None:
        """Waits; not for ever, as a process that was forked has no such thread."""
        wait([self.future], _SECONDS)

    def end(self) -> None:
        """Ends the compiler: a thread cannot be interrupted, and the process would wait for it."""
        end = time.monotonic() + _SECONDS
        while not self.future.done() and time.monotonic() < end:
            for each in self._folders:
                end_compilers(each)
            time.sleep(0.01)


@cache
def _built_ahead() -> Ahead:
    return Ahead()


def in_python(*_: object) -> None:
    """A call that Python always has to look at."""


def _table(ports: Sequence[Port], kept: list[Any]) -> ctypes.Array[_Port]:
    table = (_Port * max(1, len(ports)))()
    for each, port in zip(table, ports, strict=False):
        dtype, shape = port.dtype.numpy, tuple(port.shape)
        sizes = (c_ssize_t * max(1, len(shape)))(*shape)
        kept += dtype, shape, sizes
        each.dtype, each.shape, each.sizes = id(dtype), id(shape), ctypes.addressof(sizes)
        each.ndim, each.bytes = len(shape), dtype.itemsize * prod(shape)
    return table


@cache
def _native() -> Callable[[tuple[Any, ...]], Call] | None:
    """Makes callables, in a library that is built at first use; ``None`` where there is none."""
    if not usable() or not all(map(_lies_as_known, _trials())):
        return None
    _built_ahead().wait()
    try:
        make = ctypes.PyDLL(str(build_native("weft-arrays", [], [_SOURCE]))).weft_callable
    except (WeftError, OSError, AttributeError):
        return None
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object]
    return make


def _trials() -> list[np.ndarray]:
    packed = np.zeros((2, 3), np.float32)
    fixed = np.zeros((4, 1, 5), np.int8)
    fixed.flags.writeable = False
    return [packed, packed.T, fixed, fixed[::2], np.zeros((), ml_dtypes.bfloat16)]


def _lies_as_known(array: np.ndarray) -> bool:
    """Whether an array's fields, read where they should lie, are what NumPy says of it."""
    found = _Array.from_address(id(array))
    return (
        (found.type, found.data) == (id(np.ndarray), array.ctypes.data)
        and found.ndim == array.ndim
        and tuple(found.shape[: array.ndim]) == array.shape
        and tuple(found.strides[: array.ndim]) == array.strides
        and found.dtype == id(array.dtype)
        and found.flags == array.flags.num
    )
