"""Scopes of boxes: what a page folds into one box.

A node's scope is in its name where the exporter wrote it there
(``/layer1/layer1.0/conv1/Conv``, ``layer1.0.conv1``).  Other graphs are cut where a single
value carries everything on: into stages of one resolution, and those into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from weft.ir.graph import Node
from weft.ir.types import Dim
from weft.pictures.scene import Scene
from weft.records import dataclass

_MOST_DEPTH = 12


@dataclass(frozen=True, slots=True)
class PictureScope:
    """Boxes that can be folded into one.

    Attributes:
        name: the last part of its path.
        path: all parts.
        parent: index of the scope around it, -1 if there is none.
    """

    name: str
    path: str
    parent: int


@dataclass(frozen=True, slots=True)
class PictureScopes:
    """All scopes, outer ones first, and the innermost of each box, -1 if it has none."""

    scopes: tuple[PictureScope, ...]
    of_box: tuple[int, ...]


def scopes_of(what: Scene) -> PictureScopes:
    """The scopes of a scene's boxes: by name if half of the nodes have such names."""
    nodes = [box.node for box in what.boxes if box.node]
    for separator in ("/", "."):
        named = [_parts(node, separator) for node in nodes]
        if 2 * sum(map(bool, named)) >= max(1, len(nodes)):
            parts = iter(named)
            return _numbered([next(parts) if box.node else () for box in what.boxes], separator)
    return _numbered(_blocks(what), "/")


def _parts(node: Node, separator: str) -> tuple[str, ...]:
    """The scopes around a node by its name, or by the name of what it was made from."""
    for name in (node.name, *node.origin.sources[:1]):
        parts = [part for part in name.split(separator) if part]
        if len(parts) > 1:
            return tuple(parts[:-1][:_MOST_DEPTH])
    return ()


def _numbered(paths: Sequence[tuple[str, ...]], separator: str) -> PictureScopes:
    """Scopes of more than one box each, and not of the same boxes as the scope around them."""
    sizes: dict[tuple[str, ...], int] = {}
    for path in paths:
        for depth in range(1, len(path) + 1):
            sizes[path[:depth]] = sizes.get(path[:depth], 0) + 1
    found: list[PictureScope] = []
    numbers: dict[tuple[str, ...], int] = {(): -1}
    for path in sorted(sizes, key=len):
        parent = numbers[path[:-1]]
        if sizes[path] < 2 or sizes[path] == sizes.get(path[:-1], 0):
            numbers[path] = parent
            continue
        numbers[path] = len(found)
        found.append(PictureScope(path[-1], separator.join(path), parent))
    return PictureScopes(tuple(found), tuple(numbers[path] for path in paths))


# --- without names --------------------------------------------------------------------------


def _waists(what: Scene) -> list[int]:
    """The boxes after which only one value, theirs, is still to be read."""
    last: dict[int, int] = {}
    for wire in what.wires:
        last[wire.source] = max(*wire.targets, last.get(wire.source, -1))
    found: list[int] = []
    reach = -1
    for place, box in enumerate(what.boxes):
        if box.node and reach <= place and place in last:
            found.append(place)
        reach = max(reach, last.get(place, -1))
    return found


def _resolution(what: Scene, place: int) -> tuple[Dim, ...]:
    """Sizes that tell stages apart: all but those of batch and channels of an image."""
    node = what.boxes[place].node
    types = [what.graph.types[value] for value in node.outputs if value] if node else []
    return types[0].shape[2:] if types and len(types[0].shape) >= 3 else ()


def _blocks(what: Scene) -> list[tuple[str, ...]]:
    """A path of stage and block for each box.

    A block ends at a waist; what has no branches goes with the block before it.
    """
    starts = [0, *(place + 1 for place in _waists(what)), len(what.boxes)]
    paths: list[tuple[str, ...]] = []
    stage, block = 0, 0
    resolution: tuple[Dim, ...] | None = None
    for start, end in pairwise(starts):
        segment = range(start, end)
        nodes = [place for place in segment if what.boxes[place].node]
        if not nodes:
            paths.extend(() for _ in segment)
            continue
        here = _resolution(what, nodes[-1])
        if here != resolution:
            stage, block, resolution = stage + 1, 1, here
        elif len(nodes) > 1:
            block += 1
        path = (_stage_name(stage, here), f"block {block}")
        paths.extend(path if what.boxes[place].node else () for place in segment)
    return paths


def _stage_name(stage: int, resolution: Iterable[Dim]) -> str:
    sizes = "×".join(str(dim) for dim in resolution)
    return f"stage {stage}" + (f" ({sizes})" if sizes else "")
