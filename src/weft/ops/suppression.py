"""Non-max suppression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.counted import PLACES, filled, room_of
from weft.ops.ctext import block, count
from weft.ops.record import Call, Extern, ExternBody, Op, Param
from weft.ops.support import at_rank, concrete


@dataclass(frozen=True, slots=True)
class NonMaxSuppressionAttributes(Attributes):
    """As ONNX has them (no ``score_threshold``: any score will do); room for ``count`` boxes."""

    max_output_boxes_per_class: int = 0
    iou_threshold: float = 0.0
    score_threshold: float | None = None
    center_point_box: int = 0
    count: int | None = None


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
    return (TensorType(DType.I64, (room_of(call), 3)),)


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
    classes, room = concrete(call, 1)[1], room_of(call)
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
    return (filled(np.array(found, np.int64).reshape(-1, 3), asked.count),)


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
)
