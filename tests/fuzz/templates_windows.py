"""More uses of ONNX's ops: windows, products, normalizations, steps and control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.fuzz.growing import Garden, Proposal, Template

# --- windows ------------------------------------------------------------------------------------


def image(g: Garden, least: int = 3, most: int = 5) -> str:
    """A value with a batch, channels and one to three other axes."""
    return g.value("float32", least, most)


def window(g: Garden, x: str, kernel: list[int]) -> dict[str, Any]:
    """Strides, dilations and paddings."""
    count = len(kernel)
    found: dict[str, Any] = {}
    if g.maybe():
        found["strides"] = [g.chance.choice((1, 2, 3)) for _ in range(count)]
    if g.maybe(0.2):
        found["dilations"] = [g.chance.choice((1, 2)) for _ in range(count)]
    if g.maybe(0.25):
        found["auto_pad"] = g.chance.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if found["auto_pad"] != "VALID":
            found.pop("dilations", None)
    elif g.maybe(0.7):
        found["pads"] = [g.chance.randint(0, (size - 1) // 2 + 1) for size in kernel * 2]
    return found


def kernel_of(g: Garden, x: str) -> list[int]:
    """A window that is seldom larger than what it goes over."""
    return [g.chance.randint(1, min(size + 1, 5)) for size in g.look(x).shape[2:]]


def convolution(g: Garden) -> Proposal:
    x = image(g)
    channels, kernel = g.look(x).shape[1], kernel_of(g, x)
    divisors = [each for each in range(1, channels + 1) if channels % each == 0]
    group = g.chance.choice((1, 1, channels, g.chance.choice(divisors)))
    outputs = group * g.chance.choice((1, 2, 3, 8))
    inputs = [x, g.weight((outputs, channels // group, *kernel))]
    if g.maybe():
        inputs.append(g.weight((outputs,)))
    return Proposal("Conv", inputs, {"group": group, **window(g, x, kernel)})


def transposed(g: Garden) -> Proposal:
    x = image(g, most=4)
    channels, kernel = g.look(x).shape[1], kernel_of(g, x)
    group = channels if g.maybe(0.2) else 1
    inputs = [x, g.weight((channels, g.chance.choice((1, 2, 5)), *kernel))]
    attributes = {"group": group, **window(g, x, kernel)}
    if "strides" in attributes and "auto_pad" not in attributes and g.maybe():
        attributes["output_padding"] = [g.chance.randrange(s) for s in attributes["strides"]]
    return Proposal("ConvTranspose", inputs, attributes)


def pooling(op: str) -> Template:
    def template(g: Garden) -> Proposal:
        x = image(g)
        kernel = [max(1, size) for size in kernel_of(g, x)]
        attributes = {"kernel_shape": kernel, **window(g, x, kernel)}
        if (op == "AveragePool" and g.opset < 19) or op == "LpPool" or g.opset < 10:
            attributes.pop("dilations", None)
        if op != "LpPool" and g.opset >= 10 and g.maybe(0.3) and "auto_pad" not in attributes:
            attributes["ceil_mode"] = 1
        if op == "AveragePool" and g.maybe(0.3):
            attributes["count_include_pad"] = 1
        if op == "LpPool":
            attributes["p"] = g.chance.randint(1, 3)
        outputs = 2 if op == "MaxPool" and g.maybe(0.15) else 1
        return Proposal(op, [x], attributes, outputs)

    return template


def global_pooling(g: Garden) -> Proposal:
    kinds = ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    return Proposal(g.chance.choice(kinds), [image(g)])


def resize(g: Garden) -> Proposal:
    x = image(g, 3, 4)
    shape = g.look(x).shape
    scales = [1.0, 1.0, *(g.chance.choice((1.0, 2.0, 3.0, 0.5)) for _ in shape[2:])]
    mode = g.chance.choice(("nearest", "linear"))
    ratios = g.constant(np.array(scales, np.float32))
    if g.opset < 11:
        return Proposal("Upsample" if g.opset < 10 else "Resize", [x, ratios], {"mode": mode})
    attributes = {
        "mode": g.chance.choice((mode, mode, "cubic")),
        "coordinate_transformation_mode": g.chance.choice(
            ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        ),
    }
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = g.chance.choice(("floor", "ceil", "round_prefer_floor"))
    nothing = g.constant(np.zeros(0, np.float32))
    if g.maybe():
        sizes = [*shape[:2], *(g.chance.randint(1, 2 * size) for size in shape[2:])]
        empty = g.constant(np.zeros(0, np.float32)) if g.opset < 13 else ""
        return Proposal("Resize", [x, nothing, empty, g.constant(sizes)], attributes)
    return Proposal("Resize", [x, nothing, ratios], attributes)


def grid_sample(g: Garden) -> Proposal:
    x = g.value("float32", 4, 4)
    grid = g.weight((g.look(x).shape[0], 3, 4, 2))
    attributes = {
        "padding_mode": g.chance.choice(("zeros", "border", "reflection")),
        "align_corners": g.chance.randint(0, 1),
    }
    return Proposal("GridSample", [x, grid], attributes)


# --- products -----------------------------------------------------------------------------------


def matmul(g: Garden) -> Proposal:
    x = g.value("float32 float32 float64", 1)
    shape, dtype = g.look(x).shape, str(g.look(x).dtype)
    fit = [
        name
        for name, value in g.values.items()
        if str(value.dtype) == dtype and value.ndim > 1 and value.shape[-2] == shape[-1]
    ]
    if fit and g.maybe():
        return Proposal("MatMul", [x, g.chance.choice(fit)])
    front = [size if g.maybe() else 1 for size in shape[:-2]] if g.maybe(0.3) else []
    columns = g.chance.choice(([], [1], [5], [16], [33])) if not front else [4]
    return Proposal("MatMul", [x, g.weight((*front, shape[-1], *columns), dtype)])


def gemm(g: Garden) -> Proposal:
    x = g.value("float32", 2, 2)
    turned_a, turned_b = g.chance.randint(0, 1), g.chance.randint(0, 1)
    rows, inner = g.look(x).shape[::-1] if turned_a else g.look(x).shape
    columns = g.chance.choice((1, 3, 16, 21))
    inputs = [x, g.weight((columns, inner) if turned_b else (inner, columns))]
    if g.opset < 11 or g.maybe(0.7):
        inputs.append(g.weight(g.chance.choice(((columns,), (1,), (rows, 1), (rows, columns)))))
    attributes = {"transA": turned_a, "transB": turned_b}
    scales = {"alpha": 0.5, "beta": g.chance.choice((0.0, 1.0, 2.0))} if g.maybe() else {}
    return Proposal("Gemm", inputs, {**attributes, **scales})


def einsum(g: Garden) -> Proposal:
    x = g.value("float32", 3, 3)
    n, i, k = g.look(x).shape
    equation, shape = g.chance.choice(
        (("nik,kj->nij", (k, 3)), ("nik,njk->nij", (n, 4, k)), ("nik,nik->n", (n, i, k)))
    )
    return Proposal("Einsum", [x, g.weight(shape)], {"equation": equation})


def matmul_integer(g: Garden) -> Proposal:
    x = g.value("uint8", 2, 3)
    weights = g.weight((g.look(x).shape[-1], 5), g.chance.choice(("uint8", "int8")))
    zero = g.constant(np.asarray(3, np.uint8))
    return Proposal("MatMulInteger", [x, weights, *([zero] if g.maybe() else [])])


def quantize(g: Garden) -> Proposal:
    dtype = g.chance.choice(("uint8", "int8"))
    zero = g.constant(np.asarray(g.chance.choice((0, 5)), dtype))
    return Proposal("QuantizeLinear", [g.value("float32"), g.constant(np.float32(0.037)), zero])


def dequantize(g: Garden) -> Proposal:
    x = g.value("uint8 int8")
    zero = g.constant(np.asarray(g.chance.choice((0, 3)), g.look(x).dtype))
    return Proposal("DequantizeLinear", [x, g.constant(np.float32(0.05)), zero])


# --- normalizations -----------------------------------------------------------------------------


def batch_norm(g: Garden) -> Proposal:
    x = image(g, 2)
    channels = (g.look(x).shape[1],)
    variance = g.constant(np.abs(g.draw(channels)) + np.float32(0.1))
    inputs = [x, *(g.weight(channels) for _ in range(3)), variance]
    return Proposal("BatchNormalization", inputs, {"epsilon": 1e-3})


def instance_norm(g: Garden) -> Proposal:
    x = image(g)
    channels = (g.look(x).shape[1],)
    return Proposal("InstanceNormalization", [x, g.weight(channels), g.weight(channels)])


def layer_norm(g: Garden) -> Proposal:
    x = g.value("float32", 1)
    axis = g.axis(g.look(x).ndim)
    shape = g.look(x).shape[axis:] if axis else g.look(x).shape
    inputs = [x, g.weight(shape), *([g.weight(shape)] if g.maybe() else [])]
    return Proposal("LayerNormalization", inputs, {"axis": axis, "epsilon": 1e-2})


def group_norm(g: Garden) -> Proposal:
    x = image(g)
    channels = g.look(x).shape[1]
    groups = g.chance.choice([each for each in range(1, channels + 1) if channels % each == 0])
    size = (groups,) if g.opset < 21 else (channels,)
    inputs = [x, g.weight(size), g.weight(size)]
    return Proposal("GroupNormalization", inputs, {"num_groups": groups, "epsilon": 1e-2})


def response_norm(g: Garden) -> Proposal:
    return Proposal("LRN", [image(g, 4, 4)], {"size": g.chance.choice((1, 3, 5)), "alpha": 0.1})


def mean_variance(g: Garden) -> Proposal:
    return Proposal("MeanVarianceNormalization", [image(g, 4, 4)])


def dropout(g: Garden) -> Proposal:
    return Proposal("Dropout", [g.value("float32")])


# --- steps and control flow ---------------------------------------------------------------------


def recurrent(op: str, gates: int) -> Template:
    def template(g: Garden) -> Proposal:
        x = g.value("float32", 3, 3)
        steps, batch, width = g.look(x).shape
        hidden, ways = g.chance.choice((1, 3, 4)), g.chance.choice((1, 1, 2))
        inputs = [
            x,
            g.weight((ways, gates * hidden, width)),
            g.weight((ways, gates * hidden, hidden)),
            g.weight((ways, 2 * gates * hidden)) if g.maybe() else "",
            g.constant(g.numbers.integers(1, steps + 1, batch).astype(np.int32))
            if g.maybe(0.2)
            else "",
            g.weight((ways, batch, hidden)) if g.maybe(0.3) else "",
        ]
        while not inputs[-1]:
            inputs.pop()
        direction = "bidirectional" if ways == 2 else g.chance.choice(("forward", "reverse"))
        attributes = {"hidden_size": hidden, "direction": direction}
        if op == "GRU":
            attributes["linear_before_reset"] = g.chance.randint(0, 1)
        return Proposal(op, inputs, attributes, g.chance.randint(1, 3 if op == "LSTM" else 2))

    return template


def _body(
    name: str, nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str]
) -> onnx.GraphProto:
    made = [helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in outputs]
    return helper.make_graph(nodes, name, inputs, made)


def scan(g: Garden) -> Proposal:
    """A running sum, times what is scanned: states, steps and a last state."""
    x = g.value("float32", 2)
    step = g.look(x).shape[1:]
    start = g.weight(step)
    nodes = [
        helper.make_node(g.chance.choice(("Add", "Mul")), ["s", "e"], ["t"]),
        helper.make_node(g.chance.choice(("Tanh", "Sigmoid")), ["t"], ["u"]),
        helper.make_node("Sub", ["u", "e"], ["o"]),
    ]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, step) for name in ("s", "e")]
    body = _body("body", nodes, info, ["u", "o"])
    attributes: dict[str, Any] = {"body": body, "num_scan_inputs": 1}
    if g.maybe(0.3):
        attributes["scan_input_directions"] = [1]
    if g.maybe(0.3):
        attributes["scan_output_directions"] = [1]
    return Proposal("Scan", [start, x], attributes, 2)


def loop(g: Garden) -> Proposal:
    """A state that goes round so many times, and what it was each time."""
    state = g.value("float32")
    shape = g.look(state).shape
    nodes = [
        helper.make_node(g.chance.choice(("Sin", "Tanh", "Neg")), ["s"], ["t"]),
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Identity", ["t"], ["o"]),
    ]
    info = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, shape),
    ]
    made = [
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        *(helper.make_tensor_value_info(each, TensorProto.FLOAT, None) for each in ("t", "o")),
    ]
    body = helper.make_graph(nodes, "body", info, made)
    times = g.constant(g.chance.randint(1, 4))
    return Proposal("Loop", [times, g.constant(True, "bool"), state], {"body": body}, 2)


def branch(g: Garden) -> Proposal:
    """Either of two functions of values that the branches see from outside."""
    x = g.value("float32")
    arms = {
        name: _body(name, [helper.make_node(op, [x], [f"{name}_y"])], [], [f"{name}_y"])
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    return Proposal("If", [g.constant(g.maybe(), "bool")], arms, seen=[x])


WINDOWS: tuple[Template, ...] = (
    *(convolution,) * 6,
    *(transposed,) * 2,
    *map(pooling, ("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")),
    *(global_pooling, resize, resize, grid_sample),
    *(matmul, matmul, matmul, gemm, gemm, einsum, matmul_integer),
    *(quantize, dequantize),
    *(batch_norm, batch_norm, instance_norm, layer_norm, layer_norm, group_norm),
    *(response_norm, mean_variance, dropout),
    recurrent("LSTM", 4),
    recurrent("GRU", 3),
    recurrent("RNN", 1),
    *(scan, loop, branch),
)
