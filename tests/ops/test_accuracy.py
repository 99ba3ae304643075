"""Functions of one number through compiled C, over all magnitudes, against double precision."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import weft

Real = Callable[[np.ndarray], np.ndarray]
ULP = 2.0**-23
LEAST = 4e-37
"""Results below this are not compared: where subnormal numbers begin, bits go."""


def erfc(x: np.ndarray) -> np.ndarray:
    return np.array([math.erfc(each) for each in x.tolist()])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def elu(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, np.expm1(x), x)


FUNCTIONS: dict[str, tuple[Callable[[weft.Value], weft.Value], Real, float]] = {
    "exp": (weft.ops.exp, np.exp, 3 * ULP),
    "exp2": (weft.ops.exp2, np.exp2, 3 * ULP),
    "expm1": (weft.ops.expm1, np.expm1, 3 * ULP),
    "log": (weft.ops.log, np.log, 3 * ULP),
    "log1p": (weft.ops.log1p, np.log1p, 3 * ULP),
    "log2": (weft.ops.log2, np.log2, 3 * ULP),
    "log10": (weft.ops.log10, np.log10, 3 * ULP),
    "atan2": (
        lambda x: weft.ops.atan2(x, x * x - 1.0),
        lambda x: np.arctan2(x, (np.square(x.astype("f4")) - np.float32(1)).astype("f8")),
        3 * ULP,
    ),
    "hypot": (lambda x: weft.ops.hypot(x, 0.75 * x), lambda x: 1.25 * np.abs(x), 3 * ULP),
    "tanh": (weft.ops.tanh, np.tanh, 3 * ULP),
    "asinh": (weft.ops.asinh, np.arcsinh, 3 * ULP),
    "erf": (weft.ops.erf, lambda x: np.array([math.erf(each) for each in x.tolist()]), 4 * ULP),
    "softplus": (weft.ops.softplus, softplus, 3 * ULP),
    "mish": (weft.ops.mish, lambda x: x * np.tanh(softplus(x)), 8 * ULP),
    "softsign": (weft.ops.softsign, lambda x: x / (1 + np.abs(x)), 3 * ULP),
    "elu": (weft.ops.elu, elu, 3 * ULP),
    "celu": (
        lambda x: weft.ops.celu(x, alpha=2.0),
        lambda x: np.where(x < 0, 2 * elu(x / 2), x),
        4 * ULP,
    ),
    "selu": (
        weft.ops.selu,
        lambda x: 1.0507010221481323 * np.where(x < 0, 1.6732631921768188 * np.expm1(x), x),
        4 * ULP,
    ),
    # 2^p for a polynomial p, which is exact where the result counts.
    "gelu": (weft.ops.gelu, lambda x: x * 0.5 * erfc(-x * math.sqrt(0.5)), 2.5e-2),
    "gelu_tanh": (
        lambda x: weft.ops.gelu(x, approximate="tanh"),
        lambda x: x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
        2e-5,
    ),
}
MIDDLE = {"gelu": 1e-3}
"""Bounds from -6 to -2."""
NEAR = {"gelu": 16 * ULP, "gelu_tanh": 8 * ULP}
"""Bounds from -2 on."""


def numbers() -> np.ndarray:
    """All powers of two of both signs with random bits, and the range where functions bend."""
    source = np.random.default_rng(0)
    exponents = np.arange(1, 255, dtype=np.uint32).repeat(8) << 23
    wide = (exponents | source.integers(0, 1 << 23, exponents.size, dtype=np.uint32)).view("f4")
    narrow = source.uniform(-20, 20, 4096).astype(np.float32)
    return np.concatenate([wide, -wide, narrow])


@pytest.mark.parametrize("flavour", ["", "c99", "c89"])
def test_small_results_are_as_accurate_as_large_ones(flavour: str):
    x = numbers()
    given = weft.input("x", f"f32[{x.size}]")
    made = [function(given).named(name) for name, (function, _, _) in FUNCTIONS.items()]
    net = weft.net([given], made).compile(threads=1, flavour=flavour)
    problems: list[str] = []
    for (name, (_, real, bound)), got in zip(FUNCTIONS.items(), net(x), strict=True):
        with np.errstate(all="ignore"):
            want = real(x.astype(np.float64))
            compared = (np.abs(want) > LEAST) & (np.abs(want) < 3e38)
            off = np.where(compared, np.abs(got - want) / np.abs(want), 0)
            lost = ~compared & (np.abs(want) <= LEAST) & (np.abs(got) > 2 * LEAST)
        middle = MIDDLE.get(name, bound)
        allowed = np.where(x < -6, bound, np.where(x < -2, middle, NEAR.get(name, bound)))
        worst = int(np.argmax(off / allowed))
        if off[worst] > allowed[worst] or lost.any():
            problems.append(f"{name}({x[worst]}) is {got[worst]}, should be {want[worst]}")
    assert problems == []


@pytest.mark.parametrize("simd", ["", "sse2"])
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_vector_exponentials_are_never_subnormal(name: str, simd: str):
    """Many processors of Intel are slow with operands so small."""
    x = np.concatenate([numbers(), np.linspace(-160, -80, 4092, dtype=np.float32)])
    # None is left over after whole vectors, which the C library would compute.
    filling = np.zeros(-(x.size + 4) % 16, np.float32)
    x = np.concatenate([x, filling, np.float32([-np.inf, np.inf, np.nan, 0])])
    function, real, _ = FUNCTIONS[name]
    given = weft.input("x", f"f32[{x.size}]")
    net = weft.net([given], [function(given)]).compile(threads=1, simd=simd)
    got = net(x)
    assert not np.any((np.abs(got) < np.finfo(np.float32).tiny) & (got != 0))
    with np.errstate(all="ignore"):
        want = real(x.astype(np.float64))
    assert np.all((got != 0) | (want < 5e-38))
    assert got[-4:-2].tolist() == [0.0, np.inf]
    assert np.isnan(got[-2])
    assert got[-1] == 1.0
