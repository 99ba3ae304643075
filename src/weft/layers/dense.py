"""Matrix products and tables with their weights."""

from __future__ import annotations

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType
from weft.layers.initial import Array, bias, float_type, parameter, size_at
from weft.layers.parameters import checked
from weft.ops.linear import GemmAttributes
from weft.ops.table import OPS
from weft.ops.values import Initial, Value, apply
from weft.records import dataclass


@checked
@dataclass(frozen=True, eq=False)
class Linear:
    """A matrix product over the last axis, and a bias.

    Attributes:
        channels: of the output.
        weight: ``[channels, input channels]``, as PyTorch has it; drawn if not given.
        bias: ``[channels]``; ``True`` for zeros, ``False`` for none.
        initial: how the weight is drawn.
        name: of the node.
    """

    channels: int
    weight: Array | None = None
    bias: bool | Array = True
    initial: Initial = "he"
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value ``[..., channels]``."""
        dtype, inputs = float_type("Linear", x), size_at("Linear", x, -1)
        b = bias("Linear", self.bias, x.type, self.channels)
        fans = (inputs, self.channels)
        shape = TensorType(dtype, (self.channels, inputs))
        w = parameter("Linear", "weight", shape, self.weight, self.initial, fans)
        if len(x.type.shape) == 2:
            attributes = GemmAttributes(transB=1)
            return apply(OPS["Gemm"], (x, w, b), attributes, name=self.name)[0]
        turned = apply(OPS["Transpose"], (w,), OPS["Transpose"].attributes(perm=(1, 0)))[0]
        made = apply(OPS["MatMul"], (x, turned), name=self.name)[0]
        return made if b is None else apply(OPS["Add"], (made, b))[0]


@checked
@dataclass(frozen=True, eq=False)
class Embedding:
    """Rows of a table, chosen by whole numbers.

    Attributes:
        rows: of the table.
        channels: of a row.
        weight: ``[rows, channels]``; drawn if not given.
        initial: how the weight is drawn.
        name: of the node.
    """

    rows: int
    channels: int
    weight: Array | None = None
    initial: Initial = "normal"
    name: str = ""

    def __call__(self, x: Value) -> Value:
        """The layer on a value of whole numbers."""
        if not x.type.dtype.is_integer:
            raise UserError("Embedding: the input must hold whole numbers", got=str(x.type))
        type = TensorType(DType.F32, (self.rows, self.channels))
        table = parameter("Embedding", "weight", type, self.weight, self.initial)
        return apply(OPS["Gather"], (table, x), name=self.name)[0]
