"""Definitions: lowering, hoisting, sharing, laziness and inlining."""

from __future__ import annotations

import numpy as np
import pytest

from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.definition import Compute, naive, neutral, substitute_load
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.text import show, show_compute
from weft.loops.verify import verify
from weft.loops.walk import index

I, J, K = Var("i"), Var("j"), Var("k")  # noqa: E741
F32 = DType.F32


def x(*position: Expr) -> Load:
    return Load("x", position, F32)


def f32(value: float) -> Const:
    return Const(value, F32)


def buffers(*shapes: tuple[int, ...], dtype: DType = F32) -> list[Buffer]:
    return [Buffer(name, dtype, shape) for name, shape in zip("xwz", shapes, strict=False)]


def out(*shape: int, dtype: DType = F32) -> Buffer:
    return Buffer("y", dtype, shape, Access.WRITE)


def total(axis: str, extent: int, value: Expr, op: str = "sum") -> Reduce:
    return Reduce(op, (Axis(axis, extent),), value)


def compute(definition: Compute, output: Buffer, *arrays: np.ndarray) -> np.ndarray:
    inputs = [
        Buffer(name, DType.of(array.dtype), array.shape)
        for name, array in zip("xwz", arrays, strict=False)
    ]
    kernel = naive("k", [definition], inputs, [output])
    verify(kernel)
    result = np.zeros(output.shape, output.dtype.numpy)
    run(kernel, dict(zip("xwz", arrays, strict=False)) | {"y": result})
    return result


def test_softmax_computes_each_row_once():
    """The maximum and the sum do not depend on ``j``: they run outside of it."""
    top = total("k", 5, x(I, K), "max")
    shifted = Unary("exp", Binary("sub", x(I, J), top))
    bottom = total("k", 5, Unary("exp", Binary("sub", x(I, K), total("k", 5, x(I, K), "max"))))
    softmax = Compute((Axis("i", 3), Axis("j", 5)), Binary("div", shifted, bottom))
    kernel = naive("softmax", [softmax], buffers((3, 5)), [out(3, 5)])
    assert (
        show(kernel)
        == """\
kernel softmax(x: f32[3, 5] read, y: f32[3, 5] write) {
  for i in 0..3 {
    local acc: f32[] {
      acc[] = -inf
      for k in 0..5 {
        acc[] = max(acc[], x[i, k])
      }
      local acc_1: f32[] {
        acc_1[] = 0.0
        for k_1 in 0..5 {
          acc_1[] = acc_1[] + exp(x[i, k_1] - acc[])
        }
        for j in 0..5 {
          y[i, j] = exp(x[i, j] - acc[]) / acc_1[]
        }
      }
    }
  }
}
"""
    )
    data = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    powers = np.exp(data - data.max(1, keepdims=True))
    expected = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(compute(softmax, out(3, 5), data), expected, rtol=1e-6)


def test_argmax_computes_the_maximum_once():
    top = total("j", 7, x(J), "max")
    first = total("i", 7, Select(Binary("eq", x(I), top), I, index(7)), "min")
    data = np.array([1, 5, 2, 5, 0, 3, 4], np.float32)
    found = compute(Compute((), first), out(dtype=DType.I64), data)
    assert found == 1
    text = show(naive("k", [Compute((), first)], buffers((7,)), [out(dtype=DType.I64)]))
    assert text.count("for ") == 2
    assert text.index("max(") < text.index("for i")


def test_a_reduction_stays_under_the_condition_that_it_needs():
    """``y[i] = i > 0 ? sum over k of x[i - 1, k] : 0`` must not read ``x[-1]``."""
    row = total("k", 4, x(Binary("sub", I, index(1)), K))
    shifted = Compute((Axis("i", 3),), Select(Binary("lt", index(0), I), row, f32(0.0)))
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(compute(shifted, out(3), data), [0, 6, 22])
    text = show(naive("k", [shifted], buffers((3, 4)), [out(3)]))
    assert "if 0 < i {" in text


