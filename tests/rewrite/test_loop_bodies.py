"""Constants that loops read move into their bodies."""

import numpy as np

import weft
from weft.ir.graph import Graph
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.rewrite.loop_bodies import with_constants
from weft.rewrite.recipes import tidy


def layers() -> Graph:
    """A GRU of constant weights, and one whose recurrent weights are an input."""
    rng = np.random.default_rng(3)
    w, r = (rng.normal(size=(1, 24, size)).astype(np.float32) for size in (4, 8))
    x, given = weft.input("x", "f32[5,1,4]"), weft.input("r", "f32[1,24,8]")
    made = [weft.ops.gru(x, w, each, hidden_size=8, outputs=1)[0] for each in (r, given)]
    return weft.net([x, given], made).graph


def test_what_a_body_makes_of_constants_is_folded_there():
    graph = tidy(expand(layers(), OPS))
    first, second = (node for node in graph.nodes if node.op == "Scan")
    assert len(first.inputs) == len(second.inputs) - 1
    body = first.attributes.body
    shapes = sorted(array.shape for array in body.constants.values() if array.size > 1)
    assert shapes == [(8, 8)] * 3, "a matrix for each gate"
    assert "Slice" in {node.op for node in second.attributes.body.nodes}
    assert not any(array.size > 1 for array in second.attributes.body.constants.values())
    assert with_constants(graph) is graph
