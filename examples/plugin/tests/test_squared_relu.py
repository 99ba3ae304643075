"""The plugin as it is installed: each of its parts, and all of them together."""

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import weft
from weft.targets.find import target

X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def load(folder, *nodes):
    """The network of an ONNX file with these nodes, from x to y."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example.primer", 1)]
    two = helper.make_tensor("two", TensorProto.FLOAT, [], [2.0])
    graph = helper.make_graph(list(nodes), "g", ports[:1], ports[1:], [two])
    save(helper.make_model(graph, opset_imports=opsets), folder / "net.onnx")
    return weft.load(folder / "net.onnx")


@pytest.mark.parametrize(("op", "inputs"), [("Mul", ["r", "r"]), ("Pow", ["r", "two"])])
def test_what_exporters_write_runs_by_the_kernel(tmp_path, op, inputs):
    relu = helper.make_node("Relu", ["x"], ["r"])
    net = load(tmp_path, relu, helper.make_node(op, inputs, ["y"]))
    assert [node.op for node in net.simplified().graph.nodes] == ["SquaredRelu"]
    fast = net.compile()
    assert "squared_relu(in0, out0, (int)6);" in fast.library.files.sources[0][1]
    np.testing.assert_array_equal(fast(X), np.square(np.maximum(X, 0)))


def test_a_toolkit_for_the_target_with_cmake(tmp_path):
    net = load(tmp_path, helper.make_node("SquaredRelu", ["x"], ["y"], domain="example.primer"))
    net.export(tmp_path / "out", "rv32emc", also=["cmake"])
    assert target("rv32emc").flags == ("-march=rv32emc", "-mabi=ilp32e")
    assert "net.c squared_relu.cpp" in (tmp_path / "out" / "CMakeLists.txt").read_text()
    assert (tmp_path / "out" / "squared_relu.cpp").is_file()
