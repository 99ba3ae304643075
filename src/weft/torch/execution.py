# pyright: basic
"""Parts of a graph as compiled code that takes and gives tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from weft.api.net import CompiledNet, Net
from weft.options import Options
from weft.torch.aten.importer import Imported
from weft.torch.capture import Slot
from weft.torch.tensors import TORCH_DTYPES, as_array


class CompiledPart:
    """An imported part of a graph, built for this machine.

    Its weights lie in PyTorch's memory; what is packed of them is made by ``refresh``.

    Args:
        imported: the part.
        options: of building; ``parameters`` is decided here.
    """

    def __init__(self, imported: Imported, options: Options) -> None:
        self.imported = imported
        self.parameters: Mapping[str, Slot] = {
            name: slot
            for name, slot in imported.weights.items()
            if slot.kind != "constant" and slot.value.is_floating_point()
        }
        options = replace(options, parameters=tuple(self.parameters))
        self.compiled: CompiledNet = Net(imported.graph).compile(options=options)

    def refresh(self) -> None:
        """Prepares the weights anew, from what the parameters hold now."""
        if self.parameters:
            self.compiled.load({n: as_array(slot.value) for n, slot in self.parameters.items()})

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the part.

        Args:
            tensors: the inputs, in order.

        Returns:
            The outputs, in order, in memory of PyTorch's allocator.
        """
        built = self.compiled.library.built
        outputs = [
            torch.empty(port.shape, dtype=TORCH_DTYPES[port.dtype]) for port in built.outputs
        ]
        given: Any = [as_array(each.contiguous()) for each in tensors]
        self.compiled.library(*given, out=[as_array(each) for each in outputs])
        return outputs
