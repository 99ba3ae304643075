"""One application of a rule: from the values that it returns to a changed graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as changed
from itertools import islice

from weft.errors import InternalError, UserError, WeftError, is_weft
from weft.ir.graph import Node, Origin
from weft.match.view import Match
from weft.rewrite.rule import Rule
from weft.rewrite.state import GraphState


class RewriteStep:
    """Watches what a rule adds to the state's builder and puts it in the root's place.

    Args:
        state: the graph under rewriting.
        match: where the rule applies.
        origin: provenance of the nodes that it makes.
    """

    def __init__(self, state: GraphState, match: Match, origin: Origin) -> None:
        self.state = state
        self.match = match
        self.root = match.root
        self._constants = len(state.constants)
        state.builder.nodes.clear()
        state.builder.origin = origin

    def finish(self, results: Sequence[str], rule: Rule) -> str | None:
        """Let ``results`` stand for the root's outputs, or say why they cannot."""
        for output in self.root.outputs[len(results) :]:
            if output and self.state.use_count(output):
                raise self._broken(rule, f"gives no value for {output}, which is read")
        wanted = {o: r for o, r in zip(self.root.outputs, results, strict=False) if o}
        for output, result in wanted.items():
            self._check(output, result, rule)
        new_constants = self._new_constants()
        for output, result in wanted.items():
            if output in self.state.outputs and not self._can_take_name(result, wanted):
                if self.root.op == "Identity":
                    return self.withdraw(f"graph output {output} needs a node that makes it")
                wanted[output] = self.state.builder.op("Identity", result)
        self._commit(wanted, new_constants)
        return None

    def _check(self, output: str, result: str, rule: Rule) -> None:
        types = self.state.types
        if result not in types:
            raise self._broken(rule, f"gives {result!r} for {output}, which is no value")
        if types[result] != types[output]:
            raise self._broken(
                rule, f"gives {types[result]} for {output}, which is {types[output]}"
            )

    def _broken(self, rule: Rule, why: str) -> WeftError:
        if is_weft(rule.after):
            return InternalError(f"rule {rule.name} {why}")
        return rule.fault("after", UserError(f"it {why}"), self.match)

    def _new_constants(self) -> list[str]:
        count = len(self.state.constants) - self._constants
        return list(islice(reversed(self.state.constants), count))

    def _can_take_name(self, result: str, wanted: dict[str, str]) -> bool:
        """Whether a value may be called as the graph output that it stands for."""
        made = self._is_new(result) or result in self.state.producers
        alone = list(wanted.values()).count(result) == 1
        return made and alone and result not in self.state.outputs

    def _is_new(self, value: str) -> bool:
        return any(value in node.outputs for node in self.state.builder.nodes)

    def withdraw(self, reason: str) -> str:
        """Take back what the rule added; the reason."""
        new_constants = self._new_constants()
        for node in self.state.builder.nodes:
            for value in node.outputs:
                self.state.types.pop(value, None)
        for name in new_constants:
            del self.state.constants[name]
            del self.state.types[name]
        return reason

    def _commit(self, wanted: dict[str, str], new_constants: Sequence[str]) -> None:
        state = self.state
        nodes = list(state.builder.nodes)
        names: dict[str, str] = {}
        aliases: dict[str, str] = {}
        for output, result in wanted.items():
            if self._is_new(result) and result not in names:
                names[result] = output
            else:
                aliases[output] = result
        for value in names:
            del state.types[value]
        state.detach(self.root)
        state.add([_renamed(node, names) for node in nodes], self.root)
        for output, result in aliases.items():
            self._alias(output, names.get(result, result), result in new_constants)
        made = [value for node in nodes for value in node.outputs]
        state.collect([*self.root.inputs, *self.root.outputs, *made, *new_constants])
        self._name_nodes([node.name for node in nodes])

    def _alias(self, output: str, result: str, new_constant: bool) -> None:
        state = self.state
        if output in state.outputs:
            state.rename(result, output)
        elif new_constant:
            # A folded value keeps its name.
            state.constants[output] = state.constants[result]
        else:
            state.redirect(output, result)

    def _name_nodes(self, made: Sequence[str]) -> None:
        """New nodes take the names of those that went: of the same op, else the root's."""
        state = self.state
        free = {node.name: node for node in self.match.nodes if node.name not in state.nodes}
        alive = [name for name in made if name in state.nodes]
        for name in alive:
            op = state.nodes[name].op
            heir = next((old.name for old in free.values() if old.op == op), "")
            if not heir and name == alive[-1] and self.root.name in free:
                heir = self.root.name
            if heir:
                del free[heir]
                state.rename_node(state.nodes[name], heir)


def _renamed(node: Node, names: dict[str, str]) -> Node:
    if names.keys().isdisjoint(node.inputs) and names.keys().isdisjoint(node.outputs):
        return node
    return changed(
        node,
        inputs=tuple(names.get(value, value) for value in node.inputs),
        outputs=tuple(names.get(value, value) for value in node.outputs),
    )
