"""Pooling and flattening."""

from __future__ import annotations

from weft.layers.initial import Sizes, spatial
from weft.layers.parameters import checked
from weft.ops.table import OPS
from weft.ops.values import Value, apply
from weft.records import dataclass


@checked
@dataclass(frozen=True)
class MaxPool:
    """The largest number of every window.

    Attributes:
        kernel: extents of the window; one number is for all axes.
        strides: steps of the window; the kernel if not given.
        padding: around every axis.
        name: of the node.
    """

    kernel: Sizes
    strides: Sizes | None = None
    padding: Sizes = 0
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        return _pool("MaxPool", x, self.kernel, self.strides, self.padding, self.name)


@checked
@dataclass(frozen=True)
class AveragePool:
    """The mean of every window; padding does not count.

    Attributes:
        kernel: extents of the window; one number is for all axes.
        strides: steps of the window; the kernel if not given.
        padding: around every axis.
        name: of the node.
    """

    kernel: Sizes
    strides: Sizes | None = None
    padding: Sizes = 0
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        return _pool("AveragePool", x, self.kernel, self.strides, self.padding, self.name)


@checked
@dataclass(frozen=True)
class GlobalAveragePool:
    """The mean of every channel.

    Attributes:
        name: of the node.
    """

    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        return apply(OPS["GlobalAveragePool"], (x,), name=self.name)[0]


@checked
@dataclass(frozen=True)
class Flatten:
    """All axes from ``axis`` on as one, and all before as another.

    Attributes:
        axis: the first of the second part.
        name: of the node.
    """

    axis: int = 1
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value."""
        attributes = OPS["Flatten"].attributes(axis=self.axis)
        return apply(OPS["Flatten"], (x,), attributes, name=self.name)[0]


def _pool(
    op: str, x: Value, kernel: Sizes, strides: Sizes | None, padding: Sizes, name: str
) -> Value:
    attributes = OPS[op].attributes(
        kernel=spatial(op, "kernel", kernel, x),
        strides=spatial(op, "strides", kernel if strides is None else strides, x),
        pads=spatial(op, "padding", padding, x) * 2,
    )
    return apply(OPS[op], (x,), attributes, name=name)[0]
