"""Builds the function body of a contrib op from nodes of standard ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from weft.errors import UserError
from weft.frontends.onnx.values import KnownTensor, KnownValue, Value
from weft.ir.types import Dim, TensorType

OPSET = 24
"""The version of the standard operator set used in function bodies."""


class Body:
    """The function body of one node.

    Args:
        node: the node; omitted inputs have an empty name.
        values: types and known constants of its inputs.
        prefix: for names of intermediate values.
    """

    def __init__(
        self, node: NodeProto, values: Sequence[Value | None] = (), prefix: str = "v"
    ) -> None:
        self.inputs = [f"in{place}" if name else "" for place, name in enumerate(node.input)]
        self.outputs = [f"out{place}" for place in range(len(node.output))]
        self.wanted = [bool(name) for name in node.output]
        self.given: dict[str, Any] = {
            each.name: helper.get_attribute_value(each)  # pyright: ignore[reportUnknownMemberType]
            for each in node.attribute
        }
        self.nodes: list[NodeProto] = []
        self._op, self._values = node.op_type, values
        self._prefix, self._made = prefix, 0

    # --- what is given ------------------------------------------------------------------------

    def taken(self, place: int) -> str:
        """An input's name; empty where it is absent."""
        return self.inputs[place] if place < len(self.inputs) else ""

    def asked(self, place: int) -> str:
        """An output's name; empty if it is unused."""
        return self.outputs[place] if self.wanted[place : place + 1] == [True] else ""

    def chosen(self, *names: str) -> dict[str, Any]:
        """The attributes of these names that were given."""
        return {name: self.given[name] for name in names if name in self.given}

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a text."""
        value = self.given.get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def shape(self, place: int) -> tuple[Dim, ...]:
        """An input's shape."""
        return self._type(place).shape

    def rank(self, place: int) -> int:
        """An input's number of axes."""
        return len(self.shape(place))

    def size(self, place: int, axis: int) -> int:
        """An input's size along an axis, which must be known."""
        found = self.shape(place)[axis]
        if isinstance(found, int):
            return found
        raise UserError(f"onnx: {self._op} needs the size of axis {axis} of its input {place}")

    def kind(self, place: int) -> np.dtype[Any]:
        """NumPy's type of an input's elements."""
        return self._type(place).dtype.numpy

    def known(self, place: int) -> np.ndarray | None:
        """An input's value, if it is known and the same for every batch."""
        value = self._values[place] if place < len(self._values) else None
        return value.array if isinstance(value, KnownValue) and value.fixed else None

    def number(self, place: int, name: str) -> int:
        """An input that is one number, which must be known."""
        value = self.known(place)
        if value is not None and value.size == 1:
            return int(value.item())
        raise UserError(
            f"onnx: {self._op} needs a constant {name}",
            fix="Give its value (--constant NAME=VALUE), or the sizes that it follows from.",
        )

    def _type(self, place: int) -> TensorType:
        value = self._values[place] if place < len(self._values) else None
        if isinstance(value, KnownTensor | KnownValue):
            return value.type
        raise UserError(f"onnx: {self._op} needs its input {place}")

    # --- what is refused ----------------------------------------------------------------------

    def refuse(self, what: str) -> UserError:
        """The error for an unsupported option."""
        return UserError(f"onnx: {self._op} {what} is not supported")

    def only(self, **allowed: Any) -> None:
        """Raises ``UserError`` if an attribute has a value other than the given one."""
        for name, value in allowed.items():
            given = self.given.get(name, value)
            if (given.decode() if isinstance(given, bytes) else given) != value:
                raise self.refuse(f"with {name} = {given}")

    def without(self, **places: int) -> None:
        """Raises ``UserError`` if an unsupported optional input is present."""
        for name, place in places.items():
            if self.taken(place):
                raise self.refuse(f"with {name}")

    # --- nodes --------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A name for a value."""
        self._made += 1
        return f"{self._prefix}{self._made - 1}"

    def op(self, name: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Adds a node with one output; the value's name."""
        made = output or self.fresh()
        self.node(name, inputs, [made], **attributes)
        return made

    def node(
        self, name: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Adds a node."""
        kept = list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        self.nodes.append(helper.make_node(name, kept, list(outputs), **attributes))

    def split(self, x: str, axis: int, *sizes: int) -> list[str]:
        """The parts of a value along an axis."""
        found = [self.fresh() for _ in sizes]
        self.node("Split", [x, self.constant(*sizes)], found, axis=axis)
        return found

    def constant(self, *values: int) -> str:
        """A list of integers."""
        tensor = helper.make_tensor("value", TensorProto.INT64, [len(values)], values)
        return self.op("Constant", value=tensor)

    def array(self, values: np.ndarray) -> str:
        """A constant."""
        return self.op("Constant", value=numpy_helper.from_array(values))

    def scalar(self, value: float, like: str = "") -> str:
        """A number, of the type of another value."""
        made = self.array(np.array(value, np.float32))
        return self.op("CastLike", made, like) if like else made

    def extent(self, x: str, axis: int) -> str:
        """The size of a value along an axis, a scalar."""
        size = self.op("Shape", x, start=axis, end=axis + 1)
        return self.op("Squeeze", size, self.constant(0))

    def counted(self, end: str) -> str:
        """The numbers from 0 on that are less than a scalar."""
        zero, one = self.array(np.array(0, np.int64)), self.array(np.array(1, np.int64))
        return self.op("Range", zero, end, one)

    def axes(self, x: str, *places: int) -> str:
        """A value with new axes of size 1."""
        return self.op("Unsqueeze", x, self.constant(*places))

    def reshaped(self, x: str, *sizes: int) -> str:
        """A value in another shape; 0 keeps a size, -1 is what is left."""
        return self.op("Reshape", x, self.constant(*sizes))

    def passed(self, value: str, place: int) -> None:
        """Returns a value as an output, if that output is used."""
        if self.asked(place):
            self.op("Identity", value, output=self.outputs[place])

    # --- integers as numbers ------------------------------------------------------------------

    def numbers(self, place: int) -> str:
        """Three inputs, integers, scale and zero point, as numbers."""
        x, scale, zero = (self.taken(place + each) for each in range(3))
        return self.op("DequantizeLinear", x, scale, zero)

    def result(self, value: str, place: int) -> None:
        """Numbers as the output, by two inputs, scale and zero point."""
        scale, zero = self.taken(place), self.taken(place + 1)
        # Without a zero point the type of the output would be u8, whatever the inputs have.
        self.op("QuantizeLinear", value, scale, zero or self._none(scale), output=self.outputs[0])

    def _none(self, scale: str) -> str:
        zero = self.op("Sub", scale, scale)
        return self.op("CastLike", zero, self.inputs[0])

    # --- channels last ------------------------------------------------------------------------

    def last(self, rank: int) -> bool:
        """Whether images have their channels last; notes their rank."""
        self._rank = rank
        return bool(self.given.get("channels_last"))

    def first(self, x: str, last: bool) -> str:
        """An image with its channels first."""
        order = [0, self._rank - 1, *range(1, self._rank - 1)]
        return self.op("Transpose", x, perm=order) if last else x

    def back(self, x: str, last: bool, output: str = "") -> str:
        """An image in the layout of the call."""
        order = [0, *range(2, self._rank), 1]
        return self.op("Transpose", x, perm=order, output=output) if last else x


Writer: TypeAlias = Callable[[Body], None]
"""Writes the body of a call."""
