"""Built networks: loaded, and called with NumPy arrays in place."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.cached import cached_property
from weft.errors import InternalError, UserError
from weft.ir.buffers import ArrayLike
from weft.plan.program import Port, Program, state_bytes
from weft.runtime.cache import Cache, Damaged
from weft.runtime.calls import call_in_c
from weft.runtime.memory import RunMemory, content
from weft.runtime.ports import Ports, address_of, refuse_overlaps, refuse_state
from weft.runtime.record import Built, forget, recall
from weft.runtime.reserve import SpareMemory, fresh_memory
from weft.runtime.threads import Threads, shared_pool

if TYPE_CHECKING:
    from weft.codegen.emit import Files

_FAILURES = {-1: "a null pointer", -2: "a misaligned pointer", -3: "a library refuses"}


def recalled(cache: Cache, key: str, make: Callable[[], Library]) -> Library | None:
    """The library that the cache has under a key, if it has one.

    Args:
        cache: where to look.
        key: that ``remember`` was given.
        make: builds it, for those who want to see the program or the C.
    """
    built = recall(cache, key)
    if built is None:
        return None

    def shown() -> tuple[Program, Files]:
        library = make()
        return library.program, library.files

    try:
        return Library(built, shown)
    except Damaged:
        forget(cache, key, *([built.weights] if built.weights else []))
        return None


class _Fixed(list[int]):
    """Addresses, with the memory that one of them is of, and arrays that this leads to."""

    def __init__(self, memory: RunMemory | None) -> None:
        super().__init__()
        self.memory = memory
        self.arrays: list[np.ndarray] = []


class _Arenas(threading.local):
    """Each thread's scratch memory."""

    memory: RunMemory | None = None
    addresses: tuple[int, ...] = ()


