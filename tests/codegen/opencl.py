"""Runs programs in OpenCL C, many in one kernel: each is compiled once more when launched."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.codegen.launch import device_program
from weft.codegen.opencl import OPENCL
from weft.dtypes import DType
from weft.plan.program import (
    Address,
    CallStep,
    Function,
    Port,
    Program,
    ProgramStep,
    Region,
    Repeat,
)

ALIGNMENT = 64


@dataclass(frozen=True)
class Device:
    """PyOpenCL, and a context on the first device."""

    cl: Any
    context: Any

    def built(self, source: str, options: Sequence[str] = ()) -> Any:
        """A program for the device, whose compiler may have remarks."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self.cl.CompilerWarning)
            return self.cl.Program(self.context, source).build(list(options))


SYSTEM = Path("/etc/OpenCL/vendors/pocl.icd")
"""The system's PoCL: its compiler knows processors that the one of the wheel does not."""


def open_device(folder: Path) -> Device:
    """The first OpenCL device; where there is none, CI fails, others skip.

    Args:
        folder: where PoCL keeps what it compiles.
    """
    os.environ["POCL_CACHE_DIR"] = str(folder)
    if SYSTEM.is_file():
        os.environ.setdefault("OCL_ICD_VENDORS", str(SYSTEM))
    required = os.environ.get("WEFT_OPENCL") == "required"
    cl: Any = import_module("pyopencl") if required else pytest.importorskip("pyopencl")
    try:
        devices = [each for platform in cl.get_platforms() for each in platform.get_devices()]
        context = cl.Context(devices[:1])
        device = Device(cl, context)
        device.built("__kernel void nothing(void) {}")
        return device
    except cl.Error as error:
        if "unknown target CPU" in str(error):
            pytest.skip(
                "this PoCL's compiler does not know this processor; apt-get install "
                "pocl-opencl-icd may have a newer one"
            )
        if required:
            raise
        pytest.skip(f"no OpenCL device (pip install 'pyopencl[pocl]' brings one): {error}")


@dataclass(frozen=True)
class Place:
    """Where the ports of one of the programs lie: by region and name, the offset in bytes."""

    program: Program
    offsets: Mapping[tuple[Region, str], int]

    def address(self, address: Address, number: int) -> Address:
        """An address of the program as one of the whole."""
        match address.region:
            case Region.INPUT | Region.OUTPUT:
                base = self.offsets[address.region, address.name]
                whole = "data" if address.region is Region.INPUT else "result"
                return replace(address, name=whole, offset=base + address.offset)
            case Region.WEIGHTS:
                return replace(address, name=f"s{number}_{address.name}")
            case _:
                return address

    def steps(self, steps: Sequence[ProgramStep], number: int) -> tuple[ProgramStep, ...]:
        """Steps of the program as steps of the whole."""
        found: list[ProgramStep] = []
        for step in steps:
            if isinstance(step, Repeat):
                found.append(replace(step, body=self.steps(step.body, number)))
                continue
            arguments = tuple(self.address(each, number) for each in step.arguments)
            found.append(CallStep(f"s{number}_{step.function}", arguments, (), step.parts))
        return tuple(found)

    def functions(self, number: int) -> tuple[Function, ...]:
        """The functions, with names that no other program has."""
        return tuple(
            replace(each, name=f"s{number}_{each.name}") for each in self.program.functions
        )


def together(programs: Sequence[Program]) -> tuple[Program, list[Place]]:
    """Programs, one after the other, as one whose ports hold all of theirs."""
    sizes = {Region.INPUT: 0, Region.OUTPUT: 0}
    places: list[Place] = []
    for program in programs:
        offsets: dict[tuple[Region, str], int] = {}
        for region, ports in ((Region.INPUT, program.inputs), (Region.OUTPUT, program.outputs)):
            for port in ports:
                offsets[region, port.name] = sizes[region]
                bytes = int(np.prod(port.shape, dtype=np.int64)) * port.dtype.bytes
                sizes[region] += -(-bytes // ALIGNMENT) * ALIGNMENT
        places.append(Place(program, offsets))
    whole = Program(
        "samples",
        (Port("data", DType.U8, (sizes[Region.INPUT],)),),
        (Port("result", DType.U8, (sizes[Region.OUTPUT],)),),
        tuple(each for number, place in enumerate(places) for each in place.functions(number)),
        tuple(
            step
            for number, place in enumerate(places)
            for step in place.steps(place.program.steps, number)
        ),
        {
            f"s{number}_{name}": array
            for number, place in enumerate(places)
            for name, array in place.program.weights.items()
        },
        max(each.arena_bytes for each in programs),
    )
    return whole, places


def run(
    device: Device,
    programs: Sequence[Program],
    inputs: Sequence[Mapping[str, np.ndarray]],
    optimized: bool = True,
) -> list[dict[str, np.ndarray]]:
    """The outputs of programs on a device.

    Args:
        device: with doubles.
        programs: of kernels.
        inputs: of each, by name.
        optimized: whether the device's compiler optimizes, which takes most of the time.
    """
    whole, places = together(programs)
    data = np.zeros(max(1, *(port.shape[0] for port in whole.inputs)), np.uint8)
    for place, arrays in zip(places, inputs, strict=True):
        for name, array in arrays.items():
            if (Region.INPUT, name) in place.offsets:
                piece = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
                first = place.offsets[Region.INPUT, name]
                data[first : first + piece.size] = piece
    result = _launched(device, whole, data, optimized)
    found: list[dict[str, np.ndarray]] = []
    for place in places:
        outputs: dict[str, np.ndarray] = {}
        for port in place.program.outputs:
            first, count = place.offsets[Region.OUTPUT, port.name], int(np.prod(port.shape))
            piece = result[first : first + count * port.dtype.bytes]
            outputs[port.name] = piece.view(port.dtype.numpy).reshape(port.shape)
        found.append(outputs)
    return found


def _launched(device: Device, program: Program, data: np.ndarray, optimized: bool) -> np.ndarray:
    """The bytes of the only output."""
    cl, context = device.cl, device.context
    made = device_program(program, OPENCL)
    options = [f"-cl-std={OPENCL.standard}", "-cl-fp32-correctly-rounded-divide-sqrt"]
    if not optimized:
        options.append("-cl-opt-disable")
    kernel = cl.Kernel(device.built(made.source, options), made.kernel)
    weights = np.frombuffer(made.weights.tobytes() or b"\0", np.uint8)
    result = np.zeros(max(1, program.outputs[0].shape[0]), np.uint8)
    contents = {
        Region.INPUT: data,
        Region.OUTPUT: result,
        Region.WEIGHTS: weights,
        Region.ARENA: np.zeros(max(1, program.arena_bytes), np.uint8),
    }
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = {each: cl.Buffer(context, flags, hostbuf=array) for each, array in contents.items()}
    arguments = [buffers[region] for region, _ in made.memory]
    queue = cl.CommandQueue(context)
    for launch in made.launches:
        kernel(queue, (launch.items,), (1,), *map(np.int32, launch.numbers), *arguments)
    cl.enqueue_copy(queue, result, buffers[Region.OUTPUT])
    return result
