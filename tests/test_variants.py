"""Comparing networks: figures, differences, accuracy; refusals with whole messages."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.api import Net
from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS


def net(name: str, hidden: int, classes: int = 3) -> Net:
    builder = GraphBuilder(OPS, name)
    value = builder.input("x", TensorType(DType.F32, (1, 4)))
    random = np.random.default_rng(0)
    for place, (rows, columns) in enumerate(((4, hidden), (hidden, classes))):
        weight = random.normal(size=(rows, columns)).astype(np.float32)
        value = builder.op(
            "MatMul", value, builder.constant(weight, f"w{place}"), name=f"product{place}"
        )
        if not place:
            value = builder.op("Relu", value, name="act", output="hidden")
    return Net(builder.graph([value]))


@pytest.fixture(scope="module")
def found() -> weft.explore.comparison.Comparison:
    small, large = net("small", 8), net("large", 16)
    inputs = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    labels = np.array([small.reference(each[None])[0].argmax() for each in inputs])
    data = {"x": inputs, "labels": labels}
    return weft.compare([small, large, small], data=data, seconds=0.05)


def test_figures_are_those_of_statistics_and_plans(found):
    small, large, _ = found.variants
    assert (small.name, small.nodes, small.ops) == ("small", 3, {"MatMul": 2, "Relu": 1})
    assert (small.macs, large.macs) == (4 * 8 + 8 * 3, 4 * 16 + 16 * 3)
    assert (small.parameters, large.parameters) == (56, 112)
    assert small.peak == 8 * 4 * 2  # what the activation reads and writes
    assert small.flash >= 56 * 4
    assert small.arena >= 8 * 4


def test_names_tell_apart(found):
    assert [each.name for each in found.variants] == ["small", "large", "small (2)"]


def test_quality_is_of_the_data(found):
    small, large, again = found.variants
    assert small.quality.accuracy == again.quality.accuracy == 1
    assert (small.quality.samples, again.quality.relative) == (20, 0)
    assert large.quality.relative > 0.1
    assert all(each.timing.median > 0 for each in found.variants)


def test_topologies_are_side_by_side(found):
    assert list(found.topology()) == [("MatMul", "2", "2", "2"), ("Relu", "1", "1", "1")]
    _, large, again = found.variants
    assert str(again.changes) == "the same graph"
    assert str(large.changes) == "2 changed, 2 constants differ"


def test_the_table_has_what_is_known(found):
    assert found.headings() == (
        "", "nodes", "MACs", "parameters", "peak", "arena", "flash", "latency µs", "difference",
        "accuracy",
    )  # fmt: skip
    first = next(iter(found.rows()))
    assert first[:4] == ("small", "3", "56", "56")
    assert first[-2:] == ("0", "100.00%")


def test_plots(found):
    assert "accuracy against latency" in found.plot()
    assert "accuracy against macs" in found.plot("macs")
    with pytest.raises(UserError) as error:
        found.plot("price")
    assert str(error.value) == (
        "cost is one of latency, macs, parameters, peak, arena, flash; got price"
    )


def test_without_labels_the_difference_is_plotted():
    found = weft.compare([net("a", 4), net("b", 8)], seconds=0.01)
    assert not found.has_accuracy
    assert "relative difference to the first against latency" in found.plot()


def test_outputs_that_do_not_compare():
    found = weft.compare([net("a", 4), net("b", 4, classes=2)], seconds=0.01)
    quality = found.record()["variants"][1]["quality"]
    assert quality["largest"] is quality["relative"] is None
    with pytest.raises(UserError) as error:
        found.plot()
    assert str(error.value) == "a plot needs labels, or outputs of one shape; got others of b"


def test_nothing_runs_if_not_wanted():
    found = weft.compare([net("a", 4), net("b", 8)], target="generic", run=False)
    assert found.target == "generic"
    assert all(each.timing is each.quality is None for each in found.variants)
    assert found.headings()[-1] == "flash"
    assert found.record()["variants"][0]["timing"] is None
    with pytest.raises(UserError) as error:
        found.plot()
    assert str(error.value) == (
        "a plot needs the cost and the quality of the networks; "
        "got no outputs of a. Run the networks"
    )


def test_a_graph_that_differs_says_how():
    before, after = net("net", 4), net("net", 4).simplified()
    found = weft.compare([before, after, net("net", 4, classes=2)], run=False)
    assert [str(each.changes) for each in found.variants[1:]] == [
        "the same graph",
        "1 changed, 1 constant differs, other inputs or outputs",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "expected at least one network; got no network"),
        (([net("a", 4)], ["a", "b"]), "names must cover all networks; got 2 for 1"),
    ],
)
def test_refusals(arguments, message):
    models, names = (*arguments, ())[:2]
    with pytest.raises(UserError) as error:
        weft.compare(models, names=names, run=False)
    assert str(error.value) == message


def test_data_are_for_running():
    with pytest.raises(UserError) as error:
        weft.compare([net("a", 4)], data={"x": np.zeros((1, 4))}, run=False)
    assert (
        str(error.value)
        == "data have no effect without running the networks; got data, and not to run"
    )
