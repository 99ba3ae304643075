"""How far Weft and LiteRT are from double precision on a network of hybrid layers.

    python -m bench.dynamic_range kws_float.tflite

Layers of integer weights and float activations quantize their inputs in each run.  Where a sum
before one rounds otherwise, a value next to a half becomes another integer: a whole step.  So a
few inputs differ, between Weft and LiteRT's reference kernels, and each of them from the same
network in double precision.  For each pair the inputs that differ by more than 1e-5 are counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.frontends.litert import Session

LINE = 1e-5


def convolved(x: np.ndarray, weight: np.ndarray, attributes: Any) -> np.ndarray:
    """A convolution with channels last; ``weight`` is ``[filters, channels, height, width]``."""
    top, left, bottom, right = attributes.pads
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    filters, _, height, width = weight.shape
    down, across = attributes.strides
    rows, columns = (x.shape[1] - height) // down + 1, (x.shape[2] - width) // across + 1
    total = np.zeros((len(x), rows, columns, filters), x.dtype)
    for i in range(height):
        for j in range(width):
            part = x[:, i : i + rows * down : down, j : j + columns * across : across]
            if attributes.groups == 1:
                total += part @ weight[:, :, i, j].T
            else:
                total += part * weight[:, 0, i, j]
    return total


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """To -127 to 127, halves away from zero, and the scale."""
    scale = np.abs(x).max(keepdims=True) / 127
    steps = x / scale
    return (np.sign(steps) * np.floor(np.abs(steps) + 0.5)).astype(np.int64), scale


def softmax(x: np.ndarray) -> np.ndarray:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


OPERATIONS: Mapping[str, Callable[[Any, list[Any]], Any]] = {
    "DynamicQuantizeSymmetric": lambda _, xs: quantized(xs[0]),
    "ConvIntegerChannelsLast": lambda node, xs: convolved(xs[0], xs[1], node.attributes),
    "ConvChannelsLast": lambda node, xs: convolved(xs[0], xs[1], node.attributes) + sum(xs[2:]),
    "Cast": lambda _, xs: xs[0].astype(np.float64),
    "Mul": lambda _, xs: xs[0] * xs[1],
    "Add": lambda _, xs: xs[0] + xs[1],
    "Relu": lambda _, xs: np.maximum(xs[0], 0),
    "AveragePoolChannelsLast": lambda _, xs: xs[0].mean((1, 2), keepdims=True),
    "Reshape": lambda _, xs: xs[0].reshape(len(xs[0]), -1),
    "Gemm": lambda node, xs: xs[0] @ (xs[1].T if node.attributes.transB else xs[1]) + xs[2],
    "Softmax": lambda _, xs: softmax(xs[0]),
}
"""In double precision and, of integers, in 64 bits; those of the keyword model of MLPerf Tiny."""


def in_double(net: weft.Net, x: np.ndarray) -> np.ndarray:
    """The only output for an input."""
    graph = net.graph
    values: dict[str, Any] = {graph.inputs[0]: x.astype(np.float64)}
    for name, array in graph.constants.items():
        values[name] = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    for node in graph.nodes:
        made = OPERATIONS[node.op](node, [values[each] for each in node.inputs if each])
        made = made if isinstance(made, tuple) else (made,)
        values.update(zip(node.outputs, made, strict=True))
    return values[graph.outputs[0]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--inputs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    net, litert = weft.load(asked.model), Session(asked.model)
    (name,), (output,) = net.graph.inputs, net.graph.outputs
    fast, plain = net.compile(), net.compile(plain=True)
    random = np.random.default_rng(asked.seed)
    shape = tuple(int(str(size)) for size in net.inputs[name].shape)
    apart: dict[str, list[float]] = {}
    for _ in range(asked.inputs):
        x = random.normal(size=shape).astype(np.float32)
        reference, exact = litert({name: x})[output], in_double(net, x)
        made = np.asarray(fast(x))
        for pair, one, other in (
            ("plain loops and LiteRT", np.asarray(plain(x)), reference),
            ("Weft and LiteRT", made, reference),
            ("Weft and double", made, exact),
            ("LiteRT and double", reference, exact),
        ):
            apart.setdefault(pair, []).append(float(np.abs(one.astype(np.float64) - other).max()))
    for pair, found in apart.items():
        over = sum(each > LINE for each in found)
        print(f"{pair}: {over} of {len(found)} over {LINE:.0e}, the largest {max(found):.1e}")


if __name__ == "__main__":
    main()
