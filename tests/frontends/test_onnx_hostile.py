"""What the importer says about broken, hostile and unsupported models."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontends.models import FLOAT, model, node
from weft.errors import UserError
from weft.frontends.onnx import RefusedError, import_model, importer, load

I64 = onnx.TensorProto.INT64


def refusal(source: onnx.ModelProto, **options: object) -> str:
    with pytest.raises(UserError) as error:
        import_model(source, **options)
    return str(error.value)


def one(line: str) -> str:
    return f"onnx: 1 node cannot be imported:\n  {line}"


def test_truncated(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model([node("Relu", "x", "y")], {"x": [2]}).SerializeToString()[:-9])
    with pytest.raises(UserError, match=r"onnx: the file is damaged or not an ONNX model; got .*"):
        load(path)


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(UserError) as error:
        load(path)
    assert str(error.value) == "onnx: the file holds no graph (file model.onnx)"


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        load(tmp_path / "model.onnx")
    assert str(error.value) == (
        "onnx: the file cannot be read; got No such file or directory (file model.onnx)"
    )


def test_every_unsupported_node_is_listed() -> None:
    source = model(
        [
            node("StringConcat", "x x", "a", "first", domain=""),
            node("Relu", "a", "b", "after"),
            node("NoSuchOp", "b", "c", "second"),
            node("Foreign", "c", "d", "third", domain="com.example"),
            node("Softmax", "x", "e", "fourth", axis=7),
        ],
        {"x": [2]},
        ["d", "e"],
        opset=20,
    )
    assert refusal(source) == (
        "onnx: 4 nodes cannot be imported:\n"
        "  first (StringConcat): StringConcat is not supported\n"
        "  second (NoSuchOp): ONNX has no op NoSuchOp in ai.onnx 20\n"
        "  third (Foreign): onnx: the model imports no operator set com.example\n"
        "  fourth (Softmax): softmax: axis must be within [-1, 0]; got 7"
    )


def test_open_dimensions() -> None:
    source = model([node("Add", "a b", "y")], {"a": ["n", "m", 3], "b": [2, None]})
    assert refusal(source) == (
        "onnx: only the leading dimension of an input may be open; got a[n,m,3], b[2,?]. "
        "Give what is open: --input m=SIZE --input b=2xSIZE; "
        'in Python: weft.load(path, {"m": SIZE, "b": (2, SIZE)})'
    )


def test_open_dimensions_of_an_unknown_rank() -> None:
    source = model([node("Relu", "x", "y")], {"x": None})
    assert refusal(source) == (
        "onnx: only the leading dimension of an input may be open; got x of unknown rank. "
        'Give what is open: --input x=SIZEx...; in Python: weft.load(path, {"x": (SIZE, ...)})'
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"sq": 5},
            "the model has no input sq. Did you mean seq? "
            "Its inputs are a, b, its open sizes n, seq",
        ),
        ({"seq": (5, 2)}, "seq is an open size and must be one integer, at least 1; got (5, 2)"),
        ({"seq": 0}, "seq is an open size and must be one integer, at least 1; got (0,)"),
        ({"seq": 4, "a": (2, 5)}, "inputs must agree on the size seq; got 4 and 5 (input a)"),
        ({"a": (1.5, 2)}, "the shape of an input must consist of integers; got (1.5, 2)"),
    ],
)
def test_sizes_that_do_not_fit(given, message) -> None:
    source = model([node("Add", "a b", "y")], {"a": ["n", "seq"], "b": ["n", "seq"]})
    assert refusal(source, inputs=given) == message


def test_shape_that_does_not_fit() -> None:
    source = model([node("Relu", "x", "y")], {"x": ["n", 3]})
    assert refusal(source, inputs={"x": (1, 4)}) == (
        "the shape of an input must fit the model; got [1, 4] for x[n,3] (input x)"
    )


def test_no_such_input() -> None:
    source = model([node("Relu", "x", "y")], {"x": [3]})
    assert refusal(source, inputs={"z": (3,)}) == "the model has no input z. Its inputs are x"


def test_batch_that_must_be_known() -> None:
    source = model([node("Shape", "x", "s"), node("Cast", "s", "y", to=1)], {"x": ["batch", 3]})
    assert "the batch must be concrete here; got y depends on it" in refusal(source)


def test_negative_extent() -> None:
    source = model([node("Relu", "x", "y")], {"x": [-3]})
    assert refusal(source) == "onnx: an extent must not be negative; got [-3] (input x)"


def test_terabytes_beside_an_empty_axis() -> None:
    source = model([node("Relu", "x", "y")], {"x": [1 << 40, 0]})
    assert refusal(source) == (
        "onnx: a tensor has at most 64 GiB; got f32[1099511627776, 0] (input x)"
    )


def test_terabytes_of_input() -> None:
    source = model([node("Relu", "x", "y")], {"x": [1 << 20, 1 << 20]})
    assert refusal(source) == (
        "onnx: a tensor has at most 64 GiB; got f32[1048576, 1048576] (input x)"
    )


def test_terabytes_of_weights_allocate_nothing() -> None:
    source = model([node("Add", "x w", "y")], {"x": [2]}, constants={"w": np.zeros(2, "f")})
    source.graph.initializer[0].dims[0] = 1 << 32
    tracemalloc.start()
    text = refusal(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text == one(
        "w (initializer): onnx: the shape of the tensor needs 17179869184 bytes; got 8 bytes"
    )
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            model([node("Expand", "x s", "y")], {"x": [1]}, constants={"s": [1 << 40]}),
            "y (Expand): expand: a tensor has at most 64 GiB and 32 axes; got f32[1099511627776]",
        ),
        (
            model([node("ConstantOfShape", "s", "y")], {}, constants={"s": [1 << 31, 1 << 31]}),
            "y (ConstantOfShape): expand: a tensor has at most 64 GiB and 32 axes; "
            "got f32[2147483648,2147483648]",
        ),
    ],
)
def test_terabytes_in_between(source: onnx.ModelProto, line: str) -> None:
    tracemalloc.start()
    text = refusal(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert text == one(line)
    assert peak < 4 << 20


def test_sequences_of_very_many_items() -> None:
    source = model(
        [node("SplitToSequence", "x", "q", "split"), node("SequenceLength", "q", "y")],
        {"x": [1 << 28]},
    )
    assert refusal(source) == one(
        "split (SplitToSequence): splittosequence: a sequence has at most 100000 items; "
        "got 268435456"
    )


def test_cycle() -> None:
    source = model(
        [node("Add", "x b", "a", "one"), node("Relu", "a", "b", "two")], {"x": [2]}, ["b"]
    )
    assert refusal(source) == "onnx: the graph has a cycle; got it runs among one, two"


def test_missing_initializer() -> None:
    source = model([node("Add", "x w", "y", "sum")], {"x": [2]})
    assert refusal(source) == one("sum (Add): onnx: no node computes the value w")


def test_missing_output() -> None:
    source = model([node("Relu", "x", "z")], {"x": [2]})
    assert refusal(source) == "onnx: no node computes the output y"


def test_value_made_twice() -> None:
    source = model([node("Relu", "x", "y"), node("Neg", "x", "y")], {"x": [2]})
    assert refusal(source) == "onnx: the value y is computed twice"


def test_a_node_that_makes_nothing() -> None:
    source = model([node("Clip", "x x x", "", "idle"), node("Relu", "x", "y")], {"x": [2]})
    del source.graph.node[0].output[:]
    reason = "onnx: Clip must have an output; got none. Leave it out."
    assert refusal(source) == one(f"idle (Clip): {reason}")


def test_attribute_of_another_type() -> None:
    source = model([node("Softmax", "x", "y", "s", axis="one")], {"x": [2]})
    assert refusal(source) == one(
        "s (Softmax): onnx: attribute axis of Softmax must be INT; got STRING"
    )


def test_unknown_attribute() -> None:
    source = model([node("Relu", "x", "y", "r", slope=1.0)], {"x": [2]})
    assert refusal(source) == one("r (Relu): onnx: Relu of opset 14 has no attribute slope")


def test_missing_attribute() -> None:
    source = model([node("Concat", "x x", "y", "c")], {"x": [2]})
    assert refusal(source) == one("c (Concat): onnx: Concat needs the attribute axis")


def test_number_of_inputs() -> None:
    source = model([node("Relu", "x x", "y", "r")], {"x": [2]})
    assert refusal(source) == one("r (Relu): onnx: Relu takes 1 to 1 inputs; got 2")


def test_element_type() -> None:
    source = model([node("Identity", "x", "y")], {"x": [2]}, types={"x": TensorProto.STRING})
    assert refusal(source) == (
        "onnx: element type STRING is not supported (input x). Supported are DOUBLE, FLOAT, "
        "FLOAT16, BFLOAT16, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, BOOL"
    )


def test_newer_operator_set() -> None:
    source = model([node("Relu", "x", "y")], {"x": [2]})
    source.opset_import[0].version = 999
    newest = onnx.defs.onnx_opset_version()
    assert refusal(source) == (
        f"onnx: operator sets 1 to {newest} are supported; got 999. Install a newer onnx package"
    )


def function(name: str, calls: list[onnx.NodeProto]) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    return helper.make_function("local", name, ["a"], ["b"], calls, opsets)


def test_function_that_calls_itself() -> None:
    again = function("again", [node("again", "a", "b", domain="local")])
    source = model([node("again", "x", "y", domain="local")], {"x": [2]}, functions=[again])
    assert "functions and subgraphs may be nested 24 deep" in refusal(source)


def test_functions_that_double_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^22 nodes from 22 small functions: the count stops it, not the clock."""
    assert importer.MAX_NODES == 100_000
    monkeypatch.setattr(importer, "MAX_NODES", 5000)
    functions = [function("f0", [node("Relu", "a", "b")])]
    for level in range(1, 23):
        called = f"f{level - 1}"
        functions.append(
            function(
                f"f{level}",
                [node(called, "a", "t", domain="local"), node(called, "t", "b", domain="local")],
            )
        )
    source = model([node("f22", "x", "y", domain="local")], {"x": [2]}, functions=functions)
    assert refusal(source) == ("onnx: a model has at most 5000 nodes, functions and loops unrolled")


def test_names_that_are_not_text(tmp_path: Path) -> None:
    data = model([node("Relu", "x", "yyyy")], {"x": [2]}, ["yyyy"]).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(data.replace(b"yyyy", b"\xff\xfey\xff"))
    with pytest.raises(UserError, match=r"onnx: names must be UTF-8; got b'\\xff\\xfey\\xff'"):
        load(path)


def test_required_input_left_out() -> None:
    source = model(
        [node("LSTM", "x w -", "y", "lstm", hidden_size=2)], {"x": [1, 1, 2], "w": [1, 8, 2]}
    )
    assert refusal(source) == one("lstm (LSTM): onnx: LSTM needs its input r")


@pytest.mark.parametrize(("shape", "attributes"), [([3], {}), ([4], {"axis": 1})])
def test_results_are_declared_without_the_axis_to_count(shape, attributes) -> None:
    op = "Unique" if attributes else "NonZero"
    source = model([node(op, "x", "y", "found", **attributes)], {"x": [3, 4]})
    source.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, shape))
    with pytest.raises(RefusedError, match=f"{op} needs to know how many results there are"):
        import_model(source)
