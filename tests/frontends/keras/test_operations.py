"""Functions of ``keras.ops`` between layers, each against Keras."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.keras.against import compared, needs_keras, random_inputs
from tests.frontends.keras.operation_cases import CASES, INPUTS
from tests.frontends.keras.test_layers import saved
from weft.errors import UserError
from weft.frontends.keras import load
from weft.frontends.keras.record import OPERATIONS
from weft.frontends.keras.session import import_keras

pytestmark = needs_keras


def model_of(call):
    """A model that calls functions on the inputs that it reads."""
    keras = import_keras()
    keras.utils.clear_session()
    inputs = {
        name: keras.Input(batch_shape=shape, dtype=dtype, name=name)
        for name, (shape, dtype) in INPUTS.items()
    }
    read: dict[str, object] = {}

    class Reading:
        def __getattr__(self, name):
            return read.setdefault(name, inputs[name])

    outputs = call(keras.ops, Reading())
    return keras.Model(list(read.values()), outputs)


def given(graph):
    """Random inputs, and one with what is special about floating-point numbers."""
    found = random_inputs(graph)
    if "odd" in found:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 0.25]
        found["odd"] = np.resize(np.asarray(special, np.float32), found["odd"].shape)
    return found


@pytest.mark.parametrize("name", CASES)
def test_operation_agrees_with_keras(name, tmp_path):
    model = model_of(CASES[name])
    graph = load(saved(model, tmp_path, ".keras"))
    with np.errstate(all="ignore"):
        worst = compared(model, graph, given(graph))
    worst = {key: worst[key] for key in graph.outputs}
    assert all(away <= 1e-5 for away in worst.values()), worst


def test_every_operation_has_a_case():
    rows = {name for name in OPERATIONS if not name.startswith("tf.")}
    assert sorted(rows - set(CASES)) == []
    assert sorted(set(CASES) - rows) == []


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda ops, i: ops.image.resize(i.image, (3, 3), "lanczos3"), "lanczos3"),
        (lambda ops, i: ops.slice(i.x, i.n[0, :3], (1, 1, 1)), "where it starts must be known"),
        (lambda ops, i: ops.nn.space_to_depth(i.first[:, :, :6, :8], 2, "channels_first"),
         "differently"),
        (lambda ops, i: ops.svd(i.matrix)[1], "SVD is not supported"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_said(call, reason, tmp_path):
    path = saved(model_of(call), tmp_path, ".keras")
    with pytest.raises(UserError, match=reason):
        load(path)
