"""Kernels that differ in numbers only, as one kernel that is told them.

Layers that differ in how many channels they have become kernels of the same loops.  One function
serves them if it takes the numbers as parameters, which makes C shorter and faster to compile.
Numbers that decide how code is written stay as they are: bounds of loops that are unrolled,
vectors or short, divisors, places in registers, distances of a vector's lanes, and conditions
that are known where loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias, cast

from weft.dtypes import DType
from weft.loops.nodes import (
    COMPARISONS,
    Binary,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Instruct,
    Kernel,
    Load,
    Local,
    LoopKind,
    Prefetch,
    Select,
    Stmt,
    Store,
    Var,
)
from weft.loops.statements import all_exprs, declared_in, walk_stmts
from weft.loops.walk import FreeVars, children, loads, with_children
from weft.records import dataclass

Step: TypeAlias = "int | str"
"""A stride in elements, or the name of the number that it is."""

_SHORT = 8
"""Innermost loops of fewer steps may be unrolled by compilers, if they know how many."""
_LARGEST = (1 << 31) - 1
_MOST_NUMBERS = 16
_WORTH = 64
"""Stores, written out, that sharing must save to be worth the arguments of its calls."""


@dataclass(frozen=True)
class Shared:
    """One kernel for several.

    Attributes:
        kernel: with free variables for the numbers in which they differ; its buffers have the
            smallest extents of all.
        steps: the strides of parameters that have such a number as a stride.
        numbers: the smallest and the largest value of each variable.
        values: of the variables, for each of the kernels by name.
    """

    kernel: Kernel
    steps: Mapping[str, tuple[Step, ...]]
    numbers: Mapping[str, tuple[int, int]]
    values: Mapping[str, tuple[int, ...]]


def shared_kernels(
    kernels: Iterable[tuple[Kernel, Hashable]], cut: frozenset[str] = frozenset()
) -> list[Shared]:
    """Kernels for those that differ in numbers only.

    Args:
        kernels: simple ones, each with what must be equal beside its loops.
        cut: names of those whose parallel loops threads share, so that their bounds stay.
    """
    similar: dict[Hashable, list[tuple[Kernel, Hashable]]] = {}
    for kernel, more in kernels:
        similar.setdefault((more, _outline(kernel)), []).append((kernel, more))
    groups: dict[Hashable, list[tuple[Kernel, _Reading]]] = {}
    for kernel, more in (each for same in similar.values() if len(same) > 1 for each in same):
        reading = _Reading(kernel, kernel.name in cut)
        reading.kernel()
        groups.setdefault((more, *reading.tokens), []).append((kernel, reading))
    found = (_shared(members, cut) for members in groups.values() if len(members) > 1)
    return [each for each in found if each is not None]


def _outline(kernel: Kernel) -> Hashable:
    """Something that is quickly found, and equal for kernels that differ in numbers only."""
    params = tuple((each.name, each.dtype, each.access) for each in kernel.params)
    return params, tuple(map(type, walk_stmts(kernel.body)))


def _shared(members: Sequence[tuple[Kernel, _Reading]], cut: frozenset[str]) -> Shared | None:
    """The kernel of a group, if it is worth it."""
    first, reading = members[0]
    columns = list(zip(*(each.numbers for _, each in members), strict=True))
    different = dict.fromkeys(column for column in columns if len(set(column)) > 1)
    if reading.stores * (len(members) - 1) < _WORTH or len(different) > _MOST_NUMBERS:
        return None
    if any(abs(number) > _LARGEST for column in different for number in column):
        return None
    taken = {*declared_in(first.body), *(each.name for each in first.params)}
    names = dict(zip(different, (f"n{place}" for place in range(len(different))), strict=True))
    if taken & set(names.values()):
        return None
    merged = _Reading(first, first.name in cut, [names.get(column, "") for column in columns])
    kernel = merged.kernel()
    extents = zip(*([each.shape for each in kernel.params] for kernel, _ in members), strict=True)
    params = tuple(
        replace(buffer, shape=tuple(map(min, zip(*shapes, strict=True))))
        for buffer, shapes in zip(first.params, extents, strict=True)
    )
    return Shared(
        replace(kernel, params=params),
        merged.steps,
        {name: (min(column), max(column)) for column, name in names.items()},
        {
            kernel.name: tuple(column[place] for column in different)
            for place, (kernel, _) in enumerate(members)
        },
    )


@dataclass(frozen=True)
class _Place:
    """What is known at a statement: the loops around it that remain loops, and the lanes."""

    loops: frozenset[str] = frozenset()
    lanes: frozenset[str] = frozenset()


@dataclass
class _Reading:
    """Reads a kernel: what it is like, and its numbers; or puts names in their places.

    Attributes:
        source: the kernel.
        cut: whether the bounds of parallel loops stay.
        names: of variables for its numbers, empty for those that stay; none to only read.
        tokens: what must be equal.
        numbers: that may differ.
        steps: strides of parameters with names among them.
        stores: how many there are, written out.
    """

    source: Kernel
    cut: bool
    names: Sequence[str] = ()
    tokens: list[Hashable] = field(default_factory=list["Hashable"])
    numbers: list[int] = field(default_factory=list[int])
    steps: dict[str, tuple[Step, ...]] = field(default_factory=dict[str, tuple[Step, ...]])
    stores: int = 0

    def __post_init__(self) -> None:
        self._params = {each.name for each in self.source.params}
        self._seen: dict[tuple[int, bool], tuple[int, Expr]] = {}
        self._free_vars = FreeVars()
        self._lanes = frozenset(
            stmt.var
            for stmt in walk_stmts(self.source.body)
            if isinstance(stmt, For) and stmt.kind is LoopKind.VECTOR
        )

    def kernel(self) -> Kernel:
        """The kernel, with names for numbers."""
        fixed = self._fixed_strides()
        for buffer in self.source.params:
            self._buffer(buffer, fixed[buffer.name])
        return replace(self.source, body=self._block(self.source.body, _Place(), 1))

    # --- parameters ---------------------------------------------------------------------------

    def _fixed_strides(self) -> dict[str, set[int]]:
        """Dimensions of parameters whose strides stay: lanes lie along them."""
        found: dict[str, set[int]] = {each.name: set() for each in self.source.params}
        for stmt in walk_stmts(self.source.body):
            if isinstance(stmt, Store | Prefetch):
                self._along_lanes(stmt.buffer, stmt.index, found)
            elif isinstance(stmt, Instruct):
                for load in stmt.operands:
                    found.get(load.buffer, set[int]()).update(range(len(load.index)))
        for load in loads(*all_exprs(self.source.body)):
            self._along_lanes(load.buffer, load.index, found)
        return found

    def _along_lanes(
        self, buffer: str, index: Sequence[Expr], found: Mapping[str, set[int]]
    ) -> None:
        if buffer in found:
            for place, each in enumerate(index):
                if not self._lanes.isdisjoint(self._free_vars(each)):
                    found[buffer].add(place)

    def _buffer(self, buffer: Buffer, fixed: set[int]) -> None:
        self.tokens += buffer.name, buffer.dtype, buffer.access, len(buffer.shape)
        steps: list[Step] = []
        for place, step in enumerate(buffer.steps):
            if place in fixed:
                self.tokens.append(step)
                steps.append(step)
            else:
                steps.append(self._number(step) or step)
        if any(isinstance(each, str) for each in steps):
            self.steps[buffer.name] = tuple(steps)

    def _number(self, value: int) -> str:
        """Notes a number that may differ; returns the name for it, if any."""
        self.numbers.append(value)
        return self.names[len(self.numbers) - 1] if self.names else ""

    # --- statements ---------------------------------------------------------------------------

    def _block(self, body: Sequence[Stmt], place: _Place, times: int) -> tuple[Stmt, ...]:
        self.tokens.append(len(body))
        return tuple(self._stmt(stmt, place, times) for stmt in body)

    def _stmt(self, stmt: Stmt, place: _Place, times: int) -> Stmt:
        self.tokens.append(type(stmt))
        match stmt:
            case For():
                return self._for(stmt, place, times)
            case Store(buffer, index, value):
                self.stores += times
                self.tokens.append(buffer)
                return Store(buffer, self._index(buffer, index), self._expr(value, False))
            case If(condition, then, otherwise):
                decided = self._free_vars(condition) <= place.loops and not any(loads(condition))
                condition = self._expr(condition, decided)
                blocks = (self._block(each, place, times) for each in (then, otherwise))
                return If(condition, *blocks)
            case Local(buffer, body):
                self.tokens.append(buffer)
                return Local(buffer, self._block(body, place, times))
            case Prefetch(buffer, index):
                self.tokens.append(buffer)
                return Prefetch(buffer, self._index(buffer, index))
            case Instruct(name, operands):
                self.tokens.append(name)
                self.stores += times
                return Instruct(
                    name,
                    cast(tuple[Load, ...], tuple(self._expr(each, False) for each in operands)),
                )

    def _for(self, loop: For, place: _Place, times: int) -> For:
        self.tokens += loop.var, loop.kind
        kept = loop.kind in (LoopKind.UNROLL, LoopKind.VECTOR) or self._short(loop)
        kept |= self.cut and loop.kind is LoopKind.PARALLEL
        start, stop = self._expr(loop.start, not kept), self._expr(loop.stop, not kept)
        if loop.kind is LoopKind.UNROLL:
            times *= max(1, _extent(loop))
        elif loop.kind is not LoopKind.VECTOR:
            place = replace(place, loops=place.loops | {loop.var})
        return For(loop.var, start, stop, self._block(loop.body, place, times), loop.kind)

    def _short(self, loop: For) -> bool:
        if not 0 < _extent(loop) < _SHORT:
            return False
        loops = (stmt.kind for stmt in walk_stmts(loop.body) if isinstance(stmt, For))
        return all(kind in (LoopKind.UNROLL, LoopKind.VECTOR) for kind in loops)

    # --- expressions --------------------------------------------------------------------------

    def _index(self, buffer: str, index: Sequence[Expr]) -> tuple[Expr, ...]:
        free = buffer in self._params
        return tuple(self._expr(each, free) for each in index)

    def _expr(self, expr: Expr, free: bool) -> Expr:
        """An expression, whose numbers may differ if it is ``free``."""
        known = self._seen.get((id(expr), free))
        if known is not None:
            self.tokens.append(known[0])
            return known[1]
        place = len(self.tokens)
        done = self._read(expr, free)
        self._seen[id(expr), free] = place, done
        return done

    def _read(self, expr: Expr, free: bool) -> Expr:
        self.tokens.append(type(expr))
        match expr:
            case Const(value, dtype):
                if free and dtype is DType.I64:
                    name = self._number(int(value))
                    return Var(name) if name else expr
                self.tokens += repr(value), dtype
                return expr
            case Var(name):
                self.tokens.append(name)
                return expr
            case Load(buffer, index, dtype):
                self.tokens += buffer, dtype
                return with_children(expr, self._index(buffer, index))
            case Select(condition, then, otherwise):
                sides = self._expr(then, free), self._expr(otherwise, free)
                return with_children(expr, (self._expr(condition, False), *sides))
            case Binary(op, lhs, rhs):
                self.tokens.append(op)
                left, right = self._sides(op, lhs, rhs, free)
                return with_children(expr, (self._expr(lhs, left), self._expr(rhs, right)))
            case _:
                self.tokens += getattr(expr, "op", None), getattr(expr, "dtype", None)
                return with_children(
                    expr, tuple(self._expr(each, False) for each in children(expr))
                )

    def _sides(self, op: str, lhs: Expr, rhs: Expr, free: bool) -> tuple[bool, bool]:
        """Which operands may have numbers that differ."""
        if op in ("floordiv", "mod"):
            return free, False
        if op == "mul":
            return (
                free and self._lanes.isdisjoint(self._free_vars(rhs)),
                free and self._lanes.isdisjoint(self._free_vars(lhs)),
            )
        if op in ("add", "sub", "min", "max") or op in COMPARISONS:
            return free, free
        return False, False


def _extent(loop: For) -> int:
    """Steps of a loop of constant bounds; 0 of others."""
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return int(loop.stop.value) - int(loop.start.value)
    return 0
