"""Weights of layers: arrays that are given, or ones that are drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.buffers import ArrayLike, as_array
from weft.ir.naming import type_of
from weft.ir.types import Symbol, TensorType
from weft.ops.values import Initial, Value, constant, weight

Array: TypeAlias = ArrayLike
Sizes: TypeAlias = int | tuple[int, ...]


def parameter(
    word: str,
    what: str,
    type: TensorType,
    given: Array | None,
    initial: Initial,
    fans: tuple[int, int] = (1, 1),
) -> Value:
    """A weight.

    Args:
        word: the layer, for errors.
        what: the weight, for errors.
        type: that it must have.
        given: its elements; drawn from the net's seed if not given.
        initial: how it is drawn.
        fans: numbers into one output, outputs of one input.
    """
    if given is None:
        return weight(type, initial, fans, role=what)
    given = as_array(given, f"{word}: {what}")
    found = type_of(given, what)
    if found != type:
        raise UserError(f"{word}: {what} must be {type}", got=str(found))
    return constant(given, role=what)


def bias(
    word: str, given: bool | Array, like: TensorType, count: int, what: str = "bias"
) -> Value | None:
    """A bias of zeros (``True``), none (``False``) or the one that is given."""
    if given is False:
        return None
    array = None if given is True else given
    return parameter(word, what, TensorType(like.dtype, (count,)), array, "zeros")


def float_type(word: str, value: Value) -> DType:
    """The element type of a layer's input, which has to be a floating-point one."""
    if not isinstance(value, Value):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"{word}: the input must be a symbolic value",
            got=type(value).__name__,
            fix="weft.trace(layer, type) returns a network; its compile() runs on arrays.",
        )
    if not value.type.dtype.is_float:
        raise UserError(f"{word}: the input must hold floats", got=str(value.type))
    return value.type.dtype


def size_at(word: str, value: Value, axis: int) -> int:
    """A size of the input that decides the weights."""
    shape = value.type.shape
    if not -len(shape) <= axis < len(shape):
        raise UserError(f"{word}: the input has no axis {axis}", got=str(value.type))
    size = shape[axis]
    if isinstance(size, Symbol):
        raise UserError(f"{word}: the size of axis {axis} must be known", got=str(value.type))
    return size


def spatial(word: str, what: str, sizes: Sizes, value: Value) -> tuple[int, ...]:
    """One number for each spatial axis of the input, from one for all or one for each."""
    count = len(value.type.shape) - 2
    if count < 1:
        raise UserError(f"{word}: the input must be [batch, channels, ...]", got=str(value.type))
    found = tuple(sizes) if isinstance(sizes, Iterable) else (int(sizes),) * count
    if len(found) != count:
        raise UserError(
            f"{word}: {what} must have one entry for each of the {count} spatial axes",
            got=str(list(found)),
        )
    return found
