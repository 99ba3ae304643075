# pyright: basic
"""Layers of several inputs."""

from __future__ import annotations

from collections.abc import Sequence

from weft.dtypes import DType
from weft.frontends.keras.record import Config, Emit, Tensor, layer


def aligned(g: Emit, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Tensors with axes of length 1 after the batch where others have more axes, as Keras does."""
    if not isinstance(inputs, list | tuple) or not all(isinstance(x, Tensor) for x in inputs):
        g.refuse("it must be called with a list of tensors")
    rank = max(x.rank for x in inputs)
    return [g.reshape(x, (x.shape[0], *(1,) * (rank - x.rank), *x.shape[1:])) for x in inputs]


def merged_mask(g: Emit, given: Sequence[Tensor], op: str) -> Tensor | None:
    """The masks of inputs merged; nothing if one has none."""
    masks = [g.mask(each) for each in given]
    known = [each for each in masks if each is not None]
    if not known or len(known) < len(masks):
        return None
    made = known[0]
    for each in known[1:]:
        made = made if each == made else g(op, made, each)
    return made


def _merged(op: str, *, average: bool = False) -> None:
    def row(g: Emit, c: Config, inputs: Sequence[Tensor]) -> Tensor:
        given = aligned(g, inputs)
        if op in ("Sub",) and len(given) != 2:
            g.refuse(f"it must have 2 inputs, but has {len(given)}")
        if g.major >= 3 and op in ("Mul", "Max", "Min") and any(map(g.mask, given)):
            return _merged_with_masks(g, given, op)
        made = given[0]
        for each in given[1:]:
            made = g(op, made, each)
        if average:
            made = made if made.dtype.is_float else g.cast(made, g.compute)
            made = g.mul(made, 1 / len(given))
        mask = merged_mask(g, inputs, "Or")
        if mask is not None:
            g.masks[made.name] = mask
        return made

    layer(
        {"Sub": "Subtract", "Mul": "Multiply", "Max": "Maximum", "Min": "Minimum"}.get(
            op, "Average" if average else op
        )
    )(row)


def _merged_with_masks(g: Emit, given: Sequence[Tensor], op: str) -> Tensor:
    """As of Keras 3: steps that an input masks are those of the others."""
    masks = [g.mask(each) for each in given]
    kept = [None if each is None else g("Unsqueeze", each, axes=(each.rank,)) for each in masks]
    if any(each is not None and each.rank != x.rank for each, x in zip(kept, given, strict=True)):
        g.refuse("a mask that has not all axes but the last is not supported")
    made, seen = given[0], kept[0]
    if op == "Mul" and seen is not None:
        made = g.where(seen, made, 1.0)
    for x, mask in zip(given[1:], kept[1:], strict=True):
        if mask is not None:
            x = g.where(mask, x, 1.0 if op == "Mul" else made)
        if op != "Mul" and seen is not None:
            made = g.where(seen, made, x)
        seen = g("Or", seen, mask) if seen is not None and mask is not None else None
        made = g(op, made, x)
    if seen is not None:
        made = g.where(seen, made, 0.0) if op == "Mul" else made
        g.masks[made.name] = g.reshape(seen, seen.shape[:-1])
    return made


for _op in ("Add", "Sub", "Mul", "Max", "Min"):
    _merged(_op)
_merged("Add", average=True)


@layer("Concatenate")
def concatenate(g: Emit, c: Config, inputs: Sequence[Tensor]) -> Tensor:
    if not isinstance(inputs, list | tuple) or not inputs:
        g.refuse("it must be called with a list of tensors")
    if any(g.mask(each) is not None for each in inputs):
        return _concatenate_masked(g, c, inputs)
    return g.concat(list(inputs), g.axis(inputs[0], c.size("axis", -1, least=-8)))


def _concatenate_masked(g: Emit, c: Config, inputs: Sequence[Tensor]) -> Tensor:
    """Where masks are missing everything counts; over other axes than the steps, what all keep."""
    axis = g.axis(inputs[0], c.size("axis", -1, least=-8))
    made = g.concat(list(inputs), axis)
    masks = [
        g.mask(each) or g("ConstantOfShape", shape=each.shape[:2], value=True, dtype=DType.BOOL)
        for each in inputs
    ]
    if axis == 1:
        g.masks[made.name] = g.concat(masks, 1)
        return made
    all_ = masks[0]
    for each in masks[1:]:
        all_ = g("And", all_, each)
    g.masks[made.name] = all_
    return made


@layer("Dot")
def dot(g: Emit, c: Config, inputs: Sequence[Tensor]) -> Tensor:
    if not isinstance(inputs, list | tuple) or len(inputs) != 2:
        g.refuse("it must be called with 2 tensors")
    left, right = inputs
    axes = c.numbers("axes")
    over = [g.axis(x, axes[min(place, len(axes) - 1)]) for place, x in enumerate((left, right))]
    if 0 in over:
        g.refuse("it cannot contract the batch")
    if c.flag("normalize"):
        left, right = (
            unit(g, x, [axis], 1e-7) for x, axis in zip((left, right), over, strict=True)
        )
    if left.rank == right.rank == 2:
        return g("ReduceSum", g.mul(left, right), axes=(1,), keepdims=1)
    letters = "bcdefghijk"
    first = letters[: left.rank]
    second = "b" + "klmnopqrst"[: right.rank - 1]
    second = second[: over[1]] + first[over[0]] + second[over[1] + 1 :]
    kept = "".join(
        each
        for part, axis in ((first, over[0]), (second[1:], over[1] - 1))
        for place, each in enumerate(part)
        if place != axis
    )
    return g("Einsum", left, right, equation=f"{first},{second}->{kept}")


def unit(g: Emit, x: Tensor, axes: Sequence[int], least: float) -> Tensor:
    """A tensor of length 1 along axes, divided by a number at least; by 1e-6 in Keras 2."""
    square = g("ReduceSum", g.mul(x, x), axes=tuple(axes), keepdims=1)
    return g("Div", x, g.pair("Max", g("Sqrt", square), least if g.major >= 3 else 1e-6))
