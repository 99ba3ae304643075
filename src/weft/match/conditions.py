"""Conditions in brackets: facts of nodes and values, attributes, and the user's predicates."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeAlias, cast

import numpy as np

from weft.errors import InternalError, fault, is_weft
from weft.ir.graph import Node
from weft.ir.types import Symbol, TensorType
from weft.match.messages import error_at, nearest
from weft.match.pattern import NONE, REST, WILDCARD, AnyOf, Compared, Condition, Fact, Not
from weft.match.possible import shown, wrong_literal
from weft.match.view import QueryableGraph
from weft.ops.record import Control
from weft.ops.table import FAMILIES, OPS
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """What a condition is about: a node or a value of a graph.

    Attributes:
        view: the graph.
        node: the node, or the one that makes the value, if one does.
        value: the value, or the first that the node makes.
    """

    view: QueryableGraph
    node: Node | None
    value: str

    @property
    def type(self) -> TensorType:
        """The type of the value."""
        return self.view.types[self.value]

    @property
    def attributes(self) -> Any:
        """The attributes of the node."""
        return self.node.attributes if self.node else None


Predicate: TypeAlias = Callable[..., bool]
"""``predicate(subject, *arguments)``: a condition in Python."""
Check: TypeAlias = Callable[[Subject], bool]
Getter: TypeAlias = Callable[[Subject], Any]

_MISSING = object()
"""What an attribute is that the op does not have."""


def family_of(op: str) -> str:
    """The family of an op: the name of the file that it stands in."""
    return _families().get(op, "control" if isinstance(OPS[op].compute, Control) else "")


@cache
def _families() -> Mapping[str, str]:
    return {op.name: name for name, family in FAMILIES.items() for op in family}


def _node(subject: Subject) -> Node:
    if subject.node is None:
        raise InternalError(f"{subject.value} is made by no node")
    return subject.node


def _node_users(subject: Subject) -> int:
    return sum(subject.view.use_count(value) for value in _node(subject).outputs if value)


def _touches(values: Sequence[str], known: Collection[str]) -> bool:
    return any(value in known for value in values)


_TYPE_FACTS: Mapping[str, Getter] = {
    "dtype": lambda subject: subject.type.dtype.value,
    "shape": lambda subject: subject.type.shape,
    "rank": lambda subject: len(subject.type.shape),
    "size": lambda subject: subject.type.size if subject.type.is_static else None,
}

NODE_FACTS: Mapping[str, Getter] = {
    **_TYPE_FACTS,
    "users": _node_users,
    "const": lambda s: _touches(_node(s).inputs, s.view.constants),
    "input": lambda s: _touches(_node(s).inputs, s.view.inputs),
    "output": lambda s: _touches(_node(s).outputs, s.view.outputs),
    "inputs": lambda s: sum(map(bool, _node(s).inputs)),
    "outputs": lambda s: sum(map(bool, _node(s).outputs)),
    "name": lambda s: _node(s).name,
    "family": lambda s: family_of(_node(s).op),
}
"""What can be asked of a node; types are those of the first value that it makes."""

VALUE_FACTS: Mapping[str, Getter] = {
    **_TYPE_FACTS,
    "users": lambda s: s.view.use_count(s.value),
    "const": lambda s: s.value in s.view.constants,
    "input": lambda s: s.value in s.view.inputs,
    "output": lambda s: s.value in s.view.outputs,
    "name": lambda s: s.value,
}
"""What can be asked of a value."""

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Conditions:
    """Turns conditions into checks.

    Args:
        text: the query, for errors.
        predicates: the user's.
    """

    def __init__(self, text: str, predicates: Mapping[str, Predicate]) -> None:
        self.text = text
        self.predicates = predicates

    def node_check(self, conditions: Sequence[Condition], op: str) -> Check | None:
        """The check of all conditions of a node; none if there is nothing to check."""
        return _all([self._check(each, NODE_FACTS, op) for each in conditions])

    def value_check(self, conditions: Sequence[Condition]) -> Check | None:
        """The check of all conditions of a value."""
        return _all([self._check(each, VALUE_FACTS, None) for each in conditions])

    def _check(self, condition: Condition, facts: Mapping[str, Getter], op: str | None) -> Check:
        match condition:
            case Not(inner):
                negated = self._check(inner, facts, op)
                return lambda subject: not negated(subject)
            case AnyOf(conditions):
                checks = [self._check(each, facts, op) for each in conditions]
                return lambda subject: any(check(subject) for check in checks)
            case Compared(fact, sign, literal):
                return self._compared(fact, sign, literal, facts, op)

    def _compared(
        self, fact: Fact, sign: str, literal: Any, facts: Mapping[str, Getter], op: str | None
    ) -> Check:
        if fact.operand is not None:
            if op is None:
                raise error_at(self.text, fact.at, "a value has no operands", got=fact.name)
            getter = self._getter(fact, VALUE_FACTS, None)
            self._check_literal(fact, sign, literal, VALUE_FACTS, None)
            return self._of_operand(fact, op, _comparison(getter, sign, literal))
        getter = self._getter(fact, facts, op)
        self._check_literal(fact, sign, literal, facts, op)
        return _comparison(getter, sign, literal)

    def _check_literal(
        self, fact: Fact, sign: str, literal: Any, facts: Mapping[str, Getter], op: str | None
    ) -> None:
        """Refuses a comparison that can never hold."""
        if fact.name in self.predicates and not fact.attribute:
            return
        known = fact.name in facts and not fact.attribute
        wrong = wrong_literal(fact.name, op, known, sign, literal)
        if wrong is not None:
            rule, fix = wrong.split("\n")
            raise error_at(self.text, fact.at, rule, got=shown(literal), fix=fix)

    def _getter(self, fact: Fact, facts: Mapping[str, Getter], op: str | None) -> Getter:
        name = fact.name
        if name in self.predicates and not fact.attribute:
            return _asked(name, self.predicates[name], fact.arguments or ())
        attributes = _attributes_of(op) if op is not None else frozenset[str]()
        if fact.arguments is not None:
            fix = nearest(name, self.predicates)
            raise error_at(self.text, fact.at, f"there is no predicate {name}", fix=fix)
        if name in facts and not fact.attribute:
            return facts[name]
        if name in attributes:
            return lambda subject: getattr(subject.attributes, name, _MISSING)
        what = "a value has" if op is None else "no op has" if op == "*" else f"{op} has"
        rule = f"{what} {'' if op == '*' else 'no '}attribute or fact {name}"
        if op is None:
            rule = f"a value has no fact {name}"
        known = {*facts, *attributes, *self.predicates}
        raise error_at(self.text, fact.at, rule, fix=nearest(name, known))

    def _of_operand(self, fact: Fact, op: str, check: Check) -> Check:
        places = self.places(fact.operand, op, fact.at)

        def holds(subject: Subject) -> bool:
            node = _node(subject)
            inputs = node.inputs
            wanted = places if places is not None else _places_of(node.op, str(fact.operand))
            return any(
                check(Subject(subject.view, None, inputs[place]))
                for place in _each(wanted, len(inputs))
                if inputs[place]
            )

        return holds

    def places(self, operand: str | int | None, op: str, at: int) -> range | None:
        """The positions of an operand; none if they depend on the op."""
        if isinstance(operand, int):
            return range(operand, operand + 1)
        name = str(operand)
        if op != "*":
            found = _places_of(op, name)
            if not found:
                known = [param.name for param in OPS[op].inputs]
                rule = f"{op} has no operand {name}"
                raise error_at(self.text, at, rule, got=", ".join(known), fix=nearest(name, known))
            return found
        known = {param.name for record in OPS.values() for param in record.inputs}
        if name not in known:
            rule = f"no op has an operand {name}"
            raise error_at(self.text, at, rule, fix=nearest(name, known))
        return None


def _asked(name: str, predicate: Predicate, arguments: tuple[Any, ...]) -> Getter:
    """What a predicate of the user says of a subject; its faults are told as its own."""

    def asked(subject: Subject) -> Any:
        try:
            found: Any = predicate(subject, *arguments)
            bool(found)  # what is neither true nor false is the predicate's fault, too
            return found
        except Exception as error:
            if is_weft(predicate):
                raise
            place = f"node {subject.node.name}" if subject.node else f"value {subject.value}"
            raise fault(f"query: predicate {name}", predicate, error, where=place) from error

    return asked


def _each(wanted: range, count: int) -> range:
    return range(wanted.start, min(wanted.stop, count))


@cache
def _places_of(op: str, operand: str) -> range:
    """The positions of an operand: one, or all that a variadic one stands for."""
    for place, param in enumerate(OPS[op].inputs):
        if param.name == operand:
            return range(place, 1 << 30 if param.variadic else place + 1)
    return range(0)


def input_places(op: str, port: str | int) -> range:
    """The positions that the name or position of an input stands for."""
    return range(port, port + 1) if isinstance(port, int) else _places_of(op, port)


@cache
def output_places(op: str, port: str | int) -> range:
    """The positions that the name or position of an output stands for."""
    if isinstance(port, int):
        return range(port, port + 1)
    for place, param in enumerate(OPS[op].outputs):
        if param.name == port:
            return range(place, 1 << 30 if param.variadic else place + 1)
    return range(0)


@cache
def _attributes_of(op: str) -> frozenset[str]:
    if op != "*":
        return frozenset(field.name for field in fields(OPS[op].attributes))
    return frozenset(name for each in OPS for name in _attributes_of(each))


def _all(checks: Sequence[Check]) -> Check | None:
    if len(checks) < 2:
        return checks[0] if checks else None
    return lambda subject: all(check(subject) for check in checks)


def _comparison(getter: Getter, sign: str, literal: Any) -> Check:
    match sign:
        case "":
            return lambda subject: _truth(getter(subject))
        case "=":
            return lambda subject: equal(getter(subject), literal)
        case "!=":
            return lambda subject: _differs(getter(subject), literal)
        case "~":
            return lambda subject: fnmatchcase(str(_plain(getter(subject))), str(literal))
        case _:
            compare = _OPERATORS[sign]
            return lambda subject: _ordered(compare, getter(subject), literal)


def _truth(found: Any) -> bool:
    # An op that lacks the attribute does not have it.
    return found is not _MISSING and bool(found)


def _differs(found: Any, literal: Any) -> bool:
    return found is not _MISSING and not equal(found, literal)


def _ordered(compare: Callable[[Any, Any], bool], found: Any, literal: Any) -> bool:
    number = isinstance(found, (int, float)) and isinstance(literal, (int, float))
    return number and compare(found, literal)


def _plain(found: Any) -> Any:
    if isinstance(found, Enum):
        return found.value
    return found.name if isinstance(found, Symbol) else found


def equal(found: Any, literal: Any) -> bool:
    """Whether a fact is what a literal says."""
    found = _plain(found)
    if literal is NONE or literal is WILDCARD:
        return literal is WILDCARD or found is None
    if isinstance(literal, tuple):
        return isinstance(found, (tuple, list)) and _tuples(
            tuple(cast(Any, found)), cast(Any, literal)
        )
    if isinstance(found, float) and isinstance(literal, (int, float)):
        # Models store attributes as float32; a query is written with all digits.
        return found == literal or bool(np.float32(literal) == np.float32(found))
    return bool(found == literal)


def _tuples(found: tuple[Any, ...], literal: tuple[Any, ...]) -> bool:
    if REST in literal:
        place = literal.index(REST)
        tail = len(literal) - place - 1
        if len(found) < place + tail:
            return False
        found = (*found[:place], *found[len(found) - tail :])
        literal = (*literal[:place], *literal[place + 1 :])
    return len(found) == len(literal) and all(map(equal, found, literal))