def test_a_reduction_leaves_a_condition_that_it_does_not_need():
    """It reads inside its buffer anyway, so one computation serves all ``i``."""
    row = total("k", 4, x(K))
    value = Compute((Axis("i", 3),), Select(Binary("lt", index(0), I), row, f32(0.0)))
    text = show(naive("k", [value], buffers((4,)), [out(3)]))
    assert "if " not in text
    assert text.index("for k") < text.index("for i")


def test_a_reduction_keeps_the_condition_that_its_division_needs():
    sizes = Buffer("n", DType.I64, (3,))
    size = Load("n", (I,), DType.I64)
    parts = total("k", 4, Binary("floordiv", K, size))
    value = Select(Binary("lt", index(0), size), parts, index(-1))
    kernel = naive("k", [Compute((Axis("i", 3),), value)], [sizes], [out(3, dtype=DType.I64)])
    result = np.zeros(3, np.int64)
    run(kernel, {"n": np.array([0, 1, 2]), "y": result})
    np.testing.assert_array_equal(result, [-1, 6, 2])


def test_a_reduction_inside_one_that_runs_under_a_condition():
    """The inner maximum belongs to a row that only the condition makes valid."""
    row = Binary("sub", I, index(1))
    top = total("j", 4, x(row, J), "max")
    value = total("k", 4, Binary("sub", x(row, K), top))
    guarded = Select(Binary("lt", index(0), I), value, f32(7.0))
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = compute(Compute((Axis("i", 3),), guarded), out(3), data)
    np.testing.assert_array_equal(found, [7, -6, -6])


def test_axes_of_one_name_are_kept_apart():
    inner = total("i", 3, x(I))
    value = Binary("add", total("i", 3, Binary("mul", x(I), inner)), x(I))
    data = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(compute(Compute((Axis("i", 3),), value), out(3), data), data + 36)


def test_reductions_differ_where_zeros_differ():
    plus, minus = (total("k", 3, Binary("mul", x(K), f32(zero))) for zero in (0.0, -0.0))
    text = show(naive("k", [Compute((), Binary("add", plus, minus))], buffers((3,)), [out()]))
    assert text.count("for ") == 2


def test_a_later_definition_reads_an_earlier_output():
    mean = Compute((), Binary("div", total("k", 4, x(K)), f32(4.0)))
    centred = Compute((Axis("i", 4),), Binary("sub", x(I), Load("m", (), F32)))
    outputs = [Buffer("m", F32, (), Access.WRITE), out(4)]
    kernel = naive("k", [mean, centred], buffers((4,)), outputs)
    verify(kernel)
    m, y = np.zeros((), np.float32), np.zeros(4, np.float32)
    run(kernel, {"x": np.array([1, 2, 3, 6], np.float32), "m": m, "y": y})
    assert m == 3
    np.testing.assert_array_equal(y, [-2, -1, 0, 3])


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("sum", DType.F32, 0.0),
        ("prod", DType.F16, 1.0),
        ("min", DType.F32, float("inf")),
        ("max", DType.BF16, float("-inf")),
        ("min", DType.I8, 127),
        ("max", DType.U8, 0),
        ("max", DType.I64, -(1 << 63)),
        ("and", DType.BOOL, True),
        ("or", DType.BOOL, False),
        ("and", DType.U8, 255),
        ("and", DType.I32, -1),
        ("min", DType.BOOL, True),
    ],
)
def test_neutral_elements(op, dtype, expected):
    assert neutral(op, dtype) == Const(expected, dtype)


@pytest.mark.parametrize(
    ("op", "function"), [("and", np.all), ("or", np.any), ("min", np.min), ("max", np.max)]
)
def test_bool_reductions(op, function):
    data = np.random.default_rng(1).random((6, 3)) < 0.6
    value = Reduce(op, (Axis("k", 3),), Load("x", (I, K), DType.BOOL))
    found = compute(Compute((Axis("i", 6),), value), out(6, dtype=DType.BOOL), data)
    np.testing.assert_array_equal(found, function(data, axis=1))


