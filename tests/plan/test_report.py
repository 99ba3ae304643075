"""The report of a plan agrees with the plan, and its rows with one another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.frontends.onnx import load
from weft.kernels.selection import implementer
from weft.ops.expand import expand
from weft.ops.table import OPS
from weft.plan.make import make
from weft.plan.plan import Plan
from weft.plan.report import HEADINGS, cells, report, size, spans, summary
from weft.rewrite.recipes import simplify
from weft.targets.find import target

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def plan() -> Plan:
    graph, _ = simplify(load(DIGITS))
    return make(expand(graph, OPS), OPS, implementer(target("generic")))


def test_rows_are_the_steps_in_order(plan):
    found = report(plan)
    assert [row.step for row in found.rows] == list(range(len(plan.steps)))
    assert found.rows[0].reads[0].region == "input"
    assert found.rows[-1].writes[0].region == "output"
    assert found.arena_bytes == plan.arena_bytes
    assert max(row.live for row in found.rows) == found.lower_bound == plan.lower_bound
    nodes = [name for row in found.rows for name in row.nodes]
    assert nodes.count("/head/head.0/Flatten") <= 1
    assert set(nodes) >= {node.name for node in plan.graph.nodes if node.op in ("Conv", "Gemm")}


def test_every_read_was_written_to_the_same_place(plan):
    where = {}
    for row in report(plan).rows:
        for place in row.reads:
            if place.region == "arena":
                root = place.within or place.value
                assert where[root][0] <= place.offset <= where[root][1] - place.bytes
        for place in row.writes:
            if place.region == "arena":
                where[place.within or place.value] = (place.offset, place.offset + place.bytes)


def test_the_record_is_json(plan):
    found = json.loads(json.dumps(report(plan).record()))
    assert found["arena_bytes"] == plan.arena_bytes
    assert found["rows"][0]["reads"][0]["type"] == "f32[1,1,8,8]"
    assert found["ratio"] == round(plan.arena_bytes / plan.lower_bound, 4)


def test_the_summary_has_the_arena(plan):
    found = report(plan)
    assert {len(cells(row)) for row in found.rows} == {len(HEADINGS)}
    assert f"arena {plan.arena_bytes:,} bytes" in summary(found)


def test_spans_lie_in_the_arena_and_apart(plan):
    found = spans(plan)
    assert max(each.offset + each.bytes for each in found) <= plan.arena_bytes
    for each in found:
        for other in found:
            together = each.first <= other.last and other.first <= each.last
            if each is not other and together:
                above = each.offset >= other.offset + other.bytes
                assert above or other.offset >= each.offset + each.bytes


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (99_999, "99,999 B"), (102_400, "100.0 KiB"), (3 << 20, "3.00 MiB")],
)
def test_sizes_for_people(count, shown):
    assert size(count) == shown
