"""The networks of ``bench.small_nets`` as LiteRT files: LiteRT computes what Weft does."""

from __future__ import annotations

import numpy as np
import pytest

from bench.small_nets import NETS, build

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="LiteRT is missing")
small_litert = pytest.importorskip("bench.small_litert", reason="LiteRT is missing")


@pytest.mark.parametrize("name", NETS)
def test_litert_computes_the_same(name: str) -> None:
    net = build(NETS[name], last=True)
    shape = [int(str(size)) for size in net.inputs["x"].shape]
    x = np.random.default_rng(2).normal(0, 1, shape).astype(np.float32)
    (wanted,) = net.reference(x)
    found = litert.Interpreter(model_content=small_litert.content(net), num_threads=1)
    found.allocate_tensors()
    found.set_tensor(found.get_input_details()[0]["index"], x)
    found.invoke()
    made = found.get_tensor(found.get_output_details()[0]["index"])
    assert made.shape == wanted.shape
    np.testing.assert_allclose(made, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
