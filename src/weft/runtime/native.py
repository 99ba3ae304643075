"""C that Python calls without ``ctypes`` in between: built once for all networks."""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

from weft.atomic import write_files
from weft.runtime.cache import Cache, digest, processor
from weft.runtime.compiler import compile_object, find_compiler, link_library

MOST_ARGUMENTS = 32
_PYTHON = Path(__file__).parent / "data" / "python.h"
_FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra")
# Python's functions are found in the process that loads the library.
_LINKED = ("-Wl,-undefined,dynamic_lookup",) if sys.platform == "darwin" else ()


def usable() -> bool:
    """Whether this interpreter's objects lie as ``python.h`` says."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


def build_native(
    name: str,
    headers: Sequence[Path],
    sources: Sequence[Path],
    begun: Callable[[Path], object] | None = None,
) -> Path:
    """A shared library of sources that may include ``python.h`` and ``cases.h``.

    ``cases.h`` has the cases of a switch that calls ``function`` with so many pointers of ``a``.

    Args:
        name: what its file's name begins with.
        headers: that the sources include besides.
        sources: in C99.
        begun: is told the folder in which compilers are about to run.
    """
    compiler, cache = find_compiler(), Cache()
    texts = [(each.name, each.read_text()) for each in (_PYTHON, *headers, *sources)]
    texts.append(("cases.h", _cases()))
    identity = [part for text in texts for part in text]
    identity += [*_FLAGS, *_LINKED, *compiler.command, compiler.kind, compiler.version, processor()]

    def make(target: Path) -> None:
        if begun is not None:
            begun(target.parent)
        write_files(target.parent, [(name, text.encode()) for name, text in texts])
        objects: list[Path] = []
        for each in sources:
            source = target.parent / each.name
            objects.append(source.with_suffix(".o"))
            compile_object(compiler, _FLAGS, source, objects[-1])
        link_library(compiler, objects, target, _LINKED)

    return cache.get(f"{name}-{digest(identity)}.so", make)


def _cases() -> str:
    lines: list[str] = []
    for count in range(1, MOST_ARGUMENTS + 1):
        types = ", ".join(["void *"] * count)
        values = ", ".join(f"a[{place}]" for place in range(count))
        lines.append(f"case {count}:\n    return ((int (*)({types}))function)({values});\n")
    return "".join(lines)
