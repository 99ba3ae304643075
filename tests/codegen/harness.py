"""Runs kernels through generated C: many in one program, so that one compilation does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft.codegen.emit import Files
from weft.dtypes import DType
from weft.loops.interpret import run, span
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    LoopKind,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.plan.program import Address, CallStep, Port, Program, Region
from weft.plan.work import shared_scratch, stages_of
from weft.runtime.build import build
from weft.runtime.cache import Cache
from weft.runtime.compiler import find_compiler

STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"]
STANDARDS = {"c89": "c89", "c99": "c99", "gnu": "gnu11"}


@dataclass(frozen=True)
class Case:
    """A kernel and what it reads; ``ulps`` is how far floats may be off."""

    kernel: Kernel
    arrays: Mapping[str, np.ndarray]
    ulps: float = 0


def by_vectors(
    given: Sequence[Buffer], dtype: DType, lanes: int, count: int, value: Callable[[Expr], Expr]
) -> Kernel:
    """A kernel that writes ``value(place)`` to all places of ``y``, so many lanes at a time."""
    whole = DType.I64
    at = Binary("add", Binary("mul", Var("o"), Const(lanes, whole)), Var("i"))
    store = Store("y", (at,), value(at))
    lane = For("i", Const(0, whole), Const(lanes, whole), (store,), LoopKind.VECTOR)
    outer = For("o", Const(0, whole), Const(count // lanes, whole), (lane,))
    return Kernel("k", (*given, Buffer("y", dtype, (count,), Access.WRITE)), (outer,))


def program_of(
    cases: Sequence[Case], name: str = "cases", parts: int = 1
) -> tuple[Program, np.ndarray, int]:
    """A program that calls every kernel, its input bytes and the number of output bytes.

    With several parts every kernel is cut into so many, each with scratch memory of its own.
    """
    steps: list[CallStep] = []
    functions: list[Kernel] = []
    pieces: list[tuple[int, bytes]] = []
    read = written = scratch = 0
    for number, case in enumerate(cases):
        kernel = replace(case.kernel, name=f"k{number}")
        functions.append(kernel)
        arguments: list[Address] = []
        simple = simplify_kernel(kernel)
        stages = stages_of(simple)
        cut = tuple(parts for _ in stages) if parts > 1 else (1,)
        shared = shared_scratch(simple)
        for buffer in kernel.params:
            size = span(buffer) * buffer.dtype.bytes
            if buffer.access is Access.READ:
                pieces.append((read, case.arrays[buffer.name].tobytes()))
                arguments.append(Address(Region.INPUT, "data", read))
                read += -(-size // 64) * 64
            elif buffer.access is Access.SCRATCH:
                size = -(-size // 64) * 64
                step = 0 if buffer.name in shared else size
                arguments.append(Address(Region.ARENA, "", scratch, part_bytes=step))
                scratch += parts * size
            else:
                arguments.append(Address(Region.OUTPUT, "result", written))
                written += -(-size // 64) * 64
        steps.append(CallStep(kernel.name, tuple(arguments), (f"case {number}",), cut))
    memory = np.zeros(read + 64, np.uint8)
    data = memory[-memory.ctypes.data % 64 :][:read]
    for offset, piece in pieces:
        data[offset : offset + len(piece)] = np.frombuffer(piece, np.uint8)
    program = Program(
        name,
        (Port("data", DType.U8, (read,)),),
        (Port("result", DType.U8, (written,)),),
        tuple(functions),
        tuple(steps),
        {},
        scratch,
        threads=parts,
    )
    return program, data, written


def check(
    cases: Sequence[Case],
    flavour: str,
    folder: Path,
    flags: Sequence[str] = (),
    parts: int = 1,
) -> None:
    """Asserts that generated C computes what the interpreter does."""
    program, data, written = program_of(cases, parts=parts)
    memory = np.zeros(written + 64, np.uint8)
    result = memory[-memory.ctypes.data % 64 :][:written]
    library = build(
        program,
        flavour,
        compiler=find_compiler(),
        cache=Cache(folder),
        flags=[f"-std={STANDARDS[flavour]}", *STRICT, "-O1", "-ffp-contract=off", *flags],
    )
    library(data, out=(result,))
    offset = 0
    for case in cases:
        outputs = {
            each.name: np.zeros(span(each), each.dtype.numpy)
            for each in case.kernel.params
            if each.access is not Access.READ
        }
        kept = [each.name for each in case.kernel.params if each.access is Access.WRITE]
        flat = {name: array.reshape(-1) for name, array in case.arrays.items()}
        run(case.kernel, {**flat, **outputs})
        for name in kept:
            wanted = outputs[name]
            got = result[offset : offset + wanted.nbytes].view(wanted.dtype)
            offset += -(-wanted.nbytes // 64) * 64
            problem = difference(got, wanted, case.ulps)
            assert not problem, f"{case.kernel.name} {name} ({flavour}): {problem}\n{case.kernel}"


def difference(got: np.ndarray, wanted: np.ndarray, ulps: float) -> str:
    """What is wrong with a result, or nothing."""
    if got.dtype.kind in "iub":
        bad = np.flatnonzero(got != wanted)
    else:
        with np.errstate(all="ignore"):
            near = _near(got, wanted, ulps)
        bad = np.flatnonzero(~near)
    if not bad.size:
        return ""
    return f"{bad.size} differ, first at {bad[0]}: got {got[bad[0]]!r}, wanted {wanted[bad[0]]!r}"


def _near(got: np.ndarray, wanted: np.ndarray, ulps: float) -> np.ndarray:
    left, right = got.astype(np.float64), wanted.astype(np.float64)
    both_nan = np.isnan(left) & np.isnan(right)
    same = (left == right) & (np.signbit(left) == np.signbit(right))
    if ulps:
        same |= left == right
        dtype = DType.of(got.dtype)
        unit = {DType.F64: 2.0**-52, DType.F32: 2.0**-23, DType.F16: 2.0**-10}
        epsilon = unit.get(dtype, 2.0**-7)
        smallest = {DType.F64: 1e-300, DType.F32: 1e-37, DType.F16: 6e-5}.get(dtype, 1e-37)
        same |= np.abs(left - right) <= ulps * epsilon * np.maximum(np.abs(right), smallest)
    return both_nan | same


def write(files: Files, folder: Path) -> list[Path]:
    """The files on disk; returns the sources."""
    folder.mkdir(exist_ok=True)
    for name, text in (files.header, *files.private, *files.sources):
        (folder / name).write_text(text)
    return [folder / name for name, _ in files.sources]
