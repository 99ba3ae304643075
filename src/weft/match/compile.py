"""From the text of a query to the steps that the matcher runs."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import UserError
from weft.match.conditions import Conditions, Predicate
from weft.match.messages import error_at
from weft.match.order import certain_nodes, in_order, names_in, opened, roots_of
from weft.match.pattern import Expression, Link, PatternRepeat, QueryText, Statement, walk
from weft.match.possible import clash
from weft.match.program import DONE, NodeStep, QueryProgram, RestartStep, SplitStep, Step
from weft.match.resolve import HIDDEN, Expander, QueryScopes, ScopeFinder
from weft.match.simplify import least_nodes, needed_ops, simplified
from weft.match.to_steps import StepLowering


def compile_query(text: str, predicates: Mapping[str, Predicate] | None = None) -> QueryProgram:
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
    statements = opened(tuple(map(simplified, Expander(query).statements())))
    scopes = ScopeFinder(query, statements).scopes()
    clash(text, statements)
    certain = certain_nodes(roots_of(statements))
    lowering = StepLowering(text, scopes, Conditions(text, predicates or {}), certain)
    _lower_used(query, statements, lowering)
    return _program(query, statements, lowering)


def compile_rule(text: str) -> QueryProgram:
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


def _program(
    query: QueryText, statements: tuple[Statement, ...], lowering: StepLowering
) -> QueryProgram:
    """All statements, one after the other."""
    roots = roots_of(statements)
    ordered = in_order(roots)
    entry: Step = DONE
    for statement, forward in reversed(ordered):
        if entry is not DONE:
            entry = RestartStep(entry, entry.names)
        entry = lowering.statement(statement, forward, entry)
    scopes = lowering.scopes
    parts = [part for each in statements for part in walk(each.expression)]
    names = {*scopes.lists, *scopes.captures, *entry.names}
    return QueryProgram(
        query.text,
        entry,
        tuple(dict.fromkeys(_ops_at(entry))),
        scopes.captures,
        scopes.lists,
        scopes.firm,
        tuple((left, right) for left, right, _ in query.distinct),
        frozenset(name for name in names if name.startswith(HIDDEN)),
        needed_ops(roots),
        len(ordered),
        any(isinstance(e, Link) for e in parts),
        len(parts),
        sum(_counts(part) for part in parts),
        max((least_nodes(each.expression) for each in roots), default=0),
    )


def _counts(part: Expression) -> int:
    """How far a repetition counts; 0 for all else."""
    if not isinstance(part, PatternRepeat) or part.most == 1:
        return 0
    return part.least if part.most is None else part.most


def _lower_used(
    query: QueryText, statements: tuple[Statement, ...], lowering: StepLowering
) -> None:
    """Make the steps of statements that others use, those first that use none.

    Long queries use one another deeper than Python's stack is.
    """
    scopes, bodies = lowering.scopes, lowering.bodies
    assigned = scopes.assigned
    for first in statements:
        way = [first]
        while way:
            statement = way[-1]
            names = [n for n in sorted(names_in(statement.expression)) if n in assigned]
            open_ = [n for n in names if id(assigned[n]) not in bodies]
            if open_:
                if assigned[open_[0]] in way:
                    raise _circle(query, scopes, way, open_[0])
                way.append(assigned[open_[0]])
                continue
            way.pop()
            if set(statement.names) & scopes.used:
                bodies[id(statement)] = lowering.statement(statement, False, DONE)


def _circle(query: QueryText, scopes: QueryScopes, way: list[Statement], name: str) -> UserError:
    """The error that statements use one another."""
    names = [each.names[0] for each in way]
    first = scopes.assigned[name]
    got = " needs ".join((*names[way.index(first) :], name))
    return error_at(query.text, first.at, "statements need one another in a circle", got=got)


def _ops_at(entry: Step) -> list[str]:
    """Ops at which a match can begin."""
    found: list[str] = []
    # Long rows of choices lie deeper within one another than Python's stack is.
    left = [entry]
    while left:
        match left.pop():
            case NodeStep(tests=tests, negated=False):
                found += [test.op for test in tests]
            case SplitStep(options):
                left += reversed(options)
            case _:
                found.append("*")
    return found
