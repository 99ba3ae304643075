"""Verification finds what is broken, all of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.strategies import attribute_class
from weft.dtypes import DType
from weft.errors import InternalError, UserError
from weft.ir.edit import read_only
from weft.ir.graph import Graph, Node
from weft.ir.text import parse
from weft.ir.types import Symbol, TensorType
from weft.ir.verify import verify, violations

PAIR = TensorType(DType.F32, (2,))


def test_every_violation_is_listed() -> None:
    frozen = read_only(np.zeros(2, np.float32))
    graph = Graph(
        "bad",
        ("x", "x"),
        ("y", "gone"),
        (
            Node("n", "Neg", ("late",), ("y",)),
            Node("n", "Neg", ("missing",), ("late",)),
            Node("", "Neg", ("x",), ("y",)),
            Node("untyped", "Neg", ("x",), ("u",)),
        ),
        {
            "x": PAIR,
            "y": TensorType(DType.F32, (2, Symbol("N"))),
            "late": TensorType(DType.F32, (-1,)),
            "stray": PAIR,
            "k": PAIR,
            "wide": PAIR,
            "odd": PAIR,
        },
        {
            "k": np.zeros(2, np.float32),
            "wide": read_only(np.zeros(3, np.float32)),
            "odd": read_only(np.zeros(2, np.complex64)),
            "x": frozen,
        },
    )
    assert violations(graph) == (
        "two nodes are called n",
        "a Neg node has no name",
        "value x is made by a graph input and by a graph input",
        "value x is made by a graph input and by a constant",
        "value y is made by node n and by node ",
        "node n reads late before it is made",
        "node n reads missing which nothing makes",
        "value u has no type",
        "value y has symbol N at dimension 1, not the leading",
        "value late has negative size -1 at dimension 0",
        "type of stray, which nothing makes",
        "constant k can be written to",
        "constant wide is f32[3], its type says f32[2]",
        "constant odd is complex64, its type says f32[2]",
        "graph output gone is made by nothing",
    )
    with pytest.raises(InternalError, match="graph bad is broken:\n  two nodes are called n\n"):
        verify(graph)


def test_types_are_checked_with_infer() -> None:
    graph = parse(
        """graph g(%x: f32[2]) -> (%y, %z) {
          %y: f32[2] = Neg(%x)
          %z: f32[3], %u: f32[2] = Neg(%y)  # two
          %v: f32[2] = Rich(%y) {body=graph b(%s: f32[2]) -> (%t) { %t: f32[4] = Neg(%s) }}
          %w: f32[2] = Bad(%y)
        }""",
        attribute_class,
    )

    def infer(node: Node, graph: Graph) -> tuple[TensorType, ...]:
        if node.op == "Bad":
            raise UserError("bad: never")
        return (graph.types[node.inputs[0]],)

    verify(graph)
    assert violations(graph, infer) == ("node v, body: value t is f32[4], Neg gives f32[2]",)
    alone = parse(
        """graph g(%x: f32[2]) -> (%z) {
          %z: f32[3], %u: f32[2] = Neg(%x)  # two
          %w: f32[2] = Bad(%x)
        }""",
        attribute_class,
    )
    assert violations(alone, infer) == (
        "node two has 2 outputs, Neg gives 1",
        "value z is f32[3], Neg gives f32[2]",
        "node w cannot be typed: bad: never",
    )
