"""Builds programs: generates, compiles and loads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache as once
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from weft.atomic import write_files
from weft.codegen.flavours import Dialect, flavour_named
from weft.deferred import later
from weft.ir.foreign import CXX, OBJECTS, C, Foreign, with_suffix
from weft.plan.program import Preparation, Program
from weft.reporting import announce
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compilation import Ahead, Compilation
from weft.runtime.compiler import (
    Compiler,
    compile_foreign,
    find_compiler,
    find_cxx,
    host_flags,
    link_foreign,
    link_library,
    require_vectors,
)
from weft.runtime.identity import digest_all
from weft.runtime.library import Library
from weft.runtime.memory import RunMemory, keep
from weft.runtime.record import Built, Preparing

if TYPE_CHECKING:
    from weft.codegen.blob import Blob
    from weft.codegen.emit import Files, emit
else:
    emit = later("weft.codegen.emit").emit

_JOBS = 2
# Hexadecimal digits that tell the first source of a library from those of others.
_MARK = 12
# So many functions are worth a second compiler process.
_MANY = 8


def build(
    program: Program,
    flavour: str | Dialect = "gnu",
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
    require_vectors(compiler, flavour)
    arguments = list(flags) if flags is not None else host_flags(compiler, flavour)
    parts = _JOBS if len(program.functions) >= _MANY else 1
    tools = _tools(compiler, arguments)
    name = program.name[:40]
    announce("writing C")
    with cache.folder() as folder, Compilation(compiler, arguments, folder, _JOBS) as compilation:
        ahead = Ahead(
            compilation.start,
            lambda text: f"{digest([text, *tools])[:_MARK]}-",
            lambda mark: cache.has(f"{name}-{mark}"),
        )
        files = emit(program, flavour, "blob", parts, early=ahead, share=True)
        packed = once(partial(_packed, files.blob, cache))
        path = cache.get(
            f"{name}-{ahead.mark}{_identity(files, tools)}.so",
            lambda target: _compile(files, compiler, arguments, target, compilation, packed),
        )
        weights, memory = packed()
    first = program.preparation
    built = Built(
        program.name,
        files.interface.function,
        program.inputs,
        program.outputs,
        program.arena_bytes,
        program.threads,
        path,
        files.blob is not None,
        weights,
        files.interface.open,
        program.states,
        first and _preparing(files.interface.prepare, first),
        tuple(each.start for each in program.regions),
    )
    if files.blob is None or memory is None:
        return Library(built, lambda: (program, files))
    # From here on the memory holds the weights, and the arrays that it was made from can go.
    blob = files.blob.over(memory.view())
    made = replace(program, weights=blob.weights), replace(files, blob=blob)
    return Library(built, lambda: made)


def _preparing(function: str, first: Preparation) -> Preparing:
    """What is known of a preparation when it was built."""
    return Preparing(function, first.parameters, first.bytes, first.arena_bytes, tuple(first.held))


def _tools(compiler: Compiler, flags: Sequence[str]) -> list[str]:
    """All that decides what sources become."""
    return [*flags, *compiler.command, compiler.kind, compiler.version, processor()]


def _identity(files: Files, tools: Sequence[str]) -> str:
    """A hash of all that decides what is compiled."""
    texts = [files.header, *files.private, *files.sources]
    identity = [part for name, text in texts for part in (name, text)]
    for name, data in files.foreign.files:
        identity += name, digest([data])
    identity += [*files.foreign.flags, *files.foreign.link]
    return digest([*identity, *tools])


def _compile(
    files: Files,
    compiler: Compiler,
    flags: Sequence[str],
    target: Path,
    compilation: Compilation,
    meanwhile: Callable[[], object],
) -> None:
    folder = compilation.folder
    write_files(folder, [(name, text.encode()) for name, text in [files.header, *files.private]])
    for name, text in files.sources:
        if not compilation.started(name):
            compilation.start(name, text)
    compilation.ease()
    meanwhile()
    objects = compilation.objects([name for name, _ in files.sources])
    announce("linking")
    if not files.foreign.files:
        link_library(compiler, objects, target)
        return
    found, linker = _foreign(files.foreign, compiler, flags, folder)
    link_foreign(linker, [*objects, *found], target, files.foreign.link)


def _foreign(
    foreign: Foreign, compiler: Compiler, flags: Sequence[str], folder: Path
) -> tuple[list[Path], Compiler]:
    """Objects and libraries that Weft did not write, and what links with them."""
    write_files(folder, foreign.files)
    linker, objects = compiler, list[Path]()
    for name in with_suffix(foreign, (*C, *CXX)):
        cxx = name in with_suffix(foreign, CXX)
        used = find_cxx(compiler) if cxx else compiler
        linker = used if cxx else linker
        objects.append(folder / f"{name}.o")
        compile_foreign(used, [*flags, *foreign.flags], folder / name, objects[-1], cxx)
    return objects + [folder / name for name in with_suffix(foreign, OBJECTS)], linker


def _packed(blob: Blob | None, cache: Cache) -> tuple[Path | None, RunMemory | None]:
    """The weights: their file in the cache, and the memory that runs read them from."""
    if blob is None or blob.size == 0:
        return None, None
    announce("packing weights")
    memory = RunMemory(blob.size)
    blob.fill(memory.view())
    path = cache.get(
        f"weights-{digest_all([memory.view()])}.bin",
        lambda target: write_files(target.parent, [(target.name, [memory.view()])]),
    )
    return path, keep(path, memory)
