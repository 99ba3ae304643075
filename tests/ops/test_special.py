"""Functions that ONNX lacks through compiled C: every pair of special values, as NumPy has it."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from tests.ops.samples import Sample
from tests.ops.samples_special import EDGES, LEFT, ONE, RIGHT, TWO
from weft.ops.functions import function_of
from weft.ops.table import OPS

# The C library and NumPy may round the last bit otherwise.
CLOSE = {"f32": 8 * 2.0**-23, "f64": 8 * 2.0**-52}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("flavour", ["", "c99", "c89"])
def test_special_values_and_signs_of_zero(flavour: str, kind: str) -> None:
    dtype = {"f32": np.float32, "f64": np.float64}[kind]
    arrays = [each.astype(dtype) for each in (np.array(EDGES), LEFT, RIGHT)]
    ports = [weft.input(f"x{n}", f"{kind}[{each.size}]") for n, each in enumerate(arrays)]
    used = {name: slice(1) if name in ONE else slice(1, 3) for name in (*ONE, *TWO)}
    outputs = [function_of(OPS[name])(*ports[part]).named(name) for name, part in used.items()]
    net = weft.net(ports, outputs).compile(threads=1, flavour=flavour)
    with np.errstate(all="ignore"):
        for (name, part), got in zip(used.items(), net(*arrays), strict=True):
            (want,) = OPS[name].reference(Sample(name, tuple(arrays[part])).call, *arrays[part])
            np.testing.assert_allclose(got, want, rtol=CLOSE[kind], atol=1e-44, err_msg=name)
            zeros = want == 0
            np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]), name)
