# pyright: basic
"""Tensors of PyTorch as arrays and types of Weft, over the same memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType

DTYPES: dict[torch.dtype, DType] = {
    torch.float32: DType.F32,
    torch.float64: DType.F64,
    torch.float16: DType.F16,
    torch.bfloat16: DType.BF16,
    torch.bool: DType.BOOL,
    torch.uint8: DType.U8,
    torch.uint16: DType.U16,
    torch.uint32: DType.U32,
    torch.uint64: DType.U64,
    torch.int8: DType.I8,
    torch.int16: DType.I16,
    torch.int32: DType.I32,
    torch.int64: DType.I64,
}
"""Element types that Weft has."""
PARTS: dict[torch.dtype, torch.dtype] = {
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
"""Complex numbers are pairs of these, along a last axis."""
TORCH_DTYPES = {own: other for other, own in DTYPES.items()}


def dtype_of(dtype: torch.dtype) -> DType:
    """Weft's element type.

    Raises:
        UserError: it has none (complex numbers, quantized types).
    """
    found = DTYPES.get(dtype)
    if found is None:
        raise UserError(f"{dtype} is not an element type of Weft")
    return found


def type_of(tensor: torch.Tensor) -> TensorType:
    """Element type and shape of a tensor, real or fake; complex numbers are pairs.

    Raises:
        UserError: Weft has no such element type, or a size depends on data.
    """
    try:
        sizes = tuple(int(size) for size in tensor.shape)
    except GuardOnDataDependentSymNode:
        raise UserError("sizes that depend on data are not supported") from None
    if tensor.dtype in PARTS:
        return TensorType(dtype_of(PARTS[tensor.dtype]), (*sizes, 2))
    return TensorType(dtype_of(tensor.dtype), sizes)


def gives_complex(node: fx.Node) -> bool:
    """Whether what a node gives is a complex tensor, or has one in it."""
    found = node.meta.get("val")
    values = found if isinstance(found, list | tuple) else (found,)
    return any(isinstance(each, torch.Tensor) and each.is_complex() for each in values)


def has_fractions(tensor: torch.Tensor) -> bool:
    """Whether the elements are floating-point numbers, or pairs of them."""
    return tensor.is_floating_point() or tensor.is_complex()


def order_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """The dimensions as they follow in memory, the outermost first: of channels-last and such.

    Nothing for tensors that are contiguous, and for those that have gaps or overlap.
    """
    if tensor.is_contiguous():
        return ()
    sizes, strides = tensor.shape, tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda each: (sizes[each] > 1, -strides[each]))
    return tuple(order) if tensor.permute(order).is_contiguous() else ()


def memory_of(value: Any) -> int | None:
    """Where the memory begins that a tensor shares with its views; ``None`` for anything else."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
        return None
    return value.untyped_storage().data_ptr() or None


def span_of(value: Any) -> tuple[int, int]:
    """The addresses between which the elements of a tensor lie; nowhere for anything else."""
    if memory_of(value) is None or not value.numel():
        return 0, 0
    last = sum(
        (size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)
    )
    start = value.data_ptr()
    return start, start + (last + 1) * value.element_size()


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor in main memory, complex ones as pairs; shared, not copied."""
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj()).numpy()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
