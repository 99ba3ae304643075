# pyright: basic
"""Views: other shapes and orders of the same elements."""

from __future__ import annotations

from weft.torch.aten.record import Emit, Tensor, aten


@aten(
    "view.default",
    "reshape.default",
    "_unsafe_view.default",
    "flatten.using_ints",
    "unsqueeze.default",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "unflatten.int",
)
def reshape(g: Emit, self: Tensor, **_: object) -> Tensor:
    # PyTorch has worked out the shape.
    return g.reshape(self, g.result.dims)


@aten("contiguous.default", "clone.default", "alias.default", "detach.default")
def same(g: Emit, self: Tensor) -> Tensor:
    return self


@aten("dropout.default")
def dropout(g: Emit, input: Tensor, p: float, train: bool) -> Tensor:
    if train and p:
        g.refuse("dropout in training is not supported")
    return input
