"""A graph as one HTML file that needs nothing else: it zooms, folds, searches, shows details.

Everything of the model is JSON in the page, from which its script draws; no part of it is ever
markup.  A content security policy lets nothing run but that one script, and nothing be fetched.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import isfinite
from string import Template
from typing import Any

from weft.errors import UserError
from weft.ir.graph import Graph
from weft.ir.printer import show
from weft.ops.table import OPS
from weft.pictures.canvas import clean, cut
from weft.pictures.constants import summaries
from weft.pictures.families import FILLS, ROLES
from weft.pictures.marks import Mark
from weft.pictures.scene import Box, Placed, attribute_text, attributes_of, type_text
from weft.pictures.scopes import scopes_of
from weft.plan.stats import stats

_MOST_LETTERS = 400
_MOST_BODY_LETTERS = 8000
_PARTS = files("weft.pictures") / "page"


def _text(text: str) -> str:
    """Text of the model, of bounded length."""
    return cut(clean(text), _MOST_LETTERS)


def _attribute(value: Any) -> str:
    """An attribute's value; of a body graph, its printed lines."""
    if isinstance(value, Graph):
        return cut(clean(show(value)), _MOST_BODY_LETTERS)
    return _text(attribute_text(value))


def _box(what: Placed, place: int, box: Box, scope: int, kinds: Sequence[str]) -> dict[str, Any]:
    node, facts, made = box.node, box.facts, what.layers
    reads = node.inputs if node else facts.reads if facts else ()
    writes = node.outputs if node else facts.writes if facts else ()
    sources = node.origin.sources if node else facts.sources if facts else ()
    record = [(name, _attribute(value)) for name, value, _ in attributes_of(node)] if node else []
    return {
        "name": _text(what.scene.names[box.name]),
        "full": "" if what.scene.names[box.name] == box.name else _text(box.name),
        "op": _text(node.op if node else box.heading if facts else box.kind),
        "kind": kinds.index(box.kind),
        "heading": clean(box.heading),
        "lines": [clean(line) for line in box.lines],
        "port": box.is_port,
        "scope": scope,
        "row": made.row[place],
        "x": round(what.x[place], 1),
        "width": box.width,
        "height": box.height,
        "rows": [[clean(row.text), row.depth, row.role, row.span] for row in box.rows],
        "rowTop": box.row_top,
        "attributes": [*record, *((_text(name), _text(told)) for name, told in facts.record)]
        if facts
        else record,
        "inputs": [_text(value) for value in reads],
        "outputs": [_text(value) for value in writes],
        "sources": [_text(name) for name in sources[:50]],
        "rules": [_text(name) for name in node.origin.rules] if node else [],
    }


def _wires(what: Placed) -> list[dict[str, Any]]:
    scene, made = what.scene, what.layers
    return [
        {
            "value": _text(value),
            "type": str(scene.types[value]),
            "short": type_text(scene.types[value]),
            "source": wire.source,
            "targets": list(wire.targets),
            "bends": [[made.row[bend], round(what.x[bend], 1)] for bend in made.bends[place]],
            "cut": made.cut[place],
        }
        for place, (value, wire) in enumerate(zip(scene.values, scene.wires, strict=True))
    ]


def _constants(what: Placed) -> dict[str, Any]:
    graph = what.scene.graph
    found: dict[str, Any] = {}
    for name, each in summaries(graph.constants, graph.types).items():
        record = asdict(each)
        # JSON has no numbers for these.
        record["values"] = [one if isfinite(one) else str(one) for one in each.values]
        found[_text(name)] = record
    return found


def _counted(graph: Graph) -> dict[str, Mapping[str, float]]:
    """What nodes compute and move, by the name of the figure; nothing where that is not known."""
    if any(node.op not in OPS for node in graph.nodes):
        return {}
    try:
        layers = stats(graph, OPS).layers
    except UserError:
        return {}
    moved = {each.name: each.weight_bytes + each.read_bytes + each.written_bytes for each in layers}
    return {"MACs": {each.name: each.macs for each in layers}, "bytes moved": moved}


_UNITS = {"MACs": "MACs", "bytes moved": "bytes", "estimated cycles": "cycles"}


def _heats(what: Placed, measured: Mapping[str, float]) -> list[dict[str, Any]]:
    """What boxes can be coloured by."""
    scene = what.scene
    # Of steps, more than what their nodes compute is known.
    heats = dict(scene.figures) if any(box.facts for box in scene.boxes) else _counted(scene.graph)
    if measured:
        heats["measured time"] = measured
    return [
        {
            "name": name,
            "unit": _UNITS.get(name, "µs"),
            "values": [
                0 if box.is_port else round(values.get(box.name, 0.0), 4) for box in scene.boxes
            ],
        }
        for name, values in heats.items()
        if any(values.values())
    ]


def _data(
    what: Placed, heading: str, marks: Sequence[Mark], measured: Mapping[str, float]
) -> dict[str, Any]:
    boxes = what.scene.boxes
    there = {box.kind for box in boxes}
    kinds = [kind for kind in FILLS if kind in there]
    scopes = scopes_of(what.scene)
    return {
        "title": clean(heading),
        "kinds": [{"name": kind, "fill": FILLS[kind]} for kind in kinds],
        "roles": {role: {"name": name, "fill": fill} for role, (name, fill) in ROLES.items()},
        "boxes": [
            _box(what, place, box, scopes.of_box[place], kinds) for place, box in enumerate(boxes)
        ],
        "scopes": [
            {"name": _text(each.name), "path": _text(each.path), "parent": each.parent}
            for each in scopes.scopes
        ],
        "heats": _heats(what, measured),
        "wires": _wires(what),
        "constants": _constants(what),
        "marks": [
            {
                "caption": _text(mark.caption),
                "colour": mark.colour,
                "boxes": [what.scene.place_of[name] for name in mark.nodes],
            }
            for mark in marks
        ],
    }


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot end the element that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a content security policy names what may run."""
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def html(
    what: Placed,
    heading: str,
    marks: Sequence[Mark] = (),
    measured: Mapping[str, float] | None = None,
) -> str:
    """The page.

    Args:
        what: boxes and wires with their positions.
        heading: stands above them.
        marks: nodes to frame.
        measured: microseconds of nodes, by name.
    """
    script, style = _part("page.js"), _part("page.css")
    return Template(_part("page.html")).substitute(
        title=escape(clean(heading)),
        script_hash=_hash(script),
        style_hash=_hash(style),
        style=style,
        script=script,
        data=_json(_data(what, heading, marks, measured or {})),
    )