class Library:
    """A network that was built and loaded.

    Any number of threads may call it at once: each has its own scratch memory.  Where the
    program was made for several threads, one call at a time has the process's pool, and the
    others run on their own thread alone.

    Args:
        built: what is on disk.
        make: the program and the generated C, for those who want to see them.
    """

    def __init__(self, built: Built, make: Callable[[], tuple[Program, Files]]) -> None:
        self.built = built
        self._make = make
        self._weights = content(built.weights) if built.weights else None
        first = built.preparing
        self._spare = SpareMemory(first.bytes if first else 0)
        self._scratch = SpareMemory(first.arena_bytes if first else 0)
        self._threads: Threads | None = None
        if built.threads > 1:
            self._threads = shared_pool().threads(built.threads)
        self._fixed = self._with(None)
        try:
            loaded = ctypes.CDLL(str(built.library))
            function = loaded[built.function]
            opened = loaded[built.open] if built.open else None
            self._prepare = loaded[built.preparing.function] if built.preparing else None
        except (OSError, AttributeError) as error:
            raise InternalError(
                f"the built library {built.library} cannot be loaded: {error}"
            ) from error
        if opened is not None and opened() != 0:
            raise InternalError(
                f"{built.name} cannot be prepared: a library refuses what it offered before"
            )
        # What calls run on that bring no state of their own.
        self._state = RunMemory(state_bytes(built.states)) if built.states else None
        more = len(built.starts) + (self._state is not None) + len(self._fixed)
        count = len(built.inputs) + len(built.outputs) + more
        function.argtypes = [ctypes.c_void_p] * count
        function.restype = ctypes.c_int
        self._function = function
        held = state_bytes(built.states)
        self._call = call_in_c(self._address, built.inputs, built.outputs, more, held)
        self._arenas = _Arenas()
        self._inputs = Ports(built.name, "input", built.inputs)
        self._outputs = Ports(built.name, "output", built.outputs)

    def _with(self, prepared: RunMemory | None) -> _Fixed:
        """The last arguments of every call, on some weights."""
        built, fixed = self.built, _Fixed(prepared)
        if built.takes_weights:
            fixed.append(self._weights.address if self._weights else 0)
        if built.preparing is not None:
            fixed.append(prepared.address if prepared else 0)
        if self._threads is not None:
            fixed.append(ctypes.addressof(self._threads))
        return fixed

    def load(self, parameters: Sequence[np.ndarray]) -> None:
        """Makes the weights of other parameters; calls that begin after it run on them.

        Args:
            parameters: packed arrays of the types of ``built.preparing.parameters``, in order;
                those of ``held`` are kept.
        """
        first = self.built.preparing
        if first is None or self._prepare is None:
            raise InternalError(f"{self.built.name} has no parameters")
        made = self._spare.take()
        fixed = self._with(made)
        pairs = zip(first.parameters, parameters, strict=True)
        fixed.arrays = [array for port, array in pairs if port.name in first.held]
        # When no call runs on these weights any more.
        weakref.finalize(fixed, self._spare.give_back, made).atexit = False
        addresses = (ctypes.c_void_p * len(parameters))(
            *(array.ctypes.data for array in parameters)
        )
        arena = self._scratch.take()
        given = [ctypes.addressof(addresses), arena.address, *fixed]
        self._prepare.argtypes = [ctypes.c_void_p] * len(given)
        code = self._prepare(*given)
        self._scratch.give_back(arena)
        if code != 0:
            raise InternalError(f"{first.function} returned {code} ({_FAILURES.get(code)})")
        # One assignment: a call that runs meanwhile keeps the memory that it began with.
        self._fixed = fixed

    @property
    def prepared(self) -> memoryview:
        """The weights that ``load`` made, which runs read; nothing if they are constants."""
        memory = self._fixed.memory
        return memory.view() if memory is not None else memoryview(b"")

    def __reduce__(self) -> tuple[object, ...]:
        raise UserError(
            "loaded code cannot be copied or pickled",
            got=self.built.name,
            fix="Copy or pickle the CompiledNet, which is rebuilt from the cache.",
        )

    @property
    def path(self) -> Path:
        """The shared library."""
        return self.built.library

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs, in order."""
        return self.built.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs, in order."""
        return self.built.outputs

    @property
    def program(self) -> Program:
        """What was built; planned again where the library came from the cache."""
        return self._made[0]

    @property
    def files(self) -> Files:
        """The generated C; written again where the library came from the cache."""
        return self._made[1]

    @cached_property
    def _made(self) -> tuple[Program, Files]:
        return self._make()

    def new_state(self) -> RunMemory:
        """Memory for the state of a stream, all zeros."""
        return RunMemory(state_bytes(self.built.states))

    def __call__(
        self,
        *inputs: ArrayLike,
        out: Sequence[ArrayLike] | None = None,
        state: RunMemory | None = None,
    ) -> tuple[np.ndarray, ...]:
        """Runs the network.

        Args:
            inputs: one array, tensor or buffer for each input port, in order; read in place.
            out: what to write into, one for each output port; new arrays if not given.
            state: what ``new_state`` gave, which the run reads and changes; one of the library's
                own if not given.

        Returns:
            The outputs, in order.
        """
        scratch = self._arenas.addresses or self._arena()
        if self._state is not None:
            scratch = *scratch, (state or self._state).address
        fixed = self._fixed  # also keeps the weights of this call
        made = self._call(inputs, out, scratch, fixed)
        return made if made is not None else self._checked(inputs, out, scratch, fixed)

    def _checked(
        self,
        inputs: tuple[ArrayLike, ...],
        out: Sequence[ArrayLike] | None,
        scratch: tuple[int, ...],
        fixed: _Fixed,
    ) -> tuple[np.ndarray, ...]:
        """Runs on whatever holds numbers, or says what is wrong with it."""
        arrays = self._inputs.arrays(inputs)
        outputs = self._outputs.new() if out is None else self._outputs.arrays(tuple(out))
        addresses = [address_of(array) for array in (*arrays, *outputs)]
        if out is not None:
            refuse_overlaps(self._inputs, self._outputs, addresses)
        if self.built.states:
            refuse_state(self._inputs, self._outputs, addresses, scratch[-1], self.built.states)
        code = self._function(*addresses, *scratch, *fixed)
        if code != 0:
            raise self._failure(code, (*arrays, *outputs))
        return outputs

    def entry(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> tuple[int, list[int]]:
        """The address of the run function and its arguments, for a loop in C.

        The arrays must be as a call took or gave them.  The scratch memory is this thread's, so
        no other thread may use the arguments.
        """
        addresses = [array.ctypes.data for array in (*inputs, *outputs)]
        arena = self._arenas.addresses or self._arena()
        state = [self._state.address] if self._state is not None else []
        return self._address, [*addresses, *arena, *state, *self._fixed]

    def binding(self) -> tuple[int, list[int]]:
        """The address of the run function, and its last arguments: those after scratch memory.

        The list keeps the weights that it names.
        """
        return self._address, self._fixed

    @property
    def _address(self) -> int:
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def _arena(self) -> tuple[int, ...]:
        """This thread's scratch memory, all regions in whole pages of one block."""
        arenas, starts = self._arenas, self.built.starts
        if self.built.arena_bytes == 0:
            arenas.addresses = (0,) * len(starts)
        else:
            arenas.memory = fresh_memory(self.built.arena_bytes)
            address = arenas.memory.address
            arenas.addresses = tuple(address + start for start in starts)
        return arenas.addresses

    def _failure(self, code: int, arrays: Sequence[np.ndarray]) -> UserError | InternalError:
        if code == -2:
            ports = (*self.built.inputs, *self.built.outputs)
            for port, array in zip(ports, arrays, strict=True):
                if array.ctypes.data % port.dtype.bytes:
                    return UserError(
                        f"{port.name} must be aligned to its elements' {port.dtype.bytes} bytes",
                        got=f"address {array.ctypes.data:#x}",
                        fix="Copy the array.",
                    )
        return InternalError(
            f"{self.built.function} returned {code} ({_FAILURES.get(code, 'unknown')})"
        )
