"""Weft: neural networks into plain, readable, dependency-free C for a named machine."""

from weft import layers, ops
from weft.api import CompiledNet, Net, input, load, net, trace
from weft.errors import InternalError, UserError, WeftError
from weft.layers import parallel, residual, sequential
from weft.ops.values import Value, constant
from weft.variants import compare

__all__ = [
    "CompiledNet",
    "InternalError",
    "Net",
    "UserError",
    "Value",
    "WeftError",
    "compare",
    "constant",
    "input",
    "layers",
    "load",
    "net",
    "ops",
    "parallel",
    "residual",
    "sequential",
    "trace",
]
