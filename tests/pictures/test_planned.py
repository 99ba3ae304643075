"""Pictures of plans hold every kernel, its alternatives as the plan has them, and its loops."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import cache

import pytest

from weft.api import load
from weft.errors import UserError
from weft.loops.nodes import For
from weft.loops.statements import walk_stmts
from weft.loops.text import show_expr
from weft.pictures import draw_plan
from weft.pictures.families import ROLES
from weft.pictures.planned import planned_scene
from weft.plan.plan import Plan, written

SVG = "{http://www.w3.org/2000/svg}"


@cache
def plan() -> Plan:
    return load("examples/digits/digits.onnx").plan("x86-avx2", threads=2)


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_every_step_is_a_box_with_its_nodes_and_kernel():
    boxes = [box for box in planned_scene(plan(), "groups").boxes if not box.is_port]
    assert [box.name for box in boxes] == [step.writes[0] for step in plan().steps]
    for box, step in zip(boxes, plan().steps, strict=True):
        assert box.heading.startswith(step.nodes[0].op)
        assert box.lines[1].startswith(step.scheme)
        assert box.facts is not None
        assert box.facts.sources == tuple(node.name for node in step.nodes)


def test_the_alternatives_are_those_of_the_plans_text_and_the_chosen_one_is_first():
    texts_of = written(plan()).body.steps
    boxes = [box for box in planned_scene(plan(), "groups").boxes if not box.is_port]
    several = 0
    for box, text in zip(boxes, texts_of, strict=True):
        offered = {each.name: each for answer in text.answers for each in answer.alternatives}
        names = [row.text.split(": ")[0] for row in box.rows if not row.text.startswith("and ")]
        assert set(names) <= set(offered)
        if not names:
            continue
        several += 1
        assert names[0] == text.kernel
        assert [row.role for row in box.rows] == ["chosen", *[""] * (len(box.rows) - 1)]
        cycles = [offered[name].cycles for name in names]
        known = [each for each in cycles if each is not None]
        assert known == sorted(known)
    assert several >= 2


def test_the_loops_stand_within_one_another_as_in_the_kernel():
    boxes = [box for box in planned_scene(plan(), "loops").boxes if not box.is_port]
    for box, step in zip(boxes, plan().steps, strict=True):
        assert step.implementation is not None
        rows = [row for row in box.rows if row.text.startswith("for ")]
        loops = [
            each for each in walk_stmts(step.implementation.kernel.body) if isinstance(each, For)
        ]
        kinds = {each.kind.value for each in loops}
        assert {row.role for row in rows} <= kinds <= set(ROLES)
        first = loops[0]
        assert rows[0].text == f"for {first.var} in 0..{show_expr(first.stop)} {first.kind.value}"
        for place, row in enumerate(box.rows):
            # Those that a row's colour covers are set in further than it.
            inside = box.rows[place + 1 : place + row.span]
            assert all(each.depth > row.depth or each.text == "else" for each in inside)
        assert all(place + row.span <= len(box.rows) for place, row in enumerate(box.rows))


def test_statements_that_differ_in_numbers_only_are_counted():
    rows = [row.text for box in planned_scene(plan(), "loops").boxes for row in box.rows]
    assert any(re.fullmatch(r"and \d+ more like this", row) for row in rows)


def test_wires_join_makers_and_readers_through_views():
    scene = planned_scene(plan(), "groups")
    joined = {(wire.source, target) for wire in scene.wires for target in wire.targets}
    # The digits' network is a chain with one branch around a step.
    chain = {(place, place + 1) for place in range(len(scene.boxes) - 1)}
    assert joined == chain | {(1, 3)}


def test_all_formats_hold_the_rows():
    picture = draw_plan(plan(), level="loops")
    found = texts(picture)
    rows = [row.text for box in planned_scene(plan(), "loops").boxes for row in box.rows]
    assert set(rows) <= set(found)
    assert {"chosen alternative", "vector loop", "serial loop"} <= set(found)
    dot = draw_plan(plan(), level="loops", format="dot")
    assert all(row.replace('"', '\\"') in dot for row in rows)
    page = draw_plan(plan(), level="loops", format="html")
    data = json.loads(re.findall(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.S)[0])
    assert [row[0] for box in data["boxes"] for row in box["rows"]] == rows
    assert data["heats"][0]["name"] == "estimated cycles"
    assert sum(data["heats"][0]["values"]) > 0
    refused = [name for box in data["boxes"] for name, _ in box["attributes"] if "not " in name]
    assert "not attention" in refused


def test_levels_and_what_they_take():
    net = load("examples/digits/digits.onnx")
    assert net.draw(level="groups", target="x86-avx2", threads=2) == draw_plan(plan())
    with pytest.raises(UserError) as error:
        net.draw(level="groups", highlight=[net.graph.nodes[0].name])
    assert str(error.value) == "nodes are highlighted at level nodes; got level groups"
    with pytest.raises(UserError) as error:
        net.draw(threads=2)
    assert str(error.value) == (
        "target and options are of plans; got level nodes. Draw level groups or loops."
    )
    with pytest.raises(UserError) as error:
        draw_plan(plan(), level="rows")  # type: ignore[arg-type]
    assert str(error.value) == "a plan is drawn at level groups or loops; got rows"
