"""Networks of several: ``weft.merge``, with what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft
from tests.surgery.nets import block, check, image, run
from weft import layers
from weft.errors import UserError
from weft.ir.history import HistoryEntry

X = image(1, 3, 8, 8)


@pytest.mark.parametrize("at", ["c", "r", "s r"])
def test_what_was_split_is_merged(at: str) -> None:
    net = block()
    front, back = net.split(at.split())
    fed = {f"back.{name}": f"front.{name}" for name in back.inputs}
    whole = weft.merge({"front": front, "back": back}, fed)
    check(whole.graph)
    assert whole.graph.inputs == ("front.x",)
    made = dict(zip(whole.graph.outputs, run(whole.graph, X), strict=True))
    for name, want in zip(net.graph.outputs, run(net.graph, X), strict=True):
        (found,) = (made[part] for part in (f"front.{name}", f"back.{name}") if part in made)
        np.testing.assert_array_equal(found, want)


def test_two_heads_on_one_trunk() -> None:
    trunk = weft.trace(layers.Linear(4), "f32[N,3]", seed=1)
    head = weft.trace(weft.ops.relu, "f32[N,4]")
    (made,), (given,), (result,) = trunk.outputs, head.inputs, head.outputs
    both = weft.merge(
        {"trunk": trunk, "one": head, "two": head.graph},
        {f"one.{given}": f"trunk.{made}", f"two.{given}": f"trunk.{made}"},
        name="both",
    )
    check(both.graph)
    assert both.graph.name == "both"
    assert both.graph.outputs == (f"one.{result}", f"two.{result}")
    x = np.ones((2, 3), np.float32)
    one, two = run(both.bound(2).graph, x)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, np.maximum(run(trunk.bound(2).graph, x)[0], 0))


def test_the_history_says_what_made_the_parts() -> None:
    net = weft.trace(weft.ops.relu, "f32[2]")
    whole = weft.merge({"a": net.insert("x", weft.ops.neg), "b": net}, {})
    assert whole.history == (
        HistoryEntry("build", "a: 1 nodes by hand"),
        HistoryEntry("insert", "a: neg on x"),
        HistoryEntry("build", "b: 1 nodes by hand"),
        HistoryEntry("merge", "a, b"),
    )


REFUSALS: list[tuple[Callable[[weft.Net], object], str]] = [
    (lambda _: weft.merge({}, {}), "merge: there must be at least one part; got none"),
    (
        lambda net: weft.merge({"a": net, "b": weft.ops.relu}, {}),  # type: ignore[dict-item]
        "merge: a part must be a network or a graph; got function (part b). "
        "weft.trace turns a function or a layer into a network.",
    ),
    (
        lambda net: weft.merge({"a": net, "b": net}, {"b.z": "a.y"}),
        "merge: b.z is not an input of a part; got a.x, b.x. Did you mean b.x?",
    ),
    (
        lambda net: weft.merge({"a": net, "b": net}, {"b.x": "a.early_"}),
        "merge: a.early_ is not an output of a part; got a.y, a.early, b.y, b.early. "
        "Did you mean a.early or b.early?",
    ),
    (
        lambda net: weft.merge({"a": net, "b": net}, {"b.x": "a.y"}),
        "merge: wired values must have one type; got a.y: f32[1,4,8,8], b.x: f32[1,3,8,8]",
    ),
]


@pytest.mark.parametrize(("use", "message"), REFUSALS, ids=[message for _, message in REFUSALS])
def test_refusals(use: Callable[[weft.Net], object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        use(block())
    assert str(caught.value) == message


def test_a_circle_is_refused() -> None:
    net = weft.trace(weft.ops.relu, "f32[2]")
    (made,) = net.outputs
    with pytest.raises(UserError, match="cycle"):
        weft.merge({"a": net, "b": net}, {"a.x": f"b.{made}", "b.x": f"a.{made}"})
