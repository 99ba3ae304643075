"""What the importer makes of sound models."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.external_data_helper import set_external_data

from tests.frontends.models import model, node
from weft.errors import UserError
from weft.frontends.onnx import RefusedError, import_model, load
from weft.frontends.onnx.tensors import ExternalData, array_of
from weft.ir.compose import bind_symbols
from weft.ir.types import Symbol
from weft.ir.verify import verify
from weft.ops.evaluate import evaluate
from weft.ops.table import OPS

RNG = np.random.default_rng(0)


def run(source: onnx.ModelProto, *inputs: np.ndarray, **options: object) -> list[np.ndarray]:
    graph = import_model(source, **options)
    verify(graph)
    found = evaluate(graph, dict(zip(graph.inputs, inputs, strict=True)), OPS)
    return [found[name] for name in graph.outputs]


def ops_of(source: onnx.ModelProto, **options: object) -> list[str]:
    graph = import_model(source, **options)
    verify(graph)
    return [each.op for each in graph.nodes]


def flattened(*, batch: str | int | None = "batch") -> onnx.ModelProto:
    """``x.view(x.size(0), -1)`` as PyTorch exports it."""
    return model(
        [
            node("Relu", "x", "r", "relu"),
            node("Shape", "r", "s"),
            node("Gather", "s zero", "n", axis=0),
            node("Unsqueeze", "n front", "u"),
            node("Concat", "u rest", "to", axis=0),
            node("Reshape", "r to", "y", "view"),
        ],
        {"x": [batch, 3, 4]},
        constants={"zero": 0, "front": [0], "rest": [-1]},
    )


def test_shape_arithmetic_leaves_no_trace() -> None:
    graph = import_model(flattened(batch=2))
    assert [each.op for each in graph.nodes] == ["Relu", "Reshape"]
    assert graph.nodes[1].attributes.shape == (2, -1)
    assert graph.types["y"].dims == (2, 12)


def test_a_size_by_its_name_holds_in_all_inputs() -> None:
    source = model([node("Add", "a b", "y")], {"a": ["n", "seq"], "b": ["n", "seq"]})
    for given in ({"seq": 5}, {"seq": (5,)}, {"seq": np.int64(5)}):
        graph = import_model(source, given)
        assert [str(graph.types[name]) for name in graph.inputs] == ["f32[n,5]", "f32[n,5]"]
    for given in ({"seq": 5, "n": 2}, {"a": (2, 5)}):
        graph = import_model(source, given)
        assert [str(graph.types[name]) for name in graph.inputs] == ["f32[2,5]", "f32[2,5]"]


def test_batch_stays_symbolic_through_shape_arithmetic() -> None:
    graph = import_model(flattened())
    verify(graph)
    assert graph.types["y"].shape == (Symbol("batch"), 12)
    assert [each.op for each in graph.nodes] == ["Relu", "Reshape"]


def test_unnamed_batch_is_n() -> None:
    assert import_model(flattened(batch=None)).types["y"].shape == (Symbol("N"), 12)


def test_batch_made_concrete() -> None:
    graph = import_model(flattened(), {"x": (5, 3, 4)})
    assert graph.types["y"].dims == (5, 12)


def test_inputs_share_named_sizes() -> None:
    source = model([node("Add", "a b", "y")], {"a": ["k", "m"], "b": ["k", "m"]})
    assert import_model(source, {"a": (2, 3)}).types["b"].dims == (2, 3)


def test_node_names_and_origin() -> None:
    graph = import_model(flattened())
    assert [each.name for each in graph.nodes] == ["relu", "view"]
    assert graph.nodes[1].origin.sources == ("view",)


def test_a_node_gives_way_to_a_value_of_its_name() -> None:
    source = model([node("Relu", "x", "y", "y")], {"x": [2]})
    graph = import_model(source)
    assert (graph.nodes[0].name, graph.nodes[0].outputs) == ("y_", ("y",))


def test_initializers_may_be_listed_as_inputs() -> None:
    source = model(
        [node("Add", "x w", "y")], {"x": [2], "w": [2]}, constants={"w": np.ones(2, "f")}
    )
    assert import_model(source).inputs == ("x",)


def test_an_input_with_a_default_can_be_made_an_input() -> None:
    source = model(
        [node("Add", "x w", "y")], {"x": [2], "w": [2]}, constants={"w": np.ones(2, "f")}
    )
    assert import_model(source, {"w": (2,)}).inputs == ("x", "w")


def test_constants_for_inputs() -> None:
    source = model(
        [node("Reshape", "x s", "y")], {"x": [6], "s": [2]}, types={"s": onnx.TensorProto.INT64}
    )
    with pytest.raises(RefusedError) as error:
        import_model(source)
    assert error.value.needed == ("s",)
    assert error.value.fix == (
        'Give the values: --constant s=VALUE; in Python: weft.load(path, constants={"s": VALUE})'
    )
    graph = import_model(source, constants={"s": np.array([2, 3])})
    assert graph.inputs == ("x",)
    assert graph.types["y"].dims == (2, 3)


def test_outputs_keep_their_names() -> None:
    source = model([node("Identity", "x", "y")], {"x": [2]}, ["y", "x"])
    assert import_model(source).outputs == ("y", "x")


def test_constant_output() -> None:
    source = model([node("Constant", "", "y", value_floats=[1.0, 2.0])], {"x": [2]})
    graph = import_model(source)
    assert graph.nodes == ()
    np.testing.assert_array_equal(graph.constants["y"], np.array([1, 2], np.float32))


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [1, 2]}, np.array([1, 2])),
        ({"value": numpy_helper.from_array(np.array([[7]], np.uint8))}, np.array([[7]], np.uint8)),
    ],
)
def test_constant_nodes(attributes: dict[str, object], wanted: np.ndarray) -> None:
    source = model([node("Constant", "", "y", **attributes)], {})
    found = import_model(source).constants["y"]
    assert found.dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(found, wanted)


def test_sparse_initializer() -> None:
    source = model([node("Add", "x w", "y")], {"x": [2, 3]})
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    places = numpy_helper.from_array(np.array([[0, 2], [1, 0]]), "places")
    source.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
    found = import_model(source).constants["w"]
    np.testing.assert_array_equal(found, np.array([[0, 0, 5], [7, 0, 0]], np.float32))


def test_if_on_a_constant_takes_its_branch() -> None:
    source = model([if_node("condition")], {"x": [2]}, constants={"condition": True})
    assert ops_of(source) == ["Relu", "Identity"]


def test_if_on_a_computed_condition_selects() -> None:
    source = model(
        [if_node("condition")],
        {"x": [2], "condition": []},
        types={"condition": onnx.TensorProto.BOOL},
    )
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(run(source, x, np.array(True))[0], [0, 2])
    np.testing.assert_array_equal(run(source, x, np.array(False))[0], [1, -2])


def if_node(condition: str) -> onnx.NodeProto:
    branches = {
        name: helper.make_graph(
            [node(op, "x", name)], name, [], [helper.make_tensor_value_info(name, 1, None)]
        )
        for name, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    return node("If", condition, "y", "choice", **branches)


def loop(trips: int, *, stop: bool = False) -> onnx.ModelProto:
    """``s = s + x`` in each round; gives ``s`` and its history."""
    done = node("Less", "total limit", "on") if stop else node("Identity", "go", "on")
    body = helper.make_graph(
        [node("Add", "sum x", "total"), done],
        "body",
        [
            helper.make_tensor_value_info("round", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum", 1, []),
        ],
        [
            helper.make_tensor_value_info(name, kind, None)
            for name, kind in (("on", onnx.TensorProto.BOOL), ("total", 1))
        ],
    )
    if not stop:
        body.output.append(helper.make_tensor_value_info("total", 1, None))
    outputs = "y" if stop else "y history"
    return model(
        [node("Loop", "trips yes start", outputs, "loop", body=body)],
        {"x": []},
        outputs.split(),
        constants={
            "trips": trips,
            "yes": True,
            "start": np.float32(1),
            "limit": np.float32(7),
        },
    )


def test_short_loops_are_unrolled() -> None:
    assert "Scan" not in ops_of(loop(2))
    y, history = run(loop(2), np.float32(2))
    assert y == 5
    np.testing.assert_array_equal(history, [3, 5])


def test_long_loops_become_a_scan() -> None:
    assert "Scan" in ops_of(loop(10))
    y, history = run(loop(10), np.float32(2))
    assert y == 21
    np.testing.assert_array_equal(history, np.arange(3, 22, 2))


def test_loops_without_rounds_have_histories_without_rows() -> None:
    y, history = run(loop(0), np.float32(2))
    assert y == 1
    assert history.shape == (0,)


def test_a_computed_condition_freezes_the_state() -> None:
    assert run(loop(10, stop=True), np.float32(2))[0] == 7


def test_functions_are_inlined_with_their_attributes() -> None:
    inner = helper.make_function(
        "local", "scaled", ["a"], ["b"],
        [node("LeakyRelu", "a", "b")], [helper.make_opsetid("", 18)], ["slope"],
    )  # fmt: skip
    inner.node[0].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    calls = [
        node("scaled", "x", "t", "first", domain="local", slope=0.5),
        node("scaled", "t", "y", "second", domain="local", slope=0.25),
    ]
    source = model(calls, {"x": [2]}, functions=[inner])
    graph = import_model(source)
    assert [each.attributes.alpha for each in graph.nodes[:2]] == [0.5, 0.25]
    assert graph.nodes[0].origin.sources == ("first",)
    np.testing.assert_allclose(run(source, np.array([-8, 8], np.float32))[0], [-1, 8])


@pytest.mark.parametrize("given", [{}, {"slope": 3.0}])
def test_attributes_of_a_call_reach_contrib_ops(given: dict[str, float]) -> None:
    contrib = "com.microsoft"
    inner = helper.make_function(
        "local", "gated", ["a"], ["b"],
        [node("QuickGelu", "a", "b", domain=contrib)],
        [helper.make_opsetid("", 18), helper.make_opsetid(contrib, 1)], ["slope"],
    )  # fmt: skip
    inner.node[0].attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    source = model([node("gated", "x", "y", domain="local", **given)], {"x": [3]})
    source.functions.append(inner)
    x = np.array([-1, 0.5, 2], np.float32)
    alpha = given.get("slope", 1.702)
    np.testing.assert_allclose(run(source, x)[0], x / (1 + np.exp(-alpha * x)), rtol=1e-6)


def test_sequences_leave_no_trace() -> None:
    source = model(
        [
            node("SplitToSequence", "x", "parts", axis=0),
            node("SequenceAt", "parts one", "part"),
            node("SequenceInsert", "parts part", "more"),
            node("ConcatFromSequence", "more", "y", axis=0),
        ],
        {"x": [2, 3]},
        constants={"one": 1},
    )
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(source, x)[0], x[[0, 1, 1]])


@pytest.mark.parametrize("trips", [3, 7])
def test_loops_that_carry_a_sequence(trips: int) -> None:
    body = helper.make_graph(
        [
            node("Gather", "x round", "row"),
            node("Neg", "row", "turned"),
            node("SequenceInsert", "rows turned", "more"),
            node("Identity", "go", "on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info("rows", 1, None),
        ],
        [
            helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info("more", 1, None),
        ],
    )
    source = model(
        [
            node("SequenceEmpty", "", "none"),
            node("Loop", "trips yes none", "rows_", "loop", body=body),
            node("ConcatFromSequence", "rows_", "y", axis=0, new_axis=1),
        ],
        {"x": [trips, 2]},
        constants={"trips": trips, "yes": True},
    )
    x = RNG.standard_normal((trips, 2)).astype(np.float32)
    np.testing.assert_array_equal(run(source, x)[0], -x)


def test_nodes_in_any_order() -> None:
    source = model([node("Neg", "t", "y"), node("Relu", "x", "t")], {"x": [2]})
    assert ops_of(source) == ["Relu", "Neg"]


def external(folder: Path, location: str, **more: str) -> Path:
    """A model whose weights are said to be elsewhere."""
    source = model([node("Add", "x w", "y")], {"x": [4]}, constants={"w": np.zeros(4, "f")})
    tensor = source.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(source.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "weights.bin").write_bytes(weights.tobytes())
    graph = load(external(tmp_path, "sub/weights.bin", offset="8", length="16"))
    np.testing.assert_array_equal(graph.constants["w"], weights[2:])
    assert not graph.constants["w"].flags.writeable


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "link", "a/../../secret", ""])
def test_external_data_outside(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError) as error:
        load(external(folder, location))
    assert str(error.value) == (
        "onnx: 1 node cannot be imported:\n"
        "  w (initializer): onnx: external data must lie in the folder of the model; "
        f"got location {location!r}"
    )


def test_a_model_and_its_data_are_links_into_one_folder(tmp_path: Path) -> None:
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    folder.mkdir()
    external(blobs, "weights").rename(blobs / "a1")
    (blobs / "b2").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    path = folder / "model.onnx"
    path.symlink_to(blobs / "a1")
    (folder / "weights").symlink_to(blobs / "b2")
    np.testing.assert_array_equal(load(path).constants["w"], np.arange(4))
    (tmp_path / "secret").write_bytes(bytes(16))
    (folder / "weights").unlink()
    (folder / "weights").symlink_to(tmp_path / "secret")
    with pytest.raises(RefusedError, match="must lie in the folder of the model"):
        load(path)


def test_external_data_past_the_end(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(16))
    with pytest.raises(UserError, match="lies past the end of its file; got offset 4, length 16"):
        load(external(tmp_path, "weights", offset="4"))


def test_external_data_of_another_length(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(64))
    with pytest.raises(UserError, match="of w must have 16 bytes for its shape; got length 20"):
        load(external(tmp_path, "weights", length="20"))


def two_external(folder: Path, *offsets: int) -> onnx.ModelProto:
    """A model that adds two arrays of 4 floats in one file."""
    source = model(
        [node("Add", "x v", "t"), node("Mul", "t w", "y")],
        {"x": [4]},
        constants={name: np.zeros(4, "f") for name in "vw"},
    )
    for tensor, offset in zip(source.graph.initializer, offsets, strict=True):
        set_external_data(tensor, "weights", offset, 16)
        tensor.ClearField("raw_data")
    (folder / "weights").write_bytes(np.arange(8, dtype="f").tobytes())
    return source


def test_external_data_that_become_shorter_while_they_are_read(tmp_path: Path) -> None:
    first, second = two_external(tmp_path, 0, 16).graph.initializer
    files = ExternalData(tmp_path)
    found = array_of(first, files)
    os.truncate(tmp_path / "weights", 20)
    with pytest.raises(UserError) as error:
        array_of(second, files)
    assert str(error.value) == (
        "the file of a network must not change while it is read; "
        "got weights, which has become shorter (file weights)"
    )
    os.truncate(tmp_path / "weights", 0)
    np.testing.assert_array_equal(found, np.arange(4))


def test_external_data_of_several_tensors_are_in_memory_once(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(two_external(tmp_path, 16, 16).SerializeToString())
    constants = load(path).constants
    assert np.shares_memory(constants["v"], constants["w"])
    np.testing.assert_array_equal(constants["w"], np.arange(4, 8))


@pytest.mark.parametrize(
    ("op", "wanted"), [("Sum", 5050), ("Max", 100), ("Min", 1), ("Mean", 50.5)]
)
def test_very_many_operands(op: str, wanted: float) -> None:
    names = [f"x{place}" for place in range(100)]
    source = model([node(op, " ".join(names), "y")], {name: [1] for name in names})
    values = [np.array([place + 1], np.float32) for place in range(100)]
    assert run(source, *values)[0] == [wanted]
    graph = import_model(source)
    assert max(len(each.inputs) for each in graph.nodes) <= 32


def test_expansion_to_the_batch() -> None:
    """As ViT repeats its class token; the batch is a symbol in an attribute, too."""
    source = model(
        [
            node("Shape", "x", "s"),
            node("Slice", "s front one", "n"),
            node("Concat", "n rest", "to", axis=0),
            node("Expand", "token to", "tokens"),
            node("Concat", "tokens x", "y", axis=1),
        ],
        {"x": ["batch", 4, 8]},
        constants={"front": [0], "one": [1], "rest": [1, 8], "token": np.ones((1, 1, 8), "f")},
    )
    graph = import_model(source)
    verify(graph)
    assert graph.types["y"].shape == (Symbol("batch"), 5, 8)
    bound = bind_symbols(graph, {"batch": 3})
    found = evaluate(bound, {"x": np.zeros((3, 4, 8), np.float32)}, OPS)["y"]
    np.testing.assert_array_equal(found[:, 0], np.ones((3, 8)))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("taps", "stride"), [(1, 2), (1, 3), (2, 3), (3, 4)])
def test_same_padding_of_a_transposed_window_below_its_stride(mode: str, taps: int, stride: int):
    """Pads are at least 0: the output is shorter than input * stride, as ONNX infers it."""
    source = model(
        [node("ConvTranspose", "x w", "y", strides=[stride], auto_pad=mode)],
        {"x": [1, 1, 3]},
        constants={"w": np.arange(1, taps + 1, dtype=np.float32).reshape(1, 1, taps)},
    )
    wanted = np.zeros(2 * stride + taps, np.float32)
    for place in range(3):
        wanted[place * stride : place * stride + taps] = (place + 5) * np.arange(1, taps + 1)
    (found,) = run(source, np.array([[[5, 6, 7]]], np.float32))
    assert found.ravel().tolist() == wanted.tolist()
    inferred = onnx.shape_inference.infer_shapes(source).graph.output[0].type.tensor_type.shape
    assert found.shape == tuple(each.dim_value for each in inferred.dim)
