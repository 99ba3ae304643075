"""Equal expressions, found in time that grows with their distinct nodes."""

from __future__ import annotations

from typing import assert_never

from weft.loops.nodes import Binary, Const, Conversion, Expr, Load, Reduce, Select, Unary, Var
from weft.loops.walk import children, substitute, with_children


class Numbering:
    """Equal numbers for equal expressions, whatever their axes are called.

    Costs the number of distinct nodes, where comparing would cost the number of paths.
    Unlike ``==`` it tells ``-0.0`` from ``0.0``.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def __call__(self, expr: Expr) -> int:
        """The number of an expression."""
        return self._visit(expr, {})[0]

    def _visit(self, node: Expr, seen: dict[int, tuple[tuple[int, int], Expr]]) -> tuple[int, int]:
        """The number of a node and how deep reductions are nested in it.

        What was seen is kept with its node, whose identity no other one may get.
        """
        known = seen.get(id(node))
        if known is not None:
            return known[0]
        inner = [self._visit(each, seen) for each in children(node)]
        height = max((each[1] for each in inner), default=0)
        parts = [each[0] for each in inner]
        if isinstance(node, Reduce):
            # Named after the height, which no reduction inside has.
            names = [f"%{height}.{place}" for place in range(len(node.axes))]
            bound = {a.var: Var(n) for a, n in zip(node.axes, names, strict=True)}
            parts = [self._visit(substitute(node.value, bound), seen)[0]]
            height += 1
        key = (type(node), *_label(node), *parts)
        found = self._numbers.setdefault(key, len(self._numbers)), height
        seen[id(node)] = found, node
        return found


class ValueNumbers:
    """Expressions, equal ones taken as one, that are replaced by loads."""

    def __init__(self) -> None:
        self._number = Numbering()
        self._labels: set[tuple[object, ...]] = set()
        self._loads: dict[int, Load] = {}

    def add(self, value: Expr, load: Load) -> None:
        """Replaces an expression from now on."""
        self._labels.add(_glance(value))
        self._loads[self._number(value)] = load

    def find(self, value: Expr) -> Load | None:
        """What replaces an expression, if anything does."""
        return self._loads.get(self._number(value)) if _glance(value) in self._labels else None

    def settled(self, value: Expr) -> Expr:
        """The expression with its largest known parts replaced."""
        return self._settle(value, {})

    def _settle(self, node: Expr, done: dict[int, Expr]) -> Expr:
        found = done.get(id(node))
        if found is None:
            found = self.find(node)
            if found is None:
                operands = [self._settle(each, done) for each in children(node)]
                found = with_children(node, tuple(operands))
            done[id(node)] = found
        return found


def _label(expr: Expr) -> tuple[object, ...]:
    """What distinguishes a node from another one of its class and operands."""
    match expr:
        case Const(value, dtype):
            return (repr(value), dtype)
        case Var(name):
            return (name,)
        case Load(buffer, _, dtype):
            return (buffer, dtype)
        case Unary(op, _) | Binary(op, _, _):
            return (op,)
        case Conversion():
            return (expr.dtype,)
        case Select():
            return ()
        case Reduce(op, axes, _):
            return (op, tuple(axis.extent for axis in axes))
        case _:
            assert_never(expr)


def _glance(value: Expr) -> tuple[object, ...]:
    """What is equal for equal expressions and found at a glance."""
    return (type(value), getattr(value, "op", None))
