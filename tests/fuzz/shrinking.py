"""The smallest part of a model that still fails: fewer nodes, fed with the values they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.growing import captured, info

Values = dict[str, np.ndarray]
Fails = Callable[[onnx.ModelProto, Values], bool]


def part(
    model: onnx.ModelProto, values: Values, kept: Sequence[int]
) -> tuple[onnx.ModelProto, Values]:
    """Some nodes of a model as a model, and its feeds."""
    nodes = [model.graph.node[place] for place in kept]
    made = {name for node in nodes for name in node.output if name}
    read = {name for node in nodes for name in (*node.input, *captured(node))} - made
    constants = [each for each in model.graph.initializer if each.name in read]
    held = {each.name for each in constants}
    inputs = [name for name in values if name in read - held]
    wanted = {each.name for each in model.graph.output}
    used = {name for node in nodes for name in (*node.input, *captured(node))}
    outputs = [name for name in values if name in made and (name not in used or name in wanted)]
    graph = helper.make_graph(
        nodes,
        "part",
        [info(name, values[name]) for name in inputs],
        [info(name, values[name]) for name in outputs],
        constants,
    )
    small = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return small, {name: values[name] for name in inputs}


def shrunk(model: onnx.ModelProto, values: Values, fails: Fails) -> tuple[onnx.ModelProto, Values]:
    """The smallest part found that fails: halves, then quarters and so on are left out.

    Args:
        model: that fails.
        values: of every name in it.
        fails: whether a part does.
    """
    kept = list(range(len(model.graph.node)))
    for place in kept:
        if fails(*part(model, values, [place])):
            return part(model, values, [place])
    size = len(kept) // 2
    while size:
        for start in range(0, len(kept), size):
            left = kept[:start] + kept[start + size :]
            if left and fails(*part(model, values, left)):
                kept = left
                break
        else:
            size //= 2
    return part(model, values, kept)
