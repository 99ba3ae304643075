"""Ops whose number of results depends on the data: non-max suppression, non-zero, unique.

A net has static shapes: how many results there is room for must be said (``count``).
Results beyond it are dropped; where there are fewer, -1 stands in all indices.  On data
that are known, ``count`` may be left out and ``reference`` gives as many as there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from weft.dtypes import DType
from weft.errors import UserError
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.build import GraphBuilder
from weft.ops.cast import CastAttributes
from weft.ops.ctext import C_TYPES, block, count, strides
from weft.ops.indexing import GatherAttributes
from weft.ops.record import Call, Expand, Extern, ExternBody, NoGrad, Op, Param
from weft.ops.shape import ReshapeAttributes
from weft.ops.slicing import SplitAttributes
from weft.ops.support import at_rank, axis_of, concrete, known

PLACES = NoGrad("places are integers")


@dataclass(frozen=True, slots=True)
class NonMaxSuppressionAttributes(Attributes):
    """As ONNX has them (no ``score_threshold``: any score will do); room for ``count`` boxes."""

    max_output_boxes_per_class: int = 0
    iou_threshold: float = 0.0
    score_threshold: float | None = None
    center_point_box: int = 0
    count: int | None = None


@dataclass(frozen=True, slots=True)
class NonZeroAttributes(Attributes):
    """Room for ``count`` elements."""

    count: int | None = None


@dataclass(frozen=True, slots=True)
class UniqueAttributes(Attributes):
    """Along ``axis`` or of all elements, ``sorted`` or as met; room for ``count`` of them."""

    axis: int | None = None
    sorted: int = 1
    count: int | None = None


def _room(call: Call) -> int:
    found = call.attributes.count
    if found is None:
        raise _unknown(call)
    if found < 0:
        raise call.error("count must be 0 or more", got=str(found))
    return found


def _unknown(call: Call) -> UserError:
    return call.error(
        "how many results there are depends on the data",
        fix="Give the room for them with the attribute count, or make the inputs constant",
    )


def _filled(found: np.ndarray, room: int | None, value: int = -1) -> np.ndarray:
    """The first results along axis 0, ``value`` where there are fewer than there is room."""
    if room is None:
        return found
    y = np.full((room, *found.shape[1:]), value, found.dtype)
    y[: len(found)] = found[:room]
    return y


# --- non-max suppression --------------------------------------------------------------------


def _infer_suppression(call: Call) -> tuple[TensorType, ...]:
    boxes, scores = at_rank(call, 0, 3), at_rank(call, 1, 3)
    if boxes.dtype is not DType.F32 or scores.dtype is not DType.F32:
        raise call.error("boxes and scores must be f32")
    if (
        boxes.shape[2] != 4
        or scores.shape[0] != boxes.shape[0]
        or (scores.shape[2] != boxes.shape[1])
    ):
        raise call.error("boxes must be [batch,boxes,4] and scores [batch,classes,boxes]")
    return (TensorType(DType.I64, (_room(call), 3)),)


# Corners of box {box} from its row {row}: the smaller coordinates first.
_CORNERS = """\
a0 = in0[{row}];
a1 = in0[{row} + 1];
a2 = in0[{row} + 2];
a3 = in0[{row} + 3];
top{box} = a0 < a2 ? a0 : a2;
end{box} = a0 < a2 ? a2 : a0;
left{box} = a1 < a3 ? a1 : a3;
right{box} = a1 < a3 ? a3 : a1;
"""

_CENTRED = """\
left{box} = in0[{row}] - in0[{row} + 2] / 2.0f;
right{box} = in0[{row}] + in0[{row} + 2] / 2.0f;
top{box} = in0[{row} + 1] - in0[{row} + 3] / 2.0f;
end{box} = in0[{row} + 1] + in0[{row} + 3] / 2.0f;
"""

_SELECT = """\
for (j = 0; j < {boxes}; ++j)
    gone[j] = (unsigned char)!({eligible});
