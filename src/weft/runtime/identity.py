"""Digests of large things, by all cores, and of what else decides what is built."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.codegen.flavours import Dialect
from weft.deferred import later
from weft.files import read_at
from weft.ir.graph import Graph
from weft.ir.unknown import is_known
from weft.plugins.discover import found, generation
from weft.plugins.discover import identity as plugins_identity
from weft.runtime.cache import digest, processor
from weft.runtime.compiler import Compiler

if TYPE_CHECKING:
    from weft.ir.text import references, show
    from weft.ops.table import kernels_identity
else:
    references, show = later("weft.ir.text").references, later("weft.ir.text").show
    kernels_identity = later("weft.ops.table").kernels_identity

_CHUNK = 4 << 20
_MOST_HASHERS = 8
# Packages whose versions can change what is planned.
_PACKAGES = ("numpy", "onnx", "ortools")
_OWN_SUFFIXES = (".py", ".c", ".h", ".toml", ".j2")


def digest_all(blocks: Iterable[memoryview]) -> str:
    """A hash of blocks of bytes, taken piece by piece by several threads."""
    with ThreadPoolExecutor(_hashers()) as pool:
        return digest(["pieces", *pool.map(_hash, _pieces(blocks))])


def _pieces(blocks: Iterable[memoryview]) -> Iterator[memoryview]:
    for block in blocks:
        yield memoryview(str(len(block)).encode())
        for start in range(0, len(block), _CHUNK):
            yield block[start : start + _CHUNK]


def _hashers() -> int:
    return min(os.cpu_count() or 1, _MOST_HASHERS)


def _hash_part(file: int, start: int) -> bytes:
    """A hash of a piece of a file, which is read: a mapped one may become shorter."""
    piece = memoryview(bytearray(_CHUNK))
    return _hash(piece[: read_at(file, piece, start)])


def _hash(piece: memoryview) -> bytes:
    # Processors have instructions for it: half the time of BLAKE2.
    return hashlib.sha256(piece).digest()


def digest_file(path: Path) -> str:
    """A hash of a file's content.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file, ThreadPoolExecutor(_hashers()) as pool:
        size = os.fstat(file.fileno()).st_size
        starts = range(0, size, _CHUNK)
        return digest(["pieces", *pool.map(partial(_hash_part, file.fileno()), starts)])


def digest_graph(graph: Graph) -> str:
    """A hash of a graph and its weights; how it came about plays no part."""
    graph = replace(graph, history=())
    weights = references(graph)
    known = [weights[name] for name in sorted(weights) if is_known(weights[name])]
    arrays = (np.ascontiguousarray(array).reshape(-1) for array in known)
    text = show(graph, defaults=True).encode("utf-8", "surrogatepass")
    return digest_all([memoryview(text), *(array.view(np.uint8).data for array in arrays)])


def digest_self() -> str:
    """A hash of Weft's own sources, of plugins and of the packages that it plans with."""
    own = _digest_own()
    return _digest_plugins(own, generation()) if found() else own


@lru_cache(maxsize=1)
def _digest_own() -> str:
    root = str(Path(__file__).parents[1])
    parts: list[str | bytes] = [sys.version, *(f"{name} {_version(name)}" for name in _PACKAGES)]
    # Every start does this: ``os.walk`` and ``open`` take half the time of ``Path``.
    files = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    for path in sorted(files):
        if path.endswith(_OWN_SUFFIXES):
            with open(path, "rb") as file:
                parts += path[len(root) :], file.read()
    return digest(parts)


@lru_cache(maxsize=1)
def _digest_plugins(own: str, _: int) -> str:
    return digest([own, *plugins_identity(), *kernels_identity()])


def build_key(
    compiler: Compiler, flavour: Dialect, flags: Sequence[str], identity: str, *options: object
) -> str:
    """A hash of all that decides what is built.

    Args:
        compiler: that compiles it.
        flavour: of the C.
        flags: for the compiler.
        identity: of the graph.
        options: values whose texts say what they are.
    """
    shown = [repr(option) for option in options]
    own = [compiler.kind, compiler.version, flavour.name, digest_self(), processor()]
    return digest([identity, *shown, *own, *map(repr, (compiler.command, tuple(flags)))])


def digest_of(choices: Mapping[str, str]) -> str:
    """A hash of names of alternatives by layer."""
    return digest(part for pair in sorted(choices.items()) for part in pair)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
