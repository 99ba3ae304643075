"""Run a program by the loop interpreter: what generated code must agree with.

Everything happens at the program's own addresses, so a plan that lets two live values
overlap gives wrong results here as it would in C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

import numpy as np

from weft.errors import InternalError
from weft.loops.interpret import run as run_kernel
from weft.loops.nodes import Buffer, Kernel
from weft.plan.program import Address, CallStep, Preparation, Program, ProgramStep, Region, Repeat

POISON = 0xA5
"""What fresh memory is filled with."""


class _Machine:
    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, np.ndarray],
        state: np.ndarray | None,
        parameters: Mapping[str, np.ndarray],
    ) -> None:
        self.functions = {function.name: function for function in program.functions}
        self.memory: dict[tuple[Region, str], np.ndarray] = {
            (Region.ARENA, each.name): np.full(each.bytes, POISON, np.uint8)
            for each in program.regions
        }
        if state is None:
            state = np.zeros(program.state_bytes, np.uint8)
        self.memory[Region.STATE, ""] = state
        for name, array in program.weights.items():
            self.memory[Region.WEIGHTS, name] = _bytes(array)
        if program.preparation is not None:
            self.prepare(program.preparation, parameters)
        for port in program.inputs:
            self.memory[Region.INPUT, port.name] = _bytes(inputs[port.name])
        for port in program.outputs:
            size = prod(port.shape) * port.dtype.bytes
            self.memory[Region.OUTPUT, port.name] = np.full(size, POISON, np.uint8)

    def prepare(self, first: Preparation, parameters: Mapping[str, np.ndarray]) -> None:
        self.memory[Region.PREPARED, ""] = np.full(first.bytes, POISON, np.uint8)
        for port in first.parameters:
            self.memory[Region.INPUT, port.name] = _bytes(parameters[port.name])
            if port.name in first.held:
                self.memory[Region.HELD, port.name] = self.memory[Region.INPUT, port.name]
        arenas = dict(self.memory)
        self.memory[Region.ARENA, ""] = np.full(first.arena_bytes, POISON, np.uint8)
        self.run(first.steps, {})
        self.memory |= arenas

    def window(self, buffer: Buffer, address: Address, loops: Mapping[str, int]) -> np.ndarray:
        offset = address.offset + sum(
            advance.bytes * loops[advance.var] for advance in address.advances
        )
        steps = zip(buffer.shape, buffer.steps, strict=True)
        last = sum((extent - 1) * step for extent, step in steps)
        size = 0 if 0 in buffer.shape else (last + 1) * buffer.dtype.bytes
        memory = self.memory[address.region, address.name]
        if offset < 0 or offset + size > memory.size:
            raise InternalError(
                f"{buffer.name} of {size} bytes at {offset} leaves {address.region.value} "
                f"{address.name} of {memory.size} bytes"
            )
        return memory[offset : offset + size].view(buffer.dtype.numpy)

    def run(self, steps: Sequence[ProgramStep], loops: Mapping[str, int]) -> None:
        for step in steps:
            match step:
                case Repeat(var, count, body):
                    for iteration in range(count):
                        self.run(body, {**loops, var: iteration})
                case CallStep(name, arguments):
                    kernel = self.functions[name]
                    if not isinstance(kernel, Kernel):
                        raise InternalError(f"{name} is C, which cannot be interpreted")
                    run_kernel(
                        kernel,
                        {
                            buffer.name: self.window(buffer, address, loops)
                            for buffer, address in zip(kernel.params, arguments, strict=True)
                        },
                    )


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def run(
    program: Program,
    inputs: Mapping[str, np.ndarray],
    state: np.ndarray | None = None,
    parameters: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> dict[str, np.ndarray]:
    """The outputs of a program without extern functions, by port name.

    Args:
        program: what to run.
        inputs: by port name.
        state: bytes that are handed from run to run, changed in place; zeros if not given.
        parameters: by name, where they are given at run time.
    """
    machine = _Machine(program, inputs, state, parameters)
    machine.run(program.steps, {})
    return {
        port.name: machine.memory[Region.OUTPUT, port.name]
        .view(port.dtype.numpy)
        .reshape(port.shape)
        for port in program.outputs
    }
