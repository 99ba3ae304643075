# pyright: basic
"""What compiled code takes for granted about a module, and whether it still holds.

Code was made for the modules as they were: their classes, attributes, submodules, and the
layouts of their parameters and buffers.  Weights were prepared from the elements as they were.
A change of the first needs a new capture, a change of the second a new preparation.

Seen are: every attribute and registration by identity; every write that PyTorch counts (the
version of a tensor), and every change of a tensor's memory.  Writes that PyTorch does not count,
into ``p.data``, through NumPy, or by fused optimizers, are seen where they change one of four
elements of a tensor, its first and last among them, or where an optimizer's step made them.
What changes a few other elements by such a write needs ``refresh``, and so does what changes in
containers and objects that are attributes, which are not looked into before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MethodType
from typing import Any

import torch
from torch import nn

from weft.records import dataclass
from weft.torch.native import (
    SAMPLES,
    Class,
    Dict,
    Native,
    Places,
    WatchTable,
    Weight,
    native,
    pointers,
)
from weft.torch.native.calibration import DIMS

_REGISTERED = ("_parameters", "_buffers", "_modules")
HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_BACKWARD_HOOKS = ("_backward_hooks", "_backward_pre_hooks")
_IGNORED = frozenset((*_REGISTERED, *HOOKS, *_BACKWARD_HOOKS))
PLAIN = (int, float, complex, str, bytes, bool, tuple, frozenset, torch.dtype, torch.device)
PLAIN_TENSORS = (torch.Tensor, nn.Parameter)
GLOBAL_HOOKS: tuple[Mapping[Any, Any], ...] = (
    nn.modules.module._global_forward_hooks,
    nn.modules.module._global_forward_pre_hooks,
)


def held(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by name; one that has several names comes with each."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


@dataclass(frozen=True)
class _Layout:
    kind: type
    dtype: torch.dtype
    device: torch.device
    shape: tuple[int, ...]
    alias: str
    """The first name of the same tensor."""


def _layouts(module: nn.Module) -> dict[str, _Layout]:
    first: dict[int, str] = {}
    return {
        name: _Layout(
            type(each),
            each.dtype,
            each.device,
            tuple(each.shape),
            first.setdefault(id(each), name),
        )
        for name, each in held(module)
    }


class Structure:
    """The modules, their attributes, and the layouts of their tensors."""

    def __init__(self, module: nn.Module) -> None:
        self._modules = dict(module.named_modules())
        self._classes = {name: type(each) for name, each in self._modules.items()}
        self._attributes = {name: _attributes(each) for name, each in self._modules.items()}
        self._layouts = _layouts(module)

    def holds(self, module: nn.Module) -> bool:
        """Whether a module is still so."""
        now = dict(module.named_modules())
        if now.keys() != self._modules.keys():
            return False
        for name, each in now.items():
            if each is not self._modules[name] or type(each) is not self._classes[name]:
                return False
            if not _same_attributes(self._attributes[name], _attributes(each)):
                return False
        return _layouts(module) == self._layouts


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {name: value for name, value in module.__dict__.items() if name not in _IGNORED}


def _same_attributes(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return old.keys() == new.keys() and all(_same(value, new[name]) for name, value in old.items())


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple):  # of tensors, for example, which have no truth value
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, MethodType):  # a new object whenever somebody asks for it
        return one.__func__ is other.__func__ and one.__self__ is other.__self__
    return isinstance(one, PLAIN) and exact(one) == exact(other)


def exact(value: Any) -> Any:
    """What is equal for the same values alone: zeros of both signs differ, ``nan`` is itself."""
    if isinstance(value, float):
        return value.hex()
    return repr(value) if isinstance(value, complex) else value


# --- weights --------------------------------------------------------------------------------


def places(tensor: torch.Tensor) -> list[int]:
    """Where the samples of a tensor lie, in bytes from its first element."""
    count = tensor.numel()
    found: list[int] = []
    for number in (0, count - 1, count * 382 // 1000, count * 619 // 1000):
        offset = 0
        for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
            number, index = divmod(number, size)
            offset += index * stride
        found.append(offset * tensor.element_size())
    return found


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was written, as PyTorch counts; inference tensors are not counted."""
    return 0 if tensor.is_inference() else tensor._version


