"""Channels of integer layers that are constant for every input go, and no output changes."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rewrite.checks import graph_of
from tests.turns import examples
from weft.compress.constant_channels import ConstantChannelParameters, without_constant_channels
from weft.compress.constant_proof import constant_channels, proof
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.arithmetic import ClipAttributes
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.ops.evaluate import evaluate
from weft.ops.ordering import TransposeAttributes
from weft.ops.requantization import RequantizeAttributes, fixed_point
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import ConcatAttributes
from weft.ops.table import OPS
from weft.ops.value_bounds import value_bounds
from weft.recipes import apply

EXTREME = 1 << 30


def same_outputs(before: Graph, after: Graph, runs: int = 3) -> None:
    """Both graphs give the same bits for random inputs, and for the smallest and the largest."""
    rng = np.random.default_rng(3)
    for run in range(runs + 2):
        inputs = {}
        for value in before.inputs:
            type = before.types[value]
            low, high = type.dtype.limits
            ends = {runs: (low, low), runs + 1: (high, high)}.get(run, (low, high))
            data = rng.integers(ends[0], ends[1], type.dims, endpoint=True)
            inputs[value] = data.astype(type.dtype.numpy)
        first, second = (evaluate(graph, inputs, OPS) for graph in (before, after))
        for value, array in first.items():
            np.testing.assert_array_equal(array, second[value], err_msg=value)


def channels(graph: Graph, op: str) -> list[int]:
    return [graph.types[node.outputs[0]].dims[1] for node in graph.nodes if node.op == op]


# --- single layers ------------------------------------------------------------------------------


def two_layers(pads: int, middle: str = "") -> Graph:
    """A pointwise convolution with an extreme bias, and one that reads it.

    Channel 1 saturates at -128, channel 2 at 127, channel 3 is the rounded bias.
    """
    weight = np.ones((4, 2, 1, 1), np.int8)
    weight[3] = 0
    kernel = 3 if pads else 1
    read = np.ones((2, 4, kernel, kernel), np.int8)
    text = f"""(%x: i8[1,2,5,5]) -> (%y) {{
      const %s: f32[] = [0.0625]
      const %z: i8[] = [-128]
      const %n: i8[] = [0]
      const %w: i8[4,2,1,1]
      const %b: i32[4] = [3, {-EXTREME}, {EXTREME}, 77]
      const %v: i8[2,4,{kernel},{kernel}]
      %c: i8[1,4,5,5] = QLinearConv(%x, %s, %z, %w, %s, %n, %s, %z, %b)
      {middle}
      %y: i8[1,2,5,5] = QLinearConv({"%d" if middle else "%c"}, %s, %z, %v, %s, %n, %s, %z)
          {{pads=({pads},{pads},{pads},{pads})}}
    }}"""
    return graph_of(text, w=weight, v=read)


def test_all_constant_channels_of_a_pointwise_convolution_go():
    graph = two_layers(0)
    done = apply(graph, "constant-channels", {"multiple": 1})
    assert channels(done, "QLinearConv") == [1, 2]
    same_outputs(graph, done)


def test_a_channel_beside_padding_of_another_value_stays():
    graph = two_layers(1)
    done = apply(graph, "constant-channels", {"multiple": 1})
    # Only channel 1 is the zero point, which padding is, too.
    assert channels(done, "QLinearConv") == [3, 2]
    same_outputs(graph, done)


def test_a_kept_channel_computes_what_another_does():
    graph = two_layers(0)
    done = apply(graph, "constant-channels", {"multiple": 2})
    assert channels(done, "QLinearConv") == [2, 2]
    bias = next(node for node in done.nodes if node.op == "QLinearConv").inputs[8]
    np.testing.assert_array_equal(done.constants[bias], [3, 3])
    same_outputs(graph, done)
    assert apply(graph, "constant-channels", {"multiple": 4}) is graph


def test_a_constant_depthwise_channel_needs_no_constant_input():
    middle = """const %u: i8[4,1,3,3]
      const %k: i32[4] = [-1073741824, 0, 1, 2]
      %d: i8[1,4,5,5] = QLinearConv(%c, %s, %z, %u, %s, %n, %s, %z, %k)
          {groups=4, pads=(1,1,1,1)}"""
    graph = two_layers(0, middle)
    done = apply(graph, "constant-channels", {"multiple": 1})
    # Channel 0 is made constant by the second layer, 1 by the first; the border of 2 and of 3
    # differs from their inside.
    assert channels(done, "QLinearConv") == [2, 2, 2]
    assert done.nodes[1].attributes.groups == 2
    same_outputs(graph, done)


def test_channels_of_outputs_stay():
    graph = two_layers(0)
    graph = changed(graph, outputs=(*graph.outputs, "c"))
    assert apply(graph, "constant-channels") is graph


def test_a_channel_that_is_not_read_goes():
    graph = two_layers(0)
    weight = graph.constants["v"].copy()
    weight[:, 0] = 0
    graph = changed(graph, constants={**graph.constants, "v": weight})
    done = apply(graph, "constant-channels", {"multiple": 1})
    # One must stay, whatever it is.
    assert channels(done, "QLinearConv") == [1, 2]
    same_outputs(graph, done)


def test_layers_with_the_channels_last():
    text = f"""(%x: i8[1,5,5,2]) -> (%y) {{
      const %s: f32[] = [0.0625]
      const %z: i8[] = [-128]
      const %n: i8[] = [0]
      const %w: i8[4,2,1,1]
      const %b: i32[4] = [3, {-EXTREME}, 5, 77]
      const %u: i8[4,1,3,3]
      const %v: i8[2,4,1,1]
      %c: i8[1,5,5,4] = QLinearConvChannelsLast(%x, %s, %z, %w, %s, %n, %s, %z, %b)
      %d: i8[1,5,5,4] = QLinearConvChannelsLast(%c, %s, %z, %u, %s, %n, %s, %z)
          {{groups=4, pads=(1,1,1,1)}}
      %y: i8[1,5,5,2] = QLinearConvChannelsLast(%d, %s, %z, %v, %s, %n, %s, %z)
    }}"""
    shapes = {"w": (4, 2, 1, 1), "u": (4, 1, 3, 3), "v": (2, 4, 1, 1)}
    graph = graph_of(text, **{name: np.ones(dims, np.int8) for name, dims in shapes.items()})
    done = apply(graph, "constant-channels", {"multiple": 1})
    assert [done.types[node.outputs[0]].dims[3] for node in done.nodes] == [3, 3, 2]
    same_outputs(graph, done)


def test_sums_get_a_bias_of_their_own():
    text = """(%x: i8[1,3]) -> (%y) {
      const %zx: i8[] = [3]
      const %w: i8[3,4]
      const %b: i32[4] = [0, 1073741824, -1073741824, 9]
      const %m: i32[] = [1073741824]
      const %e: i32[] = [-6]
      const %z: i8[] = [-1]
      const %v: i8[4,2]
      %c: i32[1,4] = MatMulInteger(%x, %w, %zx)
      %a: i32[1,4] = Add(%c, %b)
      %r: i8[1,4] = Requantize(%a, %m, %e, %z)
      %y: i32[1,2] = MatMulInteger(%r, %v, %z)
    }"""
    graph = graph_of(text, w=np.full((3, 4), 20, np.int8), v=np.ones((4, 2), np.int8))
    done = apply(graph, "constant-channels", {"multiple": 1})
    # The first layer has an addition already, the second one gets one.
    assert [node.op for node in done.nodes] == [
        "MatMulInteger",
        "Add",
        "Requantize",
        "MatMulInteger",
        "Add",
    ]
    assert done.types["r"].dims == (1, 2)
    same_outputs(graph, done)


def test_a_constant_that_is_added_already_takes_the_bias():
    text = """(%x: i8[1,1,4,4]) -> (%y) {
      const %w: i8[2,1,1,1]
      const %b: i32[2,1,1] = [1073741824, 9]
      const %m: i32[] = [1073741824]
      const %e: i32[] = [-6]
      const %z: i8[] = [-1]
      const %v: i8[3,2,1,1]
      const %k: i32[3,1,1] = [7, 8, 9]
      %c: i32[1,2,4,4] = ConvInteger(%x, %w)
      %a: i32[1,2,4,4] = Add(%c, %b)
      %r: i8[1,2,4,4] = Requantize(%a, %m, %e, %z)
      %s: i32[1,3,4,4] = ConvInteger(%r, %v, %z)
      %y: i32[1,3,4,4] = Add(%k, %s)
    }"""
    graph = graph_of(text, w=np.full((2, 1, 1, 1), 20, np.int8), v=np.ones((3, 2, 1, 1), np.int8))
    done = apply(graph, "constant-channels", {"multiple": 1})
    assert [node.op for node in done.nodes] == [node.op for node in graph.nodes]
    assert channels(done, "Requantize") == [1]
    bias = done.constants[done.nodes[-1].inputs[0]]
    np.testing.assert_array_equal(bias.reshape(-1), [7 + 128, 8 + 128, 9 + 128])
    same_outputs(graph, done)


def test_the_proof():
    graph = two_layers(0)
    assert proof(graph) == (
        f"{graph.nodes[0].name}: 3 of 4 channels are constant",
        "  channel 1: sums -1073741824..-1073741314, always -128",
        "  channel 2: sums 1073741824..1073742334, always 127",
        "  channel 3: sums 77..77, always -123",
    )
    (found,) = constant_channels(graph)
    assert (found.layer, found.count) == (graph.nodes[0].name, 4)


def test_a_wrong_multiple():
    with pytest.raises(UserError) as error:
        without_constant_channels(two_layers(0), ConstantChannelParameters(0))
    assert str(error.value) == "constant-channels: multiple must be at least 1; got 0"


def test_masks_are_for_floats():
    with pytest.raises(UserError) as error:
        apply(two_layers(0), "prune", {"ratio": 0.5, "masked": True})
    assert str(error.value) == (
        "prune: masked multiplies by zero, which integers with a zero point are not; got c: "
        "i8[1,4,5,5] (node y). Leave out masked, or protect the layers before it "
        "with `protect`."
    )


# --- random networks ----------------------------------------------------------------------------


class Maker:
    """Adds random integer layers to a graph; half of all biases are extreme."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 1 << 16)))
        self.builder = GraphBuilder(OPS)
        self.litert = draw(st.booleans())
        self.zeros: dict[str, str] = {}
        self.last = self.builder.input("x", TensorType(DType.I8, (1, 3, 5, 4)))
        self.zeros[self.last] = self.zero()

    def zero(self) -> str:
        value = self.draw(st.sampled_from([-128, -128, -5, 0]))
        return self.builder.constant(np.array(value, np.int8), "zero")

    def scale(self, value: float) -> str:
        return self.builder.constant(np.float32(value), "scale")

    def bias(self, count: int) -> str:
        kinds = self.rng.integers(0, 4, count)
        values = self.rng.integers(-2000, 2000, count)
        values = np.where(kinds == 0, -EXTREME, np.where(kinds == 1, EXTREME - 64, values))
        return self.builder.constant(values.astype(np.int32), "bias")

    def weight(self, *shape: int) -> str:
        values = self.rng.integers(-127, 128, shape)
        values[self.rng.random(shape[0]) < 0.2] = 0
        return self.builder.constant(values.astype(np.int8), "w")

    def conv(self, kind: str) -> None:
        given = self.builder.types[self.last].dims[1]
        kernel = 1 if kind == "point" else 3
        count = given if kind == "depth" else self.draw(st.sampled_from([3, 4, 6]))
        pads = (kernel // 2,) * 4 if self.draw(st.booleans()) or kernel == 3 else (0,) * 4
        groups = given if kind == "depth" else 1
        attributes = ConvAttributes(pads=pads, groups=groups)
        weight = self.weight(count, given // groups, kernel, kernel)
        zero, none = self.zero(), self.builder.constant(np.array(0, np.int8), "none")
        build, x = self.builder, self.last
        if self.litert:
            sums = build.op("ConvInteger", x, weight, self.zeros[x], none, attributes=attributes)
            bias = build.constants[self.bias(count)].reshape(-1, 1, 1)
            sums = build.op("Add", sums, build.constant(bias, "bias"))
            pairs = [fixed_point(2.0 ** -float(self.rng.integers(5, 20))) for _ in range(count)]
            lines = [np.array(each, np.int32) for each in zip(*pairs, strict=True)]
            names = [build.constant(each, "requantize") for each in lines]
            y = build.op("Requantize", sums, *names, zero, attributes=RequantizeAttributes(1))
        else:
            scales = (2.0 ** -self.rng.integers(5, 20, count)).astype(np.float32)
            one = self.scale(1.0)
            y = build.op(
                "QLinearConv",
                *(x, one, self.zeros[x], weight, build.constant(scales, "ws"), none, one, zero),
                self.bias(count),
                attributes=attributes,
            )
        if self.draw(st.booleans()):
            y = build.op("Clip", y, attributes=ClipAttributes(-100, 90))
        self.last, self.zeros[y] = y, zero

    def residual(self) -> None:
        """A layer and what it reads, added in floats."""
        x, build = self.last, self.builder
        self.conv("depth")
        one = self.scale(0.5)
        sides = [
            build.op("DequantizeLinear", each, one, self.zeros[each]) for each in (x, self.last)
        ]
        total = build.op("Add", *sides)
        y = build.op("QuantizeLinear", total, one, self.zeros[x])
        self.last, self.zeros[y] = y, self.zeros[x]

    def joined(self) -> None:
        """Two layers, concatenated."""
        x = self.last
        self.conv("point")
        first, self.last = self.last, x
        self.conv("dense")
        y = self.builder.op("Concat", first, self.last, attributes=ConcatAttributes(1))
        self.zeros[y] = self.zeros[self.last]
        self.last = y

    def done(self) -> Graph:
        """The graph, perhaps with a matrix product behind it."""
        build = self.builder
        if self.draw(st.booleans()):
            _, count, height, width = build.types[self.last].dims
            order = TransposeAttributes((0, 2, 3, 1))
            last = build.op("Transpose", self.last, attributes=order)
            size = count * height * width
            flat = build.op("Reshape", last, attributes=ReshapeAttributes((1, size)))
            weight = self.weight(size, 5)
            y = build.op("MatMulInteger", flat, weight, self.zeros[self.last])
        else:
            self.conv("point")
            y = self.last
        return build.graph([y])


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Random integer networks."""
    maker = Maker(draw)
    kinds = ["dense", "point", "depth", "depth", "residual", "joined"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=5)):
        match kind:
            case "residual":
                maker.residual()
            case "joined":
                maker.joined()
            case _:
                maker.conv(kind)
    return maker.done()


@settings(max_examples=examples(72), deadline=None)
@given(networks(), st.sampled_from([1, 2]))
def test_random_networks_keep_their_outputs(graph: Graph, multiple: int):
    done = apply(graph, "constant-channels", {"multiple": multiple})
    same_outputs(graph, done)


@settings(max_examples=examples(72), deadline=None)
@given(networks(), st.integers(0, 1 << 16))
def test_values_are_within_their_bounds(graph: Graph, seed: int):
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, graph.types["x"].dims).astype(np.int8)
    x[rng.random(x.shape) < 0.3] = rng.choice([-128, 127])
    values = evaluate(graph, {"x": x}, OPS, keep=True)
    for value, bounds in value_bounds(graph).items():
        array = values[value]
        assert (bounds.low <= array).all(), value
        assert (array <= bounds.high).all(), value
