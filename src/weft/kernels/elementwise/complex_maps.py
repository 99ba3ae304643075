"""Maps of complex numbers: pairs that lie side by side, computed by whole vectors.

Vectors along the pairs alone would have two lanes.  They run over several numbers instead; what
reads the other part of a number, one part for both, or one real number for both, takes lanes of
whole vectors in another order::

    for outer axes, run of as many numbers as a vector has lanes:
      x[0][lane] = in[2 * first + lane], x[1][lane] = in[2 * first + lanes + lane]
      s[lane] = scale[first + lane]
      for half in 0, 1:
        out[2 * first + half * lanes + lane] =
          f(x[half][lane], x[half][lane with its neighbour], s[(half * lanes + lane) / 2])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from weft.kernels.alternatives import Alternative, Sums, always
from weft.kernels.elementwise.lanes import lanes_of
from weft.kernels.elementwise.passes import step_of
from weft.kernels.elementwise.turned import NARROWEST, TURNED, unconditional
from weft.kernels.generator import Generator
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.kernels.writer import LANE, for_range, integer, nested, plus, times, vector, with_locals
from weft.loops.nodes import (
    Access,
    Axis,
    Binary,
    Buffer,
    Expr,
    Kernel,
    Load,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from weft.loops.simplify import simplify_kernel
from weft.loops.walk import free_vars, loads, map_expr, reduces, substitute
from weft.plan.implementation import Implementation, Operand
from weft.records import dataclass

_RUN = "run"
_SIDES = (-1, 0, 1)
"""Steps from part to part: the other one, one for both, as they lie."""


@dataclass(frozen=True)
class _Pairs:
    """A buffer whose last but one and last dimensions are numbers and their parts.

    Attributes:
        buffer: with one dimension in their place.
        number: the place of the first, which the other one follows.
    """

    buffer: Buffer
    number: int

    def at(self, index: Sequence[Expr], number: Expr, part: Expr) -> tuple[Expr, ...]:
        """The index of a part of a number; the parts of both follow one another."""
        place = plus(times(number, 2), part)
        return (*index[: self.number], place, *index[self.number + 2 :])


@dataclass(frozen=True)
class _Parts:
    """A task whose maps are of pairs.

    Attributes:
        numbers: the axis of numbers.
        part: the axis of their parts.
        pairs: the buffers of pairs by name, the output among them.
        whole: loads of pairs.
        single: loads of one real number for both parts.
    """

    numbers: Axis
    part: Axis
    pairs: Mapping[str, _Pairs]
    whole: tuple[Load, ...]
    single: tuple[Load, ...]


def propose(task: Task) -> tuple[Alternative, ...] | Refusal:
    """These loops, where they apply: nothing that computes the same has vectors so long."""
    found = _parts_of(task)
    if isinstance(found, Refusal):
        return found
    make = partial(_generate, task, found)
    return (Alternative("complex", 0.0, Sums("map"), make, always),)


def _parts_of(task: Task) -> _Parts | Refusal:
    axes = task.compute.axes
    if len(axes) < 2 or axes[-1].extent != 2 or reduces(task.compute.value):
        return Refusal("it is no map of pairs")
    if task.target.flavour != "gnu" or _lanes(task, axes[-2]) < NARROWEST:
        return Refusal("there are no vectors of several pairs, or none whose lanes can be moved")
    every = dict.fromkeys(loads(task.compute.value))
    if every.keys() != set(unconditional(task.compute.value)):
        return Refusal("something is read under a condition")
    if any(dtype not in TURNED for dtype in (task.output.dtype, *(each.dtype for each in every))):
        return Refusal("lanes of its element types are not moved")
    steps = {each: _steps(task, each) for each in every}
    whole = tuple(
        each for each, (along, beside) in steps.items() if along == 2 and beside in _SIDES
    )
    single = tuple(each for each, step in steps.items() if step == (1, 0))
    same = [each for each, (along, beside) in steps.items() if along == 0 and beside is not None]
    pairs = _joined_all(task, whole)
    if len(whole) + len(single) + len(same) < len(every) or pairs is None:
        return Refusal("pairs are read in steps of their own, or lie apart")
    if any(each.buffer in pairs for each in (*single, *same)):
        return Refusal("pairs are read in steps of their own, or lie apart")
    if all(steps[each][1] == 1 for each in (*whole, *single)):
        return Refusal("pairs are read as they lie")
    return _Parts(axes[-2], axes[-1], pairs, whole, single)


def _steps(task: Task, load: Load) -> tuple[int | None, int | None]:
    """Elements by which a load moves from number to number, and from part to part."""
    numbers, part = task.compute.axes[-2:]
    (steps,) = (buffer.steps for buffer in task.inputs if buffer.name == load.buffer)
    return step_of(load, numbers.var, steps), step_of(load, part.var, steps)


def _joined_all(task: Task, whole: Sequence[Load]) -> Mapping[str, _Pairs] | None:
    """The buffers of pairs; ``None`` where one has something between them."""
    buffers = {buffer.name: buffer for buffer in (*task.inputs, task.output)}
    point = tuple(Var(axis.var) for axis in task.compute.axes)
    found: dict[str, _Pairs] = {}
    for load in (*whole, Load(task.output.name, point, task.output.dtype)):
        made = _joined(buffers[load.buffer], load, task.compute.axes[-2].var)
        if made is None or found.setdefault(load.buffer, made) != made:
            return None
    return found


def _lanes(task: Task, numbers: Axis) -> int:
    """Lanes of vectors of which both halves of two hold different numbers."""
    lanes = lanes_of(task.target, task.compute.value)
    while lanes > numbers.extent:
        lanes //= 2
    return lanes


def _joined(buffer: Buffer, load: Load, numbers: str) -> _Pairs | None:
    """A buffer of pairs, numbers of which follow one another."""
    places = [place for place, part in enumerate(load.index) if numbers in free_vars(part)]
    if len(places) != 1 or places[0] + 2 > len(buffer.shape):
        return None
    (first,) = places
    if buffer.steps[first : first + 2] != (2, 1) or buffer.shape[first + 1] != 2:
        return None
    shape = (*buffer.shape[:first], 2 * buffer.shape[first], *buffer.shape[first + 2 :])
    steps = (*buffer.steps[:first], 1, *buffer.steps[first + 2 :])
    return _Pairs(replace(buffer, shape=shape, strides=steps), first)


def _generate(task: Task, parts: _Parts) -> Implementation:
    """The kernel."""
    *outer, numbers, part = task.compute.axes
    lanes = _lanes(task, numbers)
    count, rest = divmod(numbers.extent, lanes)
    body = _run(task, parts, lanes)
    loops: list[Stmt] = [for_range(_RUN, count, body, LoopKind.PARALLEL)]
    if rest:
        at = {numbers.var: plus(Var(numbers.var), count * lanes)}
        store = _stored(task, parts, at, _as_joined(parts, task.compute.value))
        loops.append(for_range(numbers.var, rest, nested([part], (store,))))
    found = nested(outer, tuple(loops), LoopKind.PARALLEL)
    buffers = tuple(
        parts.pairs[each.name].buffer if each.name in parts.pairs else each
        for each in (*task.inputs, task.output)
    )
    kernel = simplify_kernel(Kernel(task.name, buffers, found))
    return Implementation(kernel, tuple(map(Operand, task.values)), "complex")


def _as_joined(parts: _Parts, value: Expr) -> Expr:
    """The value with all loads of pairs from joined buffers."""

    def read(node: Expr) -> Expr:
        if not isinstance(node, Load) or node.buffer not in parts.pairs:
            return node
        pairs = parts.pairs[node.buffer]
        number, which = node.index[pairs.number : pairs.number + 2]
        return replace(node, index=pairs.at(node.index, number, which))

    return map_expr(value, read)


def _stored(task: Task, parts: _Parts, at: Mapping[str, Expr], value: Expr) -> Store:
    point = tuple(at.get(axis.var, Var(axis.var)) for axis in task.compute.axes)
    index = parts.pairs[task.output.name].at(point, point[-2], point[-1])
    return Store(task.output.name, index, substitute(value, dict(at)))


def _run(task: Task, parts: _Parts, lanes: int) -> tuple[Stmt, ...]:
    """Two vectors of the output: what is read is read whole before."""
    numbers, part = parts.numbers, parts.part
    first = times(Var(_RUN), lanes)
    lane = Var(LANE)
    body: list[Stmt] = []
    locals: list[Buffer] = []
    reads: dict[tuple[str, tuple[Expr, ...]], str] = {}
    held: dict[Load, tuple[str, int | None]] = {}
    for load in parts.whole:
        # The numbers as they lie, whichever of their parts is read.
        pairs = parts.pairs[load.buffer]
        number = substitute(load.index[pairs.number], {numbers.var: first})
        index = pairs.at(load.index, number, lane)
        name = reads.get((load.buffer, index))
        if name is None:
            name = reads[load.buffer, index] = f"pair{len(locals)}"
            locals.append(Buffer(name, load.dtype, (2, lanes), Access.LOCAL))
            for half in (0, 1):
                place = plus(index[pairs.number], half * lanes)
                moved = (*index[: pairs.number], place, *index[pairs.number + 1 :])
                read = Load(load.buffer, moved, load.dtype)
                body.append(vector(lanes, Store(name, (integer(half), lane), read)))
        held[load] = name, _steps(task, load)[1]
    for load in parts.single:
        name = f"single{len(locals)}"
        locals.append(Buffer(name, load.dtype, (lanes,), Access.LOCAL))
        read = substitute(load, {numbers.var: plus(first, lane)})
        body.append(vector(lanes, Store(name, (lane,), read)))
        held[load] = name, None
    for half in (0, 1):
        value = map_expr(task.compute.value, partial(_taken, parts, held, lanes, half))
        at = {part.var: Binary("mod", lane, integer(2))}
        point = [Var(axis.var) for axis in task.compute.axes]
        index = parts.pairs[task.output.name].at(point, first, plus(lane, half * lanes))
        body.append(vector(lanes, Store(task.output.name, index, substitute(value, at))))
    return with_locals(locals, tuple(body))


def _taken(
    parts: _Parts, held: Mapping[Load, tuple[str, int | None]], lanes: int, half: int, node: Expr
) -> Expr:
    """What the lanes of half a run take of what was read for it."""
    if not isinstance(node, Load) or node not in held:
        return node
    name, step = held[node]
    lane = Var(LANE)
    number = Binary("floordiv", lane, integer(2))
    if step is None:
        return Load(name, (plus(number, half * lanes // 2),), node.dtype)
    if step == 1:
        return Load(name, (integer(half), lane), node.dtype)
    pair = times(number, 2)
    if step == -1:
        other = Binary("sub", integer(1), Binary("mod", lane, integer(2)))
        return Load(name, (integer(half), Binary("add", pair, other)), node.dtype)
    which = node.index[parts.pairs[node.buffer].number + 1]
    return Load(name, (integer(half), Binary("add", pair, which)), node.dtype)


GENERATOR = Generator(
    "complex",
    "Maps of complex numbers, whose parts lie side by side: vectors of several numbers, whose "
    "lanes exchange places.",
    (
        "every element of the output by itself, without a reduction",
        "the output's last axis has two elements, which follow one another in memory",
        "what is read are pairs that lie likewise, one number for both, or the same for all",
        "the target has vectors, and the compiler moves their lanes",
    ),
    propose,
    any_threads=True,
)
