"""Structural difference of two graphs: what was added, removed and changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as changed

from weft.ir.graph import Graph, Node
from weft.ir.printer import show_node
from weft.ir.unknown import digest, same_array
from weft.records import dataclass
from weft.screen import Screen, Shown, several

_CONTEXT = 2


@dataclass(frozen=True, repr=False)
class GraphDiff(Shown):
    """What turns one graph into another.

    Attributes:
        old: the graph before.
        new: the graph after.
        pairs: name of the new node for the name of every old node that has a counterpart.
        added: new nodes without a counterpart.
        removed: old nodes without a counterpart.
        changed: pairs of nodes that differ in op, connections, types or attributes.
        interface: lines about inputs, outputs and constants.
    """

    old: Graph
    new: Graph
    pairs: dict[str, str]
    added: tuple[Node, ...]
    removed: tuple[Node, ...]
    changed: tuple[tuple[Node, Node], ...]
    interface: tuple[str, ...]

    def screen(self) -> Screen:
        """How much differs, and the first lines."""
        counts = (
            f"{several(len(self.added), 'node')} added, {len(self.removed):,} removed, "
            f"{len(self.changed):,} changed"
        )
        rows = [(line,) for line in self.lines()]
        return Screen(f"GraphDiff of {self.old.name}: {counts}", (), ("line",), rows)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.interface)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Unified text: ``-`` what went, ``+`` what came, some context, ``...`` for the rest."""
        if not self:
            return
        yield f"--- {self.old.name}"
        yield f"+++ {self.new.name}"
        yield from self.interface
        marked = list(self._marked())
        near = [False] * len(marked)
        for index, line in enumerate(marked):
            if line[0] != " ":
                for other in range(
                    max(0, index - _CONTEXT), min(len(marked), index + _CONTEXT + 1)
                ):
                    near[other] = True
        for index, line in enumerate(marked):
            if near[index]:
                yield line
            elif index == 0 or near[index - 1]:
                yield "  ..."

    def _marked(self) -> Iterator[str]:
        """Every node's line with its mark; removed nodes before their old successors."""
        back = {new: old for old, new in self.pairs.items()}
        differing = {new.name: old for old, new in self.changed}
        pending = [node for node in self.old.nodes if node.name not in self.pairs]
        order = {node.name: index for index, node in enumerate(self.old.nodes)}
        pending.reverse()
        for node in self.new.nodes:
            counterpart = back.get(node.name)
            while counterpart and pending and order[pending[-1].name] < order[counterpart]:
                yield f"- {show_node(pending.pop(), self.old)}"
            if node.name in differing:
                yield f"- {show_node(differing[node.name], self.old)}"
            mark = "+" if counterpart is None or node.name in differing else " "
            yield f"{mark} {show_node(node, self.new)}"
        for node in reversed(pending):
            yield f"- {show_node(node, self.old)}"


def diff(old: Graph, new: Graph) -> GraphDiff:
    """Compare two graphs.

    Nodes are matched by name, then by the name of an output, then by op and inputs.
    """
    pairs = _pairs(old, new)
    taken = set(pairs.values())
    values = _matched_values(old, new, pairs)
    both = [(old.by_name[a], new.by_name[b]) for a, b in pairs.items()]
    return GraphDiff(
        old,
        new,
        pairs,
        tuple(node for node in new.nodes if node.name not in taken),
        tuple(node for node in old.nodes if node.name not in pairs),
        tuple((a, b) for a, b in both if _differs(old, new, a, b, values)),
        tuple(_interface(old, new)),
    )


def _pairs(old: Graph, new: Graph) -> dict[str, str]:
    pairs: dict[str, str] = {}
    taken: set[str] = set()

    def pair(left: Node, right: Node | None) -> None:
        if right and right.op == left.op and left.name not in pairs and right.name not in taken:
            pairs[left.name] = right.name
            taken.add(right.name)

    for node in old.nodes:
        pair(node, new.by_name.get(node.name))
    for node in old.nodes:
        for value in node.outputs:
            pair(node, new.producers.get(value))
    values = _matched_values(old, new, pairs)
    unmatched: dict[tuple[str, tuple[str, ...]], list[Node]] = {}
    for node in new.nodes:
        if node.name not in taken:
            unmatched.setdefault((node.op, node.inputs), []).append(node)
    for node in old.nodes:
        key = (node.op, tuple(values.get(value, value) for value in node.inputs))
        candidates = unmatched.get(key, [])
        if node.name not in pairs and candidates:
            right = candidates.pop(0)
            pair(node, right)
            values.update(zip(node.outputs, right.outputs, strict=False))
    return pairs


def _matched_values(old: Graph, new: Graph, pairs: dict[str, str]) -> dict[str, str]:
    """The new names of values: of matched nodes, inputs by position, equal constants."""
    found = dict(zip(old.inputs, new.inputs, strict=False))
    renamed = {digest(new.constants[name]): name for name in new.constants if name not in old.types}
    for name in [each for each in old.constants if each not in new.types]:
        found[name] = renamed.get(digest(old.constants[name]), name)
    for left, right in pairs.items():
        made = zip(old.by_name[left].outputs, new.by_name[right].outputs, strict=False)
        found.update({a: b for a, b in made if a})
    return found


def _differs(old: Graph, new: Graph, left: Node, right: Node, values: dict[str, str]) -> bool:
    moved = changed(
        left,
        name=right.name,
        origin=right.origin,
        inputs=tuple(values.get(value, value) for value in left.inputs),
        outputs=right.outputs if len(left.outputs) == len(right.outputs) else left.outputs,
    )
    types = [old.types.get(value) for value in left.outputs]
    return moved != right or types != [new.types.get(value) for value in right.outputs]


def _interface(old: Graph, new: Graph) -> Iterator[str]:
    for kind, before, after in (
        ("inputs", old.inputs, new.inputs),
        ("outputs", old.outputs, new.outputs),
    ):
        left = ", ".join(f"{value}: {old.types[value]}" for value in before)
        right = ", ".join(f"{value}: {new.types[value]}" for value in after)
        if left != right:
            yield f"- {kind} {left}"
            yield f"+ {kind} {right}"
    for name in dict.fromkeys([*old.constants, *new.constants]):
        before, after = old.constants.get(name), new.constants.get(name)
        if before is not None and after is not None and same_array(before, after):
            continue
        if before is not None:
            yield f"- const {name}: {old.types[name]} @{digest(before)}"
        if after is not None:
            yield f"+ const {name}: {new.types[name]} @{digest(after)}"
