"""Weft: neural networks into plain, readable, dependency-free C for a named machine."""

from weft.api import CompiledNet, Net, load
from weft.errors import InternalError, UserError, WeftError

__all__ = ["CompiledNet", "InternalError", "Net", "UserError", "WeftError", "load"]
