"""Builds generated C for an emulated processor, runs it, and counts its instructions."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

import numpy as np

from weft.atomic import write_files
from weft.codegen.emit import Files
from weft.codegen.naming import STORAGE
from weft.codegen.run import step_macro, stepped_name
from weft.errors import InternalError, UserError
from weft.plan.program import Port
from weft.records import dataclass
from weft.runtime.compiler import find_compiler
from weft.runtime.emulators.machines import Machine, machine_for
from weft.runtime.emulators.symbols import Function, functions
from weft.targets.find import target
from weft.templates import filled

_BEGIN, _END = "weft_emulated_begin", "weft_emulated_end"
_MARK = "weft_emulated_mark"
_CALLER = ("main", _BEGIN, _END, _MARK)
_HERE = resources("weft.runtime.emulators")
_COLUMNS = 24

_MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include "$network"
$data
$outputs
$arenas
static void show(const void *bytes, unsigned long size)
{
    const unsigned char *const at = (const unsigned char *)bytes;
    unsigned long i;
    for (i = 0; i < size; ++i) {
        printf("%02x%s", at[i], i % 32 == 31 ? "\\n" : "");
    }
    printf("\\n");
}
__attribute__((noinline, used)) void $begin(void) { __asm__ volatile("nop"); }
__attribute__((noinline, used)) void $end(void) { __asm__ volatile("nop"); }
$stepped
int main(void)
{
    unsigned long run;
    for (run = 0; run < $runs; ++run) {
        int code;
        $begin();
        code = $function($arguments);
        $end();
        if (code != 0) {
            printf("refused %d\\n", code);
            return 1;
        }
        $steps
        $shown
    }
    return 0;
}
"""


@dataclass(frozen=True)
class Emulated:
    """What runs on an emulated processor gave.

    Attributes:
        outputs: of each run, in the network's order.
        counts: of each run: executed instructions by C function, most first. Exact; instructions,
            not cycles, as QEMU models neither pipelines nor waiting for memory. Empty
            where QEMU cannot count (``Machine.counted``).
        steps: of a further run on the same inputs, in which a call after each step of the plan
            tells them apart: the same for each step, then for what comes after the last one.
    """

    outputs: tuple[tuple[np.ndarray, ...], ...]
    counts: tuple[Mapping[str, int], ...]
    steps: tuple[tuple[Mapping[str, int], ...], ...] = ()

    @property
    def instructions(self) -> tuple[int, ...]:
        """Executed instructions of each run."""
        return tuple(sum(each.values()) for each in self.counts)


def emulated(
    files: Files,
    runs: Sequence[Sequence[np.ndarray]],
    name: str,
    *,
    optimization: str = "-O2",
    timeout: float = 600.0,
    steps: bool = False,
) -> Emulated:
    """Runs a network on an emulated processor.

    Args:
        files: its C for that target, weights in arrays, for one thread.
        runs: for each run the inputs in the network's order.
        name: the target: a key of ``MACHINES``.
        optimization: the compiler's level.
        timeout: seconds that all runs may take.
        steps: whether to count each step; the files need ``Files.stepped``.

    Raises:
        UserError: the target is not emulated, a program is missing, the network needs what the
            emulated program lacks, or does not run.
    """
    machine = machine_for(name)
    _check(files)
    with tempfile.TemporaryDirectory(prefix="weft-emulated-") as path:
        folder = Path(path)
        program = _built(files, runs, machine, name, optimization, folder, steps)
        named = functions(program)
        text = _run(machine, program, named, folder, timeout)
        counts = _counts(folder / "counts", named) if machine.counted else None
    outputs = tuple(_outputs(text, files, len(runs)))
    if counts is None:
        return Emulated(outputs, ())
    each, wrong = divmod(len(counts), len(runs))
    if wrong or not each or (each > 1) != steps:
        raise InternalError(f"{len(counts)} parts of {len(runs)} runs were counted")
    parts = [counts[at : at + each] for at in range(0, len(counts), each)]
    own = tuple(part[1:] for part in parts) if steps else ()
    return Emulated(outputs, tuple(part[0] for part in parts), own)


def _check(files: Files) -> None:
    faces = files.interface
    for what, wrong in (
        ("weights in the C (--weights arrays)", files.blob is not None),
        ("no parameters at run time", bool(faces.prepare)),
        ("no state", bool(faces.reset)),
        ("one thread", files.threads > 1),
        ("no foreign sources", bool(files.foreign.files)),
    ):
        if wrong:
            raise UserError(f"an emulated network has {what}", got=files.name)


# --- the program ----------------------------------------------------------------------------


