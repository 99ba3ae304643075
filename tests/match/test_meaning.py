"""Every construct of the language means what the brute-force matcher says."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from tests.match.brute import Brute, Meaning
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph, Node
from weft.ir.types import TensorType
from weft.match.query import Match, query
from weft.ops.table import OPS

TYPE = TensorType(DType.F32, (1, 4))


@st.composite
def graphs(draw: st.DrawFn, most: int = 4) -> Graph:
    """Nodes with one input, two, an optional one, or two outputs, over two inputs."""
    values = ["u", "v", "k", "two"]
    nodes: list[Node] = []
    for number in range(draw(st.integers(1, most))):
        op = draw(st.sampled_from(["Relu", "Neg", "Add", "LeakyRelu", "Dropout"]))
        count = 2 if op == "Add" else 1
        inputs = tuple(
            draw(st.sampled_from(values[-4:] if number > 2 else values)) for _ in range(count)
        )
        outputs = (f"n{number}", f"m{number}") if op == "Dropout" else (f"n{number}",)
        attributes = OPS[op].attributes()
        if op == "LeakyRelu":
            attributes = OPS[op].attributes(alpha=draw(st.sampled_from([0.25, 0.5])))
        nodes.append(Node(f"N{number}", op, inputs, outputs, attributes))
        values.extend(outputs)
    made = [value for node in nodes for value in node.outputs]
    outputs = tuple(dict.fromkeys([draw(st.sampled_from(made)), made[-1]]))
    constants = {"k": np.array([[1.0]], np.float32), "two": np.array([2.0], np.float32)}
    types = dict.fromkeys(values, TYPE)
    types["two"] = TensorType(DType.F32, (1,))
    types["k"] = TensorType(DType.F32, (1, 1))
    for array in constants.values():
        array.flags.writeable = False
    return Graph("g", ("u", "v"), outputs, tuple(nodes), types, constants)


NODES = (
    "Relu",
    "Neg",
    "Add",
    "Dropout",
    "*",
    "*",
    "!Neg",
    "!(Add | Relu)",
    "LeakyRelu[alpha=0.5]",
    "*[users=1]",
    "*[const]",
    "*[input | output]",
    "Add[a.const, !b.const]",
    "a: *",
    "a: Relu",
    "b: *[users>=1]",
    "Add(x, _)",
    "Add{x, Neg}",
    "Add{Relu(x), y}",
    "Add(x, x)",
    "Add(_, Neg? -> Relu)",
    "*(2, ...)",
    "Dropout(x, y?, ...)",
)
VALUES = ("input", "output", "const k", "a", "x", "output x", "_", "2.0", "input x[users=1]")
ARROWS = ("->", "->", "->", "-[a]->", "-[1]->", "-[0:]->", "-[1:x]->")


@st.composite
def chains(draw: st.DrawFn, depth: int = 2) -> str:
    steps: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 11))
        if kind < 7 or depth == 0:
            step = draw(st.sampled_from(NODES))
        elif kind == 7:
            step = draw(st.sampled_from(VALUES))
        elif kind == 8:
            look = draw(st.sampled_from(["(?=", "(?!", "(?<=", "(?<!"]))
            step = f"{look} {draw(chains(depth - 1))})"
        elif kind == 9:
            step = f"({draw(chains(depth - 1))} | {draw(chains(depth - 1))})"
        else:
            step = f"({draw(chains(depth - 1))})"
            step += draw(st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "{0,2}", "{2,}"]))
        if steps:
            steps.append(draw(st.sampled_from(ARROWS)))
        steps.append(step)
    return " ".join(steps)


@st.composite
def queries(draw: st.DrawFn) -> str:
    statements = [draw(chains())]
    for _ in range(draw(st.sampled_from([0, 0, 1]))):
        statements.append(draw(chains(1)))
    if draw(st.integers(0, 5)) == 0:
        statements.append(draw(st.sampled_from(["y = Add(x, _)", "x = Relu(_)", "a != b"])))
    return "; ".join(statements)


def told(match: Match) -> tuple[frozenset[str], frozenset[tuple[str, str]], frozenset[object]]:
    named = {name: node.name for name, node in match.named.items()}
    rounds = frozenset((n, v) for n, values in match.lists.items() for v in values)
    return (
        frozenset(node.name for node in match.nodes),
        frozenset((dict(match.values) | named).items()),
        rounds,
    )


def meant(meaning: Meaning) -> tuple[frozenset[str], frozenset[tuple[str, str]], frozenset[object]]:
    return frozenset(meaning.nodes), meaning.names, meaning.rounds


RELAXED = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def asked(graph: Graph, text: str, **options: object) -> list[Match]:
    try:
        return list(query(graph, text, **options))  # type: ignore[arg-type]
    except UserError:
        # Names that are not given elsewhere, and the like: there is a test of each.
        assume(False)
        raise


@RELAXED
@given(graphs(), queries())
def test_every_match_is_found_and_no_other(graph: Graph, text: str) -> None:
    brute = Brute(graph, text)
    assume(len(brute.total) < 3)
    found = asked(graph, text, overlaps="every")
    assert {told(match) for match in found} == {meant(each) for each in brute.meanings()}
    assert len({told(match) for match in found}) == len(found)
