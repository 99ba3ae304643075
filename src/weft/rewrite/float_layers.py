"""What a quantized network still computes in float, and why."""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.graph import Graph, Node
from weft.ops.rounding import roundings
from weft.records import dataclass
from weft.rewrite import litert, quantized
from weft.rewrite.engine import rewrite
from weft.rewrite.rule import Exactness

_BORDERS = ("QuantizeLinear", "DequantizeLinear")
_RULES = {"litert": litert.RULES, "onnx": quantized.RULES}


@dataclass(frozen=True, slots=True)
class FloatLayer:
    """A node in float.

    Attributes:
        node: its name.
        op: its op.
        reason: why it is not one of integers.
    """

    node: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} ({self.op}): {self.reason}"


def float_layers(graph: Graph) -> tuple[FloatLayer, ...]:
    """The nodes of a quantized network that compute in float, in order, each with its reason.

    Args:
        graph: a network as it was read, its quantized layers in integers where rules apply.

    Returns:
        Nothing for a network in which nothing is quantized.
    """
    found = roundings(graph)
    if not found and not any(node.op in _BORDERS for node in graph.nodes):
        return ()
    chosen = next((each for each in found if each in _RULES), "litert")
    refused: dict[str, str] = {}
    _, log = rewrite(graph, _RULES[chosen], allow=Exactness.APPROXIMATE)
    for each in log.refused:
        refused.setdefault(each.node, each.reason)
    if log.fired:
        chosen = ""
    return tuple(
        FloatLayer(node.name, node.op, _reason(graph, node, chosen, refused))
        for node in graph.nodes
        if node.op not in _BORDERS and _is_float(graph, node)
    )


def _is_float(graph: Graph, node: Node) -> bool:
    values = [value for value in (*node.inputs, *node.outputs) if value]
    return any(graph.types[value].dtype.is_float for value in values) and any(
        graph.types[value].dtype.is_float for value in node.outputs if value
    )


def _reason(graph: Graph, node: Node, chosen: str, refused: dict[str, str]) -> str:
    if not chosen:
        return "layers in float were asked for"
    ends = list(_quantizers(graph, node))
    for end in ends:
        if end.name in refused:
            return refused[end.name]
    if not ends:
        return "its output is not quantized"
    if not _reads_quantized(graph, node):
        return "its inputs are not quantized"
    if chosen == "onnx":
        return f"ONNX defines {node.op} of quantized values in float"
    return f"no integer kernel of LiteRT for {node.op} between these values is known"


def _reads_quantized(graph: Graph, node: Node) -> bool:
    """Whether integers were dequantized for a node, or for what is in float before it."""
    seen: set[str] = set()
    pending = [node]
    while pending:
        for value in pending.pop().reads:
            maker = graph.producers.get(value)
            if maker is None or value in seen or not graph.types[value].dtype.is_float:
                continue
            if maker.op == "DequantizeLinear":
                return True
            seen.add(value)
            pending.append(maker)
    return False


def _quantizers(graph: Graph, node: Node) -> Iterator[Node]:
    """The quantizers that a node's outputs go to, through what is in float."""
    seen: set[str] = set()
    pending = [node]
    while pending:
        for value in pending.pop().outputs:
            for reader in graph.users.get(value, ()):
                if reader.op == "QuantizeLinear":
                    yield reader
                elif reader.name not in seen and _is_float(graph, reader):
                    seen.add(reader.name)
                    pending.append(reader)
