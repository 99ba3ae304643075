"""The int8 models as layers of integers: by SMLAD on an emulated Cortex-M4, by VNNI here."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import weft
from tests.models import tiny
from tests.turns import a_few
from weft.runtime.emulators import MACHINES, emulated
from weft.targets.find import features

pytestmark = tiny.needed

EXACT_FUSION = "avx512_vnni" in features()
"""Without VNNI, onnxruntime's own convolutions of bytes saturate in 16 bits on x86."""

MOST_INSTRUCTIONS = 3_300_000
"""Through float, the model takes 20.3 million."""


@pytest.fixture(scope="module")
def net() -> weft.Net:
    """The keyword model."""
    return weft.load(tiny.model("kws", "int8"))


@cache
def expected(name: str) -> tuple[np.ndarray, ...]:
    """By onnxruntime, no node fused with another, of the model as Weft writes it."""
    net = weft.load(tiny.model(name, "int8"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        net.save(path)
        model = path.read_bytes()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0].name
    golden = tiny.golden(name, "int8")[0]
    return tuple(np.asarray(session.run(None, {port: x})[0]) for x in golden)


@pytest.mark.parametrize(
    ("name", "layers"), a_few([("ad", 10), ("ic", 10), ("kws", 10), ("vww", 28)])
)
def test_recognized_layers_are_those_of_onnxruntime(name: str, layers: int) -> None:
    """Node by node the same bits as without fusion, and next to what its own fusion gives."""
    path = tiny.model(name, "int8")
    net = weft.load(path)
    ops = [node.op for node in net.graph.nodes]
    assert ops.count("QLinearConv") == layers
    assert not {"Conv", "MatMul", "Gemm"} & set(ops)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0].name
    run = net.compile()
    for x, y in zip(tiny.golden(name, "int8")[0], expected(name), strict=True):
        np.testing.assert_array_equal(run(x), y)
        if not EXACT_FUSION:
            continue
        wanted = np.asarray(session.run(None, {port: x})[0])
        # It adds and takes softmax of integers, too, where these are still floats.
        assert np.abs(wanted.astype(int) - y.astype(int)).max() <= 2


@pytest.mark.parametrize(("name", "step"), a_few([("ad", 3), ("ic", 8), ("kws", 5), ("vww", 1)]))
def test_litert_files_have_layers_of_integers_too(name: str, step: int) -> None:
    """Where they are to round as ONNX does, they are so many steps from LiteRT's results."""
    net = weft.load(tiny.model(name, "int8").with_suffix(".tflite"), rounding="onnx")
    ops = {node.op for node in net.graph.nodes}
    assert ops & {"QLinearConv", "QLinearConvChannelsLast"}
    assert not {"Conv", "ConvChannelsLast", "MatMul", "Gemm"} & ops
    run = net.compile()
    for x, y in zip(*tiny.golden(name, "int8"), strict=True):
        assert np.abs(np.asarray(run(x)).astype(int) - y.astype(int)).max() <= step


def test_vnni_gives_the_same_bits(net: weft.Net) -> None:
    if "avx512_vnni" not in features():
        pytest.skip("this machine has no AVX-512 VNNI")
    schemes = [layer.scheme for layer in net.implementations("host")]
    assert sum(scheme.startswith("vpdpbusd") for scheme in schemes) >= 2
    run = net.compile()
    for x, y in zip(tiny.golden("kws", "int8")[0], expected("kws"), strict=True):
        np.testing.assert_array_equal(run(x), y)


def test_smlad_on_a_cortex_m4(net: weft.Net) -> None:
    missing = MACHINES["cortex-m4"].missing()
    if missing:
        pytest.skip(missing)
    files = net.source("cortex-m4", name="net", optimize="speed")
    assert "weft_dual_2x2(" in files.sources[0][1]
    inputs = [(x,) for x in tiny.golden("kws", "int8")[0][:2]]
    found = emulated(files, inputs, "cortex-m4")
    for (output,), y in zip(found.outputs, expected("kws")[:2], strict=True):
        np.testing.assert_array_equal(output, y)
    assert max(found.instructions) <= MOST_INSTRUCTIONS
