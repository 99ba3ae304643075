"""Non-max suppression."""

from __future__ import annotations

import numpy as np

from weft.dtypes import DType
from weft.ir.graph import Attributes
from weft.ir.types import TensorType
from weft.ops.counted import PLACES, filled, room_of
from weft.ops.ctext import body_text
from weft.ops.record import Call, Extern, ExternBody, Op, Param
from weft.ops.support import at_rank, concrete
from weft.records import dataclass


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


def _literal(value: float) -> str:
    return f"(float){float(np.float32(value))!r}"


def _suppression_body(call: Call) -> ExternBody:
    asked: NonMaxSuppressionAttributes = call.attributes
    batch, boxes = concrete(call, 0)[:2]
    centred, threshold = bool(asked.center_point_box), asked.score_threshold
    first, second = (
        body_text("suppression", "box", box=box, row=row, centred=centred)
        for box, row in (("p", "base + best * 4"), ("q", "base + j * 4"))
    )
    text = body_text(
        "suppression",
        "body",
        batch=batch,
        boxes=boxes,
        classes=concrete(call, 1)[1],
        room=room_of(call),
        most=min(boxes, max(0, asked.max_output_boxes_per_class)),
        any=threshold is None,
        threshold=_literal(threshold or 0.0),
        limit=_literal(asked.iou_threshold),
        first=first,
        second=second,
    )
    return ExternBody(text, max(1, boxes))


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
