"""Every supported layer against Keras: both file formats, by the references and compiled."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.frontends.keras.against import compared, difference, needs_keras, random_inputs
from tests.frontends.keras.cases import CASES, FAMILIES, Case
from weft.errors import UserError
from weft.frontends.keras import Session, load
from weft.frontends.keras.session import import_keras
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

pytestmark = needs_keras
BATCH = 2
FIRSTS = list({case.layer: case for case in reversed(CASES)}.values())
QUICK = ("Merging", "Reshaping")
"""Families whose layers `make test` compiles, too."""


def randomized(model, seed: int = 0):
    """The model with weights that are neither 0 nor 1, variances above 0."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        if "seed" in weight.path or "count" in weight.path or "int" in str(weight.dtype):
            continue
        array = random.standard_normal(weight.shape) * 0.4
        weight.assign(np.abs(array) + 0.5 if "variance" in weight.path else array)
    return model


def model_of(case: Case):
    """The Keras model of a case."""
    with warnings.catch_warnings():
        # Of Keras and its backend among themselves.
        warnings.simplefilter("ignore")
        return _model_of(case)


def _model_of(case: Case):
    keras = import_keras()
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    config = case.config(keras) if callable(case.config) else case.config
    # Layers of architectures are in modules of their own.
    home = import_module(
        "keras.src.applications.convnext" if case.layer == "LayerScale" else "keras.layers"
    )
    layer = getattr(home, case.layer)(**config)
    dtypes = case.dtypes or ("float32",) * len(case.shapes)
    inputs = [
        keras.Input(shape, dtype=dtype, name=f"x{at}")
        for at, (shape, dtype) in enumerate(zip(case.shapes, dtypes, strict=True))
    ]
    if case.build is not None:
        outputs = case.build(keras, layer, *inputs)
    else:
        # Arguments that are tensors are given as positions among the inputs.
        tensors = {
            name: inputs[at]
            for name, at in case.call.items()
            if isinstance(at, int) and not isinstance(at, bool)
        }
        given = [each for each in inputs if all(each is not other for other in tensors.values())]
        call = {**case.call, **tensors}
        outputs = layer(given, **call) if case.listed else layer(*given, **call)
    return randomized(keras.Model(inputs, outputs))


def saved(model, folder: Path, suffix: str) -> Path:
    """The model in a file."""
    path = folder / f"net{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(path)
    return path


@pytest.mark.parametrize(
    "case",
    [pytest.param(each, marks=() if each in FIRSTS else pytest.mark.thorough) for each in CASES],
    ids=str,
)
def test_layer_agrees_with_keras(case, tmp_path):
    model = model_of(case)
    graph = load(saved(model, tmp_path, ".keras"), {"batch": [BATCH]})
    worst = compared(model, graph)
    if case.outputs:
        worst = {name: worst[name] for name in graph.outputs}
    assert all(away <= case.tolerance for away in worst.values()), worst
    if case in FIRSTS:
        assert load(saved(model, tmp_path, ".h5"), {"batch": [BATCH]}) == graph


@pytest.mark.parametrize(
    "family",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.thorough) for each in FAMILIES],
)
def test_compiled_layers_agree_with_their_references(family, tmp_path):
    firsts = {case.layer: case for case in reversed(FAMILIES[family])}
    nets = {}
    for name, case in firsts.items():
        nets[name] = weft.load(saved(model_of(case), tmp_path, ".keras"), {"batch": BATCH})
    net = weft.merge(nets, {})
    inputs = random_inputs(net.graph)
    expected = evaluate(net.graph, inputs, OPS)
    made = net.compile()(*inputs.values())
    for name, got in zip(net.graph.outputs, made, strict=True):
        assert difference(np.asarray(got), expected[name]) < 1e-4, name


def test_stateful_layers_hand_their_states_from_run_to_run(tmp_path):
    keras = import_keras()
    x = keras.Input(batch_shape=(1, 4, 3), name="x")
    y = keras.layers.LSTM(5, stateful=True, name="lstm")(x)
    model = randomized(keras.Model(x, keras.layers.Dense(2, name="y")(y)))
    net = weft.load(saved(model, tmp_path, ".keras"))
    assert dict(net.states) == {
        "lstm.state0": "lstm.state0.next",
        "lstm.state1": "lstm.state1.next",
    }
    run = net.compile()
    for seed in range(3):
        steps = np.random.default_rng(seed).standard_normal((1, 4, 3)).astype(np.float32)
        assert difference(np.asarray(run(steps)), Session(model)({"x": steps})["y"]) < 1e-5


@pytest.mark.parametrize("masked", [False, True])
def test_calls_of_a_stateful_layer_go_on_from_each_other(masked, tmp_path):
    keras = import_keras()
    x = keras.Input(batch_shape=(1, 4, 3), name="x")
    layer = keras.layers.GRU(3, stateful=True, return_sequences=True, name="gru")
    both = keras.layers.Bidirectional(
        keras.layers.LSTM(3, stateful=True, return_sequences=True), merge_mode="sum", name="both"
    )
    steps = keras.layers.Masking()(x) if masked else x
    model = randomized(keras.Model(x, both(both(layer(layer(steps))))))
    net = weft.load(saved(model, tmp_path, ".keras"))
    assert len(net.states) == 5
    run, session = net.compile(), Session(model)
    for seed in range(3):
        given = np.random.default_rng(seed).standard_normal((1, 4, 3)).astype(np.float32)
        given[:, 2] = 0
        (wanted,) = [each for name, each in session({"x": given}).items() if name == "both:1"]
        assert difference(np.asarray(run(given)), wanted) < 1e-5


def test_calls_of_a_stateful_layer_in_no_order_are_refused(tmp_path):
    keras = import_keras()
    layer = keras.layers.GRU(3, stateful=True, name="gru")
    ports = [keras.Input(batch_shape=(1, 4, 3), name=name) for name in "xy"]
    model = keras.Model(ports, [layer(each) for each in ports])
    with pytest.raises(UserError, match="a call of it does not depend on the one before"):
        weft.load(saved(model, tmp_path, ".keras"))
