"""The same elements in another order, or repeated: transpose, expand, tile, depth to space."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.ir.graph import Attributes
from weft.ir.types import Dim, Symbol, TensorType
from weft.loops.definition import Compute
from weft.loops.nodes import Expr
from weft.ops.expr import binary, broadcast, index
from weft.ops.record import Builder, Call, Define, Expand, Op
from weft.ops.shape import ReshapeAttributes
from weft.ops.support import at_rank, each_point, known, leading, not_concrete
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class TransposeAttributes(Attributes):
    """``perm``: the input's axis at each place; ``None`` reverses."""

    perm: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExpandAttributes(Attributes):
    """``shape`` that the input is broadcast with (both ways)."""

    shape: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TileAttributes(Attributes):
    """``repeats`` along each axis."""

    repeats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockAttributes(Attributes):
    """``blocksize``, and whether the channels are block first (``DCR``) or last (``CRD``)."""

    blocksize: int
    mode: str = "DCR"


# --- transpose ----------------------------------------------------------------------------


def permutation(call: Call) -> tuple[int, ...]:
    """``perm`` of a Transpose, checked, the default filled in."""
    rank = len(call.type(0).shape)
    perm = call.attributes.perm
    if perm is None:
        return tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise call.error(
            f"perm must be a permutation of 0..{rank - 1}", got=f"{call.type(0)}, perm {list(perm)}"
        )
    return tuple(perm)


