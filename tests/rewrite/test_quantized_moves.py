"""Moves, choices and functions of quantized values: the same bits from the integers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import graph_of
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS
from weft.recipes import apply
from weft.rewrite.engine import rewrite
from weft.rewrite.quantized_moves import RULES

RNG = np.random.default_rng(4)
TWO = """(%x: i8[2,3,4], %b: i8[2,3,4]) -> (%y) {
    const %xs: f32[]
    const %xz: i8[]
    const %bs: f32[]
    const %bz: i8[]
    const %ys: f32[]
    const %yz: i8[]
    %xd: f32[2,3,4] = DequantizeLinear(%x, %xs, %xz)
    %bd: f32[2,3,4] = DequantizeLinear(%b, %bs, %bz)
    %v: f32[TO] = OP
    %y: i8[TO] = QuantizeLinear(%v, %ys, %yz)
}"""


def values(b: float = 0.05, y: float = 0.05) -> dict[str, np.ndarray]:
    scales = {"xs": 0.05, "bs": b, "ys": y}
    zeros = {name: np.array(3, np.int8) for name in ("xz", "bz", "yz")}
    return {**{name: np.array(each, np.float32) for name, each in scales.items()}, **zeros}


def changed(text: str, rounding: str = "onnx", **given: np.ndarray) -> list[str]:
    """The ops after the recipe, which has the same bits."""
    graph = graph_of(text, **given)
    done = apply(graph, "integers", {"rounding": rounding})
    x, b = (RNG.integers(-128, 128, (2, 3, 4)).astype(np.int8) for _ in range(2))
    arrays = {"x": x, "b": b}
    before, after = (evaluate(each, arrays, OPS)["y"] for each in (graph, done))
    np.testing.assert_array_equal(before, after)
    return [node.op for node in done.nodes]


@pytest.mark.parametrize("rounding", ["onnx", "litert"])
@pytest.mark.parametrize(
    ("op", "to"),
    [
        ("Concat(%xd, %bd) {axis=1}", "2,6,4"),
        ("Max(%xd, %bd)", "2,3,4"),
        ("Min(%xd, %bd)", "2,3,4"),
        ("Pad(%xd) {pads=(0, 1, 0, 0, 0, 2)}", "2,4,6"),
        ('Pad(%xd) {pads=(0, 1, 0, 0, 0, 2), mode="reflect"}', "2,4,6"),
        ("Transpose(%xd) {perm=(0, 2, 1)}", "2,4,3"),
    ],
)
def test_of_one_scale(op: str, to: str, rounding: str) -> None:
    ops = changed(TWO.replace("OP", op).replace("TO", to), rounding, **values())
    assert ops == [op.partition("(")[0]]


@pytest.mark.parametrize("rounding", ["onnx", "litert"])
def test_parts_by_another_scale_are_quantized_anew(rounding: str) -> None:
    text = TWO.replace("OP", "Concat(%xd, %bd) {axis=0}").replace("TO", "4,3,4")
    ops = changed(text, rounding, **values(b=0.1))
    assert ops[-1] == "Concat"
    assert ("Requantize" in ops) == (rounding == "litert")


@pytest.mark.parametrize(
    "op",
    [
        *("Sigmoid(%xd)", "Tanh(%xd)", "Gelu(%xd)", "LeakyRelu(%xd) {alpha=0.25}", "Exp(%xd)"),
        *("Sqrt(%xd)", "Log(%xd)", "Reciprocal(%xd)"),
    ],
)
def test_functions_are_tables(op: str) -> None:
    assert changed(TWO.replace("OP", op).replace("TO", "2,3,4"), **values(y=0.02)) == ["Lookup"]


@pytest.mark.parametrize("rounding", ["onnx", "litert"])
def test_tables_of_functions_whose_floats_overflow(rounding: str) -> None:
    given = {**values(y=0.001), "xs": np.array(0.7, np.float32)}
    graph = graph_of(TWO.replace("OP", "Exp(%xd)").replace("TO", "2,3,4"), **given)
    done = apply(graph, "integers", {"rounding": rounding})
    assert [node.op for node in done.nodes] == ["Lookup"]
    (table,) = (each for each in done.constants.values() if each.size == 256)
    assert table[-1] == 127


@pytest.mark.parametrize(
    ("op", "to", "given", "reason"),
    [
        (
            "Max(%xd, %bd)",
            "2,3,4",
            values(b=0.1),
            "one of its inputs is quantized by another scale",
        ),
        ("Concat(%xd, %bd) {axis=0}", "4,3,4", values(y=0.1), "all are quantized anew"),
        (
            "Pad(%xd) {pads=(0, 1, 0, 0, 0, 2), value=1.0}",
            "2,4,6",
            values(),
            "it pads with another number than 0",
        ),
        (
            "Pad(%xd) {pads=(0, 1, 0, 0, 0, 2)}",
            "2,4,6",
            values(y=0.1),
            "it is quantized by another scale",
        ),
    ],
)
def test_refusals(op: str, to: str, given: dict[str, np.ndarray], reason: str) -> None:
    graph = graph_of(TWO.replace("OP", op).replace("TO", to), **given)
    done, log = rewrite(graph, RULES)
    assert done is graph
    assert [each.reason for each in log.refused] == [reason]