# --- inlining -------------------------------------------------------------------------------


def test_inlining_renames_what_would_be_captured():
    producer = Compute((Axis("i", 3),), total("k", 4, Load("w", (I, K), F32)))
    consumer = Compute((Axis("j", 2),), total("k", 3, Binary("mul", Load("x", (K,), F32), f32(2))))
    fused = substitute_load(consumer, "x", producer)
    assert show_compute("y", fused) == "y[j:2] = sum(k:3 | sum(k_1:4 | w[k, k_1]) * 2.0)"


def test_inlining_swaps_axes_at_once():
    """``t[i, j] = w[j, i]`` read as ``t[j, i]`` is ``w[i, j]``, not ``w[j, j]``."""
    transposed = Compute((Axis("i", 2), Axis("j", 3)), Load("w", (J, I), F32))
    consumer = Compute((Axis("i", 3), Axis("j", 2)), x(J, I))
    fused = substitute_load(consumer, "x", transposed)
    assert fused.value == Load("w", (I, J), F32)


def test_inlining_reaches_indices():
    """A gather from what is gathered."""
    producer = Compute((Axis("i", 4),), Binary("sub", index(3), I))
    table = Load("x", (Load("x", (I,), DType.I64),), DType.I64)
    fused = substitute_load(Compute((Axis("i", 4),), table), "x", producer)
    found = compute(fused, out(4, dtype=DType.I64))
    np.testing.assert_array_equal(found, np.arange(4))


def test_inlining_refuses_another_type():
    producer = Compute((Axis("i", 4),), I)
    consumer = Compute((Axis("i", 4),), Unary("exp", x(I)))
    with pytest.raises(InternalError, match="x is loaded as f32 with 1 indices, its definition"):
        substitute_load(consumer, "x", producer)


def test_inlining_keeps_the_cost_of_shared_operands():
    """``s = s * sigmoid(s)`` forty times: two to the fortieth paths, few nodes."""
    swish = Compute((Axis("i", 4),), Binary("mul", x(I), Unary("exp", x(I))))
    value = swish
    for _ in range(40):
        value = substitute_load(value, "x", swish)
    assert isinstance(value.value, Binary)


# --- whole operations -------------------------------------------------------------------------


def test_convolution_against_direct_sums():
    rows = Binary("sub", Binary("add", Binary("mul", I, index(2)), Var("r")), index(1))
    cols = Binary("sub", Binary("add", Binary("mul", J, index(2)), Var("s")), index(1))
    inside = Binary(
        "and",
        Binary("and", Binary("le", index(0), rows), Binary("lt", rows, index(5))),
        Binary("and", Binary("le", index(0), cols), Binary("lt", cols, index(5))),
    )
    product = Binary("mul", x(rows, cols), Load("w", (Var("r"), Var("s")), F32))
    value = Reduce("sum", (Axis("r", 3), Axis("s", 3)), Select(inside, product, f32(0.0)))
    rng = np.random.default_rng(2)
    data = rng.integers(-5, 5, (5, 5)).astype(np.float32)
    weight = rng.integers(-5, 5, (3, 3)).astype(np.float32)
    padded = np.pad(data, 1)
    expected = [
        [(padded[2 * r : 2 * r + 3, 2 * c : 2 * c + 3] * weight).sum() for c in range(3)]
        for r in range(3)
    ]
    definition = Compute((Axis("i", 3), Axis("j", 3)), value)
    np.testing.assert_array_equal(compute(definition, out(3, 3), data, weight), expected)


def test_an_accumulator_has_the_type_of_what_it_adds():
    data = np.array([100, 100, 100], np.int8)
    load = Load("x", (K,), DType.I8)
    narrow = Compute((), total("k", 3, load))
    assert compute(narrow, out(dtype=DType.I8), data) == 300 - 256
    wide = Compute((), total("k", 3, Cast(DType.I32, load)))
    assert compute(wide, out(dtype=DType.I32), data) == 300
