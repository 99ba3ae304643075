"""The arrays of a call, as the built code takes them: in place, checked."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.errors import UserError
from weft.ir.buffers import ArrayLike, as_array
from weft.plan.program import Port, State


class Ports:
    """The inputs or the outputs of a network.

    Args:
        network: its name, for errors.
        word: ``input`` or ``output``.
        ports: in order.
    """

    def __init__(self, network: str, word: str, ports: Sequence[Port]) -> None:
        self.network, self.word, self.ports = network, word, ports
        self._wanted = [(port.dtype.numpy, port.shape) for port in ports]
        self.bytes = [dtype.itemsize * prod(shape) for dtype, shape in self._wanted]

    def new(self) -> tuple[np.ndarray, ...]:
        """New arrays, not filled."""
        return tuple([np.empty(shape, dtype) for dtype, shape in self._wanted])

    def arrays(self, given: Sequence[ArrayLike]) -> tuple[np.ndarray, ...]:
        """What is given as arrays over the same memory.

        Raises:
            UserError: there are too few or too many, or one does not fit.
        """
        if len(given) != len(self._wanted):
            names = ", ".join(port.name for port in self.ports)
            raise UserError(
                f"{self.network} has {len(self.ports)} {self.word}s: {names}",
                got=f"{len(given)} arrays",
            )
        found: Any = given  # by far the most calls give arrays, and a cast would take long
        for each in given:
            if type(each) is not np.ndarray:
                found = self._converted(given)
                break
        writes = self.word == "output"
        for array, (dtype, shape), port in zip(found, self._wanted, self.ports, strict=True):
            if array.dtype != dtype or array.shape != shape:
                raise UserError(
                    f"{self.word} {port.name} must be {port.dtype.value}{list(shape)}",
                    got=f"{array.dtype}{list(array.shape)}",
                )
            flags = array.flags
            if not flags.c_contiguous:
                raise UserError(
                    f"{self.word} {port.name} must be packed in row-major order",
                    got=f"strides {list(array.strides)}",
                    fix="Pass it through numpy.ascontiguousarray.",
                )
            if writes and not flags.writeable:
                raise UserError(f"output {port.name} must be a writeable array")
        return found

    def _converted(self, given: Sequence[ArrayLike]) -> tuple[np.ndarray, ...]:
        return tuple(
            as_array(
                each,
                f"{self.word} {port.name}",
                dtype=dtype,
                shape=shape,
                writable=self.word == "output",
            )
            for each, (dtype, shape), port in zip(given, self._wanted, self.ports, strict=True)
        )


_byte_of: Any = ctypes.c_char.from_buffer  # looked up once: calls of small networks notice


def address_of(array: np.ndarray) -> int:
    """Where the elements of a packed array lie.

    ``array.ctypes.data`` takes several times as long; arrays that are empty or only read, or
    whose type Python's buffers lack, need it.
    """
    try:
        return ctypes.addressof(_byte_of(array))
    except (TypeError, ValueError):
        return array.ctypes.data


def refuse_overlaps(inputs: Ports, outputs: Ports, addresses: Sequence[int]) -> None:
    """Refuses outputs over the memory of inputs or of one another: they would be overwritten."""
    if len(addresses) == 2 and len(inputs.ports) == 1:
        # Most networks: the loops below take longer than a small network's run.
        read, written = addresses
        if read + inputs.bytes[0] <= written or written + outputs.bytes[0] <= read:
            return
    ports, sizes = (*inputs.ports, *outputs.ports), (*inputs.bytes, *outputs.bytes)
    first = len(inputs.ports)
    for n in range(first, len(ports)):
        start, end = addresses[n], addresses[n] + sizes[n]
        for other in range(n):
            if addresses[other] < end and start < addresses[other] + sizes[other]:
                word = "input" if other < first else "output"
                raise UserError(
                    f"output {ports[n].name} must not share memory",
                    got=f"memory that it shares with {word} {ports[other].name}",
                )


def refuse_state(
    inputs: Ports, outputs: Ports, addresses: Sequence[int], memory: int, states: Sequence[State]
) -> None:
    """Refuses inputs and outputs over the memory of the state, which the run changes.

    Args:
        inputs: of the network.
        outputs: of the network.
        addresses: of the arrays for both.
        memory: the address of the state.
        states: what lies there.
    """
    ports = [(each, inputs.word) for each in inputs.ports]
    ports += [(each, outputs.word) for each in outputs.ports]
    sizes = (*inputs.bytes, *outputs.bytes)
    for (port, word), start, size in zip(ports, addresses, sizes, strict=True):
        for state in states:
            first = memory + state.offset
            if start < first + state.bytes and first < start + size:
                raise UserError(
                    f"{word} {port.name} must not share memory with the state of the run",
                    got=f"memory of {state.port.name}",
                    fix="Pass an array with memory of its own.",
                )
