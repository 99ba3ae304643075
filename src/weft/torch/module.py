# pyright: basic
"""``weft.optimize``: a module that computes the same, faster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.errors import UserError
from weft.options import Options
from weft.torch.aten.importer import import_all
from weft.torch.capture import Captured, capture
from weft.torch.execution import CompiledPart


def optimize(
    module: torch.nn.Module,
    *example: Any,
    kwargs: Mapping[str, Any] | None = None,
    threads: int | None = None,
    exact: bool = False,
    tune: bool = False,
    strict: bool = False,
) -> torch.nn.Module:
    """A module with the same parameters whose ``forward`` is compiled code.

    Args:
        module: any module.
        example: arguments of a call.
        kwargs: and those by name.
        threads: to run on; PyTorch's number if not given.
        exact: as for ``weft.Options``.
        tune: measures alternatives.
        strict: refuses what cannot be compiled whole.
    """
    captured = capture(module, example, kwargs)
    imported = import_all(captured)
    if imported.refused:
        told = "; ".join(f"{node.name}: {why}" for node, why in imported.refused.items())
        raise UserError("only supported ops can be compiled", got=told)
    options = Options(threads=threads or torch.get_num_threads(), exact=exact, tune=tune)
    return Optimized(module, captured, CompiledPart(imported, options))


class Optimized(torch.nn.Module):
    """What ``optimize`` gives."""

    def __init__(self, module: torch.nn.Module, captured: Captured, part: CompiledPart) -> None:
        super().__init__()
        self.module = module
        self._captured = captured
        self._part = part

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module's own ``forward`` gives."""
        flat = pytree.tree_leaves((args, kwargs))
        places = {slot.node: place for place, slot in enumerate(self._captured.inputs)}
        outputs = self._part([flat[places[node]] for node in self._part.imported.inputs])
        made = dict(zip(self._part.imported.outputs, outputs, strict=True))
        values = [
            made[result.value] if isinstance(result.value, torch.fx.Node) else result.value
            for result in self._captured.results
            if result.target is None
        ]
        return pytree.tree_unflatten(values, self._captured.out_spec)
