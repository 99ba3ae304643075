"""The order of nodes: what a node reads is made before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import AttributeProto, GraphProto, NodeProto

from weft.errors import UserError
from weft.frontends.onnx.scope import MAX_DEPTH


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node's attributes hold."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def reads(node: NodeProto, depth: int = 0) -> set[str]:
    """Names that a node reads, those that its subgraphs take from around included."""
    found = {name for name in node.input if name}
    for graph in subgraphs(node):
        found |= _free(graph, depth + 1)
    return found


def _free(graph: GraphProto, depth: int) -> set[str]:
    if depth > MAX_DEPTH:
        raise UserError(f"onnx: functions and subgraphs may be nested {MAX_DEPTH} deep")
    used = {each.name for each in graph.output}
    made = {each.name for each in (*graph.input, *graph.initializer)}
    made |= {each.values.name for each in graph.sparse_initializer}
    for node in graph.node:
        used |= reads(node, depth)
        made.update(node.output)
    return used - made


def in_order(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """The nodes, moved only where a value would be read before it is made.

    Raises:
        UserError: if the nodes form a cycle.
    """
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in node.output:
            makers.setdefault(name, place)
    makers.pop("", None)
    needs = [{makers[name] for name in reads(node) if name in makers} for node in nodes]
    if all(each < place for place, need in enumerate(needs) for each in need):
        return list(nodes)
    return [nodes[place] for place in _sorted(needs, nodes)]


def _sorted(needs: Sequence[set[int]], nodes: Sequence[NodeProto]) -> list[int]:
    users: list[list[int]] = [[] for _ in needs]
    missing = [len(need) for need in needs]
    for place, need in enumerate(needs):
        for each in need:
            users[each].append(place)
    # A stack in reverse keeps the file's order as far as it can be kept.
    ready = [place for place in reversed(range(len(needs))) if not missing[place]]
    done: list[int] = []
    while ready:
        place = ready.pop()
        done.append(place)
        for user in reversed(users[place]):
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    if len(done) < len(needs):
        stuck = [nodes[place] for place, count in enumerate(missing) if count]
        names = ", ".join(node.name or node.op_type for node in stuck[:8])
        raise UserError("onnx: the graph has a cycle", got=f"it runs among {names}")
    return done
