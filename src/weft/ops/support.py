"""Checks and small parts that the families of data movement share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import add, axes, binary, cast, clamp, const, select, variables
from weft.ops.record import Call


def axis_of(call: Call, axis: int, rank: int) -> int:
    """A possibly negative axis, counted from the front."""
    if not -rank <= axis < rank:
        raise call.error(f"axis must be within [{-rank}, {rank - 1}]", got=str(axis))
    return axis % rank


def axes_of(call: Call, chosen: Sequence[int], rank: int) -> tuple[int, ...]:
    """Possibly negative axes, counted from the front; each at most once."""
    found = tuple(axis_of(call, axis, rank) for axis in chosen)
    if len(set(found)) != len(found):
        raise call.error("an axis may be named only once", got=str(list(chosen)))
    return found


def not_concrete(call: Call) -> UserError:
    """The error for an op that cannot work on a batch of unknown size."""
    return call.error(
        "the batch must be concrete here",
        fix="Set the shape of the input with `--input name=shape`",
    )


def concrete(call: Call, position: int) -> tuple[int, ...]:
    """The dimensions of an input that must be static."""
    found = call.type(position)
    if not found.is_static:
        raise not_concrete(call)
    return found.dims


def leading(call: Call, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """``shape``, in which a symbol may stand only in front."""
    if any(isinstance(dim, Symbol) for dim in shape[1:]):
        raise not_concrete(call)
    return tuple(shape)


def known(call: Call, dim: Dim) -> int:
    """A dimension that must be static."""
    if isinstance(dim, Symbol):
        raise not_concrete(call)
    return dim


def at_rank(call: Call, position: int, rank: int) -> TensorType:
    """The type of an input that must have this rank."""
    found = call.type(position)
    if len(found.shape) != rank:
        raise call.error(f"input {position} must have rank {rank}", got=str(found))
    return found


def integer(call: Call, position: int) -> TensorType:
    """The type of an input that must hold signed indices."""
    found = call.type(position)
    if found.dtype not in (DType.I32, DType.I64):
        raise call.error(f"input {position} must be i32 or i64", got=str(found))
    return found


def each_point(
    shape: Sequence[int], value: Callable[[tuple[Expr, ...]], Expr]
) -> tuple[Compute, ...]:
    """The definition of one output: ``value`` of every point of ``shape``."""
    ranges = axes(shape)
    return (Compute(ranges, value(variables(ranges))),)


def wrapped(position: Expr, extent: int) -> Expr:
    """A data-dependent index: negative ones count from the end, all are held inside."""
    found = cast(DType.I64, position)
    counted = select(binary("lt", found, 0), add(found, extent), found)
    return clamp(counted, 0, extent - 1)


LARGEST_TABLE = 1 << 24
"""Constants that an op makes for itself have at most so many elements."""


def check_table(call: Call, elements: int) -> None:
    """Refuse a table that would be far larger than what it is for."""
    if elements > LARGEST_TABLE:
        raise call.error(
            f"takes a table of at most {LARGEST_TABLE} elements", got=f"{elements} elements"
        )


def zero(dtype: DType) -> Expr:
    """The zero of a type."""
    return const(0, dtype)
