"""What a query means, straight from ``docs/query.md``: every assignment is tried.

An expression is a set of paths, each from a point to a point; a point is a value, or none,
and the labels that wait there for the next node.  Names are assigned first, in every way;
then the expressions that hold under the assignment are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any, NamedTuple

from weft.ir.graph import Graph, Node
from weft.match.conditions import Conditions, Predicate, Subject
from weft.match.parse import parse
from weft.match.pattern import (
    Either,
    Expression,
    Link,
    Look,
    NodePattern,
    Other,
    PatternNumber,
    PatternPart,
    PatternRepeat,
    Sequence,
    Statement,
    ValuePattern,
    children,
    walk,
)
from weft.match.view import GraphView
from weft.ops.table import OPS

Point = tuple[str, frozenset[Any]]


class Path(NamedTuple):
    before: Point
    after: Point
    nodes: tuple[str, ...]
    fixed: frozenset[str]
    touched: frozenset[str]
    rounds: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Meaning:
    """A match: nodes in the order of the path, names, and what rounds found."""

    nodes: tuple[str, ...]
    fixed: frozenset[str]
    names: frozenset[tuple[str, str]]
    rounds: frozenset[tuple[str, str]]


MOST = 100_000
"""How many paths are looked at before an example counts as too long."""


class TooLongError(Exception):
    """An example that brute force would take too long for."""


def names_of(expression: Expression) -> list[str]:
    found = [getattr(e, "capture", getattr(e, "name", "")) for e in walk(expression)]
    return [name for name in found if name not in ("", "_")]


def told(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Names that are told, and what they stand for."""
    return ((name, value) for name, value in pairs if not name.startswith("."))


