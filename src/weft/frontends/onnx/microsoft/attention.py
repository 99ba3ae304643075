"""Attention contrib ops, expressed by the standard's ``Attention``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from onnx import TensorProto

from weft.frontends.onnx.microsoft.body import Body, Writer

_MASKED = -10000.0
"""What is added where a mask is zero, if the call does not say."""


# --- masks ------------------------------------------------------------------------------------


def _penalties(body: Body, allowed: str, like: str) -> str:
    """What is added to scores: nothing where a place is allowed."""
    value = body.given.get("mask_filter_value", _MASKED)
    return body.op("Where", allowed, body.scalar(0, like), body.scalar(value, like))


def _masked(body: Body, place: int, batch: int, keys: str, like: str) -> str:
    """What a mask adds to the scores of queries and keys.

    Args:
        body: of the call.
        place: of the mask: numbers of keys, first and last keys, or which keys are allowed.
        batch: the input that has a batch as first axis.
        keys: how many there are, a scalar.
        like: a value of the type of scores.
    """
    mask, shape = body.taken(place), body.shape(place)
    if len(shape) == 1:
        count = body.size(batch, 0)
        if shape[0] not in (count, 2 * count):
            raise body.refuse(f"with a mask of {shape[0]} numbers for a batch of {count}")
        at = body.op("Cast", body.counted(keys), to=TensorProto.INT32)
        ends, *starts = [mask] if shape[0] == count else body.split(mask, 0, count, count)
        allowed = body.op("Less", at, body.axes(ends, 1))
        if starts:
            begun = body.op("LessOrEqual", body.axes(starts[0], 1), at)
            allowed = body.op("And", allowed, begun)
        allowed = body.axes(allowed, 1, 2)
    elif len(shape) in (2, 3):
        nonzero = body.op("Cast", mask, to=TensorProto.BOOL)
        allowed = body.axes(nonzero, *((1, 2) if len(shape) == 2 else (1,)))
    else:
        raise body.refuse(f"with a mask of {len(shape)} axes")
    return _penalties(body, allowed, like)


def _causal(body: Body, queries: str, past: str, like: str) -> str:
    """What is added where a key comes after its query, of which some have gone before."""
    total = body.op("Add", queries, past)
    last = body.op("Add", body.axes(body.counted(queries), 1), past)
    return _penalties(body, body.op("LessOrEqual", body.axes(body.counted(total), 0), last), like)


def _sum(body: Body, values: Sequence[str]) -> str:
    """The sum of some values; empty without any."""
    total, *rest = values or [""]
    for each in rest:
        total = body.op("Add", total, each)
    return total


# --- attention of projected values ------------------------------------------------------------


def _attend(
    body: Body,
    parts: tuple[str, str, str],
    masks: list[str],
    past: tuple[str, str],
    presents: tuple[str, str],
) -> None:
    """Attention of packed heads as the first output.

    Args:
        body: of the call.
        parts: queries, keys, values, a batch, a sequence and all heads each.
        masks: what is added to scores.
        past: keys and values before these, by heads; empty for none.
        presents: names of keys and values with these; empty where nobody wants them.
    """
    heads = body.given["num_heads"]
    given = {"q_num_heads": heads, "kv_num_heads": heads, **body.chosen("scale")}
    if body.given.get("scale", 0.0) == 0:
        given.pop("scale", None)
    if body.given.get("unidirectional", 0):
        if past[0]:
            gone = body.extent(past[0], 2)
            masks = [*masks, _causal(body, body.extent(parts[0], 1), gone, parts[0])]
        else:
            given["is_causal"] = 1
    outputs = [body.outputs[0], *presents]
    while not outputs[-1]:
        outputs.pop()
    body.node("Attention", [*parts, _sum(body, masks), *past], outputs, **given)


def _keys(body: Body, keys: str, past: str) -> str:
    """How many keys there are, those of the past among them."""
    new = body.extent(keys, 1)
    return body.op("Add", new, body.extent(past, 2)) if past else new


def _shared(
    body: Body, projected: str, sizes: Sequence[int], mask: int, past: int, bias: int
) -> None:
    """Attention of queries, keys and values that lie side by side.

    Args:
        body: of the call.
        projected: these.
        sizes: of queries, keys and values.
        mask: the input that is a mask.
        past: the input of earlier keys and values.
        bias: the input that is added to scores.
    """
    body.only(do_rotary=0, past_present_share_buffer=0)
    q, k, v = body.split(projected, 2, *sizes)
    before, masks = ("", ""), list[str]()
    if body.taken(past):
        halves = body.split(body.taken(past), 0, 1, 1)
        first, second = (body.op("Squeeze", each, body.constant(0)) for each in halves)
        before = first, second
    if body.taken(mask):
        masks.append(_masked(body, mask, 0, _keys(body, k, before[0]), q))
    if body.taken(bias):
        masks.append(body.taken(bias))
    presents = (body.fresh(), body.fresh()) if body.asked(1) else ("", "")
    _attend(body, (q, k, v), masks, before, presents)
    if body.asked(1):
        stacked = [body.axes(each, 0) for each in presents]
        body.op("Concat", *stacked, axis=0, output=body.outputs[1])


def _attention(body: Body) -> None:
    body.without(past_sequence_length=6)
    projected = body.op("MatMul", body.taken(0), body.taken(1))
    if body.taken(2):
        projected = body.op("Add", projected, body.taken(2))
    sizes = body.given.get("qkv_hidden_sizes") or [body.size(1, 1) // 3] * 3
    _shared(body, projected, sizes, 3, 4, 5)


def _quantized(body: Body) -> None:
    zeros = body.taken(6), body.taken(7)
    sums = body.op("MatMulInteger", body.taken(0), body.taken(1), *zeros)
    numbers = body.op("Cast", sums, to=TensorProto.FLOAT)
    scale = body.op("Mul", body.taken(3), body.taken(4))
    projected = body.op("Add", body.op("Mul", numbers, scale), body.taken(2))
    _shared(body, projected, [body.size(1, 1) // 3] * 3, 5, 8, len(body.inputs))


def _multi_head(body: Body) -> None:
    body.without(past_sequence_length=8, cache_indirection=9)
    if body.asked(3):
        raise body.refuse("with scores as output")
    q, k, v = (body.taken(place) for place in range(3))
    if not k or not v or body.rank(0) != 3:
        raise body.refuse("of queries, keys and values in one tensor")
    apart = [body.rank(place) == 4 for place in (1, 2)]
    if body.taken(3):
        wide = body.size(0, 2)
        head = wide // body.given["num_heads"]
        last = body.size(2, 3) * body.given["num_heads"] if apart[1] else body.size(2, 2)
        biases = body.split(body.taken(3), 0, wide, head * body.given["num_heads"], last)
        q = body.op("Add", q, biases[0])
        k, v = (
            each if alone else body.op("Add", each, bias)
            for each, bias, alone in zip((k, v), biases[1:], apart, strict=True)
        )
    k, v = (
        packed(body, each) if alone else each for each, alone in zip((k, v), apart, strict=True)
    )
    past, masks = (body.taken(6), body.taken(7)), list[str]()
    if body.taken(4):
        masks.append(_masked(body, 4, 0, _keys(body, k, past[0]), q))
    if body.taken(5):
        masks.append(body.taken(5))
    _attend(body, (q, k, v), masks, past, (body.asked(1), body.asked(2)))


def packed(body: Body, x: str) -> str:
    """Heads side by side, for each place of a sequence."""
    return body.reshaped(body.op("Transpose", x, perm=[0, 2, 1, 3]), 0, 0, -1)


ATTENTION: Mapping[str, Writer] = MappingProxyType(
    {
        "Attention": _attention,
        "MultiHeadAttention": _multi_head,
        "QAttention": _quantized,
    }
)
"""The function that writes the body of a call, by op name."""
