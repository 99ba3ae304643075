"""Apply rules until none applies, and tell what was done and what was refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import field
from dataclasses import replace as changed
from typing import cast

from weft.errors import InternalError, UserError, WeftError, is_weft, placed
from weft.ir.graph import Graph, Node, Origin, noted
from weft.ir.history import HistoryEntry
from weft.ir.text import show
from weft.ir.unknown import ValueUnknown
from weft.match.matcher import matches_at
from weft.match.view import Match
from weft.ops.build import GraphBuilder
from weft.ops.resolve import resolved
from weft.records import dataclass
from weft.rewrite.rule import Exactness, Rule
from weft.rewrite.state import GraphState
from weft.rewrite.step import RewriteStep
from weft.screen import Screen, Shown, several

_STEPS_PER_NODE = 20
_STEPS_AT_LEAST = 1000


@dataclass(frozen=True, slots=True)
class Fired:
    """A rule that was applied.

    Attributes:
        rule: its name.
        exactness: its label.
        node: the node at which it was applied.
        value: the value that the node made.
        sources: nodes of the source model that took part.
    """

    rule: str
    exactness: Exactness
    node: str
    value: str
    sources: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.rule} at {self.node} ({self.exactness.value})"


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule whose pattern fitted and that was not applied, and why."""

    rule: str
    node: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.node} was not applied: {self.reason}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A rule that was not tried because its label is looser than what is allowed."""

    rule: str
    exactness: Exactness
    allow: Exactness

    @property
    def told(self) -> str:
        """As a history tells it."""
        return f"{self.rule} (skipped: {self.exactness.value}, allow={self.allow.value})"

    def __str__(self) -> str:
        return f"{self.rule} was skipped: {self.exactness.value}, allow={self.allow.value}"


@dataclass(frozen=True, repr=False)
class Log(Shown):
    """What rules did to a graph."""

    fired: tuple[Fired, ...] = ()
    refused: tuple[Refused, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def __add__(self, other: Log) -> Log:
        refused = {(each.rule, each.node): each for each in (*self.refused, *other.refused)}
        return Log(
            self.fired + other.fired,
            tuple(refused.values()),
            tuple(dict.fromkeys(self.skipped + other.skipped)),
        )

    def lines(self) -> list[str]:
        """What happened, a line each."""
        return [str(each) for each in (*self.fired, *self.refused, *self.skipped)]

    def screen(self) -> Screen:
        """What ``repr`` tells."""
        title = f"Log: {several(len(self.fired), 'rule')} applied, {len(self.refused):,} refused"
        refused = [(each.rule, each.node, each.reason) for each in self.refused]
        applied = [(rule, "", several(count, "time")) for rule, count in self.counts().items()]
        return Screen(title, (), ("rule", "node", "applied, or why not"), [*applied, *refused])

    def counts(self) -> dict[str, int]:
        """How often each rule was applied, in order of first use."""
        found: dict[str, int] = {}
        for each in self.fired:
            found[each.rule] = found.get(each.rule, 0) + 1
        return found

    @property
    def exactness(self) -> Exactness:
        """The loosest label of the rules that were applied."""
        found = Exactness.BIT_EXACT
        for each in self.fired:
            found = found if each.exactness <= found else each.exactness
        return found


def rewrite(
    graph: Graph,
    rules: Sequence[Rule],
    *,
    allow: Exactness = Exactness.REASSOCIATING,
) -> tuple[Graph, Log]:
    """Apply rules to a fixed point.

    Values that survive keep their names and their meaning, so the result can be compared
    with the source model value by value.

    Args:
        graph: the graph.
        rules: earlier ones are tried first at every node.
        allow: rules of a looser label are left out.

    Returns:
        The new graph, or ``graph`` itself when nothing applied, and what was done.  The
        history tells of rules that are not Weft's own and were left out, too.
    """
    tried = [rule for rule in rules if rule.exactness <= allow]
    looser = [rule for rule in rules if not rule.exactness <= allow]
    run = _Run(GraphState(resolved(graph)), _by_op(tried))
    run.run(_STEPS_AT_LEAST + _STEPS_PER_NODE * len(graph.nodes))
    skipped = tuple(Skipped(rule.name, rule.exactness, allow) for rule in looser)
    log = Log(tuple(run.fired), tuple(run.refused.values()), skipped)
    told = [f"{name} ({count})" for name, count in log.counts().items()]
    told += [each.told for each, rule in zip(skipped, looser, strict=True) if not _ours(rule)]
    what = ", ".join(told)
    if not what or (not run.fired and HistoryEntry("rewrite", what) in graph.history):
        return graph, log
    done = run.state.finished() if run.fired else graph
    return noted(changed(done, history=graph.history), "rewrite", what), log


def _ours(rule: Rule) -> bool:
    return is_weft(rule.after)


def _by_op(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """The rules to try at each op, in their order; ``*`` for ops not named by any."""
    ops = [rule.ops for rule in rules]
    found: dict[str, list[Rule]] = {"*": [], **{op: [] for each in ops for op in each}}
    for rule, own in zip(rules, ops, strict=True):
        for op in found if "*" in own else dict.fromkeys(own):
            found[op].append(rule)
    return found


@dataclass
class _Run:
    state: GraphState
    rules: dict[str, list[Rule]]
    fired: list[Fired] = field(default_factory=list[Fired])
    refused: dict[tuple[str, str], Refused] = field(default_factory=dict[tuple[str, str], Refused])

    def run(self, most: int) -> None:
        """Sweep over the nodes until a sweep changes nothing."""
        while True:
            before = len(self.fired)
            # What was refused in an earlier sweep may be allowed, or gone, by now.
            self.refused.clear()
            self._sweep(most)
            if len(self.fired) == before:
                return

    def _sweep(self, most: int) -> None:
        pending = deque(
            sorted(self.state.nodes, key=lambda n: self.state.place(self.state.nodes[n]))
        )
        waiting = set(pending)
        while pending:
            name = pending.popleft()
            waiting.discard(name)
            node = self.state.nodes.get(name)
            if node is None:
                continue
            for touched in self._apply_first(node):
                if touched.name not in waiting:
                    waiting.add(touched.name)
                    pending.append(touched.name)
            if len(self.fired) > most:
                raise self._endless()

    def _endless(self) -> WeftError:
        last = self.fired[-6:]
        told = ", ".join(str(each) for each in last)
        names = {each.rule for each in last}
        rules = [rule for listed in self.rules.values() for rule in listed if rule.name in names]
        for rule in rules:
            if not is_weft(rule.after):
                return UserError(
                    "rules must terminate",
                    got=f"{len(self.fired)} applications, the last {told}",
                    where=placed(rule.after),
                    fix=f"Make `where` of {rule.name} refuse the results of rules.",
                )
        return InternalError(f"rules do not come to an end: {told}", show(self.state.finished()))

    def _apply_first(self, node: Node) -> Sequence[Node]:
        """Apply the first rule that applies at a node; the nodes worth another look."""
        for rule in self.rules.get(node.op, self.rules["*"]):
            for match in matches_at(rule.pattern, node, self.state):
                reason = _reason(rule, match)
                if reason is None:
                    reason = self._apply(rule, match)
                if reason is None:
                    return self._touched(match)
                if reason:
                    self.refused[rule.name, node.name] = Refused(rule.name, node.name, reason)
        return ()

    def _apply(self, rule: Rule, match: Match) -> str | None:
        """Replace the root, or say why not."""
        origin = _origin(match, rule)
        step = RewriteStep(self.state, match, origin)
        try:
            reason = step.finish(_results(rule, match, self.state.builder), rule)
        except ValueUnknown as unknown:
            reason = step.withdraw(str(unknown))
        if reason is None:
            root = match.root
            value = next(each for each in root.outputs if each)
            fired = Fired(rule.name, rule.exactness, root.name, value, origin.sources)
            self.fired.append(fired)
            self.refused.pop((rule.name, root.name), None)
        return reason

    def _touched(self, match: Match) -> list[Node]:
        found: list[Node] = []
        for value in match.root.outputs:
            maker = self.state.producers.get(value)
            if maker is not None:
                found.append(maker)
            found.extend(self.state.readers(value))
        return found


def _reason(rule: Rule, match: Match) -> str | None:
    """Why a rule refuses a match, if it does."""
    try:
        reason = cast(object, rule.where(match))
        if reason is None or isinstance(reason, str):
            return reason
        raise TypeError(
            "it must return None to let the rule apply, or a sentence that says why not; "
            f"it returned {reason!r}"
        )
    except ValueUnknown as unknown:
        return str(unknown)
    except Exception as error:
        if is_weft(rule.where):
            raise
        raise rule.fault("where", error, match) from error


def _results(rule: Rule, match: Match, builder: GraphBuilder) -> tuple[str, ...]:
    """The values that a rule gives for the outputs of the root."""
    try:
        results = cast(object, rule.after(match, builder))
        several = isinstance(results, tuple)
        given = cast(tuple[object, ...], results) if several else (results,)
        if not all(isinstance(each, str) for each in given):
            raise TypeError(
                f"it must return the name of a value, or a tuple of names; it returned {results!r}"
            )
        return cast(tuple[str, ...], given)
    except ValueUnknown:
        raise
    except Exception as error:
        if is_weft(rule.after) and not isinstance(error, UserError):
            raise
        raise rule.fault("after", error, match) from error


def _origin(match: Match, rule: Rule) -> Origin:
    origin = Origin()
    # The root comes first in a match; the order of the model reads better.
    for node in reversed(match.nodes):
        # Nodes of graphs that no frontend made are their own sources.
        origin = origin.merge(node.origin if node.origin.sources else Origin((node.name,)))
    return origin.merge(Origin(), rule.name)
