"""Every operation on every type, in every flavour: C computes what the interpreter does."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.codegen.harness import Case, check
from tests.turns import in_turn
from weft.codegen.flavours import FLAVOURS
from weft.dtypes import DType
from weft.loops.nodes import (
    COMPARISONS,
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
    LoopKind,
    Select,
    Store,
    Unary,
    Var,
)
from weft.loops.walk import dtype_of
from weft.plan.program import Address, CallStep, Port, Program, Region
from weft.runtime.build import build
from weft.runtime.cache import Cache

LANES = 4
LIBM = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh erf erfc pow".split()
)
FLOAT_ONLY_UNARY = LIBM - {"pow"} | frozenset("sqrt floor ceil round trunc isnan isinf".split())
INTEGER_UNARY = ("neg", "abs", "sign", "not")
FLOAT_BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "fmod", "pow", "min", "max")
INTEGER_BINARY = (*FLOAT_BINARY, "and", "or", "xor", "shl", "shr")
DIVISIONS = frozenset({"div", "floordiv", "mod", "fmod"})


def values(dtype: DType) -> np.ndarray:
    """Ordinary and extreme values; a multiple of the lanes."""
    if dtype is DType.BOOL:
        return np.array([False, True, True, False], np.bool_)
    if dtype.is_integer:
        low, high = dtype.limits
        inner = [0, 1, 2, 3, 5, 7, 8, 31, 33, 63, 64, 100]
        if dtype.is_signed:
            inner += [-1, -2, -3, -7, -100, low + 1]
        picked = [low, high, high - 1, high // 2, *inner]
        picked += [1] * (-len(picked) % LANES)
        return np.array(picked, dtype.numpy)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 1e-3, 100.25, -77.125]
    special += [np.inf, -np.inf, np.nan, 1e30, -1e30, 3e-39, 0.3, -0.99, 2.0**23 + 1, 40000.0]
    with np.errstate(over="ignore"):
        return np.array(special, np.float64).astype(dtype.numpy)


def pairs(dtype: DType, nonzero: bool) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of values."""
    single = values(dtype)
    right = single
    if nonzero:
        right = np.where(single == 0, np.array(3, single.dtype), single)
    return np.repeat(single, len(right)), np.tile(right, len(single))


