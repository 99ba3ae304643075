"""Every operator, over grids of types and options, against LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import weft
from tests.frontends.litert import coverage
from tests.frontends.litert.against import by_litert, by_weft, check, imported
from tests.frontends.litert.builder import Case, Op, Sub, T, file, inputs_of
from tests.frontends.litert.cases import CASES
from tests.turns import a_few
from weft.recipes import apply
from weft.rewrite.float_layers import float_layers

RUNS = 3


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_operator(case: Case) -> None:
    content, inputs = case.content(), inputs_of(case)
    made = imported(content)
    runs = RUNS if made.states else 1
    quantized = any(each is not None and each.scale is not None for each in case.inputs)
    quantized |= any(each.scale is not None for each in case.outputs)
    expected = by_litert(content, inputs, runs, case.reference)
    check(by_weft(made, inputs, runs), expected, case.steps * quantized, case.tolerance)


STEPS = {
    # LiteRT 2 rounds sums of fully connected layers once, TensorFlow Lite and Weft twice.
    "FULLY_CONNECTED": 1,
    # Left in float.
    "RESIZE_BILINEAR uint8": 1,
    "SUM int16": 1,
}
"""How far operators of quantized bytes are from LiteRT's, those that have not its bits."""
BYTES = [
    case
    for case in CASES
    if case.outputs[0].dtype in ("int8", "uint8") and case.outputs[0].scale is not None
]
HALVES = [
    case for case in CASES if case.outputs[0].dtype == "int16" and case.outputs[0].scale is not None
]


@pytest.mark.parametrize("case", [*BYTES, *HALVES], ids=lambda case: case.id)
def test_in_integers(case: Case) -> None:
    """In LiteRT's rounding operators of 8 and 16 bits have the bits of its kernels."""
    content, inputs = case.content(), inputs_of(case)
    made = imported(content)
    made = replace(made, graph=apply(made.graph, "integers", {"rounding": "litert"}))
    runs = RUNS if made.states else 1
    expected = by_litert(content, inputs, runs, case.reference)
    named = f"{case.name} {case.outputs[0].dtype}"
    steps = STEPS.get(case.name, STEPS.get(named, 0))
    check(by_weft(made, inputs, runs), expected, steps, 0)


def test_most_of_them_are_integers_all_through() -> None:
    left = {
        case.name
        for case in [*BYTES, *HALVES]
        if float_layers(apply(imported(case.content()).graph, "integers", {"rounding": "litert"}))
    }
    assert left == LEFT_IN_FLOAT


LEFT_IN_FLOAT = {
    *("DIV", "L2_NORMALIZATION", "LOG_SOFTMAX", "RESIZE_BILINEAR", "RSQRT"),
    *("SQUARED_DIFFERENCE", "SUM"),
}


def _rarely(place: int) -> Sequence[pytest.MarkDecorator]:
    if place % 24:
        return [pytest.mark.slow]
    return [pytest.mark.thorough] if place % 72 else []


IN_C = [
    pytest.param(case, marks=_rarely(place), id=case.id)
    for place, case in enumerate([*BYTES, *HALVES])
]


@pytest.mark.parametrize("case", IN_C)
def test_compiled_integers(case: Case) -> None:
    made, inputs = imported(case.content()), inputs_of(case)
    if made.states or not made.inputs:
        pytest.skip("states are compiled elsewhere, constants not at all")
    net = weft.Net(made.graph).apply("integers", rounding="litert")
    found = net.compile()(*inputs)
    found = [found] if isinstance(found, np.ndarray) else list(found)
    check(found, list(net.reference(*inputs)), int(bool(net.float_layers())), 1e-5)


@pytest.mark.parametrize(("dtype", "zero"), [("int8", -3), ("uint8", 7), ("int16", 0)])
def test_halves_go_to_the_even_number_as_in_the_usual_kernels(dtype: str, zero: int) -> None:
    # Whole vectors: what is left of a tensor behind them it rounds away from zero.
    halves = (np.arange(-160, 160, dtype=np.float32)[None] + 0.5) * 0.25
    given, out = T((1, 320)), T((1, 320), dtype, scale=0.25, zero=zero)
    content = file(
        [Sub((given, out), (Op("QUANTIZE", (0,), (1,), "QuantizeOptions"),), (0,), (1,))]
    )
    usual, reference = (by_litert(content, [halves], 1, each) for each in (False, True))
    check(by_weft(imported(content), [halves], 1), usual, 0, 0)
    assert (usual[0] != reference[0]).any()


@pytest.mark.parametrize(
    ("name", "options", "scales"),
    [
        ("EXP", "ExpOptions", (2e-4, 4e-3)),
        ("GELU", "GeluOptions", (2e-4, 2e-4)),
        ("LOG", "", (3e-4, 1.5e-4)),
        ("RSQRT", "", (1e-3, 2e-3)),
        ("SQRT", "", (7e-4, 3e-4)),
    ],
)
def test_every_number_of_16_bits(name: str, options: str, scales: tuple[float, float]) -> None:
    least = 0 if name in ("LOG", "RSQRT", "SQRT") else -(1 << 15)
    numbers = np.arange(least, 1 << 15, dtype=np.int16)[None]
    given, out = (T(numbers.shape, "int16", scale=scale) for scale in scales)
    content = file([Sub((given, out), (Op(name, (0,), (1,), options),), (0,), (1,))])
    made = imported(content)
    made = replace(made, graph=apply(made.graph, "integers", {"rounding": "litert"}))
    check(by_weft(made, [numbers]), by_litert(content, [numbers]), 0, 0)
    net = weft.Net(made.graph)
    np.testing.assert_array_equal(np.asarray(net.compile()(numbers)), net.reference(numbers)[0])


def test_there_are_enough() -> None:
    assert len(CASES) >= 400


def test_the_coverage_page_is_current() -> None:
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), (
        "run python -m tests.frontends.litert.coverage"
    )


# Every 16th case, and all of them where time is of no concern.
QUICK = [
    pytest.param(case, marks=() if place % 16 == 0 else pytest.mark.slow, id=case.id)
    for place, case in enumerate(CASES)
]


@pytest.mark.parametrize("case", a_few(QUICK, len(QUICK) // 3))
def test_compiled(case: Case) -> None:
    made, inputs = imported(case.content()), inputs_of(case)
    if made.states or not made.inputs:
        pytest.skip("states are compiled elsewhere, constants not at all")
    expected = by_weft(made, inputs)
    found = weft.Net(made.graph).compile()(*inputs)
    found = [found] if isinstance(found, np.ndarray) else list(found)
    quantized = any(each.scale is not None for each in case.outputs)
    check(found, expected, int(quantized), 1e-5)
