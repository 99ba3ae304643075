"""Contractions of bfloat16 whose elements are pairs, which an instruction multiplies and adds.

Two neighbouring numbers along a reduction axis take as many bytes as one of ``f32``, and one
instruction adds both products.  So the loops are those of ``f32`` with half as many steps: a pair
is what positions broadcast, what weights hold for every lane, and what is fetched ahead.

Instructions on small matrices take fours in place of pairs, of two positions at once
(``weft.kernels.products.pair_cells``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from weft.dtypes import DType
from weft.kernels.contraction import Contraction
from weft.kernels.paired_factors import PairedFactors, depth_of
from weft.kernels.refusal import Refusal
from weft.kernels.task import Task
from weft.loops.affine import affine
from weft.loops.definition import Compute
from weft.loops.instruction import Instruction, instructions
from weft.loops.nodes import Axis, Buffer, Expr, Load, Reduce, Var
from weft.loops.walk import free_vars, map_expr, mapper, substitute
from weft.ops.expr import mul
from weft.targets.target import Target

_HELD, _SUM = DType.BF16, DType.F32
PAIR = 2
"""Numbers of a pair."""


def rows_of(target: Target, exact: bool) -> Sequence[Mapping[int, Instruction]]:
    """The instructions of a target that add products to sums, by lanes.

    Where results must be exact they round as definitions do.

    Those of a mapping take equally many neighbours and positions at once; the first take most.
    """
    found: dict[tuple[int, int], dict[int, Instruction]] = {}
    for row in instructions().values():
        if row.needs in target.features and _adds(row) and (row.nearest or not exact):
            sum, *images, weights = row.meaning.params
            form = weights.shape[-1], len(images)
            found.setdefault(form, {})[sum.shape[-1]] = row
    whole = [form for form, rows in found.items() if max(rows) == target.lanes(_SUM)]
    return [found[form] for form in sorted(whole, reverse=True)]


def _adds(row: Instruction) -> bool:
    """Whether a row adds products of bfloat16 to the sums of one position or of several."""
    sum, *factors = row.meaning.params
    if sum.dtype is not _SUM or {each.dtype for each in factors} != {_HELD} or len(factors) < 2:
        return False
    *images, weights = (each.shape for each in factors)
    ahead = (len(images),) * (len(images) > 1)
    depth = weights[-1]
    return (
        weights == (sum.shape[-1], depth)
        and sum.shape == (*ahead, weights[0])
        and (images == [(depth,)] * len(images))
    )


def paired(parts: Contraction) -> Contraction | Refusal:
    """The contraction by pairs, or why it cannot be; analyzed once."""
    return parts.fact(_paired)


def _paired(parts: Contraction) -> Contraction | Refusal:
    reduce, image = parts.reduce, parts.narrow_image
    why = refused(parts)
    if why is not None:
        return why
    assert reduce is not None
    assert image is not None
    for rows in rows_of(parts.task.target, parts.task.exact):
        depth = depth_of(rows)
        axis = next((each for each in reduce.axes if _pairs(parts, image, each, depth)), None)
        if axis is not None:
            return _by_pairs(parts, image, axis, rows)
    return Refusal("no even number of input channels lies side by side")


def refused(parts: Contraction) -> Refusal | None:
    """Why no instruction for pairs can compute a contraction, whatever lies side by side."""
    reduce, lanes, target = parts.reduce, parts.lanes, parts.task.target
    rows = rows_of(target, parts.task.exact)
    if not rows:
        known = rows_of(target, exact=False)
        which = "that rounds to nearest" if known else "for pairs of bf16"
        return Refusal(f"the target has no instruction {which}")
    if reduce is None or reduce.op != "sum" or lanes is None or parts.weight is None:
        return Refusal("it is no sum of products with constant weights, output channels fastest")
    if parts.narrow_image is None or _buffer(parts.task.inputs, parts.weight).dtype is not _HELD:
        return Refusal("what is multiplied is not bf16 on both sides")
    least = min(map(min, rows))
    if lanes.extent % least:
        return Refusal(f"the output channels are no multiple of {least}")
    return None


def _pairs(parts: Contraction, image: Load, axis: Axis, depth: int) -> bool:
    """Whether neighbours along an axis of the reduction lie side by side, so many by so many."""
    name, weight = axis.var, parts.weight_index()
    if axis.extent % depth or any(guard.tap == name for guard in parts.guards):
        return False
    if [part for part in weight if name in free_vars(part)] != [Var(name)]:
        return False
    return _dimension(parts.task.inputs, image, name) is not None


def _dimension(inputs: Sequence[Buffer], load: Load, name: str) -> int | None:
    """The one dimension that a variable walks element by element, if no other depends on it."""
    buffer = _buffer(inputs, load.buffer)
    moving = [place for place, part in enumerate(load.index) if name in free_vars(part)]
    if len(moving) != 1 or buffer.steps[moving[0]] != 1:
        return None
    form = affine(load.index[moving[0]])
    plain = [atom for atom in form.terms if name in free_vars(atom)] == [Var(name)]
    return moving[0] if plain and form.terms[Var(name)] == 1 else None


def _buffer(inputs: Sequence[Buffer], name: str) -> Buffer:
    return next(each for each in inputs if each.name == name)


def _by_pairs(
    parts: Contraction, image: Load, axis: Axis, rows: Mapping[int, Instruction]
) -> Contraction:
    """The same loops with fewer steps along an axis, which the image has innermost."""
    depth = depth_of(rows)
    last = _dimension(parts.task.inputs, image, axis.var)
    order = sorted(range(len(image.index)), key=lambda place: place == last)
    parts, old = _turned(parts, image.buffer, order), _reordered(image, order)
    reduce, compute = parts.reduce, parts.task.compute
    assert reduce is not None
    assert parts.value is not None
    moved = substitute(old, {axis.var: mul(Var(axis.var), depth)})
    assert isinstance(moved, Load)
    value = map_expr(parts.value, lambda node: moved if node == old else node)
    axes = tuple(
        replace(each, extent=each.extent // depth) if each.var == axis.var else each
        for each in reduce.axes
    )
    half = Reduce(reduce.op, axes, value)
    whole = map_expr(compute.value, lambda node: half if node == reduce else node)
    return replace(
        parts,
        task=replace(parts.task, compute=Compute(compute.axes, whole)),
        reduce=half,
        value=value,
        pairs=PairedFactors(axis.var, moved, rows),
    )


def _reordered(load: Load, order: Sequence[int]) -> Load:
    return replace(load, index=tuple(load.index[place] for place in order))


def _turned(parts: Contraction, name: str, order: Sequence[int]) -> Contraction:
    """The contraction with the dimensions of an input in another order; memory is as it was."""
    reduce, (task, turn) = parts.reduce, turned(parts.task, {name: order})
    assert reduce is not None
    assert parts.value is not None
    made = turn(reduce)
    assert isinstance(made, Reduce)
    return replace(parts, task=task, reduce=made, value=turn(parts.value))


def turned(task: Task, orders: Mapping[str, Sequence[int]]) -> tuple[Task, Callable[[Expr], Expr]]:
    """A task with the dimensions of some inputs in another order, and what does it to values."""

    def load(node: Expr) -> Expr:
        if isinstance(node, Load) and node.buffer in orders:
            return _reordered(node, orders[node.buffer])
        return node

    def buffer(each: Buffer) -> Buffer:
        if each.name not in orders:
            return each
        order = orders[each.name]
        shape, steps = (tuple(old[place] for place in order) for old in (each.shape, each.steps))
        return replace(each, shape=shape, strides=steps)

    turn = mapper(load)
    compute = Compute(task.compute.axes, turn(task.compute.value))
    return replace(task, compute=compute, inputs=tuple(map(buffer, task.inputs))), turn


def neighbours_last(task: Task) -> Task:
    """The task with each input's dimension of elements that lie side by side as the last one."""
    orders: dict[str, list[int]] = {}
    for each in task.inputs:
        moves = [size > 1 and step == 1 for size, step in zip(each.shape, each.steps, strict=True)]
        if any(moves[:-1]):
            orders[each.name] = sorted(range(len(moves)), key=moves.__getitem__)
    return turned(task, orders)[0] if orders else task
