# pyright: basic
"""How calls in C make tensors for their outputs.

What Inductor's code calls takes half of the time of ``torch.empty_like``: the tensors are the
same, of the same allocator.  It is no public interface, so it is tried before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch

_TRIALS = (torch.empty(3, 1, 4), torch.empty(0, 2, dtype=torch.int64), torch.empty(()))


@cache
def new_output() -> Callable[..., torch.Tensor]:
    """A function that makes a contiguous tensor in main memory, of ``output_words``."""
    return _quick() or torch.empty_like


def output_words(like: torch.Tensor) -> Sequence[Any]:
    """Arguments of ``new_output``, always as many, for a tensor like another."""
    return (like,) if new_output() is torch.empty_like else _words(like)


def _words(like: torch.Tensor) -> Sequence[Any]:
    return tuple(like.shape), like.stride(), like.dtype


def _quick() -> Callable[..., torch.Tensor] | None:
    try:
        make: Any = vars(torch._C)["_dynamo"].guards._empty_strided_cpu
        with torch.inference_mode(False):
            made = [make(*_words(each)) for each in _TRIALS]
        with torch.inference_mode():
            inference = make(*_words(_TRIALS[0])).is_inference()
    except (KeyError, AttributeError, TypeError, RuntimeError):
        return None
    right = all(
        type(own) is torch.Tensor
        and (own.shape, own.stride(), own.dtype) == (each.shape, each.stride(), each.dtype)
        and own.device == each.device
        and not own.is_inference()
        for own, each in zip(made, _TRIALS, strict=True)
    )
    return make if right and inference else None
