"""Older operator sets: what their ops meant is held against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.frontends.models import model, node
from weft.frontends.onnx import import_model
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS


@dataclass(frozen=True)
class Old:
    """One op as an older operator set has it."""

    op: str
    opset: int
    inputs: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[int, Any] = field(default_factory=dict)
    outputs: int = 1
    absent: tuple[int, ...] = ()

    def __str__(self) -> str:
        told = "-".join(f"{key}={value}" for key, value in self.attributes.items())
        return f"{self.op}-{self.opset}-{told}".replace(" ", "")

    def model(self) -> onnx.ModelProto:
        names = [f"x{place}" for place in range(len(self.inputs))]
        count = len(self.inputs) + len(self.constants) + len(self.absent)
        free = iter(names)
        order = [
            f"k{place}" if place in self.constants else "-" if place in self.absent else next(free)
            for place in range(count)
        ]
        outputs = [f"y{place}" for place in range(self.outputs)]
        return model(
            [node(self.op, " ".join(order), " ".join(outputs), "node", **self.attributes)],
            dict(zip(names, self.inputs, strict=True)),
            outputs,
            constants={f"k{place}": value for place, value in self.constants.items()},
            opset=self.opset,
        )


X = (2, 3, 4, 5)
CASES = [
    Old("Softmax", 7, (X,)),
    Old("Softmax", 11, (X,), {"axis": 2}),
    Old("Softmax", 11, (X,), {"axis": 0}),
    Old("Softmax", 11, (X,), {"axis": -1}),
    Old("Softmax", 13, (X,), {"axis": 1}),
    Old("LogSoftmax", 9, (X,), {"axis": 1}),
    Old("Hardmax", 11, (X,), {"axis": 2}),
    Old("Clip", 7, (X,), {"min": -0.25}),
    Old("Clip", 10, (X,), {"min": -0.25, "max": 0.5}),
    Old("Clip", 11, (X, ()), {}, {2: np.float32(0.5)}),
    Old("Clip", 13, (X,), {}, {2: np.float32(0.5)}, absent=(1,)),
    Old("Slice", 7, (X,), {"starts": [1, -3], "ends": [99, -1], "axes": [1, 3]}),
    Old("Slice", 9, (X,), {"starts": [0, 1], "ends": [1, 3]}),
    Old("Slice", 10, (X,), {}, {1: [1], 2: [-1], 3: [2]}),
    Old("Pad", 7, (X,), {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "value": 1.5}),
    Old("Pad", 10, (X,), {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "mode": "reflect"}),
    Old("Pad", 11, (X,), {}, {1: [0, 0, 1, 2, 0, 0, 3, 0], 2: np.float32(2)}),
    Old("Pad", 18, (X,), {}, {1: [1, 2, 0, 3], 2: np.float32(2), 3: [-1, 1]}),
    Old("Squeeze", 7, ((2, 1, 3, 1),), {"axes": [1, 3]}),
    Old("Squeeze", 11, ((2, 1, 3, 1),), {"axes": [-1]}),
    Old("Squeeze", 13, ((2, 1, 3, 1),)),
    Old("Unsqueeze", 7, ((2, 3),), {"axes": [0, 3]}),
    Old("Unsqueeze", 13, ((2, 3),), {}, {1: [-1]}),
    Old("Split", 7, (X,), {"axis": 3, "split": [2, 3]}, outputs=2),
    Old("Split", 11, (X,), {"axis": 2}, outputs=2),
    Old("Split", 13, (X,), {"axis": 3}, {1: [1, 4]}, outputs=2),
    Old("Split", 18, (X,), {"axis": 3, "num_outputs": 2}, outputs=2),
    *(
        Old(f"Reduce{kind}", opset, (X,), {"axes": [1, -1], "keepdims": 0})
        for kind in ("Mean", "Max", "L2", "LogSumExp")
        for opset in (11, 13)
    ),
    Old("ReduceSum", 11, (X,), {"axes": [2]}),
    Old("ReduceSum", 13, (X,), {"noop_with_empty_axes": 1}),
    Old("ReduceSum", 13, (X,), {}, {1: np.zeros(0, np.int64)}),
    Old("ReduceMax", 18, (X,), {"keepdims": 0}, {1: [0, 2]}),
    Old("Dropout", 7, (X,), {"ratio": 0.25}),
    Old("Dropout", 10, (X,), {"ratio": 0.25}),
    Old("Dropout", 13, (X,), {}, {1: np.float32(0.5), 2: False}),
    Old("BatchNormalization", 7, (X, (3,), (3,), (3,)), {"epsilon": 0.1}, {4: np.ones(3, "f")}),
    Old("BatchNormalization", 9, (X, (3,), (3,), (3,)), {}, {4: np.ones(3, "f")}),
    Old("BatchNormalization", 14, (X, (3,), (3,), (3,)), {}, {4: np.ones(3, "f")}),
    Old("Upsample", 7, (X,), {"scales": [1.0, 1.0, 2.0, 3.0]}),
    Old("Upsample", 7, (X,), {"scales": [1.0, 1.0, 2.0, 1.5], "mode": "linear"}),
    Old("Upsample", 9, (X,), {"mode": "linear"}, {1: np.array([1, 1, 2, 2], "f")}),
    Old("Resize", 10, (X,), {"mode": "linear"}, {1: np.array([1, 1, 1.5, 0.6], "f")}),
    Old("Resize", 10, (X,), {}, {1: np.array([1, 1, 1.5, 0.6], "f")}),
    Old(
        "Resize",
        11,
        (X,),
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel"},
        {1: np.zeros(0, "f"), 2: np.zeros(0, "f"), 3: [2, 3, 7, 3]},
    ),
    Old("Resize", 13, (X,), {"mode": "cubic"}, {2: np.array([1, 1, 2, 2], "f")}, absent=(1,)),
    Old("Resize", 18, (X,), {"axes": [2, 3]}, {3: [8, 10]}, absent=(1, 2)),
    Old("TopK", 7, ((3, 6),), {"k": 2}, outputs=2),
    Old("TopK", 10, ((3, 6),), {"axis": 0}, {1: [2]}, outputs=2),
    Old("TopK", 11, ((3, 6),), {"largest": 0}, {1: [3]}, outputs=2),
    Old("Cast", 7, (X,), {"to": onnx.TensorProto.INT32}),
    Old("Scatter", 9, ((3, 3), (2, 3)), {}, {1: [[1, 0, 2], [0, 2, 1]]}),
    Old("Gemm", 7, ((3, 4), (4, 5), (5,)), {"alpha": 0.5, "beta": 2.0}),
    Old("Gemm", 9, ((4, 3), (5, 4), (3, 5)), {"transA": 1, "transB": 1}),
    Old("Gemm", 13, ((3, 4), (4, 5))),
    Old("Reshape", 7, (X,), {}, {1: [0, -1, 5]}),
    Old("Reshape", 14, (X,), {"allowzero": 1}, {1: [6, 20]}),
    Old("Flatten", 7, (X,), {"axis": 2}),
    Old("Flatten", 11, (X,), {"axis": -1}),
    Old("PRelu", 7, (X, (3, 1, 1))),
    Old("Add", 7, (X, (4, 5))),
    Old("Sum", 8, (X, (5,), (3, 1, 1))),
    Old("OneHot", 9, (), {"axis": 0}, {0: [1, 3], 1: 4, 2: np.array([0, 1], "f")}),
    Old("ArgMax", 7, (X,), {"axis": 1, "keepdims": 0}),
    Old("ArgMax", 12, (X,), {"axis": -1, "select_last_index": 1}),
    Old("MaxPool", 8, (X,), {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Old("MaxPool", 12, (X,), {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    Old("MaxPool", 12, (X,), {"kernel_shape": [3, 3], "auto_pad": "VALID", "ceil_mode": 0}),
    Old("MaxPool", 12, (X,), {"kernel_shape": [3, 2], "ceil_mode": 1, "strides": [2, 2]}),
    Old("AveragePool", 7, (X,), {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
    Old("AveragePool", 11, (X,), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    Old("LpPool", 11, (X,), {"kernel_shape": [2, 2], "p": 1}),
    Old("Conv", 7, (X, (6, 3, 3, 3)), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Old("Conv", 11, (X, (6, 3, 2, 2)), {"auto_pad": "SAME_LOWER"}),
    Old("Conv", 11, (X, (6, 3, 2, 2), (6,)), {"dilations": [1, 2], "pads": [0, 1, 2, 0]}),
    Old("ConvTranspose", 7, (X, (3, 2, 3, 3)), {"strides": [2, 2], "output_shape": [9, 10]}),
    Old("ConvTranspose", 11, (X, (3, 2, 3, 3)), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    Old("ConvTranspose", 11, (X, (3, 2, 3, 3)), {"strides": [2, 2], "output_padding": [1, 0]}),
    Old("InstanceNormalization", 6, (X, (3,), (3,))),
    Old("GroupNormalization", 18, ((2, 4, 5), (2,), (2,)), {"num_groups": 2}),
    Old("LayerNormalization", 17, (X, (4, 5), (4, 5)), {"axis": 2}),
    Old("Concat", 7, (X, X), {"axis": 1}),
    Old("Tile", 7, ((2, 3),), {}, {1: [2, 1]}),
    Old("ConstantOfShape", 9, (), {}, {0: [2, 3]}),
    Old("LRN", 7, (X,), {"size": 3}),
    Old("Pow", 7, (X, ()), {}, {}),
    Old("GatherND", 11, (X,), {}, {1: [[1, 2], [0, 0]]}),
    Old("CumSum", 11, (X,), {"reverse": 1}, {1: 2}),
    Old("LSTM", 7, ((5, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32)), {"hidden_size": 4}, outputs=3),
    Old("GRU", 7, ((5, 2, 3), (1, 12, 3), (1, 12, 4)), {"hidden_size": 4}, outputs=2),
    Old(
        "RNN",
        7,
        ((5, 2, 3), (2, 4, 3), (2, 4, 4)),
        {"hidden_size": 4, "direction": "bidirectional"},
        outputs=2,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_as_onnxruntime_does(case: Old) -> None:
    source = case.model()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        source.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    rng = np.random.default_rng(3)
    inputs = {
        each.name: np.asarray(rng.uniform(0.1, 1, each.shape), np.float32)
        if case.op == "Pow"
        else np.asarray(rng.standard_normal(each.shape) / 2, np.float32)
        for each in session.get_inputs()
    }
    wanted = session.run(None, inputs)
    graph = import_model(source)
    verify(graph)
    found = evaluate(graph, inputs, OPS)
    for name, want in zip(graph.outputs, wanted, strict=True):
        assert found[name].dtype == want.dtype
        assert found[name].shape == want.shape
        np.testing.assert_allclose(found[name], want, rtol=1e-4, atol=1e-5)


def test_broadcasting_by_axis() -> None:
    """Before opset 7; onnxruntime does not know it."""
    source = model(
        [node("Add", "x w", "y", broadcast=1, axis=1)],
        {"x": [2, 3, 4]},
        constants={"w": np.array([1, 2, 3], np.float32)},
        opset=6,
    )
    graph = import_model(source)
    x = np.zeros((2, 3, 4), np.float32)
    np.testing.assert_array_equal(evaluate(graph, {"x": x}, OPS)["y"][1, :, 0], [1, 2, 3])
