# pyright: basic
"""Tensors that do not depend on the elements of others.

Most of these never reach the table: they are evaluated before (``weft.torch.folding``).  Here are
those that are too large for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes import DType
from weft.frontends.emit import Number, Tensor
from weft.torch.aten.record import Emit, Row, aten


def filled(g: Emit, value: Tensor | Number) -> Tensor:
    """A tensor of the type of the result, every element of which is the value."""
    if isinstance(value, Tensor):
        return g.expand(g.cast(value, g.dtype), g.result.dims)
    return g("ConstantOfShape", shape=g.result.dims, value=value, dtype=g.dtype)


def _constant(value: int) -> Row:
    def row(g: Emit, **_: Any) -> Tensor:
        return filled(g, value)

    return row


for _name, _value in {"zeros": 0, "ones": 1, "empty": 0}.items():
    aten(f"{_name}_like.default", f"new_{_name}.default")(_constant(_value))
aten("zeros.default", "empty.memory_format", "empty_strided.default")(_constant(0))
aten("new_empty_strided.default")(_constant(0))
aten("ones.default")(_constant(1))


@aten("full.default", "full_like.default", "new_full.default")
def full(g: Emit, fill_value: Number, **_: Any) -> Tensor:
    return filled(g, fill_value)


@aten("scalar_tensor.default")
def scalar_tensor(g: Emit, s: Number) -> Tensor:
    return filled(g, s)


@aten("fill.Scalar", "fill.Tensor")
def fill(g: Emit, self: Tensor, value: Tensor | Number) -> Tensor:
    return filled(g, value)


@aten("zero.default")
def zero(g: Emit, self: Tensor) -> Tensor:
    return filled(g, 0)


@aten("arange.default", "arange.start", "arange.start_step")
def arange(g: Emit, end: Number, start: Number = 0, step: Number = 1) -> Tensor:
    if g.dtype.is_float:
        g.refuse("a floating-point range so long is not supported")
    return g("Range", start=start, limit=end, delta=step, dtype=g.dtype)


@aten("one_hot.default")
def one_hot(g: Emit, self: Tensor, num_classes: int) -> Tensor:
    classes = g.result.dims[-1]
    places = g.constant(np.arange(classes), "classes")
    indices = g.reshape(g.cast(self, DType.I64), (*self.shape, 1))
    return g.cast(g("Equal", indices, places), g.dtype)


def _random(g: Emit, **_: Any) -> Tensor:
    g.refuse("random numbers are not supported")


for _name in ("rand", "randn", "randint", "randperm"):
    aten(f"{_name}.default")(_random)
for _name in ("rand", "randn", "randint"):
    aten(f"{_name}_like.default")(_random)
aten("bernoulli.default", "bernoulli.p", "multinomial.default", "normal_functional.default")(
    _random
)
