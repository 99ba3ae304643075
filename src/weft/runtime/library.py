"""Built networks: generated, compiled, loaded, and called with NumPy arrays in place."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from weft.codegen.emit import Files, emit
from weft.codegen.flavours import Flavour, flavour_named
from weft.errors import InternalError, UserError
from weft.plan.program import Port, Program
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import (
    Compiler,
    compile_object,
    find_compiler,
    host_flags,
    link_library,
)
from weft.runtime.memory import MappedFile, Memory, content
from weft.runtime.threads import Threads, shared_pool

_FAILURES = {-1: "a null pointer", -2: "a misaligned pointer"}
_JOBS = 2
# So many functions are worth a second compiler process.
_MANY = 8


def build(
    program: Program,
    flavour: str | Flavour = "gnu",
    *,
    compiler: Compiler | None = None,
    cache: Cache | None = None,
    flags: Sequence[str] | None = None,
) -> Library:
    """Generates, compiles and loads a program for this machine.

    Args:
        program: what to build.
        flavour: the dialect of C that is generated.
        compiler: by default the one that ``find_compiler`` finds.
        cache: where built libraries are kept; by default the user's cache.
        flags: compiler flags instead of those for this machine.

    Returns:
        The loaded library.
    """
    if isinstance(flavour, str):
        flavour = flavour_named(flavour)
    compiler = compiler or find_compiler()
    cache = cache or Cache()
    arguments = list(flags) if flags is not None else host_flags(compiler, flavour)
    parts = _JOBS if len(program.functions) >= _MANY else 1
    files = emit(program, flavour, "blob", parts)
    texts = [files.header, *files.private, *files.sources]
    identity = [part for name, text in texts for part in (name, text)]
    identity += [*arguments, *compiler.command, compiler.kind, compiler.version, processor()]
    path = cache.get(
        f"{program.name[:40]}-{digest(identity)}.so",
        lambda target: _compile(files, compiler, arguments, target),
    )
    return Library(program, files, path, _weights(files, cache))


def _compile(files: Files, compiler: Compiler, flags: Sequence[str], target: Path) -> None:
    folder = target.parent
    for name, text in [files.header, *files.private, *files.sources]:
        (folder / name).write_text(text)
    sources = [folder / name for name, _ in files.sources]
    objects = [source.with_suffix(".o") for source in sources]

    def compile_one(pair: tuple[Path, Path]) -> None:
        compile_object(compiler, flags, *pair)

    with ThreadPoolExecutor(_JOBS) as pool:
        list(pool.map(compile_one, zip(sources, objects, strict=True)))
    link_library(compiler, objects, target)


def _weights(files: Files, cache: Cache) -> Memory | MappedFile | None:
    """The weights, from the cache; networks of equal weights share them."""
    blob = files.blob
    if blob is None or blob.size == 0:
        return None

    def write(target: Path) -> None:
        with target.open("wb") as stream:
            for piece in blob.pieces():
                stream.write(piece)

    return content(cache.get(f"weights-{digest(blob.pieces())}.bin", write))


class _Arenas(threading.local):
    """Each thread's scratch memory."""

    memory: Memory | None = None
    address: int = 0


class Library:
    """A network that was built and loaded.

    Any number of threads may call it at once: each has its own scratch memory.  Where the
    program was made for several threads, one call at a time has the process's pool, and the
    others run on their own thread alone.

    Attributes:
        program: what was built.
        files: the generated C.
        path: the shared library.
    """

    def __init__(
        self, program: Program, files: Files, path: Path, weights: Memory | MappedFile | None
    ) -> None:
        self.program, self.files, self.path = program, files, path
        self._weights = weights
        self._fixed = [] if files.blob is None else [weights.address if weights else 0]
        self._threads: Threads | None = None
        if program.threads > 1:
            self._threads = shared_pool().threads(program.threads)
            self._fixed.append(ctypes.addressof(self._threads))
        try:
            function = ctypes.CDLL(str(path))[files.interface.function]
        except (OSError, AttributeError) as error:
            raise InternalError(f"the built library {path} cannot be loaded: {error}") from error
        count = len(program.inputs) + len(program.outputs) + 1 + len(self._fixed)
        function.argtypes = [ctypes.c_void_p] * count
        function.restype = ctypes.c_int
        self._function = function
        self._arenas = _Arenas()
        self._inputs = [(port.dtype.numpy, port.shape) for port in program.inputs]
        self._outputs = [(port.dtype.numpy, port.shape) for port in program.outputs]

    def __call__(
        self, *inputs: np.ndarray, out: Sequence[np.ndarray] | None = None
    ) -> tuple[np.ndarray, ...]:
        """Runs the network.

        Args:
            inputs: one array for each input port, in order; read in place.
            out: arrays to write, one for each output port; new ones if not given.

        Returns:
            The outputs, in order.
        """
        if out is None:
            outputs = tuple([np.empty(shape, dtype) for dtype, shape in self._outputs])
        else:
            outputs = tuple(out)
            self._check(outputs, self._outputs, self.program.outputs, "output")
            for port, array in zip(self.program.outputs, outputs, strict=True):
                if not array.flags.writeable:
                    raise UserError(f"output {port.name} must be a writeable array")
        self._check(inputs, self._inputs, self.program.inputs, "input")
        addresses = [array.ctypes.data for array in (*inputs, *outputs)]
        code = self._function(*addresses, self._arenas.address or self._arena(), *self._fixed)
        if code != 0:
            raise self._failure(code, (*inputs, *outputs))
        return outputs

    def _check(
        self,
        arrays: Sequence[np.ndarray],
        wanted: Sequence[tuple[np.dtype, tuple[int, ...]]],
        ports: Sequence[Port],
        word: str,
    ) -> None:
        if len(arrays) != len(wanted):
            names = ", ".join(port.name for port in ports)
            raise UserError(
                f"{self.program.name} has {len(wanted)} {word}s: {names}",
                got=f"{len(arrays)} arrays",
            )
        for array, (dtype, shape), port in zip(arrays, wanted, ports, strict=True):
            if array.dtype != dtype or array.shape != shape:
                raise UserError(
                    f"{word} {port.name} must be {port.dtype.value}{list(shape)}",
                    got=f"{array.dtype}{list(array.shape)}",
                )
            if not array.flags.c_contiguous:
                raise UserError(
                    f"{word} {port.name} must be packed in row-major order",
                    got=f"strides {list(array.strides)}",
                    fix="Pass it through numpy.ascontiguousarray.",
                )

    def _arena(self) -> int:
        """This thread's scratch memory; whole pages, so aligned for any purpose."""
        arenas = self._arenas
        if self.program.arena_bytes == 0:
            return 0
        if arenas.memory is None:
            arenas.memory = Memory(self.program.arena_bytes)
            arenas.address = arenas.memory.address
        return arenas.address

    def _failure(self, code: int, arrays: Sequence[np.ndarray]) -> UserError | InternalError:
        if code == -2:
            ports = (*self.program.inputs, *self.program.outputs)
            for port, array in zip(ports, arrays, strict=True):
                if array.ctypes.data % port.dtype.bytes:
                    return UserError(
                        f"{port.name} must be aligned to its elements' {port.dtype.bytes} bytes",
                        got=f"address {array.ctypes.data:#x}",
                        fix="Copy the array.",
                    )
        return InternalError(
            f"{self.files.interface.function} returned {code} ({_FAILURES.get(code, 'unknown')})"
        )
