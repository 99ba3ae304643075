"""The page: its data are all there and only data; in a browser it draws, folds, finds and shows."""

from __future__ import annotations

import json
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from tests.pictures.chromium import SECONDS, Page, browser, find
from weft.api import Net, load
from weft.dtypes import DType
from weft.ir.graph import Graph
from weft.ir.types import TensorType
from weft.kernels.examples import example_graph
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.pictures import draw, draw_plan
from weft.pictures.planned import planned_scene

EVIL = (
    "</script><script>document.title='evil'</script><img src=x onerror=\"document.title='evil'\">"
)


def net(prefix: str = "") -> Graph:
    """Two scopes, a skip, weights; and names that objects have, too."""
    builder = GraphBuilder(OPS, f"{prefix}net")
    x = builder.input(f"{prefix}constructor", TensorType(DType.F32, (1, 64)))
    weight = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    names = (f"{prefix}__proto__", f"{prefix}w")
    first, second = (builder.constant(weight, name) for name in names)
    value = builder.op("MatMul", x, first, name=f"/{prefix}a/multiply")
    value = builder.op("Relu", value, name=f"/{prefix}a/act")
    value = builder.op("MatMul", value, second, name=f"/{prefix}b/multiply")
    value = builder.op("Relu", value, name=f"/{prefix}b/act")
    return builder.graph([builder.op("Add", value, x, name=f"{prefix}sum", output=f"{prefix}y")])


