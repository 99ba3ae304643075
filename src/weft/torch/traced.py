# pyright: basic
"""Tensors without elements, whose ops are recorded."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import fx
from torch.utils import _pytree as pytree


class Recorder(Protocol):
    """Where ops are recorded.

    Attributes:
        graph: of the nodes so far.
        left: whether something came that is left to ``torch.export``.
    """

    graph: fx.Graph
    left: bool


class LeftError(Exception):
    """Something that is left to ``torch.export``."""


class Traced(torch.Tensor):
    """A tensor without elements whose ops are recorded.

    Attributes:
        element: of the device ``meta``, of the same type; views share memory as real ones do.
        node: what made it, or wrote it last.
    """

    element: torch.Tensor
    node: fx.Node
    recording: Recorder

    __torch_function__: Any = torch._C._disabled_torch_function_impl

    @property
    def data(self) -> Any:
        """A view, as of any tensor."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self._leave("its data are replaced")

    def stride(self, *args: Any, **kwargs: Any) -> Any:
        """As of any tensor, where it is what PyTorch's own would be."""
        self._check_layouts()
        return super().stride(*args, **kwargs)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> Any:
        """As of any tensor, where it is what PyTorch's own would be."""
        self._check_layouts()
        return super().is_contiguous(*args, **kwargs)

    def _check_layouts(self) -> None:
        """Convolutions of channels-last tensors and the like give other strides here."""
        values = [node.meta.get("val") for node in self.recording.graph.nodes]
        tensors = [each for each in values if isinstance(each, torch.Tensor) and each.dim() > 3]
        if not all(each.is_contiguous() for each in tensors):
            self._leave("how it lies may not be as recorded")

    def __repr__(self, *_: Any, **__: Any) -> str:
        self.recording.left = True
        return f"{type(self).__name__}({tuple(self.shape)}, {self.dtype})"

    def _lacks(self, *_: Any, **__: Any) -> Any:
        """In the place of methods that read elements or memory, not by an op."""
        return self._leave("it has no memory")

    data_ptr = untyped_storage = numpy = tolist = _lacks
    __array__ = __dlpack__ = __dlpack_device__ = __deepcopy__ = __reduce_ex__ = _is_view = _lacks
    _base: Any = property(_lacks)
    _version: Any = property(_lacks)

    def _leave(self, why: str) -> Any:
        self.recording.left = True
        raise LeftError(why)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for each in pytree.tree_leaves((args, kwargs)):
            if isinstance(each, Traced):
                each.recording.left = True
        raise LeftError(f"{func} does not reach the recording")


def traced(
    element: torch.Tensor, node: fx.Node, recording: Recorder, *, requires_grad: bool = False
) -> Traced:
    """A recorded tensor.

    Args:
        element: of the device ``meta``.
        node: what makes it.
        recording: that records its ops.
        requires_grad: as of the tensor that it stands for.
    """
    if element.layout != torch.strided:
        raise LeftError(f"{node.name} gives a tensor that is {element.layout}")
    make: Any = torch.Tensor._make_wrapper_subclass
    tensor: Traced = make(
        Traced,
        element.size(),
        strides=element.stride(),
        storage_offset=element.storage_offset(),
        dtype=element.dtype,
        layout=element.layout,
        device="cpu",
        requires_grad=requires_grad,
    )
    # Else what asks for its memory in other ways would get any.
    torch._C._set_throw_on_mutable_data_ptr(tensor)
    tensor.element, tensor.node, tensor.recording = element, node, recording
    return tensor
