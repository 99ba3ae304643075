# pyright: basic
"""What C needs to know to run compiled code for one signature."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from weft.runtime.memory import RunMemory
from weft.torch.execution import CompiledPart
from weft.torch.native import (
    MOST_ARGUMENTS,
    CallTable,
    Entry,
    Leaf,
    Native,
    WatchTable,
    integers,
    pointers,
)
from weft.torch.specialise import Runner

_MOST_ARENAS = 1024
# DLPack's codes of types: signed, unsigned, floating point, bfloat16, bool.
_BFLOAT, _BOOL, _UNSIGNED, _FLOAT, _SIGNED = 4, 6, 1, 2, 0


def _code(dtype: torch.dtype) -> int:
    if dtype == torch.bfloat16:
        return _BFLOAT
    if dtype == torch.bool:
        return _BOOL
    if dtype.is_floating_point:
        return _FLOAT
    return _SIGNED if dtype.is_signed else _UNSIGNED


class Binding:
    """A runner, and how C calls it.

    Args:
        runner: for the signature of the leaves.
        leaves: the arguments of a call, flattened.
        threads: that PyTorch used when the runner was made.
    """

    def __init__(self, runner: Runner, leaves: Sequence[Any], threads: int) -> None:
        self.runner = runner
        self.prepared = -1
        """For which of the weights' states; see ``Optimization``."""
        self.memories: list[RunMemory] = []
        self.entry = Entry(threads=threads, leaf_count=len(leaves))
        self._kept: list[Any] = []
        self._set("leaves", self._leaves(leaves))
        part = runner.part
        if part is not None and self._fits(part, leaves):
            self._run(part)
        else:
            self._set("instead", id(self._keep(self.run)))

    def run(self, *leaves: Any) -> Any:
        """Calls the runner from Python."""
        return self._unflatten(self.runner.flat(leaves))

    def ready(self, prepared: int) -> None:
        """The weights are prepared: their memory may be another one."""
        entry, part = self.entry, self.runner.part
        if part is not None and not entry.instead:
            function, fixed = part.compiled.library.binding()
            array = (ctypes.c_void_p * max(1, len(fixed)))(*fixed)
            memory = fixed, array
            entry.function, entry.fixed_count = function, len(fixed)
            entry.memory, entry.fixed = id(memory), ctypes.addressof(array)
            self._memory = memory
        self.prepared = prepared
        entry.ready = 1

    def _fits(self, part: CompiledPart, leaves: Sequence[Any]) -> bool:
        built = part.compiled.library.built
        given = [leaves[place] for place in self.runner.reads]
        count = len(built.inputs) + len(built.outputs) + 1 + len(part.compiled.library.binding()[1])
        return (
            not built.states
            and count <= MOST_ARGUMENTS
            and len(leaves) <= MOST_ARGUMENTS
            and bool(self.runner.gives)
            and part.takes(given)
        )

    def _run(self, part: CompiledPart) -> None:
        built, entry, runner = part.compiled.library.built, self.entry, self.runner
        outputs = [part.output(place) for place in range(len(built.outputs))]
        entry.read_count, entry.output_count = len(runner.reads), len(outputs)
        entry.give_count, entry.arena_bytes = len(runner.gives), built.arena_bytes
        entry.arena_most = _MOST_ARENAS
        gives = [-1 if place is None else place for place in runner.gives]
        self._set("reads", integers(runner.reads))
        self._set("outputs", self._pointers(outputs))
        self._set("gives", integers(gives))
        self._set("constants", self._pointers(runner.constants))
        self._set("arenas", (ctypes.c_void_p * _MOST_ARENAS)())
        self._set("new_arena", id(self._keep(self._arena)))
        if not runner.captured.out_spec.is_leaf():
            self._set("unflatten", id(self._keep(self._unflatten)))

    def _unflatten(self, values: Sequence[Any]) -> Any:
        spec = self.runner.captured.out_spec
        if spec.type is tuple and len(values) == spec.num_children:
            return tuple(values)
        return pytree.tree_unflatten(values, spec)

    def _arena(self) -> int:
        self.memories.append(RunMemory(max(1, self.entry.arena_bytes)))
        return self.memories[-1].address

    def _leaves(self, leaves: Sequence[Any]) -> Any:
        array = (Leaf * max(1, len(leaves)))()
        for leaf, value in zip(array, leaves, strict=False):
            if isinstance(value, torch.Tensor):
                leaf.code, leaf.bits = _code(value.dtype), 8 * value.element_size()
                leaf.ndim, leaf.floating = value.dim(), value.is_floating_point()
                shape, strides = integers(value.shape), integers(value.stride())
                self._kept += shape, strides
                leaf.shape, leaf.strides = ctypes.addressof(shape), ctypes.addressof(strides)
            else:
                leaf.value = id(self._keep(value))
        return array

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _pointers(self, objects: Sequence[Any]) -> Any:
        return pointers(self._keep(list(objects)))

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, ctypes.Array):
            self._kept.append(value)
            if name != "leaves":
                value = ctypes.addressof(value)
        setattr(self.entry, name, value)


def callable_of(
    library: Native,
    bindings: Sequence[Binding],
    watch: WatchTable,
    threads: int | None,
    *kept: Any,
) -> Callable[..., Any]:
    """``call(*leaves)`` in C: the result by the binding that fits, or ``MISS``."""
    entries = (ctypes.POINTER(Entry) * len(bindings))(
        *(ctypes.pointer(each.entry) for each in bindings)
    )
    table = CallTable(
        ctypes.pointer(library.torch), ctypes.pointer(watch), entries, len(bindings), threads or 0
    )
    return library.callable(table, library, watch, entries, list(bindings), *kept)
