"""Functions of two bytes as affine forms: the same bytes for every pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.frontends.litert.against import imported
from tests.frontends.litert.builder import Case
from tests.frontends.litert.cases import x as tensor
from tests.kernels.tasks import tasks_of
from tests.plan import nets
from tests.turns import examples
from weft.dtypes import DType
from weft.kernels import prepare
from weft.kernels.bytes.affine_sum import AffineSum, affine_sum
from weft.kernels.bytes.byte_pairs import BytePairs, byte_pairs
from weft.kernels.writer import for_range
from weft.loops.interpret import run
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    Kernel,
    Load,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import map_expr
from weft.ops.expr import mul

BYTES = np.arange(-128, 128)
SCALES = st.floats(0.002, 0.2)
ZEROS = st.integers(-128, 127)
F32, I32 = DType.F32, DType.I32


def fixed(real: float) -> tuple[int, int]:
    """A factor as LiteRT has it: a multiplier of 31 bits, and a shift to the left."""
    fraction, shift = np.frexp(real)
    multiplier = round(float(fraction) * (1 << 31))
    return (multiplier, int(shift)) if multiplier < 1 << 31 else (multiplier // 2, int(shift) + 1)


def scaled(values: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    """``MultiplyByQuantizedMultiplier`` of LiteRT's reference kernels."""
    high = ((values << max(shift, 0)) * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    half = (1 << right) >> 1
    return (high + half - np.minimum(half, high < 0)) >> right


def litert(scales: tuple[float, float, float], zeros: tuple[int, int, int]):
    """LiteRT's ADD: the definition of Weft's op, and what its reference kernel gives."""
    twice = 2 * max(scales[:2])
    factors = [fixed(scales[0] / twice), fixed(scales[1] / twice)]
    last = fixed(twice / ((1 << 20) * scales[2]))
    sides = [
        scaled((BYTES - zero) << 20, *factor)
        for zero, factor in zip(zeros[:2], factors, strict=True)
    ]
    wanted = np.clip(scaled(sides[0][:, None] + sides[1], *last) + zeros[2], -128, 127)
    net = nets.Net()
    inputs = [net.input(256, 1, dtype=DType.I8), net.input(1, 256, dtype=DType.I8)]
    multipliers, shifts = zip(*factors, last, strict=True)
    out = net.op(
        "FixedPointAdd", *inputs, zeros=zeros, multipliers=multipliers, shifts=shifts, subtract=0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "with_affine_sums", lambda task: task)
        (task,) = tasks_of(net, out, machine="generic")
    return task.compute.value, wanted


def dequantized(scales: tuple[float, float, float], zeros: tuple[int, int, int], dtype: DType):
    """A sum of dequantized bytes, quantized again: its definition, and its values."""
    low, high = (int(each) for each in dtype.limits)
    numbers = np.arange(low, high + 1)
    first, second, out = (np.float32(each) for each in scales)
    lhs = (numbers - zeros[0]).astype(np.float32) * first
    rhs = (numbers - zeros[1]).astype(np.float32) * second
    wanted = np.clip(np.rint((lhs[:, None] + rhs) / out) + zeros[2], low, high)

    def side(name: str, zero: int, scale: np.float32) -> Expr:
        byte = Cast(I32, Load(name, (), dtype))
        return mul(Cast(F32, Binary("sub", byte, Const(zero, I32))), Const(float(scale), F32))

    total = Binary("add", side("in0", zeros[0], first), side("in1", zeros[1], second))
    rounded = Unary("round", Binary("div", total, Const(float(out), F32)))
    whole = Binary("add", rounded, Const(float(zeros[2]), F32))
    held = Binary("max", Const(float(low), F32), whole)
    return Cast(dtype, Binary("min", held, Const(float(high), F32))), wanted


def pairs_of(value: Expr, wanted: np.ndarray) -> BytePairs:
    """What a definition gives, which must be the values wanted."""
    assert isinstance(value, Cast)
    pairs = byte_pairs(value)
    assert pairs is not None
    first = isinstance(pairs.x, Load) and pairs.x.buffer == "in0"
    np.testing.assert_array_equal(pairs.results, wanted if first else wanted.T)
    return pairs


def computed(made: AffineSum, pairs: BytePairs) -> np.ndarray:
    """What a form gives for all pairs, in 32 bits, none of which overflows."""
    x, y = pairs.first.astype(np.int32), pairs.second.astype(np.int32)
    for each in (made.x * pairs.first, made.y * pairs.second):
        assert np.abs(each).max() < 1 << 31
    total = x * np.int32(made.x) + y * np.int32(made.y) + np.int32(made.c)
    exact = pairs.first * made.x + pairs.second * made.y
    assert max(np.abs(exact).max(), np.abs(exact + made.c).max()) < 1 << 31
    if made.zero is None:
        found = total >> made.shift
    else:
        half = np.int32(1 << (made.shift - 1))
        assert (exact + made.c + int(half)).max() < 1 << 31
        found = ((total + half + (total >> 31)) >> made.shift) + made.zero
    return np.clip(found, made.low, made.high)


@settings(max_examples=examples(100), deadline=None)
@given(
    scales=st.tuples(SCALES, SCALES),
    ratio=st.floats(0.5, 2),
    zeros=st.tuples(ZEROS, ZEROS, ZEROS),
    alike=st.booleans(),
)
def test_fixed_point(
    scales: tuple[float, float], ratio: float, zeros: tuple[int, int, int], alike: bool
) -> None:
    lhs, rhs = (scales[0], scales[0]) if alike else scales
    pairs = pairs_of(*litert((lhs, rhs, ratio * max(lhs, rhs)), zeros))
    made = affine_sum(pairs)
    if made is not None:
        np.testing.assert_array_equal(computed(made, pairs), pairs.results)


@settings(max_examples=examples(100), deadline=None)
@given(
    scales=st.tuples(SCALES, SCALES),
    ratio=st.floats(0.25, 3),
    zeros=st.tuples(ZEROS, ZEROS, ZEROS),
    dtype=st.sampled_from([DType.I8, DType.U8]),
)
def test_floats(
    scales: tuple[float, float], ratio: float, zeros: tuple[int, int, int], dtype: DType
) -> None:
    shift = 128 * (dtype is DType.U8)
    shifted = (zeros[0] + shift, zeros[1] + shift, zeros[2] + shift)
    pairs = pairs_of(*dequantized((*scales, ratio * max(scales)), shifted, dtype))
    made = affine_sum(pairs)
    if made is not None:
        np.testing.assert_array_equal(computed(made, pairs), pairs.results)


@pytest.mark.parametrize("kind", ["fixed point", "floats"])
def test_nearly_all_scales_have_a_form(kind: str) -> None:
    random = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        lhs, rhs = random.uniform(0.005, 0.1, 2).tolist()
        scales = (lhs, rhs, float(random.uniform(0.6, 2)) * max(lhs, rhs))
        a, b, c = random.integers(-128, 128, 3).tolist()
        made = litert(scales, (a, b, c)) if kind == "fixed point" else None
        pairs = pairs_of(*(made or dequantized(scales, (a, b, c), DType.I8)))
        found += affine_sum(pairs) is not None
    assert found >= 38


@pytest.mark.parametrize("kind", ["fixed point", "floats"])
def test_values_are_those_of_the_interpreter(kind: str) -> None:
    scales, zeros = (0.021, 0.033, 0.047), (1, -2, 3)
    made = litert(scales, zeros) if kind == "fixed point" else None
    value, wanted = made or dequantized(scales, zeros, DType.I8)

    def byte(node: Expr) -> Expr:
        if not isinstance(node, Load):
            return node
        var = Var("i" if node.buffer == "in0" else "j")
        return Cast(DType.I8, Binary("sub", var, Const(128, DType.I64)))

    out = Buffer("out", DType.I8, (256, 256), Access.WRITE)
    store = Store("out", (Var("i"), Var("j")), map_expr(value, byte))
    loops = for_range("i", 256, (for_range("j", 256, (store,)),))
    found = np.zeros((256, 256), np.int8)
    run(Kernel("pairs", (out,), (loops,)), {"out": found})
    np.testing.assert_array_equal(found, wanted)
    pairs_of(value, found.astype(np.int64))


def test_halves_are_rounded_away_from_zero() -> None:
    pairs = pairs_of(*litert((0.02, 0.02, 0.04), (3, -5, 7)))
    made = affine_sum(pairs)
    assert made is not None
    assert made.zero == 7
    found = computed(made, pairs)
    if pairs.x != Load("in0", pairs.x.index if isinstance(pairs.x, Load) else (), DType.I8):
        found = found.T
    assert (found[128 + 3 + 1, 128 - 5], found[128 + 3 - 1, 128 - 5]) == (8, 6)


def test_halves_to_even_have_none() -> None:
    pairs = pairs_of(*dequantized((0.5, 0.5, 1.0), (0, 0, 0), DType.I8))
    assert affine_sum(pairs) is None


def test_what_is_no_sum_of_two_bytes_is_left() -> None:
    value, _ = dequantized((0.02, 0.03, 0.04), (1, 2, 3), DType.I8)
    x, y, z = (Cast(F32, Load(name, (), DType.I8)) for name in ("in0", "in1", "in2"))
    for inner in (
        Binary("mul", x, y),  # not affine
        Binary("add", Binary("add", x, y), z),  # of three
        Binary("add", x, Const(1.5, F32)),  # of one
        Binary("pow", x, y),  # an operation that is not evaluated
        Binary("add", x, Load("in1", (), F32)),  # of a float
    ):
        assert byte_pairs(Cast(DType.I8, Unary("round", inner))) is None
    outside = Cast(DType.I8, Unary("round", Binary("add", x, y)))
    assert byte_pairs(outside) is None  # C leaves open what becomes of 254
    assert isinstance(value, Cast)
    assert byte_pairs(value) is not None


def net_of(name: str, activation: int = 0) -> weft.Net:
    """All pairs of bytes."""
    one = tensor(256, 1, dtype="int8", low=-6, high=6)
    other = tensor(1, 256, dtype="int8", low=-2.03, high=1.87)
    out = tensor(256, 256, dtype="int8", low=-6.7, high=6.1)
    values = {"fusedActivationFunction": activation, "potScaleInt16": False}
    case = Case(name, (one, other), (out,), f"{name.capitalize()}Options", values)
    return weft.Net(imported(case.content()).graph).apply("integers", rounding="litert")


@pytest.mark.parametrize("activation", [0, 1, 3], ids=["plain", "relu", "relu6"])
@pytest.mark.parametrize("name", ["ADD", "SUB"])
@pytest.mark.parametrize("simd", ["", "none"], ids=["vectors", "plain"])
def test_compiled(name: str, activation: int, simd: str) -> None:
    net = net_of(name, activation)
    inputs = [BYTES.astype(np.int8).reshape(256, 1), BYTES.astype(np.int8).reshape(1, 256)]
    given = dict(zip(net.graph.inputs, inputs, strict=True))
    (wanted,) = net.reference(given)
    np.testing.assert_array_equal(net.compile(simd=simd, threads=1).library(*inputs)[0], wanted)


def text_of(net: weft.Net, target: str) -> str:
    return "\n".join(text for _, text in net.source(target).sources)


TARGETS = ("x86-avx2", "aarch64-neon", "cortex-m0plus", "cortex-m7", "generic")


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_of_64_bits_is_left(target: str) -> None:
    text = text_of(net_of("ADD"), target)
    assert "requantize" not in text
    assert "int64_t" not in text.replace("int64_t bytes", "")


def test_scales_without_a_form_keep_their_definition() -> None:
    """Halves of one input meet thirds of the other: what LiteRT rounds first then decides."""
    inputs = [tensor(4, 4, dtype="int8", low=-most, high=most) for most in (6, 4)]
    out = tensor(4, 4, dtype="int8", low=-12, high=12)
    values = {"fusedActivationFunction": 0, "potScaleInt16": False}
    case = Case("ADD", tuple(inputs), (out,), "AddOptions", values)
    net = weft.Net(imported(case.content()).graph).apply("integers", rounding="litert")
    assert "requantize" in text_of(net, "x86-avx2")
