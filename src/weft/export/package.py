"""The C library of a network: sources, CMake package, weights, examples, and perhaps binaries."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from weft.atomic import replacing_folder, write_files
from weft.cached import cached_property
from weft.codegen.emit import Files
from weft.codegen.interface import Interface, run_parameters
from weft.codegen.naming import STORAGE, CNames, comment_text
from weft.errors import UserError
from weft.export.exports import rendered
from weft.export.toolkit import check_folder
from weft.plan.report import size
from weft.records import dataclass
from weft.runtime.cache import digest
from weft.runtime.compiler import Compiler, archive_library, compile_object, link_library
from weft.runtime.threads import pool_texts

MARKER = "library.json"
"""The file that says that a folder is such a library."""
WeightsPlace: TypeAlias = Literal["file", "inside"]
_HEAD_BYTES = 64
_TEMPLATES = {
    "CMakeLists.txt": "CMakeLists.txt.jinja",
    "README.md": "README.md.jinja",
    "include/weft_{name}.h": "library.h.jinja",
    "src/weft_{name}.c": "library.c.jinja",
    "src/{name}.map": "symbols.map.jinja",
    "cmake/weft_{name}Config.cmake.in": "Config.cmake.in.jinja",
    "cmake/weft_{name}.pc.in": "pc.in.jinja",
    "examples/CMakeLists.txt": "examples.cmake.jinja",
    "examples/example.c": "example.c.jinja",
    "examples/example.cpp": "example.cpp.jinja",
    "examples/example.py": "example.py.jinja",
}


@dataclass(frozen=True)
class CLibrary:
    """What a C library is made of.

    Attributes:
        files: the generated C, in one source, its weights a blob.
        model: what was compiled, for people.
        target: name of the target.
        flags: for each kind of compiler, ``gcc``, ``clang``, ``zig`` and ``other``.
        prepared: the weights that the preparation made of the parameters, if there is one.
        inside: whether weights are part of the library, not a file of their own.
        version: ``MAJOR.MINOR.PATCH``; the first number is that of the interface (ABI).
        inputs: of the examples.
        outputs: what the examples must then give, if that is known.
        compiler: builds the library at once; the package has its sources only if there is none.
    """

    files: Files
    model: str
    target: str
    flags: Mapping[str, Sequence[str]]
    prepared: bytes = b""
    inside: bool = False
    version: str = "1.0.0"
    inputs: Sequence[np.ndarray] = ()
    outputs: Sequence[np.ndarray] = ()
    compiler: Compiler | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", self.version):
            raise UserError("version must be MAJOR.MINOR.PATCH", got=repr(self.version))
        if self.files.foreign.files:
            raise UserError(
                "a C library has no kernels of plugins", fix="Use `weft export` for this network."
            )

    @property
    def name(self) -> str:
        """Prefix of everything public."""
        return self.files.name

    @cached_property
    def data(self) -> bytes:
        """The weights: those that the network was compiled with, then those prepared."""
        blob = self.files.blob.tobytes() if self.files.blob is not None else b""
        return blob + bytes(-len(blob) % _HEAD_BYTES) + self.prepared

    @cached_property
    def head(self) -> bytes:
        """What the weights' file begins with: it fits only the code that was made with it."""
        texts = [text for _, text in (self.files.header, *self.files.sources)]
        return f"weft weights {digest(texts)[:32]} {len(self.data)}".encode()

    def facts(self) -> dict[str, Any]:
        """What the templates speak of."""
        files, interface = self.files, self.files.interface
        parameters = run_parameters(interface)
        context = CNames(name for _, name in parameters).fresh("context")
        names = {
            each.name: f"{context}->arena.start + {each.arena.start}".removesuffix(" + 0")
            for each in interface.arenas
        }
        if interface.state:
            names[interface.state] = f"{context}->state.start"
        if interface.weights:
            names[interface.weights] = f"{context}->weights->data"
        if interface.prepared:
            at = len(self.data) - len(self.prepared)
            names[interface.prepared] = f"{context}->weights->data + {at}"
        if interface.threads:
            names[interface.threads] = f"&{context}->weights->threads"
        ports = _ports(interface)
        inputs, outputs = ports[: len(interface.inputs)], ports[len(interface.inputs) :]
        types = "; ".join(f"{each['name']} {each['dtype']}[{each['shape']}]" for each in inputs)
        types += "; " + "; ".join(f"{p['name']} {p['dtype']}[{p['shape']}]" for p in outputs)
        return {
            "name": self.name,
            "prefix": interface.prefix,
            "model": comment_text(self.model),
            "target": self.target,
            "version": self.version,
            "abi": int(self.version.split(".")[0]),
            "signature": zlib.crc32(types.encode()),
            "inside": self.inside,
            "inputs": inputs,
            "outputs": outputs,
            "ports": ports,
            "call_parameters": ", ".join(
                f"{type}{name}" for type, name in parameters if name not in names
            ),
            "call_names": ", ".join(port["array"] for port in ports),
            "context": context,
            "run": interface.function,
            "run_arguments": ", ".join(names.get(name, name) for _, name in parameters),
            "reset": interface.reset,
            "state": bool(interface.state),
            "pool": files.threads > 1,
            "threads": files.threads,
            "renamed": [f"{name}={self.name}_{name[5:]}" for name in _POOL],
            "source": files.sources[0][0],
            "alignment": max(_HEAD_BYTES, 64),
            "data_bytes": len(self.data),
            "head": self.head.decode(),
            "head_bytes": _HEAD_BYTES * 2,
            "arena_bytes": sum(each.arena.bytes for each in interface.arenas),
            "arena_sizes": " + ".join(f"(size_t){each.size}" for each in interface.arenas),
            "flags": {kind: " ".join(flags) for kind, flags in self.flags.items()},
            "native": "-march=native" in self.flags["gcc"],
            "files": len(inputs) + len(outputs) + (not self.inside),
            "first": 1 + (not self.inside),
            "built": str(self.compiler) if self.compiler else "",
            "size": size,
        }


