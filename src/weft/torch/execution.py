# pyright: basic
"""Parts of a graph as compiled code that takes and gives tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from weft.api.net import CompiledNet, Net
from weft.options import Options
from weft.torch.aten.importer import Imported
from weft.torch.capture import Slot
from weft.torch.entry import CallEntry, can_call
from weft.torch.index_bounds import OutsideError
from weft.torch.native import MISS, PartTable, native
from weft.torch.tensors import TORCH_DTYPES, as_array, has_fractions


def parameters_of(imported: Imported) -> Mapping[str, Slot]:
    """The weights that are given at run time, by name: code does not depend on their elements."""
    return {
        name: slot
        for name, slot in imported.weights.items()
        if slot.kind != "constant" and has_fractions(slot.value)
    }


class CompiledPart:
    """An imported part of a graph, built for this machine.

    Its weights lie in PyTorch's memory; what is packed of them is made by ``refresh``, and large
    ones that code can read where they lie are.

    Args:
        imported: the part.
        options: of building; ``parameters`` is decided here.

    Attributes:
        copies: how many inputs had to be copied, because they lie otherwise than those that the
            code was made for.
    """

    def __init__(self, imported: Imported, options: Options) -> None:
        self.imported = imported
        self.copies = 0
        self.parameters = parameters_of(imported)
        self.options = replace(options, parameters=tuple(self.parameters), in_place=True)
        self.compiled: CompiledNet = Net(imported.graph).compile(options=self.options)
        self._inputs = [
            self._like(place, "meta") for place in range(len(self.compiled.library.inputs))
        ]
        self._entry: CallEntry | None = None
        self._call = self._callable()

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
            if self._entry is not None:
                self._entry.load(self.compiled.library)

    def takes(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the code can read such inputs where they lie."""
        return all(map(_lies_as, tensors, self._inputs))

    def timed(self, tensors: Sequence[torch.Tensor]) -> Callable[[], object]:
        """Runs the part on these inputs, with as little around it as a call through C has."""
        return partial(self, tensors)

    def output(self, place: int) -> torch.Tensor:
        """A new tensor for an output."""
        port = self.compiled.library.outputs[place]
        return torch.empty(port.shape, dtype=TORCH_DTYPES[port.dtype])

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the part.

        Args:
            tensors: the inputs, in order.

        Returns:
            The outputs, in order, in memory of PyTorch's allocator.

        Raises:
            OutsideError: an index lies outside of what it indexes.
        """
        made = self._call(*tensors)
        if made is not MISS:
            return made
        for place, bounds in self.imported.bounds.items():
            if not bounds.holds(tensors[place]):
                raise OutsideError
        library = self.compiled.library
        outputs = [self.output(place) for place in range(len(library.outputs))]
        given: Any = [self._physical(*each) for each in enumerate(tensors)]
        library(*given, out=[as_array(each) for each in outputs])
        return outputs

    def _physical(self, place: int, tensor: torch.Tensor) -> Any:
        """An input as the code reads it."""
        if not _lies_as(tensor, self._inputs[place]):
            self.copies += 1
        return self.imported.array(place, tensor)

    def _like(self, place: int, device: str) -> torch.Tensor:
        """A tensor that lies as an input does."""
        port = self.compiled.library.inputs[place]
        made = torch.empty(port.shape, dtype=TORCH_DTYPES[port.dtype], device=device)
        order = self.imported.orders.get(self.imported.inputs[place])
        return made.permute([order.index(each) for each in range(len(order))]) if order else made

    def _callable(self) -> Callable[..., Any]:
        """The run in C; gives ``MISS`` where the inputs lie otherwise."""
        c, library = native(), self.compiled.library
        if c is None or not can_call(library, len(self._inputs)):
            return _miss
        count = len(library.outputs)
        entry = self._entry = CallEntry(self._inputs)
        outputs = [self.output(place) for place in range(count)]
        entry.call_library(
            library,
            outputs,
            range(len(self._inputs)),
            range(count),
            [None] * count,
            list,
            self.imported.bounds,
        )
        entry.load(library)
        table = PartTable(ctypes.pointer(c.torch), ctypes.pointer(entry.table))
        return c.part(table, c, entry, library)


def _lies_as(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a tensor has the strides of another; those of one element do not count."""
    return all(
        size == 1 or stride == wanted
        for size, stride, wanted in zip(tensor.shape, tensor.stride(), other.stride(), strict=True)
    )


def _miss(*_: Any) -> Any:
    return MISS
