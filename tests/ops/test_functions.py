"""Op functions: every op through its function, and what they say about wrong arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import weft
from tests.ops.samples import Sample
from tests.ops.test_oracle import SAMPLES, in_part
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType, parse_type
from weft.ir.verify import verify
from weft.ops.evaluate import call_of, evaluate
from weft.ops.functions import FUNCTIONS, function_name
from weft.ops.table import OPS
from weft.ops.trace import graph_of
from weft.ops.values import Value, as_values, constant, input_value

FIRST = {sample.op: sample for sample in reversed(SAMPLES)}


def x(text: str = "f32[2,3,8,8]") -> Value:
    return input_value("x", parse_type(text))


def called(sample: Sample, inputs: list[Value | None]) -> tuple[Value, ...]:
    """The sample's call through the op's function, attributes by name."""
    attributes = {
        each.name: getattr(sample.attributes, each.name) for each in fields(sample.attributes)
    }
    op = OPS[sample.op]
    if any(param.optional or param.variadic for param in op.outputs):
        attributes["outputs"] = sample.outputs
    made = FUNCTIONS[function_name(sample.op)](*inputs, name="sample", **attributes)
    return (made,) if isinstance(made, Value) else made


@pytest.mark.parametrize("sample", in_part(SAMPLES), ids=str)
def test_every_op_through_its_function(sample: Sample) -> None:
    arrays = sample.arrays
    inputs = [
        None
        if array is None
        else input_value(f"in{place}", TensorType(DType.of(array.dtype), array.shape))
        for place, array in enumerate(arrays)
    ]
    made = called(sample, inputs)
    graph = graph_of([each for each in inputs if each is not None], made)
    verify(graph, lambda node, graph: OPS[node.op].infer(call_of(node, graph.types)))
    assert graph.nodes[0].attributes == OPS[sample.op].resolved(sample.call)
    given = {f"in{place}": array for place, array in enumerate(arrays) if array is not None}
    found = evaluate(graph, given, OPS)
    with np.errstate(all="ignore"):
        wanted = OPS[sample.op].reference(sample.call, *arrays)
    for value, want in zip(graph.outputs, wanted, strict=False):
        np.testing.assert_array_equal(found[value], np.asarray(want))


@pytest.mark.parametrize("name", sorted(FIRST))
def test_arrays_are_constants(name: str) -> None:
    sample = FIRST[name]
    made = called(sample, [None if a is None else constant(a) for a in sample.arrays])
    graph = graph_of([], made)
    assert not graph.inputs
    count = sum(array is not None for array in sample.arrays)
    assert len(graph.constants) == count
    assert all(name.startswith("sample.") for name in graph.constants)


def test_every_function_has_a_name_of_its_own() -> None:
    assert len(FUNCTIONS) == len(OPS.builtin)
    for name, function in FUNCTIONS.items():
        assert name.isidentifier()
        assert getattr(weft.ops, name) is function
        assert function.__name__ == name
    assert {"conv", "matmul", "softmax", "lstm", "not_", "batch_normalization"} <= {*FUNCTIONS}


def test_help_shows_the_signature() -> None:
    shown = str(inspect.signature(weft.ops.max_pool))
    assert shown.startswith("(x: weft.ops.values.Value, kernel: tuple[int, ...], strides:")
    assert shown.endswith("*, outputs: int = 0, name: str = '')")
    assert weft.ops.relu.__doc__ == OPS["Relu"].doc


def test_attributes_as_people_write_them() -> None:
    w = np.ones((4, 3, 3, 3), np.float32)
    made = weft.ops.conv(x(), w, strides=[2, np.int64(2)], pads=np.ones(4, np.int64))
    assert str(made.type) == "f32[2,4,4,4]"
    assert weft.ops.cast(x(), "f16").type.dtype is DType.F16
    assert weft.ops.cast(x(), np.int8).type.dtype is DType.I8
    assert weft.ops.reshape(x(), (6, 64)).shape == (6, 64)
    assert weft.ops.reduce_sum(x(), axes=(1,), keepdims=False).shape == (2, 8, 8)
    assert weft.ops.concat([x(), x()], axis=1).shape == (2, 6, 8, 8)
    assert weft.ops.concat(x(), x(), axis=1).shape == (2, 6, 8, 8)


def test_how_many_outputs() -> None:
    assert isinstance(weft.ops.max_pool(x(), (2, 2)), Value)
    y, where = weft.ops.max_pool(x(), (2, 2), (2, 2), outputs=2)
    assert (y.shape, where.type.dtype) == ((2, 3, 4, 4), DType.I64)
    assert [each.shape for each in weft.ops.split(x(), axis=3, outputs=2)] == [(2, 3, 8, 4)] * 2
    assert len(weft.ops.split(x(), axis=3, split=(1, 2, 5))) == 3
    assert len(weft.ops.topk(x(), 2)) == 2
    w, r = np.ones((1, 8, 3), np.float32), np.ones((1, 8, 2), np.float32)
    assert len(weft.ops.lstm(x("f32[5,1,3]"), w, r, hidden_size=2)) == 3
    # An output that nobody reads is none of the node's.
    given = x("f32[5,1,3]")
    y, _, _ = weft.ops.lstm(given, w, r, hidden_size=2)
    assert len(graph_of([given], [y]).nodes[0].outputs) == 1


def test_numbers_take_the_type_of_the_value_beside_them() -> None:
    values = as_values("add", (x("f16[2]"), 2))
    assert str(values[1].type) == "f16[]"
    given = x("f32[2]")
    made = 1 - given * 2.0 / np.float32(3) + np.ones(2, np.float32)
    assert str(made.type) == "f32[2]"
    graph = graph_of([given], [made])
    found = evaluate(graph, {"x": np.array([3, 6], np.float32)}, OPS)
    np.testing.assert_allclose(found[graph.outputs[0]], [0, -2])


REFUSALS: list[tuple[Callable[[Value], Any], str]] = [
    (
        lambda x: weft.ops.conv(x, np.ones((4, 3, 3, 3), np.float32), stride=(2, 2)),
        "conv: there is no input or attribute stride; got kernel, strides, dilations, pads, "
        "groups, x, w, b. Did you mean strides?",
    ),
    (
        lambda x: weft.ops.conv(x, np.ones((4, 3, 3, 3), np.float32), strides=2, name="stem"),
        "conv: attribute strides must be a tuple of whole numbers; got 2 (node stem)",
    ),
    (
        lambda x: weft.ops.conv(x, np.ones((4, 2, 3, 3), np.float32), name="stem"),
        "conv: weight has 2 input channels per group, input has 3 and groups=1; "
        "got x f32[2,3,8,8], w f32[4,2,3,3] (node stem)",
    ),
    (
        lambda x: weft.ops.conv(x, np.ones((4, 3, 3, 3), np.float32), None, (2, 2)),
        "conv: takes x, w, b by position; got 4 arguments. Give attributes by name.",
    ),
    (lambda x: weft.ops.conv(x), "conv: input w is required; got none"),
    (lambda x: weft.ops.relu(x, x=x), "relu: input x is given twice"),
    (lambda x: weft.ops.relu(x, 1), "relu: takes x by position; got 2 arguments"),
    (lambda x: weft.ops.concat(axis=1), "concat: at least one input is required; got none"),
    (
        lambda x: weft.ops.reshape(x),
        "reshape: attribute shape is required, a tuple of whole numbers",
    ),
    (lambda x: weft.ops.softmax(x, 1, axis=1), "softmax: attribute axis is given twice"),
    (
        lambda x: weft.ops.cast(x, "f33"),
        "cast: attribute to must be an element type such as 'f32'; got 'f33'",
    ),
    (
        lambda x: weft.ops.clip(x, min="0"),
        "clip: attribute min must be a number or None; got '0'",
    ),
    (
        lambda x: weft.ops.max_pool(x, (2, 2), outputs=3),
        "max_pool: outputs must be from 1 to 2; got 3",
    ),
    (lambda x: weft.ops.split(x, outputs=0), "split: outputs must be at least 1; got 0"),
    (lambda x: weft.ops.relu(x, name=3), "relu: name must be a string; got 3"),
    (
        lambda x: weft.ops.add(x, [1, 2]),
        "add: inputs must be values, arrays or numbers; got list. "
        "Write numpy.array(..., dtype) for a constant.",
    ),
    (
        lambda x: weft.ops.add(1, 2),
        "add: a number takes its element type from another operand, and there is none; got 1. "
        "Write numpy.float32(...) or the like.",
    ),
    (
        lambda x: weft.ops.cast(x, "i8") + 200,
        "add: the number must fit into i8; got 200",
    ),
    (
        lambda x: "y" if x > 0 else "n",
        "a symbolic value has no truth value; got Value(bool[2,3,8,8]). "
        "Use weft.ops.where to choose between values.",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_wrong_arguments(use: Callable[[Value], Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        use(x())
    assert str(caught.value) == message
