"""From the text of a query to the steps that the matcher runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from weft.errors import UserError
from weft.match.conditions import Conditions, Predicate, input_places, output_places
from weft.match.messages import error_at, nearest
from weft.match.pattern import (
    Either,
    Expression,
    Link,
    Look,
    NodePattern,
    Number,
    Other,
    Part,
    QueryText,
    Repeat,
    Sequence,
    Statement,
    ValuePattern,
    walk,
)
from weft.match.program import (
    DONE,
    NO_NAMES,
    ROUND,
    ArrangeStep,
    LinkStep,
    LookStep,
    LoopStep,
    NodeStep,
    NumberStep,
    Program,
    RefStep,
    RestartStep,
    SplitStep,
    Step,
    Test,
    ValueStep,
)
from weft.match.resolve import HIDDEN, Expander, ScopeFinder, Scopes
from weft.ops.table import OPS


def compile_query(text: str, predicates: Mapping[str, Predicate] | None = None) -> Program:
    """Read a query and make it ready to run.

    Args:
        text: the query.
        predicates: conditions in Python, by the names that the query calls them.

    Raises:
        UserError: what is wrong with it, and where.
    """
    # The parser takes 0.05 s to import, which nothing that matches no pattern should pay.
    from weft.match.parse import parse  # noqa: PLC0415

    query = parse(text)
    statements = Expander(query).statements()
    scopes = ScopeFinder(query, statements).scopes()
    return _Compiler(query, scopes, Conditions(text, predicates or {})).program(statements)


def compile_rule(text: str) -> Program:
    """Read the pattern of a rule: statements of which the last makes what is replaced.

    Raises:
        UserError: what is wrong with it, and where.
    """
    program = compile_query(text)
    if isinstance(program.entry, NodeStep | SplitStep) and program.roots == 1:
        return program
    raise UserError(
        "pattern: a rule needs one statement that uses, by their names, all others",
        got=f"{program.roots} that are not used",
        where=text,
    )


class _Compiler:
    def __init__(self, query: QueryText, scopes: Scopes, conditions: Conditions) -> None:
        self.query = query
        self.scopes = scopes
        self.conditions = conditions
        self.bodies: dict[int, Step] = {}

    def error(self, at: int, rule: str, *, got: str = "", fix: str = "") -> UserError:
        """An error that shows the place."""
        return error_at(self.query.text, at, rule, got=got, fix=fix)

    def program(self, statements: tuple[Statement, ...]) -> Program:
        """All statements, those first that begin where earlier ones have been."""
        roots = [each for each in statements if not set(each.names) & self.scopes.used]
        self.bodies_of(statements)
        known: set[str] = set()
        ordered: list[tuple[Statement, bool]] = []
        while roots:
            statement, forward = _next(roots, known)
            roots.remove(statement)
            ordered.append((statement, forward))
            known.update(_names_in(statement.expression), statement.names)
        entry: Step = DONE
        for statement, forward in reversed(ordered):
            if entry is not DONE:
                entry = RestartStep(entry, entry.names)
            entry = self.statement(statement, forward, entry)
        scopes = self.scopes
        parts = [part for each in statements for part in walk(each.expression)]
        names = {*scopes.lists, *scopes.captures, *entry.names}
        return Program(
            self.query.text,
            entry,
            tuple(dict.fromkeys(_ops_at(entry))),
            scopes.captures,
            scopes.lists,
            scopes.firm,
            tuple((left, right) for left, right, _ in self.query.distinct),
            frozenset(name for name in names if name.startswith(HIDDEN)),
            len(ordered),
            any(isinstance(e, Link) for e in parts),
            len(parts),
        )

    def statement(self, statement: Statement, forward: bool, after: Step) -> Step:
        """One statement from its beginning, or from its end."""
        expression, names = statement.expression, statement.names
        if not names:
            return self.step(expression, after, forward, True)
        if _ends_in_nodes(expression):
            return self.step(expression, after, forward, True, names, statement.rest)
        if len(names) != 1 or statement.rest:
            raise self.error(statement.at, "several names are for the outputs of one node")
        name = names[0]
        if forward:
            last = ValueStep(name, "", False, None, after, after.names | {name})
            return self.step(expression, last, True, True)
        inner = self.step(expression, after, False, True)
        return ValueStep(name, "", False, None, inner, inner.names | {name})

    def step(
        self,
        expression: Expression,
        after: Step,
        forward: bool,
        fixed: bool,
        outputs: tuple[str, ...] | None = None,
        rest: bool = True,
    ) -> Step:
        """The first step of an expression whose last is followed by another.

        Args:
            expression: what it is.
            after: what follows.
            forward: whether it is read along the edges.
            fixed: it does not stand in a repetition.
            outputs: names of the outputs of the nodes in which it ends.
            rest: these may have further outputs.
        """
        match expression:
            case ValuePattern():
                return self.value(expression, after, forward, fixed)
            case Number(value):
                return NumberStep(value, after, after.names)
            case NodePattern() | Other():
                return self.node(expression, after, forward, fixed, outputs, rest)
            case Link():
                self.check_link(expression)
                return LinkStep(expression.source, expression.target, forward, after, after.names)
            case Sequence(parts):
                return self.sequence(parts, after, forward, fixed, outputs, rest)
            case Either(options):
                steps = [self.step(e, after, forward, fixed, outputs, rest) for e in options]
                return SplitStep(tuple(steps), _names(*steps))
            case Repeat():
                return self.repeat(expression, after, forward)
            case Look(body, ahead, negative):
                inner = self.step(body, DONE, ahead, False)
                shared = self.scopes.shared.get(id(expression), ())
                names = after.names | frozenset(shared)
                return LookStep(inner, negative, shared, after, names)
            case Part(name):
                raise self.error(expression.at, f"there is no sub-pattern {name}")
            case _:
                assert_never(expression)

    def sequence(
        self,
        parts: tuple[Expression, ...],
        after: Step,
        forward: bool,
        fixed: bool,
        outputs: tuple[str, ...] | None,
        rest: bool,
    ) -> Step:
        """One part after the other; the outputs are those of the last."""
        last = len(parts) - 1
        order = range(last, -1, -1) if forward else range(last + 1)
        for place in order:
            named = outputs if place == last else None
            after = self.step(parts[place], after, forward, fixed, named, rest)
        return after

    def repeat(self, expression: Repeat, after: Step, forward: bool) -> Step:
        """A choice, or a loop."""
        if (expression.least, expression.most) == (0, 1):
            taken = self.step(expression.body, after, forward, False)
            return SplitStep((taken, after), _names(taken, after))
        body = self.step(expression.body, ROUND, forward, False)
        inner = self.scopes.locals.get(id(expression), ())
        names = (body.names | after.names) - frozenset(inner)
        return LoopStep(body, expression.least, expression.most, inner, after, names)

    def value(self, pattern: ValuePattern, after: Step, forward: bool, fixed: bool) -> Step:
        """A name, or a value without one."""
        name = "" if pattern.name == "_" else pattern.name
        plain = not (pattern.kind or pattern.conditions or pattern.optional)
        if name in self.scopes.captures and plain:
            return self.node(
                NodePattern("*", capture=name, at=pattern.at), after, forward, fixed, None, True
            )
        own = frozenset((name,)) if name else NO_NAMES
        check = self.conditions.value_check(pattern.conditions)
        statement = self.scopes.assigned.get(name)
        if name in self.scopes.captures:
            raise self.error(pattern.at, f"{name} is a node and takes no conditions here")
        if statement is None:
            return ValueStep(name, pattern.kind, pattern.optional, check, after, own | after.names)
        body = self.bodies[id(statement)]
        step = RefStep(name, body, after, own | body.names | after.names)
        if check is None and not pattern.kind:
            return step
        # The value's own conditions come first.
        return ValueStep("", pattern.kind, False, check, step, step.names)

    def bodies_of(self, statements: tuple[Statement, ...]) -> None:
        """Make the steps of statements that others use, those first that use none.

        Long queries use one another deeper than Python's stack is.
        """
        assigned = self.scopes.assigned
        for first in statements:
            way = [first]
            while way:
                statement = way[-1]
                names = [n for n in sorted(_names_in(statement.expression)) if n in assigned]
                open_ = [n for n in names if id(assigned[n]) not in self.bodies]
                if open_:
                    if assigned[open_[0]] in way:
                        self.circle(way, open_[0])
                    way.append(assigned[open_[0]])
                    continue
                way.pop()
                if set(statement.names) & self.scopes.used:
                    self.bodies[id(statement)] = self.statement(statement, False, DONE)

    def circle(self, way: list[Statement], name: str) -> None:
        """Refuse statements that use one another."""
        names = [each.names[0] for each in way]
        first = self.scopes.assigned[name]
        got = " needs ".join((*names[way.index(first) :], name))
        raise self.error(first.at, "statements need one another in a circle", got=got)

    def node(
        self,
        pattern: NodePattern | Other,
        after: Step,
        forward: bool,
        fixed: bool,
        outputs: tuple[str, ...] | None,
        rest: bool,
    ) -> NodeStep:
        """A node."""
        if isinstance(pattern, Other):
            tests, negated = tuple(self.test(each) for each in pattern.patterns), True
            pattern = NodePattern("*")
        else:
            tests, negated = (self.test(pattern),), False
        operands = pattern.operands
        listed = None if operands is None else tuple(self.operand(each) for each in operands)
        if listed is not None and not pattern.ordered:
            if pattern.rest:
                raise self.error(pattern.at, "operands in any order are all named; '...' is not")
            listed = (_arranged(listed),) if listed else ()
        own = {*(outputs or ()), pattern.capture} - {"", "_"}
        return NodeStep(
            tests,
            negated,
            listed,
            pattern.ordered,
            len(operands or ()),
            pattern.rest,
            pattern.capture,
            outputs,
            rest,
            forward,
            fixed,
            after,
            frozenset(own) | after.names | _names(*(listed or ())),
        )

    def operand(self, expression: Expression) -> Step:
        """What an input is: an expression that ends there."""
        closed = isinstance(expression, NodePattern) and expression.operands is not None
        closed = closed or (
            isinstance(expression, Either)
            and all(
                isinstance(each, NodePattern) and each.operands is not None
                for each in expression.options
            )
        )
        if closed:
            return self.step(expression, DONE, False, True, ("_",), False)
        return self.step(expression, DONE, False, True)

    def test(self, pattern: NodePattern) -> Test:
        """What the node must be by itself."""
        if pattern.op != "*" and pattern.op not in OPS:
            raise self.error(pattern.at, f"{pattern.op} is not an op of Weft")
        return Test(pattern.op, self.conditions.node_check(pattern.conditions, pattern.op))

    def check_link(self, link: Link) -> None:
        """The names of the ends of an edge must be those of some op."""
        for port, places, params in (
            (link.source, output_places, [p.name for op in OPS.values() for p in op.outputs]),
            (link.target, input_places, [p.name for op in OPS.values() for p in op.inputs]),
        ):
            if isinstance(port, str) and not any(places(op, port) for op in OPS):
                what = "output" if places is output_places else "operand"
                rule = f"no op has an {what} {port}"
                raise self.error(link.at, rule, fix=nearest(port, set(params)))


def _arranged(operands: tuple[Step, ...]) -> ArrangeStep:
    """Operands one by one, each of which may stand anywhere."""
    found: ArrangeStep | None = None
    for place in range(len(operands) - 1, -1, -1):
        rest = operands[place:]
        found = ArrangeStep(rest, found, _names(*rest))
    if found is None:
        raise UserError("query: operands are expected")
    return found


def _names(*steps: Step) -> frozenset[str]:
    return NO_NAMES.union(*(step.names for step in steps))


def _ends_in_nodes(expression: Expression) -> bool:
    """Whether an expression ends in a node, whichever way it goes."""
    match expression:
        case NodePattern() | Other():
            return True
        case Sequence(parts):
            return _ends_in_nodes(parts[-1])
        case Either(options):
            return all(map(_ends_in_nodes, options))
        case _:
            return False


def _names_in(expression: Expression) -> set[str]:
    found: set[str] = set()
    for each in walk(expression):
        match each:
            case ValuePattern(name=name) | NodePattern(capture=name):
                found.add(name)
            case _:
                pass
    return found - {"", "_"}


def _next(roots: list[Statement], known: set[str]) -> tuple[Statement, bool]:
    """Which statement comes next, and whether it is read from its beginning.

    One that begins or ends where an earlier one has been needs no search.
    """
    for statement in roots if known else ():
        parts = _parts(statement.expression)
        if not statement.names and _end_name(parts[0]) in known:
            return statement, True
        if _end_name(parts[-1]) in known:
            return statement, False
    for statement in roots if known else ():
        if _names_in(statement.expression) & known:
            return statement, not statement.names
    return roots[0], not roots[0].names


def _parts(expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, Sequence) else (expression,)


def _end_name(expression: Expression) -> str:
    match expression:
        case ValuePattern(name=name) | NodePattern(capture=name):
            return name
        case _:
            return ""


def _ops_at(entry: Step) -> list[str]:
    """Ops at which a match can begin."""
    match entry:
        case NodeStep(tests=tests, negated=False):
            return [test.op for test in tests]
        case SplitStep(options):
            return [op for each in options for op in _ops_at(each)]
        case _:
            return ["*"]
