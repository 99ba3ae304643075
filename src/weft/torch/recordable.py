# pyright: basic
"""Which modules, tensors and ops are recorded, and which are left to ``torch.export``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from weft.torch.traced import LeftError

aten = torch.ops.aten
_functorch: Any = vars(torch._C)["_functorch"]

CONSTANTS = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.memory_format)
"""Types of arguments that are no tensors, as the export takes them."""
TRAINING = {
    "batch_norm": 5,
    "native_batch_norm": 5,
    "cudnn_batch_norm": 5,
    "instance_norm": 5,
    "_native_batch_norm_legit": 5,
    "_batch_norm_with_update": 5,
}
"""Ops that write statistics without a word in their schema, and which argument makes them."""
_STATISTICS = 3
"""The first of them, among their arguments."""
_BY_VALUE = (aten.is_nonzero.default, aten.item.default)
"""Ops that give what depends on values, and do not say so."""


def is_plain(module: torch.nn.Module, leaves: list[Any]) -> bool:
    """Whether a module may be recorded for arguments with these leaves."""
    if torch.is_autocast_enabled("cpu") or isinstance(module, fx.GraphModule):
        return False
    for each in module.modules():
        if each.training or isinstance(each, torch.jit.ScriptModule):
            return False
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not all(isinstance(leaf, (torch.Tensor, *CONSTANTS)) for leaf in leaves):
        return False
    if not all(each.is_contiguous() for each in tensors):
        return False
    weights = [*module.parameters(), *module.buffers()]
    # What convolutions give lies as their weights do.
    if not all(each.dim() < 4 or each.is_contiguous() for each in weights):
        return False
    return all(map(is_ordinary, (*tensors, *weights)))


def is_ordinary(tensor: torch.Tensor) -> bool:
    """Whether a tensor is PyTorch's own, dense and in main memory."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and not _functorch.is_functorch_wrapped_tensor(tensor)
    )


def check(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Leaves ops to the export that are not recorded as they are called.

    Raises:
        LeftError: this is one.
    """
    if not isinstance(func, torch._ops.OpOverload) or torch.is_autocast_enabled("cpu"):
        raise LeftError(f"{func} is no op, or runs under autocast")
    if _functorch.peek_interpreter_stack() is not None:
        raise LeftError(f"{func} is mapped or differentiated")
    if func in _BY_VALUE or torch.Tag.data_dependent_output in func.tags:
        raise LeftError(f"{func} gives what depends on values")
    if _trains(func, args, kwargs):
        raise LeftError(f"{func} writes statistics")


def _trains(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    place = TRAINING.get(func._schema.name.removeprefix("aten::"))
    if place is None or len(args) < place or args[_STATISTICS] is None:
        return place is not None and len(args) < place
    name = func._schema.arguments[place].name
    return bool(args[place] if place < len(args) else kwargs.get(name, True))
