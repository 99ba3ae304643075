# pyright: basic
"""``weft.torch.trace``: what a module computes, as a net."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from weft.api.net import Net
from weft.errors import UserError
from weft.torch.aten.importer import import_all
from weft.torch.decomposition import capture_for
from weft.torch.deploy import named_ports
from weft.torch.module import Optimized


def trace(module: torch.nn.Module, example: Any, *, kwargs: Mapping[str, Any] | None = None) -> Net:
    """The network that a module computes, to be quantized, edited, compiled or saved.

    Args:
        module: in evaluation mode.
        example: a tensor, or a tuple of all arguments; they decide sizes. Nested tensors are
            flattened.
        kwargs: arguments by name.

    Raises:
        UserError: PyTorch cannot export the module, an op cannot be imported (all are listed), or
            the module changes its buffers or inputs.
    """
    if isinstance(module, Optimized):
        module = module._weft.module
    args = example if isinstance(example, tuple) else (example,)
    with torch.no_grad():
        captured, imported = capture_for(import_all, module, args, kwargs)
    changed = [result.target.name for result in captured.results if result.target is not None]
    if changed:
        raise UserError(
            "a module that is traced changes no buffers and no inputs",
            got=", ".join(changed),
            fix="Call eval() on it first.",
        )
    if imported.refused:
        told = "; ".join(f"{node.name}: {why}" for node, why in imported.refused.items())
        raise UserError("a network needs every op of the module imported", got=told)
    return named_ports(captured, imported)
