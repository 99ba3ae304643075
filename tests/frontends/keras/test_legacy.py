"""Models of Keras 2: functions of TensorFlow, sizes, and layers that Keras 3 does not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import weft
import weft.frontends.keras.rows
from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.keras.legacy import KNOWN
from weft.frontends.keras.legacy_functions import FUNCTIONS

ROW, IMAGE = (4, 6), (4, 6, 3)


def of_keras_2(folder, shape, lambdas, outputs, weights=None):
    """A file of Keras 2 whose layers are functions of TensorFlow, or others with weights."""
    h5py = pytest.importorskip("h5py")
    layers = [
        {
            "class_name": "InputLayer",
            "name": "x",
            "config": {"batch_input_shape": [None, *shape], "dtype": "float32", "name": "x"},
            "inbound_nodes": [],
        },
        *(
            {
                "class_name": kind,
                "name": name,
                "config": {"name": name, "trainable": True, **settings(function)},
                "inbound_nodes": [node] if kind == "TFOpLambda" else [[node]],
            }
            for kind, name, function, node in lambdas
        ),
    ]
    config = {
        "name": "net",
        "layers": layers,
        "input_layers": [["x", 0, 0]],
        "output_layers": [[name, 0, 0] for name in outputs],
    }
    path = folder / "net.h5"
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = "2.11.0"
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": config})
        group = file.create_group("model_weights")
        for name, arrays in (weights or {}).items():
            inner = group.create_group(name)
            inner.attrs["weight_names"] = [f"{name}/{each}:0".encode() for each in arrays]
            for each, array in arrays.items():
                inner.create_dataset(f"{name}/{each}:0", data=array)
    return path


def test_functions_of_tensorflow_in_models_of_keras_2(tmp_path):
    lambdas = [
        ("TFOpLambda", "a", "math.multiply", ["x", 0, 0, {"y": 2.0, "name": None}]),
        ("TFOpLambda", "b", "__operators__.add", ["a", 0, 0, {"y": ["x", 0, 0], "name": None}]),
        ("TFOpLambda", "c", "nn.relu", ["b", 0, 0, {"name": None}]),
        ("TFOpLambda", "d", "math.reduce_mean", ["c", 0, 0, {"axis": 1, "keepdims": True}]),
        (
            "SlicingOpLambda",
            "e",
            "__operators__.getitem",
            ["c", 0, 0, {"slice_spec": [{"start": None, "stop": None, "step": None}, 1]}],
        ),
        ("TFOpLambda", "f", "math.l2_normalize", ["c", 0, 0, {"axis": -1}]),
    ]
    path = of_keras_2(tmp_path, [3], lambdas, ["d", "e", "f"])
    x = np.array([[-2.0, 1.0, 3.0]], np.float32)
    mean, second, unit = weft.load(path).reference(x)
    relu = np.maximum(3 * x, 0)
    np.testing.assert_allclose(mean, relu.mean(1, keepdims=True))
    np.testing.assert_allclose(second, relu[:, 1])
    np.testing.assert_allclose(unit, relu / np.sqrt((relu**2).sum()), rtol=1e-6)
    # TensorFlow divides by 1e-6 at least.
    np.testing.assert_allclose(weft.load(path).reference(x * 1e-8)[2], relu * 1e-2, rtol=1e-6)


def test_blocks_of_tensorflow_in_models_of_keras_2(tmp_path):
    lambdas = [
        ("TFOpLambda", "deep", "nn.space_to_depth", ["x", 0, 0, {"block_size": 2}]),
        ("TFOpLambda", "back", "nn.depth_to_space", ["deep", 0, 0, {"block_size": 2}]),
    ]
    path = of_keras_2(tmp_path, [4, 6, 2], lambdas, ["deep", "back"])
    x = np.arange(48, dtype=np.float32).reshape(1, 4, 6, 2)
    deep, back = weft.load(path).reference(x)
    blocks = x.reshape(1, 2, 2, 3, 2, 2).transpose(0, 1, 3, 2, 4, 5)
    np.testing.assert_array_equal(deep, blocks.reshape(1, 2, 3, 8))
    np.testing.assert_array_equal(back, x)


def settings(function: str | dict[str, Any]) -> dict[str, Any]:
    return {"function": function} if isinstance(function, str) else function


@dataclass(frozen=True)
class Case:
    """A function called with one tensor.

    Attributes:
        expected: from the tensor, by NumPy.
        given: the other arguments.
        shape: of the tensor without the batch.
    """

    expected: Callable[[np.ndarray], Any]
    given: dict[str, Any] = field(default_factory=dict[str, Any])
    shape: tuple[int, ...] = ROW


def responses(x: np.ndarray) -> np.ndarray:
    squares = np.pad(x * x, [(0, 0)] * 3 + [(1, 1)])
    sums = sum(squares[..., at : at + x.shape[-1]] for at in range(3))
    return x / (2 + 0.5 * sums) ** 0.75


def stretched(x: np.ndarray) -> np.ndarray:
    places = np.linspace(0, x.shape[1] - 1, 7)
    below = np.minimum(places.astype(int), x.shape[1] - 2)
    share = (places - below).astype(np.float32)[:, None, None]
    return x[:, below] * (1 - share) + x[:, below + 1] * share


def blocks(x: np.ndarray) -> np.ndarray:
    """``[batch, 2, 3, 2 * 2, channels]``."""
    return x.reshape(1, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 4, 3)


KERNEL = np.arange(6, dtype=np.float32).reshape(1, 1, 3, 2)
WINDOW = {"ksize": [1, 2, 2, 1], "strides": 2, "padding": "VALID"}
CASES: dict[str, Case] = {
    "reshape": Case(lambda x: x.reshape(1, 24), {"shape": [-1, 24]}),
    "broadcast_to": Case(
        lambda x: np.broadcast_to(x, (1, 3, 4, 6)), {"shape": [1, 3, 4, 6]}
    ),
    "compat.v1.transpose": Case(lambda x: x.swapaxes(1, 2), {"perm": [0, 2, 1]}),
    "compat.v1.squeeze": Case(lambda x: x[:, 0], {"axis": [1]}, (1, 6)),
    "expand_dims": Case(lambda x: x[:, None], {"axis": 1}),
    "keras.backend.batch_flatten": Case(lambda x: x.reshape(1, -1)),
    "split": Case(lambda x: x[:, :, :2], {"num_or_size_splits": [2, -1], "axis": 2}),
    "unstack": Case(lambda x: x[:, 0], {"axis": 1}),
    "slice": Case(lambda x: x[:, 1:3, 2:], {"begin": [0, 1, 2], "size": [-1, 2, -1]}),
    "strided_slice": Case(
        lambda x: x[:, 3, ::2],
        {
            "begin": [0, 3, 5], "end": [9, 0, 9], "strides": [1, 1, 2], "begin_mask": 4,
            "shrink_axis_mask": 2,
        },
    ),
    "compat.v1.gather": Case(
        lambda x: x[:, :, [2, 0]], {"indices": [2, 0], "axis": 2, "batch_dims": 0}
    ),
    "tile": Case(lambda x: np.tile(x, (1, 2, 3)), {"multiples": [1, 2, 3]}),
    "repeat": Case(lambda x: x.repeat(3, 1), {"repeats": 3, "axis": 1}),
    "reverse": Case(lambda x: x[:, ::-1], {"axis": [1]}),
    "roll": Case(lambda x: np.roll(x, (1, -2), (1, 2)), {"shift": [1, -2], "axis": [1, 2]}),
    "compat.v1.pad": Case(
        lambda x: np.pad(x, [(0, 0), (1, 2), (0, 1)], constant_values=7),
        {"paddings": [[0, 0], [1, 2], [0, 1]], "mode": "CONSTANT", "constant_values": 7},
    ),
    "linalg.band_part": Case(
        lambda x: np.triu(np.tril(x, 2), -1), {"num_lower": 1, "num_upper": 2}
    ),
    "math.squared_difference": Case(lambda x: (x - 2) ** 2, {"y": 2.0}),
    "linalg.matmul": Case(
        lambda x: x @ x.swapaxes(1, 2), {"b": ["x", 0, 0], "transpose_b": True}
    ),
    "math.cumsum": Case(
        lambda x: x[:, ::-1].cumsum(1)[:, ::-1] - x, {"axis": 1, "exclusive": True, "reverse": True}
    ),
    "compat.v1.norm": Case(
        lambda x: np.sqrt((x * x).sum((1, 2))), {"ord": "euclidean", "axis": [1, 2]}
    ),
    "math.reduce_euclidean_norm": Case(
        lambda x: np.sqrt((x * x).sum(1, keepdims=True)), {"axis": 1, "keepdims": True}
    ),
    "math.argmax": Case(lambda x: x.argmax(1), {"axis": 1}),
    "math.argmin": Case(
        lambda x: x.argmin(2).astype(np.int32), {"axis": -1, "output_type": "int32"}
    ),
    "math.top_k": Case(lambda x: -np.sort(-x)[:, :, :2], {"k": 2}),
    "sort": Case(lambda x: -np.sort(-x, 1), {"axis": 1, "direction": "DESCENDING"}),
    "nn.bias_add": Case(lambda x: x + np.arange(6, dtype=np.float32), {"bias": [*range(6)]}),
    "compat.v1.nn.crelu": Case(
        lambda x: np.maximum(np.concatenate([x, -x], -1), 0), {"axis": -1}
    ),
    "nn.local_response_normalization": Case(
        responses, {"depth_radius": 1, "bias": 2, "alpha": 0.5, "beta": 0.75}, IMAGE
    ),
    "nn.max_pool2d": Case(lambda x: blocks(x).max(3), WINDOW, IMAGE),
    "nn.avg_pool2d": Case(lambda x: blocks(x).mean(3), WINDOW, IMAGE),
    "nn.max_pool1d": Case(
        lambda x: x.reshape(1, 2, 2, 6).max(2), {"ksize": 2, "strides": 2, "padding": "SAME"}
    ),
    "compat.v1.nn.conv2d": Case(
        lambda x: x[:, ::2] @ KERNEL[0, 0],
        {
            "filter": KERNEL.tolist(), "strides": [1, 2, 1, 1], "padding": "SAME",
            "use_cudnn_on_gpu": True, "data_format": "NHWC", "dilations": [1, 1, 1, 1],
        },
        IMAGE,
    ),
    "compat.v1.nn.depthwise_conv2d": Case(
        lambda x: (x[..., None] * KERNEL[0, 0]).reshape(1, 4, 6, 6),
        {"filter": KERNEL.tolist(), "strides": [1, 1, 1, 1], "padding": "VALID"},
        IMAGE,
    ),
    "image.resize": Case(
        lambda x: x.repeat(2, 1).repeat(3, 2), {"size": [8, 18], "method": "nearest"}, IMAGE
    ),
    "compat.v1.image.resize_bilinear": Case(
        stretched, {"size": [7, 6], "align_corners": True}, IMAGE
    ),
    "image.extract_patches": Case(
        lambda x: blocks(x).reshape(1, 2, 3, 12),
        {
            "sizes": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "rates": [1, 1, 1, 1],
            "padding": "VALID",
        },
        IMAGE,
    ),
    "math.floormod": Case(lambda x: np.mod(x, 2), {"y": 2.0}),
    "compat.v1.floor_div": Case(lambda x: np.floor(x / 2), {"y": 2.0}),
    "math.atan2": Case(lambda x: np.arctan2(x, 2), {"x": 2.0}),
    "math.round": Case(np.round),
}  # fmt: skip
SIZES = {"shape", "size", "rank", "range", "zeros", "ones", "fill"}
OTHERS = {"math.add_n", "one_hot"}


@pytest.mark.parametrize("name", CASES)
def test_a_function(name, tmp_path):
    case = CASES[name]
    node = ["x", 0, 0, {**case.given, "name": None}]
    path = of_keras_2(tmp_path, case.shape, [("TFOpLambda", "made", name, node)], ["made"])
    x = np.random.default_rng(0).standard_normal((1, *case.shape)).astype(np.float32)
    (found,) = weft.load(path).reference(x)
    expected = case.expected(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_every_function_has_a_case():
    tested = {id(FUNCTIONS[name]) for name in CASES if name in FUNCTIONS}
    rest = {name for name, row in FUNCTIONS.items() if id(row) not in tested}
    assert {name.removeprefix("compat.v1.") for name in rest} == SIZES | OTHERS
    assert not FUNCTIONS.keys() & KNOWN.keys()


def test_sums_and_categories(tmp_path):
    lambdas = [
        ("TFOpLambda", "sum", "math.add_n", [["x", 0, 0, {}], ["x", 0, 0, {}], ["x", 0, 0, {}]]),
        ("TFOpLambda", "whole", "cast", ["x", 0, 0, {"dtype": "int32"}]),
        ("TFOpLambda", "hot", "one_hot", ["whole", 0, 0, {"depth": 3}]),
        (
            "TFOpLambda", "warm", "one_hot",
            ["whole", 0, 0, {"depth": 3, "on_value": 2.0, "off_value": -1.0, "axis": 1}],
        ),
    ]  # fmt: skip
    path = of_keras_2(tmp_path, [3], lambdas, ["sum", "hot", "warm"])
    x = np.array([[2.0, 0.0, 1.0]], np.float32)
    total, hot, warm = weft.load(path).reference(x)
    np.testing.assert_array_equal(total, 3 * x)
    np.testing.assert_array_equal(hot, np.eye(3, dtype=np.float32)[[[2, 0, 1]]])
    np.testing.assert_array_equal(warm, hot.swapaxes(1, 2) * 3 - 1)


SHAPE = ("TFOpLambda", "shape", "compat.v1.shape", ["x", 0, 0, {"out_type": "int32"}])


def size(name: str, at: Any) -> tuple[str, str, str, list[Any]]:
    node = ["shape", 0, 0, {"slice_spec": at}]
    return ("SlicingOpLambda", name, "__operators__.getitem", node)


def test_sizes_are_computed_when_the_model_is_read(tmp_path):
    batch, tall, wide = (size(name, at) for at, name in enumerate(("batch", "tall", "wide")))
    tail = size("tail", {"start": 1, "stop": None, "step": None})
    lambdas = [
        SHAPE, batch, tall, wide, tail,
        ("TFOpLambda", "twice", "math.multiply", ["tall", 0, 0, {"y": 2}]),
        (
            "TFOpLambda", "up", "image.resize",
            ["x", 0, 0, {"size": [["twice", 0, 0], ["wide", 0, 0]], "method": "nearest"}],
        ),
        (
            "TFOpLambda", "area", "math.multiply", ["tall", 0, 0, {"y": ["wide", 0, 0]}],
        ),
        (
            "TFOpLambda", "flat", "reshape",
            ["x", 0, 0, {"shape": [["batch", 0, 0], ["area", 0, 0], -1]}],
        ),
        ("TFOpLambda", "count", "math.reduce_prod", ["tail", 0, 0, {}]),
        (
            "TFOpLambda", "line", "reshape",
            ["x", 0, 0, {"shape": [["batch", 0, 0], ["count", 0, 0]]}],
        ),
        ("TFOpLambda", "number", "cast", ["tall", 0, 0, {"dtype": "float32"}]),
        ("TFOpLambda", "scaled", "math.truediv", ["x", 0, 0, {"y": ["number", 0, 0]}]),
        (
            "SlicingOpLambda", "part", "__operators__.getitem",
            ["x", 0, 0, {"slice_spec": [
                {"start": None, "stop": None, "step": None},
                {"start": 1, "stop": ["tall", 0, 0], "step": None},
            ]}],
        ),
    ]  # fmt: skip
    outputs = ["up", "flat", "line", "scaled", "part"]
    path = of_keras_2(tmp_path, IMAGE, lambdas, outputs)
    x = np.random.default_rng(0).standard_normal((2, *IMAGE)).astype(np.float32)
    up, flat, line, scaled, part = weft.load(path, {"batch": 2}).reference(x)
    np.testing.assert_array_equal(up, x.repeat(2, 1))
    np.testing.assert_array_equal(flat, x.reshape(2, 24, 3))
    np.testing.assert_array_equal(line, x.reshape(2, 72))
    np.testing.assert_allclose(scaled, x / 4, rtol=1e-6)
    np.testing.assert_array_equal(part, x[:, 1:4])


def test_tensors_made_of_sizes(tmp_path):
    lambdas = [
        SHAPE,
        size("tall", 1),
        ("TFOpLambda", "parts", "unstack", ["shape", 0, 0, {}]),
        ("TFOpLambda", "places", "range", ["tall", 0, 0, {}]),
        ("TFOpLambda", "column", "expand_dims", ["places", 0, 0, {"axis": -1}]),
        ("TFOpLambda", "numbers", "cast", ["column", 0, 0, {"dtype": "float32"}]),
        ("TFOpLambda", "placed", "__operators__.add", ["x", 0, 0, {"y": ["numbers", 0, 0]}]),
        ("TFOpLambda", "zeros", "zeros", [["parts", 0, 0, {}], ["parts", 0, 1, {}]]),
        ("TFOpLambda", "ones", "ones", ["shape", 0, 0, {}]),
        ("TFOpLambda", "both", "math.subtract", ["x", 0, 0, {"y": ["ones", 0, 0]}]),
        ("TFOpLambda", "sevens", "fill", ["shape", 0, 0, {"value": 7.0}]),
        ("TFOpLambda", "rank", "rank", ["x", 0, 0, {}]),
        ("TFOpLambda", "size", "size", ["x", 0, 0, {}]),
        ("TFOpLambda", "share", "math.truediv", ["size", 0, 0, {"y": ["rank", 0, 0]}]),
        ("TFOpLambda", "float", "cast", ["share", 0, 0, {"dtype": "float32"}]),
        ("TFOpLambda", "scaled", "math.multiply", ["x", 0, 0, {"y": ["float", 0, 0]}]),
    ]
    outputs = ["placed", "zeros", "both", "sevens", "scaled"]
    path = of_keras_2(tmp_path, ROW, lambdas, outputs)
    x = np.random.default_rng(0).standard_normal((1, *ROW)).astype(np.float32)
    placed, zeros, both, sevens, scaled = weft.load(path).reference(x)
    np.testing.assert_array_equal(placed, x + np.arange(4, dtype=np.float32)[:, None])
    np.testing.assert_array_equal(zeros, np.zeros((1, 4), np.float32))
    np.testing.assert_array_equal(both, x - 1)
    np.testing.assert_array_equal(sevens, np.full((1, *ROW), 7, np.float32))
    np.testing.assert_allclose(scaled, x * 8, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("nn.dropout", {"rate": 0.5}, "tf.nn.dropout is not supported"),
        ("compat.v1.gather", {"indices": [0], "batch_dims": 1}, "batch_dims is not supported"),
        ("split", {"num_or_size_splits": 4, "axis": 2}, "6 elements cannot be split into 4 equal"),
        ("split", {"num_or_size_splits": [4, 1], "axis": 2}, "cannot be split into parts of"),
        ("reshape", {"shape": [1, 2.5]}, "must be whole numbers"),
        ("image.resize", {"size": [2, 2], "preserve_aspect_ratio": True}, "preserve_aspect_ratio"),
        ("nn.max_pool2d", {"ksize": [2, 2, 2, 1], "strides": 1, "padding": "SAME"}, "over batches"),
        ("compat.v1.shape", {}, "is known when the model is read"),
        ("range", {}, "a range whose ends are computed"),
        ("range", {"limit": 1e9, "start": 0}, "more than 1,048,576 numbers"),
    ],
)
def test_what_is_refused(name, given, told, tmp_path):
    shape = IMAGE if "ksize" in given or "size" in given else ROW
    lambdas: list[Any] = [("TFOpLambda", "made", name, ["x", 0, 0, given])]
    if name == "range" and given:
        lambdas = [SHAPE, size("tall", 1), ("TFOpLambda", "made", name, ["tall", 0, 0, given])]
    path = of_keras_2(tmp_path, shape, lambdas, ["made"])
    with pytest.raises(UserError, match=told):
        weft.load(path).reference(np.zeros((1, *shape), np.float32))


def test_known_arrays_do_not_grow_without_end(tmp_path):
    # Each layer has twice as many numbers as the one before.
    double = [["TFOpLambda", "n0", "range", ["tall", 0, 0, {"start": 0, "limit": 2048}]]]
    double += [
        ["TFOpLambda", f"n{at + 1}", "stack", [[f"n{at}", 0, 0, {}], [f"n{at}", 0, 0, {}]]]
        for at in range(60)
    ]
    path = of_keras_2(tmp_path, ROW, [SHAPE, size("tall", 1), *map(tuple, double)], ["n60"])
    with pytest.raises(UserError, match="more than 16 GiB"):
        weft.load(path)


@pytest.mark.parametrize("dtype", ["<U1000000000", "object", "complex64"])
def test_types_that_are_no_numbers_are_refused(dtype, tmp_path):
    lambdas = [
        SHAPE,
        size("tall", 1),
        ("TFOpLambda", "n", "cast", ["tall", 0, 0, {"dtype": dtype}]),
    ]
    with pytest.raises(UserError, match="n \\(TFOpLambda\\)"):
        weft.load(of_keras_2(tmp_path, ROW, lambdas, ["n"]))


@pytest.mark.parametrize("rank", [1, 2])
def test_convolutions_with_a_kernel_at_every_place(rank, tmp_path):
    shape = (7, 3) if rank == 1 else (5, 7, 3)
    kernel = (3,) if rank == 1 else (2, 3)
    places = (3,) if rank == 1 else (4, 3)  # stride 2 along the last axis
    random = np.random.default_rng(1)
    count, taps = int(np.prod(places)), int(np.prod(kernel)) * 3
    weight = random.standard_normal((count, taps, 4)).astype(np.float32)
    bias = random.standard_normal((*places, 4)).astype(np.float32)
    config = {
        "filters": 4, "kernel_size": list(kernel), "strides": [2] if rank == 1 else [1, 2],
        "padding": "valid", "data_format": "channels_last", "activation": "relu",
        "use_bias": True, "implementation": 1,
    }  # fmt: skip
    path = of_keras_2(
        tmp_path,
        shape,
        [(f"LocallyConnected{rank}D", "local", config, ["x", 0, 0, {}])],
        ["local"],
        {"local": {"kernel": weight, "bias": bias}},
    )
    x = random.standard_normal((1, *shape)).astype(np.float32)
    expected = np.empty((1, *places, 4), np.float32)
    for number, place in enumerate(np.ndindex(*places)):
        begin = (*place[:-1], 2 * place[-1])
        part = x[(0, *(slice(at, at + size) for at, size in zip(begin, kernel, strict=True)))]
        expected[(0, *place)] = part.reshape(-1) @ weight[number] + bias[place]
    (found,) = weft.load(path).reference(x)
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=1e-5, atol=1e-5)
    config["implementation"] = 2
    with pytest.raises(UserError, match="implementations 2 and 3"):
        weft.load(
            of_keras_2(
                tmp_path,
                shape,
                [(f"LocallyConnected{rank}D", "local", config, ["x", 0, 0, {}])],
                ["local"],
            )
        )


def test_numbers_are_cut_into_bins_before_they_are_rounded(tmp_path):
    # The layer's type is that of what it gives.
    config = {"bin_boundaries": [0.0, 0.3, 0.7], "output_mode": "int", "dtype": "int64"}
    layers = [("Discretization", "bins", config, ["x", 0, 0, {}])]
    net = weft.load(of_keras_2(tmp_path, [4], layers, ["bins"]))
    (found,) = net.reference(np.array([[-0.7, 0.1, 0.6, 2.0]], np.float32))
    assert net.outputs["bins"].dtype is DType.I64
    assert found.tolist() == [[0, 1, 2, 3]]
