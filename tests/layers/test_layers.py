"""Layers: shapes, weights given and drawn, combinations, refusals, and compiled C."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import weft
from weft import layers
from weft.errors import UserError
from weft.frontends.onnx import save
from weft.ir.verify import verify
from weft.layers import parallel, residual, sequential
from weft.ops.evaluate import call_of
from weft.ops.table import OPS

IMAGE = "f32[1,4,9,8]"


def network() -> weft.Net:
    """A small one with everything."""
    body = sequential(
        [
            layers.Conv(8, 3, padding="same", bias=False),
            layers.BatchNorm(),
            weft.ops.relu,
            layers.Conv(8, 3, padding=1, groups=4),
        ]
    )
    return weft.trace(
        sequential(
            [
                layers.Conv(8, 3, strides=2, padding="same", name="stem"),
                weft.ops.relu,
                residual(body),
                parallel([layers.Conv(4, 1), layers.MaxPool(3, 1, 1)]),
                layers.GlobalAveragePool(),
                layers.Flatten(),
                layers.Linear(10),
            ]
        ),
        "f32[N,4,9,8]",
        name="small",
        seed=1,
    )


def test_a_net_built_by_hand_compiles_and_saves(tmp_path: Path) -> None:
    net = network()
    verify(net.graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    image = np.random.default_rng(0).normal(size=(1, 4, 9, 8)).astype(np.float32)
    (wanted,) = net.bound().reference(image)
    np.testing.assert_allclose(net.compile(threads=1)(image), wanted, rtol=0, atol=1e-5)
    save(net.graph, tmp_path / "small.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "small.onnx"))
    (found,) = session.run(None, {net.graph.inputs[0]: image})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert "stem.weight" in net.graph.constants
    net.save(tmp_path / "small.weft")
    assert weft.load(tmp_path / "small.weft").graph == net.graph


@pytest.mark.parametrize(
    ("layer", "given", "made"),
    [
        (layers.Conv(6, 3), IMAGE, "f32[1,6,7,6]"),
        (layers.Conv(6, (3, 2), strides=(2, 1), padding=(1, 0)), IMAGE, "f32[1,6,5,7]"),
        (layers.Conv(6, 3, strides=2, padding="same", dilations=2), IMAGE, "f32[1,6,5,4]"),
        (layers.Conv(4, 3, groups=4), "f32[N,4,9]", "f32[N,4,7]"),
        (
            layers.ConvTranspose(6, 3, strides=2, padding=1, output_padding=1),
            IMAGE,
            "f32[1,6,18,16]",
        ),
        (layers.Linear(5), "f32[2,7]", "f32[2,5]"),
        (layers.Linear(5), "f16[2,3,7]", "f16[2,3,5]"),
        (layers.Linear(5, bias=False), "f32[2,3,7]", "f32[2,3,5]"),
        (layers.Embedding(11, 6), "i64[2,3]", "f32[2,3,6]"),
        (layers.BatchNorm(), IMAGE, IMAGE),
        (layers.LayerNorm(), "f32[2,3,7]", "f32[2,3,7]"),
        (layers.GroupNorm(2), IMAGE, IMAGE),
        (layers.MaxPool(2), IMAGE, "f32[1,4,4,4]"),
        (layers.AveragePool((3, 1), 1, (1, 0)), IMAGE, IMAGE),
        (layers.GlobalAveragePool(), IMAGE, "f32[1,4,1,1]"),
        (layers.Flatten(), IMAGE, "f32[1,288]"),
    ],
    ids=repr,
)
def test_shapes(layer: Callable[..., weft.Value], given: str, made: str) -> None:
    net = weft.trace(layer, given)
    verify(net.graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    assert [str(type) for type in net.outputs.values()] == [made]


def test_weights_that_are_given() -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(5, 7)).astype(np.float32)
    b = rng.normal(size=5).astype(np.float32)
    given = rng.normal(size=(2, 7)).astype(np.float32)
    for text, array in (("f32[2,7]", given), ("f32[1,2,7]", given[None])):
        net = weft.trace(layers.Linear(5, weight=w, bias=b), text)
        np.testing.assert_allclose(net.reference(array)[0].reshape(2, 5), given @ w.T + b, 1e-5)
    assert any(array.base is w for array in net.graph.constants.values())


def test_joins() -> None:
    given = np.array([[1, -2, 3]], np.float32)
    for join, wanted in (
        ("add", given + np.maximum(given, 0)),
        ("multiply", given * np.maximum(given, 0)),
        ("concat", np.concatenate([given, np.maximum(given, 0)], 1)),
        (lambda a, b: a - b, given - np.maximum(given, 0)),
    ):
        net = weft.trace(parallel([weft.ops.identity, weft.ops.relu], join), "f32[1,3]")
        np.testing.assert_array_equal(net.reference(given)[0], wanted)


def test_nets_and_graphs_are_layers() -> None:
    part = weft.trace(layers.Linear(3), "f32[N,3]", name="part")
    net = weft.trace(sequential([part, weft.ops.relu, part.graph]), "f32[2,3]")
    assert [node.op for node in net.graph.nodes] == ["Gemm", "Relu", "Gemm"]
    # The weights are there once.
    assert len(net.graph.constants) == 2


def test_a_shortcut() -> None:
    block = residual(layers.Conv(6, 3, padding=1), layers.Conv(6, 1))
    assert str(weft.trace(block, IMAGE).outputs) != ""
    assert [str(t) for t in weft.trace(block, IMAGE).outputs.values()] == ["f32[1,6,9,8]"]


REFUSALS: list[tuple[object, str, str]] = [
    (
        sequential([weft.ops.relu, layers.Conv(8, 3, groups=3)]),
        IMAGE,
        "Conv: groups must divide the channels of input and output; "
        "got groups 3, 4 and 8 channels (sequential: layer 1)",
    ),
    (
        residual(layers.Conv(5, 3)),
        IMAGE,
        "residual: the layer's output must have the type of the shortcut; "
        "got f32[1,5,7,6] and f32[1,4,9,8]. Give a layer as shortcut.",
    ),
    (layers.Conv(5, 3), "i32[1,4,9,8]", "Conv: the input must hold floats; got i32[1,4,9,8]"),
    (
        layers.Conv(5, (3, 3)),
        "f32[1,4,9]",
        "Conv: kernel must have one entry for each of the 1 spatial axes; got [3, 3]",
    ),
    (
        layers.Conv(5, 3),
        "f32[4,9]",
        "Conv: the input must be [batch, channels, ...]; got f32[4,9]",
    ),
    (
        layers.Conv(5, 3, padding="valid"),  # type: ignore[arg-type]
        IMAGE,
        "Conv: padding must be numbers or same; got 'valid'",
    ),
    (
        layers.Linear(5, weight=np.ones((7, 5), np.float32)),
        "f32[2,7]",
        "Linear: weight must be f32[5,7]; got f32[7,5]",
    ),
    (layers.Linear(5), "f32[N]", "Linear: the size of axis -1 must be known; got f32[N]"),
    (layers.BatchNorm(), "f32[4]", "BatchNorm: the input has no axis 1; got f32[4]"),
    (layers.Embedding(5, 3), "f32[4]", "Embedding: the input must hold whole numbers; got f32[4]"),
    (
        layers.ConvTranspose(5, 3, groups=2),
        IMAGE,
        "ConvTranspose: groups must divide the channels of input and output; "
        "got groups 2, 4 and 5 channels",
    ),
    (
        parallel([lambda x: (x, x)]),
        IMAGE,
        "parallel: layer 0 must give one value; got 2 values",
    ),
    (
        parallel([layers.Conv(3, 3), layers.Conv(3, 1)]),
        IMAGE,
        "parallel: concat: the inputs must agree in all but axis 1; got f32[1,3,7,6] of layer 0, "
        "f32[1,3,9,8] of layer 1. Their sizes may differ along axis 1 alone.",
    ),
    (
        parallel([layers.Conv(3, 3), layers.Conv(4, 3)], join="add"),
        IMAGE,
        "parallel: add: the shapes do not broadcast; got f32[1,3,7,6] of layer 0, "
        "f32[1,4,7,6] of layer 1. Their sizes must be equal, or 1.",
    ),
]


@pytest.mark.parametrize(("layer", "given", "message"), REFUSALS, ids=[r[2] for r in REFUSALS])
def test_refusals(layer: Callable[..., object], given: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        weft.trace(layer, given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sequential([weft.ops.relu, 3]),
            "sequential: a layer must be a function of values, a net or a graph; got int at "
            "place 1",
        ),
        (lambda: parallel([]), "parallel: there must be at least one layer; got none"),
        (
            lambda: parallel([weft.ops.relu], "mean"),
            "parallel: join must be add, concat, multiply or a function; got 'mean'",
        ),
        (
            lambda: sequential(layers.Conv(8, 3)),  # type: ignore[arg-type]
            "sequential: layers must be a list; got Conv. Write [...].",
        ),
        (
            lambda: layers.MaxPool(3, stride=2),  # type: ignore[call-arg]
            "MaxPool: there is no parameter stride; got kernel, strides, padding, name. "
            "Did you mean strides?",
        ),
        (
            lambda: layers.MaxPool(),  # type: ignore[call-arg]
            "MaxPool: missing a required argument: 'kernel'; got kernel, strides, padding, name",
        ),
        (
            lambda: layers.Conv(-8, 3),
            "Conv: channels must be a whole number of at least 1; got -8",
        ),
        (
            lambda: layers.Conv("8", 3),  # type: ignore[arg-type]
            "Conv: channels must be a whole number of at least 1; got '8'",
        ),
        (
            lambda: layers.Conv(8, (3, 0)),
            "Conv: kernel must be a whole number of at least 1, or one for each axis; got (3, 0)",
        ),
        (
            lambda: layers.MaxPool(2, padding=-1),
            "MaxPool: padding must be a whole number, or one for each axis, none below 0; got -1",
        ),
        (
            lambda: layers.Linear(3, initial="hee"),  # type: ignore[arg-type]
            "Linear: initial must be one of he, glorot, normal, zeros, ones; got 'hee'",
        ),
        (lambda: layers.Linear(3, name=3), "Linear: name must be a string; got 3"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_layer(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value) == message


def test_sizes_may_be_numbers_of_numpy() -> None:
    net = weft.trace(layers.Conv(np.int64(8), np.int32(3), padding=np.int64(1)), IMAGE)  # type: ignore[arg-type]
    assert [str(each) for each in net.outputs.values()] == ["f32[1,8,9,8]"]


def test_layers_keep_their_signatures() -> None:
    assert [*inspect.signature(layers.Embedding).parameters] == [
        "rows",
        "channels",
        "weight",
        "initial",
        "name",
    ]


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (layers, "Cnov", "weft.layers has no layer Cnov. Did you mean Conv?"),
        (layers, "ReLU", "weft.layers has no layer ReLU. It is the function weft.ops.relu."),
        (
            weft.ops,
            "leaky_rleu",
            "weft.ops has no op leaky_rleu. Did you mean leaky_relu?",
        ),
    ],
)
def test_a_misspelt_name_says_which_was_meant(module: object, name: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, name)
    assert str(caught.value) == message
