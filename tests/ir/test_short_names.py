"""Names for people: short, telling, and no two alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.plan.nets import Net
from weft.ir.edit import rename_nodes, rename_values
from weft.ir.short_names import MOST, names_of, short_names, shortened
from weft.ir.verify import verify
from weft.screen import elided

CONVERTED = (
    "model/activation/Relu;model/batch_normalization/FusedBatchNormV3;"
    "model/conv2d/BiasAdd/ReadVariableOp/resource;model/conv2d/BiasAdd;"
    "model/conv2d_2/Conv2D;model/conv2d/Conv2D1__73"
)


def test_a_converters_name_becomes_its_last_part():
    assert short_names([CONVERTED]) == {CONVERTED: "model/conv2d/Conv2D1__73"}


def test_a_name_that_is_short_is_its_own():
    names = ["/stem/stem.0/Conv", "scores", "model/conv2d/Conv2D1__73", CONVERTED]
    found = short_names(names)
    assert [found[name] for name in names[:3]] == names[:3]
    assert found[CONVERTED] == "Conv2D;model/conv2d/Conv2D1__73"


def test_a_long_path_keeps_what_tells_it_from_others():
    stem = "/model/encoder/layers"
    names = [f"{stem}/{n}/self_attention/output/dense/weight/MatMul_quant" for n in range(3)]
    assert list(short_names(names).values()) == [
        f"{n}/self_attention/output/dense/weight/MatMul_quant" for n in range(3)
    ]


def test_names_that_end_alike_for_long_are_numbered():
    end = "a_part_of_a_name_that_is_much_longer_than_what_anybody_wants_to_see" * 2
    found = short_names([f"first;{end}", f"second;{end}"])
    assert list(found.values()) == [f"{elided(end, MOST)} (2)", f"{elided(end, MOST)} (3)"]


@given(st.lists(st.text(st.sampled_from("ab/;."), min_size=1, max_size=130), unique=True))
def test_no_two_names_are_shown_alike(names):
    found = short_names(names, 12)
    assert list(found) and found.keys() == set(names) if names else not found
    assert len(set(found.values())) == len(names)
    assert all(found[name] == name for name in names if len(name) <= 12)
    assert all(len(each) <= 24 + len(" (999)") for each in found.values())


def test_a_graph_with_short_names_is_the_same_graph():
    net = Net()
    graph = net.graph(net.op("Relu", net.dense(net.input(1, 4), 3)))
    values = {value: f"{CONVERTED};model/layer/{value}" for value in graph.types}
    nodes = {node.name: f"{CONVERTED};model/layer/{node.name}_" for node in graph.nodes}
    long = rename_nodes(rename_values(graph, values), nodes)
    found = names_of(long)
    short = shortened(long, found)
    verify(short)
    assert [node.op for node in short.nodes] == [node.op for node in graph.nodes]
    assert all(len(name) <= MOST for name in (*short.types, *short.by_name))
    assert [node.inputs for node in short.nodes] == [
        tuple(f"model/layer/{value}" for value in node.inputs) for node in graph.nodes
    ]
    assert short.constants.keys() == {found[values[name]] for name in graph.constants}
