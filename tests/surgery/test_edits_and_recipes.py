"""Ten edits and recipes in any order on random networks: the outputs stay the reference's."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.plan.nets import nets
from tests.rewrite.test_random_recipes import applied, close, steps
from tests.surgery.nets import check
from tests.surgery.test_sequences import EDITORS, clone_with_the_same_shapes, networks
from tests.turns import examples
from weft.ir.graph import Graph
from weft.ir.text import show

STEPS = 10
MOST = 200
"""Nodes above which tiles are not cut into tiles again."""
ANYWHERE = [edit for edit in EDITORS if edit is not clone_with_the_same_shapes]
"""Edits that do not rely on how the network was made."""


def arrays_for(graph: Graph) -> dict[str, np.ndarray]:
    source = np.random.default_rng(1)
    return {
        name: source.normal(0, 3, graph.types[name].dims).astype(graph.types[name].dtype.numpy)
        for name in graph.inputs
    }


@st.composite
def any_networks(draw: st.DrawFn) -> tuple[weft.Net, dict[str, np.ndarray]]:
    """Layers with shared weights and ReLU6, or any ops."""
    if draw(st.booleans()):
        net = draw(networks())
        return net, arrays_for(net.graph)
    graph, arrays = draw(nets(8).filter(lambda found: bool(found[0].nodes)))
    return weft.Net(graph), arrays


def changed(net: weft.Net, data: st.DataObject) -> weft.Net:
    """The network after an edit or a recipe."""
    if data.draw(st.booleans()):
        return data.draw(st.sampled_from(ANYWHERE))(net, data.draw)
    return net.with_graph(applied(net.graph, *data.draw(steps())))


@given(any_networks(), st.data())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_ten_edits_and_recipes(
    given_net: tuple[weft.Net, dict[str, np.ndarray]], data: st.DataObject
) -> None:
    net, arrays = given_net
    inputs, types = list(arrays.values()), [net.graph.types[v] for v in net.graph.outputs]
    wanted = net.reference(*inputs)
    for _ in range(STEPS):
        if not 0 < len(net.graph.nodes) < MOST:
            break
        before, text = net.graph, show(net.graph)
        net = changed(net, data)
        assert show(before) == text
        check(net.graph)
        assert [net.graph.types[v] for v in net.graph.outputs] == types
    for name, got, want in zip(net.graph.outputs, net.reference(*inputs), wanted, strict=True):
        assert close(got, want), (name, [str(each) for each in net.graph.history])
