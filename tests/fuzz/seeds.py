"""Valid models to damage: small, and with every construct that the importer knows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.conformance.cases import Case, model_cases, node_cases
from tests.conformance.check import as_array, imported, names_of

NODE_TESTS = """
averagepool_2d_same_upper basic_conv_with_padding batchnorm_example clip concat_3d_axis_1
constant convtranspose_output_shape cumsum_1d_reverse dropout_default_mask expand_dim_changed
gather_elements_0 gathernd_example_int32 gemm_all_attributes group_normalization_example if
if_seq layer_normalization_4d_axis1_expanded loop11 lstm_with_peepholes maxpool_2d_ceil
reduce_sum_keepdims_random reshape_zero_and_negative_dim resize_upsample_scales_cubic
reversesequence_batch scan9_sum scatternd sequence_map_add_2_sequences_expanded
slice softmax_axis_1_expanded split_variable_parts_2d_opset18 squeeze tile top_k transpose_default
unsqueeze_two_axes where_long_example range_float_type_positive_delta onehot_with_axis
center_crop_pad_crop_and_pad attention_3d_expanded qlinearconv einsum_batch_matmul
""".split()


def seed_models() -> Iterator[tuple[str, bytes]]:
    """Names and bytes of valid files."""
    cases = node_cases()
    for name in NODE_TESTS:
        case = cases.get(f"test_{name}")
        if case is not None:
            yield name, _closed(case).SerializeToString()
    for name, case in list(model_cases("pytorch-converted").items())[::6]:
        yield name, case.model.SerializeToString()
    for model in (_shapes(), _nested(), _stored(), _heavy()):
        yield model.graph.name, model.SerializeToString()


def _closed(case: Case) -> onnx.ModelProto:
    """The test's model, with inputs that fix shapes given as initializers."""
    names, values = names_of(case), [as_array(value) for value in case.data[0][0]]
    _, constants = imported(case, names[: len(values)], values)
    found = onnx.ModelProto.FromString(case.model.SerializeToString())
    given = dict(zip(names, values, strict=False))
    for name in constants:
        if isinstance(given[name], np.ndarray):
            found.graph.initializer.append(numpy_helper.from_array(given[name], name))
    return found


def _shapes() -> onnx.ModelProto:
    """A batch that is kept symbolic through shape arithmetic, as PyTorch exports it."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b": rng.standard_normal(4).astype(np.float32),
        "zero": np.array(0),
        "one": np.array([1]),
        "minus": np.array([-1]),
        "front": np.array([0]),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Shape", ["r"], ["s"], "shape"),
        helper.make_node("Gather", ["s", "zero"], ["n"], "gather", axis=0),
        helper.make_node("Unsqueeze", ["n", "front"], ["u"], "unsqueeze"),
        helper.make_node("Concat", ["u", "minus"], ["to"], "concat", axis=0),
        helper.make_node("Reshape", ["r", "to"], ["y"], "reshape"),
    ]
    return _model("shapes", nodes, weights, ["N", 3, 8, 8], ["N", 256])


def _nested() -> onnx.ModelProto:
    """Functions that call functions, with attributes handed down."""
    opset = helper.make_opsetid("", 18)
    inner = helper.make_function(
        "local", "inner", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["b"])], [opset], ["alpha"],
    )  # fmt: skip
    inner.node[0].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    )
    outer = helper.make_function(
        "local", "outer", ["p"], ["q"],
        [
            helper.make_node("inner", ["p"], ["t"], domain="local", alpha=0.5),
            helper.make_node("inner", ["t"], ["q"], domain="local", alpha=0.25),
        ],
        [opset, helper.make_opsetid("local", 1)],
    )  # fmt: skip
    node = helper.make_node("outer", ["x"], ["y"], "call", domain="local")
    return _model("nested", [node], {}, [2, 3], [2, 3], [inner, outer])


def _stored() -> onnx.ModelProto:
    """Constants in every form."""
    indices = numpy_helper.from_array(np.array([1, 4]), "places")
    values = numpy_helper.from_array(np.array([1, 2], np.float32), "sparse")
    sparse = helper.make_sparse_tensor(values, indices, [6])
    nodes = [
        helper.make_node("Constant", [], ["k1"], value_float=1.5),
        helper.make_node("Constant", [], ["k2"], value_floats=[1.0] * 6),
        helper.make_node(
            "Constant", [], ["k3"],
            value=helper.make_tensor("k", TensorProto.FLOAT, [6], [1.0] * 6),
        ),
        helper.make_node("Sum", ["x", "k1", "k2", "k3", "sparse"], ["y"], "sum"),
    ]  # fmt: skip
    model = _model("stored", nodes, {}, [6], [6])
    model.graph.sparse_initializer.append(sparse)
    return model


def _heavy() -> onnx.ModelProto:
    """Weights large enough to be read past protobuf."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((64, 32)).astype(np.float32),
        "b": rng.standard_normal(64).astype(np.float32),
        "v": rng.standard_normal((8, 64, 3)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], "gemm", transB=1),
        helper.make_node("Unsqueeze", ["h", "axes"], ["u"], "unsqueeze"),
        helper.make_node("Conv", ["u", "v"], ["y"], "conv", pads=[1, 1]),
    ]
    return _model("heavy", nodes, {**weights, "axes": [2]}, [2, 32], [2, 8, 1])


def _model(name, nodes, weights, shape, result, functions=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions)
