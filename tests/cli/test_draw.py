"""``weft draw``: the picture of the asked pass in the asked form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.commands import good, weft
from tests.turns import a_few
from weft import api
from weft.api import load
from weft.cli.show import GRAPHS, graphs
from weft.pictures import draw, file


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
    result = weft("draw", digits, "-o", tmp_path / "net.gif")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: a picture is written as .svg, .dot, .html, .png\n  got: net.gif\n"
    )


PNG_COMMANDS = (
    "draw MODEL -o FILE",
    "query MODEL Conv --draw FILE",
    "plan MODEL --svg FILE",
    "bench MODEL --layers --seconds 0.01 --svg FILE",
    "campaign MODEL fault-weights count=1 --trials 1 --svg FILE",
    "compare MODEL MODEL --seconds 0.01 --svg FILE",
)


def command(text: str, model: Path, path: Path) -> list[object]:
    return [{"MODEL": model, "FILE": path}.get(word, word) for word in text.split()]


@pytest.mark.parametrize("text", a_few(PNG_COMMANDS, 3))
def test_every_picture_may_be_a_png(digits: Path, tmp_path: Path, text: str):
    path = tmp_path / "picture.png"
    good(*command(text, digits, path))
    with Image.open(path) as image:
        assert image.format == "PNG"


@pytest.mark.parametrize("text", PNG_COMMANDS)
def test_png_without_its_extra(digits: Path, tmp_path: Path, monkeypatch, text: str):
    """Refused before anything is measured."""
    monkeypatch.setattr(file, "installed", lambda name: name != "resvg_py")
    monkeypatch.setattr(api, "load", None)
    path = tmp_path / "picture.png"
    result = weft(*command(text, digits, path))
    assert (result.exit_code, result.stderr) == (
        1,
        "error: PNG pictures need the extra weft[png]\n  got: no package resvg_py\n"
        "  fix: pip install 'weft[png]', or write .svg\n",
    )
    assert not path.exists()


def test_the_width_of_a_png(digits: Path, tmp_path: Path):
    path = tmp_path / "net.png"
    good("draw", digits, "-o", path, "--width", 300)
    with Image.open(path) as image:
        assert image.width == 300
    result = weft("draw", digits, "-o", tmp_path / "net.svg", "--width", 300)
    assert result.stderr == "error: --width is for .png\n  got: net.svg\n"


def test_a_page_knows_what_nodes_take(digits: Path, tmp_path: Path):
    path = tmp_path / "net.html"
    assert weft("draw", digits, "-o", path, "--time").exit_code == 0
    assert '"name":"measured time","unit":"\\u00b5s"' in path.read_text(encoding="utf-8")
    result = weft("draw", digits, "-o", tmp_path / "net.svg", "--time")
    assert result.stderr == "error: --time requires an .html page\n  got: net.svg\n"
