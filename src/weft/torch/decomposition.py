# pyright: basic
"""Ops that no row of the ATen table imports, as PyTorch itself writes them with other ops.

Losses, special functions, ``kron`` and hundreds more need no rows that way.  Ops that have rows
stay whole: normalizations, attention and LSTMs must reach fusion as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._decomp import core_aten_decompositions

from weft.errors import UserError
from weft.torch.aten.importer import Imported, row_named
from weft.torch.aten.record import COMPLEX
from weft.torch.capture import Captured, Decompositions, capture


def capture_for(
    importing: Callable[[Captured], Imported],
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[Captured, Imported]:
    """Exports a module and imports its graph, as far as this is possible.

    Args:
        importing: imports a graph; ``refused`` tells what is missing.
        module: in evaluation mode, or as it is to be run.
        args: positional arguments; tensors decide shapes, everything else is a constant.
        kwargs: arguments by name, in any order.

    Returns:
        The graph and its import.  Where nodes are refused, ops without rows are decomposed as
        far as PyTorch can.

    Raises:
        UserError: PyTorch cannot export the module, or it computes under autocast.
    """
    captured = capture(module, args, kwargs)
    imported = importing(captured)
    if not imported.refused:
        return captured, imported
    refused = {node.target for node in imported.refused}
    for decompose in (_without_rows(refused), {}):
        try:
            again = capture(module, args, kwargs, decompose=decompose)
        except UserError:
            # A decomposition may ask for the values of data, and PyTorch cannot trace every graph
            # again (2.13: one that copies constants into a module's caches).
            continue
        return again, importing(again)
    return captured, imported


def _without_rows(refused: set[Any]) -> Decompositions:
    """PyTorch's decompositions of ops that have no rows, or whose rows refused.

    Random ops stay whole: decomposed they would draw other numbers from the same seed.
    """
    known: Any = core_aten_decompositions()
    random = torch.Tag.nondeterministic_seeded
    return {
        op: function
        for op, function in known.items()
        if random not in op.tags and (op in refused or not _has_row(op))
    }


def _has_row(op: Any) -> bool:
    return row_named(op) is not None or row_named(op, COMPLEX) is not None
