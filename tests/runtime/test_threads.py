"""Threads that call one network at once get the bits that one thread gets."""

from __future__ import annotations

import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weft
from tests.models import networks, tiny
from weft.runtime.library import Library

CALLS = 40
THREADS = 4
NAMES = ["digits", pytest.param("kws_float", marks=tiny.needed)]


def inputs_of(library: Library) -> list[np.ndarray]:
    (port,) = library.program.inputs
    generator = np.random.default_rng(1)
    return [generator.standard_normal(port.shape).astype(port.dtype.numpy) for _ in range(CALLS)]


@pytest.mark.parametrize("name", NAMES)
def test_threads_of_python_get_the_bits_of_one(name: str) -> None:
    run = weft.load(networks.path_of(name)).compile()
    inputs = inputs_of(run.library)
    alone = [run(x).tobytes() for x in inputs]
    assert len(set(alone)) == CALLS, "the outputs must tell the inputs apart"
    together = threading.Barrier(THREADS)

    def work(thread: int) -> list[bytes]:
        together.wait()
        order = [*range(thread, CALLS), *range(thread)]
        found = {place: run(inputs[place]).tobytes() for place in order}
        return [found[place] for place in range(CALLS)]

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, range(THREADS)):
            assert found == alone


@pytest.mark.parametrize("name", NAMES)
def test_arenas_of_the_caller_get_the_bits_of_one(name: str) -> None:
    """The C function itself, called without Python's lock on arenas that the caller made."""
    library = weft.load(networks.path_of(name)).compile(threads=1).library
    inputs = inputs_of(library)
    alone = [library(x)[0].tobytes() for x in inputs]

    def work(thread: int) -> list[bytes]:
        call = Call(library, filling=thread + 1)
        return [call(x) for x in inputs]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    assert first == alone
    assert second == alone


def aligned(size: int, alignment: int) -> np.ndarray:
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size]


class Call:
    """The run function with an arena that held something else before."""

    def __init__(self, library: Library, filling: int) -> None:
        program, files = library.program, library.files
        assert files.blob is not None
        self.arena = aligned(program.arena_bytes, program.alignment)
        self.arena[:] = filling
        self.weights = aligned(files.blob.size, program.alignment)
        self.weights[:] = np.frombuffer(files.blob.tobytes(), np.uint8)
        (port,) = program.outputs
        self.output = np.empty(port.shape, port.dtype.numpy)
        self.function = ctypes.CDLL(str(library.path))[files.interface.function]
        self.function.argtypes = [ctypes.c_void_p] * 4

    def __call__(self, x: np.ndarray) -> bytes:
        arrays = (x, self.output, self.arena, self.weights)
        assert self.function(*(array.ctypes.data for array in arrays)) == 0
        return self.output.tobytes()