def _built(
    files: Files,
    runs: Sequence[Sequence[np.ndarray]],
    machine: Machine,
    name: str,
    optimization: str,
    folder: Path,
    steps: bool,
) -> Path:
    """Compiles and links the network with a main function that runs it."""
    texts = [files.header, *files.private, *files.sources]
    texts.append(("emulated_main.c", main_text(files, runs, steps)))
    # A main function that tells steps apart includes the first source.
    sources = ["emulated_main.c", *(file for file, _ in files.sources[1 if steps else 0 :])]
    flags = [*(target(name).flags if machine.own_flags else ()), *machine.flags]
    if machine.memories:
        script = filled(_HERE.joinpath("board.ld").read_text(), machine.memories)
        texts += [("board.ld", script), ("startup.c", _HERE.joinpath("startup.c").read_text())]
        sources.append("startup.c")
        flags += ["-T", "board.ld"]
    write_files(folder, [(file, text.encode()) for file, text in texts])
    program = folder / "emulated.elf"
    command = [*machine.command, *flags, optimization, "-w", "-I.", *sources, "-lm"]
    done = subprocess.run(
        [*command, "-o", program.name], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(
            f"the network does not build for {name}",
            got=done.stderr.strip()[-2000:],
            fix="Use a network that fits the emulated board's memories.",
        )
    return program


def main_text(files: Files, runs: Sequence[Sequence[np.ndarray]], steps: bool = False) -> str:
    """C that runs a network on given inputs and prints the bytes of its outputs."""
    faces = files.interface
    if steps and not files.stepped:
        raise InternalError(f"{files.name} was written without its steps")
    arenas = [
        f"static unsigned char memory_{number}[{each.size} + 1]"
        f" __attribute__((aligned({faces.prefix}_ARENA_ALIGNMENT)));"
        for number, each in enumerate(faces.arenas)
    ]
    outputs = [_output(number, each.port) for number, each in enumerate(faces.outputs)]
    sizes = [max(1, array.size) for array in runs[0]]
    arguments = [
        f"(const {STORAGE[each.port.dtype]} *)input_{number} + run * {sizes[number]}ul"
        for number, each in enumerate(faces.inputs)
    ]
    arguments += [f"output_{number}" for number in range(len(outputs))]
    arguments += [f"memory_{number}" for number in range(len(arenas))]
    shown = [f"show(output_{at}, sizeof output_{at});" for at in range(len(outputs))]
    data = [
        line
        for number in range(len(faces.inputs))
        for line in _input(number, [np.ascontiguousarray(run[number]) for run in runs])
    ]
    return filled(
        _MAIN,
        {
            "network": files.sources[0][0] if steps else files.header[0],
            "stepped": _stepped(files) if steps else "",
            "data": "\n".join(data),
            "outputs": "\n".join(outputs),
            "arenas": "\n".join(arenas),
            "begin": _BEGIN,
            "end": _END,
            "runs": len(runs),
            "function": faces.function,
            "arguments": ", ".join(arguments),
            "steps": f"{_BEGIN}(); {stepped_name(faces)}({', '.join(arguments)}); {_END}();"
            if steps
            else "",
            "shown": "\n".join(shown),
        },
    )


def _stepped(files: Files) -> str:
    """The run function with a mark after each step, which ends a count and begins another."""
    return (
        f"__attribute__((noinline, used)) void {_MARK}(void) {{ {_END}(); {_BEGIN}(); }}\n"
        f"#define {step_macro(files.interface)}(step) {_MARK}()\n{files.stepped}"
    )


def _output(number: int, port: Port) -> str:
    count = max(1, int(np.prod(port.shape)))
    return f"static {STORAGE[port.dtype]} output_{number}[{count}] __attribute__((aligned(16)));"


def _input(number: int, arrays: Sequence[np.ndarray]) -> Iterator[str]:
    """One input of all runs as bytes, which no dialect rounds."""
    data = b"".join(array.tobytes() for array in arrays) or b"\0"
    yield f"static const unsigned char input_{number}[] __attribute__((aligned(16))) = {{"
    for at in range(0, len(data), _COLUMNS):
        yield "".join(f"{byte}," for byte in data[at : at + _COLUMNS])
    yield "};"


# --- the run --------------------------------------------------------------------------------


@cache
def _counter() -> Path:
    """The plugin that counts, built once a process."""
    folder = Path(tempfile.mkdtemp(prefix="weft-counter-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    source, library = folder / "counter.c", folder / "counter.so"
    write_files(folder, [(source.name, _HERE.joinpath("counter.c").read_bytes())])
    flags = ("-O2", "-shared", "-fPIC", "-w")
    command = [*find_compiler().command, *flags, "-o", str(library), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError("QEMU's counter must build on this machine", got=done.stderr.strip())
    return library


def _run(
    machine: Machine, program: Path, named: Sequence[Function], folder: Path, timeout: float
) -> str:
    """What the program prints; the counts lie in the folder then."""
    table = folder / "functions"
    ranges = "".join(f"{each.begin:x} {each.end:x}\n" for each in named)
    write_files(folder, [(table.name, ranges.encode())])
    at = {each.name: f"{each.begin:x}" for each in named}
    plugin = (
        ()
        if not machine.counted
        else (
            "-plugin",
            (
                f"{_counter()},functions={table},begin={at[_BEGIN]},end={at[_END]}"
                f",counts={folder / 'counts'}"
            ),
        )
    )
    kernel = ("-kernel",) if machine.memories else ()
    command = [*machine.emulator, *plugin, *kernel, str(program)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            "an emulated network must end in time", got=f"{timeout:g} s", fix="Give it more."
        ) from None
    if done.returncode:
        got = f"exit status {done.returncode}: {(done.stdout + done.stderr).strip()[-500:]}"
        raise UserError("the emulated network failed", got=got)
    return done.stdout


def _counts(path: Path, named: Sequence[Function]) -> tuple[Mapping[str, int], ...]:
    """Instructions of each run by function, without those of the caller."""
    names = ["", *(each.name for each in named)]
    found: list[Mapping[str, int]] = []
    for line in path.read_text().splitlines():
        pairs = zip(names, map(int, line.split()), strict=True)
        kept = {name: count for name, count in pairs if count and name not in _CALLER}
        found.append(dict(sorted(kept.items(), key=lambda pair: -pair[1])))
    return tuple(found)


def _outputs(text: str, files: Files, runs: int) -> Iterator[tuple[np.ndarray, ...]]:
    data, at = bytes.fromhex(text), 0
    for _ in range(runs):
        arrays: list[np.ndarray] = []
        for each in files.interface.outputs:
            dtype, shape = each.port.dtype.numpy, each.port.shape
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape).copy())
            at += max(1, count) * dtype.itemsize
        yield tuple(arrays)
