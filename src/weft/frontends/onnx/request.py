"""One node on its way into the graph, as adapters see and change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import UserError
from weft.frontends.onnx.attributes import Raw
from weft.frontends.onnx.scope import NameScope
from weft.frontends.onnx.values import KnownTensor, KnownValue, Value
from weft.ir.types import TensorType
from weft.records import dataclass


class NeedsValue(UserError):
    """A value that fixes a shape or the like is not known before the model runs.

    Attributes:
        value: name of the value in the graph that was built so far.
    """

    def __init__(self, op: str, what: str, value: str, where: str) -> None:
        self.value = value
        super().__init__(
            f"onnx: {op} needs to know {what} before the model runs",
            got=f"{value}, which is computed",
            fix="Inputs that fix shapes can be given as constants",
            where=where,
        )


@dataclass(frozen=True)
class Request:
    """A use of an op.

    Attributes:
        op: the op's name.
        version: opset that brought the version of the op that is meant.
        attributes: by ONNX's names; defaults filled in.
        inputs: values; ``None`` where absent.
        names: what the schema calls the inputs, in lower case.
        outputs: wished names of the outputs, ``""`` where unused.
        name: wished name of the node.
        where: for errors.
        scope: names in sight, and the graph it goes into.
    """

    op: str
    version: int
    attributes: Mapping[str, Raw]
    inputs: tuple[Value | None, ...]
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str
    where: str
    scope: NameScope

    def has(self, position: int) -> bool:
        """Whether an input is present."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def value(self, position: int) -> Value:
        """An input that must be present."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if found is None:
            raise self.error(f"input {position} is required")
        return found

    def type(self, position: int) -> TensorType:
        """Type of an input that must be a tensor."""
        return self.type_of(self.value(position))

    def type_of(self, value: Value) -> TensorType:
        """Type of a value that must be a tensor."""
        if isinstance(value, KnownTensor | KnownValue):
            return value.type
        raise self.error("an input must be a tensor", got=f"a {type(value).__name__}")

    def known(self, position: int) -> KnownValue | None:
        """An input if it is known, ``None`` if it is absent; an error if it is computed."""
        if not self.has(position):
            return None
        value = self.inputs[position]
        if isinstance(value, KnownValue):
            return value
        if isinstance(value, KnownTensor):
            name = self.names[min(position, len(self.names) - 1)]
            raise NeedsValue(self.op, name, value.name, self.where)
        raise self.error("an input must be a tensor", got=f"a {type(value).__name__}")

    def numbers(self, position: int) -> np.ndarray | None:
        """The elements of a known input that does not depend on the batch."""
        found = self.known(position)
        if found is None:
            return None
        if not found.fixed:
            raise self.error(
                "the batch must be concrete here",
                fix="Set the shape of the input with `--input name=shape`",
            )
        return found.array

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def error(self, rule: str, *, got: str = "", fix: str = "") -> UserError:
        """A ``UserError`` that names op and node."""
        return UserError(f"{self.op.lower()}: {rule}", got=got, fix=fix, where=self.where)

    def but(
        self,
        *,
        op: str | None = None,
        inputs: Sequence[Value | None] | None = None,
        names: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        **attributes: Raw,
    ) -> Request:
        """The request with some parts changed and attributes dropped or set."""
        kept = {name: value for name, value in self.attributes.items() if name not in drop}
        return replace(
            self,
            op=self.op if op is None else op,
            inputs=self.inputs if inputs is None else tuple(inputs),
            names=self.names if names is None else tuple(names),
            attributes={**kept, **attributes},
        )


def check_states(request: Request, before: Sequence[Value], after: Sequence[Value]) -> None:
    """Carried values keep their types."""
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        was, now = request.type_of(old), request.type_of(new)
        if was != now:
            raise UserError(
                f"{request.op.lower()}: carried value {place} must keep its type",
                got=f"{was}, then {now}",
                where=request.where,
            )
