# pyright: basic
"""Where things lie in the objects of PyTorch and Python, found by experiment in this process.

Reading a weight's address and version through PyTorch's interface takes longer than all the
rest of a call, so their places are looked for: the word of a tensor that is its
TensorImpl's address, the word of that which is its storage's, and so on.  A place counts only
if it is the only one that is right for all trials; else PyTorch is asked as usual.
Trials read through the system, which refuses bad addresses.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from ctypes import Structure, c_int64
from functools import cache
from typing import Any

import numpy as np
import torch

_UNKNOWN = -1
_ELEMENT = 12345
DIMS = 5
"""So many sizes and strides lie in a TensorImpl."""
LAYOUT = 2 * DIMS + 4
"""Words: the number of dimensions, sizes, strides, first element, elements, their type."""


class Offsets(Structure):
    """``weft_offsets``."""

    _fields_ = tuple(
        (name, c_int64) for name in "impl storage counter layout data version tag".split()
    )


_Read = Callable[[int], int]


@cache
def offsets() -> Offsets:
    """The places; all of the tensors' are unknown if one is."""
    unknown = Offsets(*[_UNKNOWN] * 7)
    try:
        with _memory() as read:
            unknown.tag = _tag(read)
            return Offsets(*_tensors(read), unknown.tag)
    except (LookupError, OSError):
        return unknown


@contextmanager
def _memory() -> Any:
    file = os.open("/proc/self/mem", os.O_RDONLY)
    try:

        def read(address: int) -> int:
            data = os.pread(file, 8, address)
            return int.from_bytes(data, sys.byteorder) if len(data) == 8 else -1

        yield read
    finally:
        os.close(file)


def _only(places: Iterable[int]) -> int:
    found = list(places)
    if len(found) != 1:
        raise LookupError(found)
    return found[0]


def _place(read: _Read, found: dict[int, int], size: int, wanted: str) -> int:
    """The only offset at which objects have the words that they should have."""
    right = [
        offset
        for offset in range(8, size, 8)
        if all(read(start + offset) == word for start, word in found.items())
    ]
    if len(right) != 1:
        raise LookupError(wanted)
    return right[0]


def _tensors(read: _Read) -> tuple[int, ...]:
    base = torch.zeros(4 * _ELEMENT)
    trials = [
        torch.zeros(3, 5, 7),
        torch.nn.Parameter(torch.zeros(5, 2, 3)),
        base[_ELEMENT : _ELEMENT + 14].view(7, 2),
        torch.zeros(11).detach(),
        torch.nn.Parameter(torch.zeros(4, 4), requires_grad=False),
        # Whose elements are not where what frees them is.
        torch.from_numpy(np.zeros(6, np.float32)),
    ]
    impls = [each._cdata for each in trials]
    storages = [each.untyped_storage() for each in trials]
    impl = _place(read, dict(zip(map(id, trials), impls, strict=True)), 48, "impl")
    found = {at: each._cdata for at, each in zip(impls, storages, strict=True)}
    storage = _place(read, found, 128, "storage")
    data = _place(read, {each._cdata: each.data_ptr() for each in storages}, 64, "data")
    counter = _counter(read, trials, storage)
    version = _version(read, trials, counter)
    return impl, storage, counter, _layout(read, base), data, version


def _counter(read: _Read, trials: list[torch.Tensor], storage: int) -> int:
    """What a tensor has in common with what is detached of it, and not with a copy."""
    shared: list[set[int]] = []
    for each in trials:
        twin, copy = each.detach(), each.detach().clone()
        words = [
            (offset, *(read(tensor._cdata + offset) for tensor in (each, twin, copy)))
            for offset in range(8, 128, 8)
        ]
        shared.append({at for at, own, same, other in words if own == same != 0 and own != other})
    return _only(set.intersection(*shared) - {storage})


def _version(read: _Read, trials: list[torch.Tensor], counter: int) -> int:
    """Where the object that they have in common counts the writes."""
    right = set(range(8, 32, 4))
    with torch.no_grad():
        for writes, each in enumerate(trials, 37):
            for _ in range(writes):
                each.add_(1)
            start = read(each._cdata + counter)
            right = {at for at in right if read(start + at) & 0xFFFFFFFF == each._version}
    return _only(right)


def _layout(read: _Read, base: torch.Tensor) -> int:
    """Where `LAYOUT` words tell the layout: those before the first element's place, it, and two."""
    found: set[int] = set(range(8 * (LAYOUT - 2), 192, 8))
    for first, count in ((_ELEMENT, 777), (_ELEMENT + 1, 1234)):
        part = base[first : first + count]
        found = {
            at
            for at in found
            if read(part._cdata + at) == first and read(part._cdata + at + 8) == count
        }
    start = _only(found) - 8 * (1 + 2 * DIMS)
    for count in range(DIMS + 1):
        each = torch.empty_strided(tuple(range(3, 3 + count)), tuple(range(2, 2 + count)))
        words = [read(each._cdata + start + 8 * place) for place in range(LAYOUT)]
        sizes, strides = words[1 : 1 + count], words[1 + DIMS : 1 + DIMS + count]
        if (words[0], *sizes, *strides) != (count, *each.shape, *each.stride()):
            raise LookupError("layout")
    return start


# --- dicts ----------------------------------------------------------------------------------


class _Object:
    pass


def _tag(read: _Read) -> int:
    """The word of a dict that differs after every change; there is one up to CPython 3.13."""
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14):
        return _UNKNOWN
    right: set[int] = set(range(16, 48, 8))
    instance: Any = _Object()
    instance.a = 0
    held: list[Any] = [{"a": 0, "b": 0}, OrderedDict(a=0, b=0), instance.__dict__]
    for each in held:
        seen = {at: [read(id(each) + at)] for at in right}
        for change in _changes(each, instance if each is held[2] else None):
            change()
            for at in right:
                seen[at].append(read(id(each) + at))
        right = {at for at in right if len(set(seen[at])) == len(seen[at])}
    return right.pop() if len(right) == 1 else _UNKNOWN


def _changes(target: Any, instance: Any) -> Iterable[Callable[[], object]]:
    for value in range(300, 400):
        yield lambda value=value: target.__setitem__("a", value)
        if instance is not None:
            yield lambda value=value: setattr(instance, "a", -value)
            yield lambda value=value: _store(instance, value)
    yield lambda: target.update(a=1)
    yield lambda: target.setdefault("c", 1)
    yield lambda: target.pop("c")
    yield lambda: target.__delitem__("a")
    yield lambda: target.clear()


def _store(instance: Any, value: int) -> None:
    # Often enough that the interpreter specialises the instruction.
    instance.a = value + 1000
