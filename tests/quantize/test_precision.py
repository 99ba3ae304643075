"""Mixed precision: as few layers as needed get more bits."""

from __future__ import annotations

import pytest

from weft.errors import UserError
from weft.quantize.precision import choose_precision

ORDER = ["c", "a", "d", "b"]
COST = {"a": 0.02, "b": 0.001, "c": 0.05, "d": 0.01}


def accuracy(bits):
    """Each layer costs what it costs at 4 bits, a tenth of it at 8, nothing in float."""
    share = {4: 1.0, 8: 0.1, None: 0.0}
    return 0.9 - sum(COST[name] * share[count] for name, count in bits.items())


def chosen(start, drop):
    return choose_precision(ORDER, dict.fromkeys("abcd", start), accuracy, 0.9, drop)


def test_nothing_changes_where_accuracy_is_high_enough():
    found = chosen(4, 0.1)
    assert set(found.bits.values()) == {4}
    assert found.tried == 1


def test_the_worst_layers_get_8_bits():
    found = chosen(4, 0.04)
    assert found.bits == {"a": 4, "b": 4, "c": 8, "d": 4}
    assert found.accuracy == accuracy(found.bits)


def test_then_layers_stay_in_floating_point():
    found = chosen(4, 0.0035)
    assert found.bits == {"a": 8, "b": 8, "c": None, "d": 8}
    found = chosen(8, 0.0012)
    assert found.bits == {"a": None, "b": 8, "c": None, "d": 8}


def test_no_loss_at_all():
    assert set(chosen(8, 0.0).bits.values()) == {None}


def test_a_metric_that_contradicts_itself_is_refused():
    with pytest.raises(UserError) as found:
        choose_precision(ORDER, dict.fromkeys("abcd", 8), lambda bits: 0.5, 0.9, 0.01)
    assert str(found.value) == (
        "accuracy must not drop by more than max_drop; got 0.5 with all layers in floating point, "
        "0.9 before. The metric must give the same for the same outputs."
    )
