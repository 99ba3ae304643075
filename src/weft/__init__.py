"""Weft: neural networks into plain, readable, dependency-free C for a named machine."""

import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from weft.interrupts import end_interrupted

try:
    from weft.api import CompiledNet, Net, input, load, merge, net, trace
    from weft.deferred import deferred
    from weft.errors import InternalError, UserError, WeftError
    from weft.options import Options
    from weft.reporting import Step, progress, verbose
except KeyboardInterrupt:
    # The command line, which handles this later, is not there yet; programs get the exception.
    if Path(sys.argv[0]).name == "weft" or ("-m", "weft") in pairwise(sys.orig_argv):
        end_interrupted()
    raise

if TYPE_CHECKING:
    from weft import layers, ops, torch
    from weft.api.quantized import quantize
    from weft.campaigns import campaign
    from weft.layers import parallel, residual, sequential
    from weft.ops.values import Value, constant
    from weft.torch.deploy import deploy
    from weft.torch.explain import explain
    from weft.torch.module import optimize
    from weft.variants import compare

__all__ = [
    "CompiledNet",
    "InternalError",
    "Net",
    "Options",
    "Step",
    "UserError",
    "Value",
    "WeftError",
    "campaign",
    "compare",
    "constant",
    "deploy",
    "explain",
    "input",
    "layers",
    "load",
    "merge",
    "net",
    "ops",
    "optimize",
    "parallel",
    "progress",
    "quantize",
    "residual",
    "sequential",
    "torch",
    "trace",
    "verbose",
]

# What a program that loads and runs networks need not wait for is imported when it is asked for.
_later = deferred(
    __name__,
    {
        "Value": "weft.ops.values",
        "campaign": "weft.campaigns",
        "compare": "weft.variants",
        "constant": "weft.ops.values",
        "deploy": "weft.torch.deploy",
        "explain": "weft.torch.explain",
        "optimize": "weft.torch.module",
        "parallel": "weft.layers",
        "residual": "weft.layers",
        "sequential": "weft.layers",
    },
)

_PACKAGES = ("layers", "ops", "quantize", "torch")


def __getattr__(name: str) -> object:
    """Parts of the interface that are imported at their first use."""
    return import_module(f"weft.{name}") if name in _PACKAGES else _later(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
