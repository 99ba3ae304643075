"""What each generator needs, in words, and why it refuses a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from weft.kernels import (
    attention_choice,
    maps,
    packed,
    rows,
    tensorized_choice,
    tiled_choice,
    winograd_choice,
)
from weft.kernels.task import Task


@dataclass(frozen=True, slots=True)
class Described:
    """A generator for people.

    Attributes:
        doc: what its kernels do.
        needs: what must hold of a task, in words.
        why_not: why it refuses a task; nothing if some of its alternatives apply.
    """

    doc: str
    needs: tuple[str, ...]
    why_not: Callable[[Task], str]


def _never(_: Task) -> str:
    return ""


DESCRIPTIONS: Mapping[str, Described] = MappingProxyType(
    {
        "winograd": Described(
            "Convolution with fewer multiplications: tiles of the image and the filters are "
            "transformed, multiplied point by point, and transformed back.",
            (
                "rounding more than the definition is allowed (not --exact)",
                "the target has caches",
                "f32 convolution by a square window of 3x3 or more with constant filters, its "
                "channels fastest in the output; by strides of 1 or 2, and at least two outputs "
                "for each transform",
                "borders only where the window leaves the image",
            ),
            winograd_choice.why_not,
        ),
        "attention": Described(
            "Scores, softmax and mixture of a few queries at a time, without the matrix of all "
            "scores in memory; keys whole or in chunks.",
            (
                "a sum of values weighted by the softmax of products, in f32, fused into one "
                "definition",
                "scores that can be computed row by row",
            ),
            attention_choice.why_not,
        ),
        "map": Described(
            "Vectors along the output's fastest axis; operands that lie across are turned in "
            "registers.",
            (
                "nothing is reduced",
                "the output's fastest axis is contiguous",
                "the target has vectors for all elements",
            ),
            maps.why_not,
        ),
        "packed": Described(
            "Products of a matrix and one vector, as fast as memory brings the weights: in 28 "
            "bits, nothing lost, and taken apart in registers.",
            (
                "a sum of products of one f32 vector and a constant f32 matrix",
                "weights that are finite and not all zero; at most one of a sum in 256 is "
                "smaller than 2^-15 of the largest of all, and none where exact kernels are "
                "asked for",
                "at least eight terms in a sum",
                "the target has caches, vectors, and multiplies and adds at once",
            ),
            packed.why_not,
        ),
        "tensorized": Described(
            "Convolutions and matrix products of bytes by an instruction of the target that "
            "multiplies pairs or quads and adds (SMLAD, VNNI), in register tiles.",
            (
                "one sum of products, in i32, of bytes and constant weights less their zero points",
                "weights that differ along one axis of the output, whose extent is a multiple of "
                "the instruction's lanes, and inputs that do not",
                "the target has an instruction for operands of these ranges",
            ),
            tensorized_choice.why_not,
        ),
        "tiled": Described(
            "Register tiles of positions and vectors of output channels, filters packed: "
            "convolutions, products of matrices, windows, sums.",
            (
                "at most one reduction, which holds no other and differs along each axis of "
                "the output",
                "conditions in the reduction are borders of a window, not along the output's "
                "fastest axis",
                "the output's fastest axis is contiguous; what the reduction reads is "
                "contiguous along it, the same for it, or a constant that can be packed",
            ),
            tiled_choice.why_not,
        ),
        "rows": Described(
            "Reductions along or across a contiguous axis and what is computed from them, such "
            "as softmax and norms; what one pass computes is held for the next.",
            (
                "all reductions run over a common row, which is not empty",
                "no condition guards what they read",
                "the row or the output's fastest axis is contiguous",
                "the target has vectors, or a pass keeps something for another",
            ),
            rows.why_not,
        ),
        "nest": Described(
            "Plain loops in the order of the definition, reductions outside of what does not "
            "depend on them.",
            ("nothing",),
            _never,
        ),
    }
)
"""By name, in the order of the generators."""
