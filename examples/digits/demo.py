"""Exports digits.onnx as a toolkit, builds it, runs it on the held-out digits and reports.

`make demo` calls it.  What runs is the exported C, built with the compiler that is found: the
system's, else the one of the `ziglang` package.
"""

from __future__ import annotations

import ctypes
import textwrap
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from data import split

import weft
from weft.codegen.emit import Files
from weft.plan.report import size
from weft.runtime.compiler import (
    Compiler,
    compile_object,
    find_compiler,
    host_flags,
    link_library,
)
from weft.runtime.timing import Loop, Timing, from_python, measure

HERE = Path(__file__).parent
TOOLKIT = HERE.parents[1] / "build" / "digits"
SECONDS = 0.1


@dataclass(frozen=True)
class Built:
    """The exported C, built as a shared library.

    Attributes:
        compiler: what built it.
        seconds: how long that took.
        library: where it is.
    """

    compiler: Compiler
    seconds: float
    library: Path


def build(files: Files, folder: Path) -> Built:
    """Compiles the sources of the toolkit."""
    compiler = find_compiler()
    source, library = folder / files.sources[0][0], folder / "libdigits.so"
    start = time.perf_counter()
    compile_object(compiler, host_flags(compiler, files.flavour), source, source.with_suffix(".o"))
    link_library(compiler, [source.with_suffix(".o")], library)
    seconds = time.perf_counter() - start
    return Built(compiler, seconds, library)


class Digits:
    """The C function, called in place on NumPy's memory."""

    def __init__(self, library: Path, arena_bytes: int) -> None:
        self.run = ctypes.CDLL(str(library))["digits_run"]
        self.run.argtypes = [ctypes.c_void_p] * 3
        memory = np.empty(arena_bytes + 64, np.uint8)
        self.arena = memory[-memory.ctypes.data % 64 :]

    def scores(self, images: np.ndarray) -> np.ndarray:
        found = np.empty((len(images), 10), np.float32)
        for image, row in zip(images, found, strict=True):
            if self.run(image.ctypes.data, row.ctypes.data, self.arena.ctypes.data) != 0:
                raise SystemExit("digits_run refused its arguments")
        return found

    def latency(self, image: np.ndarray) -> tuple[Timing, Timing]:
        """The time of one run called from C, and called from Python."""
        row = np.empty(10, np.float32)
        arguments = (image.ctypes.data, row.ctypes.data, self.arena.ctypes.data)
        function = ctypes.cast(self.run, ctypes.c_void_p).value or 0
        loop = Loop(function, arguments, (image, row))
        from_c = measure(loop.timer, SECONDS)
        return from_c, measure(from_python(partial(self.run, *arguments)), SECONDS)


def right(scores: np.ndarray, labels: np.ndarray) -> str:
    count = int((scores.argmax(axis=1) == labels).sum())
    return f"{count} of {len(labels)} right ({100 * count / len(labels):.2f} %)"


def main() -> None:
    _, (images, labels) = split()
    net = weft.load(HERE / "digits.onnx")
    figures = net.simplified().stats()
    toolkit = net.export(TOOLKIT, "host", inputs=[images[:1]], model="digits.onnx")
    names = ", ".join(sorted(each.name for each in TOOLKIT.iterdir()))
    files, planned = toolkit.files, toolkit.report
    built = build(files, TOOLKIT)
    digits = Digits(built.library, planned.arena_bytes)

    scores = digits.scores(images)
    expected = np.concatenate([net.reference(image[None])[0] for image in images])
    gap = float(np.abs(scores - expected).max())
    span = float(expected.max() - expected.min())

    in_c, in_python = digits.latency(images[0])
    shown = TOOLKIT.relative_to(Path.cwd()) if TOOLKIT.is_relative_to(Path.cwd()) else TOOLKIT
    lines = {
        "network": f"{figures.parameters:,} parameters, {figures.macs:,} multiply-accumulates",
        "built": f"in {built.seconds:.1f} s by {built.compiler.version}",
        "compiled C": right(scores, labels),
        "reference": right(expected, labels),
        "difference": f"at most {gap:.1e}, {gap / span:.1e} of the scores' range",
        "latency": f"{in_c.median:.2f} µs called from C, {in_python.median:.2f} µs called from "
        "Python; one thread",
        "arena": f"{size(planned.arena_bytes)}; no placement could do with less than "
        f"{size(planned.lower_bound)}",
        "flash": f"{size(toolkit.flash_bytes)}, of which weights {size(planned.weight_bytes)}",
        "stack": f"{size(files.stack_bytes)}, "
        f"{'measured' if files.stack.compiler else 'an estimate'}; "
        "`make stack` in the toolkit measures other builds",
        "toolkit": f"{shown} (`make test` there checks it anywhere): {names}",
    }
    for name, text in lines.items():
        print(textwrap.fill(f"{name:12}{text}", 92, subsequent_indent=" " * 12))


if __name__ == "__main__":
    main()
