"""A generator of kernels: what it is called, what it needs, what it offers for a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from weft.ir.foreign import Foreign
from weft.kernels.alternatives import Alternative
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.records import dataclass

Propose: TypeAlias = Callable[[Task], tuple[Alternative, ...] | Refusal]
"""``propose(task)``: at least one alternative, or why there is none."""


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of kernels.  Weft's own and those of plugins are the same kind of object.

    Attributes:
        name: in lists and reports; that of the entry point, if a plugin has it.
        doc: what its kernels do, in sentences.
        needs: what must hold of a task, a clause each.
        propose: the alternatives for a task, or why there are none.
        any_threads: whether it is asked as for one thread, so that what it offers fits any
            number of threads.
        library: the library that its kernels call: the sources that go with the generated C,
            and the flags that compile and link it.  Raises a ``UserError`` where the library
            cannot be used.  A generator with a library is asked only where the user names it,
            and its kernels are only taken by name: after measurement, not by estimate.
    """

    name: str
    doc: str
    needs: tuple[str, ...]
    propose: Propose
    any_threads: bool = False
    library: Callable[[], Foreign] | None = None
