"""Steps at nodes: from one side of a node to the other, with its operands."""

from __future__ import annotations

from collections.abc import Iterable

from weft.ir.graph import Node
from weft.match.conditions import Subject, input_places
from weft.match.program import (
    ANYWHERE,
    DONE,
    ArrangeStep,
    NodeStep,
    Place,
    RestartStep,
    Step,
    ValueStep,
)
from weft.match.search_state import Bindings, Config, SearchEntry
from weft.match.site import Site
from weft.match.values import fit


def at_node(site: Site, step: NodeStep, config: Config) -> list[Config]:
    """The points beyond every node that fits at a place."""
    found: list[Config] = []
    for node in _nodes_at(site, step, config):
        if node.name in site.without or not _passes(site, step, node):
            continue
        bound = _named(site, step, node, config.bound)
        if bound is not None:
            _enter(site, step, node, config, bound, found)
    return found


def _nodes_at(site: Site, step: NodeStep, config: Config) -> Iterable[Node]:
    value, mark = config.place
    view = site.view
    if value is None:
        return (mark,) if mark is not None else _all_of(site, step, config.bound)
    if not step.forward:
        maker = view.producers.get(value)
        outputs = step.outputs
        if maker is None or (
            outputs is not None and not step.open and maker.outputs.index(value) >= len(outputs)
        ):
            return ()
        return (maker,)
    if not value:
        return [node for node in view.nodes.values() if not any(node.inputs)]
    if mark:
        return [node for node in view.readers(value) if _labelled(node, value, mark)]
    return view.readers(value)


def _all_of(site: Site, step: NodeStep, bound: Bindings) -> Iterable[Node]:
    nodes = site.view.nodes
    if step.capture in bound:
        return (nodes[bound[step.capture]],)
    if len(step.tests) == 1 and not step.negated and step.tests[0].op != "*":
        return site.by_op.get(step.tests[0].op, ())
    site.budget.spend(len(nodes))
    return nodes.values()


def _passes(site: Site, step: NodeStep, node: Node) -> bool:
    for test in step.tests:
        if test.op not in ("*", node.op):
            continue
        if test.check is None or test.check(Subject(site.view, node, _first(node.outputs))):
            return not step.negated
    return step.negated


def _named(site: Site, step: NodeStep, node: Node, bound: Bindings) -> Bindings | None:
    """The names bound when a node is what a step says."""
    own: dict[str, str] = {}
    outputs = step.outputs
    if outputs is not None:
        if len(outputs) > len(node.outputs):
            return None
        if not step.open:
            extra = node.outputs[len(outputs) :]
            if any(value and site.view.use_count(value) for value in extra):
                return None
        own = {
            name: value for name, value in zip(outputs, node.outputs, strict=False) if name != "_"
        }
    if step.capture:
        own[step.capture] = node.name
    if not own:
        return bound
    if any(bound.get(name, value) != value for name, value in own.items()):
        return None
    return {**bound, **own}


def _enter(
    site: Site,
    step: NodeStep,
    node: Node,
    config: Config,
    bound: Bindings,
    found: list[Config],
) -> None:
    """Add the points beyond a node, with its operands still to be done."""
    ready = _operands(site, step, node, bound)
    if ready is None:
        return
    bound, tasks = ready
    fixed = step.fixed or config.parent is None
    entry = SearchEntry(node, config.parent, fixed, step.capture in config.bound)
    entries = (entry, config.entries)
    for place in _beyond(site, step, node):
        after, then, agenda = step.next, place, config.agenda
        if tasks:
            if after is not DONE:
                agenda = (after, place, node.name, agenda)
            for operand, value in reversed(tasks[1:]):
                agenda = (operand, value, node.name, agenda)
            after, then = tasks[0]
        found.append(Config(after, then, bound, entries, agenda, node.name, config.pending))


def _operands(
    site: Site, step: NodeStep, node: Node, bound: Bindings
) -> tuple[Bindings, list[tuple[Step, Place]]] | None:
    """The names that plain operands bind, and the operands that take steps."""
    operands, inputs = step.operands, node.inputs
    tasks: list[tuple[Step, Place]] = []
    if operands is None:
        return bound, tasks
    if not step.ordered:
        if len(inputs) != step.count:
            return None
        return bound, [(operand, ("", inputs)) for operand in operands]
    for place, operand in enumerate(operands):
        value = inputs[place] if place < len(inputs) else ""
        if isinstance(operand, ValueStep) and operand.next is DONE:
            fitted = fit(site, operand, value, bound)
            if fitted is None:
                return None
            bound = fitted
        else:
            tasks.append((operand, (value, None)))
    if not step.rest and any(inputs[len(operands) :]):
        return None
    return bound, tasks


def _beyond(site: Site, step: NodeStep, node: Node) -> list[Place]:
    """The places on the other side of a node."""
    if step.next is DONE or isinstance(step.next, RestartStep):
        return [ANYWHERE]
    if step.forward:
        outputs = node.outputs
        if step.outputs is not None:
            outputs = outputs[: len(step.outputs)]
        return [(value, ()) for value in dict.fromkeys(outputs) if value]
    if site.program.links:
        places = enumerate(node.inputs)
        found: list[Place] = [(value, (node.op, i)) for i, value in places if value]
    else:
        found = [(value, None) for value in dict.fromkeys(node.inputs) if value]
    return found or [("", None)]


def at_arrange(site: Site, step: ArrangeStep, config: Config) -> list[Config]:
    """Try the first of the operands on every input that is left."""
    inputs: tuple[str, ...] = config.place[1]
    operand = step.operands[0]
    found: list[Config] = []
    for place, value in enumerate(inputs):
        rest = (*inputs[:place], *inputs[place + 1 :])
        bound: Bindings | None = config.bound
        if isinstance(operand, ValueStep) and operand.next is DONE:
            bound = fit(site, operand, value, config.bound)
            if bound is None:
                continue
            if step.after is None:
                found.append(config._replace(step=DONE, bound=bound))
            else:
                found.append(config._replace(step=step.after, place=("", rest), bound=bound))
            continue
        agenda = config.agenda
        if step.after is not None:
            agenda = (step.after, ("", rest), config.parent, agenda)
        found.append(config._replace(step=operand, place=(value, None), agenda=agenda))
    return found


def _first(values: tuple[str, ...]) -> str:
    return next((value for value in values if value), "")


def _labelled(node: Node, value: str, labels: tuple[str | int, ...]) -> bool:
    """Whether a node reads a value at a position that all labels are for."""
    return any(
        each == value and all(place in input_places(node.op, label) for label in labels)
        for place, each in enumerate(node.inputs)
    )
