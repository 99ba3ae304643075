"""The interpreter against NumPy, and the errors that only it can see."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.turns import examples
from weft.dtypes import DType
from weft.errors import InternalError
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Bits,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Kernel,
    Load,
    Reduce,
    Select,
    Store,
    Unary,
    Var,
)
from weft.loops.text import parse
from weft.loops.walk import dtype_of, index

INTEGERS = [dtype for dtype in DType if dtype.is_integer]
FLOATS = [DType.F64, DType.F32, DType.F16, DType.BF16]
I = Var("i")  # noqa: E741


def apply(value: Expr, **arrays: np.ndarray) -> np.ndarray:
    """``y[i] = value`` over flat arrays of one length."""
    (count,) = {array.size for array in arrays.values()}
    params = [Buffer(name, DType.of(a.dtype), a.shape) for name, a in arrays.items()]
    y = np.zeros(count, dtype_of(value).numpy)
    out = Buffer("y", dtype_of(value), (count,), Access.WRITE)
    loop = For("i", index(0), index(count), (Store("y", (I,), value),))
    run(Kernel("k", (*params, out), (loop,)), arrays | {"y": y})
    return y


def samples(dtype: DType, count: int = 64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype is DType.BOOL:
        return rng.random(count) < 0.5
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 0.5, -2.5, 1e30]
        with np.errstate(over="ignore"):
            values = np.concatenate([special, rng.standard_normal(count - len(special)) * 4])
            return rng.permutation(values).astype(dtype.numpy)
    low, high = dtype.limits
    ends = [low, high, 0, 1, high - 1, low + 1]
    middle = rng.integers(-9 if low else 0, 10, count - len(ends))
    return rng.permutation(np.array([*ends, *middle.tolist()], dtype.numpy))


def same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    if DType.of(found.dtype) is DType.BF16:
        # NumPy does not know its NaN.
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_array_equal(found, expected)


def loads(dtype: DType, *names: str) -> list[Load]:
    return [Load(name, (I,), dtype) for name in names]


def python_integer(op: str, a: int, b: int, dtype: DType) -> int:
    """By the words of the grammar."""
    bits = 8 * dtype.bytes
    truncated = 0 if b == 0 else int(math.copysign(abs(a) // abs(b), a * b)) if a * b else 0
    if b and abs(a) >= 1 << 50:
        truncated = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    table = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "div": lambda: truncated,
        "fmod": lambda: a - b * truncated,
        "floordiv": lambda: a // b,
        "mod": lambda: a % b,
        "pow": lambda: a**b if b >= 0 else (a ** (b % 2) if abs(a) == 1 else 0),
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shl": lambda: a << b if 0 <= b < bits else 0,
        "shr": lambda: a >> b if 0 <= b < bits else 0,
    }
    low, high = dtype.limits
    return (table[op]() - low) % (high - low + 1) + low


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize(
    "op", "add sub mul div fmod floordiv mod pow min max and or xor shl shr".split()
)
def test_integer_operations_wrap(op, dtype):
    a, b = samples(dtype, seed=1), samples(dtype, seed=2)
    if op in ("div", "fmod", "floordiv", "mod"):
        b[b == 0] = 3
    if op == "pow":
        b = np.clip(b, -3 if dtype.is_signed else 0, 9).astype(b.dtype)
    expected = [
        python_integer(op, p, q, dtype) for p, q in zip(a.tolist(), b.tolist(), strict=True)
    ]
    found = apply(Binary(op, *loads(dtype, "a", "b")), a=a, b=b)
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda dtype: dtype.value)
def test_integer_unary_operations(dtype):
    a = samples(dtype)
    (load,) = loads(dtype, "a")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(apply(Unary("neg", load), a=a), np.negative(a))
        np.testing.assert_array_equal(apply(Unary("abs", load), a=a), np.abs(a))
        np.testing.assert_array_equal(apply(Unary("sign", load), a=a), np.sign(a))
        np.testing.assert_array_equal(apply(Unary("not", load), a=a), np.invert(a))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_float_arithmetic_rounds_each_operation(op, dtype):
    a, b = samples(dtype, seed=3), samples(dtype, seed=4)
    function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    wide = a.dtype if dtype in (DType.F64, DType.F32) else np.float32
    with np.errstate(all="ignore"):
        expected = function(a.astype(wide), b.astype(wide)).astype(a.dtype)
    found = apply(Binary(op, *loads(dtype, "a", "b")), a=a, b=b)
    same(found, expected)
    np.testing.assert_array_equal(
        np.signbit(found[found == 0]), np.signbit(expected[expected == 0])
    )


UNARY = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "trunc": np.trunc, "sign": np.sign,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]), "expm1": np.expm1, "log1p": np.log1p,
    "exp2": np.exp2, "log2": np.log2, "log10": np.log10,
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("op", sorted(UNARY))
def test_float_functions(op, dtype):
    a = samples(dtype)
    with np.errstate(all="ignore"):
        expected = UNARY[op](a.astype(np.float64)).astype(a.dtype)
    found = apply(Unary(op, *loads(dtype, "a")), a=a)
    # bfloat16 goes through f32, as the grammar says.
    tolerance = 2e-2 if dtype is DType.BF16 else 0
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=tolerance
    )


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16], ids=lambda dtype: dtype.value)
def test_a_nan_on_the_left_stays_and_on_the_right_is_passed_over(dtype):
    a, b = samples(dtype, seed=5), samples(dtype, seed=6)
    lower = np.where(b < a, b, a)
    upper = np.where(a < b, b, a)
    np.testing.assert_array_equal(apply(Binary("min", *loads(dtype, "a", "b")), a=a, b=b), lower)
    np.testing.assert_array_equal(apply(Binary("max", *loads(dtype, "a", "b")), a=a, b=b), upper)


@pytest.mark.parametrize("dtype", list(DType), ids=lambda dtype: dtype.value)
def test_comparisons(dtype):
    a, b = samples(dtype, seed=7), samples(dtype, seed=8)
    functions = {
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
        "gt": np.greater, "ge": np.greater_equal,
    }  # fmt: skip
    for op, function in functions.items():
        found = apply(Binary(op, *loads(dtype, "a", "b")), a=a, b=b)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, function(a, b), err_msg=op)


def test_logic_on_bool():
    a, b = samples(DType.BOOL, seed=1), samples(DType.BOOL, seed=2)
    both = loads(DType.BOOL, "a", "b")
    np.testing.assert_array_equal(apply(Binary("and", *both), a=a, b=b), a & b)
    np.testing.assert_array_equal(apply(Binary("or", *both), a=a, b=b), a | b)
    np.testing.assert_array_equal(apply(Binary("xor", *both), a=a, b=b), a ^ b)
    np.testing.assert_array_equal(apply(Unary("not", both[0]), a=a), ~a)


@pytest.mark.parametrize("target", list(DType), ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("source", list(DType), ids=lambda dtype: dtype.value)
def test_casts(source, target):
    a = samples(source)
    if source.is_float and target.is_integer:
        low, high = target.limits
        wide = a.astype(np.float64)
        with np.errstate(invalid="ignore"):
            a = a[(wide >= max(low, -1e6)) & (wide <= min(high, 1e6))]
    with np.errstate(all="ignore"):
        expected = a != 0 if target is DType.BOOL else a.astype(target.numpy)
    same(apply(Cast(target, *loads(source, "a")), a=a), expected)


@pytest.mark.parametrize("names", [("f32", "i32", "u32"), ("f64", "i64", "u64")])
def test_bits_stay_the_same(names):
    for source in map(DType, names):
        a = samples(source)
        for target in map(DType, names):
            found = apply(Bits(target, *loads(source, "a")), a=a)
            np.testing.assert_array_equal(found.view(a.dtype), a)


def test_conversions_that_c_leaves_undefined_saturate():
    a = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.9], np.float32)
    found = apply(Cast(DType.I32, *loads(DType.F32, "a")), a=a)
    assert found.tolist() == [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2]


def test_wide_integers_are_rounded_once():
    value = (1 << 60) + (1 << 36) + 1  # halfway in double precision only
    found = apply(Cast(DType.F32, *loads(DType.I64, "a")), a=np.array([value]))
    assert found[0] == np.float32(np.int64(value).astype(np.float32))


def test_nan_and_infinity_tests():
    a = samples(DType.F32)
    (load,) = loads(DType.F32, "a")
    np.testing.assert_array_equal(apply(Unary("isnan", load), a=a), np.isnan(a))
    np.testing.assert_array_equal(apply(Unary("isinf", load), a=a), np.isinf(a))


def test_pow_and_remainders_of_floats():
    a = np.array([-7.5, 7.5, -7.5, 7.5, 2.0, 0.0], np.float32)
    b = np.array([2.0, -2.0, -2.0, 2.0, 0.5, 0.0], np.float32)
    both = loads(DType.F32, "a", "b")
    with np.errstate(all="ignore"):
        for op, function in [
            ("fmod", np.fmod), ("mod", np.mod), ("floordiv", np.floor_divide), ("pow", np.power)
        ]:  # fmt: skip
            found = apply(Binary(op, *both), a=a, b=b)
            np.testing.assert_allclose(found, function(a, b), rtol=1e-6, err_msg=op)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.floats(width=16, allow_nan=False), min_size=3, max_size=3))
def test_halves_round_after_every_operation(values):
    a, b, c = (np.array([value], np.float16) for value in values)
    x, y, z = loads(DType.F16, "a", "b", "c")
    found = apply(Binary("add", Binary("mul", x, y), z), a=a, b=b, c=c)
    with np.errstate(all="ignore"):
        product = (a.astype(np.float32) * b.astype(np.float32)).astype(np.float16)
        expected = (product.astype(np.float32) + c.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(found, expected)


def test_select_evaluates_the_chosen_side_only():
    beyond = Load("a", (Binary("add", I, index(1)),), DType.I64)
    value = Select(Binary("lt", I, index(2)), beyond, index(-1))
    assert apply(value, a=np.array([5, 6, 7])).tolist() == [6, 7, -1]


def test_a_long_chain_of_selections():
    value: Expr = index(-1)
    for at in reversed(range(300)):
        value = Select(Binary("eq", I, index(at)), index(at * at), value)
    found = apply(value, a=np.zeros(301))
    assert found.tolist() == [at * at for at in range(300)] + [-1]


# --- memory -------------------------------------------------------------------------------------

COPY = "for i in 0..2 {{ for j in 0..3 {{ y[i, j] = x[i, j] + 1.0 }} }}"


def test_arrays_may_be_shaped_or_flat():
    kernel = parse(f"kernel k(x: f32[2, 3] read, y: f32[2, 3] write) {{ {COPY.format()} }}")
    x = np.arange(6, dtype=np.float32)
    for shape in ((6,), (2, 3)):
        y = np.zeros(shape, np.float32)
        run(kernel, {"x": x.reshape(2, 3), "y": y})
        np.testing.assert_array_equal(y.reshape(-1), x + 1)


def test_strides_are_honoured():
    kernel = parse(
        "kernel k(x: f32[2, 3] strides(1, 2) read, y: f32[2, 3] strides(4, 1) write) "
        f"{{ {COPY.format()} }}"
    )
    memory = np.arange(6, dtype=np.float32)
    expected = memory.reshape(3, 2).T + 1
    flat = np.full(7, -9, np.float32)
    run(kernel, {"x": memory, "y": flat})
    np.testing.assert_array_equal(flat, [1, 3, 5, -9, 2, 4, 6])
    shaped = np.zeros((2, 3), np.float32)
    run(kernel, {"x": np.ascontiguousarray(memory.reshape(3, 2).T), "y": shaped})
    np.testing.assert_array_equal(shaped, expected)


def test_views_are_read_and_written_in_place():
    kernel = parse(f"kernel k(x: f32[2, 3] read, y: f32[2, 3] write) {{ {COPY.format()} }}")
    x = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    whole = np.zeros((3, 2), np.float32)
    run(kernel, {"x": x, "y": whole.T})
    np.testing.assert_array_equal(whole.T, x + 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y[2] = 0.0", "y: index 2 of dimension 0 is outside 0..2"),
        ("y[0] = x[0 - 1]", "x: index -1 of dimension 0 is outside 0..2"),
        ("local t: f32[] { y[0] = t[] }", "t: read before it was written"),
        ("local t: f32[2] { t[0] = 1.0  y[0] = t[1] }", "t: read before it was written"),
        ("y[1 // n[0]] = 0.0", "kernel k: integer division by zero"),
        ("y[0] = f32(n[0] % n[0])", "kernel k: integer division by zero"),
    ],
)
def test_what_only_running_shows(body, message):
    kernel = parse(f"kernel k(x: f32[2] read, n: i64[1] read, y: f32[2] write) {{ {body} }}")
    arrays = {
        "x": np.zeros(2, np.float32), "y": np.zeros(2, np.float32), "n": np.zeros(1, np.int64),
    }  # fmt: skip
    with pytest.raises(InternalError, match=f"^internal error: {message}"):
        run(kernel, arrays)


def test_a_local_is_new_in_every_iteration():
    kernel = parse("""
    kernel k(y: i64[3] write) {
      for i in 0..3 { local t: i64[] { if i == 0 { t[] = 5 } y[i] = t[] } }
    }
    """)
    with pytest.raises(InternalError, match="t: read before it was written"):
        run(kernel, {"y": np.zeros(3, np.int64)})


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "kernel k: no array for y"),
        (
            {"y": np.zeros((3, 2), np.float32)},
            r"kernel k: y is f32\[2, 3\], the array is float32\[3, 2\]",
        ),
        ({"y": np.zeros((2, 3))}, r"kernel k: y is f32\[2, 3\], the array is float64\[2, 3\]"),
        ({"y": np.zeros(5, np.float32)}, r"y is f32\[2, 3\], the array is float32\[5\]"),
    ],
)
def test_arrays_that_do_not_fit(arrays, message):
    kernel = parse("kernel k(y: f32[2, 3] write) { y[0, 0] = 1.0 }")
    with pytest.raises(InternalError, match=message):
        run(kernel, arrays)


def test_reductions_are_for_definitions():
    value = Reduce("sum", (), Const(1.0, DType.F32))
    with pytest.raises(InternalError, match="a kernel holds no reductions"):
        apply(value, a=np.zeros(1))


def test_values_are_taken_before_the_store():
    kernel = parse("""
    kernel k(y: i64[2] write) { y[0] = 1  y[0] = y[0] + y[0]  y[1] = y[0] }
    """)
    y = np.zeros(2, np.int64)
    run(kernel, {"y": y})
    assert y.tolist() == [2, 2]


def test_empty_loops_and_buffers():
    kernel = parse("kernel k(x: f32[0] read, y: f32[2] write) { for i in 3..1 { y[0] = x[i] } }")
    y = np.ones(2, np.float32)
    run(kernel, {"x": np.zeros(0, np.float32), "y": y})
    assert y.tolist() == [1, 1]
