"""Schedule steps that end in an instruction: wider locals, packed operands, tensorize.

As in ``weft.loops.schedule``, every step is a function kernel -> kernel, and raises a
``ScheduleError`` where it would change the meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from weft.loops.affine import affine
from weft.loops.affine_arithmetic import emit
from weft.loops.dependence import buffers_of, carried
from weft.loops.instruction import instruction, misfit
from weft.loops.nodes import (
    Access,
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Instruct,
    Kernel,
    Load,
    Local,
    Stmt,
    Store,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.schedule import ScheduleError, at_loop, names_of, perfect_nest
from weft.loops.simplify import simplify
from weft.loops.statements import blocks, map_stmts, substitute_stmts, with_blocks
from weft.loops.text import show_expr
from weft.loops.walk import free_vars, index, map_expr
from weft.records import dataclass


def widen(kernel: Kernel, local: str, loops: Sequence[str]) -> Kernel:
    """Gives every iteration of a perfect nest its own part of a local, and cuts the nest apart.

    ``for i { local a { S; T } }`` becomes ``local a[i] { for i { S } for i_1 { T } }``: each
    statement of the local's body gets loops of its own, named ``i``, ``i_1``, ``i_2``, ....
    """
    names = names_of(kernel)

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        nest = perfect_nest("widen", loop, len(loops))
        body = nest[-1].body
        if [each.var for each in nest] != list(loops) or len(body) != 1:
            raise ScheduleError(f"widen: {', '.join(loops)} are not the loops right around {local}")
        inside = body[0]
        if not isinstance(inside, Local) or inside.buffer.name != local:
            raise ScheduleError(f"widen: {local} does not stand right inside {loops[-1]}")
        extents: list[int] = []
        for each in nest:
            if each.start != index(0) or not isinstance(each.stop, Const):
                raise ScheduleError(f"widen: {each.var} does not run from 0 to a constant")
            extents.append(int(each.stop.value))
            reason = carried(each, facts, buffers_of(kernel)) if extents[-1] > 1 else ""
            if reason:
                raise ScheduleError(f"widen: {reason}")
            facts = facts.enter(each)
        buffer = replace(inside.buffer, shape=(*extents, *inside.buffer.shape), strides=None)
        found: list[Stmt] = []
        for place, stmt in enumerate(inside.body):
            own = {each.var: names(each.var) if place else each.var for each in nest}
            values = {old: Var(new) for old, new in own.items()}
            prefix = tuple(values[each.var] for each in nest)
            stmts = _reindexed(
                substitute_stmts((stmt,), values), local, lambda at, p=prefix: (*p, *at)
            )
            for each in reversed(nest):
                stmts = (replace(each, var=own[each.var], body=stmts),)
            found += stmts
        return (Local(buffer, tuple(found)),)

    return at_loop(kernel, loops[0], rewrite)


def relayout(
    kernel: Kernel,
    name: str,
    shape: Sequence[int],
    place: Callable[[tuple[Expr, ...]], tuple[Expr, ...]],
) -> Kernel:
    """Another shape for a parameter whose contents the caller arranges likewise.

    Args:
        kernel: what reads the parameter.
        name: of the parameter.
        shape: the new one.
        place: the new index of the element at an old one.
    """
    params = tuple(
        replace(each, shape=tuple(shape), strides=None) if each.name == name else each
        for each in kernel.params
    )
    if any(each.name == name and each.access is not Access.READ for each in params):
        raise ScheduleError(f"relayout: {name} is not only read")
    return replace(kernel.with_body(_reindexed(kernel.body, name, place)), params=params)


def _reindexed(
    stmts: Sequence[Stmt], name: str, place: Callable[[tuple[Expr, ...]], tuple[Expr, ...]]
) -> tuple[Stmt, ...]:
    """Other indices for every access of a buffer."""

    def load(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer == name:
            return replace(node, index=place(node.index))
        return node

    def visit(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store) and stmt.buffer == name:
            return replace(stmt, index=place(stmt.index))
        return with_blocks(stmt, [tuple(map(visit, block)) for block in blocks(stmt)])

    return tuple(map(visit, map_stmts(stmts, lambda expr: map_expr(expr, load))))


def tensorize(kernel: Kernel, var: str, name: str) -> Kernel:
    """Puts an instruction in the place of the loops that it means, from loop ``var`` inwards.

    The loops must be those of the row, statement by statement; loop variables and buffers
    may have other names, and buffers further dimensions in front.
    """
    meaning = instruction(name).meaning

    def rewrite(loop: For, facts: Facts) -> Sequence[Stmt]:
        match_ = _Match({each.name: each for each in meaning.params}, facts)
        match_.block(meaning.body, (loop,))
        operands = tuple(match_.windows[each.name] for each in meaning.params)
        made = Instruct(name, operands)
        problem = misfit(made, buffers_of(kernel))
        if problem:
            raise ScheduleError(f"tensorize: {problem}")
        return (made,)

    return at_loop(kernel, var, rewrite)


@dataclass
class _Match:
    """Finds the windows on which a row's loops are some given ones.

    Attributes:
        params: the row's operands.
        facts: what is known around the loops.
        vars: the kernel's variable for each of the row's.
        windows: found so far.
    """

    params: dict[str, Buffer]
    facts: Facts
    vars: dict[str, Expr] = field(default_factory=dict[str, Expr])
    windows: dict[str, Load] = field(default_factory=dict[str, Load])

    def block(self, row: Sequence[Stmt], stmts: Sequence[Stmt]) -> None:
        """Statements, in their order."""
        if len(row) != len(stmts):
            raise ScheduleError("tensorize: the loops hold more than the instruction does")
        for mine, given in zip(row, stmts, strict=True):
            match mine, given:
                case For(), For():
                    if (mine.start, mine.stop) != (given.start, given.stop):
                        raise ScheduleError(f"tensorize: {given.var} has not the row's extent")
                    self.vars[mine.var] = Var(given.var)
                    outer, self.facts = self.facts, self.facts.enter(given)
                    self.block(mine.body, given.body)
                    self.facts = outer
                case Store(), Store():
                    dtype = self.params[mine.buffer].dtype
                    self.expr(
                        Load(mine.buffer, mine.index, dtype),
                        Load(given.buffer, given.index, dtype),
                    )
                    self.expr(mine.value, given.value)
                case _:
                    raise ScheduleError("tensorize: the statements are not the instruction's")

    def expr(self, mine: Expr, given: Expr) -> None:
        """Expressions of one form."""
        match mine, given:
            case Load(), Load() if mine.dtype is given.dtype:
                self.window(mine, given)
            case Const(), Const() if mine == given:
                pass
            case Cast(one, x), Cast(other, y) if one is other:
                self.expr(x, y)
            case Binary(one, a, b), Binary(other, c, d) if one == other:
                self.expr(a, c)
                self.expr(b, d)
            case _:
                raise ScheduleError("tensorize: the arithmetic is not the instruction's")

    def window(self, mine: Load, given: Load) -> None:
        """Where the window of an operand begins, the same wherever it is read."""
        fixed = len(given.index) - len(mine.index)
        if fixed < 0:
            raise ScheduleError(f"tensorize: {given.buffer} has too few dimensions")
        own = substitute_stmts((Store("", mine.index, Const(0, given.dtype)),), self.vars)[0]
        assert isinstance(own, Store)
        at = [simplify(part, self.facts) for part in given.index]
        begin = at[:fixed]
        for part, step in zip(at[fixed:], own.index, strict=True):
            # Again: the index of a loop of one iteration is 0 in what is given.
            begin.append(simplify(emit(affine(part).plus(affine(step), -1)), self.facts))
        inside = {each.name for each in self.vars.values() if isinstance(each, Var)}
        if any(free_vars(part) & inside for part in begin):
            raise ScheduleError(
                f"tensorize: {show_expr(given)} is not read as {show_expr(mine)} is"
            )
        found = Load(given.buffer, tuple(begin), given.dtype)
        if self.windows.setdefault(mine.buffer, found) != found:
            raise ScheduleError(f"tensorize: {mine.buffer} would stand for two windows")
