"""Other shapes: types inferred anew, fixed sizes mended or refused, against the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.surgery.nets import block, check, image, run
from weft import layers
from weft.errors import UserError

Function = Callable[[weft.Value], weft.Value]


def test_batch_and_resolution() -> None:
    for before in (block(), block("N")):
        net = before.with_shapes({"x": (3, 3, 10, 6)})
        check(net.graph)
        assert [str(type) for type in net.outputs.values()] == ["f32[3,4,10,6]"] * 2
        x = image(3, 3, 10, 6)
        whole = run(net.graph, x)[0]
        one = before.with_shapes({"x": (1, 3, 10, 6)})
        for place in range(3):
            np.testing.assert_allclose(
                run(one.graph, x[place : place + 1])[0], whole[place : place + 1]
            )
        assert str(net.history[-1]) == "shapes x f32[3,3,10,6]"


def test_an_open_batch() -> None:
    net = block().with_shapes({"x": ("N", 3, 8, 8)})
    check(net.graph)
    assert str(net.outputs["y"]) == "f32[N,4,8,8]"
    assert net.bound(1).graph.types == block().graph.types


# Functions whose sizes are literal for f32[2,4,6,6], and how they are for others.
MENDED: list[tuple[str, Function, dict[tuple[int, ...], Function]]] = [
    (
        "flatten",
        lambda x: weft.ops.reshape(x, (2, 144)),
        {
            (3, 4, 6, 6): lambda x: weft.ops.reshape(x, (3, 144)),
            (2, 4, 8, 6): lambda x: weft.ops.reshape(x, (2, 192)),
            (1, 3, 8, 6): lambda x: weft.ops.reshape(x, (1, 144)),
        },
    ),
    (
        "a literal batch and a free size",
        lambda x: weft.ops.reshape(x, (2, -1)),
        {(1, 4, 6, 6): lambda x: weft.ops.reshape(x, (1, 144))},
    ),
    (
        "tokens",
        lambda x: weft.ops.reshape(x, (2, 4, 36)),
        {(3, 5, 4, 2): lambda x: weft.ops.reshape(x, (3, 5, 8))},
    ),
    (
        "channels in groups",
        lambda x: weft.ops.reshape(x, (2, 2, 2, 6, 6)),
        {(5, 4, 7, 3): lambda x: weft.ops.reshape(x, (5, 2, 2, 7, 3))},
    ),
    (
        "batch and heads as one",
        lambda x: weft.ops.reshape(x, (8, 6, 6)),
        {(3, 4, 5, 6): lambda x: weft.ops.reshape(x, (12, 5, 6))},
    ),
    (
        "everything as one",
        lambda x: weft.ops.reshape(x, (288,)),
        {(3, 4, 5, 6): lambda x: weft.ops.reshape(x, (360,))},
    ),
    (
        "a slice to the end",
        lambda x: weft.ops.slice(x, (1,), (6,), axes=(2,)),
        {(2, 4, 9, 6): lambda x: weft.ops.slice(x, (1,), (9,), axes=(2,))},
    ),
    (
        "a slice inside",
        lambda x: weft.ops.slice(x, (1,), (4,), axes=(2,)),
        {(2, 4, 9, 6): lambda x: weft.ops.slice(x, (1,), (4,), axes=(2,))},
    ),
    (
        "fixed sizes of a resize",
        lambda x: weft.ops.resize(x, sizes=(12, 9), axes=(2, 3)),
        {(2, 4, 4, 4): lambda x: weft.ops.resize(x, sizes=(8, 6), axes=(2, 3))},
    ),
    (
        "an expansion",
        lambda x: weft.ops.expand(x, (3, 2, 4, 6, 6)),
        {(5, 4, 6, 6): lambda x: weft.ops.expand(x, (3, 5, 4, 6, 6))},
    ),
]


@pytest.mark.parametrize(
    ("function", "shape", "wanted"),
    [
        pytest.param(function, shape, wanted, id=f"{name} {shape}")
        for name, function, others in MENDED
        for shape, wanted in others.items()
    ],
)
def test_sizes_in_attributes_follow(
    function: Function, shape: tuple[int, ...], wanted: Function
) -> None:
    net = weft.trace(function, "f32[2,4,6,6]").with_shapes({"x": shape})
    check(net.graph)
    sizes = ",".join(map(str, shape))
    expected = weft.trace(wanted, f"f32[{sizes}]")
    x = image(*shape)
    np.testing.assert_array_equal(run(net.graph, x)[0], run(expected.graph, x)[0])


def test_an_open_batch_in_a_reshape() -> None:
    net = weft.trace(lambda x: weft.ops.reshape(x, (1, 2, 18)), "f32[1,4,9]")
    opened = net.with_shapes({"x": ("N", 4, 9)})
    check(opened.graph)
    assert str(opened.outputs["reshape_out"]) == "f32[N,2,18]"
    x = image(3, 4, 9)
    np.testing.assert_array_equal(run(opened.graph, x)[0], x.reshape(3, 2, 18))


def test_composite_ops_that_were_expanded() -> None:
    def function(x: weft.Value) -> weft.Value:
        return weft.ops.softmax(layers.GroupNorm(2)(x), axis=-1)

    net = weft.trace(function, "f32[1,4,6,6]")
    x = image(3, 4, 5, 7)
    (wanted,) = run(weft.trace(function, "f32[3,4,5,7]").graph, x)
    expanded = net.expanded()
    assert len(expanded.graph.nodes) > 4
    done = expanded.with_shapes({"x": (3, 4, 5, 7)})
    check(done.graph)
    np.testing.assert_allclose(run(done.graph, x)[0], wanted, atol=1e-5)


def test_loops_get_bodies_of_the_new_shapes() -> None:
    body = weft.trace(
        lambda s, x: ((t := s + x).named("t"), weft.ops.relu(t)), "f32[2,3]", "f32[2,3]"
    )
    x, s = weft.input("x", "f32[5,2,3]"), weft.input("s", "f32[2,3]")
    made = weft.ops.scan(s, x, body=body.graph, num_states=1, num_scan_inputs=1)
    net = weft.net([s, x], made).with_shapes({"s": (4, 3), "x": (6, 4, 3)})
    check(net.graph)
    steps, start = image(6, 4, 3), image(4, 3, seed=1)
    found = run(net.graph, start, steps)
    sums = start + np.cumsum(steps, 0)
    np.testing.assert_allclose(found[0], sums[-1], rtol=1e-5)
    np.testing.assert_allclose(found[1], np.maximum(sums, 0), rtol=1e-5, atol=1e-6)


def test_constants_of_one_row_are_repeated() -> None:
    token = image(1, 1, 6, seed=3)

    def function(x: weft.Value) -> weft.Value:
        return weft.ops.concat(weft.ops.neg(token), weft.ops.relu(x), axis=1)

    for batch in (4, "N"):
        net = weft.trace(function, "f32[1,5,6]").with_shapes({"x": (batch, 5, 6)})
        check(net.graph)
        assert str(net.outputs["concat_out"]) == f"f32[{batch},6,6]"
        x = image(4, 5, 6)
        wanted = np.concatenate([np.repeat(-token, 4, 0), np.maximum(x, 0)], 1)
        np.testing.assert_array_equal(net.bound(4).reference(x)[0], wanted)


@pytest.mark.parametrize("expanded", [False, True])
def test_first_states_of_recurrent_layers(expanded: bool) -> None:
    w, r, h = image(1, 8, 3), image(1, 8, 2, seed=1), image(1, 1, 2, seed=2)

    def function(x: weft.Value) -> weft.Value:
        y, _, _ = weft.ops.lstm(x, w, r, None, None, h, h * 2, hidden_size=2)
        return y

    net = weft.trace(function, "f32[5,1,3]")
    net = net.expanded() if expanded else net
    x = image(5, 3, 3)
    done = net.with_shapes({"x": (5, 3, 3)})
    check(done.graph)
    parts = [run(net.graph, x[:, n : n + 1])[0] for n in range(3)]
    np.testing.assert_allclose(run(done.graph, x)[0], np.concatenate(parts, 2), rtol=1e-5)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("lengths", [None, np.array([4, 4], np.int32)])
def test_as_many_directions_as_members(batch: int, lengths: np.ndarray | None) -> None:
    w, r, b, h = image(2, 8, 3), image(2, 8, 2), image(2, 16), image(2, 1, 2, seed=2)

    def function(x: weft.Value) -> weft.Value:
        state = np.repeat(h, 2, 1)
        y, _, _ = weft.ops.lstm(
            x, w, r, b, lengths, state, state * 2, hidden_size=2, direction="bidirectional"
        )
        return y

    net = weft.trace(function, "f32[5,2,3]")
    x = image(5, 4, 3)
    wanted = np.concatenate([run(net.graph, x[:, :2])[0], run(net.graph, x[:, 2:])[0]], 2)
    done = net.with_shapes({"x": (5, batch, 3)})
    check(done.graph)
    found = run(done.graph, x[:, :batch])[0]
    np.testing.assert_allclose(found, wanted[:, :, :batch], rtol=1e-5)


REFUSALS: list[tuple[Function, tuple[object, ...], str]] = [
    (
        lambda x: weft.ops.reshape(x, (2, 4, 2, 18)),
        (2, 4, 9, 8),
        "shapes: reshape: size 36 is split, and it cannot be told how 72 should be; "
        "got f32[2,4,6,6] -> f32[2,4,2,18], now f32[2,4,9,8] (node reshape). "
        "Export the network with that size instead.",
    ),
    (
        lambda x: weft.ops.reshape(x, (8, 36)),
        ("N", 4, 6, 6),
        "shapes: reshape: the open size is merged with others; "
        "got f32[2,4,6,6] -> f32[8,36], now f32[N,4,6,6] (node reshape). "
        "Export the network with that size instead.",
    ),
    (
        lambda x: layers.Linear(3)(weft.ops.flatten(x)),
        (2, 4, 7, 6),
        "shapes: gemm: a has 168 columns, b has 144 rows; they must be equal; "
        "got a f32[2,168], b f32[3,144], c f32[3] (node gemm). "
        "A weight, a constant or an attribute holds the old size.",
    ),
    (
        lambda x: x + np.arange(288, dtype=np.float32).reshape(2, 4, 6, 6),
        (3, 4, 6, 6),
        "shapes: add: the shapes do not broadcast; got f32[3,4,6,6], f32[2,4,6,6] (node add). "
        "A weight, a constant or an attribute holds the old size.",
    ),
    (
        lambda x: weft.ops.resize(x, sizes=(7, 7), axes=(2, 3)),
        (2, 4, 5, 5),
        "shapes: resize: size 7 does not grow with the input's; "
        "got f32[2,4,6,6] -> f32[2,4,7,7], now f32[2,4,5,5] (node resize). "
        "Export the network with that size instead.",
    ),
    (
        lambda x: x,
        (2, 4, 6),
        "shapes: input x has 4 dimensions, f32[2,4,6,6]; got 3",
    ),
    (lambda x: x, (2, 4, 0, 6), "shapes: sizes of input x must be at least 1; got 0"),
    (lambda x: x, (2, "C", 6, 6), "shapes: only the leading size may be left open; got x"),
]


@pytest.mark.parametrize(("function", "shape", "message"), REFUSALS, ids=[r[2] for r in REFUSALS])
def test_refusals(function: Function, shape: tuple[object, ...], message: str) -> None:
    net = weft.trace(function, "f32[2,4,6,6]")
    before = net.graph
    with pytest.raises(UserError) as caught:
        net.with_shapes({"x": shape})  # type: ignore[dict-item]
    assert str(caught.value) == message
    assert net.graph is before


@pytest.mark.parametrize(
    ("before", "target", "after", "reason"),
    [
        # Rows of all members, or all members in a row.
        ("5,1,6", (5, 6), (5, 2, 6), "it cannot be told which sizes follow the input's"),
        ("5,1,6", (5, 2, 3), (5, 2, 6), "it cannot be told which sizes follow the input's"),
    ],
)
def test_what_is_not_certain_is_refused(
    before: str, target: tuple[int, ...], after: tuple[int, ...], reason: str
) -> None:
    net = weft.trace(lambda x: weft.ops.reshape(x, target), f"f32[{before}]")
    with pytest.raises(UserError) as caught:
        net.with_shapes({"x": after})
    goal, now = ",".join(map(str, target)), ",".join(map(str, after))
    assert str(caught.value) == (
        f"shapes: reshape: {reason}; got f32[{before}] -> f32[{goal}], now f32[{now}] "
        "(node reshape). Export the network with that size instead."
    )


def test_a_view_that_was_undone() -> None:
    def function(x: weft.Value) -> weft.Value:
        return weft.ops.reshape(weft.ops.reshape(x, (1, 2, 72)) * 2, (1, 4, 6, 6))

    net = weft.trace(function, "f32[1,4,6,6]").with_shapes({"x": (3, 4, 5, 7)})
    check(net.graph)
    x = image(3, 4, 5, 7)
    np.testing.assert_array_equal(run(net.graph, x)[0], 2 * x)


def test_positions_that_pick_all_of_an_axis() -> None:
    order = np.arange(6)[::-1].copy()
    net = weft.trace(lambda x: weft.ops.gather(x, order, axis=2), "f32[2,4,6,6]")
    with pytest.raises(UserError) as caught:
        net.with_shapes({"x": (2, 4, 8, 6)})
    assert str(caught.value) == (
        "shapes: gather: constant positions pick all 6 of axis 2; got now f32[2,4,8,6] "
        "(node gather). A weight, a constant or an attribute holds the old size."
    )


def test_an_input_that_is_not_there() -> None:
    with pytest.raises(UserError) as caught:
        block().with_shapes({"image": (1, 3, 8, 8)})
    assert str(caught.value) == "shapes: graph net has no input image; got x"