for (taken = 0; taken < {most} && row < {room}; ++taken) {{
    best = -1;
    for (j = 0; j < {boxes}; ++j) {{
        if (!gone[j] && (best < 0 || in1[score + j] > in1[score + best]))
            best = j;
    }}
    if (best < 0)
        break;
    gone[best] = 1;
    out0[row * 3] = n;
    out0[row * 3 + 1] = c;
    out0[row * 3 + 2] = best;
    ++row;
{first}    for (j = 0; j < {boxes}; ++j) {{
        if (gone[j])
            continue;
{second}        high = endp < endq ? endp : endq;
        low = topp > topq ? topp : topq;
        wide = rightp < rightq ? rightp : rightq;
        near = leftp > leftq ? leftp : leftq;
        if (high <= low || wide <= near)
            continue;
        common = (wide - near) * (high - low);
        one = (rightp - leftp) * (endp - topp);
        two = (rightq - leftq) * (endq - topq);
        if (common > 0.0f && one > 0.0f && two > 0.0f && common / (one + two - common) > {limit})
            gone[j] = 1;
    }}
}}
"""


def _literal(value: float) -> str:
    return f"(float){float(np.float32(value))!r}"


def _suppression_body(call: Call) -> ExternBody:
    asked: NonMaxSuppressionAttributes = call.attributes
    batch, boxes = concrete(call, 0)[:2]
    classes, room = concrete(call, 1)[1], _room(call)
    corners = _CENTRED if asked.center_point_box else _CORNERS
    threshold = asked.score_threshold
    body = _SELECT.format(
        boxes=boxes,
        room=room,
        most=min(boxes, max(0, asked.max_output_boxes_per_class)),
        eligible="1" if threshold is None else f"in1[score + j] > {_literal(threshold)}",
        limit=_literal(asked.iou_threshold),
        first=block(corners.format(box="p", row="base + best * 4")),
        second=block(block(corners.format(box="q", row="base + j * 4"))),
    )
    image = f"base = n * {boxes * 4};\n" + count(
        "c", classes, f"score = (n * {classes} + c) * {boxes};\n" + body
    )
    corner_names = "" if asked.center_point_box else "float a0, a1, a2, a3;\n"
    return ExternBody(
        "unsigned char *gone = scratch;\n"
        "long n, c, j, taken, best, base, score, row = 0;\n"
        f"{corner_names}float topp, endp, leftp, rightp, topq, endq, leftq, rightq;\n"
        "float high, low, wide, near, common, one, two;\n"
        + count("n", batch, image)
        + f"for (j = row * 3; j < {room * 3}; ++j)\n    out0[j] = -1;\n",
        max(1, boxes),
    )


def _overlap(boxes: np.ndarray, best: int, centred: bool) -> np.ndarray:
    """Intersection over union of every box with one of them."""
    if centred:
        half = boxes[:, 2:] / 2
        low, high = boxes[:, :2] - half, boxes[:, :2] + half
    else:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    sides = np.maximum(0, np.minimum(high, high[best]) - np.maximum(low, low[best]))
    area = (high - low).prod(1)
    common = sides.prod(1)
    union = area + area[best] - common
    counted = (common > 0) & (area > 0) & (area[best] > 0)
    return np.where(counted, common / np.where(counted, union, 1), 0)


def _reference_suppression(
    call: Call, boxes: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, ...]:
    asked: NonMaxSuppressionAttributes = call.attributes
    found: list[tuple[int, int, int]] = []
    limit = np.float32(asked.iou_threshold)
    for image, category in np.ndindex(*scores.shape[:2]):
        row = scores[image, category]
        left = np.ones(len(row), np.bool_)
        if asked.score_threshold is not None:
            left = row > np.float32(asked.score_threshold)
        taken = 0
        while left.any() and taken < asked.max_output_boxes_per_class:
            best = int(np.flatnonzero(left)[np.argmax(row[left])])
            found.append((image, category, best))
            left[best] = False
            left &= ~(_overlap(boxes[image], best, bool(asked.center_point_box)) > limit)
            taken += 1
    return (_filled(np.array(found, np.int64).reshape(-1, 3), asked.count),)


# --- non-zero -----------------------------------------------------------------------------


def _infer_non_zero(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype not in C_TYPES:
        raise call.error("the input must be f32, f64, integers or bool", fix="Cast it to f32")
    return (TensorType(DType.I64, (len(concrete(call, 0)), _room(call))),)


def _non_zero_body(call: Call) -> ExternBody:
    dims, room = concrete(call, 0), _room(call)
    digits = "".join(
        f"out0[{axis * room} + at] = j / {step} % {extent};\n"
        for axis, (step, extent) in enumerate(zip(strides(dims), dims, strict=True))
    )
    found = f"if (in0[j] != 0 && at < {room}) {{\n{block(digits)}    ++at;\n}}\n"
    rest = "".join(f"out0[{axis * room} + at] = -1;\n" for axis in range(len(dims)))
    return ExternBody(
        "long j, at = 0;\n"
        + count("j", prod(dims), found)
        + f"for (; at < {room}; ++at) {{\n{block(rest)}}}\n"
    )


def _reference_non_zero(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    found = np.stack(np.nonzero(np.atleast_1d(x)), 1).astype(np.int64)[:, : x.ndim]
    return (_filled(found, call.attributes.count).T,)


# --- unique -------------------------------------------------------------------------------


def _rows(call: Call) -> tuple[int, int, int]:
    """What is compared: how many rows there are, how many parts before and after the axis."""
    dims, axis = concrete(call, 0), call.attributes.axis
    if axis is None:
        return prod(dims), 1, 1
    axis = axis_of(call, axis, len(dims))
    return dims[axis], prod(dims[:axis]), prod(dims[axis + 1 :])


def _infer_unique(call: Call) -> tuple[TensorType, ...]:
    source, room = call.type(0), _room(call)
    dims = concrete(call, 0)
    if prod(dims) == 0:
        raise call.error("the input must have elements")
    shape: tuple[int, ...] = (room,)
    if call.attributes.axis is not None:
        axis = axis_of(call, call.attributes.axis, len(dims))
        shape = (*dims[:axis], room, *dims[axis + 1 :])
    rows = _rows(call)[0]
    return (
        TensorType(source.dtype, shape),
        TensorType(DType.I64, (room,)),
        TensorType(DType.I64, (rows,)),
        TensorType(DType.I64, (room,)),
    )


def _infer_groups(call: Call) -> tuple[TensorType, ...]:
    if call.type(0).dtype not in C_TYPES:
        raise call.error("the input must be f32, f64, integers or bool", fix="Cast it to f32")
    indices = _infer_unique(call)[1]
    return (TensorType(DType.I64, (2 * known(call, indices.shape[0]) + _rows(call)[0],)),)


# Sets `order` to the sign of row j minus row first[k].
_COMPARE = """\
order = 0;
for (o = 0; o < {outer} && order == 0; ++o) {{
    for (i = 0; i < {inner} && order == 0; ++i) {{
        p = (o * {rows} + j) * {inner} + i;
        q = (o * {rows} + first[k]) * {inner} + i;
        order = (in0[p] > in0[q]) - (in0[p] < in0[q]);
    }}
}}
"""

_GROUP = """\
for (j = 0; j < {rows}; ++j) {{
    place = found;
    for (k = 0; k < found; ++k) {{
{compare}        if (order == 0)
            break;
{before}    }}
    if (k < found) {{
        ++times[k];
        member[j] = first[k];
        continue;
    }}
    for (k = found; k > place; --k) {{
        first[k] = first[k - 1];
        times[k] = times[k - 1];
    }}
    first[place] = j;
    times[place] = 1;
    member[j] = j;
    ++found;
}}
for (k = 0; k < {room}; ++k) {{
    out0[k] = k < found ? first[k] : -1;
    out0[{room} + {rows} + k] = k < found ? times[k] : -1;
}}
for (j = 0; j < {rows}; ++j) {{
    for (k = 0; first[k] != member[j]; ++k)
        continue;
    out0[{room} + j] = k;
}}
"""
"""The distinct rows so far, in order, each with its first place and how often it was met."""


def _groups_body(call: Call) -> ExternBody:
    rows, outer, inner = _rows(call)
    compare = _COMPARE.format(rows=rows, outer=outer, inner=inner)
    before = "if (order < 0 && place == found)\n    place = k;\n" if call.attributes.sorted else ""
    return ExternBody(
        f"int32_t *first = (int32_t *)(void *)scratch;\nint32_t *times = first + {rows};\n"
        f"int32_t *member = times + {rows};\nint32_t j, k, place, found = 0;\n"
        "int order;\nlong o, i, p, q;\n"
        + _GROUP.format(
            rows=rows, room=_room(call), compare=block(block(compare)), before=block(block(before))
        ),
        12 * rows,
    )


def _expand_unique(call: Call, build: GraphBuilder, inputs: tuple[str, ...]) -> tuple[str, ...]:
    rows, room, x = _rows(call)[0], _room(call), inputs[0]
    axis: int | None = call.attributes.axis
    compared = x
    if call.type(0).dtype not in C_TYPES:
        compared = build.op("Cast", x, attributes=CastAttributes(DType.F32))
    packed = build.op("UniqueGroups", compared, attributes=call.attributes)
    lengths = SplitAttributes(0, (room, rows, room))
    indices, inverse, counts = build.nodes_of("Split", (packed,), lengths, outputs=3)
    if axis is None:
        x = build.op("Reshape", x, attributes=ReshapeAttributes((rows,)))
    y = build.op("Gather", x, indices, attributes=GatherAttributes(axis or 0))
    return y, indices, inverse, counts


def _grouped(call: Call, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First places, group of each row, sizes of the groups."""
    axis: int | None = call.attributes.axis
    rows = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0)
    _, first, inverse, sizes = np.unique(
        rows, return_index=True, return_inverse=True, return_counts=True, axis=0
    )
    if not call.attributes.sorted:
        order = np.argsort(first)
        first, sizes = first[order], sizes[order]
        inverse = np.argsort(order)[inverse]
    room = call.attributes.count
    first, sizes = _filled(first, room), _filled(sizes, room)
    return first.astype(np.int64), inverse.reshape(-1).astype(np.int64), sizes.astype(np.int64)


