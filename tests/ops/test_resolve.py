"""Attributes that were not given: what nodes hold in their place, whoever makes them."""

from __future__ import annotations

from dataclasses import fields
from dataclasses import replace as changed

import numpy as np
import pytest

import weft
from tests.ops.samples import Sample
from tests.ops.test_oracle import SAMPLES
from weft.ir.graph import Graph, Node
from weft.ir.native import load, save
from weft.ir.types import parse_type
from weft.ops.build import GraphBuilder
from weft.ops.convolution import ConvAttributes
from weft.ops.resolve import resolved
from weft.ops.table import OPS

OPEN = {
    "Attention.scale": "follows the width of a head",
    "Attention.softmax_precision": "the precision of the inputs",
    "Attention.q_num_heads": "of packed queries only",
    "Attention.kv_num_heads": "of packed keys only",
    "Clip.min": "none is no bound",
    "Clip.max": "none is no bound",
    "Compress.axis": "none is all elements in a row",
    "DFT.dft_length": "follows the length of the signal",
    "DequantizeLinear.output_dtype": "follows the element type",
    "EyeLike.dtype": "follows the element type",
    "NegativeLogLikelihoodLoss.ignore_index": "none is no index",
    "SoftmaxCrossEntropyLoss.ignore_index": "none is no index",
    "MaxUnpool.output_shape": "follows the size of the image",
    "NonMaxSuppression.count": "none is as many as there may be",
    "NonMaxSuppression.score_threshold": "none is no bound",
    "NonZero.count": "none is as many as there may be",
    "QuantizeLinear.output_dtype": "follows the element type",
    "QuantizeLinear.precision": "follows the element type",
    "Resize.scales": "sizes are given",
    "Resize.sizes": "scales are given",
    "Resize.roi": "the whole",
    "STFT.frame_length": "follows the length of the signal",
    "Shape.end": "none is the last",
    "Split.num_outputs": "follows the number of outputs",
    "Split.split": "follows the size of the axis",
    "Unique.axis": "none is all elements in a row",
    "Unique.count": "none is as many as there may be",
    "UniqueGroups.axis": "none is all elements in a row",
    "UniqueGroups.count": "none is as many as there may be",
    "GRU.activation_alpha": "of activations that take one",
    "GRU.activation_beta": "of activations that take one",
    "LSTM.activation_alpha": "of activations that take one",
    "LSTM.activation_beta": "of activations that take one",
    "RNN.activation_alpha": "of activations that take one",
    "RNN.activation_beta": "of activations that take one",
}
"""Attributes that stay as they are given though ``None`` or ``()`` stands for something."""


def test_every_attribute_without_a_value_is_resolved_or_known() -> None:
    for op in OPS.builtin.values():
        for each in fields(op.attributes):
            if each.default is None or each.default == ():
                assert each.name in op.implied or f"{op.name}.{each.name}" in OPEN, (op, each)


def test_what_is_implied_are_attributes() -> None:
    for op in OPS.builtin.values():
        assert op.implied.keys() <= {each.name for each in fields(op.attributes)}


@pytest.mark.parametrize("sample", [s for s in SAMPLES if OPS[s.op].implied], ids=str)
def test_resolved_attributes_mean_the_same(sample: Sample) -> None:
    op, call = OPS[sample.op], sample.call
    found = op.resolved(call)
    again = changed(call, attributes=found)
    assert op.resolved(again) is found
    assert op.infer(again) == op.infer(call)
    with np.errstate(all="ignore"):
        for one, other in zip(
            op.reference(again, *sample.arrays), op.reference(call, *sample.arrays), strict=True
        ):
            np.testing.assert_array_equal(one, other)
    assert None not in [getattr(found, name) for name in op.implied]


FULL = ConvAttributes((3, 3), (1, 1), (1, 1), (0, 0, 0, 0))
BARE = Graph(
    "bare",
    ("x", "w"),
    ("y",),
    (Node("conv", "Conv", ("x", "w"), ("y",), ConvAttributes()),),
    {name: parse_type(text) for name, text in (("x", "f32[1,3,8,8]"), ("w", "f32[4,3,3,3]"))}
    | {"y": parse_type("f32[1,4,6,6]")},
)


def found_in(net: weft.Net) -> int:
    assert net.graph.nodes[-1].attributes == FULL
    return len(net.query("Conv[kernel=(3,3), strides=(1,1), dilations=(1,1), pads=(0,0,0,0)]"))


def test_whoever_makes_a_node(tmp_path) -> None:
    x = weft.input("x", "f32[1,3,8,8]")
    w = np.ones((4, 3, 3, 3), np.float32)
    made = weft.net([x], [weft.ops.conv(x, w)])
    assert found_in(made) == 1
    assert found_in(made.simplified()) == 1
    assert found_in(weft.trace(lambda x: weft.ops.conv(x, w), "f32[1,3,8,8]")) == 1
    assert found_in(weft.trace(weft.layers.Conv(4, 3), "f32[1,3,8,8]")) == 1
    assert found_in(weft.Net(BARE)) == 1
    assert resolved(BARE).nodes[0].attributes == FULL
    once = resolved(BARE)
    assert resolved(once) is once
    builder = GraphBuilder(OPS)
    builder.op("Conv", builder.input("x", x.type), builder.input("w", parse_type("f32[4,3,3,3]")))
    assert builder.nodes[0].attributes == FULL
    # A file of an earlier Weft holds what was given.
    save(BARE, tmp_path / "old.weft")
    assert load(tmp_path / "old.weft", lambda op: OPS[op].attributes) == BARE
    assert found_in(weft.load(tmp_path / "old.weft")) == 1
    assert found_in(weft.merge({"a": BARE}, {})) == 1
    assert found_in(weft.Net(BARE).replace("conv", BARE)) == 1


def test_rules_fire_on_what_was_built_by_hand() -> None:
    x = weft.input("x", "f32[1,4,8,8]")
    net = weft.net([x], [weft.ops.max_pool(x, (1, 1))])
    assert [node.op for node in net.simplified().graph.nodes] == ["Identity"]
    assert len(net.query("MaxPool[kernel=(1,1), strides=(1,1), pads=(0,...)]")) == 1
