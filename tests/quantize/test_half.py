"""What half precision does to each layer, and which layers a budget of accuracy keeps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.rewrite.checks import graph_of
from weft.api import Net
from weft.errors import UserError
from weft.quantize.sensitivity import ErrorSums

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
TEXT = """(%x: f32[4,8]) -> (%y) {
  const %w: f32[8,8]
  const %v: f32[8,8]
  %m: f32[4,8] = MatMul(%x, %w)
  %a: f32[4,8] = Relu(%m)
  %y: f32[4,8] = MatMul(%a, %v)
}"""


def test_each_layer_rounds_to_eight_bits() -> None:
    """The first layer rounds its weight and what it stores, the second its weight alone."""
    found = Net(graph_of(TEXT)).precision_report(
        np.random.default_rng(0).standard_normal((12, 4, 8)).astype(np.float32).reshape(48, 8)
    )
    assert [(each.name, each.kept) for each in found.layers] == [("m", False), ("y", False)]
    assert all(40 < each.own < 70 and 40 < each.sqnr < 70 for each in found.layers)
    assert found.output < min(each.own for each in found.layers)
    assert found.keep_float32 == ()
    assert str(found).startswith("g in bfloat16: 2 layers with 12 samples\n")


def test_a_budget_keeps_the_layers_that_hurt_most() -> None:
    net = Net(graph_of(TEXT))
    samples = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    expected = net.reference(samples)[0]
    assert expected.shape == (4, 8)

    def accuracy(run) -> float:
        return -float(np.abs(run(samples) - expected).max())

    free = net.precision_report(samples, "float16", accuracy=accuracy)
    assert free.keep_float32 == ()
    assert free.accuracy is not None
    half = net.precision_report(samples, "bf16", accuracy=accuracy, max_drop=-free.accuracy)
    assert half.keep_float32 == ("m", "y")
    one = net.precision_report(samples, "bf16", keep_float32=["m"])
    assert one.keep_float32 == ("m",)
    kept = net.compile(precision="bf16", keep_float32=half.keep_float32)
    np.testing.assert_allclose(kept(samples), expected, rtol=1e-4, atol=1e-4)


def test_short_names_and_one_layer() -> None:
    net = Net(graph_of(TEXT.replace("%m", "%mean")))
    samples = np.ones((4, 8), np.float32)
    assert net.precision_report(samples, "bf16", keep_float32="mean").keep_float32 == ("mean",)
    for short, full in (("bf16", "bfloat16"), ("fp32", "float32")):
        assert net.expanded(precision=short).identity == net.expanded(precision=full).identity
    kept = net.expanded(precision="bf16", keep_float32="mean")
    assert kept.identity != net.expanded(precision="bf16").identity


def test_what_overflows_is_infinite_noise() -> None:
    """Sums beyond 65,504 are infinities in float16; the layer that stores them hurts most."""
    random = np.random.default_rng(3)
    large, small = (random.random((8, 8), np.float32) * scale for scale in (3e4, 1e-4))
    net = Net(graph_of(TEXT, w=large.astype(np.float32), v=small.astype(np.float32)))
    samples = random.random((4, 8), np.float32) + 1

    def accuracy(run) -> float:
        return float(np.isfinite(run(samples)).mean())

    found = net.precision_report(samples, "fp16", accuracy=accuracy)
    first, last = found.layers
    assert (first.name, first.own, first.sqnr, first.cosine) == ("m", -np.inf, -np.inf, 0)
    assert (last.sqnr, found.output, found.accuracy) == (-np.inf, -np.inf, 0)
    assert last.own > 50
    assert "output      -inf dB" in str(found)
    assert found.record()["output"] == "-inf"
    json.dumps(found.record(), allow_nan=False)
    kept = net.precision_report(samples, "fp16", accuracy=accuracy, max_drop=0)
    assert (kept.keep_float32, kept.accuracy) == (("m",), 1)
    assert kept.output > 50


def test_infinities_that_should_be_are_no_noise() -> None:
    sums = ErrorSums()
    sums.add(*(np.array([1, np.inf, -np.inf, np.nan, each]) for each in (2, 2.5)))
    assert (sums.signal, sums.noise) == (5, 0.25)
    sums.add(np.array([np.inf]), np.array([-np.inf]))
    assert sums.noise == np.inf


def test_verify_compares_what_is_rounded() -> None:
    net = weft.load(DIGITS)
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    found = net.verify(image, precision="bfloat16")
    assert {"/stem/stem.3/MaxPool_output_0", "scores"} <= {each.value for each in found}
    assert all(0 < each.relative < 5e-2 for each in found)


def test_refusals() -> None:
    net = Net(graph_of(TEXT))
    samples = np.zeros((4, 8), np.float32)
    with pytest.raises(UserError) as error:
        net.precision_report(samples, "float32")
    assert str(error.value) == (
        "the precision of a report must be bfloat16 or float16; got float32"
    )
    with pytest.raises(UserError) as error:
        net.precision_report(samples, max_drop=0.1)
    assert str(error.value).startswith("precision: max_drop needs an accuracy")
    with pytest.raises(UserError) as error:
        weft.Options(keep_float32=("m",))
    assert str(error.value).startswith(
        "keep_float32 names layers that another precision leaves in float32; got no precision"
    )
