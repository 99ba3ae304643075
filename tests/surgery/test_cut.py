"""Split, freeze, extract."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.surgery.nets import block, check, image, run
from weft.errors import UserError

X = image(1, 3, 8, 8)


@pytest.mark.parametrize("at", ["c", "r", ["s", "r"], ["t", "r"], ["t", "early"]])
def test_split_and_join(at: str | list[str]) -> None:
    net = block()
    front, back = net.split(at)
    check(front.graph)
    check(back.graph)
    values = (at,) if isinstance(at, str) else tuple(at)
    assert front.graph.outputs[: len(values)] == values
    made = dict(zip(front.graph.outputs, run(front.graph, X), strict=True))
    late = dict(
        zip(back.graph.outputs, run(back.graph, *(made[v] for v in back.graph.inputs)), strict=True)
    )
    for name, want in zip(net.graph.outputs, run(net.graph, X), strict=True):
        np.testing.assert_array_equal({**made, **late}[name], want)
    assert not {*front.weights} & {*back.weights}


def test_split_of_a_graph_that_reads_an_input_behind() -> None:
    a, b = weft.input("a", "f32[2]"), weft.input("b", "f32[2]")
    middle = weft.ops.relu(a).named("m")
    front, back = weft.net([a, b], [(middle + b).named("y")]).split("m")
    assert (front.graph.inputs, back.graph.inputs) == (("a",), ("m", "b"))


def test_freeze() -> None:
    a, b = weft.input("a", "f32[N,2]"), weft.input("b", "f32[N,2]")
    net = weft.net([a, b], [a - b])
    given = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    frozen = net.freeze({"b": given})
    check(frozen.graph)
    assert frozen.graph.inputs == ("a",)
    assert [str(type) for type in frozen.inputs.values()] == ["f32[3,2]"]
    np.testing.assert_array_equal(run(frozen.graph, given + 1)[0], 1)
    assert str(frozen.history[-1]) == "freeze b"
    assert given.flags.writeable


REFUSALS: list[tuple[Callable[[weft.Net], object], str]] = [
    (
        lambda net: net.split("s"),
        "split: node sum after the cut reads r, which is computed before it; got s. Cut at r, too.",
    ),
    (lambda net: net.split([]), "split: expected at least one value; got none"),
    (lambda net: net.split("q"), "there is no value q (split)"),
    (
        lambda net: net.split(["y", "early"]),
        "split: there are no nodes after the cut; got y, early",
    ),
    (
        lambda net: net.freeze({"x": np.ones((1, 3, 8, 9), np.float32)}),
        "freeze: input x is f32[1,3,8,8]; got f32[1,3,8,9]. "
        "with_shapes gives the network inputs of other shapes.",
    ),
    (
        lambda net: net.freeze({"x": np.ones((1, 3, 8, 8), np.float64)}),
        "freeze: input x is f32[1,3,8,8]; got f64[1,3,8,8]. Convert the array.",
    ),
    (
        lambda net: net.split("x"),
        "split: a graph can only be split at computed values; got x, an input of the graph. "
        "Split at a later value.",
    ),
    (
        lambda net: net.split("conv.bias"),
        "split: a graph can only be split at computed values; got conv.bias, a constant. "
        "Split at a later value.",
    ),
    (lambda net: net.extract("x", []), "extract: there must be at least one output; got none"),
    (
        lambda net: net.with_outputs(["y", "y"]),
        "there is a graph output y already",
    ),
    (lambda net: net.with_outputs([]), "outputs: there must be at least one; got none"),
    (
        lambda net: net.with_outputs("early_"),
        "there is no value early_ (outputs). Did you mean early?",
    ),
    (lambda net: net.freeze({"c": X}), "freeze: graph net has no input c; got x"),
    (
        lambda net: net.extract(["s"], ["y"]),
        "extract: the outputs need graph input x, which is not among the inputs; got s. "
        "Add it, or a value that lies behind it.",
    ),
]


@pytest.mark.parametrize(("edit", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_refusals(edit: Callable[[weft.Net], object], message: str) -> None:
    net = block()
    with pytest.raises(UserError) as caught:
        edit(net)
    assert str(caught.value) == message
    assert net.graph == block().graph
