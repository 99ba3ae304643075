"""Small files that ask for very much: refused, or compiled without making it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.frontends.models import model, node
from tests.fuzz.survive import survive

B = 10**9
F = np.float32
MEMORY = 200 << 20

CASES: dict[str, onnx.ModelProto] = {
    "conv pads": model(
        [node("Conv", "x w", "y", pads=[B, B, B, B])],
        {"x": [1, 1, 4, 4]},
        constants={"w": np.ones((1, 1, 3, 3), F)},
    ),
    "conv pads 30000": model(
        [node("Conv", "x w", "y", pads=[30000] * 4)],
        {"x": [1, 1, 4, 4]},
        constants={"w": np.ones((1, 1, 3, 3), F)},
    ),
    "conv 1d long pads": model(
        [node("Conv", "x w", "y", pads=[10**8] * 2)],
        {"x": [1, 1, 4]},
        constants={"w": np.ones((1, 1, 3), F)},
    ),
    "pool long": model(
        [node("AveragePool", "x", "y", kernel_shape=[3], pads=[1, 1])], {"x": [1, 1, 10**9]}
    ),
    "pool kernel": model(
        [node("MaxPool", "x", "y", kernel_shape=[10**6], pads=[999999, 999999])], {"x": [1, 1, 100]}
    ),
    "relu big": model([node("Relu", "x", "y")], {"x": [1 << 33]}),
    "softmax big": model([node("Softmax", "x", "y")], {"x": [1 << 20, 1 << 12]}),
    "resize cubic": model(
        [node("Resize", "x - s", "y", mode="cubic")],
        {"x": [1, 1, 4]},
        constants={"s": np.array([1, 1, 1e7], F)},
    ),
    "tile": model([node("Tile", "x s", "y")], {"x": [4]}, constants={"s": [10**9]}),
    "range": model(
        [node("Range", "a b c", "r"), node("Add", "r x", "y")],
        {"x": [1]},
        constants={"a": F(0), "b": F(1e9), "c": F(1)},
    ),
    "pad": model([node("Pad", "x p", "y")], {"x": [4, 4]}, constants={"p": [30000] * 4}),
    "wide": model(
        [node("Add", "x x", f"t{i}") for i in range(3000)]
        + [node("Sum", " ".join(f"t{i}" for i in range(3000)), "y")],
        {"x": [3]},
    ),
    "doubling": model(
        [node("Concat", f"t{i} t{i}", f"t{i + 1}", axis=0) for i in range(30)], {"t0": [3]}, ["t30"]
    ),
    "const doubling": model(
        [node("Concat", f"t{i} t{i}", f"t{i + 1}", axis=0) for i in range(30)]
        + [node("Add", "x t30", "y")],
        {"x": [1]},
        constants={"t0": np.ones(3, F)},
    ),
    "gather": model(
        [node("Gather", "w i", "y", axis=0)],
        {"x": [1]},
        constants={"w": np.ones((2, 10**5), F), "i": np.zeros(10**4, np.int64)},
    ),
    "expand const": model(
        [node("ConstantOfShape", "s", "c"), node("Add", "c x", "y")],
        {"x": [1]},
        constants={"s": [10**9]},
    ),
    "matmul": model([node("MatMul", "x z", "y")], {"x": [10**5, 1], "z": [1, 10**5]}),
    "onehot": model(
        [node("OneHot", "x d v", "y")],
        {"x": [4]},
        types={"x": 7},
        constants={"d": 10**9, "v": np.array([0, 1], F)},
    ),
    "einsum": model([node("Einsum", "x x x", "y", equation="ab,cd,ef->abcdef")], {"x": [100, 100]}),
    "cumsum": model([node("CumSum", "x a", "y")], {"x": [10**7]}, constants={"a": 0}),
    "topk": model([node("TopK", "x k", "y i")], {"x": [10**7]}, constants={"k": [10**6]}),
    "dft": model([node("DFT", "x", "y", axis=1)], {"x": [1, 10**5, 1]}, opset=17),
    "stft": model(
        [node("STFT", "x s w", "y")],
        {"x": [1, 10**6, 1]},
        constants={"s": 1, "w": np.ones(2048, F)},
    ),
    "lstm": model(
        [node("LSTM", "x w r", "y", hidden_size=4)],
        {"x": [10**6, 1, 3]},
        constants={"w": np.ones((1, 16, 3), F), "r": np.ones((1, 16, 4), F)},
    ),
    "bigrank": model([node("Reshape", "x s", "y")], {"x": [1]}, constants={"s": [1] * 40}),
    "rank30": model(
        [node("Reshape", "x s", "t"), node("Relu", "t", "y")], {"x": [1]}, constants={"s": [1] * 30}
    ),
    "transpose30": model(
        [node("Reshape", "x s", "t"), node("Transpose", "t", "y")],
        {"x": [2**20]},
        constants={"s": [2] * 20 + [1] * 10},
    ),
    "hann": model([node("HannWindow", "s", "y")], {"x": [1]}, constants={"s": 10**9}),
    "melw": model(
        [node("MelWeightMatrix", "a b c d e", "y")],
        {"x": [1]},
        constants={"a": 10**5, "b": 10**5, "c": 8000, "d": F(0), "e": F(4000)},
    ),
    "eye": model([node("EyeLike", "x", "y")], {"x": [10**5, 10**5]}),
    "nonzero": model([node("NonZero", "x", "y")], {"x": [10**5]}),
    "depthtospace": model([node("DepthToSpace", "x", "y", blocksize=2**20)], {"x": [1, 4, 4, 4]}),
    "reducelarge": model([node("ReduceSum", "x", "y", keepdims=0)], {"x": [1000, 1000, 1000]}),
    "grid": model(
        [node("AffineGrid", "x s", "y")],
        {"x": [1, 2, 3]},
        constants={"s": [1, 1, 30000, 30000]},
        opset=20,
    ),
    "trilu": model([node("Trilu", "x k", "y")], {"x": [4, 4]}, constants={"k": 2**62}),
    "slice": model(
        [node("Slice", "x a b", "y")], {"x": [4, 4]}, constants={"a": [-(2**63)], "b": [2**63 - 1]}
    ),
    "col2im": model(
        [node("Col2Im", "x a b", "y")],
        {"x": [1, 4, 4]},
        constants={"a": [10**5, 10**5], "b": [2, 2]},
    ),
}


LONG = {"wide"}
"""What takes as long as all others together: of ``make test-all`` only."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.thorough if n in LONG else ()) for n in CASES]
)
def test_asks_for_much(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(CASES[name].SerializeToString())
    tracemalloc.start()
    try:
        outcome = survive(path, deep=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome in ("refused", "refused later", "generated")
    assert peak < MEMORY
