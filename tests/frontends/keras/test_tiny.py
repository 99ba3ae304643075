"""The ``.h5`` files of MLPerf Tiny: read without Keras, compared with it layer by layer."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import weft
from tests.frontends.keras.against import compared, difference, needs_keras, random_inputs
from tests.models.tiny import FOLDER, golden, needed
from tests.turns import a_few
from weft.cli import main
from weft.frontends.keras import Session
from weft.frontends.source import read

pytestmark = needed
NAMES = ("ad", "ic", "vww")


@pytest.mark.parametrize("name", NAMES)
def test_graphs_have_no_transposes_and_names_of_layers(name):
    graph = read(FOLDER / f"{name}.h5", {}, {})
    assert not [node for node in graph.nodes if node.op == "Transpose"]
    assert graph.inputs == ("input_1",)
    assert graph.outputs == ("dense_9" if name == "ad" else "dense",)
    assert all(node.origin.sources for node in graph.nodes)


@needs_keras
@pytest.mark.parametrize("name", NAMES)
def test_every_layer_agrees_with_keras(name):
    path = FOLDER / f"{name}.h5"
    layers = compared(path, read(path, {}, {}))
    assert len(layers) > 25
    assert max(layers.values()) < 1e-5, layers


@needs_keras
@pytest.mark.parametrize("name", a_few(NAMES, 1))
def test_compiled_code_agrees_with_keras_call_after_call(name):
    path = FOLDER / f"{name}.h5"
    net, session = weft.load(path), Session(path)
    run = net.compile()
    for seed in range(3):
        given = random_inputs(net.graph, seed)
        expected = session(given)[net.graph.outputs[0]]
        assert difference(np.asarray(run(given["input_1"])), expected) < 1e-5


def test_compiled_outputs_are_those_of_litert():
    # The published ad.h5 and ad.tflite were trained apart.
    x, y = golden("ic")
    run = weft.load(FOLDER / "ic.h5").compile()
    for given, expected in zip(x, y, strict=True):
        assert difference(np.asarray(run(given)), expected) < 1e-5


@needs_keras
def test_verify_tells_of_every_layer():
    arguments = ["verify", str(FOLDER / "ad.h5"), "--runs", "2", "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["against"] == "Keras"
    assert {each["value"] for each in told["layers"]} >= {"dense", "activation_3", "dense_9"}
    assert told["passed"]
