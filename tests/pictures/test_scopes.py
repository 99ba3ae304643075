"""Scopes: by name where names have them, else by stage and block."""

from __future__ import annotations

from dataclasses import replace

from weft.dtypes import DType
from weft.ir.graph import Graph, Origin
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.pooling import MaxPoolAttributes
from weft.ops.table import OPS
from weft.pictures.scene import scene
from weft.pictures.scopes import scopes_of


def chain(*names: str) -> Graph:
    builder = GraphBuilder(OPS, "chain")
    value = builder.input("x", TensorType(DType.F32, (4,)))
    for name in names:
        value = builder.op("Relu", value, name=name)
    return builder.graph([value])


def found(graph: Graph) -> list[str]:
    """The path of each node's innermost scope."""
    what = scene(graph)
    scopes = scopes_of(what)
    return [
        scopes.scopes[scope].path if scope >= 0 else ""
        for scope, box in zip(scopes.of_box, what.boxes, strict=True)
        if box.node
    ]


def test_paths_are_scopes():
    graph = chain("/a/b/Relu", "/a/b/Relu_1", "/a/c/Relu", "/d/Relu", "/d/Relu_1", "Relu")
    assert found(graph) == ["a/b", "a/b", "a", "d", "d", ""]
    parents = {each.path: each.parent for each in scopes_of(scene(graph)).scopes}
    assert parents == {"a": -1, "d": -1, "a/b": 0}


def test_a_scope_of_all_that_is_in_the_one_around_it_is_left_out():
    assert found(chain("/a/b/c/one", "/a/b/c/two", "/other")) == ["a", "a", ""]


def test_dots_separate_too():
    assert found(chain("layer1.0.conv", "layer1.0.relu", "layer1.1.relu")) == [
        "layer1.0",
        "layer1.0",
        "layer1",
    ]


def test_new_nodes_belong_where_they_came_from():
    graph = chain("/a/one", "/a/two", "made")
    nodes = [replace(node, origin=Origin(("/a/three",))) for node in graph.nodes[2:]]
    assert found(replace(graph, nodes=(*graph.nodes[:2], *nodes))) == ["a", "a", "a"]


def test_without_names_scopes_are_stages_and_blocks():
    builder = GraphBuilder(OPS, "net")
    value = builder.input("x", TensorType(DType.F32, (1, 2, 8, 8)))

    def block(value: str) -> str:
        return builder.op("Add", builder.op("Abs", builder.op("Exp", value)), value)

    value = block(block(builder.op("Relu", value)))
    value = builder.op(
        "MaxPool", value, attributes=MaxPoolAttributes(kernel=(2, 2), strides=(2, 2))
    )
    graph = builder.graph([block(value)])
    first, second = "stage 1 (8×8)", "stage 2 (4×4)"
    assert found(graph) == [
        first,  # a block of one node is none
        *[f"{first}/block 2"] * 3,
        *[f"{first}/block 3"] * 3,
        second,
        *[f"{second}/block 2"] * 3,
    ]
