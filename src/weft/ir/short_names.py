"""Short names for people: the last telling part of each name of a graph, unique in the graph.

Converters name a node after every node that it came from, joined by semicolons.  Tables,
pictures and reports show such a name's end; JSON and files that are read back keep the name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from weft.ir.graph import Graph, Node
from weft.ir.naming import making, mapped, reading
from weft.screen import elided

Value = TypeVar("Value")

MOST = 40
"""Letters that a name may have to be shown whole."""
_LEAST = 8
_PART = re.compile(r"[;/.]|::")
# How TensorFlow names the reading of a weight, which says nothing beside the weight's name.
_NOISE = re.compile(r"/ReadVariableOp(/resource)?")


def short_names(names: Iterable[str], most: int = MOST) -> dict[str, str]:
    """What each name is called in front of people; no two names are called the same.

    A name of at most ``most`` letters is its own.  Of a longer one the end is shown, from the
    beginning of a part: the last of those that semicolons join, or less of it if that is still
    too long, or more if another name ends alike.
    """
    unique = list(dict.fromkeys(names))
    found = {name: name for name in unique if len(name) <= most}
    endings = {name: _endings(name, most) for name in unique if name not in found}
    counts = Counter(ending for each in endings.values() for ending in each)
    counts.update(found.keys())
    later: list[str] = []
    for name, each in endings.items():
        alone = next((ending for ending in each if counts[ending] == 1), None)
        if alone is None:
            later.append(name)
        else:
            found[name] = alone
    taken = set(found.values())
    for name in later:
        found[name] = _numbered(endings[name][0], taken)
        taken.add(found[name])
    return found


def _endings(name: str, most: int) -> list[str]:
    """Ends of a name, the one that is shown for preference first, longer ones after it."""
    name = _NOISE.sub("", name) or name
    starts = [match.end() for match in _PART.finditer(name) if len(name) - match.end() >= _LEAST]
    last = max((start for start in starts if name[start - 1] == ";"), default=0)
    short = [start for start in starts if len(name) - start <= most]
    inside = [start for start in short if start >= last]
    longer = [name[start:] for start in reversed(starts) if most < len(name) - start <= 2 * most]
    if not short:
        return [elided(name[last:], most), *longer]
    chosen = min(inside or short)
    nearer = [name[start:] for start in reversed(short) if start < chosen]
    return [name[chosen:], *nearer, *longer]


def _numbered(wish: str, taken: Container[str]) -> str:
    """An end that several names share, told apart by a number."""
    count = 2
    while f"{wish} ({count})" in taken:
        count += 1
    return f"{wish} ({count})"


def names_of(graph: Graph, others: Iterable[str] = ()) -> dict[str, str]:
    """Short names of the nodes and values of a graph, and of the nodes that they came from.

    Args:
        graph: the graph.
        others: further names that are shown beside them.
    """
    sources = (source for node in graph.nodes for source in node.origin.sources)
    return short_names([*(node.name for node in graph.nodes), *graph.types, *sources, *others])


def shortened(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The graph with short names, to be shown."""

    def shown(node: Node) -> Node:
        origin = replace(node.origin, sources=mapped(node.origin.sources, names))
        return replace(making(reading(node, names), names), name=names[node.name], origin=origin)

    return replace(
        graph,
        inputs=mapped(graph.inputs, names),
        outputs=mapped(graph.outputs, names),
        nodes=tuple(shown(node) for node in graph.nodes),
        types=_renamed(graph.types, names),
        constants=_renamed(graph.constants, names),
    )


def _renamed(values: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Value]:
    return {names[name]: value for name, value in values.items()}
