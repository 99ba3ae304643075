"""What values show of themselves: one screen, never the weights."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.screen import COLUMNS, LINES, Screen, elided
from weft.surgery.view import Selection


def _fits(text: str) -> None:
    lines = text.split("\n")
    assert len(lines) <= LINES, text
    assert max(map(len, lines)) <= COLUMNS, text


@pytest.fixture(scope="module")
def deep() -> weft.Net:
    """More nodes than a screen has lines, and names that are longer than it is wide."""
    x = weft.input("x", "f32[1,4,8,8]")
    rng = np.random.default_rng(0)
    y = x
    for n in range(30):
        w = rng.normal(0, 1, (4, 4, 3, 3)).astype(np.float32)
        name = f"/model/{'very_' * 20}long/conv{n}"
        y = weft.ops.relu(weft.ops.conv(y, w, pads=(1, 1, 1, 1), name=name))
    return weft.net([x], [y.named("y")], name="deep")


def test_everything_that_users_meet_fits_on_a_screen(deep):
    graph = deep.graph
    values = [
        deep,
        graph,
        deep.compile(threads=1),
        deep.query("Conv -> Relu"),
        deep.query("Conv -> Relu")[0],
        deep.plan("generic"),
        deep.stats(),
        deep.implementations("generic")[0],
        deep.view([node.name for node in graph.nodes]),
        deep.simplification[1],
        deep.program("generic"),
        deep.source("generic"),
        deep.toolkit("generic"),
        deep.toolkit("generic").report,
        weft.compare([deep, deep], run=False),
    ]
    for each in values:
        _fits(repr(each))
        assert each._repr_html_().startswith("<div>")
    _fits("\n".join(map(repr, deep.plan("generic").steps[:3])))


def test_a_net_tells_what_it_takes_and_gives(digits):
    net = weft.load(digits)
    told = repr(net)
    assert told == (
        "Net digits: 17 nodes, 6,762 elements of constants in 27,048 bytes\n"
        "  inputs   image: f32[1,1,8,8]\n"
        "  outputs  scores: f32[1,10]\n"
        "  ops      4 Conv, 4 BatchNormalization, 4 Relu, 2 MaxPool, Add, Flatten, Gemm"
    )
    assert repr(net.graph) == told.replace("Net ", "Graph ", 1)
    first, inputs, outputs, memory, library = repr(net.compile(threads=1)).split("\n")
    assert first == "CompiledNet digits: 1 thread"
    assert (inputs, outputs) == (
        "  inputs   image: f32[1,1,8,8]",
        "  outputs  scores: f32[1,10]",
    )
    assert memory.startswith("  memory   arena ")
    assert ".so" in library


def test_html_has_the_figures_and_the_picture(digits):
    net = weft.load(digits)
    page = net._repr_html_()
    assert page.startswith("<div><b>Net digits: 17 nodes")
    assert "<svg" in page
    assert "&lt;" in Screen("a < b").html()


def test_matches_tell_where(digits):
    lines = repr(weft.load(digits).query("c:Conv -> BatchNormalization")).split("\n")
    assert lines[0] == "Matches: 4 matches"
    assert "/stem/stem.0/Conv (Con" in lines[2]


def test_a_view_tells_its_borders():
    x = weft.input("x", "f32[2]")
    net = weft.net([x], [weft.ops.relu(x + 1).named("y")], name="tiny")
    view = net.view([node.name for node in net.graph.nodes])
    assert isinstance(view, Selection)
    assert repr(view).split("\n")[:3] == [
        "View of 2 nodes of tiny",
        "  inputs     x",
        "  outputs    y",
    ]


def test_long_tables_say_how_much_is_left_out():
    rows = [(str(number), "x" * 200) for number in range(100)]
    text = Screen("many", (), ("number", "name"), rows, (0,)).text()
    _fits(text)
    assert text.endswith("  ... 79 more")
    assert "x…x" in text
    exact = Screen("few", (), ("number", "name"), rows[: LINES - 2]).text()
    assert len(exact.split("\n")) == LINES
    assert "more" not in exact


def test_the_middle_is_left_out():
    assert elided("abcdefghij", 9) == "ab…efghij"
    assert elided("abc", 3) == "abc"
    assert elided("model/conv2d_2/BiasAdd", 13) == "mode…/BiasAdd"
    assert all(len(elided("model/conv2d_2/BiasAdd", width)) <= width for width in range(1, 30))