def _reference_groups(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.concatenate(_grouped(call, x)),)


def _reference_unique(call: Call, x: np.ndarray) -> tuple[np.ndarray, ...]:
    first, inverse, sizes = _grouped(call, x)
    axis: int | None = call.attributes.axis
    source = x.reshape(-1) if axis is None else x
    return np.take(source, first, axis or 0, mode="wrap"), first, inverse, sizes


OPS: tuple[Op, ...] = (
    Op(
        name="NonMaxSuppression",
        inputs=(Param("boxes"), Param("scores")),
        outputs=(Param("selected_indices"),),
        infer=_infer_suppression,
        reference=_reference_suppression,
        compute=Extern(_suppression_body),
        grad=PLACES,
        attributes=NonMaxSuppressionAttributes,
        doc="The best boxes of each class that do not overlap better ones too much.",
    ),
    Op(
        name="NonZero",
        inputs=(Param("x"),),
        infer=_infer_non_zero,
        reference=_reference_non_zero,
        compute=Extern(_non_zero_body),
        grad=PLACES,
        attributes=NonZeroAttributes,
        doc="Where the elements are that are not 0, a column for each.",
    ),
    Op(
        name="Unique",
        inputs=(Param("x"),),
        outputs=(Param("y"), Param("indices"), Param("inverse_indices"), Param("counts")),
        infer=_infer_unique,
        reference=_reference_unique,
        compute=Expand(_expand_unique),
        grad=PLACES,
        attributes=UniqueAttributes,
        doc="Distinct elements, or slices along an axis, with their first places and counts.",
    ),
    Op(
        name="UniqueGroups",
        inputs=(Param("x"),),
        infer=_infer_groups,
        reference=_reference_groups,
        compute=Extern(_groups_body),
        grad=PLACES,
        attributes=UniqueAttributes,
        doc="What Unique finds: first places, the group of each row, counts, one after another.",
    ),
)
