"""Every layer of Keras is imported and tested, or has a reason why not."""

from __future__ import annotations

import inspect

import weft.frontends.keras.rows  # noqa: F401
from tests.frontends.keras.against import needs_keras
from tests.frontends.keras.cases import CASES
from weft.frontends.keras.record import LAYERS
from weft.frontends.keras.session import import_keras
from weft.frontends.keras.unsupported import REASONS

_BASES = {"Layer", "InputSpec", "InputLayer"}
_CELLS = {"GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"}


@needs_keras
def test_every_layer_of_keras_is_known():
    layers = import_keras().layers
    names = {name for name in dir(layers) if inspect.isclass(getattr(layers, name))}
    assert names - set(LAYERS) - set(REASONS) - _BASES - _CELLS == set()


def test_no_layer_is_both():
    assert set(LAYERS) & set(REASONS) == set()


def test_every_row_has_a_case():
    tested = {id(LAYERS[case.layer]) for case in CASES}
    without = {name for name, row in LAYERS.items() if id(row) not in tested}
    # Of Keras 2, whose models `test_legacy` and `test_models` write; and of `test_lookup`.
    others = {"SlicingOpLambda", "TFOpLambda", "ThresholdedReLU"}
    others |= {"LocallyConnected1D", "LocallyConnected2D"}
    assert without == {*others, "IntegerLookup"}
