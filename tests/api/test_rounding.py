"""Which rounding the quantized layers of files have, and what is left in float."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from tests.cli.commands import good, record
from tests.rewrite.checks import graph_of
from weft.errors import UserError
from weft.frontends import onnx

CONV = """(%x: i8[1,2,4,4]) -> (%y, %p) {
    const %xs: f32[]
    const %w: i8[3,2,3,3]
    const %ws: f32[3]
    const %ys: f32[]
    const %ps: f32[]
    const %yz: i8[]
    %xd: f32[1,2,4,4] = DequantizeLinear(%x, %xs)
    %wd: f32[3,2,3,3] = DequantizeLinear(%w, %ws) {axis=0}
    %c: f32[1,3,2,2] = Conv(%xd, %wd)
    %y: i8[1,3,2,2] = QuantizeLinear(%c, %ys, %yz)
    %yd: f32[1,3,2,2] = DequantizeLinear(%y, %ys, %yz)
    %e: f32[1,3,2,2] = CumSum(%yd) {axis=1}
    %p: i8[1,3,2,2] = QuantizeLinear(%e, %ps, %yz)
}"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    graph = graph_of(
        CONV,
        xs=np.array(0.05, np.float32),
        w=rng.integers(-127, 128, (3, 2, 3, 3)).astype(np.int8),
        ws=np.array([0.01, 0.02, 0.015], np.float32),
        yz=np.array(3, np.int8),
        ys=np.array(0.04, np.float32),
        ps=np.array(0.1, np.float32),
    )
    found = tmp_path / "net.onnx"
    onnx.save(graph, found)
    return found


@pytest.mark.parametrize(
    ("rounding", "has", "told"),
    [
        ("", "QLinearConv", "by scales in float, halves to even"),
        ("onnx", "QLinearConv", "by scales in float, halves to even"),
        ("litert", "Requantize", "in fixed point, twice"),
        ("float", "Conv", "between dequantizers and quantizers"),
    ],
)
def test_rounding_of_onnx_files(path: Path, rounding: str, has: str, told: str) -> None:
    net = weft.load(path, rounding=rounding)
    assert has in {node.op for node in net.graph.nodes}
    assert told in net.source(name="net").header[1].replace("\n * ", " ")


def test_unknown_rounding(path: Path) -> None:
    with pytest.raises(UserError) as error:
        weft.load(path, rounding="nearest")
    assert str(error.value) == "rounding must be litert, onnx, float; got 'nearest'"


def test_what_is_left_in_float(path: Path) -> None:
    assert [str(each) for each in weft.load(path, rounding="litert").float_layers()] == [
        "e_ (CumSum): no integer kernel of LiteRT for CumSum between these values is known"
    ]
    assert [str(each) for each in weft.load(path).float_layers()] == [
        "e_ (CumSum): ONNX defines CumSum of quantized values in float"
    ]
    reasons = {each.reason for each in weft.load(path, rounding="float").float_layers()}
    assert reasons == {"layers in float were asked for"}


def test_commands(path: Path) -> None:
    assert "Requantize" in good("show", path, "--rounding", "litert")
    assert "in float, 1 of the quantized network's nodes:" in good("impls", path)
    found = record("impls", path, "--rounding", "litert")
    assert [each["op"] for each in found["float"]] == ["CumSum"]
    assert record("verify", path, "--runs", 0)["passed"]
    assert record("verify", path, "--runs", 0, "--rounding", "litert")["passed"]
