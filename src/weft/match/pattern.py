"""Patterns over graphs: what they are made of.

A pattern is a small graph written as text, one statement per line (or more: brackets and
a ``|`` at the start of a line go on); the last is the root.
Matching starts there and follows inputs.

::

    c = Conv(x, const w, b?) [users=1]
    y = BatchNormalization(c, const scale, const shift, const mean, const var)

- ``Op(a, b)`` takes the inputs in order, ``Op{a, b}`` in any; ``*`` is any op.
- ``x`` is any value, the same one wherever the name stands; ``_`` is any value at all.
- ``b?`` may be absent.  ``const w`` is a constant.  ``...`` are any further inputs.
- ``2.0`` is a constant of one element of that value (as its own type rounds it).
- An operand may be an expression: ``Mul{x, Sigmoid(x)}``.
- ``A(x) | B(x)`` is either, tried in order; all orders and alternatives are tried before
  a match fails, so that the order never decides whether there is one.
- ``[axis=1, users=1]``: an attribute's value; how many nodes read the outputs, where a
  graph output counts as one more.
- ``y, z = Op(x)`` names two outputs.  An output that is not named must not be read, unless
  ``...`` ends the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Value:
    """Any value; ``name`` binds it, ``_`` does not."""

    name: str
    optional: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element."""

    value: float


@dataclass(frozen=True, slots=True)
class Use:
    """One use of an op.

    Attributes:
        op: its name, ``*`` for any.
        operands: patterns of the inputs.
        ordered: whether the inputs must stand in the order of the operands.
        rest: whether there may be further inputs.
        users: how many users it must have, if that matters.
        attributes: values that attributes must have.
    """

    op: str
    operands: tuple[Pattern, ...]
    ordered: bool = True
    rest: bool = False
    users: int | None = None
    attributes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """The outputs, by name, of any one of several uses; ``rest``: it may have more."""

    names: tuple[str, ...]
    uses: tuple[Use, ...]
    rest: bool = False


Pattern: TypeAlias = Value | Number | Made


def root_ops(root: Made) -> tuple[str, ...]:
    """Ops that the root may be; ``*`` among them stands for any."""
    return tuple(dict.fromkeys(use.op for use in root.uses))


def uses_in(pattern: Pattern) -> Iterator[Use]:
    """Every use in a pattern."""
    if isinstance(pattern, Made):
        for use in pattern.uses:
            yield use
            for operand in use.operands:
                yield from uses_in(operand)


def names_in(pattern: Pattern) -> Iterator[str]:
    """Every name that a pattern binds."""
    match pattern:
        case Value(name):
            yield name
        case Number():
            pass
        case Made(names, uses):
            yield from names
            for use in uses:
                for operand in use.operands:
                    yield from names_in(operand)