class Brute:
    def __init__(self, graph: Graph, text: str, predicates: Mapping[str, Predicate]) -> None:
        self.graph = graph
        self.cache: dict[Any, set[Path]] = {}
        self.work = 0
        self.view = GraphView(graph)
        read = parse(text)
        self.uses = 0
        self.definitions = read.definitions
        self.query = replace(
            read,
            statements=tuple(
                replace(each, expression=self.spelt(each.expression, ""))
                for each in read.statements
            ),
        )
        self.conditions = Conditions(text, predicates)
        self.values = list(graph.types)
        labels = {
            e.target
            for s in self.query.statements
            for e in walk(s.expression)
            if isinstance(e, Link) and e.target is not None
        }
        some = chain.from_iterable(combinations(labels, n) for n in range(len(labels) + 1))
        self.waiting = [frozenset(each) for each in some]
        self.points: list[Point] = list(product([*self.values, ""], self.waiting))
        self.total: dict[str, int] = {}
        self.captures: set[str] = set()
        self.assigned = {n: s for s in self.query.statements for n in s.names if n != "_"}
        outside: set[str] = set(self.assigned)
        for statement in self.query.statements:
            for name in names_of(statement.expression):
                self.total[name] = self.total.get(name, 0) + 1
            self.captures |= {
                e.capture for e in walk(statement.expression) if isinstance(e, NodePattern)
            }
            outside |= set(self._outside_looks(statement.expression))
        self.captures.discard("")
        self.outside = outside
        self.locals = {
            name
            for s in self.query.statements
            for e in walk(s.expression)
            if isinstance(e, PatternRepeat) and e.most != 1
            for name in names_of(e.body)
            if names_of(e.body).count(name) == self.total[name] and name not in self.assigned
        }

    def spelt(self, e: Expression, prefix: str) -> Expression:
        """An expression with the text of sub-patterns in their place, and names of their own."""
        match e:
            case ValuePattern(name=name, kind="") if name in self.definitions:
                return self.part(name, "", prefix)
            case PatternPart(name, own):
                return self.part(name, own, prefix)
            case ValuePattern(name=name):
                return replace(e, name=name if name in ("", "_") else prefix + name)
            case NodePattern(capture=capture, operands=operands):
                e = replace(e, capture=capture and prefix + capture)
                listed = tuple(self.spelt(each, prefix) for each in operands or ())
                return e if operands is None else replace(e, operands=listed)
            case Sequence(parts):
                return Sequence(tuple(self.spelt(each, prefix) for each in parts))
            case Either(options):
                return Either(tuple(self.spelt(each, prefix) for each in options))
            case PatternRepeat(body=body) | Look(body=body):
                return replace(e, body=self.spelt(body, prefix))
            case _:
                return e

    def part(self, name: str, own: str, prefix: str) -> Expression:
        """A use of a sub-pattern; names of one without a name begin with a dot."""
        self.uses += 1
        own = f"{own}." if own else f".{self.uses}."
        return self.spelt(self.definitions[name], prefix + own if own[0] != "." else own)

    def _outside_looks(self, expression: Expression) -> Iterator[str]:
        if isinstance(expression, Look):
            return
        name = getattr(expression, "capture", getattr(expression, "name", ""))
        if name not in ("", "_"):
            yield name
        for each in children(expression):
            yield from self._outside_looks(each)

    def assignments(self, names: list[str]) -> Iterator[dict[str, str]]:
        """Every way to give names something, or nothing."""
        choices = [
            [None, *(n.name for n in self.graph.nodes)]
            if name in self.captures
            else [None, "", *self.values]
            for name in names
        ]
        for choice in product(*choices):
            yield {n: c for n, c in zip(names, choice, strict=True) if c is not None}

    def meanings(self) -> set[Meaning]:
        names = sorted((set(self.total) | set(self.assigned)) & self.outside - self.locals)
        used = set(self.assigned) & set(self.total)
        roots = [s for s in self.query.statements if not set(s.names) & used]
        found: set[Meaning] = set()
        for env in self.assignments(names):
            self.work += 10
            if any(a in env and env[a] == env.get(b) for a, b, _ in self.query.distinct):
                continue
            ways = [list(self.whole(root, env)) for root in roots]
            for paths in product(*ways):
                if frozenset().union(*(p.touched for p in paths)) == env.keys():
                    found.add(
                        Meaning(
                            tuple(dict.fromkeys(n for p in paths for n in p.nodes)),
                            frozenset().union(*(p.fixed for p in paths)),
                            frozenset(told(env.items())),
                            frozenset(told(r for p in paths for r in p.rounds)),
                        )
                    )
        return found

    def whole(self, statement: Statement, env: dict[str, str]) -> Iterator[Path]:
        for path in self.made(statement, env):
            if not path.before[1]:
                yield path._replace(before=("", frozenset()), after=("", frozenset()))

    def made(self, statement: Statement, env: dict[str, str]) -> Iterator[Path]:
        """Paths of a statement, with the names of what it makes."""
        for path in self.paths(statement.expression, env, True):
            if not statement.names:
                yield path
                continue
            maker = self.graph.producers.get(path.after[0])
            own = {name for name in statement.names if name != "_"}
            if isinstance(statement.expression, NodePattern):
                assert maker is not None
                outputs = maker.outputs
                right = self.closed(maker, len(statement.names), statement.rest)
                right = right and all(
                    name == "_" or env.get(name) == value
                    for name, value in zip(statement.names, outputs, strict=False)
                )
                right = right and path.after[0] in outputs[: len(statement.names)]
            else:
                right = env.get(statement.names[0]) == path.after[0]
            if right:
                yield path._replace(touched=path.touched | own)

    def closed(self, node: Node, count: int, rest: bool) -> bool:
        """Whether outputs that have no names are not read."""
        extra = node.outputs[count:]
        unread = not any(v and self.view.use_count(v) for v in extra)
        return len(node.outputs) >= count and (rest or unread)

    def paths(self, e: Expression, env: dict[str, str], fixed: bool) -> set[Path]:
        names = None if self.assigned else set(names_of(e))
        known = frozenset(item for item in env.items() if names is None or item[0] in names)
        key = (id(e), known, fixed)
        if key not in self.cache:
            found = self.new_paths(e, env, fixed)
            self.work += 1 + len(found)
            if self.work > MOST:
                raise TooLongError
            self.cache[key] = found
        return self.cache[key]

    def new_paths(self, e: Expression, env: dict[str, str], fixed: bool) -> set[Path]:
        match e:
            case Sequence(parts):
                found = self.paths(parts[0], env, fixed)
                for part in parts[1:]:
                    found = self.joined(found, self.paths(part, env, fixed)) if found else found
                return found
            case Either(options):
                return set().union(*(self.paths(option, env, fixed) for option in options))
            case PatternRepeat():
                return self.repeated(e, env)
            case Look():
                seen = self.seen(e, env)
                return {
                    Path(point, point, (), *[frozenset()] * 3)
                    for point in self.points
                    if (point[0] in seen) != e.negative
                }
            case Link(source, target):
                return {
                    Path((v, wait), (v, wait | ({target} - {None})), (), *[frozenset()] * 3)
                    for v, wait in self.points
                    if v and self.leaves(v, source)
                }
            case ValuePattern() | PatternNumber():
                return self.valued(e, env)
            case NodePattern() | Other():
                return self.noded(e, env, fixed)
        raise AssertionError(e)

    def nothing(self) -> set[Path]:
        return {Path(p, p, (), *[frozenset()] * 3) for p in self.points}

    def joined(self, left: set[Path], right: set[Path]) -> set[Path]:
        begins: dict[Point, list[Path]] = {}
        for b in right:
            begins.setdefault(b.before, []).append(b)
        self.work += sum(len(begins.get(a.after, ())) for a in left)
        if self.work > MOST:
            raise TooLongError
        return {
            Path(
                a.before,
                b.after,
                a.nodes + b.nodes,
                a.fixed | b.fixed,
                a.touched | b.touched,
                a.rounds | b.rounds,
            )
            for a in left
            for b in begins.get(a.after, ())
        }

    def repeated(self, e: PatternRepeat, env: dict[str, str]) -> set[Path]:
        inner: set[Path] = set()
        own = [
            name
            for name in dict.fromkeys(names_of(e.body))
            if name in self.locals and name not in env and e.most != 1
        ]
        own = [name for name in own if not self.deeper(e.body, name)]
        for more in self.assignments(own):
            for path in self.paths(e.body, {**env, **more}, False):
                if path.touched & set(own) == more.keys():
                    rounds = path.rounds | frozenset(more.items())
                    inner.add(path._replace(touched=path.touched - set(own), rounds=rounds))
        most = len(self.graph.nodes) + 2 + e.least if e.most is None else e.most
        found: set[Path] = set()
        way = self.nothing()
        for count in range(most + 1):
            if count >= e.least:
                found |= way
            way = self.joined(way, inner)
            if not way:
                break
        return found

    def deeper(self, body: Expression, name: str) -> bool:
        return any(
            isinstance(each, PatternRepeat)
            and each.most != 1
            and names_of(each.body).count(name) == self.total[name]
            for each in walk(body)
        )

    def seen(self, e: Look, env: dict[str, str]) -> set[str]:
        """The values at which the body of a look is found."""
        names = [n for n in dict.fromkeys(names_of(e.body)) if n not in env]
        found: set[str] = set()
        for more in self.assignments(names):
            for path in self.paths(e.body, {**env, **more}, False):
                if path.before[1] == frozenset() and more.keys() <= path.touched:
                    found.add(path.before[0] if e.ahead else path.after[0])
        return found

    def leaves(self, value: str, port: str | int | None) -> bool:
        if port is None:
            return True
        maker = self.graph.producers.get(value)
        if maker is None:
            return False
        place = maker.outputs.index(value)
        names = [param.name for param in OPS[maker.op].outputs]
        return place == port if isinstance(port, int) else names[place] == port

    def valued(self, e: ValuePattern | PatternNumber, env: dict[str, str]) -> set[Path]:
        if isinstance(e, ValuePattern) and e.name in self.captures:
            return self.noded(NodePattern("*", capture=e.name), env, True)
        found: set[Path] = set()
        for value, wait in self.points:
            if isinstance(e, PatternNumber):
                array = self.graph.constants.get(value)
                if array is not None and array.size == 1 and array.reshape(-1)[0] == e.value:
                    found.add(Path((value, wait), (value, wait), (), *[frozenset()] * 3))
            elif self.is_value(e, value, env):
                extra = self.made(self.assigned[e.name], env) if e.name in self.assigned else [None]
                own = frozenset({e.name} - {"", "_"})
                for way in extra:
                    if way is None:
                        none = frozenset[Any]()
                        found.add(Path((value, wait), (value, wait), (), none, own, none))
                    elif way.after[0] == value:
                        found.add(
                            way._replace(
                                before=(value, wait),
                                after=(value, wait),
                                touched=way.touched | own,
                            )
                        )
        return found

    def is_value(self, e: ValuePattern, value: str, env: dict[str, str]) -> bool:
        if not value and not e.optional:
            return False
        kinds = {
            "": True,
            "const": value in self.graph.constants,
            "input": value in self.graph.inputs,
            "output": value in self.graph.outputs,
        }
        if not kinds[e.kind]:
            return False
        check = self.conditions.value_check(e.conditions)
        if check and not check(Subject(self.view, self.graph.producers.get(value), value)):
            return False
        return e.name in ("", "_") or env.get(e.name) == value

    def noded(self, e: NodePattern | Other, env: dict[str, str], fixed: bool) -> set[Path]:
        found: set[Path] = set()
        for node in self.graph.nodes:
            if not self.is_node(e, node, env):
                continue
            capture = e.capture if isinstance(e, NodePattern) else ""
            operands = e.operands if isinstance(e, NodePattern) else None
            own = frozenset({capture} - {""})
            for nodes, more, touched, rounds in self.operands(e, operands, node, env):
                for before, after in self.around(node):
                    found.add(
                        Path(
                            before,
                            after,
                            (node.name, *nodes),
                            (frozenset({node.name}) if fixed else frozenset()) | more,
                            own | touched,
                            rounds,
                        )
                    )
        return found

    def is_node(self, e: NodePattern | Other, node: Node, env: dict[str, str]) -> bool:
        if isinstance(e, Other):
            return not any(self.is_node(each, node, env) for each in e.patterns)
        if e.op not in ("*", node.op) or (e.capture and env.get(e.capture) != node.name):
            return False
        check = self.conditions.node_check(e.conditions, e.op)
        return check is None or check(Subject(self.view, node, node.outputs[0]))

    def around(self, node: Node) -> Iterator[tuple[Point, Point]]:
        """Every way into a node and out of it."""
        ins: set[Point] = set()
        for wait in self.waiting:
            for place, value in enumerate(node.inputs):
                params = [param.name for param in OPS[node.op].inputs]
                if value and all(
                    place == each if isinstance(each, int) else params[place] == each
                    for each in wait
                ):
                    ins.add((value, wait))
        if not any(node.inputs):
            ins.add(("", frozenset()))
        for value in node.outputs:
            if value:
                for each in ins:
                    yield each, (value, frozenset())

    def operands(
        self,
        e: NodePattern | Other,
        patterns: tuple[Expression, ...] | None,
        node: Node,
        env: dict[str, str],
    ) -> Iterator[tuple[tuple[str, ...], frozenset[str], frozenset[str], Any]]:
        if patterns is None or not isinstance(e, NodePattern):
            yield (), frozenset(), frozenset(), frozenset()
            return
        if e.ordered:
            orders = [tuple(range(len(patterns)))]
            if not e.rest and any(node.inputs[len(patterns) :]):
                return
        else:
            if len(patterns) != len(node.inputs):
                return
            orders = list(product(range(len(patterns)), repeat=len(patterns)))
            orders = [order for order in orders if len(set(order)) == len(order)]
        for order in orders:
            ways = [
                list(self.operand(pattern, place, node, env))
                for pattern, place in zip(patterns, order, strict=True)
            ]
            for way in product(*ways):
                yield (
                    tuple(n for p in way for n in p.nodes),
                    frozenset().union(*(p.fixed for p in way)),
                    frozenset().union(*(p.touched for p in way)),
                    frozenset().union(*(p.rounds for p in way)),
                )

    def operand(
        self, pattern: Expression, place: int, node: Node, env: dict[str, str]
    ) -> Iterator[Path]:
        value = node.inputs[place] if place < len(node.inputs) else ""
        for path in self.paths(pattern, env, True):
            if path.after[0] != value or path.before[1]:
                continue
            if not value and not (isinstance(pattern, ValuePattern) and pattern.optional):
                continue
            closed = isinstance(pattern, NodePattern) and pattern.operands is not None
            if closed:
                maker = self.graph.producers[value]
                if not self.closed(maker, 1, False) or maker.outputs[0] != value:
                    continue
            yield path
