"""``weft query``: matches as text, as JSON and in pictures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import Result

import weft
from tests.cli.commands import weft as command
from weft.api import Net
from weft.ir.text import parse
from weft.ops.table import OPS

WINDOW = "{kernel=(1,), strides=(1,), dilations=(1,), pads=(0, 0)}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    graph = parse(
        """graph g(%x: f32[1,2,4]) -> (%s) {
            const %w: f32[2,2,1] = [1.0, 2.0, 3.0, 4.0]
            %a: f32[1,2,4] = Conv(%x, %w)
            %b: f32[1,2,4] = Relu(%a)
            %c: f32[1,2,4] = Conv(%b, %w)
            %s: f32[1,2,4] = Add(%c, %b)
        }""",
        lambda op: OPS[op].attributes,
    )
    Net(graph).save(tmp_path / "net.weft")
    return tmp_path / "net.weft"


def run(*arguments: object) -> Result:
    return command("query", *arguments)


def test_text(model: Path) -> None:
    result = run(model, "c: Conv -> (r: Relu)* -> Add(_, y)")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "match 1: c: a; r: b; y: b",
        f"  %a: f32[1,2,4] = Conv(%x, %w) {WINDOW}",
        "  %b: f32[1,2,4] = Relu(%a)",
        "  %s: f32[1,2,4] = Add(%c, %b)",
        "match 2: c: c; r: nothing; y: b",
        f"  %c: f32[1,2,4] = Conv(%b, %w) {WINDOW}",
        "  %s: f32[1,2,4] = Add(%c, %b)",
        "2 matches",
    ]


def test_json(model: Path) -> None:
    result = run(model, "c: Conv -> Add", "--json", "--overlaps", "best", "--seconds", 3600)
    assert json.loads(result.stdout) == {
        "matches": [
            {
                "nodes": ["c", "s"],
                "inputs": ["b"],
                "outputs": ["s"],
                "values": {},
                "named": {"c": "c"},
                "lists": {},
            }
        ],
        "cut": "",
        "hint": "",
    }


def test_matches_after_a_later_pass_are_told(tmp_path: Path) -> None:
    x = weft.input("x", "f32[2,8]")
    weft.net([x], [x * weft.ops.sigmoid(x)]).save(tmp_path / "swish.weft")
    result = command("query", tmp_path / "swish.weft", "Swish")
    assert result.stdout.splitlines() == [
        "0 matches",
        "the graph has no Swish; 1 match after the pass form: add --after form",
    ]
    result = command("query", tmp_path / "swish.weft", "Swish", "--after", "form")
    assert result.stdout.splitlines()[-1] == "1 match"
    result = command("query", tmp_path / "swish.weft", "Gelu", "--json")
    assert json.loads(result.stdout)["hint"] == "the graph has no Gelu"
    net = weft.load(tmp_path / "swish.weft")
    assert repr(net.query("Swish")).splitlines() == [
        "Matches: 0 matches",
        "  hint  the graph has no Swish; 1 match after simplification: ask net.simplified()",
    ]


def test_pictures(model: Path, tmp_path: Path) -> None:
    picture = tmp_path / "net.svg"
    result = run(model, "Conv", "--draw", picture)
    assert result.stdout.endswith(f"2 matches\npicture: {picture}\n")
    text = picture.read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert "match 1" in text
    assert "match 2" in text


def test_errors_show_the_place(model: Path) -> None:
    result = run(model, "Conv -> Rellu")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "error: query: Rellu is not an op of Weft",
        "  at: line 1, column 9",
        "    Conv -> Rellu",
        "            ^",
        "  fix: Did you mean Relu or PRelu or Elu?",
    ]


def test_nets_are_asked(model: Path) -> None:
    net = weft.load(model)
    matches = net.query("Conv[rank3]", predicates={"rank3": lambda s: len(s.type.shape) == 3})
    assert [match.root.name for match in matches] == ["a", "c"]
    marked = {"matches": [node.name for match in matches for node in match.nodes]}
    assert "matches" in net.draw(highlight=marked)


def test_long_names(tmp_path: Path) -> None:
    """Those of converters are short in front of people, whole where all is asked for."""
    long = ";".join(f"model/stage{place}/block/conv2d_{place}/Conv2D" for place in range(9))
    graph = parse(
        f"""graph g(%x: f32[1,2,4]) -> (%"{long}") {{
            %a: f32[1,2,4] = Relu(%x)
            %"{long}": f32[1,2,4] = Neg(%a)
        }}""",
        lambda op: OPS[op].attributes,
    )
    Net(graph).save(tmp_path / "long.weft")
    for extra, name in ((), "model/stage8/block/conv2d_8/Conv2D"), (("--wide",), long):
        result = run(tmp_path / "long.weft", "m: Neg", *extra)
        assert result.exit_code == 0, result.output
        shown = result.stdout.splitlines()
        assert shown[0] == f"match 1: m: {name}"
        assert name in shown[1]
        assert (long in shown[1]) == bool(extra)
    result = run(tmp_path / "long.weft", "m: Neg", "--json")
    assert json.loads(result.stdout)["matches"][0]["nodes"] == [long]
