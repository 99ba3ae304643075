# pyright: basic
"""The call of an optimized module in C: built once, loaded with ctypes, laid out from here.

The structures are those of ``call.h``.  What they point to is kept by the Python objects that
make them, and by the tuple that each callable is made over.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int16,
    c_int32,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.autograd import forward_ad

from weft.errors import WeftError
from weft.runtime.native import build_native, usable
from weft.torch.native.calibration import LAYOUT, Offsets, offsets
from weft.torch.native.outputs import new_output, output_words

functorch: Any = vars(torch._C)["_functorch"]
MISS = object()
"""What a call gives that Python has to look at."""
SAMPLES = 4
_FOLDER = Path(__file__).parent
_HEADERS = _FOLDER / "dlpack.h", _FOLDER / "call.h"
_SOURCES = _FOLDER / "watch.c", _FOLDER / "call.c"


class Torch(Structure):
    """``weft_torch``."""

    _fields_ = (
        ("api", c_void_p),
        ("at", Offsets),
        ("tensor_type", c_void_p),
        ("parameter_type", c_void_p),
        ("is_grad_enabled", c_void_p),
        ("threads", c_void_p),
        ("quiet", c_void_p),
        ("quiet_results", c_void_p),
        ("quiet_count", c_int64),
        *(
            (name, c_void_p)
            for name in "forward_ad level_name no_level is_neg is_conj new_output".split()
        ),
        ("output_words", c_int64),
        *((name, c_void_p) for name in "requires_grad version_name yes no miss".split()),
    )


class Dict(Structure):
    """``weft_dict``."""

    _fields_ = (("dict", c_void_p), ("tag", c_uint64), ("items", c_void_p), ("count", c_int64))


class Class(Structure):
    """``weft_class``."""

    _fields_ = (("object", c_void_p), ("type", c_void_p))


class Weight(Structure):
    """``weft_weight``."""

    _fields_ = (
        *((name, c_void_p) for name in "tensor impl storage start counter".split()),
        ("version", c_uint32),
        ("sample_bytes", c_int16),
        ("calibrated", c_int16),
        ("samples", c_uint32 * SAMPLES),
        ("sampled", c_void_p * SAMPLES),
        ("layout", c_uint64 * LAYOUT),
    )


class Places(Structure):
    """``weft_places``."""

    _fields_ = (("data", c_void_p), ("bytes", c_int64 * SAMPLES))


class WatchTable(Structure):
    """``weft_watch``."""

    _fields_ = (
        ("torch", POINTER(Torch)),
        ("dicts", POINTER(Dict)),
        ("dict_count", c_int64),
        ("classes", POINTER(Class)),
        ("class_count", c_int64),
        ("weights", POINTER(Weight)),
        ("places", POINTER(Places)),
        ("weight_count", c_int64),
    )


class Leaf(Structure):
    """``weft_leaf``."""

    _fields_ = (
        ("value", c_void_p),
        ("code", c_int32),
        ("bits", c_int32),
        ("ndim", c_int32),
        ("floating", c_int32),
        ("shape", c_void_p),
        ("strides", c_void_p),
    )


class IndexBounds(Structure):
    """``weft_bounds``."""

    _fields_ = tuple((name, c_int64) for name in "leaf least most".split())


class Entry(Structure):
    """``weft_entry``."""

    _fields_ = (
        ("leaves", POINTER(Leaf)),
        ("leaf_count", c_int64),
        ("instead", c_void_p),
        ("reads", c_void_p),
        ("read_count", c_int64),
        ("bounds", c_void_p),
        ("bound_count", c_int64),
        ("outputs", c_void_p),
        ("output_count", c_int64),
        ("gives", c_void_p),
        ("constants", c_void_p),
        ("give_count", c_int64),
        ("unflatten", c_void_p),
        ("function", c_void_p),
        ("memory", c_void_p),
        ("fixed", c_void_p),
        ("fixed_count", c_int64),
        ("new_arena", c_void_p),
        ("arena_bytes", c_int64),
        ("arenas", c_void_p),
        ("arena_count", c_int64),
        ("arena_most", c_int64),
        ("begin", c_void_p),
        ("end", c_void_p),
        ("team", c_int64),
        ("threads", c_int64),
        ("nanoseconds", c_int64),
        ("runs", c_int64),
        ("ready", c_int64),
    )


class CallTable(Structure):
    """``weft_call``."""

    _fields_ = (
        ("torch", POINTER(Torch)),
        ("watch", POINTER(WatchTable)),
        ("entries", POINTER(POINTER(Entry))),
        ("entry_count", c_int64),
        ("threads", c_int64),
        ("hooks", c_void_p),
        ("hook_count", c_int64),
    )


class PartTable(Structure):
    """``weft_part``."""

    _fields_ = (("torch", POINTER(Torch)), ("entry", POINTER(Entry)))


def pointers(objects: Sequence[Any]) -> Any:
    """Addresses of Python objects, which somebody else has to keep, as an array."""
    return (c_void_p * max(1, len(objects)))(*map(id, objects))


def integers(values: Sequence[int]) -> Any:
    """Numbers as an array."""
    return (c_int64 * max(1, len(values)))(*values)


class Native:
    """The loaded library and what it asks of PyTorch."""

    def __init__(self, path: Path) -> None:
        self._library = library = ctypes.PyDLL(str(path))
        for function in (
            library.weft_callable,
            library.weft_module_callable,
            library.weft_comparison,
            library.weft_part_callable,
        ):
            function.restype, function.argtypes = ctypes.py_object, [ctypes.py_object]
        library.weft_take.restype, library.weft_take.argtypes = None, [POINTER(WatchTable)]
        self.take: Callable[[Any], None] = library.weft_take
        self._quiet: list[tuple[Any, Any]] = [
            (torch._C._is_any_autocast_enabled, False),
            (torch._C._get_tracing_state, None),
            (torch._C._len_torch_dispatch_stack, 0),
            (torch._C._len_torch_function_stack, 0),
            (functorch.peek_interpreter_stack, None),
        ]
        self._kept: list[Any] = []
        self.torch = self._torch()

    def callable(self, table: CallTable, *kept: Any) -> Callable[..., Any]:
        """``call(*leaves)``: the result, or ``MISS``; keeps what is given."""
        return self._library.weft_callable((ctypes.addressof(table), table, *kept))

    def module(self, table: CallTable, *kept: Any) -> Callable[..., Any]:
        """As ``callable``; gives ``MISS`` where there are hooks."""
        return self._library.weft_module_callable((ctypes.addressof(table), table, *kept))

    def comparison(self, table: WatchTable, *kept: Any) -> Callable[[], bool]:
        """Whether nothing that is watched has changed; keeps what is given."""
        return self._library.weft_comparison((ctypes.addressof(table), table, *kept))

    def part(self, table: PartTable, *kept: Any) -> Callable[..., Any]:
        """``part(*tensors)``: what an entry gives, or ``MISS``; keeps what is given."""
        return self._library.weft_part_callable((ctypes.addressof(table), table, *kept))

    def _torch(self) -> Torch:
        asked, answers = zip(*self._quiet, strict=True)
        found = Torch(
            api=_exchange_api(),
            at=offsets(),
            quiet_count=len(asked),
            output_words=len(output_words(torch.empty(()))),
            forward_ad=id(forward_ad.__dict__),
        )
        for name, value in {
            "tensor_type": torch.Tensor,
            "parameter_type": torch.nn.Parameter,
            "is_grad_enabled": torch.is_grad_enabled,
            "threads": torch.get_num_threads,
            "level_name": "_current_level",
            "no_level": -1,
            "is_neg": torch.Tensor.is_neg,
            "is_conj": torch.Tensor.is_conj,
            "new_output": new_output(),
            "requires_grad": "requires_grad",
            "version_name": "_version",
            "yes": True,
            "no": False,
            "miss": MISS,
        }.items():
            self._kept.append(value)
            setattr(found, name, id(value))
        for name, values in (("quiet", asked), ("quiet_results", answers)):
            array = pointers(values)
            self._kept.append(array)
            setattr(found, name, ctypes.addressof(array))
        return found


def _exchange_api() -> int:
    """The address of PyTorch's table of DLPack functions.

    Raises:
        LookupError: it has none that is known here.
    """
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        raise LookupError("no exchange API")
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    address = get(capsule, b"dlpack_exchange_api")
    major = c_uint32.from_address(address).value
    if major != 1 or not c_void_p.from_address(address + 6 * 8 - 8).value:
        raise LookupError(f"DLPack {major}")
    return address


@cache
def native() -> Native | None:
    """The library, built at first use; ``None`` where calls have to go by Python alone."""
    if not usable():
        return None
    try:
        return Native(_build())
    except (WeftError, OSError, AttributeError, LookupError):
        return None


def _build() -> Path:
    return build_native("weft-call", _HEADERS, _SOURCES)
