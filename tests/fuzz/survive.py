"""What must hold for any file at all."""

from __future__ import annotations

from pathlib import Path

from weft.api import Net
from weft.errors import UserError
from weft.frontends.onnx import load
from weft.ir.verify import verify


def survive(path: Path, *, deep: bool = False) -> str:
    """``refused`` by a ``UserError`` or ``imported`` as a sound graph; else an exception.

    Args:
        path: the file.
        deep: go on to the plan and to C, where a ``UserError`` is ``refused later``.
    """
    try:
        graph = load(path)
    except UserError:
        return "refused"
    verify(graph)
    if not deep:
        return "imported"
    try:
        Net(graph).source()
    except UserError:
        return "refused later"
    return "generated"
