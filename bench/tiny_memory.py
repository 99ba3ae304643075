"""RAM, stack and flash of the four MLPerf Tiny networks in 8 bits on a Cortex-M4, from the ELF.

    python -m bench.tiny_memory                    all of them
    python -m bench.tiny_memory --names vww        this one
    python -m bench.tiny_memory --optimize speed   another choice of kernels

RAM is the arena of the plan, and the stack: what gcc says that a run takes (`-fstack-usage`,
summed along the calls), and what a run under QEMU painted over. The caller's inputs and outputs
are not in it. It is compared with the lower bound that the plan states for its order of steps.
Flash is the difference between two programs linked by gcc -O2 with `--gc-sections`, one of which
calls the network: its code, its constants, and what it needs of the C library. It is compared
with 1.1 times the bytes of the file's quantized weights and biases, plus 25 kB.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import weft
from bench.figures import markdown
from bench.folders import models_folder
from bench.stack import BOARD, CORTEX_M4, MACHINES, painted
from weft.codegen.emit import Files
from weft.codegen.naming import STORAGE
from weft.runtime.measure import loaded_bytes

NAMES = ("ic", "kws", "vww", "ad")
SPARE, SHARE = 25_000, 1.1
RAM_SHARE = 1.05
_MACHINE = next(each for each in MACHINES if each.name == "Cortex-M4")


@dataclass(frozen=True)
class Taken:
    """What a network takes, in bytes.

    Attributes:
        name: of the network.
        arena, bound: of the plan.
        stack: by the compiler; painted: by a run.
        flash: of the linked program.
        weights: of the file: 8-bit weights, 32-bit biases.
    """

    name: str
    arena: int
    bound: int
    stack: int
    painted: int
    flash: int
    weights: int

    @property
    def ram(self) -> int:
        """Arena and stack, the larger of its two figures."""
        return self.arena + max(self.stack, self.painted)

    @property
    def allowed(self) -> int:
        """The flash that it may take."""
        return int(SHARE * self.weights) + SPARE


def weights_of(net: weft.Net) -> int:
    """Bytes of a network's weights in 8 bits, and of what is added to sums of products."""
    graph = net.graph
    added = {value for node in graph.nodes if node.op == "Add" for value in node.inputs}
    return sum(
        array.nbytes
        for name, array in graph.constants.items()
        if array.size > 1 and (array.dtype.itemsize == 1 or name in added)
    )


def flash_of(files: Files) -> int:
    """Bytes that a network adds to a linked program."""
    return _linked(files, True) - _linked(files, False)


def _linked(files: Files, called: bool) -> int:
    faces = files.interface
    ports = [*faces.inputs, *faces.outputs]
    lines = [
        f"static {STORAGE[each.port.dtype]} port{number}[{int(np.prod(each.port.shape))}];"
        for number, each in enumerate(ports)
    ]
    lines += [
        f"static unsigned char memory{number}[{each.size} + 1] __attribute__((aligned(64)));"
        for number, each in enumerate(faces.arenas)
    ]
    arguments = [f"port{number}" for number in range(len(ports))]
    arguments += [f"memory{number}" for number in range(len(faces.arenas))]
    call = f"{faces.function}({', '.join(arguments)})" if called else "0"
    main = f'#include "{files.header[0]}"\n' + "\n".join(lines if called else [])
    main += f"\nint main(void) {{ return {call}; }}\n"
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent)
        texts = [files.header, *files.private, *files.sources, ("main.c", main)]
        for name, text in texts:
            (folder / name).write_text(text)
        sources = ["main.c", str(BOARD / "startup.c"), *(name for name, _ in files.sources)]
        command = ["arm-none-eabi-gcc", *CORTEX_M4, "-O2", "-w", "-ffunction-sections"]
        command += ["-fdata-sections", "-Wl,--gc-sections", "--specs=nosys.specs", "-I."]
        command += ["-T", str(BOARD / "mps2.ld"), *sources, "-lm", "-o", "program"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        found = loaded_bytes((folder / "program").read_bytes())
    assert found is not None
    return found


def taken(name: str, net: weft.Net, optimize: str, level: str, ram: int | None = None) -> Taken:
    """What a network takes on a Cortex-M4.

    Args:
        name: of the network.
        net: as it is compiled.
        optimize: what kernels are chosen for.
        level: of the compiler's optimization.
        ram: that must suffice for arena, estimated stack, input and output.
    """
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / name
        made = net.export(folder, "cortex-m4", name=name, optimize=optimize, ram=ram)
        used, stack = painted(made.files, folder, _MACHINE, level)
        report = made.report
        return Taken(
            *(name, report.arena_bytes, report.lower_bound, stack or 0, used),
            *(flash_of(made.files), weights_of(net)),
        )


def table(rows: Sequence[Taken]) -> str:
    """The rows as text."""
    headings = ["network", "arena", "bound", "stack", "painted", "RAM", "over", "flash", "allowed"]
    lines = [
        [
            each.name,
            *(f"{value:,}" for value in (each.arena, each.bound, each.stack, each.painted)),
            f"{each.ram:,}",
            f"{each.ram / each.bound - 1:+.1%}",
            f"{each.flash:,}",
            f"{each.allowed:,}",
        ]
        for each in rows
    ]
    return "\n".join(markdown(headings, lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--names", nargs="*", default=list(NAMES))
    parser.add_argument("--optimize", default="balanced")
    parser.add_argument("--level", default="2")
    parser.add_argument("--suffix", default="tflite", choices=("tflite", "onnx"))
    parser.add_argument("--ram", type=int, help="that must suffice: rows are streamed")
    given = parser.parse_args()
    rows: list[Taken] = []
    for name in given.names:
        net = weft.load(models_folder() / "tiny" / f"{name}_int8.{given.suffix}", rounding="litert")
        rows.append(taken(name, net, given.optimize, given.level, given.ram))
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
