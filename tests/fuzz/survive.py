"""What must hold for any file at all."""

from __future__ import annotations

from pathlib import Path

from weft.errors import UserError
from weft.frontends.onnx import load
from weft.ir.verify import verify


def survive(path: Path) -> str:
    """``refused`` by a ``UserError`` or ``imported`` as a sound graph; else an exception."""
    try:
        graph = load(path)
    except UserError:
        return "refused"
    verify(graph)
    return "imported"
