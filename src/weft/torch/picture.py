# pyright: basic
"""Compiled parts and PyTorch's ops between them as one graph of Weft, to be drawn."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import fx

from weft.dtypes import DType
from weft.ir.graph import Graph, Node
from weft.ir.naming import fresh
from weft.ir.types import Symbol, TensorType
from weft.torch.aten.importer import origin_of
from weft.torch.tensors import DTYPES


def joined_graph(joined: fx.GraphModule, parts: Sequence[Graph]) -> Graph:
    """The graph of what runs.

    Args:
        joined: calls of the parts, and of PyTorch's ops, which become nodes with their names.
        parts: by number of the call.
    """
    return _Joining(parts).run(joined)


class _Joining:
    def __init__(self, parts: Sequence[Graph]) -> None:
        self.parts = iter(parts)
        self.nodes: list[Node] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Any] = {}
        self.values: dict[fx.Node, Sequence[str]] = {}
        self.taken: set[str] = set()

    def run(self, joined: fx.GraphModule) -> Graph:
        inputs: list[str] = []
        outputs: list[str] = []
        for node in joined.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self._made(node) if node.users else []
                inputs += self.values[node]
            elif node.op == "call_module":
                self.values[node] = self._part(next(self.parts), self._read(node))
            elif node.target is operator.getitem:
                (source,) = node.all_input_nodes
                self.values[node] = [self.values[source][cast(int, node.args[1])]]
            elif node.op == "call_function":
                self._foreign(node)
            elif node.op == "output":
                outputs = list(dict.fromkeys(self._read(node)))
        name = type(joined).__name__
        return Graph(
            name, tuple(inputs), tuple(outputs), tuple(self.nodes), self.types, self.constants
        )

    def _read(self, node: fx.Node) -> list[str]:
        return [name for each in node.all_input_nodes for name in self.values.get(each, ())]

    def _foreign(self, node: fx.Node) -> None:
        reads, made = self._read(node), self._made(node)
        self.values[node] = made
        target: Any = node.target
        op = target.name() if isinstance(target, torch._ops.OpOverload) else f"torch::{target}"
        name = fresh(node.name, {each.name for each in self.nodes})
        self.nodes.append(Node(name, op, tuple(reads), tuple(made), origin=origin_of(node)))

    def _made(self, node: fx.Node) -> list[str]:
        value = node.meta.get("val")
        values = value if isinstance(value, list | tuple) else [value]
        return [self._value(node.name, _type(each)) for each in values]

    def _value(self, wanted: str, type: TensorType) -> str:
        name = fresh(wanted, self.taken)
        self.taken.add(name)
        self.types[name] = type
        return name

    def _part(self, graph: Graph, given: Sequence[str]) -> list[str]:
        names: dict[str, str] = {"": "", **dict(zip(graph.inputs, given, strict=True))}
        for name, type in graph.types.items():
            if name not in names:
                names[name] = self._value(name, type)
                if name in graph.constants:
                    self.constants[names[name]] = graph.constants[name]
        taken = {each.name for each in self.nodes}
        for node in graph.nodes:
            name = fresh(node.name, taken)
            taken.add(name)
            reads = tuple(names[each] for each in node.inputs)
            made = tuple(names[each] for each in node.outputs)
            self.nodes.append(Node(name, node.op, reads, made, node.attributes, node.origin))
        return [names[each] for each in graph.outputs]


def _type(value: Any) -> TensorType:
    """The type of what is drawn: numbers as tensors without axes, complex ones as pairs."""
    if not isinstance(value, torch.Tensor):
        return TensorType(DType.I64, ())
    sizes = tuple(size if isinstance(size, int) else Symbol(str(size)) for size in value.shape)
    if value.dtype.is_complex:
        return TensorType(DTYPES[value.dtype.to_real()], (*sizes, 2))
    return TensorType(DTYPES.get(value.dtype, DType.U8), sizes)
