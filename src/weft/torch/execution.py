# pyright: basic
"""Parts of a graph as compiled code that takes and gives tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
        self.options = replace(options, parameters=tuple(self.parameters))
        self.compiled: CompiledNet = Net(imported.graph).compile(options=self.options)

    @property
    def baked(self) -> list[Slot]:
        """The weights whose elements the code depends on."""
        weights = self.imported.weights
        return [slot for name, slot in weights.items() if name not in self.parameters]

    def refresh(self, held: Callable[[Slot], torch.Tensor]) -> None:
        """Prepares the weights anew.

        Args:
            held: what a slot stands for now.
        """
        if self.parameters:
            now = {name: held(slot).detach() for name, slot in self.parameters.items()}
            self.compiled.load({name: as_array(each.contiguous()) for name, each in now.items()})

    def takes(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the code can read such inputs where they lie."""
        return all(each.is_contiguous() for each in tensors)

    def timed(self, tensors: Sequence[torch.Tensor]) -> Callable[[], object]:
        """Runs the part on these inputs, with as little around it as a call through C has."""
        outputs = [self.output(place) for place in range(len(self.compiled.library.built.outputs))]
        given: Any = [as_array(each.contiguous()) for each in tensors]
        return partial(self.compiled.library, *given, out=[as_array(each) for each in outputs])

    def output(self, place: int) -> torch.Tensor:
        """A new tensor for an output."""
        port = self.compiled.library.built.outputs[place]
        return torch.empty(port.shape, dtype=TORCH_DTYPES[port.dtype])

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the part.

        Args:
            tensors: the inputs, in order.

        Returns:
            The outputs, in order, in memory of PyTorch's allocator.
        """
        library = self.compiled.library
        outputs = [self.output(place) for place in range(len(library.built.outputs))]
        given: Any = [as_array(each.contiguous()) for each in tensors]
        library(*given, out=[as_array(each) for each in outputs])
        return outputs