_POOL = ("weft_pool_new", "weft_pool_run", "weft_pool_free")


_OF_EXAMPLES = (
    "FILE Context Weights check clearerr context context_of count data done error "
    "fclose feof ferror fflush fgetc fgetpos fgets file files fine fopen fprintf fputc fputs fread "
    "freopen fscanf fseek fsetpos ftell fwrite getc getchar load path perror putc putchar read "
    "rewind setbuf setvbuf snprintf sprintf sscanf status std stderr stdin stdout tmpfile tmpnam "
    "transfer ungetc vfprintf vprintf vsprintf weights write"
).split()
"""What means something else where the callers in C and C++ have arrays."""


def _ports(interface: Interface) -> list[dict[str, Any]]:
    """Inputs and outputs; names of macros and files differ in more than case."""
    macros, files, arrays = CNames(), CNames(), CNames(_OF_EXAMPLES)
    found: list[dict[str, Any]] = []
    for each in interface.ports:
        file = files.fresh(each.name.lower())
        found.append(
            {
                "name": each.name,
                "title": comment_text(each.port.name),
                "dtype": each.port.dtype.value,
                "ctype": STORAGE[each.port.dtype],
                "shape": "x".join(map(str, each.port.shape)),
                "count": max(1, prod(each.port.shape)),
                "bytes": max(1, prod(each.port.shape)) * each.port.dtype.numpy.itemsize,
                "length": macros.fresh(f"{interface.prefix}_{each.name.upper()}_LENGTH"),
                "file": each.name if file == each.name.lower() else file,
                "array": arrays.fresh(each.name),
            }
        )
    return found


