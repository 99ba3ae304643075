"""Definitions with reductions over a common row, taken apart: softmax, norms, means.

A *row* is what is reduced: the reductions run one after the other over the same elements,
then the output is computed from them, often element by element of the same row.  The loops
over rows stand outside, so all that a row needs stays in cache::

    for rows:
      top = max over the row of x[k]
      total = sum over the row of (held[k] = exp(x[k] - top))
      for k: out[k] = held[k] / total

What one pass computes at some cost for every element, and a later one wants again, is held:
in the output where nothing that could lie there is read afterwards, else in a local buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from weft.kernels.refusal import Refusal
from weft.kernels.task import LOOP_NAMES, Task
from weft.loops.affine import affine
from weft.loops.bounds import divides_safely, unproven
from weft.loops.nodes import (
    FUNCTIONS,
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    Load,
    Operation,
    Reduce,
    Select,
    Unary,
    Var,
)
from weft.loops.ranges import Facts
from weft.loops.value_numbering import Numbering, ValueNumbers
from weft.loops.walk import (
    FreeVars,
    FreshNames,
    bound_vars,
    children,
    dtype_of,
    free_vars,
    loads,
    map_expr,
    substitute,
    walk,
)
from weft.records import dataclass

COSTLY = FUNCTIONS | frozenset("div pow floordiv mod fmod".split())
MOST_HELD = 16384
"""Bytes of a row that are held on the stack."""
HELD = "held"
_WORDS = {
    "sum": "total",
    "prod": "product",
    "max": "top",
    "min": "least",
    "and": "every",
    "or": "some",
}


@dataclass(frozen=True)
class Pass:
    """One walk along the row.

    Attributes:
        op: the reduction, empty for the pass that writes the output.
        axes: what it loops over; equal elements have equal names in all passes.
        value: of an element; accumulators are loads without an index.
        name: of the accumulator.
        before: names and values of what is computed once, from accumulators alone.
    """

    op: str
    axes: tuple[Axis, ...]
    value: Expr
    name: str
    before: tuple[tuple[str, Expr], ...] = ()

    @property
    def vars(self) -> frozenset[str]:
        """Names of the axes."""
        return frozenset(axis.var for axis in self.axes)

    @property
    def costly(self) -> bool:
        """Whether an element takes more than a few operations."""
        return is_costly(self.value, self.vars)


@dataclass(frozen=True)
class Held:
    """Values of elements that one pass keeps for later ones.

    Attributes:
        maker: the number of the pass that computes them.
        value: what an element is.
        load: what the passes read in its place.
        local: the buffer if it is not the output.
    """

    maker: int
    value: Expr
    load: Load
    local: Buffer | None


@dataclass(frozen=True)
class Rows:
    """A task taken apart.

    Attributes:
        task: what it comes from.
        outer: the output's axes that tell rows apart, slowest first.
        passes: the reductions in order, then what writes the output.
        held: what is kept between passes, if anything is.
    """

    task: Task
    outer: tuple[Axis, ...]
    passes: tuple[Pass, ...]
    held: Held | None

    def steps(self, each: Pass, var: str) -> list[int | None]:
        """Elements by which the loads of a pass move along a variable, ``None`` if it varies."""
        buffers = {buffer.name: buffer for buffer in (*self.task.inputs, self.task.output)}
        if self.held and self.held.local:
            buffers[HELD] = self.held.local
        return [
            step_of(load, var, buffers[load.buffer].steps)
            for load in loads(each.value)
            if load.index
        ]

    def streams(self, each: Pass, var: str) -> bool:
        """Whether a pass reads vectors or one number for all along a variable, some vectors."""
        steps = self.steps(each, var)
        return 1 in steps and all(step in (0, 1) for step in steps)

    def recomputing(self) -> Rows:
        """The same with nothing held."""
        held = self.held
        if held is None:
            return self
        load, made = held.load, held.value

        def unheld(value: Expr) -> Expr:
            return map_expr(value, lambda node: made if node == load else node)

        passes = tuple(replace(each, value=unheld(each.value)) for each in self.passes)
        return Rows(self.task, self.outer, passes, None)


def is_costly(value: Expr, vars: frozenset[str]) -> bool:
    """Whether an expression has an operation of many cycles that depends on variables."""
    free = FreeVars()
    return any(
        isinstance(node, Unary | Binary) and node.op in COSTLY and free(node) & vars
        for node in walk(value)
    )


def step_of(load: Load, var: str, steps: Sequence[int]) -> int | None:
    """Elements by which a load moves along a variable; ``None`` where that varies."""
    total = 0
    for part, stride in zip(load.index, steps, strict=True):
        form = affine(part)
        total += form.terms.get(Var(var), 0) * stride
        if any(not isinstance(atom, Var) and var in free_vars(atom) for atom in form.terms):
            return None
    return total


def take_apart(task: Task) -> Rows | None:
    """The rows of a task, or ``None`` where its reductions do not run over a common one."""
    found = rows_of(task)
    return found if isinstance(found, Rows) else None


def rows_of(task: Task) -> Rows | Refusal:
    """The rows of a task, or why it has none; analyzed once for each task."""
    return task.fact(_analyzed)


def _analyzed(task: Task) -> Rows | Refusal:
    reduces = _reductions(task.compute.value)
    names = frozenset(axis.var for axis in task.compute.axes)
    if not reduces:
        return Refusal("nothing is reduced")
    rows = free_vars(reduces[0])
    if not rows <= names or any(free_vars(each) != rows for each in reduces):
        return Refusal("its reductions do not run over a common row")
    if any(axis.extent == 0 for each in reduces for axis in each.axes):
        return Refusal("a row is empty")
    if not all(_safe(task, each) for each in reduces):
        return Refusal(
            "a reduction is under a condition without which it would read outside of its inputs"
        )
    outer = tuple(axis for axis in task.compute.axes if axis.var in rows)
    inner = tuple(axis for axis in task.compute.axes if axis.var not in rows)
    passes = _once(_passes(task, reduces, inner))
    held = _held(task, passes)
    if held is not None:
        passes = _holding(passes, held)
    return Rows(task, outer, passes, held)


def _reductions(value: Expr) -> list[Reduce]:
    """Every distinct reduction, those that others read first."""
    number, found = Numbering(), dict[int, Reduce]()
    for node in _operands_first(value, set()):
        if isinstance(node, Reduce):
            found.setdefault(number(node), node)
    return list(found.values())


def _operands_first(node: Expr, done: set[int]) -> Iterator[Expr]:
    """Every distinct node that is not done, operands first."""
    if id(node) not in done:
        done.add(id(node))
        for each in children(node):
            yield from _operands_first(each, done)
        yield node


def _safe(task: Task, reduce: Reduce) -> bool:
    """Whether a reduction may run whatever conditions stand around it."""
    facts = Facts().bind({axis.var: (0, axis.extent - 1) for axis in task.compute.axes})
    buffers = {buffer.name: buffer for buffer in task.inputs}
    return unproven(reduce, facts, buffers) is None and divides_safely(reduce, facts)


# --- passes -------------------------------------------------------------------------------


def _passes(task: Task, reduces: list[Reduce], inner: tuple[Axis, ...]) -> tuple[Pass, ...]:
    """The walks along the row, with the same names for the same elements."""
    taken = {axis.var for axis in task.compute.axes} | bound_vars(task.compute.value)
    buffers = {buffer.name for buffer in task.inputs}
    fresh = FreshNames(taken | buffers | LOOP_NAMES | {"chunk", "out", HELD})
    known = ValueNumbers()
    bodies: list[tuple[Reduce, Expr, str]] = []
    for each in reduces:
        name = fresh(_WORDS[each.op])
        bodies.append((each, known.settled(each.value), name))
        known.add(each, Load(name, (), dtype_of(each.value)))
    last = Pass("", inner, known.settled(task.compute.value), "")
    places = _Places()
    places.learn(last)
    found: list[Pass] = []
    for each, body, name in bodies:
        found.append(places.aligned(Pass(each.op, each.axes, body, name), fresh))
        places.learn(found[-1])
    return (*found, last)


class _Places:
    """Which axis walks which dimension of the inputs, so that passes can share names."""

    def __init__(self) -> None:
        self._axes: dict[tuple[str, int], Axis] = {}

    def learn(self, each: Pass) -> None:
        """Remembers how a pass walks the inputs."""
        for place, axis in self._walked(each):
            self._axes.setdefault(place, axis)

    def aligned(self, each: Pass, fresh: Callable[[str], str]) -> Pass:
        """The pass with the names that others use for what its axes walk."""
        names: dict[str, str] = {}
        for place, axis in self._walked(each):
            known = self._axes.get(place)
            if known and known.extent == axis.extent and known.var not in names.values():
                names.setdefault(axis.var, known.var)
        for axis in each.axes:
            if axis.var not in names:
                names[axis.var] = fresh(axis.var)
        axes = tuple(Axis(names[axis.var], axis.extent) for axis in each.axes)
        value = substitute(each.value, {old: Var(new) for old, new in names.items()})
        return replace(each, axes=axes, value=value)

    @staticmethod
    def _walked(each: Pass) -> Iterator[tuple[tuple[str, int], Axis]]:
        axes = {axis.var: axis for axis in each.axes}
        for load in loads(each.value):
            for place, part in enumerate(load.index):
                if isinstance(part, Var) and part.name in axes:
                    yield (load.buffer, place), axes[part.name]


# --- what does not change along a row -----------------------------------------------------


def _once(passes: tuple[Pass, ...]) -> tuple[Pass, ...]:
    """The passes with what accumulators alone determine computed before their loops."""
    known = ValueNumbers()
    found: list[Pass] = []
    count = 0
    for each in passes:
        before: list[tuple[str, Expr]] = []
        for value in _invariants(each.value):
            if known.find(value) is None:
                before.append((f"once{count}", known.settled(value)))
                known.add(value, Load(f"once{count}", (), dtype_of(value)))
                count += 1
        found.append(replace(each, value=known.settled(each.value), before=tuple(before)))
    return tuple(found)


def _invariants(value: Expr) -> Iterator[Expr]:
    """The largest parts of an expression that accumulators alone determine."""
    if isinstance(value, Operation | Select) and _of_accumulators(value):
        yield value
    elif not isinstance(value, Load):
        for child in children(value):
            yield from _invariants(child)


def _of_accumulators(value: Expr) -> bool:
    """Whether an expression reads accumulators only and can be computed at any time."""
    read = list(loads(value))
    if not read or any(load.index for load in read) or not dtype_of(value).is_float:
        return False
    return not any(
        isinstance(node, Var) or (isinstance(node, Binary) and _may_fail(node))
        for node in walk(value)
    )


def _may_fail(node: Binary) -> bool:
    return node.op in ("div", "floordiv", "mod", "fmod") and not dtype_of(node).is_float


# --- what is held -------------------------------------------------------------------------


def _held(task: Task, passes: tuple[Pass, ...]) -> Held | None:
    """The first costly value of elements that a later pass computes again."""
    for maker, each in enumerate(passes[:-1]):
        later = [node for p in passes[maker + 1 :] if p.vars == each.vars for node in walk(p.value)]
        for value in _unconditional(each.value):
            if is_costly(value, each.vars):
                known = ValueNumbers()
                known.add(value, Load(HELD, (), dtype_of(value)))
                if any(known.find(node) for node in later):
                    return _kept(task, passes, maker, value)
    return None


def _unconditional(value: Expr) -> Iterator[Expr]:
    """What is computed whatever conditions hold, but for indices; largest first."""
    yield value
    if isinstance(value, Operation):
        for operand in children(value):
            yield from _unconditional(operand)


def _kept(task: Task, passes: tuple[Pass, ...], maker: int, value: Expr) -> Held | None:
    axes, dtype = passes[maker].axes, dtype_of(value)
    last = passes[-1]
    if last.vars == passes[maker].vars and dtype is task.output.dtype:
        reduced = {load.buffer for each in passes[:-1] for load in loads(each.value)}
        rest = _replaced(last.value, value, Load("out", (), dtype))
        # What no reduction reads may lie where the output is written.
        if {load.buffer for load in loads(rest) if load.index} <= reduced:
            point = tuple(Var(axis.var) for axis in task.compute.axes)
            return Held(maker, value, Load("out", point, dtype), None)
    if prod(axis.extent for axis in axes) * dtype.bytes > MOST_HELD:
        return None
    shape = tuple(axis.extent for axis in axes)
    point = tuple(Var(axis.var) for axis in axes)
    return Held(maker, value, Load(HELD, point, dtype), Buffer(HELD, dtype, shape, Access.LOCAL))


def _holding(passes: tuple[Pass, ...], held: Held) -> tuple[Pass, ...]:
    """The passes with loads of what is held."""
    vars = passes[held.maker].vars
    return tuple(
        replace(each, value=_replaced(each.value, held.value, held.load))
        if place >= held.maker and each.vars == vars
        else each
        for place, each in enumerate(passes)
    )


def _replaced(value: Expr, old: Expr, new: Load) -> Expr:
    """The expression with another one in it replaced."""
    known = ValueNumbers()
    known.add(old, new)
    return known.settled(value)
