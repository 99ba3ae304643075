"""Many kernels as one C program, run in a process of its own under sanitizers.

Every buffer is a block of memory of exactly its size, so that the sanitizer sees both ends.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft.codegen.emit import Files, emit
from weft.loops.hoist import hoist
from weft.loops.interpret import span
from weft.loops.nodes import Access, Buffer, Kernel
from weft.plan.program import Address, CallStep, Port, Program, Region

SANITIZERS = (
    "-O0",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
"""Flags.  Unoptimized: gcc takes ever so long to optimize what it has instrumented."""

_ALIGNMENT = 64
POISON = 77
"""What the bytes of outputs are before."""
_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "NAME.h"

static const size_t sizes[] = {SIZES};

int main(int count, char **paths)
{
    void *blocks[BLOCKS];
    FILE *file = count == 3 ? fopen(paths[1], "rb") : NULL;
    if (file == NULL) {
        return 10;
    }
    for (int i = 0; i < BLOCKS; ++i) {
        if (posix_memalign(&blocks[i], ALIGNMENT, sizes[i]) != 0) {
            return 11;
        }
        memset(blocks[i], POISON, sizes[i]);
        if (i < READ && fread(blocks[i], 1, sizes[i], file) != sizes[i]) {
            return 12;
        }
    }
    fclose(file);
    int code = CALL;
    file = fopen(paths[2], "wb");
    if (file == NULL) {
        return 13;
    }
    for (int i = READ; i < BLOCKS; ++i) {
        if (fwrite(blocks[i], 1, sizes[i], file) != sizes[i]) {
            return 14;
        }
    }
    fclose(file);
    for (int i = 0; i < BLOCKS; ++i) {
        free(blocks[i]);
    }
    return code;
}
"""


@dataclass(frozen=True)
class Trial:
    """A kernel to be run.

    Attributes:
        label: says which one it is where it fails.
        kernel: with its output last.
        inputs: flat arrays, one for each parameter that is read.
    """

    label: str
    kernel: Kernel
    inputs: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class _Block:
    """Memory of one or several buffers; ``shift`` elements come before what is used."""

    port: Port
    content: np.ndarray | None
    shift: int = 0


class _Batch:
    """Collects kernels and the blocks that they are called on."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.functions: list[Kernel] = []
        self.steps: list[CallStep] = []
        self.read: list[_Block] = []
        self.written: list[_Block] = []
        self.outputs: list[int] = []
        for number, trial in enumerate(trials):
            self.add(number, trial)

    def add(self, number: int, trial: Trial) -> None:
        hoisted = hoist(trial.kernel, _ALIGNMENT)
        kernel = replace(hoisted.kernel, name=f"k{number}")
        inputs = iter(trial.inputs)
        # Values need not begin where vectors would like them to.
        shift = number % 4
        scratch = self.scratch(kernel, hoisted.offsets, hoisted.bytes)
        arguments: list[Address] = []
        for buffer in kernel.params:
            if buffer.access is Access.SCRATCH:
                arguments.append(next(scratch))
            elif buffer.access is Access.READ:
                arguments.append(self.block(buffer, next(inputs), shift))
            else:
                self.outputs.append(len(self.written))
                arguments.append(self.block(buffer, None, shift))
        self.functions.append(kernel)
        self.steps.append(CallStep(kernel.name, tuple(arguments), (trial.label,)))

    def scratch(self, kernel: Kernel, offsets: Sequence[int], size: int) -> Iterator[Address]:
        """One block that all scratch buffers of a kernel share."""
        buffers = [each for each in kernel.params if each.access is Access.SCRATCH]
        if buffers:
            bytes_each = buffers[0].dtype.bytes
            port = Port(f"s{len(self.written)}", buffers[0].dtype, (-(-size // bytes_each),))
            self.written.append(_Block(port, None))
            for offset in offsets:
                yield Address(Region.OUTPUT, port.name, offset)

    def block(self, buffer: Buffer, content: np.ndarray | None, shift: int) -> Address:
        """Memory of its own for a buffer."""
        blocks = self.written if content is None else self.read
        region = Region.OUTPUT if content is None else Region.INPUT
        name = f"{region.value}{len(blocks)}"
        blocks.append(_Block(Port(name, buffer.dtype, (shift + span(buffer),)), content, shift))
        return Address(region, name, shift * buffer.dtype.bytes)

    def program(self) -> Program:
        return Program(
            "batch",
            tuple(each.port for each in self.read),
            tuple(each.port for each in self.written),
            tuple(self.functions),
            tuple(self.steps),
            {},
            0,
        )

    def content(self) -> bytes:
        """All that is read, block after block."""
        pieces: list[bytes] = []
        for block in self.read:
            assert block.content is not None
            whole = np.zeros(block.port.shape, block.port.dtype.numpy)
            flat = block.content.reshape(-1)
            whole[block.shift :] = flat[: whole.size - block.shift]
            pieces.append(whole.tobytes())
        return b"".join(pieces)

    def results(self, written: bytes) -> list[np.ndarray]:
        """The memory of the output of every kernel."""
        found: list[np.ndarray] = []
        offset = 0
        for number, block in enumerate(self.written):
            size = block.port.shape[0] * block.port.dtype.bytes
            if number in set(self.outputs):
                memory = np.frombuffer(written[offset : offset + size], block.port.dtype.numpy)
                found.append(memory[block.shift :])
            offset += size
        return found


def poison(buffer: Buffer) -> np.generic:
    """What an element of an output is before it is written."""
    return np.frombuffer(bytes([POISON]) * buffer.dtype.bytes, buffer.dtype.numpy)[0]


def _main(files: Files, batch: _Batch) -> str:
    blocks = [*batch.read, *batch.written]
    sizes = [each.port.shape[0] * each.port.dtype.bytes for each in blocks]
    arguments = ", ".join([*(f"blocks[{place}]" for place in range(len(blocks))), "NULL"])
    values: Mapping[str, object] = {
        "NAME": files.name,
        "SIZES": ", ".join(map(str, sizes)),
        "BLOCKS": len(blocks),
        "ALIGNMENT": _ALIGNMENT,
        "POISON": POISON,
        "READ": len(batch.read),
        "CALL": f"{files.interface.function}({arguments})",
    }
    text = _MAIN
    for name, value in values.items():
        text = text.replace(name, str(value))
    return text


def run(
    trials: Sequence[Trial],
    folder: Path,
    compiler: Sequence[str],
    flags: Sequence[str] = SANITIZERS,
    flavour: str = "gnu",
    emulator: Sequence[str] = (),
) -> list[np.ndarray]:
    """The memory of every output after all kernels have run.

    Args:
        trials: the kernels.
        folder: for the sources and the program.
        compiler: command; flags: for it, beside the standard's.
        flavour: of the C.
        emulator: command that runs the program, if this machine cannot.
    """
    batch = _Batch(trials)
    files = emit(batch.program(), flavour)
    for name, text in (files.header, *files.sources, ("main.c", _main(files, batch))):
        (folder / name).write_text(text)
    (folder / "read.bin").write_bytes(batch.content())
    sources = [name for name, _ in files.sources]
    command = [*compiler, "-std=gnu11", *flags, "main.c", *sources, "-o", "main", "-lm"]
    for arguments in (command, [*emulator, "./main", "read.bin", "written.bin"]):
        done = subprocess.run(
            arguments, cwd=folder, capture_output=True, text=True, timeout=600, check=False
        )
        message = f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stderr[:6000]}"
        assert done.returncode == 0, message
    return batch.results((folder / "written.bin").read_bytes())