def write_library(library: CLibrary, folder: Path) -> list[str]:
    """Writes a C library: all of its files, or nothing where something fails.

    Args:
        library: what to write.
        folder: where; must be absent, empty, or an earlier library, which is replaced.

    Returns:
        Names of the files written.
    """
    check_folder(folder, MARKER, "C library")
    with replacing_folder(folder) as fresh:
        names = write_files(fresh, _content(library))
        if library.compiler is not None:
            names += _build(library, fresh, library.compiler)
        return sorted(names)


def _content(library: CLibrary) -> Iterator[tuple[str, bytes]]:
    facts, files = library.facts(), library.files
    for name, template in _TEMPLATES.items():
        yield name.format(name=files.name), rendered(f"package/{template}", facts).encode()
    yield f"include/{files.header[0]}", files.header[1].encode()
    sources = [*files.private, *files.sources, *(pool_texts() if files.threads > 1 else ())]
    for name, text in sources:
        yield f"src/{name}", text.encode()
    sums = _sums(library.data)
    head = library.head.ljust(facts["head_bytes"] - len(sums), b"\0") + sums
    yield f"share/{files.name}.weights", head + library.data
    for ports, arrays, ending in (
        (facts["inputs"], library.inputs, "bin"),
        (facts["outputs"], library.outputs, "out"),
    ):
        for port, array in zip(ports, arrays, strict=False):
            yield f"examples/{port['file']}.{ending}", np.ascontiguousarray(array).tobytes()
    record = {key: facts[key] for key in ("name", "model", "target", "version", "abi", "signature")}
    record |= {"threads": files.threads, "weights_bytes": len(library.data)}
    yield MARKER, (json.dumps(record, indent=2) + "\n").encode()


def _sums(data: bytes) -> bytes:
    """The sum of the 8-byte words of the data, and of bytes at its end, and the sum of all sums.

    One damaged bit changes the first, and two words that changed places the second.
    """
    words = np.frombuffer(data, "<u8", len(data) // 8)
    rest = np.frombuffer(data, np.uint8, offset=len(words) * 8).astype("<u8")
    first = second = np.zeros(1, "<u8")
    for part in (*np.split(words, range(1 << 20, len(words), 1 << 20)), rest):
        count = np.arange(len(part), 0, -1, dtype="<u8")
        second = second + first * np.uint64(len(part)) + (part * count).sum(dtype="<u8")
        first = first + part.sum(dtype="<u8")
    return first.tobytes() + second.tobytes()


def _build(library: CLibrary, folder: Path, compiler: Compiler) -> list[str]:
    """Builds both libraries in the folder of the sources, as the CMake package does."""
    facts, name, made = library.facts(), library.name, folder / "lib"
    made.mkdir()
    # Compilers run in the folder of what they read; of a path from the root, linkers split at
    # commas, and the C that names the weights would end at a quote.
    flags = [*library.flags[compiler.kind], "-I../include", "-I."]
    if facts["pool"]:
        flags += ["-pthread", *(f"-D{each}" for each in facts["renamed"])]
    if library.inside:
        flags.append(f'-D{facts["prefix"]}_WEIGHTS_FILE="../share/{name}.weights"')
    sources = [facts["source"], f"weft_{name}.c", *(["weft_pool.c"] if facts["pool"] else [])]
    objects = [made / f"{source}.o" for source in sources]
    for source, target in zip(sources, objects, strict=True):
        own = ["-std=gnu11"] if source == "weft_pool.c" else []
        compile_object(compiler, [*flags, *own], folder / "src" / source, target)
    shared = f"lib{name}.so.{facts['abi']}"
    linked = [f"-Wl,-soname,{shared}", f"-Wl,--version-script=../src/{name}.map"]
    linked += ["-pthread"] if facts["pool"] else []
    link_library(compiler, objects, made / shared, linked)
    (made / f"lib{name}.so").symlink_to(shared)
    archive_library(compiler, objects, made / f"lib{name}.a")
    for each in objects:
        each.unlink()
    return [f"lib/{each.name}" for each in made.iterdir()]
