"""From the expressions of a query to the steps that the matcher runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from weft.errors import UserError
from weft.match.conditions import Conditions, input_places, output_places
from weft.match.messages import error_at, nearest
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
)
from weft.match.possible import repeated_name, wrong_link, wrong_operands, wrong_outputs
from weft.match.program import (
    DONE,
    NO_NAMES,
    ROUND,
    ArrangeStep,
    Done,
    LinkStep,
    LookStep,
    LoopStep,
    NodeStep,
    NumberStep,
    RefStep,
    RestartStep,
    SplitStep,
    Step,
    Test,
    ValueStep,
)
from weft.match.resolve import QueryScopes
from weft.ops.table import OPS


class StepLowering:
    """Makes the steps of expressions.

    Args:
        text: the query, for errors.
        scopes: what its names are.
        conditions: makes checks of conditions.
        certain: what nodes are by themselves, by those names that they have in every match.
    """

    def __init__(
        self,
        text: str,
        scopes: QueryScopes,
        conditions: Conditions,
        certain: Mapping[str, NodePattern],
    ) -> None:
        self.text = text
        self.scopes = scopes
        self.conditions = conditions
        self.certain = certain
        self.bodies: dict[int, Step] = {}
        self.met: dict[Step, frozenset[tuple[str, bool]]] = {}

    def error(self, at: int, rule: str, *, got: str = "", fix: str = "") -> UserError:
        """An error that shows the place."""
        return error_at(self.text, at, rule, got=got, fix=fix)

    def statement(self, statement: Statement, forward: bool, after: Step) -> Step:
        """One statement from its beginning, or from its end."""
        expression, names = statement.expression, statement.names
        if not names:
            return self.step(expression, after, forward, True)
        wrong = wrong_outputs(expression, len(names))
        if wrong is not None:
            raise self.error(statement.at, wrong, got=f"{len(names)} names")
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
            case PatternNumber(value):
                return NumberStep(value, after, after.names)
            case NodePattern() | Other():
                return self.node(expression, after, forward, fixed, outputs, rest)
            case Link():
                return LinkStep(expression.source, expression.target, forward, after, after.names)
            case Sequence(parts):
                return self.sequence(parts, after, forward, fixed, outputs, rest)
            case Either(options):
                steps = [self.step(e, after, forward, fixed, outputs, rest) for e in options]
                return self.split(tuple(steps))
            case PatternRepeat():
                return self.repeat(expression, after, forward)
            case Look(body, ahead, negative):
                inner = self.step(body, DONE, ahead, False)
                shared = self.scopes.shared.get(id(expression), ())
                names = after.names | frozenset(shared)
                return LookStep(inner, negative, shared, after, names)
            case PatternPart(name):
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
        self.check_chain(parts)
        last = len(parts) - 1
        order = range(last, -1, -1) if forward else range(last + 1)
        for place in order:
            named = outputs if place == last else None
            after = self.step(parts[place], after, forward, fixed, named, rest)
        return after

    def repeat(self, expression: PatternRepeat, after: Step, forward: bool) -> Step:
        """A choice, or a loop."""
        if (expression.least, expression.most) == (0, 1):
            taken = self.step(expression.body, after, forward, False)
            return self.split((taken, after))
        body = self.step(expression.body, ROUND, forward, False)
        inner = self.scopes.locals.get(id(expression), ())
        names = (body.names | after.names) - frozenset(inner)
        least, most = expression.least, expression.most
        targets = self.met_after(after)
        loop = LoopStep(body, least, most, inner, targets, forward, after, names)
        self.met[loop] = targets
        return loop

    def split(self, options: tuple[Step, ...]) -> SplitStep:
        """A choice between steps."""
        made = SplitStep(options, _names(*options))
        met = [self.met_after(each) for each in options]
        self.met[made] = met[0].intersection(*met[1:])
        return made

    def met_after(self, step: Step | None) -> frozenset[tuple[str, bool]]:
        """Names that every way on from a step meets, and whether they are of nodes."""
        found: set[tuple[str, bool]] = set()
        while step is not None:
            match step:
                case NodeStep(capture=capture):
                    found.add((capture, True))
                case ValueStep(name=name) | RefStep(name=name):
                    found.add((name, False))
                case SplitStep() | LoopStep():
                    found |= self.met[step]
                    break
                case Done() | RestartStep() | ArrangeStep():
                    break
                case LinkStep() | NumberStep() | LookStep():
                    pass
            step = step.next
        return frozenset((name, node) for name, node in found if name)

    def value(self, pattern: ValuePattern, after: Step, forward: bool, fixed: bool) -> Step:
        """A name, or a value without one."""
        name = "" if pattern.name == "_" else pattern.name
        plain = not (pattern.kind or pattern.conditions or pattern.optional)
        if name in self.scopes.captures and plain:
            # What the node is wherever else it stands, it is here.
            known = self.certain.get(name, NodePattern("*"))
            node = NodePattern(known.op, conditions=known.conditions, capture=name, at=known.at)
            return self.node(node, after, forward, fixed, None, True)
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
        impossible = wrong_operands(pattern)
        if impossible is not None:
            rule, got, fix = impossible
            raise self.error(pattern.at, rule, got=got, fix=fix)
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

    def check_chain(self, parts: tuple[Expression, ...]) -> None:
        """No edge has ends that the nodes beside it lack, and no name stands twice."""
        for place, part in enumerate(parts):
            if isinstance(part, Link):
                self.check_link(part)
                before = parts[place - 1] if place else None
                after = parts[place + 1] if place + 1 < len(parts) else None
                wrong = wrong_link(part, before, after)
                if wrong is not None:
                    fix = "`-[1]->` enters input 1, `-[1:]->` leaves output 1; the first is 0."
                    raise self.error(part.at, wrong, fix=fix)
        again = repeated_name(parts, self.scopes.captures)
        if again is not None:
            name, at = again
            raise self.error(
                at,
                f"{name} stands twice in one chain, and nothing comes after itself",
                fix="Give the second another name, or begin another statement.",
            )

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
