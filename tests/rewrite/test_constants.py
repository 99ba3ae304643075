"""Constant folding and sharing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rewrite.checks import assert_same, check, check_refused, graph_of, nodes_of
from weft.rewrite import constants
from weft.rewrite.constants import RULES, share_constants
from weft.rewrite.rule import Exactness


def test_what_depends_on_constants_is_computed() -> None:
    graph, _ = check(
        RULES,
        """(%x: f32[3]) -> (%y) {
            const %a: f32[3] = [1.0, 2.0, 3.0]
            const %b: f32[1] = [2.0]
            %c: f32[3] = Mul(%a, %b)
            %d: f32[3] = Neg(%c)
            %y: f32[3] = Add(%x, %d)
        }""",
        "%y: f32[3] = Add(%x, %d)",
        {"fold-constants": 2},
    )
    assert graph.constants["d"].tolist() == [-2, -4, -6]
    assert list(graph.constants) == ["d"]
    assert not graph.constants["d"].flags.writeable


def test_several_outputs_and_unused_ones() -> None:
    graph, _ = check(
        RULES,
        """(%x: f32[1]) -> (%y, %z) {
            const %a: f32[4] = [1.0, 2.0, 3.0, 4.0]
            %p: f32[1], %q: f32[1], %r: f32[2] = Split(%a) {split=(1,1,2)}
            %y: f32[1] = Add(%x, %q)
            %z: f32[2] = Add(%x, %r)
        }""",
        "%y: f32[1] = Add(%x, %q)\n%z: f32[2] = Add(%x, %r)",
        {"fold-constants": 1},
    )
    assert sorted(graph.constants) == ["q", "r"]


def test_a_graph_output_that_is_constant_is_still_made_by_a_node() -> None:
    check(
        RULES,
        """() -> (%y) {
            const %a: f32[2] = [1.0, 2.0]
            %y: f32[2] = Neg(%a)
        }""",
        "%y: f32[2] = Identity(%y_1)",
        {"fold-constants": 1},
    )


def test_shapes_are_known_without_the_value() -> None:
    graph, _ = check(
        RULES,
        """(%x: f32[2,3]) -> (%y) {
            %s: i64[2] = Shape(%x)
            %c: f32[2] = Cast(%s) {to=f32}
            %n: i64[] = Size(%x)
            %d: f32[] = Cast(%n) {to=f32}
            %e: f32[2] = Mul(%c, %d)
            %f: f32[2] = ReduceMax(%x) {axes=(1,), keepdims=0}
            %y: f32[2] = Add(%f, %e)
        }""",
        """
        %f: f32[2] = ReduceMax(%x) {axes=(1,), keepdims=0}
        %y: f32[2] = Add(%f, %e)
        """,
        {"fold-shape": 2, "fold-constants": 3},
    )
    assert graph.constants["e"].tolist() == [12, 18]


def test_what_grows_is_not_computed() -> None:
    check_refused(
        RULES,
        """(%x: f32[100,100]) -> (%y) {
            const %a: f32[100]
            %b: f32[100,100] = Expand(%a) {shape=(100,100)}
            %y: f32[100,100] = Add(%x, %b)
        }""",
        [
            "fold-constants at b was not applied: "
            "the result would have 40000 bytes, what it is made from has 400"
        ],
    )
    check_refused(
        RULES,
        """(%x: f32[1]) -> (%y) {
            %b: f32[70000,1000] = ConstantOfShape() {shape=(70000,1000)}
            %y: f32[70000,1000] = Add(%x, %b)
        }""",
        [
            "fold-constants at b was not applied: "
            "the result would have 280000000 bytes, more than 67108864"
        ],
    )


def test_equal_nodes_become_one() -> None:
    check(
        RULES,
        """(%x: f32[4]) -> (%y, %e) {
            const %k: f32[4]
            %a: f32[4] = Add(%x, %k)
            %b: f32[4] = Add(%x, %k)
            %c: f32[4] = LeakyRelu(%a) {alpha=0.5}
            %d: f32[4] = LeakyRelu(%b) {alpha=0.5}
            %e: f32[4] = LeakyRelu(%b) {alpha=0.25}
            %y: f32[4] = Mul(%c, %d)
        }""",
        """
        %a: f32[4] = Add(%x, %k)
        %c: f32[4] = LeakyRelu(%a) {alpha=0.5}
        %e: f32[4] = LeakyRelu(%a) {alpha=0.25}
        %y: f32[4] = Mul(%c, %c)
        """,
        {"share-equal-nodes": 2},
    )


def test_equal_nodes_that_are_graph_outputs_stay_two_values() -> None:
    check(
        RULES,
        """(%x: f32[4]) -> (%y, %z) {
            %y: f32[4] = Neg(%x)
            %z: f32[4] = Neg(%x)
        }""",
        "%y: f32[4] = Neg(%x)\n%z: f32[4] = Identity(%y)",
        {"share-equal-nodes": 1},
    )


def test_equal_constants_become_one() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    graph = graph_of(
        """(%x: f32[3,4]) -> (%y, %k4) {
            const %k1: f32[3,4]
            const %k2: f32[3,4]
            const %k3: f32[3,4]
            const %k4: f32[3,4]
            %a: f32[3,4] = Add(%x, %k1)
            %b: f32[3,4] = Mul(%a, %k2)
            %c: f32[3,4] = Mul(%b, %k4)
            %y: f32[3,4] = Sub(%c, %k3)
        }""",
        k1=array,
        k2=array.T.copy().T,
        k3=array + 1,
        k4=array.copy(),
    )
    shared = share_constants(graph)
    assert nodes_of(shared) == [
        "%a: f32[3,4] = Add(%x, %k1)",
        "%b: f32[3,4] = Mul(%a, %k1)",
        "%c: f32[3,4] = Mul(%b, %k4)",
        "%y: f32[3,4] = Sub(%c, %k3)",
    ]
    assert sorted(shared.constants) == ["k1", "k3", "k4"]
    assert_same(graph, shared, Exactness.BIT_EXACT)
    assert share_constants(shared) is shared


def test_quantized_weights_of_a_quantized_op_stay_quantized() -> None:
    check_refused(
        RULES,
        """(%x: i8[2,2]) -> (%y) {
            const %q: i8[2,2] = [1, 2, 3, 4]
            const %s: f32[] = [0.5]
            %a: f32[2,2] = DequantizeLinear(%x, %s)
            %d: f32[2,2] = DequantizeLinear(%q, %s)
            %y: f32[2,2] = MatMul(%a, %d)
        }""",
        ["fold-constants at d was not applied: kernels read the constant as it is stored"],
    )


def test_quantized_weights_of_a_float_op_become_floats() -> None:
    graph, _ = check(
        RULES,
        """(%x: f32[1,64]) -> (%y) {
            const %q: i8[64,64]
            const %s: f32[] = [0.5]
            %d: f32[64,64] = DequantizeLinear(%q, %s)
            %y: f32[1,64] = MatMul(%x, %d)
        }""",
        "%y: f32[1,64] = MatMul(%x, %d)",
        {"fold-constants": 1},
    )
    assert list(graph.constants) == ["d"]


def test_only_dequantized_weights_may_be_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are at most four times as large as what is stored, whatever that is."""
    monkeypatch.setattr(constants, "LARGEST_FOLDED", 16000)
    text = """(%x: f32[1,64]) -> (%y) {
        const %q: i8[64,64]
        const %s: f32[] = [0.5]
        %d: f32[64,64] = DequantizeLinear(%q, %s)
        %y: f32[1,64] = MatMul(%x, %d)
    }"""
    check(RULES, text, "%y: f32[1,64] = MatMul(%x, %d)", {"fold-constants": 1})
    other = text.replace("const %q: i8[64,64]", "const %q: f32[64,64]")
    other = other.replace("DequantizeLinear(%q, %s)", "Mul(%q, %s)")
    reason = "the result would have 16384 bytes, more than 16000"
    check_refused(RULES, other, [f"fold-constants at d was not applied: {reason}"])
