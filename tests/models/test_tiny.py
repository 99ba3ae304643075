"""The MLPerf Tiny models through compiled C, against their golden data and onnxruntime."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnxruntime
import pytest

import weft
from tests.exact_sessions import exact_options
from tests.models import tiny
from tests.turns import a_few
from weft.api import CompiledNet
from weft.runtime.compare import compare

pytestmark = tiny.needed

# The golden data of kws_float were made from a file with int8 weights.
WITH_GOLDEN = tuple(name for name in tiny.NAMES if name != "kws")

# In least significant bits. What onnxruntime computes in float between the quantizers may round to
# the other side; ic's softmax makes several bits of one. TFLite has integer arithmetic throughout:
# onnxruntime is as far from it.
FROM_ONNXRUNTIME = {"ad": 1, "ic": 8, "kws": 1, "vww": 1}
FROM_TFLITE = {"ad": 3, "ic": 8, "kws": 5, "vww": 1}
# vww has the layers of kws, more of them.
INT8 = [
    pytest.param(name, marks=pytest.mark.thorough if name == "vww" else ()) for name in tiny.NAMES
]


@cache
def compiled(name: str, kind: str) -> CompiledNet:
    return weft.load(tiny.model(name, kind)).compile()


def found(name: str, kind: str) -> np.ndarray:
    run = compiled(name, kind)
    return np.stack([run(x) for x in tiny.golden(name, kind)[0]])


def by_onnxruntime(name: str, kind: str) -> np.ndarray:
    options = exact_options()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        tiny.model(name, kind), options, providers=["CPUExecutionProvider"]
    )
    port = session.get_inputs()[0].name
    return np.stack(
        [np.asarray(session.run(None, {port: x})[0]) for x in tiny.golden(name, kind)[0]]
    )


@pytest.mark.parametrize("name", a_few(WITH_GOLDEN, 1))
def test_float_models_give_their_golden_data(name: str) -> None:
    expected = tiny.golden(name)[1]
    assert compare(name, found(name, "float"), expected).relative <= 1e-5


@pytest.mark.parametrize("name", tiny.NAMES)
def test_float_models_agree_with_onnxruntime(name: str) -> None:
    expected = by_onnxruntime(name, "float")
    assert compare(name, found(name, "float"), expected).relative <= 1e-5


@pytest.mark.parametrize("name", INT8)
def test_int8_models_agree_with_onnxruntime(name: str) -> None:
    expected = by_onnxruntime(name, "int8")
    assert compare(name, found(name, "int8"), expected).largest <= FROM_ONNXRUNTIME[name]


@pytest.mark.parametrize("name", INT8)
def test_int8_models_agree_with_tflite(name: str) -> None:
    expected = tiny.golden(name, "int8")[1]
    assert compare(name, found(name, "int8"), expected).largest <= FROM_TFLITE[name]


@pytest.mark.parametrize("name", tiny.NAMES)
def test_arenas_are_near_the_lower_bound(name: str) -> None:
    plan = weft.load(tiny.model(name)).plan()
    assert plan.lower_bound <= plan.arena_bytes <= 1.05 * plan.lower_bound
