"""Expressions that mean the same and cost less, and what they cannot do without."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.match.pattern import (
    Either,
    Expression,
    Look,
    NodePattern,
    Other,
    PatternRepeat,
    Sequence,
    Statement,
    children,
)
from weft.match.resolve import with_children


def simplified(statement: Statement) -> Statement:
    """A statement without repetitions of nothing but repetitions."""
    return replace(statement, expression=_simpler(statement.expression))


def _simpler(expression: Expression) -> Expression:
    inner = children(expression)
    new = tuple(map(_simpler, inner))
    if any(one is not other for one, other in zip(inner, new, strict=True)):
        expression = with_children(expression, new)
    match expression:
        case PatternRepeat(body=PatternRepeat() as body) if _without_gaps(expression, body):
            return replace(
                expression,
                body=body.body,
                least=expression.least * body.least,
                most=_product(expression.most, body.most),
            )
        case _:
            return expression


def _without_gaps(outer: PatternRepeat, inner: PatternRepeat) -> bool:
    """Whether the counts of a repetition of a repetition are all those from one to another.

    Of ``k`` rounds there are ``k * least`` to ``k * most`` inner ones, which must reach to those
    of ``k + 1``; if the first do, all do.
    """
    if outer.least == outer.most:
        return True
    if inner.most is None:
        return outer.least > 0 or inner.least <= 1
    return inner.least - 1 <= outer.least * (inner.most - inner.least)


def _product(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return 0 if 0 in (one, other) else None
    return one * other


def needed_ops(statements: Iterable[Statement]) -> frozenset[str]:
    """Ops without which a graph has no match."""
    return frozenset[str]().union(*(_needed(each.expression) for each in statements))


def _needed(expression: Expression) -> frozenset[str]:
    match expression:
        case NodePattern(op=op):
            own = frozenset((op,)) - {"*"}
            return own.union(*map(_needed, children(expression)))
        case Sequence(parts):
            return frozenset[str]().union(*map(_needed, parts))
        case Either(options):
            first, *others = map(_needed, options)
            return first.intersection(*others)
        case PatternRepeat(body=body, least=least):
            return _needed(body) if least else frozenset()
        case Look(body=body, negative=negative):
            return frozenset() if negative else _needed(body)
        case _:
            return frozenset()


def least_nodes(expression: Expression) -> int:
    """How many nodes there are one after another at least where an expression fits."""
    return max(_least_path(expression))


def _least_path(expression: Expression) -> tuple[int, int]:
    """How many nodes an expression adds to a path at least, and how many it has alone at least.

    A node that makes an operand may also be on the path that leads to the expression, so a path
    through both is as long as the longer of them, not as their sum.
    """
    match expression:
        case NodePattern(operands=operands):
            return 1, 1 + max(map(least_nodes, operands or ()), default=0)
        case Other():
            return 1, 1
        case Sequence(parts):
            added, alone = 0, 0
            for more, own in map(_least_path, parts):
                added, alone = added + more, max(alone + more, own)
            return added, alone
        case Either(options):
            every = [*map(_least_path, options)]
            return min(added for added, _ in every), min(alone for _, alone in every)
        case PatternRepeat(body=body, least=least) if least:
            added, alone = _least_path(body)
            return least * added, alone + (least - 1) * added
        case _:
            return 0, 0
