"""Graphs written to ONNX: sound, and with equal outputs in onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import weft
from tests.conformance.cases import node_cases
from tests.conformance.check import as_array, flat, imported, names_of
from tests.frontends.models import model, node
from weft.dtypes import DType
from weft.errors import UserError
from weft.frontends.onnx import import_model, load, save, write
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.evaluate import evaluate
from weft.ops.framing import FramesAttributes, OverlapAttributes
from weft.ops.resampling import ResampleAttributes
from weft.ops.table import OPS

# Each has something of its own that has to be put into ONNX's form.
NODE_TESTS = """
argmax_keepdims_example averagepool_2d_pads_count_include_pad basic_conv_with_padding
batchnorm_epsilon cast_FLOAT_to_DOUBLE clip clip_default_min compress_0 concat_3d_axis_1
constant_pad convtranspose_output_shape cumsum_1d_reverse depthtospace_example einsum_inner_prod
expand_dim_changed eyelike_with_dtype gather_1 gelu_tanh_1 gemm_all_attributes
gru_with_initial_bias hardmax_axis_1 isinf_positive layer_normalization_4d_axis1 leakyrelu
lstm_with_peepholes maxpool_2d_dilations mod_mixed_sign_int32 nllloss_NC
pow qlinearconv quantizelinear range_int32_type_negative_delta_expanded reduce_l2_keep_dims_example
reduce_max_do_not_keepdims_example reshape_zero_and_negative_dim resize_downsample_sizes_cubic
resize_tf_crop_and_resize reversesequence_batch scan9_sum scan9_multi_state scatternd_add
slice slice_neg_steps softmax_axis_1 split_variable_parts_2d_opset18 squeeze tile top_k_smallest
transpose_default tril unsqueeze_two_axes where_example shrink_hard
""".split()


def same_in_onnxruntime(graph: Graph, inputs: dict[str, np.ndarray]) -> None:
    written = write(graph)
    onnx.checker.check_model(written, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        written.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = evaluate(graph, inputs, OPS)
    for name, found in zip(graph.outputs, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(found, wanted[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NODE_TESTS)
def test_node_tests(name: str) -> None:
    case = node_cases()[f"test_{name}"]
    values = [as_array(value) for value in case.data[0][0]]
    names = names_of(case)[: len(values)]
    graph, _ = imported(case, names, values)
    feeds = dict(flat(zip(names, values, strict=True)))
    same_in_onnxruntime(graph, {each: feeds[each] for each in graph.inputs})
    again = import_model(write(graph), name=graph.name)
    assert [each.op for each in again.nodes] == [each.op for each in graph.nodes]
    assert [each.attributes for each in again.nodes if each.op != "Scan"] == [
        each.attributes for each in graph.nodes if each.op != "Scan"
    ]


def test_a_split_into_equal_parts_says_how_many() -> None:
    source = model([node("Split", "x", "a b", axis=0)], {"x": [4]}, ["a", "b"], opset=13)
    same_in_onnxruntime(import_model(source), {"x": np.arange(4, dtype=np.float32)})


def test_scan_with_invariants() -> None:
    body = helper.make_graph(
        [node("MatMul", "h w", "m"), node("Add", "m row", "next"), node("Tanh", "next", "seen")],
        "body",
        [helper.make_tensor_value_info(name, 1, [1, 4]) for name in ("h", "row")],
        [helper.make_tensor_value_info(name, 1, [1, 4]) for name in ("next", "seen")],
    )
    source = model(
        [
            node("Relu", "x", "rows"),
            node("Abs", "v", "w"),
            node(
                "Scan", "start rows", "last all", "scan", body=body, num_scan_inputs=1,
                scan_input_directions=[1], scan_output_axes=[1],
            ),
        ],
        {"x": [6, 1, 4], "v": [4, 4], "start": [1, 4]},
        ["last", "all"],
    )  # fmt: skip
    rng = np.random.default_rng(0)
    graph = import_model(source)
    inputs = {
        name: rng.standard_normal(graph.types[name].dims).astype(np.float32) / 4
        for name in graph.inputs
    }
    same_in_onnxruntime(graph, inputs)


def test_symbolic_batch() -> None:
    graph = import_model(model([node("Relu", "x", "y")], {"x": ["batch", 3]}))
    assert import_model(write(graph)).types == graph.types


def test_save(tmp_path: Path) -> None:
    weights = np.arange(4, dtype=np.float32)
    source = model([node("Add", "x w", "y", "sum")], {"x": [4]}, constants={"w": weights})
    graph = import_model(source, name="saved")
    save(graph, tmp_path / "saved.onnx")
    assert load(tmp_path / "saved.onnx") == graph


def test_names_are_kept_after_surgery() -> None:
    def function(x: weft.Value) -> weft.Value:
        made = weft.layers.Conv(3, 3, padding=1, name="/stem/conv.0")(x)
        made = weft.ops.relu(weft.layers.BatchNorm(name="bn")(made), name="relu.1")
        return weft.ops.softmax((x + made).named("/stem/out:0"), axis=1, name="scores")

    net = weft.trace(function, "f32[1,3,6,6]")
    changed = net.insert("/stem/out:0", weft.ops.sigmoid).rename({"x": "image"}, {"scores": "p/1"})
    for each in (net, changed, changed.simplified(), changed.expanded()):
        graph = each.graph
        again = import_model(write(graph), name=graph.name)
        assert (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
        assert [(each.name, each.op, each.outputs) for each in again.nodes] == [
            (each.name, each.op, each.outputs) for each in graph.nodes
        ]
        assert dict(again.types) == dict(graph.types)
        x = np.random.default_rng(0).normal(size=(1, 3, 6, 6)).astype(np.float32)
        same_in_onnxruntime(graph, {graph.inputs[0]: x})


def test_save_very_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.frontends.onnx.writing.INLINE_BYTES", 1000)
    weights = np.arange(4096, dtype=np.float32)
    source = model([node("Add", "x w", "y", "sum")], {"x": [4096]}, constants={"w": weights})
    graph = import_model(source, name="saved")
    save(graph, tmp_path / "saved.onnx")
    assert (tmp_path / "saved.onnx.data").stat().st_size >= 16384
    assert load(tmp_path / "saved.onnx") == graph


def test_windows_by_tables_and_their_sums() -> None:
    builder = GraphBuilder(OPS)
    x = builder.input("x", TensorType(DType.F32, (2, 9, 3)))
    frames = builder.op("Frames", x, attributes=FramesAttributes(4, 2, 1))
    y = builder.op("OverlapAdd", frames, attributes=OverlapAttributes(3), output="y")
    graph = builder.graph([y, frames])
    given = np.random.default_rng(0).standard_normal((2, 9, 3)).astype(np.float32)
    same_in_onnxruntime(graph, {"x": given})


def test_ops_that_onnx_does_not_have() -> None:
    builder = GraphBuilder(OPS)
    f32 = DType.F32
    x = builder.input("x", TensorType(f32, (4,)))
    places = builder.input("places", TensorType(DType.I32, (3, 1)))
    weights = builder.input("weights", TensorType(f32, (3, 1)))
    y = builder.op("Resample", x, places, weights, attributes=ResampleAttributes(0), name="odd")
    with pytest.raises(UserError) as error:
        write(builder.graph([y]))
    assert str(error.value) == "onnx: some ops cannot be written; got odd (Resample)"
