# pyright: basic
"""A runner, and how C calls it where the module allows it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from weft.torch.entry import CallEntry, can_call
from weft.torch.native import CallTable, Entry, Native, WatchTable, pointers
from weft.torch.specialise import Runner


class Binding:
    """A runner for calls whose tensors have the same strides, too.

    Args:
        runner: for the signature of the leaves.
        leaves: the arguments of a call, flattened.
        threads: that PyTorch used when the runner was made.

    Attributes:
        prepared: for which state of the weights; see ``Optimization``.
    """

    def __init__(self, runner: Runner, leaves: Sequence[Any], threads: int) -> None:
        self.runner = runner
        self.prepared = -1
        self.entry = CallEntry(leaves, threads)
        self._part = part = runner.part
        library = part.compiled.library if part is not None else None
        if (
            part is None
            or library is None
            or not runner.gives
            or not can_call(library, len(leaves))
            or not part.takes([leaves[place] for place in runner.reads])
        ):
            self._part = None
            self.entry.call_instead(self.run)
            return
        self.entry.call_library(
            library,
            [part.output(place) for place in range(len(library.outputs))],
            runner.reads,
            runner.gives,
            runner.constants,
            None if runner.captured.out_spec.is_leaf() else self._unflatten,
            part.imported.bounds,
        )

    def run(self, *leaves: Any) -> Any:
        """Calls the runner from Python."""
        return self._unflatten(self.runner.flat(leaves))

    def ready(self, prepared: int) -> None:
        """The runner's weights are prepared."""
        if self._part is not None:
            self.entry.load(self._part.compiled.library)
        self.prepared = prepared
        self.entry.table.ready = 1

    def _unflatten(self, values: Sequence[Any]) -> Any:
        spec = self.runner.captured.out_spec
        if spec.type is tuple and len(values) == spec.num_children:
            return tuple(values)
        return pytree.tree_unflatten(values, spec)


def callable_of(
    library: Native,
    bindings: Sequence[Binding],
    watch: WatchTable,
    threads: int | None,
    hooks: Sequence[Any] | None,
    *kept: Any,
) -> Callable[..., Any]:
    """``call(*leaves)`` in C: the result by the binding that fits, or ``MISS``.

    Args:
        library: that has the calls.
        bindings: of which one may fit.
        watch: what must not have changed.
        threads: that a user set; PyTorch's number if not given.
        hooks: dicts that must be empty, if the call stands for a module's.
        kept: as long as there is the callable.
    """
    entries = (ctypes.POINTER(Entry) * len(bindings))(
        *(ctypes.pointer(each.entry.table) for each in bindings)
    )
    array = pointers(hooks or ())
    table = CallTable(
        torch=ctypes.pointer(library.torch),
        watch=ctypes.pointer(watch),
        entries=entries,
        entry_count=len(bindings),
        threads=threads or 0,
        hooks=ctypes.addressof(array),
        hook_count=len(hooks or ()),
    )
    make = library.callable if hooks is None else library.module
    return make(table, library, watch, entries, list(bindings), hooks, array, *kept)
