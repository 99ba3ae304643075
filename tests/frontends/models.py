"""Small ONNX models for the tests of the frontend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; names are separated by spaces, ``-`` is an absent one."""
    return helper.make_node(
        op,
        ["" if each == "-" else each for each in inputs.split()],
        ["" if each == "-" else each for each in outputs.split()],
        name,
        **attributes,
    )


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None]],
    outputs: Sequence[str] = ("y",),
    *,
    constants: Mapping[str, Any] | None = None,
    opset: int = 18,
    types: Mapping[str, int] | None = None,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model; inputs are ``f32`` unless ``types`` says otherwise."""
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info(name, (types or {}).get(name, FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in (constants or {}).items()
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    # IR 10: the newest that every supported onnxruntime reads.
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
