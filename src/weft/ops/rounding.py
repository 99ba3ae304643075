"""Whose rounding of quantized values a graph has."""

from __future__ import annotations

from weft.ir.graph import Graph
from weft.ops.table import OPS

FLOAT = "float"
ROUNDINGS = ("litert", "onnx", FLOAT)
"""What may be asked for: LiteRT's fixed point, ONNX's scales in float, layers in float."""
SENTENCES = {
    "litert": "Quantized layers round as LiteRT's reference kernels do: in fixed point, twice.",
    "onnx": "Quantized layers round as ONNX's do: by scales in float, halves to even.",
    FLOAT: "Quantized layers compute in float, between dequantizers and quantizers.",
}


def roundings(graph: Graph) -> tuple[str, ...]:
    """The roundings that a graph's values have; none if nothing in it is quantized."""
    found = {OPS[node.op].rounding for node in graph.nodes} - {""}
    if not found and any(node.op == "QuantizeLinear" for node in graph.nodes):
        return (FLOAT,)
    return tuple(sorted(found))