class _Elements(HTMLParser):
    """What elements a page has, and the text of some."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        name = self.found[-1][1].get("id") or self.found[-1][0] if self.found else ""
        self.texts.setdefault(name or "", data)


def data_of(page: str) -> dict:
    return json.loads(_Elements(page).texts["data"])


def test_everything_is_in_the_data():
    data = data_of(draw(net(), format="html", highlight={"first": ["/a/act"]}))
    boxes = {box["name"]: place for place, box in enumerate(data["boxes"])}
    assert list(boxes) == [
        "constructor",
        "/a/multiply",
        "/a/act",
        "/b/multiply",
        "/b/act",
        "sum",
        "y",
    ]
    multiply = data["boxes"][boxes["/a/multiply"]]
    assert multiply["op"] == "MatMul"
    assert multiply["inputs"] == ["constructor", "__proto__"]
    assert data["kinds"][multiply["kind"]]["name"] == "matrix product"
    assert [each["path"] for each in data["scopes"]] == ["a", "b"]
    assert data["marks"][0]["boxes"] == [boxes["/a/act"]]
    wires = {wire["value"]: wire for wire in data["wires"]}
    assert wires["constructor"]["targets"] == [boxes["/a/multiply"], boxes["sum"]]
    assert wires["constructor"]["type"] == "f32[1,64]"
    assert len(wires["constructor"]["bends"]) == 4
    assert sum(data["constants"]["w"]["bins"]) == 64 * 64


def test_what_nodes_compute_and_move_and_take():
    graph = net()
    times = {"/a/multiply": 1.5, "sum": 0.25}
    data = data_of(draw(graph, format="html", measured=times))
    names = [box["name"] for box in data["boxes"]]
    heats = {each["name"]: dict(zip(names, each["values"], strict=True)) for each in data["heats"]}
    assert list(heats) == ["MACs", "bytes moved", "measured time"]
    assert heats["MACs"]["/a/multiply"] == heats["MACs"]["/b/multiply"] == 64 * 64
    assert heats["bytes moved"]["sum"] == 3 * 64 * 4
    assert {name: value for name, value in heats["measured time"].items() if value} == times
    assert [each["name"] for each in data_of(draw(graph, format="html"))["heats"]] == [
        "MACs",
        "bytes moved",
    ]


def test_long_names_are_shown_by_their_ends():
    data = data_of(draw(net("a/long/path/of/scopes/that/a/converter/made/"), format="html"))
    box = next(each for each in data["boxes"] if each["op"] == "Add")
    assert box["name"] == "path/of/scopes/that/a/converter/made/sum"
    assert box["full"] == "a/long/path/of/scopes/that/a/converter/made/sum"
    assert box["lines"][0].endswith("made/sum")


def test_bodies_of_control_flow_are_printed():
    graph = Net(example_graph(OPS["LSTM"])).expanded().graph
    data = data_of(draw(graph, format="html"))
    (scan,) = [box for box in data["boxes"] if box["op"] == "Scan"]
    body = next(text for name, text in scan["attributes"] if name == "body")
    assert body.startswith("graph ")
    assert "= MatMul(" in body or "= Gemm(" in body
    assert "nodes" in " ".join(scan["lines"])


def test_the_policy_lets_only_the_pages_own_script_and_style_act():
    elements = _Elements(draw(net(), format="html"))
    policy = next(
        attributes["content"] or ""
        for tag, attributes in elements.found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for name, directive in (("script", "script-src"), ("style", "style-src")):
        digest = b64encode(sha256(elements.texts[name].encode()).digest()).decode()
        assert allowed[directive] == f"'sha256-{digest}'"


def test_nothing_is_fetched_from_elsewhere():
    page = draw(net(), format="html")
    addresses = set(re.findall(r"https?:[^\s\"'<>]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place


def test_names_are_only_data():
    graph = net(EVIL)
    plain, evil = (
        _Elements(draw(each, format="html", title=title, highlight={title: [each.nodes[0].name]}))
        for each, title in ((net(), "title"), (graph, EVIL))
    )
    assert [tag for tag, _ in evil.found] == [tag for tag, _ in plain.found]
    assert evil.texts["title"] == EVIL
    data = json.loads(evil.texts["data"])
    assert data["boxes"][-1]["full"] == f"{EVIL}y"


def test_names_of_any_length_stay_bounded():
    assert len(draw(net("long/" * 2000), format="html")) < 80_000


def test_pages_are_the_same_each_time():
    assert draw(net(), format="html") == draw(net(), format="html")


# --- in a browser ---------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(
    find() is None, reason="no Chromium is on the path (or $WEFT_CHROMIUM)"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


def opened(page: Page, folder: Path, text: str) -> Page:
    path = folder / "net.html"
    path.write_text(text, encoding="utf-8")
    page.trouble.clear()
    page.open(path)
    return page


def shown(page: Page) -> list[str]:
    """The tooltips of all boxes: names of nodes, paths of folded scopes."""
    return page.run("[...document.querySelectorAll('.box > title')].map(each => each.textContent)")


def middle(page: Page, name: str) -> tuple[float, float]:
    """Where a box is seen."""
    box = page.run(
        "(() => { const title = [...document.querySelectorAll('.box > title')]"
        f".find(each => each.textContent === {json.dumps(name)});"
        "const r = title.parentNode.querySelector('.body').getBoundingClientRect();"
        "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
    )
    return box[0], box[1]


def details(page: Page) -> str:
    return page.run("document.getElementById('details').textContent")


@needs_browser
def test_it_opens_without_errors_and_shows_every_box(chromium: Page, tmp_path: Path):
    graph = net()
    page = opened(chromium, tmp_path, draw(graph, format="html"))
    assert shown(page) == ["constructor", *(node.name for node in graph.nodes), "y"]
    assert page.trouble == []


@needs_browser
def test_scopes_fold_and_unfold(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html"))
    page.click(*middle(page, "/a/act"), times=2)
    assert shown(page) == ["constructor", "a", "/b/multiply", "/b/act", "sum", "y"]
    assert "2 nodes" in details(page)
    page.click(*middle(page, "a"), times=2)
    assert "/a/act" in shown(page)
    page.run("document.getElementById('less').click()")
    assert shown(page) == ["constructor", "a", "b", "sum", "y"]
    page.run("document.getElementById('more').click()")
    assert len(shown(page)) == 7
    assert page.trouble == []


@needs_browser
def test_a_click_shows_the_details(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html"))
    page.click(*middle(page, "/b/multiply"))
    text = details(page)
    for part in (
        "/b/multiply",
        "MatMul",
        "matrix product",
        "w: f32[64,64] constant",
        "4,096 elements",
    ):
        assert part in text
    assert page.run("document.querySelectorAll('.histogram rect').length") == 32
    page.click(*middle(page, "/a/multiply"))
    assert "constructor: f32[1,64]" in details(page)
    assert "__proto__: f32[64,64] constant" in details(page)


@needs_browser
def test_the_search_finds_ops_names_and_values(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html"))
    page.run("document.getElementById('search').focus()")
    page.type("RELU /b/")
    assert page.run("document.querySelector('#results p').textContent") == "1 found"
    marked = "[...document.querySelectorAll('.found > title')].map(each => each.textContent)"
    assert page.run(marked) == ["/b/act"]
    page.run("document.querySelector('#results button').click()")
    assert "/b/act" in details(page)


@needs_browser
def test_it_moves_and_zooms(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html"))
    x, y = middle(page, "sum")
    page.mouse("mousePressed", 40, 400, button="left")
    page.mouse("mouseMoved", 140, 430, button="left", buttons=1)
    page.mouse("mouseReleased", 140, 430, button="left")
    assert middle(page, "sum") == pytest.approx((x + 100, y + 30), abs=1)
    before = page.run("document.querySelector('.body').getBoundingClientRect().width")
    page.mouse("mouseWheel", 300, 300, deltaX=0, deltaY=-250)
    page.run("new Promise(done => setTimeout(done, 50))")
    after = page.run("document.querySelector('.body').getBoundingClientRect().width")
    assert after > 1.2 * before


def fills(page: Page) -> dict[str, str]:
    """The colour of every box."""
    return page.run(
        "Object.fromEntries([...document.querySelectorAll('.box')].map(each =>"
        "[each.querySelector('title').textContent.split('\\n')[0],"
        " each.querySelector('.body').getAttribute('fill')]))"
    )


@needs_browser
def test_boxes_are_coloured_by_what_they_cost(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html", measured={"/a/act": 2.0}))
    assert fills(page)["/a/multiply"] == "#80b9d9"
    options = "[...document.querySelectorAll('#heat option')].map(each => each.textContent)"
    assert page.run(options) == ["kind of op", "MACs", "bytes moved", "measured time"]
    choose = (
        "document.getElementById('heat').value = {};"
        "document.getElementById('heat').dispatchEvent(new Event('change'))"
    )
    page.run(choose.format("'MACs'"))
    assert fills(page)["/a/multiply"] == fills(page)["/b/multiply"] == "rgb(240,110,70)"
    assert fills(page)["sum"] == "rgb(255,255,255)"
    assert "8,192 in all" in page.run("document.getElementById('legend').textContent")
    page.run(choose.format("'measured time'"))
    assert [name for name, fill in fills(page).items() if fill != "rgb(255,255,255)"] == ["/a/act"]
    page.click(*middle(page, "/a/act\n2 µs, 100.0 % of all"))
    assert "measured time2 µs" in details(page)
    page.run(choose.format("''"))
    assert fills(page)["/a/multiply"] == "#80b9d9"
    assert page.trouble == []


@needs_browser
def test_the_map_shows_what_is_seen_and_goes_there(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html"))
    assert page.run("document.querySelectorAll('#map rect:not(.seen)').length") == 7
    where = "document.querySelector('#map .seen').getAttribute('y')"
    before = page.run(where)
    box = page.run(
        "(() => { const r = document.getElementById('map').getBoundingClientRect();"
        "return [r.x, r.y, r.width, r.height]; })()"
    )
    page.click(box[0] + box[2] / 2, box[1] + box[3] - 8)
    assert page.run(where) != before
    # The end of the network is in the middle now.
    assert middle(page, "y")[1] == pytest.approx(450, abs=150)
    assert page.trouble == []


@needs_browser
def test_the_picture_is_saved_as_png(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(), format="html", title="a / net"))
    page.run("document.getElementById('png').click()")
    until = time.monotonic() + SECONDS
    while not page.run("document.documentElement.dataset.saved || ''"):
        assert time.monotonic() < until, page.trouble
        time.sleep(0.02)
    name, size = page.run("document.documentElement.dataset.saved").split()
    assert name == "a_net.png"
    assert int(size) > 2000
    # What was made in the page is all that was asked for.
    assert all(each.startswith("request: blob:") for each in page.trouble)


@needs_browser
def test_marked_nodes_have_frames_also_when_folded(chromium: Page, tmp_path: Path):
    text = draw(net(), format="html", highlight={"one": ["/a/act", "sum"], "two": ["/a/act"]})
    page = opened(chromium, tmp_path, text)
    count = "document.querySelectorAll('.marked').length"
    assert page.run(count) == 3
    page.run("document.getElementById('less').click()")
    assert page.run(count) == 3
    legend = page.run("document.getElementById('legend').textContent")
    assert "one (2)two (1)" in legend


@needs_browser
def test_evil_names_do_nothing(chromium: Page, tmp_path: Path):
    page = opened(chromium, tmp_path, draw(net(EVIL), format="html", title=EVIL))
    page.click(*middle(page, f"{EVIL}sum"))
    assert f"{EVIL}sum" in details(page)
    assert page.run("document.title") == EVIL
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.trouble == []


@needs_browser
def test_a_large_net_begins_folded(chromium: Page, tmp_path: Path):
    builder = GraphBuilder(OPS, "large")
    value = builder.input("x", TensorType(DType.F32, (4,)))
    for place in range(400):
        value = builder.op("Relu", value, name=f"/block{place // 40}/relu{place}")
    page = opened(chromium, tmp_path, draw(builder.graph([value]), format="html"))
    assert len(shown(page)) == 12
    page.run("document.getElementById('more').click()")
    assert len(shown(page)) == 402


@needs_browser
def test_plans_show_loops_and_say_what_was_refused(chromium: Page, tmp_path: Path):
    plan = load("examples/digits/digits.onnx").plan("x86-avx2", exact=True)
    page = opened(chromium, tmp_path, draw_plan(plan, level="loops", format="html"))
    scene = planned_scene(plan, "loops")
    assert shown(page) == [box.name for box in scene.boxes]
    rows = [row.text for box in scene.boxes for row in box.rows]
    texts = page.run("[...document.querySelectorAll('.box text')].map(each => each.textContent)")
    assert set(rows) <= set(texts)
    legend = page.run("document.getElementById('legend').textContent")
    assert "vector loop" in legend
    page.click(*middle(page, shown(page)[1]))
    assert "not attention" in details(page)
    assert page.trouble == []


@needs_browser
@pytest.mark.zoo
@pytest.mark.parametrize("name", ["resnet50.ts", "resnet50.dynamo", "bert.ts", "densenet121.ts"])
def test_pages_of_networks_open_without_errors(
    chromium: Page, tmp_path: Path, zoo: Path, name: str
):
    path = zoo / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"no {path}")
    graph = load(path).bound().graph
    matched = {"the first two": [node.name for node in graph.nodes[:2]]}
    page = opened(chromium, tmp_path, draw(graph, format="html", highlight=matched))
    assert page.run("document.querySelectorAll('.marked').length") >= 1
    for button in ("less", "less", "more", "more", "more", "fit"):
        page.run(f"document.getElementById('{button}').click()")
    assert len(shown(page)) == len(graph.nodes) + len(graph.inputs) + len(graph.outputs)
    assert page.trouble == []
