"""Compiles the C body of an ``Extern`` op and calls it."""

from __future__ import annotations

import ctypes
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from weft.dtypes import DType
from weft.ir.types import TensorType
from weft.ops.record import ExternBody

C_TYPES = {
    DType.F64: "double",
    DType.F32: "float",
    DType.I8: "signed char",
    DType.I16: "short",
    DType.I32: "int",
    DType.I64: "int64_t",
    DType.U8: "unsigned char",
    DType.U16: "unsigned short",
    DType.U32: "unsigned int",
    DType.U64: "uint64_t",
    DType.BOOL: "unsigned char",
}
FLAGS = "-std=c99 -O1 -Wall -Wextra -Werror -Wconversion -Wshadow -Wno-unused-parameter"


def compiler() -> list[str]:
    """A C compiler: the system's, or the one in the ziglang wheel."""
    for name in ("gcc", "clang", "cc"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    pytest.skip("no C compiler")


def run_extern(
    body: ExternBody, inputs: tuple[np.ndarray | None, ...], outputs: tuple[TensorType, ...]
) -> list[np.ndarray]:
    """The outputs of a body for these inputs."""
    present = {f"in{place}": each for place, each in enumerate(inputs) if each is not None}
    results = [np.empty(type.dims, type.dtype.numpy) for type in outputs]
    scratch = np.empty(max(body.scratch_bytes, 1) + 64, np.uint8)
    params = [f"const {C_TYPES[DType.of(each.dtype)]} *{name}" for name, each in present.items()]
    params += [f"{C_TYPES[type.dtype]} *out{place}" for place, type in enumerate(outputs)]
    text = (
        "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>\n"
        f"void body({', '.join([*params, 'unsigned char *scratch'])})\n{{\n{body.body}\n}}\n"
    )
    packed = [np.ascontiguousarray(each) for each in present.values()]
    aligned = scratch.ctypes.data + (-scratch.ctypes.data) % 64
    addresses = [each.ctypes.data for each in (*packed, *results)] + [aligned]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "body.c"), Path(folder, "body.so")
        source.write_text(text)
        subprocess.run(
            [*compiler(), *FLAGS.split(), "-fPIC", "-shared", source, "-o", library, "-lm"],
            check=True,
        )
        ctypes.CDLL(str(library)).body(*(ctypes.c_void_p(each) for each in addresses))
    return results
