# pyright: basic
"""When a module's own forward runs instead of compiled code: what the code was not made for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad

from weft.torch.native import functorch
from weft.torch.tensors import has_fractions
from weft.torch.watch import GLOBAL_HOOKS, HOOKS, PLAIN_TENSORS


def reason_of_call(leaves: Sequence[Any]) -> str | None:
    """Why a call must run the module's own forward, as far as the call decides.

    Args:
        leaves: its arguments, flattened.
    """
    if torch._C._get_tracing_state() is not None:
        return "it is traced"
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        return "a mode of PyTorch (__torch_dispatch__ or __torch_function__) is active"
    if functorch.peek_interpreter_stack() is not None:
        return "a transform such as vmap or grad is active"
    if forward_ad._current_level >= 0:
        return "forward-mode differentiation is active"
    if torch._C._is_any_autocast_enabled():
        return "autocast is on"
    for leaf in leaves:
        why = _reason_of_tensor(leaf) if isinstance(leaf, torch.Tensor) else _reason_of_value(leaf)
        if why is not None:
            return why
        if torch.is_grad_enabled() and isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            return "an input requires gradients; torch.no_grad() would let compiled code run"
    return None


def reason_of_module(module: nn.Module) -> str | None:
    """Why a call must run the module's own forward, as far as the module decides."""
    if any(GLOBAL_HOOKS):
        return "there are hooks on all modules"
    for name, each in module.named_modules():
        if each.training:
            return f"{name or 'it'} is in training mode"
        if each is not module and any(each.__dict__[hooks] for hooks in HOOKS):
            return f"{name} has hooks"
        if not all(isinstance(own, nn.Parameter | None) for own in each._parameters.values()):
            return "other tensors stand for its parameters, as in torch.func.functional_call"
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        why = _reason_of_tensor(tensor)
        if why is not None:
            return f"{name}: {why}"
        if torch.is_grad_enabled() and tensor.requires_grad:
            return "parameters require gradients; torch.no_grad() would let compiled code run"
    return None


def _reason_of_tensor(tensor: torch.Tensor) -> str | None:
    if type(tensor) not in PLAIN_TENSORS:
        return f"a tensor is a {type(tensor).__name__}"
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return f"a tensor is on {tensor.device}, {tensor.layout}"
    if has_fractions(tensor) and tensor.dtype not in (torch.float32, torch.complex64):
        return f"a tensor is {tensor.dtype}; compiled code is for torch.float32"
    if tensor.is_quantized or tensor.is_neg() or tensor.is_conj():
        return f"a tensor is {tensor.dtype}, quantized, or a lazy negation"
    return None


def _reason_of_value(value: Any) -> str | None:
    if isinstance(value, torch.fx.Proxy | torch.SymInt | torch.SymFloat | torch.SymBool):
        return "it is traced"
    return None
