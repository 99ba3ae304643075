"""Sums of two bytes as affine forms: LiteRT's bits for every pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.frontends.litert.against import imported
from tests.frontends.litert.builder import Case
from tests.frontends.litert.cases import x as tensor
from tests.turns import examples
from weft.dtypes import DType
from weft.kernels.bytes.affine_sum import AffineSum, affine_sum
from weft.kernels.bytes.byte_sum import ByteSum
from weft.loops.nodes import Const

BYTES = np.arange(-128, 128)
BYTE = Const(0, DType.I8)


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


def litert(scales: tuple[float, float, float], zeros: tuple[int, int, int]) -> ByteSum:
    """What LiteRT's ADD is prepared to, from scales and zero points of inputs and output."""
    twice = 2 * max(scales[:2])
    tables = [
        scaled((BYTES - zero) << 20, *fixed(scale / twice))
        for scale, zero in zip(scales, zeros[:2], strict=False)
    ]
    multiplier, shift = fixed(twice / ((1 << 20) * scales[2]))
    sides = ((BYTE, tables[0]), (BYTE, tables[1]))
    return ByteSum(sides, multiplier, max(shift, 0), max(-shift, 0), zeros[2])


def results(sum: ByteSum) -> np.ndarray:
    """Of all pairs, before they are held within limits."""
    (_, lhs), (_, rhs) = sum.sides
    return scaled(lhs[:, None] + rhs, sum.multiplier, sum.left - sum.right) + sum.zero


def computed(made: AffineSum) -> np.ndarray:
    """What the form gives for all pairs, in 32 bits."""
    bytes_ = BYTES.astype(np.int32)
    with np.errstate(over="raise"):
        total = bytes_[:, None] * np.int32(made.x) + bytes_ * np.int32(made.y) + np.int32(made.c)
        if made.zero is None:
            return total >> made.shift
        half = np.int32(1 << (made.shift - 1))
        return ((total + half + (total >> 31)) >> made.shift) + made.zero


SCALES = st.floats(0.002, 0.2)
ZEROS = st.integers(-128, 127)


@settings(max_examples=examples(150), deadline=None)
@given(
    scales=st.tuples(SCALES, SCALES),
    ratio=st.floats(0.5, 2),
    zeros=st.tuples(ZEROS, ZEROS, ZEROS),
    alike=st.booleans(),
    low=st.sampled_from([-128, 0]),
)
def test_all_pairs(
    scales: tuple[float, float],
    ratio: float,
    zeros: tuple[int, int, int],
    alike: bool,
    low: int,
) -> None:
    lhs, rhs = (scales[0], scales[0]) if alike else scales
    sum = litert((lhs, rhs, ratio * max(lhs, rhs)), zeros)
    made = affine_sum(sum, low, 127)
    if made is not None:
        found = np.clip(computed(made), low, 127)
        np.testing.assert_array_equal(found, np.clip(results(sum), low, 127))


def test_nearly_all_scales_have_a_form() -> None:
    random = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        scales = random.uniform(0.005, 0.1, 2)
        out = random.uniform(0.6, 2) * scales.max()
        zeros = random.integers(-128, 128, 3)
        sum = litert((*scales.tolist(), float(out)), tuple(zeros.tolist()))
        found += affine_sum(sum, -128, 127) is not None
    assert found >= 38


def test_halves_are_rounded_away_from_zero() -> None:
    made = affine_sum(litert((0.02, 0.02, 0.04), (3, -5, 7)), -128, 127)
    assert made is not None
    assert made.zero == 7
    found = computed(made)
    assert (found[128 + 3 + 1, 128 - 5], found[128 + 3 - 1, 128 - 5]) == (8, 6)


def test_sums_that_do_not_fit_have_none() -> None:
    sum = litert((0.02, 0.03, 1e-9), (0, 0, 0))
    assert affine_sum(sum, -128, 127) is None


def net_of(name: str, low: float, high: float, activation: int) -> weft.Net:
    """All pairs of bytes, with the second one's limits."""
    one = tensor(256, 1, dtype="int8", low=-6, high=6)
    other = tensor(1, 256, dtype="int8", low=low, high=high)
    out = tensor(256, 256, dtype="int8", low=-6.7, high=6.1)
    values = {"fusedActivationFunction": activation, "potScaleInt16": False}
    case = Case(name, (one, other), (out,), f"{name.capitalize()}Options", values)
    return weft.Net(imported(case.content()).graph).apply("integers", rounding="litert")


@pytest.mark.parametrize("activation", [0, 1, 3], ids=["plain", "relu", "relu6"])
@pytest.mark.parametrize("name", ["ADD", "SUB"])
@pytest.mark.parametrize("simd", ["", "none"], ids=["vectors", "plain"])
def test_compiled(name: str, activation: int, simd: str) -> None:
    net = net_of(name, -2.03, 1.87, activation)
    inputs = [BYTES.astype(np.int8).reshape(256, 1), BYTES.astype(np.int8).reshape(1, 256)]
    given = dict(zip(net.graph.inputs, inputs, strict=True))
    (wanted,) = net.reference(given)
    np.testing.assert_array_equal(net.compile(simd=simd, threads=1).library(*inputs)[0], wanted)


def text_of(net: weft.Net, target: str) -> str:
    return "\n".join(text for _, text in net.source(target).sources)


@pytest.mark.parametrize(
    "target", ["x86-avx2", "aarch64-neon", "cortex-m0plus", "cortex-m7", "generic"]
)
def test_where_it_is_used(target: str) -> None:
    text = text_of(net_of("ADD", -2.03, 1.87, 0), target)
    assert "requantize" not in text
    assert "int64_t" not in text.replace("int64_t bytes", "")


def test_scales_without_a_form_keep_their_definition() -> None:
    """Halves of one input meet thirds of the other: what LiteRT rounds first then decides."""
    net = weft.Net(imported(thirds().content()).graph).apply("integers", rounding="litert")
    assert "requantize" in text_of(net, "x86-avx2")


def thirds() -> Case:
    inputs = [tensor(4, 4, dtype="int8", low=-most, high=most) for most in (6, 4)]
    out = tensor(4, 4, dtype="int8", low=-12, high=12)
    values = {"fusedActivationFunction": 0, "potScaleInt16": False}
    return Case("ADD", tuple(inputs), (out,), "AddOptions", values)
