"""The constants of a task, and what generators learn of them: where that is equal, kernels are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from weft.kernels.task import Task

T = TypeVar("T")


class Watched(Mapping[str, np.ndarray]):
    """Arrays of a task, which notes what is asked of them; their names are no secret.

    Attributes:
        read: whether anybody asked for an array itself.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._found: dict[tuple[str, Callable[..., Any], tuple[Any, ...]], object] = {}
        self.read = False

    @property
    def asked(self) -> bool:
        """Whether anybody asked what there is to find of an array."""
        return bool(self._found)

    def __getitem__(self, name: str) -> np.ndarray:
        self.read = True
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def find(self, name: str, find: Callable[..., T], *arguments: Any) -> T:
        """What a function finds of an array."""
        key = (name, find, arguments)
        if key not in self._found:
            self._found[key] = find(self._arrays[name], *arguments)
        return cast(T, self._found[key])

    def alike(self, others: Mapping[str, np.ndarray]) -> bool:
        """Whether who asked these would have been told the same of others."""
        if self.read or self._arrays.keys() != others.keys():
            return False
        return all(
            find(others[name], *arguments) == found
            for (name, find, arguments), found in self._found.items()
        )


def found_of(task: Task, name: str, find: Callable[..., T], *arguments: Any) -> T:
    """``find(array, *arguments)`` of a constant of a task, for what a kernel may depend on.

    Args:
        task: that the kernel is for.
        name: of one of its ``arrays``.
        find: what it finds can be compared.
        arguments: hashable ones.
    """
    if isinstance(task.arrays, Watched):
        return task.arrays.find(name, find, *arguments)
    return find(task.arrays[name], *arguments)
