"""``weft draw``: the picture of the asked pass in the asked form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import weft
from weft.api import load
from weft.cli.show import GRAPHS, graphs
from weft.pictures import draw


@pytest.mark.parametrize("after", GRAPHS)
def test_the_graph_after_any_pass_is_written(digits: Path, tmp_path: Path, after: str):
    graph = dict(graphs(load(digits).graph))[after]
    path = tmp_path / "net.svg"
    result = weft("draw", digits, "-o", path, "--after", after)
    assert result.stdout == f"{path}: {len(graph.nodes)} nodes after {after}\n"
    assert path.read_text(encoding="utf-8") == draw(graph)


def test_the_ending_says_the_form(digits: Path, tmp_path: Path):
    path = tmp_path / "net.DOT"
    result = weft("draw", digits, "-o", path, "--json")
    nodes = len(load(digits).graph.nodes)
    assert json.loads(result.stdout) == {"file": str(path), "pass": "import", "nodes": nodes}
    assert path.read_text(encoding="utf-8") == draw(load(digits).graph, format="dot")


def test_other_endings_are_refused(digits: Path, tmp_path: Path):
    result = weft("draw", digits, "-o", tmp_path / "net.png")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: a picture is written as .svg, .dot, .html\n  got: net.png\n"
        "  fix: Write .html, whose button PNG saves the picture.\n"
    )
    result = weft("draw", digits, "-o", tmp_path / "net.gif")
    assert result.stderr == "error: a picture is written as .svg, .dot, .html\n  got: net.gif\n"


def test_a_page_knows_what_nodes_take(digits: Path, tmp_path: Path):
    path = tmp_path / "net.html"
    assert weft("draw", digits, "-o", path, "--time").exit_code == 0
    assert '"name":"measured time","unit":"\\u00b5s"' in path.read_text(encoding="utf-8")
    result = weft("draw", digits, "-o", tmp_path / "net.svg", "--time")
    assert result.stderr == "error: --time is for pages, .html\n  got: net.svg\n"
