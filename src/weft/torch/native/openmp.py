# pyright: basic
"""The OpenMP runtime that PyTorch runs on."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

import torch

from weft.runtime.threads import Team, shared_pool

_BACKEND = "ATen parallel backend: OpenMP"
_FUNCTIONS = (
    "GOMP_parallel_start",
    "GOMP_parallel_end",
    "omp_get_max_threads",
    "omp_get_num_threads",
    "omp_get_thread_num",
)
_PAUSE = "omp_pause_resource_all"


@cache
def openmp_team() -> Team | None:
    """Calls on PyTorch's own threads; ``None`` where they are not OpenMP's.

    Runtimes without the functions of GNU's (GCC's and LLVM's on Linux have them) do not count.
    """
    functions = _functions() if _BACKEND in torch.__config__.parallel_info() else None
    return shared_pool().adopt(functions) if functions is not None else None


def _functions() -> list[int] | None:
    # As the dynamic linker finds them for PyTorch: in the program with all that it makes global,
    # preloaded libraries among it, else in what PyTorch needs.
    for path in (None, Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"):
        try:
            library = ctypes.CDLL(path and str(path))
            found = [_address(library, name) for name in _FUNCTIONS]
        except (OSError, AttributeError):
            continue
        return [*found, _address(library, _PAUSE) if hasattr(library, _PAUSE) else 0]
    return None


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(library[name], ctypes.c_void_p).value or 0