def pointwise(expr: Expr, names: dict[str, DType], size: int, kind: LoopKind) -> Kernel:
    """``y[i] = expr`` for all ``i``, by vectors or one by one."""
    out = Buffer("y", dtype_of(expr), (size,), Access.WRITE)
    ins = tuple(Buffer(name, dtype, (size,)) for name, dtype in names.items())
    i64 = DType.I64
    if kind is LoopKind.VECTOR:
        inner = For("v", Const(0, i64), Const(LANES, i64), (), LoopKind.VECTOR)
        at = Binary("add", Binary("mul", Var("i"), Const(LANES, i64)), Var("v"))
        store = Store("y", (at,), _moved(expr, at))
        loop = For("v", inner.start, inner.stop, (store,), LoopKind.VECTOR)
        body = (For("i", Const(0, i64), Const(size // LANES, i64), (loop,)),)
    else:
        store = Store("y", (Var("i"),), expr)
        body = (For("i", Const(0, i64), Const(size, i64), (store,)),)
    return Kernel("pointwise", (*ins, out), body)


def _moved(expr: Expr, at: Expr) -> Expr:
    match expr:
        case Load(buffer, _, dtype):
            return Load(buffer, (at,), dtype)
        case Unary(op, x):
            return Unary(op, _moved(x, at))
        case Binary(op, lhs, rhs):
            return Binary(op, _moved(lhs, at), _moved(rhs, at))
        case Select(condition, then, otherwise):
            return Select(_moved(condition, at), _moved(then, at), _moved(otherwise, at))
        case Cast(dtype, x):
            return Cast(dtype, _moved(x, at))
        case Bits(dtype, x):
            return Bits(dtype, _moved(x, at))
        case _:
            return expr


def load(name: str, dtype: DType) -> Load:
    """``name[i]``."""
    return Load(name, (Var("i"),), dtype)


def unary_cases(kind: LoopKind) -> list[Case]:
    """Every unary operation on every type that has it."""
    cases: list[Case] = []
    for dtype in DType:
        ops = ("not",) if dtype is DType.BOOL else INTEGER_UNARY
        if dtype.is_float:
            ops = ("neg", "abs", "sign", *sorted(FLOAT_ONLY_UNARY))
        x = values(dtype)
        for op in ops:
            kernel = pointwise(Unary(op, load("x", dtype)), {"x": dtype}, len(x), kind)
            cases.append(Case(kernel, {"x": x}, 4 if op in LIBM else 0))
    return cases


def binary_cases(kind: LoopKind) -> list[Case]:
    """Every binary operation on every type that has it."""
    cases: list[Case] = []
    for dtype in DType:
        ops = ("and", "or", "xor", "eq", "ne", "min", "max")
        if dtype is not DType.BOOL:
            ops = FLOAT_BINARY if dtype.is_float else INTEGER_BINARY
            ops = (*ops, *sorted(COMPARISONS))
        for op in ops:
            x, z = pairs(dtype, op in DIVISIONS and dtype.is_integer)
            if op == "pow" and dtype.is_float:  # NumPy takes a square root of -inf there
                x = np.where(np.isneginf(x), np.array(-2, x.dtype), x)
            expr = Binary(op, load("x", dtype), load("z", dtype))
            kernel = pointwise(expr, {"x": dtype, "z": dtype}, len(x), kind)
            cases.append(Case(kernel, {"x": x, "z": z}, 4 if op in LIBM else 0))
    return cases


def cast_cases(kind: LoopKind) -> list[Case]:
    """Every conversion, and every selection."""
    cases: list[Case] = []
    for source in DType:
        x = values(source)
        for target in DType:
            expr = Cast(target, load("x", source))
            cases.append(Case(pointwise(expr, {"x": source}, len(x), kind), {"x": x}))
        test = np.arange(len(x)) % 3 == 0
        names = {"c": DType.BOOL, "x": source}
        chosen = Select(load("c", DType.BOOL), load("x", source), Const(1, source))
        kernel = pointwise(chosen, names, len(x), kind)
        cases.append(Case(kernel, {"c": test, "x": x}))
    return cases


def bits_cases(kind: LoopKind) -> list[Case]:
    """The bits of every type that has others of its size, and shifts by constants."""
    cases: list[Case] = []
    for source in DType:
        x = values(source)
        for target in DType:
            if source.bytes == target.bytes >= 4:
                expr = Bits(target, load("x", source))
                cases.append(Case(pointwise(expr, {"x": source}, len(x), kind), {"x": x}))
        for op in ("shl", "shr") if source.is_integer else ():
            for places in (0, 1, 8 * source.bytes - 1, 8 * source.bytes):
                if places <= source.limits[1]:
                    expr = Binary(op, load("x", source), Const(places, source))
                    cases.append(Case(pointwise(expr, {"x": source}, len(x), kind), {"x": x}))
    return cases


MAKERS = (unary_cases, binary_cases, cast_cases, bits_cases)


@pytest.mark.parametrize(
    ("flavour", "make"), in_turn([(each,) for each in (*FLAVOURS, "gnu vectors")], MAKERS)
)
def test_operations(flavour: str, make, tmp_path: Path) -> None:
    kind = LoopKind.VECTOR if flavour == "gnu vectors" else LoopKind.SERIAL
    check(make(kind), flavour.split()[0], tmp_path)


def lane_by_lane(make, x: np.ndarray, lanes: int, folder: Path) -> np.ndarray:
    """What the vector loop over ``make(x)`` gives, compiled."""
    at = (Binary("add", Binary("mul", Var("i"), Const(lanes, DType.I64)), Var("v")),)
    store = Store("y", at, make(Load("x", at, DType.F32)))
    inner = For("v", Const(0, DType.I64), Const(lanes, DType.I64), (store,), LoopKind.VECTOR)
    loop = For("i", Const(0, DType.I64), Const(len(x) // lanes, DType.I64), (inner,))
    params = (
        Buffer("x", DType.F32, x.shape),
        Buffer("y", DType.F32, x.shape, Access.WRITE),
    )
    step = CallStep("apply", (Address(Region.INPUT, "x"), Address(Region.OUTPUT, "y")))
    ports = (Port("x", DType.F32, x.shape),), (Port("y", DType.F32, x.shape),)
    net = Program("net", *ports, (Kernel("apply", params, (loop,)),), (step,), {}, 0)
    (y,) = build(net, cache=Cache(folder))(x)
    return y


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize(
    ("op", "reference", "most"),
    [("exp", np.exp, 1.3), ("exp2", np.exp2, 1.5), ("tanh", np.tanh, 1.5), ("erf", None, 3)],
)
def test_vector_functions_are_accurate(op: str, reference, most, lanes, tmp_path: Path) -> None:
    ranges = [np.linspace(-110, 95, 65536), np.linspace(-5, 5, 65536), np.linspace(-1, 1, 65536)]
    bits = np.random.default_rng(0).integers(0, 1 << 32, 65536, np.uint32).view(np.float32)
    x = np.concatenate([*ranges, bits[np.isfinite(bits)]]).astype(np.float32)
    x = x[: len(x) // 16 * 16]
    y = lane_by_lane(lambda x: Unary(op, x), x, lanes, tmp_path)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        wide = x.astype(np.float64)
        exact = np.array([math.erf(each) for each in wide]) if op == "erf" else reference(wide)
        wanted = exact.astype(np.float32)
        finite = np.isfinite(wanted)
        units = np.abs(y - exact) / np.spacing(np.abs(wanted))
    assert np.array_equal(y[~finite], wanted[~finite])
    cleared = (y == 0) & (exact < 5e-38) & (op in ("exp", "exp2"))
    assert units[finite & ~cleared].max() < most


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_logarithms_are_accurate(lanes: int, tmp_path: Path) -> None:
    tiny = np.float32(2.0**-149)
    special = np.array([0, -0.0, -1, -np.inf, np.inf, np.nan, 1, tiny, -tiny], np.float32)
    ranges = [np.geomspace(1e-44, 3e38, 8192), np.linspace(0.5, 2, 8192)]
    x = np.concatenate([np.resize(special, 16), *ranges]).astype(np.float32)
    y = lane_by_lane(lambda x: Unary("log", x), x, lanes, tmp_path)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log(x.astype(np.float64))
    finite = np.isfinite(exact)
    units = np.abs(y[finite] - exact[finite]) / np.spacing(np.abs(exact[finite]).astype("f4"))
    np.testing.assert_array_equal(y[~finite], exact[~finite].astype(np.float32))
    assert units.max() < 3


@pytest.mark.parametrize("lanes", [2, 8, 16])
@pytest.mark.parametrize(("op", "reference"), [("sin", np.sin), ("cos", np.cos)])
def test_sines_are_accurate(op: str, reference, lanes: int, tmp_path: Path) -> None:
    special = np.array([0, -0.0, 1e-40, 8191.9, -8192, 9000, 1e30, -3e38], np.float32)
    turns = np.arange(-2000, 2000) * (np.pi / 2)
    ranges = [np.linspace(-8, 8, 8192), np.linspace(-8192, 8192, 8192), turns]
    x = np.concatenate([np.resize(special, 64), *ranges]).astype(np.float32)
    y = lane_by_lane(lambda x: Unary(op, x), x, lanes, tmp_path)
    exact = reference(x.astype(np.float64))
    units = np.abs(y - exact) / np.spacing(np.maximum(np.abs(exact), 2.0**-120).astype("f4"))
    assert units.max() < 3
    assert np.signbit(y[1]) == (op == "sin")
    wild = np.resize(np.array([np.inf, -np.inf, np.nan, 1], np.float32), 16)
    found = lane_by_lane(lambda x: Unary(op, x), wild, lanes, tmp_path)
    np.testing.assert_array_equal(np.isnan(found), ~np.isfinite(wild))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("swish", [False, True])
def test_logistic_functions_are_accurate(swish: bool, lanes: int, tmp_path: Path) -> None:
    ranges = [np.linspace(-87, 95, 4096), np.linspace(-5, 5, 4096), np.linspace(-1e-3, 1e-3, 64)]
    overflow = np.linspace(-89.5, -87, 512, dtype=np.float32)
    x = np.concatenate(ranges).astype(np.float32)

    def formula(x: Expr) -> Expr:
        one = Const(1, DType.F32)
        divisor = Binary("add", Unary("exp", Unary("neg", x)), one)
        return Binary("div", x if swish else one, divisor)

    y = lane_by_lane(formula, x, lanes, tmp_path)
    wide = x.astype(np.float64)
    exact = (wide if swish else 1) / (1 + np.exp(-wide))
    units = np.abs(y - exact) / np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32))
    # Without fused products every step rounds.
    assert units.max() < 6
    steps = lane_by_lane(formula, overflow, lanes, tmp_path)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(
            steps, (overflow if swish else 1) / (1 + np.exp(-overflow)), 1e-5, 1e-36
        )
    special = np.resize(np.array([-np.inf, -1e30, -100, -0.0, 100, 1e30, np.nan, 3e-39], "f4"), 16)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = (special if swish else 1) / (1 + np.exp(-special))
    got = lane_by_lane(formula, special, lanes, tmp_path)
    np.testing.assert_allclose(got, wanted, rtol=3e-7, atol=1e-37)


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_gelu_is_accurate(lanes: int, tmp_path: Path) -> None:
    ranges = [np.linspace(-40, 40, 4096), np.linspace(-6, 6, 4096), np.linspace(-1e-3, 1e-3, 64)]
    special = np.resize(np.array([-3e38, -0.0, 0.0, np.inf, np.nan, 3e-39, 1e-30, 3e38], "f4"), 16)
    x = np.concatenate([*ranges, special]).astype(np.float32)

    def formula(x: Expr) -> Expr:
        curve = Unary("erf", Binary("mul", x, Const(math.sqrt(0.5), DType.F32)))
        half = Binary("mul", x, Const(0.5, DType.F32))
        return Binary("mul", half, Binary("add", curve, Const(1, DType.F32)))

    y = lane_by_lane(formula, x, lanes, tmp_path)
    wide = x.astype(np.float64)
    tails = np.array([math.erfc(-each * math.sqrt(0.5)) / 2 for each in wide])
    with np.errstate(invalid="ignore"):
        exact = wide * tails
    np.testing.assert_allclose(y, exact, rtol=6e-7, atol=1e-7)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("gate", [-0.3, 2.0])
def test_gates_are_accurate(gate: float, lanes: int, tmp_path: Path) -> None:
    ranges = [np.linspace(-40, 40, 4096), np.linspace(-2, 2, 8192), np.geomspace(1e-38, 1, 1024)]
    special = np.resize(np.array([-3e38, -0.0, 0.0, np.inf, -np.inf, np.nan, 3e-39], "f4"), 16)
    x = np.concatenate([*ranges, special]).astype(np.float32)

    def formula(x: Expr) -> Expr:
        one = Const(1, DType.F32)
        power = Unary("exp", Unary("neg", Binary("mul", x, Const(gate, DType.F32))))
        return Binary("mul", Unary("tanh", x), Binary("div", one, Binary("add", power, one)))

    y = lane_by_lane(formula, x, lanes, tmp_path)
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        exact = np.tanh(wide) / (1 + np.exp(-(x * np.float32(gate)).astype(np.float64)))
    finite = np.isfinite(exact)
    assert np.array_equal(np.isnan(y), np.isnan(exact))
    units = np.abs(y - exact) / np.spacing(np.maximum(np.abs(exact), 2.0**-120).astype("f4"))
    # Without fused products every step rounds.
    assert units[finite].max() < 5.5
    np.testing.assert_array_equal(np.signbit(y[finite]), np.signbit(x[finite]))


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("op", ["min", "max"])
def test_vector_extremes_pass_over_nan_on_the_right(op: str, lanes: int, tmp_path: Path) -> None:
    x = np.resize(np.array([np.nan, -1.0, 0.0, 7.0, np.inf, -np.inf, 2.0, -0.0], "f4"), 16)
    left = lane_by_lane(lambda x: Binary(op, x, Const(1, DType.F32)), x, lanes, tmp_path)
    right = lane_by_lane(lambda x: Binary(op, Const(1, DType.F32), x), x, lanes, tmp_path)
    pick = np.fmin if op == "min" else np.fmax
    kept = np.where(np.isnan(x), x, pick(x, np.float32(1)))
    np.testing.assert_array_equal(left, kept)
    np.testing.assert_array_equal(right, pick(np.float32(1), x))


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", [DType.F32, DType.I32, DType.U8, DType.F16, DType.BOOL])
def test_lanes_are_read_from_two_places_in_turn(dtype: DType, lanes: int, tmp_path: Path) -> None:
    def number(value: int) -> Const:
        return Const(value, DType.I64)

    two = number(2)
    half, side = Binary("floordiv", Var("v"), two), Binary("mod", Var("v"), two)
    places = [(side, Binary("add", half, number(1))), (half, side), (number(0), half)]
    params = (
        Buffer("x", dtype, (lanes, lanes + 1)),
        Buffer("y", dtype, (len(places), lanes), Access.WRITE),
    )
    loops = tuple(
        For(
            "v",
            number(0),
            number(lanes),
            (Store("y", (number(row), Var("v")), Load("x", at, dtype)),),
            LoopKind.VECTOR,
        )
        for row, at in enumerate(places)
    )
    numbers = np.arange(lanes * (lanes + 1)).reshape(lanes, lanes + 1) % 7
    x = (numbers % 2).astype(np.bool_) if dtype is DType.BOOL else numbers.astype(dtype.numpy)
    check([Case(Kernel("turns", params, loops), {"x": x})], "gnu", tmp_path)
