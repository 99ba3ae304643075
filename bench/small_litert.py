"""LiteRT with XNNPACK on the networks of ``bench.small_nets``, called from Python.

LiteRT's wheel has no C interface that could be called beside the others, so its times have the
call from Python in them: that of a network of one ReLU of one element tells how much that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import weft
from tests.frontends.litert.builder import Op, Sub, T, const, file

_SECONDS = 0.001
"""Of a turn."""


def _strides(attributes: Any) -> dict[str, Any]:
    return {"strideH": attributes.strides[0], "strideW": attributes.strides[1]}


def _convolution(attributes: Any) -> dict[str, Any]:
    return {**_strides(attributes), "padding": 0 if any(attributes.pads) else 1}


def _pooling(attributes: Any) -> dict[str, Any]:
    high, wide = attributes.kernel
    return {**_strides(attributes), "filterHeight": high, "filterWidth": wide, "padding": 1}


_OPERATORS: Mapping[str, tuple[str, str, Callable[[Any], dict[str, Any]]]] = {
    "ConvChannelsLast": ("CONV_2D", "Conv2DOptions", _convolution),
    "MaxPoolChannelsLast": ("MAX_POOL_2D", "Pool2DOptions", _pooling),
    "Gemm": ("FULLY_CONNECTED", "FullyConnectedOptions", lambda _: {}),
    "LeakyRelu": ("LEAKY_RELU", "LeakyReluOptions", lambda own: {"alpha": own.alpha}),
    "Softmax": ("SOFTMAX", "SoftmaxOptions", lambda _: {"beta": 1.0}),
    "Relu": ("RELU", "", lambda _: {}),
}
"""Operator, its options' class and the options, by op."""


def content(net: weft.Net) -> bytes:
    """A network with channels last as a LiteRT file.

    Args:
        net: a chain of the layers of ``bench.small_nets``; pads are none, or those of LiteRT's
            ``SAME``.
    """
    graph = net.graph
    (given,) = net.inputs
    (last,) = net.outputs
    tensors = [T(_shape(net.inputs[given].shape))]
    ops: list[Op] = []
    places = {given: 0}
    for node in graph.nodes:
        source, result = node.inputs[0], node.outputs[0]
        if node.op == "Flatten":
            places[result] = places[source]  # what follows takes it as a vector
            continue
        for weight in node.inputs[1:]:
            array = graph.constants[weight]
            array = array.transpose(0, 2, 3, 1) if array.ndim == 4 else array
            places[weight] = len(tensors)
            tensors.append(const(array, "float32"))
        places[result] = len(tensors)
        tensors.append(T(_shape(graph.types[result].shape)))
        name, options, values = _OPERATORS[node.op]
        inputs = [places[each] for each in node.inputs]
        ops.append(Op(name, inputs, [places[result]], options, values(node.attributes)))
    return file([Sub(tensors, ops, [0], [places[last]])])


def _shape(sizes: Any) -> tuple[int, ...]:
    return tuple(int(str(size)) for size in sizes)


def _one_element() -> bytes:
    return file([Sub([T((1,)), T((1,))], [Op("RELU", [0], [1])], [0], [1])])


def _call(data: bytes, x: np.ndarray, y: np.ndarray | None) -> Callable[[], object]:
    """A call of a file on one thread, checked first."""
    found = Interpreter(model_content=data, num_threads=1)
    found.allocate_tensors()
    found.set_tensor(found.get_input_details()[0]["index"], x)
    found.invoke()
    if y is not None:
        made = found.get_tensor(found.get_output_details()[0]["index"])
        np.testing.assert_allclose(made.ravel(), y.ravel(), rtol=0, atol=1e-4)
    return found.invoke


def times(nets: Mapping[str, weft.Net], rounds: int) -> tuple[dict[str, float], float]:
    """Seconds of a call of each network, and of a call that computes one ReLU; medians."""
    calls = dict[str, Callable[[], object]]()
    for name, net in nets.items():
        x = np.random.default_rng(1).normal(0, 1, _shape(net.inputs["x"].shape))
        x = x.astype(np.float32)
        calls[name] = _call(content(net), x, net.reference(x)[0])
    calls[""] = _call(_one_element(), np.ones(1, np.float32), None)
    counts = {name: max(1, int(_SECONDS / _taken(call, 20))) for name, call in calls.items()}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            taken[name].append(_taken(call, counts[name]))
    found = {name: median(each) for name, each in taken.items()}
    return found, found.pop("")


def _taken(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
