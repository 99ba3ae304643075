"""Normalizations with their weights."""

from __future__ import annotations

from weft.ir.types import TensorType
from weft.layers.initial import Array, float_type, parameter, size_at
from weft.layers.parameters import checked
from weft.ops.normalization import (
    BatchNormalizationAttributes,
    GroupNormalizationAttributes,
    LayerNormalizationAttributes,
)
from weft.ops.table import OPS
from weft.ops.values import Value, apply
from weft.records import dataclass


@checked
@dataclass(frozen=True, eq=False)
class BatchNorm:
    """Normalization of channels (axis 1) by fixed means and variances.

    Attributes:
        scale: ``[channels]``; ones if not given.
        bias: zeros if not given.
        mean: zeros if not given.
        variance: ones if not given.
        epsilon: added to the variances.
        name: of the node.
    """

    scale: Array | None = None
    bias: Array | None = None
    mean: Array | None = None
    variance: Array | None = None
    epsilon: float = 1e-5
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        type = TensorType(float_type("BatchNorm", x), (size_at("BatchNorm", x, 1),))
        weights = (
            parameter("BatchNorm", "scale", type, self.scale, "ones"),
            parameter("BatchNorm", "bias", type, self.bias, "zeros"),
            parameter("BatchNorm", "mean", type, self.mean, "zeros"),
            parameter("BatchNorm", "variance", type, self.variance, "ones"),
        )
        attributes = BatchNormalizationAttributes(epsilon=self.epsilon)
        return apply(OPS["BatchNormalization"], (x, *weights), attributes, name=self.name)[0]


@checked
@dataclass(frozen=True, eq=False)
class LayerNorm:
    """Normalization over the last axis.

    Attributes:
        scale: ``[channels]``; ones if not given.
        bias: zeros if not given.
        epsilon: added to the variance.
        name: of the node.
    """

    scale: Array | None = None
    bias: Array | None = None
    epsilon: float = 1e-5
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[..., channels]``."""
        type = TensorType(float_type("LayerNorm", x), (size_at("LayerNorm", x, -1),))
        scale = parameter("LayerNorm", "scale", type, self.scale, "ones")
        shift = parameter("LayerNorm", "bias", type, self.bias, "zeros")
        attributes = LayerNormalizationAttributes(axis=-1, epsilon=self.epsilon)
        return apply(OPS["LayerNormalization"], (x, scale, shift), attributes, name=self.name)[0]


@checked
@dataclass(frozen=True, eq=False)
class GroupNorm:
    """Normalization over groups of channels.

    Attributes:
        groups: of channels (axis 1).
        scale: ``[channels]``; ones if not given.
        bias: zeros if not given.
        epsilon: added to the variances.
        name: of the node.
    """

    groups: int
    scale: Array | None = None
    bias: Array | None = None
    epsilon: float = 1e-5
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[batch, channels, ...]``."""
        type = TensorType(float_type("GroupNorm", x), (size_at("GroupNorm", x, 1),))
        scale = parameter("GroupNorm", "scale", type, self.scale, "ones")
        shift = parameter("GroupNorm", "bias", type, self.bias, "zeros")
        attributes = GroupNormalizationAttributes(num_groups=self.groups, epsilon=self.epsilon)
        return apply(OPS["GroupNormalization"], (x, scale, shift), attributes, name=self.name)[0]