def _record(tensor: torch.Tensor) -> tuple[Any, ...]:
    """All that shows that a tensor is another or was written."""
    start = tensor.data_ptr()
    sampled = places(tensor) if start and tensor.numel() else ()
    size = min(4, tensor.element_size())
    samples = tuple(ctypes.string_at(start + at, size) for at in sampled)
    lazily = tensor.is_conj(), tensor.is_neg()
    return tensor._cdata, start, tensor.stride(), version(tensor), samples, lazily


class Watch:
    """A module as it is now.

    Args:
        module: the module.
        constants: tensors besides parameters and buffers.
        free: names of buffers that may be written and replaced.
    """

    def __init__(
        self,
        module: nn.Module,
        constants: Sequence[torch.Tensor] = (),
        free: Collection[str] = (),
    ) -> None:
        self.module = module
        self._structure = Structure(module)
        self._tensors = {name: each for name, each in held(module) if name not in free}
        self._tensors.update((f"constant {n}", each) for n, each in enumerate(constants))
        self._records = {name: _record(each) for name, each in self._tensors.items()}
        self.table: WatchTable | None = None
        self._kept: list[Any] = []
        self._same: Callable[[], bool] | None = None
        library = native()
        if library is not None:
            self._lay_out(library)

    def hooks(self) -> list[Mapping[Any, Any]]:
        """The dicts of what PyTorch calls around the module's forward."""
        every = nn.modules.module
        return [
            *GLOBAL_HOOKS,
            every._global_backward_hooks,
            every._global_backward_pre_hooks,
            *(self.module.__dict__[name] for name in (*HOOKS, *_BACKWARD_HOOKS)),
        ]

    def same(self) -> bool:
        """Whether nothing has changed."""
        if self._same is not None:
            return self._same()
        return not any(GLOBAL_HOOKS) and self.holds() and not self.changed()

    def holds(self) -> bool:
        """Whether the code is still right, if perhaps for other weights."""
        return self._structure.holds(self.module)

    def changed(self, later: Watch | None = None) -> set[str]:
        """The names of the weights that are others or were written, until now or a later watch."""
        if later is not None:
            now = later._records
        else:
            tensors = {**self._tensors, **dict(held(self.module))}
            now = {name: _record(tensors[name]) for name in self._records}
        return {name for name, known in self._records.items() if now.get(name) != known}

    # --- for C ------------------------------------------------------------------------------

    def _lay_out(self, library: Native) -> None:
        modules = list(self.module.modules())
        classes = (Class * len(modules))(*((id(each), id(type(each))) for each in modules))
        dicts = (Dict * (6 * len(modules) + 2))()
        count = 0
        for each in self._dicts(modules):
            items = [part for pair in each.items() for part in pair]
            array = pointers(items)
            dicts[count] = Dict(id(each), 0, ctypes.addressof(array), len(each))
            self._kept += each, items, array
            count += 1
        tensors = list({id(each): each for each in self._tensors.values()}.values())
        weights = (Weight * max(1, len(tensors)))()
        sampled = (Places * max(1, len(tensors)))()
        for weight, at, tensor in zip(weights, sampled, tensors, strict=False):
            _describe(weight, at, tensor, library.torch.at.impl >= 0)
        self._kept += modules, classes, dicts, tensors, weights, sampled
        self.table = WatchTable(
            ctypes.pointer(library.torch),
            dicts,
            count,
            classes,
            len(modules),
            weights,
            sampled,
            len(tensors),
        )
        library.take(self.table)
        self._same = library.comparison(self.table, library, self._kept)

    def _dicts(self, modules: Sequence[nn.Module]) -> Iterator[Mapping[Any, Any]]:
        yield from GLOBAL_HOOKS
        for each in modules:
            yield each.__dict__
            # What is registered where nothing was changes nothing but by another attribute.
            yield from (each.__dict__[name] for name in _REGISTERED if each.__dict__[name])
            if each is not self.module:
                yield from (each.__dict__[name] for name in HOOKS)


def _describe(weight: Weight, at: Places, tensor: torch.Tensor, calibrated: bool) -> None:
    weight.tensor = id(tensor)
    # Of more dimensions sizes and strides lie elsewhere.
    few = tensor.dim() <= DIMS
    # That complex numbers are conjugated when they are read does not lie there either.
    there = few and not tensor.is_complex()
    weight.calibrated = calibrated and there and type(tensor) in PLAIN_TENSORS
    if tensor.numel() and tensor.data_ptr():
        weight.sample_bytes = min(4, tensor.element_size())
        at.bytes[:SAMPLES] = places(tensor)
