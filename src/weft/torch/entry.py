# pyright: basic
"""Compiled code for tensors of certain sizes and strides, as C calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from weft.runtime.library import Library
from weft.runtime.memory import RunMemory
from weft.runtime.native import MOST_ARGUMENTS
from weft.runtime.reserve import fresh_memory
from weft.torch.index_bounds import Bounds
from weft.torch.native import Entry, IndexBounds, Leaf, integers, pointers
from weft.torch.native.openmp import openmp_team
from weft.torch.native.outputs import output_words
from weft.torch.tensors import has_fractions

_MOST_ARENAS = 1024
# DLPack's codes of types.
_SIGNED, _UNSIGNED, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6


def _code(dtype: torch.dtype) -> int:
    if dtype in (torch.bfloat16, torch.bool):
        return _BFLOAT if dtype == torch.bfloat16 else _BOOL
    if dtype.is_floating_point or dtype.is_complex:
        return _COMPLEX if dtype.is_complex else _FLOAT
    return _SIGNED if dtype.is_signed else _UNSIGNED


def can_call(library: Library, leaves: int) -> bool:
    """Whether C can call a library, with so many arguments of the caller."""
    built = library.built
    count = len(built.inputs) + len(built.outputs) + 1 + len(library.binding()[1])
    return not built.states and bool(built.outputs) and max(count, leaves) <= MOST_ARGUMENTS


class CallEntry:
    """An entry of the tables in C, and what it points to.

    Args:
        leaves: arguments as every call gives them: tensors with these types, sizes and strides,
            and values that are equal to these.
        threads: PyTorch's number, where the entry is looked up by it.
    """

    def __init__(self, leaves: Sequence[Any], threads: int = 0) -> None:
        self.table = Entry(threads=threads, leaf_count=len(leaves))
        self._kept: list[Any] = []
        self._memories: list[RunMemory] = []
        self._weights: Any = None
        self.table.leaves = self._keep(self._leaves(leaves))

    def call_instead(self, function: Callable[..., Any]) -> None:
        """Calls a function of Python with the leaves."""
        self._object("instead", function)
        self.table.ready = 1

    def call_library(
        self,
        library: Library,
        outputs: Sequence[torch.Tensor],
        reads: Sequence[int],
        gives: Sequence[int | None],
        constants: Sequence[Any],
        unflatten: Callable[[tuple[Any, ...]], Any] | None,
        bounds: Mapping[int, Bounds],
    ) -> None:
        """Calls a library; ``load`` is to follow.

        Args:
            library: the code.
            outputs: tensors like the outputs, contiguous.
            reads: by input, the place of its tensor among the leaves.
            gives: by result, the place among the outputs; ``None`` for a constant.
            constants: the results that are no outputs, at their places.
            unflatten: makes what is returned of the results; if ``None``, there is one.
            bounds: of inputs; where elements lie outside, the library is not called.
        """
        table = self.table
        table.read_count, table.output_count = len(reads), len(outputs)
        table.give_count, table.arena_most = len(gives), _MOST_ARENAS
        table.arena_bytes = library.built.arena_bytes
        self._array("reads", integers(reads))
        words = [word for output in outputs for word in output_words(output)]
        self._array("outputs", pointers(self._keep(words)))
        self._array("gives", integers([-1 if place is None else place for place in gives]))
        self._array("constants", pointers(self._keep(list(constants))))
        self._array("arenas", (ctypes.c_void_p * _MOST_ARENAS)())
        self._object("new_arena", self._arena)
        inside = [(reads[place], each.least, each.most) for place, each in bounds.items()]
        table.bound_count = len(inside)
        self._array("bounds", (IndexBounds * max(1, len(inside)))(*inside))
        if unflatten is not None:
            self._object("unflatten", unflatten)
        team = openmp_team() if library.built.threads > 1 else None
        if team is not None:
            table.begin, table.end, table.team = team.begin, team.end, library.built.threads

    def load(self, library: Library) -> None:
        """Runs on what the library's weights are now; calls in progress keep theirs."""
        table = self.table
        function, fixed = library.binding()
        array = (ctypes.c_void_p * max(1, len(fixed)))(*fixed)
        held = fixed, array
        # Nobody else may find half of it.
        table.ready = 0
        table.function, table.fixed_count = function, len(fixed)
        table.memory, table.fixed = id(held), ctypes.addressof(array)
        self._weights = held
        table.ready = 1

    def _arena(self) -> int:
        self._memories.append(fresh_memory(max(1, self.table.arena_bytes)))
        return self._memories[-1].address

    def _leaves(self, leaves: Sequence[Any]) -> Any:
        array = (Leaf * max(1, len(leaves)))()
        for leaf, value in zip(array, leaves, strict=False):
            if isinstance(value, torch.Tensor):
                leaf.code, leaf.bits = _code(value.dtype), 8 * value.element_size()
                leaf.ndim, leaf.floating = value.dim(), has_fractions(value)
                shape = self._keep(integers(value.shape))
                strides = self._keep(integers(value.stride()))
                leaf.shape, leaf.strides = ctypes.addressof(shape), ctypes.addressof(strides)
            else:
                # C tells zeros of both signs apart where the type is float, not in its subclasses.
                subclass = isinstance(value, float) and type(value) is not float
                leaf.value = id(self._keep(object() if subclass else value))
        return array

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _object(self, name: str, value: Any) -> None:
        setattr(self.table, name, id(self._keep(value)))

    def _array(self, name: str, value: Any) -> None:
        setattr(self.table, name, ctypes.addressof(self._keep(value)))