def _infer_transpose(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    dims = [source.shape[axis] for axis in permutation(call)]
    return (TensorType(source.dtype, leading(call, dims)),)


def _define_transpose(call: Call) -> tuple[Compute, ...]:
    perm = permutation(call)

    def value(point: tuple[Expr, ...]) -> Expr:
        return call.load(0, *(point[perm.index(axis)] for axis in range(len(perm))))

    return each_point(_infer_transpose(call)[0].dims, value)


def _reference_transpose(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.transpose(x, permutation(call)),)


# --- repetition ---------------------------------------------------------------------------


def _broadcast_dim(call: Call, dim: Dim, wish: Dim) -> Dim:
    if wish == 1 or dim == wish:
        return dim
    if isinstance(dim, Symbol):
        raise not_concrete(call)
    if dim != 1 or (isinstance(wish, int) and wish < 0):
        raise call.error(
            "a dimension can be expanded only from 1, to 0 or more",
            got=f"{call.type(0)} to {list(call.attributes.shape)}",
        )
    return wish


def _infer_expand(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    wish = call.attributes.shape
    rank = max(len(wish), len(source.shape))
    have = (1,) * (rank - len(source.shape)) + source.shape
    want = (1,) * (rank - len(wish)) + tuple(wish)
    dims = [_broadcast_dim(call, *pair) for pair in zip(have, want, strict=True)]
    return (TensorType(source.dtype, leading(call, dims)),)


def _define_expand(call: Call) -> tuple[Compute, ...]:
    source, target = call.type(0).dims, _infer_expand(call)[0].dims
    return each_point(target, lambda point: call.load(0, *broadcast(source, target, point)))


def _reference_expand(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    if any(isinstance(dim, Symbol) for dim in call.attributes.shape):
        raise not_concrete(call)
    return (np.broadcast_to(x, np.broadcast_shapes(x.shape, call.attributes.shape)),)


def _infer_tile(call: Call) -> tuple[TensorType, ...]:
    source = call.type(0)
    repeats = call.attributes.repeats
    if len(repeats) != len(source.shape) or min(repeats, default=0) < 0:
        raise call.error(
            "repeats must name a count of 0 or more for each axis",
            got=f"{source}, repeats {list(repeats)}",
        )
    dims = [
        dim if count == 1 else known(call, dim) * count
        for dim, count in zip(source.shape, repeats, strict=True)
    ]
    return (TensorType(source.dtype, tuple(dims)),)


def _define_tile(call: Call) -> tuple[Compute, ...]:
    source = call.type(0).dims

    def value(point: tuple[Expr, ...]) -> Expr:
        where = [
            index(0) if extent == 1 else at if count == 1 else binary("mod", at, extent)
            for at, extent, count in zip(point, source, call.attributes.repeats, strict=True)
        ]
        return call.load(0, *where)

    return each_point(_infer_tile(call)[0].dims, value)


def _reference_tile(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.tile(x, call.attributes.repeats),)


# --- depth and space -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A DepthToSpace or SpaceToDepth, seen as reshape, transpose, reshape."""

    split: tuple[int, ...]
    perm: tuple[int, ...]
    merged: tuple[int, ...]


def _checked_mode(call: Call) -> tuple[int, bool]:
    """The block size, and whether the mode is DCR."""
    size, mode = call.attributes.blocksize, call.attributes.mode
    if size < 1 or mode not in ("DCR", "CRD"):
        raise call.error(
            "blocksize must be at least 1 and mode DCR or CRD", got=f"{size} and {mode!r}"
        )
    return size, mode == "DCR"


def _depth_to_space(call: Call) -> _Blocks:
    size, depth_first = _checked_mode(call)
    channels, height, width = (known(call, dim) for dim in at_rank(call, 0, 4).shape[1:])
    if channels % (size * size):
        raise call.error(f"the channels must be a multiple of blocksize² = {size * size}")
    rest = channels // (size * size)
    split = (size, size, rest) if depth_first else (rest, size, size)
    return _Blocks(
        (0, *split, height, width),
        (0, 3, 4, 1, 5, 2) if depth_first else (0, 1, 4, 2, 5, 3),
        (0, rest, height * size, width * size),
    )


def _space_to_depth(call: Call) -> _Blocks:
    size, depth_first = _checked_mode(call)
    channels, height, width = (known(call, dim) for dim in at_rank(call, 0, 4).shape[1:])
    if height % size or width % size:
        raise call.error(f"height and width must be multiples of blocksize = {size}")
    return _Blocks(
        (0, channels, height // size, size, width // size, size),
        (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4),
        (0, channels * size * size, height // size, width // size),
    )


def _block_op(name: str, blocks: Callable[[Call], _Blocks], doc: str) -> Op:
    def infer(call: Call) -> tuple[TensorType, ...]:
        source = call.type(0)
        return (TensorType(source.dtype, (source.shape[0], *blocks(call).merged[1:])),)

    def reference(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
        steps = blocks(call)
        parted = x.reshape(len(x), *steps.split[1:]).transpose(steps.perm)
        return (parted.reshape(len(x), *steps.merged[1:]),)

    def expand(call: Call, build: Builder, inputs: tuple[str, ...]) -> tuple[str, ...]:
        steps = blocks(call)
        parted = build.op("Reshape", inputs[0], attributes=ReshapeAttributes(steps.split))
        moved = build.op("Transpose", parted, attributes=TransposeAttributes(steps.perm))
        return (build.op("Reshape", moved, attributes=ReshapeAttributes(steps.merged)),)

    return Op(
        name=name,
        infer=infer,
        reference=reference,
        compute=Expand(expand),
        attributes=BlockAttributes,
        doc=doc,
    )


OPS: tuple[Op, ...] = (
    Op(
        name="Transpose",
        infer=_infer_transpose,
        reference=_reference_transpose,
        compute=Define(_define_transpose),
        attributes=TransposeAttributes,
        implied={"perm": permutation},
        doc="The axes in another order.",
    ),
    Op(
        name="Expand",
        infer=_infer_expand,
        reference=_reference_expand,
        compute=Define(_define_expand),
        attributes=ExpandAttributes,
        doc="Repeats dimensions of 1 up to a shape.",
    ),
    Op(
        name="Tile",
        infer=_infer_tile,
        reference=_reference_tile,
        compute=Define(_define_tile),
        attributes=TileAttributes,
        doc="The input repeated along its axes.",
    ),
    _block_op("DepthToSpace", _depth_to_space, "Moves blocks of channels into height and width."),
    _block_op("SpaceToDepth", _space_to_depth, "Moves blocks of height and width into channels."),
)
