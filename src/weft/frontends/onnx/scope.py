"""Names in sight while a graph, a subgraph or a function body is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from onnx import AttributeProto

from weft.errors import UserError
from weft.frontends.onnx.values import KnownTensor, KnownValue, Listed, Value
from weft.ops.build import GraphBuilder

NO_BINDINGS: Mapping[str, AttributeProto] = MappingProxyType({})
NOTHING_DECLARED: Mapping[str, Sequence[int | None]] = MappingProxyType({})
MAX_DEPTH = 24
"""Functions and subgraphs within one another."""


class Frame:
    """A graph under construction: the main one, or the body of a loop.

    Args:
        builder: collects the nodes.
        reserved: value names of the source graph, which nothing else may take.
    """

    def __init__(self, builder: GraphBuilder, reserved: frozenset[str] = frozenset()) -> None:
        self.builder = builder
        self.reserved = reserved
        self.captured: dict[str, tuple[KnownTensor, KnownTensor]] = {}
        self._constants: dict[int, tuple[KnownValue, str]] = {}

    def free(self, wish: str) -> str:
        """A name that is not reserved; the builder sees to the rest."""
        while wish in self.reserved:
            wish += "_"
        return wish

    def constant(self, value: KnownValue, wish: str = "") -> str:
        """The name of a constant in the graph, which is added at first use."""
        if not value.fixed:
            raise UserError(
                "onnx: the batch must be concrete here",
                got=f"{value.name} depends on it",
                fix="Set the shape of the input with `--input name=shape`",
            )
        found = self._constants.get(id(value))
        if found is None or wish:
            name = self.builder.constant(value.array, wish or value.name)
            found = (value, name)
            self._constants[id(value)] = found
        return found[1]

    def capture(self, outer: Value) -> Value:
        """A value of the surrounding graph, as an input of this one."""
        match outer:
            case KnownTensor(name, type):
                if name not in self.captured:
                    inner = KnownTensor(self.builder.input(name, type), type)
                    self.captured[name] = (outer, inner)
                return self.captured[name][1]
            case Listed(items):
                return Listed(tuple(self.capture(item) for item in items))
            case _:
                return outer


class NameScope:
    """Values by their ONNX names.

    Args:
        frame: the graph that nodes go into.
        opsets: version of every operator set, by domain.
        parent: the scope around a subgraph; functions have none.
        prefix: put before the names of values that are made here.
        bindings: attributes of the function call, for references to them.
        depth: how many functions and subgraphs are around.
        sources: names of the nodes of the model that stand for whatever is in here.
        declared: shapes that the model claims, by value.
    """

    def __init__(
        self,
        frame: Frame,
        opsets: Mapping[str, int],
        *,
        parent: NameScope | None = None,
        prefix: str = "",
        bindings: Mapping[str, AttributeProto] = NO_BINDINGS,
        depth: int = 0,
        sources: tuple[str, ...] = (),
        declared: Mapping[str, Sequence[int | None]] = NOTHING_DECLARED,
    ) -> None:
        if depth > MAX_DEPTH:
            raise UserError(
                f"onnx: functions and subgraphs may be nested {MAX_DEPTH} deep", where=prefix
            )
        self.frame = frame
        self.opsets = opsets
        self.parent = parent
        self.prefix = prefix
        self.bindings = bindings
        self.depth = depth
        self.sources = sources
        self.declared = declared
        self.values: dict[str, Value] = {}

    def find(self, name: str) -> Value | None:
        """The value of this name, here or around."""
        if name in self.values:
            return self.values[name]
        if self.parent is None:
            return None
        found = self.parent.find(name)
        if found is None or self.parent.frame is self.frame:
            return found
        return self.frame.capture(found)

    def define(self, name: str, value: Value) -> None:
        """Give a value a name; every name is given once."""
        if name in self.values:
            raise UserError(f"onnx: the value {name} is computed twice")
        self.values[name] = value

    def wish(self, name: str) -> str:
        """What a value of this scope is to be called in the graph."""
        if not name or (self.parent is None and not self.prefix):
            return name
        return self.frame.free(f"{self.prefix}{name}")
