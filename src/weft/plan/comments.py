"""What the C of a program says of itself: ops, layers, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.ir.graph import Node
from weft.ir.printer import show_attributes
from weft.ir.types import TensorType
from weft.plan.fusion import Group
from weft.plan.roles import operand_roles

SHOWN_LAYERS = 6
"""Layers that the comment of a function names."""


def describe(group: Group, types: Mapping[str, TensorType]) -> str:
    """Ops, attributes and shapes of a group, for comments."""
    ops = " + ".join(map(op_text, group.nodes))
    roles = operand_roles(group)
    reads = ", ".join(f"{roles[value]} {types[value]}" for value in group.reads)
    return f"{ops}: {reads} -> {group.type}"


def op_text(node: Node) -> str:
    """A node's op with what its attributes are, for comments."""
    attributes = show_attributes(node.attributes)
    return f"{node.op}[{attributes}]" if attributes else node.op


def layer_of(group: Group, names: Mapping[str, str]) -> str:
    """Which layer of the model a group computes: where its first node comes from."""
    first = group.nodes[0]
    name = (first.origin.sources or (first.name,))[0]
    return names.get(name, name)


def use_text(what: str, layers: Sequence[str]) -> Iterator[str]:
    """A function's comment on one of its uses."""
    yield what
    if layers:
        more = f" and {len(layers) - SHOWN_LAYERS} more" if len(layers) > SHOWN_LAYERS else ""
        noun = "layer" if len(layers) == 1 else "layers"
        yield f"{noun} {', '.join(layers[:SHOWN_LAYERS])}{more}"


def provenance(group: Group, names: Mapping[str, str]) -> tuple[str, ...]:
    """Where a group comes from: source nodes, by short names, and the rules that made it."""
    sources: dict[str, None] = {}
    rules: dict[str, None] = {}
    for node in group.nodes:
        sources.update(dict.fromkeys(node.origin.sources or (node.name,)))
        rules.update(dict.fromkeys(node.origin.rules))
    lines = [f"from {', '.join(names.get(source, source) for source in sources)}"]
    if rules:
        lines.append(f"by {', '.join(rules)}")
    return tuple(lines)
