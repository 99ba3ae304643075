"""What a query can never match: said where it stands, with what may be meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from weft.dtypes import DType
from weft.errors import nearest
from weft.ir.types import Symbol
from weft.match.messages import error_at
from weft.match.pattern import (
    NONE,
    REST,
    WILDCARD,
    Either,
    Expression,
    Link,
    Look,
    NodePattern,
    Other,
    PatternNumber,
    PatternRepeat,
    Sequence,
    Statement,
    ValuePattern,
)
from weft.ops.coerce import described
from weft.ops.record import Param
from weft.ops.table import FAMILIES, OPS

_SHAPE = tuple[int | Symbol, ...]
_FACTS: Mapping[str, Any] = {
    "dtype": DType,
    "shape": _SHAPE,
    "rank": int,
    "size": int | None,
    "users": int,
    "const": bool,
    "input": bool,
    "output": bool,
    "inputs": int,
    "outputs": int,
    "name": str,
    "family": str,
}
"""What the values of facts are."""


@cache
def _hints(op: str, attribute: str) -> tuple[Any, ...]:
    """The types that an attribute can have, of an op or of any."""
    records = OPS.values() if op == "*" else (OPS[op],)
    classes = dict.fromkeys(record.attributes for record in records)
    found = [
        get_type_hints(each)[attribute]
        for each in classes
        if attribute in {field.name for field in fields(each)}
    ]
    return tuple(dict.fromkeys(found))


# --- literals -------------------------------------------------------------------------------


def wrong_literal(name: str, op: str | None, fact: bool, sign: str, literal: Any) -> str | None:
    """What is wrong with a comparison that never, or always, holds; none if nothing is.

    Args:
        name: of a fact or an attribute.
        op: that has it; ``*`` for any, none for a value.
        fact: whether it is a fact.
        sign: how it is compared.
        literal: what with.

    Returns:
        The rule and the advice, a line feed between.
    """
    hints = (_FACTS[name],) if fact else _hints(op or "*", name)
    if not sign or sign == "~" or literal is WILDCARD:
        return None
    owner = "" if fact or op in (None, "*") else f" of {op}"
    members = dict.fromkeys(each for hint in hints for each in _members(hint))
    what = " or ".join(described(each) for each in members if each is not NoneType)
    rule = f"{name}{owner} is {what}"
    if sign not in ("=", "!="):
        if any(map(_is_number, hints)) and isinstance(literal, int | float):
            return None
        return f"{rule}, and {sign} compares numbers\n"
    if fact and name == "family":
        if literal in FAMILIES or literal == "control":
            return None
        return f"there is no family {shown(literal)}\n{nearest(str(literal), FAMILIES)}"
    if any(_can_be(hint, literal) for hint in hints):
        return None
    return f"{rule}\n{_advice(name, hints, literal)}"


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_number(hint: Any) -> bool:
    return any(each in (int, float, bool) for each in _members(hint))


def _can_be(hint: Any, literal: Any) -> bool:
    """Whether something of a type can be what a literal says."""
    return any(_can_be_one(each, literal) for each in _members(hint))


def _can_be_one(hint: Any, literal: Any) -> bool:
    if literal is WILDCARD or literal is REST:
        return True
    if literal is NONE or hint is NoneType:
        return literal is NONE and hint is NoneType
    if get_origin(hint) is tuple or isinstance(literal, tuple):
        if get_origin(hint) is not tuple or not isinstance(literal, tuple):
            return False
        element = get_args(hint)[0]
        return all(_can_be(element, each) for each in cast(tuple[Any, ...], literal))
    if hint is bool:
        return literal in (0, 1)
    if hint is int:
        return isinstance(literal, int) or (isinstance(literal, float) and literal.is_integer())
    if hint is float:
        return isinstance(literal, int | float)
    if hint is DType:
        return literal in {each.value for each in DType}
    return isinstance(literal, str)


def _advice(name: str, hints: tuple[Any, ...], literal: Any) -> str:
    """What may be meant by a literal that does not fit."""
    members = [each for hint in hints for each in _members(hint)]
    for each in members:
        if get_origin(each) is tuple and _can_be(get_args(each)[0], literal):
            many = 4 if name in ("pads", "roi") else 2
            return f"Did you mean {name}=({','.join([shown(literal)] * many)})?"
        if isinstance(literal, tuple) and len(cast(tuple[Any, ...], literal)) > 0:
            first = cast(tuple[Any, ...], literal)[0]
            if get_origin(each) is not tuple and _can_be(each, first):
                return f"Did you mean {name}={shown(first)}?"
        if each is DType:
            return _meant_dtype(name, literal)
        if each in (int, float) and isinstance(literal, str):
            return _unquoted(name, literal)
        if each is str and isinstance(literal, int | float):
            return f'Did you mean {name}="{shown(literal)}"?'
    if literal is NONE:
        return "It is always given: what is left out in a model is filled in."
    return ""


def _unquoted(name: str, literal: str) -> str:
    number = literal.removeprefix("-").replace(".", "", 1).isdigit()
    return f"Did you mean {name}={literal}?" if number else ""


def _meant_dtype(name: str, literal: Any) -> str:
    try:
        found = DType.of(np.dtype(str(literal))).value
    except (TypeError, KeyError):
        return nearest(str(literal), [each.value for each in DType])
    return f"Did you mean {name}={found}?"


def shown(literal: Any) -> str:
    """A literal as it stands in a query."""
    if isinstance(literal, tuple):
        return f"({','.join(map(shown, cast(tuple[Any, ...], literal)))})"
    if isinstance(literal, bool):
        return "true" if literal else "false"
    return str(literal)


# --- operands, outputs and edges ------------------------------------------------------------


def wrong_operands(pattern: NodePattern) -> tuple[str, str, str] | None:
    """The rule, what was got and advice, where an op never has so many operands."""
    if pattern.op == "*" or pattern.operands is None:
        return None
    params, count = OPS[pattern.op].inputs, len(pattern.operands)
    sure = sum(not _optional(each) for each in pattern.operands)
    takes = f"{pattern.op} takes {_listed(params)}"
    got = f"{count} operand{'s' * (count != 1)}"
    if not _variadic(params) and sure > len(params):
        return takes, got, _meant_count(pattern)
    least = sum(not (each.optional or each.variadic) for each in params)
    if count < least and not pattern.rest:
        text = "`...` stands for the rest: " + f"{pattern.op}(x, ...)."
        return takes, got, _meant_count(pattern) or (text if pattern.ordered else "Name all.")
    return None


def _meant_count(pattern: NodePattern) -> str:
    numbers = [each for each in pattern.operands or () if isinstance(each, PatternNumber)]
    if pattern.ordered or not numbers or len(numbers) != len(pattern.operands or ()):
        return ""
    return (
        f"How often it repeats is a whole number from 0 on: {pattern.op}{{2}}, {pattern.op}{{2,5}}."
    )


def _optional(operand: Expression) -> bool:
    return isinstance(operand, ValuePattern) and operand.optional


def _variadic(params: tuple[Param, ...]) -> bool:
    return bool(params) and params[-1].variadic


def _listed(params: Iterable[Param]) -> str:
    listed = [f"{each.name}?" if each.optional else each.name for each in params]
    return ", ".join(listed) or "no operands"


def wrong_outputs(expression: Expression, count: int) -> str | None:
    """What is wrong with so many names of outputs of the nodes in which an expression ends."""
    ends = _ends(expression, last=True)
    if ends is None:
        return None
    for op in ends:
        params = OPS[op].outputs
        if _variadic(params) or count <= len(params):
            return None
    op = min(ends)
    return f"{op} makes {_listed(OPS[op].outputs)}"


def wrong_link(link: Link, before: Expression | None, after: Expression | None) -> str | None:
    """What is wrong with an edge whose ends no node beside it has."""
    for port, beside, last, word in (
        (link.source, before, True, "output"),
        (link.target, after, False, "input"),
    ):
        ops = None if beside is None or port is None else _ends(beside, last=last)
        if ops and not any(_has(op, port, last) for op in ops if port is not None):
            op = min(ops)
            params = OPS[op].outputs if last else OPS[op].inputs
            return f"{op} has no {word} {port}: it {'makes' if last else 'takes'} {_listed(params)}"
    return None


def _has(op: str, port: str | int, output: bool) -> bool:
    params = OPS[op].outputs if output else OPS[op].inputs
    if isinstance(port, str):
        return any(each.name == port for each in params)
    return _variadic(params) or port < len(params)


def _ends(expression: Expression, *, last: bool) -> set[str] | None:
    """The ops of the nodes in which an expression begins or ends; none if any may be."""
    match expression:
        case NodePattern(op=op):
            return None if op == "*" else {op}
        case Sequence(parts):
            return _ends(parts[-1 if last else 0], last=last)
        case Either(options):
            found = [_ends(each, last=last) for each in options]
            known = [each for each in found if each is not None]
            return set[str]().union(*known) if len(known) == len(found) else None
        case PatternRepeat(body=body, least=least) if least > 0:
            return _ends(body, last=last)
        case _:
            return None


# --- names ----------------------------------------------------------------------------------


def repeated_name(
    parts: tuple[Expression, ...], captures: frozenset[str]
) -> tuple[str, int] | None:
    """A name that stands twice in a chain, with a node between, and where it does again."""
    seen: dict[str, int] = {}
    nodes = 0
    for part in parts:
        for name, at in _sure_names(part):
            is_node = name in captures
            before = seen.get(name)
            if before is not None and (is_node or nodes > before):
                return name, at
            seen.setdefault(name, nodes)
        nodes += _takes_nodes(part)
    return None


def _sure_names(part: Expression) -> list[tuple[str, int]]:
    """Names that a part of a chain binds to where it stands."""
    match part:
        case NodePattern(capture=name, at=at) if name:
            return [(name, at)]
        case ValuePattern(name=name, at=at) if name not in ("", "_"):
            return [(name, at)]
        case _:
            return []


def _takes_nodes(part: Expression) -> bool:
    match part:
        case NodePattern() | Other():
            return True
        case Sequence(parts):
            return any(map(_takes_nodes, parts))
        case Either(options):
            return all(map(_takes_nodes, options))
        case PatternRepeat(body=body, least=least):
            return least > 0 and _takes_nodes(body)
        case ValuePattern() | PatternNumber() | Link() | Look():
            return False
        case _:
            return False


def clash(text: str, statements: Iterable[Statement]) -> None:
    """Refuse a name that every match would give to nodes of two ops."""
    found: dict[str, NodePattern] = {}
    pending = [each.expression for each in statements]
    while pending:
        match pending.pop(0):
            case NodePattern() as node:
                pending.extend(node.operands or ())
                other = found.setdefault(node.capture, node) if node.capture else node
                if "*" not in (node.op, other.op) and node.op != other.op:
                    raise error_at(
                        text,
                        node.at,
                        f"{node.capture} is one node wherever it stands, which cannot be "
                        f"{other.op} and {node.op}",
                        fix="Give one of them another name.",
                    )
            case Sequence(parts):
                pending.extend(parts)
            case _:
                pass
